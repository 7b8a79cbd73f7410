"""The clock counts integer nanoseconds: sums of float slots drift, integers do not."""

import math
from dataclasses import dataclass

NS = 1_000_000_000


def to_ns(seconds: float) -> int:
    """Nanoseconds, rounded up so that nothing takes no time by rounding."""
    return math.ceil(round(seconds * NS, 3))


def to_s(nanoseconds: int) -> float:
    return nanoseconds / NS


@dataclass(frozen=True)
class Frame:
    """Durations of one round's slots."""

    pilot_ns: int
    payload_ns: int
    guard_ns: int

    @staticmethod
    def of(*, parameters: int, pilots: int, bandwidth_hz: float, guard_s: float) -> "Frame":
        """Two real coordinates per complex symbol, one symbol per hertz and second."""
        symbols = math.ceil(parameters / 2)
        return Frame(to_ns(pilots / bandwidth_hz), to_ns(symbols / bandwidth_hz), to_ns(guard_s))

    @property
    def airtime_ns(self) -> int:
        return self.pilot_ns + self.payload_ns + 2 * self.guard_ns
