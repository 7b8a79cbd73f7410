"""A frame in time and frequency: one round's pilots, guards and payload slots, in integer nanoseconds; who takes part.

A payload is a grid of resource blocks, slot by subband. N subbands share the bandwidth B: a symbol of a subband takes
N / B, and a slot as long as before, but for the symbols that fill its last row. Every subband has pilots of its own.

A gain may be taken for constant over a tenth of the coherence time, 0.423 over the largest Doppler shift. A
payload that takes longer is cut into slots, each with pilots and gains of its own.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.contract import capability
from wirelessdl.links import Geometry
from wirelessdl.units import SPEED_OF_LIGHT_MPS, to_ns


def subband_offset_hz(bandwidth_hz: float, subbands: int) -> FloatArray:
    """Centre of each subband, from the carrier, `[subbands]` Hz."""
    return np.asarray((np.arange(subbands) - 0.5 * (subbands - 1)) * (bandwidth_hz / subbands))


@dataclass(frozen=True, eq=False)
class AirTime:
    """How long nodes send payload, send their own pilots, and listen in a frame, ns, `[K]` or one number for all."""

    payload_ns: int | IntArray
    pilot_ns: int | IntArray
    listening_ns: int | IntArray


@dataclass(frozen=True)
class Frame:
    """Durations of one round. Each of `slots` goes in `turns`: pilots, guard, payload, guard; pilots are of a turn.

    In between, once a frame: `feedback_ns` before the first payload, for a plan made from the pilots, and
    `exchange_ns` after the last one, for z. Mixing passes send what nodes hold in as many slots again. Where models go
    in coded messages, turns differ in length, and attempts in turns: `uneven_ns` then has the payloads of all turns in
    sequence.
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
    opening: int = 0  # first rounds that have the closing passes, too: those of a Gram stage
    uneven_ns: tuple[int, ...] | None = None  # None: all payloads take payload_ns
    subbands: int = 1

    @staticmethod
    def from_settings(
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
        message: int | None = None,
        subbands: int = 1,
    ) -> "Frame":
        """Two real coordinates per complex symbol, one symbol per hertz and second; pilots one sender at a time.

        senders: how many may send in one turn, all nodes unless said; extra: coordinates besides the model's. message:
        complex symbols that a payload takes instead, where models go in coded messages.
        """
        wanted = math.ceil((parameters + extra) / 2) if message is None else message
        symbols = math.ceil(wanted / slots)
        own_pilot_ns = to_ns(pilots * subbands / bandwidth_hz)
        needed = math.ceil(wanted / symbols)  # a small model may not fill as many slots as asked
        return Frame(
            (nodes if senders is None else senders) * own_pilot_ns,
            own_pilot_ns,
            to_ns(math.ceil(symbols / subbands) * subbands / bandwidth_hz),
            to_ns(guard_s),
            needed,
            symbols,
            turns,
            to_ns(feedback_s),
            to_ns(exchange_s),
            passes,
            closing,
            subbands=subbands,
        )

    @staticmethod
    def silent(parameters: int) -> "Frame":
        """A round in which nothing is sent: it takes no time on air."""
        return Frame(0, 0, 0, 0, symbols=math.ceil(parameters / 2))

    def closes(self, round: int, rounds: int) -> bool:
        """Whether a round has the closing passes."""
        return round >= rounds or round <= self.opening

    def in_round(self, round: int, rounds: int) -> "Frame":
        """The frame of a round: the last one has the closing passes, too."""
        if not self.closing or not self.closes(round, rounds):
            return self
        return replace(self, passes=self.passes + self.closing, closing=0)

    def taking(self, turns: int, uneven_ns: tuple[int, ...] | None = None) -> "Frame":
        """The same with another number of turns, or with payloads of their own."""
        if turns == self.turns and uneven_ns is None:
            return self
        return replace(self, turns=turns, uneven_ns=uneven_ns)

    @property
    def payloads_ns(self) -> Sequence[int]:
        """Payloads of all turns of all slots, in sequence."""
        return self.uneven_ns if self.uneven_ns is not None else [self.payload_ns] * (self.all_slots * self.turns)

    def after_ns(self, payloads_ns: Sequence[int]) -> int:
        """From the opening until the turns with these payloads, the first of the frame, are over."""
        return self.feedback_ns + sum(payloads_ns) + len(payloads_ns) * (self.pilot_ns + 2 * self.guard_ns)

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
    def blocks(self) -> int:
        """Resource blocks of the payload: every subband of every slot."""
        return self.slots * self.subbands

    @property
    def block_symbols(self) -> int:
        """Symbols that follow each other in a block; some blocks of a slot may have one less."""
        return math.ceil(self.symbols / self.subbands)

    @property
    def airtime_ns(self) -> int:
        if self.uneven_ns is not None:
            return self.after_ns(self.uneven_ns) + self.exchange_ns
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

    @property
    def airtime(self) -> AirTime:
        """The same for all nodes; not where payloads are uneven."""
        return AirTime(*self.sending_ns, self.listening_ns)

    def coordinates(self, parameters: int) -> tuple[slice, ...]:
        """Which of the model's coordinates each block carries, slot by slot and there subband by subband."""
        places = [
            n * self.symbols + k * self.symbols // self.subbands
            for n in range(self.slots)
            for k in range(self.subbands)
        ]
        edges = zip(places, [*places[1:], self.slots * self.symbols])
        return tuple(slice(2 * a, min(2 * b, parameters)) for a, b in edges if 2 * a < parameters)


