"""Where tensors live, how many threads work on them, and how they come back."""

import re

import torch
from torch import Tensor

from wirelessdl.arrays import FloatArray
from wirelessdl.errors import ScenarioError


def fetch(tensors: list[Tensor]) -> FloatArray:
    """Tensors of equal shape as one float64 array, in one transfer."""
    return torch.stack(tensors).to(device="cpu", dtype=torch.float64).numpy()


def threads() -> int:
    """How many threads torch computes with; sums depend on it in the last bits."""
    return torch.get_num_threads()


def pick_device(name: str) -> torch.device:
    """The device a name stands for; `auto` takes an accelerator where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", name):
            raise ValueError(name)
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ValueError):
        raise ScenarioError(f'--device is "{name}"; not available here: use auto, cpu, cuda, cuda:N or mps') from None
    return device
