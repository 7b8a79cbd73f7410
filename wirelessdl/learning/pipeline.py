"""Rounds of learning in a second thread, one after the other, while this one goes on to the next frames.

What is decided about a frame does not depend on the models: so events, channel, plan and ledger of the rounds to come
need not wait for them. Rounds are handed over one by one, `_DEPTH` at most; who would have to wait takes a piece of the
nodes in the round under way, or draws noise of later rounds, instead. Nodes learn by themselves, and draws are keyed by
node and round: it does not matter who does what and when. Nothing changes but the time.

The interpreter has one lock. A round is a few calls that do not hold it (`fused.py`); the second thread asks for the
lock only between them.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.runtime import one_thread

_DEPTH = 8  # rounds handed over and not done
_AHEAD = 3  # rounds after the last one handed over whose noise may be drawn
_ROOM = 2**22  # numbers that are drawn ahead, all in all; two rounds at least
_SWITCH_S = 1e-5  # after which a thread must let another have the interpreter: a round has a few short turns with it
Purpose = str | int
Result = TypeVar("Result")


class _Pieces:
    """Pieces of a round that two threads take, each with its number: 0 is the second thread, 1 who hands over."""

    def __init__(self, count: int, work: Callable[[int, int], None]):
        self._work, self._turns, self._left = work, iter(range(count)), count
        self._lock, self._done = threading.Lock(), threading.Event()
        self._error: BaseException | None = None

    def take(self, thread: int) -> bool:
        """Do the next piece; False where none is left."""
        piece = next(self._turns, None)  # one step under the interpreter's lock
        if piece is None:
            return False
        try:
            self._work(thread, piece)
        except BaseException as error:
            self._error = error
        with self._lock:
            self._left -= 1
            if not self._left:
                self._done.set()
        return True

    def finish(self) -> None:
        """Until all are done. Raises what one of them raised."""
        while self.take(0):
            pass
        self._done.wait()
        if self._error is not None:
            raise self._error


class Pipeline:
    """draws: for the thread that hands over, alone; like: a tensor of the models' shape."""

    def __init__(self, draws: NodeDraws, like: Tensor):
        self._draws, self._like = draws, like
        self._pool = ThreadPoolExecutor(1, "wirelessdl-learning", initializer=torch.set_num_threads, initargs=(1,))
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))
        self._underway: deque[Future[Any]] = deque()
        self._drawn: dict[tuple[int, Purpose], Tensor] = {}
        self._made, self._most = 0, max(4, _ROOM // like.numel())
        self._free: list[Tensor] = []  # both are changed in single steps under the interpreter's lock
        self._round = 0
        self._shared: _Pieces | None = None
        self._news = threading.Event()  # a round is done, or there are pieces to take
        self._wanted: tuple[Purpose, ...] = ()

    def hand_over(self, round: int, wanted: tuple[Purpose, ...], work: Callable[[], Result]) -> "Future[Result]":
        """Work of a round, to be done after all that was handed over before. wanted: what it takes noise for."""
        self._round, self._wanted = round, wanted
        while len(self._underway) >= _DEPTH:
            self._pass_time()
        return self._submit(work)

    def after(self, work: Callable[[], Result]) -> "Future[Result]":
        """Work to be done after the last round that was handed over, and before the next."""
        return self._submit(work)

    def settle(self) -> None:
        """Until all that was handed over is done. Raises what it raised."""
        while self._underway:
            self._pass_time()

    def normal(self, round: int, purpose: Purpose) -> Tensor | None:
        """Standard normal numbers `[K, m]` of this round, where they are drawn; else the caller draws them."""
        return self._drawn.pop((round, purpose), None)

    def give_back(self, numbers: Tensor) -> None:
        """What `normal` returned is not needed any more."""
        self._free.append(numbers)

    def share(self, count: int, work: Callable[[int, int], None]) -> None:
        """Pieces of the round under way, work(thread, piece); who waits for rounds helps. Second thread only."""
        self._shared = shared = _Pieces(count, work)
        self._news.set()
        shared.finish()

    def restart(self, draws: NodeDraws) -> None:
        """Other draws from here on."""
        self.settle()
        self._drawn.clear()
        self._draws = draws

    def _submit(self, work: Callable[[], Result]) -> "Future[Result]":
        done = self._pool.submit(work)
        done.add_done_callback(lambda _: self._news.set())
        self._underway.append(done)
        return done

    def _pass_time(self) -> None:
        """Until the first that is under way is done, or something useful was done meanwhile."""
        first = self._underway[0]
        self._news.clear()
        if not first.done():
            with one_thread():
                shared = self._shared
                if not ((shared is not None and shared.take(1)) or self._draw_one()):
                    self._news.wait()
            return
        self._underway.popleft()
        first.result()

    def _draw_one(self) -> bool:
        """Draw what a later round will take; whether there was anything left to draw."""
        for round in range(self._round + 1, self._round + 1 + _AHEAD):
            for purpose in self._wanted:
                if (round, purpose) not in self._drawn:
                    if not self._free:
                        if self._made == self._most:
                            return False
                        self._made += 1
                        self._free.append(torch.empty_like(self._like))
                    numbers = self._free.pop()
                    self._draws.fill_normal(numbers, round, purpose)
                    self._drawn[round, purpose] = numbers
                    return True
        return False
