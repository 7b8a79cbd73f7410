"""Memory of this machine: what is free, and whether something fits before it is allocated.

A number in a scenario must not be able to take the machine down: whatever grows with one is checked here first.
"""

import contextlib
import ctypes
import gc
import os
import resource
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

OBJECTS_PER_COLLECTION = 100_000  # made and not dropped, after which Python looks for circles among them
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")  # limit of a container, where there is one


def free_bytes() -> int:
    """Bytes that can be allocated now; memory that the system could free counts too, where it is reported."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
        free = min(free, int(CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError, StopIteration):
        pass
    return min(free, _left_to_process())


def _left_to_process() -> int:
    """Bytes that limits of the process (`ulimit -v`, `ulimit -d`) leave; where its use is not reported, all of them."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        lines = []
    used = {
        name: 1024 * int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines) if "kB" in rest
    }
    limits = {"VmSize": resource.RLIMIT_AS, "VmData": resource.RLIMIT_DATA}
    left = [
        limit - used.get(name, 0)
        for name, kind in limits.items()
        if (limit := resource.getrlimit(kind)[0]) != resource.RLIM_INFINITY
    ]
    return max(0, min(left, default=sys.maxsize))


def format_size(size: float) -> str:
    """Bytes as a text, in B to TB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def require_free(what: str, needed: float, remedy: str) -> None:
    """Raise a ValueError unless so many bytes are free. what: key and value, as messages begin."""
    free = free_bytes()
    if needed > free:
        raise ValueError(f"{what}; needs {format_size(needed)} of memory, {format_size(free)} are free: {remedy}")


def require_room_unpacked(what: str, path: Path) -> None:
    """Raise a ValueError unless free memory holds what an archive of arrays unpacks to: zeros pack a thousandfold."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        require_free(what, unpacked, "bring fewer numbers")


def give_back() -> None:
    """Return freed memory to the system: between runs of one process hundreds of megabytes would stay.

    What a run leaves behind refers to itself in circles, events and engine; then the C library keeps what is free.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # other C libraries have no such call
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def fewer_collections() -> Iterator[None]:
    """Let Python look for circles of garbage a hundred times less often: rounds make many objects and few circles."""
    before = gc.get_threshold()
    if 0 < before[0] < OBJECTS_PER_COLLECTION:
        gc.set_threshold(OBJECTS_PER_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
