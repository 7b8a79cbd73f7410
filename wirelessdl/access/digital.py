"""Digital access: models as quantised, coded messages, one sender at a time, repeated until its neighbours have them.

    bits of a message    b m + 32 ceil(m / block)       b bits per coordinate, a 32-bit scale per block of coordinates
    rate of sender j     R_j = min over its neighbours i of log2(1 + SINR_ij / (gap margin)), from mean gains
    an attempt           ceil(bits / R_j) complex symbols at the power budget, in as many slots as a payload has
    what i gets of it    I_ij = mean over the slots of log2(1 + SINR_ij / gap), from the gains of the attempt
    i has the message    once I_ij >= R_j; with combining, once I_ij of all attempts together is

    R, I     bits per complex symbol, which is bit/s/Hz; R is at most rate_max
    gap      loss of a real code and modulation against capacity, linear; margin: kept for fading, linear
    SINR     over thermal noise, jammers, and non-neighbours of the same turn; the rate is chosen without jammers

A multicast has one rate, that of the weakest neighbour which rate_min reaches by mean gains; weaker ones may have luck,
and nobody repeats for them. A message is sent again while a neighbour that it was planned for lacks it, `attempts`
times at most; a link without the message after that is in outage. A repetition has pilots and gains of its own; turns
in which nobody repeats are skipped. Acknowledgements, a bit each, go in the guard interval after an attempt.

Receivers mix what arrived with Metropolis weights. What is quantised is the model with its noise
(`learning.superposition`), so epsilon is that of the noisy model. Which attempt succeeds depends on gains, powers and
who is on air, and on nothing that depends on data.

What it is not: single packets with errors of their own, a rate that follows fast fading, or a code of finite length
other than by its gap.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal, cast

import numpy as np
from pydantic import Field, FiniteFloat

from wirelessdl.access import AirSettings, Carried, Carrier, CarryPreview, OpenFrame, Sending, Step
from wirelessdl.access.oac import refuse_truncation
from wirelessdl.access.tdma import Member as OneSenderAtATime
from wirelessdl.access.tdma import refuse as refuse_orthogonal
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.scenario.section import Count, Section, rule_text

if TYPE_CHECKING:
    from wirelessdl.learning.records import MessageInput
    from wirelessdl.radio.frame import AirTime, Turns
    from wirelessdl.radio.frame_channel import FrameChannel
    from wirelessdl.scenario.schema import RadioSection, Scenario
    from wirelessdl.streams import Streams

SCALE_BITS = 32  # of a block's scale, a single-precision number
PREVIEWED_FRAMES = 50
# |h| of all that is heard, slot by slot, at instants from the opening of the frame, ns
GainsAt = Callable[[Sequence[int]], Sequence[FloatArray]]
# name, type, unit, meaning; null under other access
COLUMNS = {
    "rounds": [
        ("attempts_mean", "float", "", "transmissions of a message, mean over senders; null unless access is digital"),
        (
            "outage_rate",
            "float",
            "",
            "share of the graph's links whose receiver did not get the message; null unless access is digital",
        ),
    ],
    "nodes": [
        (
            "rate_bps_hz",
            "float",
            "bit/s/Hz",
            "rate of its message, bits per complex symbol; null if it did not send, or unless access is digital",
        ),
        ("attempts", "int", "", "transmissions of its message, the first and repetitions; null likewise"),
        ("node_payload_s", "float", "s", "duration of its payload in one turn; null likewise"),
    ],
    "links": [
        (
            "decoded_in",
            "int",
            "",
            "attempt in which rx decoded the message, from 1; null in outage, or unless access is digital",
        ),
        (
            "outage",
            "bool",
            "",
            "whether rx missed the message within radio.attempts; null for non-neighbours, or unless access is digital",
        ),
    ],
}


class Keys(Section):
    """Keys of [radio] that digital access reads."""

    quantizer_bits: Annotated[int, Field(ge=1, le=32)] = Field(
        8, description="Digital access: bits per coordinate, by stochastic rounding."
    )
    quantizer_block: Count = Field(
        256, description="Digital access: coordinates that share a scale; a scale takes 32 bits."
    )
    rate_bps_hz: Literal["auto"] | Annotated[FiniteFloat, Field(ge=0.01, le=32)] = Field(
        "auto",
        json_schema_extra=rule_text('must be "auto", or a number from 0.01 to 32'),
        description="Digital access: bits per complex symbol. auto: what the weakest neighbour of a sender can decode "
        "by mean gains, gap_db and fade_margin_db.",
    )
    rate_min_bps_hz: Annotated[FiniteFloat, Field(ge=0.01, le=32)] = Field(
        0.15, description="Lowest rate that auto chooses; neighbours that need a lower one are not planned for."
    )
    rate_max_bps_hz: Annotated[FiniteFloat, Field(ge=0.01, le=32)] = Field(
        7.4, description="Highest rate that auto chooses (256-QAM at code rate 0.93)."
    )
    gap_db: Annotated[FiniteFloat, Field(ge=0, le=60)] = Field(
        3.0, description="Digital access: SINR that code and modulation need above capacity."
    )
    fade_margin_db: Annotated[FiniteFloat, Field(ge=0, le=60)] = Field(
        10.0, description="SINR that a rate of auto keeps in reserve for fading."
    )
    attempts: Annotated[int, Field(ge=1, le=64)] = Field(
        4, description="Digital access: transmissions of a message at most, the first and its repetitions."
    )
    combining: bool = Field(
        True,
        description="Digital access: whether a receiver decodes from all attempts together (incremental redundancy), "
        "or from each alone.",
    )


def refuse(scenario: "Scenario") -> None:
    """Messages arrive whole or not at all, and how long they take is known when they have arrived."""
    refuse_truncation(scenario, "a message arrives whole or not at all")
    refuse_orthogonal(scenario)
    if scenario.radio.subbands > 1:
        raise ValueError(
            f'radio.subbands is {scenario.radio.subbands} under radio.access "digital"; a message is coded over '
            "the whole band: set subbands = 1"
        )
    radio, keys = scenario.radio, cast(Keys, scenario.radio)
    if keys.rate_min_bps_hz > keys.rate_max_bps_hz:
        raise ValueError(
            f"radio.rate_min_bps_hz is {keys.rate_min_bps_hz:g}; must be at most radio.rate_max_bps_hz, "
            f"{keys.rate_max_bps_hz:g}: lower it"
        )
    for key, count in (
        ("radio.mixing_passes", radio.mixing_passes),
        ("learning.closing_passes", scenario.learning.closing_passes),
    ):
        if count:
            raise ValueError(
                f'{key} is {count} under radio.access "digital"; messages are sent once a round: set it to 0'
            )
    if radio.z_exchange == "air":
        raise ValueError(
            'radio.z_exchange is "air" under radio.access "digital"; what is decoded is not what the air made of it: '
            'set z_exchange = "control"'
        )
    if scenario.privacy.credit_thermal:
        raise ValueError(
            'privacy.credit_thermal is true under radio.access "digital"; a decoded message has no receiver noise in '
            "it: set it to false"
        )
    battery_j = scenario.energy.battery_j
    if any(math.isfinite(one) for one in (battery_j if isinstance(battery_j, list) else [battery_j])):
        raise ValueError(
            'energy.battery_j is finite under radio.access "digital"; what a round costs is known only after its '
            "repetitions: set it to inf"
        )


def message_bits(keys: Keys, coordinates: int) -> int:
    """Coordinates and scales."""
    return keys.quantizer_bits * coordinates + SCALE_BITS * math.ceil(coordinates / keys.quantizer_block)


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
    airtime: "AirTime"

    @property
    def arrived(self) -> BoolArray:
        """[links] whether the receiver has the message."""
        return np.asarray(self.decoded_in > 0)


class Member(OneSenderAtATime):
    """Turns as under TDMA; messages that are repeated."""

    coded = True

    def __init__(self, radio: "RadioSection", nodes: int, streams: "Streams", silent: bool):
        super().__init__(radio, nodes, streams, silent)
        self._keys = cast(Keys, radio)

    def least_gain(self, power_w: FloatArray, thermal_w: float) -> FloatArray | float:
        return 0.0

    def message_symbols(self, parameters: int) -> int | None:
        # no slot is observed after it is over
        keys = self._keys
        fastest = keys.rate_max_bps_hz if keys.rate_bps_hz == "auto" else keys.rate_bps_hz
        return math.ceil(message_bits(keys, parameters) / fastest)

    def words(self, turns: int) -> str:
        return f"{super().words(turns)} at the highest rate, without repetitions"

    def carrier(self, given: AirSettings) -> Carrier:
        return Messages(self._keys, given)


class Messages(Carrier):
    """Delivers the messages of a frame."""

    def __init__(self, keys: Keys, given: AirSettings):
        from wirelessdl.units import from_db

        self._keys, self._frame, self._bandwidth_hz = keys, given.frame, given.bandwidth_hz
        self._power_w, self._thermal_w, self._later = given.power_w, given.thermal_w, given.later
        self.bits = message_bits(keys, given.coordinates)
        self._gap, self._margin = from_db(keys.gap_db), from_db(keys.fade_margin_db)

    def carry(self, given: Sending) -> Carried:
        from wirelessdl.access.weights import delivered_weights
        from wirelessdl.units import NS

        on_air = given.on_air
        delivery = self._delivered(given)
        sent, links = int(on_air.sum()), len(delivery.arrived)
        weights = delivered_weights(given.channel, delivery.arrived, given.listening)
        return Carried(
            (Step.release(weights, given.model_w),),
            delivery.payloads_ns,
            delivery.airtime,
            coded=True,
            nodes={
                "rate_bps_hz": np.ma.masked_array(delivery.rate_bps_hz, ~on_air),
                "attempts": np.ma.masked_array(delivery.attempts, ~on_air),
                "node_payload_s": np.ma.masked_array(delivery.part_ns / NS, ~on_air),
            },
            links={
                "decoded_in": np.ma.masked_array(delivery.decoded_in, delivery.decoded_in == 0),
                "outage": ~delivery.arrived,
            },
            rounds={
                "attempts_mean": float(delivery.attempts.sum() / sent) if sent else math.nan,
                "outage_rate": float(np.mean(~delivery.arrived)) if links else math.nan,
            },
        )

    def lasting(self, opened: OpenFrame) -> "tuple[tuple[int, ...], AirTime]":
        delivery = self._delivered(opened)
        return delivery.payloads_ns, delivery.airtime

    def messages(self, on_air: BoolArray) -> "MessageInput | None":
        from wirelessdl.learning.records import MessageInput
        from wirelessdl.learning.superposition import Quantizer

        return MessageInput(Quantizer(self._keys.quantizer_bits, self._keys.quantizer_block), on_air)

    def preview(self, channel: "FrameChannel", schedule: "Turns", pool: FloatArray) -> CarryPreview | None:
        """Frames with realisations of the fading, each attempt and slot with its own.

        A channel that holds still from one attempt to the next has fewer repetitions that help.
        """
        from wirelessdl.radio.frame_channel import SlotChannel
        from wirelessdl.units import format_range, to_s

        place, everyone = 0, np.ones(channel.links.nodes, dtype=bool)

        def drawn(times: Sequence[int]) -> Sequence[FloatArray]:
            nonlocal place
            place += len(times)
            return [pool[(place + n) % len(pool)] for n in range(len(times))]

        found = []
        for _ in range(1 if len(pool) == 1 else PREVIEWED_FRAMES):
            slots = tuple(SlotChannel(gain, gain) for gain in drawn(range(self._frame.slots)))
            found.append(self.deliver(replace(channel, slots=slots), everyone, schedule, drawn))
        decoded = np.stack([one.decoded_in for one in found])
        frames = [self._frame.taking(schedule.count, one.payloads_ns) for one in found]
        rate, attempts = found[0].rate_bps_hz, float(np.mean([one.attempts for one in found]))
        first_outage, outage = float(np.mean(decoded != 1)), float(np.mean(decoded == 0))
        airtime_s = float(np.mean([to_s(frame.airtime_ns) for frame in frames]))
        return CarryPreview(
            {
                "bits": self.bits,
                "rate_bps_hz": rate.tolist(),
                "attempts_mean": attempts,
                "first_outage": first_outage,
                "outage_rate": outage,
                "airtime_s": airtime_s,
            },
            f"{self.bits:,} bits at {format_range(rate)} bit/s/Hz; {attempts:.3g} attempts and {1e3 * airtime_s:.3g} "
            f"ms on air a round on average; {first_outage:.2g} of links lack the message after the first attempt, "
            f"{outage:.2g} in the end",
        )

    def _delivered(self, opened: OpenFrame) -> Delivery:
        """Attempts of the frame that opens now, with gains of their own as time goes on."""
        later = self._later
        assert later is not None

        def gains(offsets_ns: Sequence[int]) -> Sequence[FloatArray]:
            return later(opened.channel, [opened.now_ns + offset_ns for offset_ns in offsets_ns])

        return self.deliver(opened.channel, opened.on_air, opened.turns, gains)

    def rates(self, channel: "FrameChannel", on_air: BoolArray, turns: "Turns") -> tuple[FloatArray, BoolArray]:
        """Rate of each sender, `[K]` bit/s/Hz, and for which of the graph's links it was planned, `[links]`."""
        keys, links = self._keys, channel.links
        expected = np.log2(1.0 + self._sinr(channel, channel.mean, on_air, turns, None) / (self._gap * self._margin))
        expected = np.minimum(channel.of_links(expected), keys.rate_max_bps_hz)
        if keys.rate_bps_hz != "auto":
            return np.where(on_air, keys.rate_bps_hz, 0.0), np.ones(len(links), dtype=bool)
        planned = expected >= keys.rate_min_bps_hz
        served = np.bincount(links.tx[planned], minlength=links.nodes) > 0
        planned = planned | ~served[links.tx]  # whom nobody hears well sends as slowly as it may, to all
        rate = np.full(links.nodes, np.inf)
        np.minimum.at(rate, links.tx[planned], np.maximum(expected[planned], keys.rate_min_bps_hz))
        alone = np.isinf(rate)  # nobody listens
        return np.where(on_air, np.where(alone, keys.rate_max_bps_hz, rate), 0.0), planned

    def deliver(self, channel: "FrameChannel", on_air: BoolArray, turns: "Turns", later: GainsAt) -> Delivery:
        """The attempts of a frame, one cycle of turns after another. channel: among who sends and who listens."""
        from wirelessdl.units import to_ns

        keys, frame, links = self._keys, self._frame, channel.links
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
        for attempt in range(1, keys.attempts + 1):
            cycle = self._cycle(sending, part_ns, turns)
            if attempt > 1:
                opens_ns = frame.after_ns(payloads_ns)
                slot_ns = frame.after_ns(cycle) - frame.feedback_ns
                gains = later([opens_ns + slot * slot_ns for slot in range(frame.slots)])
            payloads_ns += cycle * frame.slots
            attempts += sending
            heard = self._information(channel, gains, sending, turns)
            known = np.where(sending[links.tx] & keys.combining, known + heard, heard)
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

    def _cycle(self, sending: BoolArray, part_ns: IntArray, turns: "Turns") -> list[int]:
        """Payloads of the turns of one slot, ns: as long as its slowest sender takes; without any it is skipped."""
        longest = np.zeros(turns.count, dtype=np.int64)
        np.maximum.at(longest, turns.turn[sending], part_ns[sending])
        used = np.bincount(turns.turn[sending], minlength=turns.count) > 0
        return [int(length) for length in longest[used]]

    def _information(
        self, channel: "FrameChannel", gains: Sequence[FloatArray], sending: BoolArray, turns: "Turns"
    ) -> FloatArray:
        """I of one attempt on the graph's links, `[links]` bit/s/Hz: the mean over its slots."""
        found = [
            np.log2(1.0 + self._sinr(channel, gain, sending, turns, channel.jammer_w) / self._gap) for gain in gains
        ]
        return channel.of_links(np.mean(found, axis=0) if len(found) > 1 else found[0])

    def _sinr(
        self,
        channel: "FrameChannel",
        gain: FloatArray,
        sending: BoolArray,
        turns: "Turns",
        jammer_w: FloatArray | None,
    ) -> FloatArray:
        from wirelessdl.radio.frame_channel import sinr

        noise_w = np.full(channel.heard.nodes, self._thermal_w)
        return sinr(
            channel.heard,
            channel.is_neighbour,
            gain,
            power_w=sending * self._power_w,
            noise_w=noise_w if jammer_w is None else noise_w + jammer_w,
            turn=turns.turn,
        )

    def _airtime(self, attempts: IntArray, part_ns: IntArray, payloads_ns: Sequence[int]) -> "AirTime":
        """Who does not send listens, as under TDMA: through all turns but its own."""
        from wirelessdl.radio.frame import AirTime

        frame = self._frame
        own_turns = attempts * frame.slots
        all_ns = sum(payloads_ns) + len(payloads_ns) * frame.pilot_ns
        own_ns = own_turns * (part_ns + frame.pilot_ns)
        return AirTime(own_turns * part_ns, own_turns * frame.own_pilot_ns, np.maximum(all_ns - own_ns, 0))
