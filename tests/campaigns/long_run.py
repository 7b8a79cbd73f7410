"""A run of many rounds in one process: memory, files and open files do not grow with rounds beyond what is documented.

    python tests/campaigns/long_run.py FOLDER [ROUNDS] [FADING] [in-use]      # 20,000 rounds of rician unless said

Fading, adaptive plans, pilots and crashes: what changes from round to round is on. Every 100 rounds, after the parts of
these are written, the process notes its resident memory without files that it maps, what malloc has given out, Python's
blocks, its open files, and the files in the run directory. The slopes are those of least squares over the second half:
before, caches of allocators fill, and the ledger, which counts releases of every link by noise on a grid of 1,622
cells, meets new cells, both less and less often.

Must hold: less than 5 bytes a round of resident memory (in-use: of memory in use), no more open files than in the first
half, and one file of each table for every `trace.flush_every` rounds beside a constant number. Parts that are written
early where rounds are slow are switched off: on a loaded machine every part would have another number of rows. All that
was noted is left in FOLDER.csv.

in-use: what allocators keep of freed memory is no part of the measure. Memory of Python's objects and of Arrow comes
from malloc, too, which has one arena and no caches of threads (they hold up to 236 kB each, and fill as sizes vary).
What malloc has given out is then all that is in use. NumPy's cache is filled before the first round.
"""

import ctypes
import gc
import math
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from wirelessdl.run import recorder
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import load_scenario

EVERY, MOST_SLOPE = 100, 5.0
# read once, when a process starts: all memory is malloc's, and malloc counts what is in use
IN_USE = {
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1",
    "PYTHONMALLOC": "malloc",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
COLUMNS = ("round", "resident_bytes", "malloc_bytes", "blocks", "open_files", "files", "heap_bytes")
FADING = {"rician": "{model='rician',k_db=12}", "rayleigh": "{model='rayleigh'}"}
SETTINGS = (
    "network.nodes=3",
    "learning.dataset={kind='synthetic',samples=300,test_samples=60,features=8,classes=3}",
    "learning.batch_size=4",
    "learning.eval_every=500",
    "power.schedule=adaptive",
    "radio.csi={kind='pilots',symbols=4}",
    "radio.thermal_noise=true",
    "faults.crashes={kind='exponential',up_s=3.0,down_s=0.1}",
    f"trace.flush_every={EVERY}",
    f"trace.checkpoint_every={EVERY}",
)


class _Malloc(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")),
        *((name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")),
    ]


_LIBRARY = ctypes.CDLL(None)
if hasattr(_LIBRARY, "mallinfo2"):
    _LIBRARY.mallinfo2.restype = _Malloc


def _malloc_bytes():
    """What malloc has given out, and what it holds of the system for that."""
    if not hasattr(_LIBRARY, "mallinfo2"):
        return 0, 0
    told = _LIBRARY.mallinfo2()
    return told.uordblks + told.hblkhd, told.arena + told.hblkhd


def _resident_bytes():
    text = Path("/proc/self/status").read_text()
    return int(text.partition("RssAnon:")[2].split()[0]) * 1024


def fill_numpy_cache():
    """Let NumPy keep all the freed buffers that it ever will: 7 of each size below 1 kB, 3.7 MB in all.

    Arrays of a size that the process had not met before leave one to seven buffers in that cache, for the life of the
    process, and numbers of events and links in 100 rounds go on giving new sizes. A leak is not hidden by the cache:
    arrays that stay take 7 buffers of their size out of it, and then memory of their own.
    """
    kept = [np.ones(size, dtype=np.uint8) for size in range(1, 1024) for _ in range(7)]
    kept.clear()


def _files(folder):
    """Files below a folder. Counted one by one: a list of names would itself grow with rounds."""
    with os.scandir(folder) as entries:
        return sum(_files(entry.path) if entry.is_dir(follow_symlinks=False) else 1 for entry in entries)


def _give_back():
    """Let malloc and Arrow return to the system what they hold and nobody uses."""
    pa.default_memory_pool().release_unused()
    if hasattr(_LIBRARY, "malloc_trim"):
        _LIBRARY.malloc_trim(0)


class Watch:
    """What the process and its run directory hold, every so many rounds."""

    def __init__(self, out, rounds, *, in_use):
        self._in_use = in_use
        # ones, not zeros: memory of zeros is the system's until it is written to
        self.out, self.seen, self.count = out, np.ones((rounds // EVERY + 1, len(COLUMNS))), 0

    def __call__(self, round):
        if round % EVERY != 1 or round == 1:  # what is buffered is one round, always
            return
        gc.collect()
        if self._in_use:
            _give_back()
        files = _files(self.out)
        opened = len(os.listdir("/proc/self/fd"))
        blocks = sys.getallocatedblocks()
        given, held = _malloc_bytes()
        self.seen[self.count] = round, _resident_bytes(), given, blocks, opened, files, held
        if round % 2000 == 1:
            print("ROUND", *self.seen[self.count].astype(int), flush=True)
        self.count += 1


def campaign(folder, rounds, fading, *, in_use=False):
    channel = f"channel.models=[{{model='log-distance'}},{FADING[fading]}]"
    scenario = load_scenario("quickstart", overrides=(*SETTINGS, channel, f"scenario.rounds={rounds}"))
    watch = Watch(folder, rounds, in_use=in_use)
    recorder.PATIENCE_S = math.inf
    if in_use:
        fill_numpy_cache()
    run = simulate(scenario, out=folder, on_round=watch)
    seen = watch.seen[: watch.count]
    late = seen[seen[:, 0] > rounds / 2]
    resident, malloc, blocks = (np.polyfit(late[:, 0], late[:, column], 1)[0] for column in (1, 2, 3))
    tables = sum(1 for path in run.path.iterdir() if path.is_dir() and any(path.glob("part-*.parquet")))
    np.savetxt(
        folder.with_name(f"{folder.name}.csv"), seen, fmt="%d", delimiter=",", header=",".join(COLUMNS), comments=""
    )
    files = _files(folder)
    most_files = tables * -(-rounds // EVERY) + 12
    found = []
    name, slope = ("memory in use", malloc) if in_use else ("resident memory", resident)
    if slope >= MOST_SLOPE:
        found.append(f"{name} grows by {slope:.2f} bytes a round")
    if late[:, 4].max() > seen[seen[:, 0] <= rounds / 2][:, 4].max():
        found.append(f"open files grow to {late[:, 4].max():.0f}")
    if files > most_files:
        found.append(f"{files} files, at most {most_files} are documented")
    for line in found:
        print(f"FOUND {line}", flush=True)
    print(
        f"long_run: {len(run.rounds)} rounds in {run.summary['wall_s']:.0f} s; resident memory {resident:.2f} bytes a "
        f"round, malloc {malloc:.2f}, Python's blocks {blocks:.4f} a round; {late[:, 1].max() / 1e6:.1f} MB at most; "
        f"open files {late[:, 4].min():.0f} to {late[:, 4].max():.0f}; {files} files in {tables} tables; {len(found)} "
        "found",
        flush=True,
    )
    return len(found)


if __name__ == "__main__":
    place, *rest = sys.argv[1:]
    if "in-use" in rest and not IN_USE.items() <= os.environ.items():
        os.environ.update(IN_USE)
        os.execv(sys.executable, [sys.executable, *sys.argv])
    rounds, fading = int(rest[0]) if rest else 20_000, rest[1] if len(rest) > 1 else "rician"
    raise SystemExit(min(campaign(Path(place).resolve(), rounds, fading, in_use="in-use" in rest), 1))
