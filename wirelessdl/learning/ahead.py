"""A second thread beside the round: it draws the next round's noise, gathers its batch, evaluates the last models.

Draws are keyed by node and round, so it does not matter who makes them or when. Between two rounds the first thread is
busy with events, channel, plan and ledger; both threads share one interpreter, so what the second does must be a few
long operations. Work that it has not begun when it is needed is done by the one who needs it.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from wirelessdl.learning.batch import Batch
from wirelessdl.learning.draws import NodeDraws

MOST_NUMBERS = 2**22  # in all models: beyond, noise is drawn by all threads at once, and not kept


class Ahead:
    """Noise and batch of the round to come. draws: for this thread alone; like: a tensor of the models' shape."""

    def __init__(self, draws: NodeDraws, like: Tensor):
        self._draws, self._like = draws, like
        self._pool = ThreadPoolExecutor(1, "wirelessdl-ahead", initializer=torch.set_num_threads, initargs=(1,))
        self._rows: dict[str | int, Tensor] = {}
        self._coming: dict[tuple[int, str | int], Future[None]] = {}
        self._used: list[str | int] = []
        self._batch: tuple[int, Future[Batch]] | None = None

    def normal(self, round: int, purpose: str | int) -> Tensor | None:
        """Standard normal numbers, `[K, m]`, valid until `expect`; None where they are not drawn yet."""
        self._used.append(purpose)
        drawn = self._coming.pop((round, purpose), None)
        if drawn is None or drawn.cancel():
            return None
        drawn.result()
        return self._rows[purpose]

    def expect(self, round: int) -> None:
        """What was drawn for a round is not needed any more: draw for the next one what it took."""
        self._coming = {key: one for key, one in self._coming.items() if not one.cancel() and not one.done()}
        for purpose in self._used:
            rows = self._rows.setdefault(purpose, torch.empty_like(self._like))
            self._coming[round, purpose] = self._pool.submit(self._draws.fill_normal, rows, round, purpose)
        self._used.clear()

    def restart(self, draws: NodeDraws) -> None:
        """Other draws from here on; what was drawn ahead is forgotten."""
        for one in self._coming.values():
            if not one.cancel():
                one.result()
        self._coming.clear()
        self.batch(0)
        self._draws = draws

    def prepare(self, round: int, gather: Callable[[NodeDraws], Batch]) -> None:
        """Gather the batch of a round; what it was gathered into before is not needed any more."""
        if self._batch is not None:
            self._batch[1].cancel()
        self._batch = (round, self._pool.submit(gather, self._draws))

    def batch(self, round: int) -> Batch | None:
        """The batch of a round, valid until `prepare`; None where it is not gathered yet."""
        coming, self._batch = self._batch, None
        if coming is None or coming[1].cancel():
            return None
        found = coming[1].result()
        return found if coming[0] == round else None

    def evaluate(self, accuracy: Callable[[Tensor], Tensor], models: Tensor) -> Future[Tensor]:
        """Accuracy of models as they are now."""
        return self._pool.submit(accuracy, models.clone())