GeometryAt = Callable[[float], Geometry]

COHERENCE = 0.423  # of the largest Doppler shift's period
STATIC_SHARE = 0.1  # of a coherence time over which a gain may be taken for constant
FLAT = 0.1  # subband times delay spread up to which a gain is taken for the whole subband: |R| is 0.95 at its edges
MOST_SLOTS = 64
_INSTANTS = 100


def coherence_s(models: Iterable[Any], geometry: GeometryAt, frequency_hz: float, horizon_s: float) -> float | None:
    """Shortest coherence time of the fading; None where nothing fades or moves."""
    fading = [model for model in models if capability(model, "small_scale")]
    return min(_coherence_times(fading, geometry, frequency_hz, horizon_s), default=None)


def payload_slots(payload_s: float, coherence: float | None) -> int:
    """Slots in which the channel holds still."""
    if coherence is None or payload_s <= STATIC_SHARE * coherence:
        return 1
    slots = math.ceil(payload_s / (STATIC_SHARE * coherence))
    if slots > MOST_SLOTS:
        raise ValueError(
            f"bandwidth_hz is too small; a payload of {payload_s:.3g} s lasts {payload_s / coherence:.3g} times the "
            f"coherence of {coherence:.3g} s and would go in {slots} slots, more than {MOST_SLOTS}: raise it, slow "
            "nodes down, or set payload_slots"
        )
    return slots


def _coherence_times(fading: list[Any], geometry: GeometryAt, frequency_hz: float, horizon_s: float) -> Iterator[float]:
    for model in fading:
        block_s, fixed = capability(model, "coherence_s"), capability(model, "doppler_speed_mps")
        if block_s is not None:
            yield block_s
            continue
        both_mps = fastest_pair_mps(geometry, horizon_s) if fixed is None else 2.0 * fixed
        if both_mps > 0:
            yield COHERENCE * SPEED_OF_LIGHT_MPS / (both_mps * frequency_hz)


def fastest_pair_mps(geometry: GeometryAt, horizon_s: float) -> float:
    """Largest sum of two nodes' speeds over instants of a run."""
    fastest = 0.0
    for time_s in np.linspace(0.0, horizon_s, _INSTANTS).tolist():
        speed = np.linalg.norm(geometry(time_s).velocity_mps, axis=1)
        fastest = max(fastest, float(np.sort(speed)[-2:].sum()))
    return fastest


@dataclass(frozen=True, eq=False)
class Participation:
    """Node states when a frame opens, `[K]` each.

    up: runs. ready: runs and has computed its gradient, so it takes part. listening: ready, but came back from a
    crash and takes the mean of what it hears for its model, without sending. lost: a crash took its gradient since
    the last frame. missed: could be ready, but its report of gains was lost: it has no plan and takes no part.
    compute_s: duration of this round's gradient. battery_j: what is left, inf without a battery.
    """

    up: BoolArray
    ready: BoolArray
    listening: BoolArray
    lost: BoolArray
    missed: BoolArray
    compute_s: FloatArray
    battery_j: FloatArray

    @property
    def willing(self) -> BoolArray:
        """Nodes that send unless a budget keeps them silent, `[K]`."""
        return self.ready & ~self.listening

    @staticmethod
    def everyone(nodes: int) -> "Participation":
        """A frame in which nothing is wrong."""
        yes, no = np.ones(nodes, dtype=bool), np.zeros(nodes, dtype=bool)
        return Participation(yes, yes, no, no, no, np.zeros(nodes), np.full(nodes, np.inf))


@dataclass(frozen=True, eq=False)
class Turns:
    """The turn in which each node sends, `[K]`, and how many turns a slot takes."""

    turn: IntArray
    count: int


@dataclass(frozen=True, eq=False)
class Transmissions:
    """What a round makes of it: who sends `[K]`, in how many turns, and who computes a gradient `[K]`.

    Who is silent takes no step that would have to be sent later; where nobody ever sends, everyone computes. uneven_ns:
    payloads of all turns in sequence, None where the frame says how long they take; airtime: of each node, likewise.
    """

    on_air: BoolArray
    computes: BoolArray
    turns: int = 1
    uneven_ns: tuple[int, ...] | None = None
    airtime: AirTime | None = None
