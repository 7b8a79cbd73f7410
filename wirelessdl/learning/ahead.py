"""A second thread beside the rounds: it draws the noise of rounds to come and evaluates models meanwhile.

Draws are keyed by node and round, so it does not matter who makes them or when. Handing work to another thread takes
longer than drawing the noise of one small round: the interpreter has one lock, and a core that sleeps wakes up slowly.
So noise is drawn for several rounds at a time, into one of two rooms while the other is used. Work that has not begun
when it is needed is done by the one who needs it.
"""

import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from wirelessdl.learning.draws import NodeDraws

MOST_NUMBERS = 2**22  # in all models: beyond, noise is drawn by all threads at once, and not kept
_ROOM = 2**20  # numbers that are drawn at a time, of each kind; a round at least
_ROUNDS = 16  # at most
_SWITCH_S = 5e-4  # after which a thread must let another have the interpreter: by default as long as half a round

Purpose = str | int


class Ahead:
    """Noise of rounds to come. draws: for this thread alone; like: a tensor of the models' shape."""

    def __init__(self, draws: NodeDraws, like: Tensor):
        self._draws, self._like = draws, like
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))
        self._pool = ThreadPoolExecutor(1, "wirelessdl-ahead", initializer=torch.set_num_threads, initargs=(1,))
        self.rounds = max(1, min(_ROUNDS, _ROOM // like.numel()))
        self._rooms: dict[tuple[int, Purpose], Tensor] = {}
        self._blocks: dict[tuple[int, Purpose], Future[None]] = {}
        self._used: set[Purpose] = set()

    def normal(self, round: int, purpose: Purpose) -> Tensor | None:
        """Standard normal numbers, `[K, m]`, to be read before `expect`; None where they are not drawn yet."""
        self._used.add(purpose)
        block, place = divmod(round, self.rounds)
        drawn = self._blocks.get((block, purpose))
        if drawn is None or drawn.cancelled() or drawn.cancel():
            return None
        drawn.result()
        return self._rooms[block % 2, purpose][place]

    def expect(self, round: int) -> None:
        """Rounds before this one are over: begin what the next ones will take, if what they took shows it."""
        block = round // self.rounds
        for key in [key for key in self._blocks if key[0] < block]:
            del self._blocks[key]
        for purpose in self._used:
            if (block + 1, purpose) not in self._blocks:
                self._blocks[block + 1, purpose] = self._pool.submit(self._fill, block + 1, purpose, self._draws)
        if round % self.rounds == 0:
            self._used.clear()

    def _fill(self, block: int, purpose: Purpose, draws: NodeDraws) -> None:
        room = self._rooms.get((block % 2, purpose))
        if room is None:
            shape = (self.rounds, *self._like.shape)
            room = self._rooms[block % 2, purpose] = torch.empty(shape, dtype=self._like.dtype)
        for place, rows in enumerate(room):
            draws.fill_normal(rows, block * self.rounds + place, purpose)

    def restart(self, draws: NodeDraws) -> None:
        """Other draws from here on; what was drawn ahead is forgotten."""
        for one in self._blocks.values():
            if not one.cancel():
                one.result()
        self._blocks.clear()
        self._draws = draws

    def evaluate(self, accuracy: Callable[[Tensor], Tensor], models: Tensor) -> Future[Tensor]:
        """Accuracy of models as they are now."""
        return self._pool.submit(accuracy, models.clone())
