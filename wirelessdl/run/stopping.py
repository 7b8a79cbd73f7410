"""Stopping rules: training ends once mean accuracy stays within a narrow band.

    window     the last n evaluations lie within the band of each other: max - min <= within
    anchored   as the paper prints it, |acc(t+k) - acc(t)| <= within for k = 1 .. n: n + 1 evaluations, all compared
               with the first of them. Values may differ by twice the band among each other, and noise of a single
               evaluation at t spoils the n that follow

Either may never be met; the run then takes all its rounds, and the summary says so. A run that stopped and is extended
counts from the next evaluation on, so that its evaluations alone tell where the rule stands, whatever interrupts it.

When to stop depends on the data. An epsilon read off at the stop is an odometer, not a guarantee that was fixed
beforehand; what was promised is the total at the declared number of rounds, so both are told.
"""

from collections import deque
from typing import Literal, TypeAlias

StopRule: TypeAlias = Literal["window", "anchored"]
_ROUNDING = 1e-12  # accuracies that differ by the band exactly are within it


class Plateau:
    """Whether the newest evaluations lie within a band; never, when count is 0."""

    def __init__(self, count: int, within: float, rule: StopRule = "window"):
        self._count, self._within, self._rule = count, within, rule
        self._recent: deque[float] = deque(maxlen=count + 1 if rule == "anchored" else max(count, 1))

    @property
    def wanted(self) -> bool:
        return self._count > 0

    def add(self, accuracy: float) -> None:
        if self.reached:  # a run goes past a rule that is met only where it is extended, and then counts anew
            self._recent.clear()
        self._recent.append(accuracy)

    @property
    def reached(self) -> bool:
        if not self.wanted or len(self._recent) < (self._recent.maxlen or 0):
            return False
        if self._rule == "anchored":
            first = self._recent[0]
            return all(abs(later - first) <= self._within + _ROUNDING for later in self._recent)
        return max(self._recent) - min(self._recent) <= self._within


class Enough(Exception):
    """Training has come to rest."""
