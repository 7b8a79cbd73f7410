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
    own_pilot_ns: int  # of it, each node's own turn
    payload_ns: int
    guard_ns: int

    @staticmethod
    def of(*, parameters: int, nodes: int, pilots: int, bandwidth_hz: float, guard_s: float) -> "Frame":
        """Two real coordinates per complex symbol, one symbol per hertz and second; pilots one node at a time."""
        symbols = math.ceil(parameters / 2)
        own_pilot_ns = to_ns(pilots / bandwidth_hz)
        return Frame(nodes * own_pilot_ns, own_pilot_ns, to_ns(symbols / bandwidth_hz), to_ns(guard_s))

    @property
    def airtime_ns(self) -> int:
        return self.pilot_ns + self.payload_ns + 2 * self.guard_ns
