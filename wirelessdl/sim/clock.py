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
    """Durations of one round: `slots` times pilots, guard, payload, guard. Durations are of one slot."""

    pilot_ns: int
    own_pilot_ns: int  # of it, each node's own turn
    payload_ns: int
    guard_ns: int
    slots: int = 1
    symbols: int = 0  # complex symbols a slot carries

    @staticmethod
    def of(*, parameters: int, nodes: int, pilots: int, bandwidth_hz: float, guard_s: float, slots: int = 1) -> "Frame":
        """Two real coordinates per complex symbol, one symbol per hertz and second; pilots one node at a time."""
        symbols = math.ceil(math.ceil(parameters / 2) / slots)
        own_pilot_ns = to_ns(pilots / bandwidth_hz)
        needed = math.ceil(math.ceil(parameters / 2) / symbols)  # a small model may not fill as many slots as asked
        return Frame(nodes * own_pilot_ns, own_pilot_ns, to_ns(symbols / bandwidth_hz), to_ns(guard_s), needed, symbols)

    @property
    def slot_ns(self) -> int:
        return self.pilot_ns + self.payload_ns + 2 * self.guard_ns

    @property
    def airtime_ns(self) -> int:
        return self.slots * self.slot_ns

    def coordinates(self, parameters: int) -> tuple[slice, ...]:
        """Which coordinates each slot carries."""
        width = 2 * self.symbols
        return tuple(slice(n * width, min((n + 1) * width, parameters)) for n in range(self.slots))
