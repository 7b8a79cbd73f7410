"""What a run will hold in memory, worked out before anything is allocated, and what there is."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

_GROUPS = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class Need:
    """Bytes by what holds them."""

    models: int  # x, what is sent or stepped, what is received
    data: int  # samples as stored, test set as features
    batches: int  # buffers of all threads
    layers: int  # what samples leave in layers, and gradients on their way
    evaluation: int
    mixing: int

    @property
    def total(self) -> int:
        return self.models + self.data + self.batches + self.layers + self.evaluation + self.mixing

    def formatted(self) -> str:
        parts = ((name, size) for name, size in vars(self).items() if size >= self.total / 100)
        return f"{format_size(self.total)} ({', '.join(f'{name} {format_size(size)}' for name, size in parts)})"


def available(device: torch.device) -> int:
    """Bytes that can be had on a device now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    page, total = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    free = page * total
    try:  # what the system could free counts too, where it tells
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
        free = min(free, int(_GROUPS.read_text()))
    except (OSError, ValueError, StopIteration):
        pass
    return free


def most_nodes(need: Callable[[int], Need], nodes: int, limit: int) -> int:
    """The largest network whose need is within a limit; 0 where none is."""
    low, high = 0, nodes
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if need(middle).total <= limit else (low, middle)
    return low


def format_size(size: float) -> str:
    """Bytes for people."""
    power = min(int(math.log(max(size, 1), 1000)), 4)
    return f"{size / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"
