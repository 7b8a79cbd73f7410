"""The paper's stopping rule: training ends once mean accuracy stays within a narrow band.

When to stop then depends on the data. An epsilon read off at the stop is an odometer, not a guarantee that was
fixed beforehand; what was promised is the total at the declared number of rounds, so both are told.
"""

from collections import deque


class Plateau:
    """Whether the last `count` evaluations lie within a band; never, when count is 0."""

    def __init__(self, count: int, within: float):
        self._count, self._within = count, within
        self._recent: deque[float] = deque(maxlen=max(count, 1))

    @property
    def wanted(self) -> bool:
        return self._count > 0

    def add(self, accuracy: float) -> None:
        self._recent.append(accuracy)

    @property
    def reached(self) -> bool:
        full = self.wanted and len(self._recent) == self._count
        return full and max(self._recent) - min(self._recent) <= self._within


class Enough(Exception):
    """Training has come to rest."""
