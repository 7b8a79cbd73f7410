"""A frame in time: one round's pilots, guards and payload slots, in integer nanoseconds."""

import math
from dataclasses import dataclass, replace

from wirelessdl.units import to_ns


@dataclass(frozen=True)
class Frame:
    """Durations of one round. Each of `slots` goes in `turns`: pilots, guard, payload, guard; pilots are of a turn.

    In between, once a frame: `feedback_ns` before the first payload, for a plan made from the pilots, and
    `exchange_ns` after the last one, for z. Mixing passes send what nodes hold in as many slots again.
    """

    pilot_ns: int
    own_pilot_ns: int  # of it, each node's own
    payload_ns: int
    guard_ns: int
    slots: int = 1
    symbols: int = 0  # complex symbols a slot carries
    turns: int = 1  # full duplex 1; half duplex 2; one sender after another: as many as it takes
    feedback_ns: int = 0
    exchange_ns: int = 0
    passes: int = 0  # mixing passes after the payload
    closing: int = 0  # further ones in the last round

    @staticmethod
    def of(
        *,
        parameters: int,
        nodes: int,
        pilots: int,
        bandwidth_hz: float,
        guard_s: float,
        slots: int = 1,
        turns: int = 1,
        senders: int | None = None,
        extra: int = 0,
        feedback_s: float = 0.0,
        exchange_s: float = 0.0,
        passes: int = 0,
        closing: int = 0,
    ) -> "Frame":
        """Two real coordinates per complex symbol, one symbol per hertz and second; pilots one sender at a time.

        senders: how many may send in one turn, all nodes unless said; extra: coordinates besides the model's.
        """
        wanted = math.ceil((parameters + extra) / 2)
        symbols = math.ceil(wanted / slots)
        own_pilot_ns = to_ns(pilots / bandwidth_hz)
        needed = math.ceil(wanted / symbols)  # a small model may not fill as many slots as asked
        return Frame(
            (nodes if senders is None else senders) * own_pilot_ns,
            own_pilot_ns,
            to_ns(symbols / bandwidth_hz),
            to_ns(guard_s),
            needed,
            symbols,
            turns,
            to_ns(feedback_s),
            to_ns(exchange_s),
            passes,
            closing,
        )

    @staticmethod
    def silent(parameters: int) -> "Frame":
        """A round in which nothing is sent: it takes no time on air."""
        return Frame(0, 0, 0, 0, symbols=math.ceil(parameters / 2))

    def in_round(self, round: int, rounds: int) -> "Frame":
        """The frame of a round: the last one has the closing passes, too."""
        if round < rounds or not self.closing:
            return self
        return replace(self, passes=self.passes + self.closing, closing=0)

    def taking(self, turns: int) -> "Frame":
        """The same with another number of turns."""
        return self if turns == self.turns else replace(self, turns=turns)

    @property
    def turn_ns(self) -> int:
        return self.pilot_ns + self.payload_ns + 2 * self.guard_ns

    @property
    def slot_ns(self) -> int:
        return self.turns * self.turn_ns

    @property
    def all_slots(self) -> int:
        """Slots of the payload and of all passes."""
        return self.slots * (1 + self.passes)

    @property
    def airtime_ns(self) -> int:
        return self.all_slots * self.slot_ns + self.feedback_ns + self.exchange_ns

    def opens_ns(self, slot: int) -> int:
        """When a slot begins, from the start of the frame."""
        return slot * self.slot_ns + (self.feedback_ns if slot else 0)

    @property
    def sending_ns(self) -> tuple[int, int]:
        """How long a node sends payload, that of passes included, and its own pilots, in a frame."""
        return self.all_slots * self.payload_ns, self.all_slots * self.own_pilot_ns

    @property
    def listening_ns(self) -> int:
        """How long a receiver listens: through all turns but, where it cannot do both at once, its own."""
        return self.all_slots * max(1, self.turns - 1) * (self.pilot_ns + self.payload_ns)

    def coordinates(self, parameters: int) -> tuple[slice, ...]:
        """Which of the model's coordinates each slot carries."""
        width = 2 * self.symbols
        every = (slice(n * width, min((n + 1) * width, parameters)) for n in range(self.slots))
        return tuple(part for part in every if part.start < part.stop)
