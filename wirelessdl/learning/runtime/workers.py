"""A few threads that share nodes among them, each with one torch thread.

Torch's own threads split single operations; a node's operations are too small for that to pay. Here each
thread takes whole nodes. What comes out does not depend on how many threads there are, since nodes are
cut into the same pieces whoever takes them.
"""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch


class Workers:
    """`count` threads, the calling one among them."""

    def __init__(self, count: int):
        self.count = max(1, count)
        self._pool: ThreadPoolExecutor | None = None

    def each(self, pieces: int, work: Callable[[int, int], None]) -> None:
        """Call work(worker, piece) once for every piece; whoever is free takes the next."""
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
                    other.exception()  # nobody may still be at work when the buffers are used again
        for other in waiting:
            other.result()


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Torch's own threads asleep meanwhile, where wanted."""
    threads = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
