"""Device, memory, threads and settings of the learning engine.

The memory that a run needs is computed before anything is allocated. `Workers` are threads with one torch thread each,
and each takes whole nodes: torch's own threads split single operations, and a node's operations are too small for that
to pay. Results do not depend on the number of threads, since nodes are always cut into the same pieces.
"""

import itertools
import math
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import USUAL_ERRORS, FloatArray
from wirelessdl.contract import capability
from wirelessdl.errors import ScenarioError
from wirelessdl.learning.models.module import ModuleLearner
from wirelessdl.memory import format_size, free_bytes
from wirelessdl.mixing import is_sparse

if TYPE_CHECKING:
    from wirelessdl.learning.engine import LearningEngine


def fetch(tensors: list[Tensor]) -> FloatArray:
    """Tensors of equal shape as one float64 array, in one transfer."""
    return torch.stack(tensors).to(device="cpu", dtype=torch.float64).numpy()


def threads() -> int:
    """Number of threads that torch uses; sums depend on it in the last bits."""
    return torch.get_num_threads()


# GNU OpenMP's threads do not survive a fork: the first operation that asks for them would wait forever
os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def use_threads(count: int) -> None:
    """Torch uses so many threads in this process from here on: other processes use the other cores."""
    torch.set_num_threads(count)


@contextmanager
def own_settings() -> Iterator[None]:
    """Inside, torch and NumPy are set as in a fresh process, whatever a notebook has set: so are results.

    Default type and device of tensors, gradients, inference, lower precision, and what NumPy does of errors.
    """
    with ExitStack() as held:
        held.enter_context(np.errstate(**USUAL_ERRORS))
        held.enter_context(torch.inference_mode(False))
        held.enter_context(torch.enable_grad())
        for device in ("cpu", "cuda", "mps"):
            if torch.is_autocast_enabled(device):
                held.enter_context(torch.autocast(device, enabled=False))
        if torch.get_default_device().type != "cpu":  # every call is slower for it
            held.enter_context(torch.device("cpu"))
        held.enter_context(_USUAL_TYPE)
        yield


class _UsualType:
    """New tensors are float32 inside. The default belongs to the process: the last run to end gives it back."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = Lock(), 0, torch.float32

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = torch.get_default_dtype()
            self._inside += 1
            torch.set_default_dtype(torch.float32)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                torch.set_default_dtype(self._before)


_USUAL_TYPE = _UsualType()


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


@dataclass(frozen=True)
class Need:
    """Bytes by what holds them."""

    models: int  # x, what is sent or stepped, what is received
    data: int  # samples as stored, test set as features
    batches: int  # buffers of all threads, or full batches of all nodes
    layers: int  # what samples leave in layers, and gradients on their way
    evaluation: int
    mixing: int

    @property
    def total(self) -> int:
        return self.models + self.data + self.batches + self.layers + self.evaluation + self.mixing

    def formatted(self) -> str:
        parts = ((name, size) for name, size in vars(self).items() if size >= self.total / 100)
        return f"{format_size(self.total)} ({', '.join(f'{name} {format_size(size)}' for name, size in parts)})"


def memory_need(engine: "LearningEngine", nodes: int) -> Need:
    """Memory of a network of this size with the same mean degree, known before any of it is allocated."""
    learner, data, settings, strategy = engine.learner, engine.data, engine.settings, engine.strategy
    size, width, classes = learner.size, engine.dtype.itemsize, max(1, data.classes)
    tests, batch, features = len(data.test_y), engine.sampler.width, data.features + 1
    at_once = min(nodes, strategy.chunk) * strategy.workers
    numbers = capability(learner, "activations") or sum(
        shape[0] for shape in capability(learner, "shapes") or [(classes,)]
    )
    module = isinstance(learner, ModuleLearner)
    in_layers = min(tests, 500) * numbers * strategy.workers if module else 0
    scores = min(nodes, engine.evaluated_at_once) * strategy.workers * tests * classes * 2
    # weights of a slot, as they come and as they are multiplied: all pairs, or links and where they are
    links = None if settings.links is None else math.ceil(settings.links / engine.nodes * nodes)
    dense = links is None or not is_sparse(nodes, links)
    return Need(
        models=(4 if settings.passes else 3) * nodes * size * width
        + (8 * nodes * size if settings.evaluated == "own" else 0),
        data=data.train_x.nbytes + tests * features * width,
        # once more in float64, to be summed
        batches=at_once * batch * features * (width + 9) + (nodes * batch * features * width * engine.keeps_batches),
        layers=at_once * (3 * batch * numbers + (2 * size if module else 0)) * width,
        evaluation=(scores + in_layers) * width,
        mixing=2 * nodes * nodes * 8 if dense or links is None else 2 * (links + nodes) * 16,
    )


def require_memory(engine: "LearningEngine") -> None:
    """Raise ValueError where a run does not fit into what can be allocated now."""
    need, device = memory_need(engine, engine.nodes), engine.device
    free = int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else free_bytes()
    if need.total > free:
        fits = bisect_right(range(1, engine.nodes), free, key=lambda nodes: memory_need(engine, nodes).total)
        remedy = f"{fits} nodes would fit" if fits else "use a smaller model or batch_size"
        raise ValueError(f"learning needs {need.formatted()}; {format_size(free)} are free on {device}: {remedy}")


class Workers:
    """`count` threads, the calling one among them."""

    def __init__(self, count: int):
        self.count = max(1, count)
        self._pool: ThreadPoolExecutor | None = None

    def each(self, pieces: int, work: Callable[[int, int], None]) -> None:
        """Call work(worker, piece) once for every piece; the next free thread takes the next piece."""
        helpers = min(self.count, pieces) - 1
        if helpers < 1:
            for piece in range(pieces):
                work(0, piece)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count - 1, initializer=torch.set_num_threads, initargs=(1,))
        turns = itertools.count()  # its next() is one step under the interpreter's lock

        def take(worker: int) -> None:
            while (piece := next(turns)) < pieces:
                work(worker, piece)

        with one_thread():
            waiting = [self._pool.submit(take, worker) for worker in range(1, helpers + 1)]
            try:
                take(0)
            finally:
                for other in waiting:
                    other.exception()  # no thread may still be running when the buffers are used again
        for other in waiting:
            other.result()

    def close(self) -> None:
        """End the threads; others are started where they are needed again."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Torch uses one thread inside, where wanted."""
    threads = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
