"""Digital access: models as quantised, coded messages, one sender at a time, repeated until its neighbours have them.

    bits of a message    b m + 32 ceil(m / block)       b bits per coordinate, a 32-bit scale per block of coordinates
    rate of sender j     R_j = min over its neighbours i of log2(1 + SINR_ij / (gap margin)), from mean gains
    an attempt           ceil(bits / R_j) complex symbols at the power budget, in as many slots as a payload has
    what i gets of it    I_ij = mean over the slots of log2(1 + SINR_ij / gap), from the gains of the attempt
    i has the message    once I_ij >= R_j; with combining, once I_ij of all attempts together is

    R, I     bits per complex symbol, which is bit/s/Hz; R is at most rate_max
    gap      loss of a real code and modulation against capacity, linear; margin: kept for fading, linear
    SINR     over thermal noise, jammers, and strangers that send in the same turn; the rate is chosen without jammers

A multicast has one rate, that of the weakest neighbour which rate_min reaches by mean gains; weaker ones may have luck,
and nobody repeats for them. A message is sent again while a neighbour that it was planned for lacks it, `attempts`
times at most; a link without the message after that is in outage. A repetition has pilots and gains of its own; turns
in which nobody repeats are skipped. Acknowledgements, a bit each, go in the guard interval after an attempt.

Which attempt succeeds depends on gains, powers and who is on air, and on nothing that depends on data.

What it is not: single packets with errors of their own, a rate that follows fast fading, or a code of finite length
other than by its gap.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.radio.access import Turns
from wirelessdl.radio.frame import AirTime, Frame
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.radio.sinr import sinr
from wirelessdl.units import from_db, to_ns

SCALE_BITS = 32  # of a block's scale, a single-precision number

# |h| of all that is heard, slot by slot, at instants from the opening of the frame, ns
Later = Callable[[Sequence[int]], Sequence[FloatArray]]


@dataclass(frozen=True)
class Coding:
    """How messages are made and sent.

    bits: per coordinate; block: coordinates per scale. rate_bps_hz: None where it follows the mean gains, up to
    rate_max_bps_hz. attempts: of a message, at most. combining: whether attempts add up.
    """

    bits: int
    block: int
    rate_bps_hz: float | None
    rate_min_bps_hz: float
    rate_max_bps_hz: float
    gap_db: float
    margin_db: float
    attempts: int
    combining: bool

    def message_bits(self, coordinates: int) -> int:
        """Coordinates and scales."""
        return self.bits * coordinates + SCALE_BITS * math.ceil(coordinates / self.block)

    @property
    def fastest_bps_hz(self) -> float:
        """The largest rate that a sender may choose."""
        return self.rate_max_bps_hz if self.rate_bps_hz is None else self.rate_bps_hz


@dataclass(frozen=True, eq=False)
class Delivery:
    """What became of the messages of a frame.

    rate_bps_hz: [K] of each sender, 0 for who does not send. attempts: [K]. part_ns: [K] how long each sends in one
    turn. decoded_in: [links] the attempt in which each of the graph's links had the message; 0: outage. payloads_ns: of
    all turns in sequence. airtime: how long nodes send and listen.
    """

    rate_bps_hz: FloatArray
    attempts: IntArray
    part_ns: IntArray
    decoded_in: IntArray
    payloads_ns: tuple[int, ...]
    airtime: AirTime

    @property
    def arrived(self) -> BoolArray:
        """[links] whether the receiver has the message."""
        return np.asarray(self.decoded_in > 0)


class Messages:
    """Delivers the messages of a frame. power_w: [K] budgets; thermal_w: receiver noise, W; coordinates: of a model."""

    def __init__(
        self,
        coding: Coding,
        frame: Frame,
        *,
        coordinates: int,
        bandwidth_hz: float,
        power_w: FloatArray,
        thermal_w: float,
    ):
        self.coding, self._frame, self._bandwidth_hz = coding, frame, bandwidth_hz
        self._power_w, self._thermal_w = power_w, thermal_w
        self.bits = coding.message_bits(coordinates)
        self._gap, self._margin = from_db(coding.gap_db), from_db(coding.margin_db)

    def rates(self, channel: FrameChannel, on_air: BoolArray, turns: Turns) -> tuple[FloatArray, BoolArray]:
        """Rate of each sender, `[K]` bit/s/Hz, and for which of the graph's links it was planned, `[links]`."""
        coding, links = self.coding, channel.links
        expected = np.log2(1.0 + self._sinr(channel, channel.mean, on_air, turns, None) / (self._gap * self._margin))
        expected = np.minimum(channel.of_links(expected), coding.rate_max_bps_hz)
        if coding.rate_bps_hz is not None:
            return np.where(on_air, coding.rate_bps_hz, 0.0), np.ones(len(links), dtype=bool)
        planned = expected >= coding.rate_min_bps_hz
        served = np.bincount(links.tx[planned], minlength=links.nodes) > 0
        planned = planned | ~served[links.tx]  # whom nobody hears well sends as slowly as it may, to all
        rate = np.full(links.nodes, np.inf)
        np.minimum.at(rate, links.tx[planned], np.maximum(expected[planned], coding.rate_min_bps_hz))
        alone = np.isinf(rate)  # nobody listens
        return np.where(on_air, np.where(alone, coding.rate_max_bps_hz, rate), 0.0), planned

    def deliver(self, channel: FrameChannel, on_air: BoolArray, turns: Turns, later: Later) -> Delivery:
        """The attempts of a frame, one cycle of turns after another. channel: among who sends and who listens."""
        coding, frame, links = self.coding, self._frame, channel.links
        chosen, planned = self.rates(channel, on_air, turns)
        parts = self._parts(chosen)
        part_ns = np.array([to_ns(symbols / self._bandwidth_hz) for symbols in parts.tolist()], dtype=np.int64)
        # a message fills whole symbols of every slot, so it is at most as fast as chosen
        rate = np.divide(self.bits, parts * frame.slots, out=np.zeros(links.nodes), where=parts > 0)
        decoded_in, known = np.zeros(len(links), dtype=np.int64), np.zeros(len(links))
        attempts = np.zeros(links.nodes, dtype=np.int64)
        payloads_ns: list[int] = []
        gains: Sequence[FloatArray] = [slot.gain for slot in channel.slots]
        sending = on_air
        for attempt in range(1, coding.attempts + 1):
            cycle = self._cycle(sending, part_ns, turns)
            if attempt > 1:
                opens_ns = frame.after_ns(payloads_ns)
                slot_ns = frame.after_ns(cycle) - frame.feedback_ns
                gains = later([opens_ns + slot * slot_ns for slot in range(frame.slots)])
            payloads_ns += cycle * frame.slots
            attempts += sending
            heard = self._information(channel, gains, sending, turns)
            known = np.where(sending[links.tx] & coding.combining, known + heard, heard)
            got = sending[links.tx] & (decoded_in == 0) & (known >= rate[links.tx])
            decoded_in[got] = attempt
            waiting = planned & (decoded_in == 0)
            sending = on_air & (np.bincount(links.tx[waiting], minlength=links.nodes) > 0)
            if not sending.any():
                break
        if not payloads_ns:
            payloads_ns = [0]  # receivers wait for the pilots of one turn: time goes on though nobody sends
        return Delivery(
            rate, attempts, part_ns, decoded_in, tuple(payloads_ns), self._airtime(attempts, part_ns, payloads_ns)
        )

    def _parts(self, rate: FloatArray) -> IntArray:
        """Complex symbols of a message in one slot, `[K]`; 0 for who does not send."""
        symbols = np.ceil(np.divide(self.bits, rate, out=np.zeros_like(rate), where=rate > 0))
        return np.ceil(symbols / self._frame.slots).astype(np.int64)

    def _cycle(self, sending: BoolArray, part_ns: IntArray, turns: Turns) -> list[int]:
        """Payloads of the turns of one slot, ns: as long as its slowest sender takes; without any it is skipped."""
        longest = np.zeros(turns.count, dtype=np.int64)
        np.maximum.at(longest, turns.turn[sending], part_ns[sending])
        used = np.bincount(turns.turn[sending], minlength=turns.count) > 0
        return [int(length) for length in longest[used]]

    def _information(
        self, channel: FrameChannel, gains: Sequence[FloatArray], sending: BoolArray, turns: Turns
    ) -> FloatArray:
        """I of one attempt on the graph's links, `[links]` bit/s/Hz: the mean over its slots."""
        found = [
            np.log2(1.0 + self._sinr(channel, gain, sending, turns, channel.jammer_w) / self._gap) for gain in gains
        ]
        return channel.of_links(np.mean(found, axis=0) if len(found) > 1 else found[0])

    def _sinr(
        self, channel: FrameChannel, gain: FloatArray, sending: BoolArray, turns: Turns, jammer_w: FloatArray | None
    ) -> FloatArray:
        noise_w = np.full(channel.heard.nodes, self._thermal_w)
        return sinr(
            channel.heard,
            channel.is_neighbour,
            gain,
            power_w=sending * self._power_w,
            noise_w=noise_w if jammer_w is None else noise_w + jammer_w,
            turn=turns.turn,
        )

    def _airtime(self, attempts: IntArray, part_ns: IntArray, payloads_ns: Sequence[int]) -> AirTime:
        """Who does not send listens, as under TDMA: through all turns but its own."""
        frame = self._frame
        own_turns = attempts * frame.slots
        all_ns = sum(payloads_ns) + len(payloads_ns) * frame.pilot_ns
        own_ns = own_turns * (part_ns + frame.pilot_ns)
        return AirTime(own_turns * part_ns, own_turns * frame.own_pilot_ns, np.maximum(all_ns - own_ns, 0))
