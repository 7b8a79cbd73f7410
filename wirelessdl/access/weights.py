"""Mixing weights of a frame, as receivers believe them to be (`known`) and as the channel makes them (`actual`).

    known    from estimated gains, on the graph's links: what a receiver normalises by
    actual   from true gains and phases, on all that is heard: A of s = A w

A `Weigher` is the carrier (`wirelessdl.access.Carrier`) of an access that sends models as numbers, not in messages:
`AllAtOnce` (oac), `OneByOne` (tdma), `UserWeigher` (your class). There is one `SlotWeights` for each resource block, a
subband of a slot.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.access import AirSettings, Carried, Carrier, Sending, Step
from wirelessdl.access.passes import Emission, MixingPasses
from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.errors import ContractError
from wirelessdl.links import Links
from wirelessdl.mixing import (
    Mixing,
    balanced_air,
    metropolis,
    metropolis_delivered,
    mix,
    uniform_air,
)
from wirelessdl.power.problem import PowerPlan
from wirelessdl.radio.frame import Turns
from wirelessdl.radio.frame_channel import FrameChannel, SlotChannel
from wirelessdl.radio.offsets import Offsets, symbol_shares

# weight [links], own [K] and noise [K] for links, estimated gains, amplitudes and who is on air
Asked = Callable[[Links, FloatArray, FloatArray, BoolArray], tuple[FloatArray, FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class SymbolWeights:
    """Weights of single symbols under offsets, before carriers turn over the slot; crosstalk: None without phases.

    shifted: weights and crosstalk of every other symbol that is heard, with how many symbols earlier it was sent.
    """

    itself: Mixing
    crosstalk: Mixing | None
    shifted: tuple[tuple[int, Mixing, Mixing | None], ...]


@dataclass(frozen=True, eq=False)
class SlotWeights:
    """One resource block: `known`, on the graph's links; `actual`, on all that is heard; crosstalk of phase errors.

    symbols: None without offsets. With them `actual` is what is left of a coordinate on average over the block.
    """

    known: Mixing
    actual: Mixing
    crosstalk: Mixing | None
    symbols: SymbolWeights | None = None


@dataclass(frozen=True, eq=False)
class FrameWeights:
    """The resource blocks of a payload or of a pass, and the means of their weights."""

    slots: tuple[SlotWeights, ...]

    @cached_property
    def known(self) -> Mixing:
        return _mean([slot.known for slot in self.slots])

    @cached_property
    def actual(self) -> Mixing:
        if all(slot.actual is slot.known for slot in self.slots):
            return self.known
        return _mean([slot.actual for slot in self.slots])

    @property
    def heard(self) -> BoolArray:
        """Which nodes took something from the air in every slot, `[K]`."""
        return np.asarray(np.all([slot.known.scale > 0 for slot in self.slots], axis=0))


def _mean(mixings: list[Mixing]) -> Mixing:
    if len(mixings) == 1:
        return mixings[0]
    link, own, scale = (np.mean([getattr(m, name) for m in mixings], axis=0) for name in ("link", "own", "scale"))
    return Mixing(mixings[0].links, link, own, scale)


class Weigher(Carrier):
    """Models that the air adds up: w, and as many mixing passes after it as the frame has. Turns are even.

    Weights are worked out once for as long as nothing they rest on changes.
    """

    def __init__(self, given: AirSettings):
        self._offsets = given.offsets
        self._passes = MixingPasses(given.mixing, self.weigh)
        self._last: dict[str, tuple[tuple[NDArray[Any], ...], FrameWeights]] = {}

    def weigh(self, of: Emission) -> FrameWeights:
        """Weights of a step from its gains, normalised by the receivers' estimates."""
        links, slots = of.channel.links, of.channel.slots
        basis = (links.rx, links.tx, of.amplitude, of.listening, of.turn, *(v for slot in slots for v in _values(slot)))
        last = self._last.get(of.source)
        if last is not None and _same(basis, last[0]):
            return last[1]
        weights = FrameWeights(tuple(self._slot(of, slot, known) for slot, known in zip(slots, self._known(of))))
        self._last[of.source] = (basis, weights)
        return weights

    def expect(self, channel: FrameChannel, plan: PowerPlan, schedule: Turns) -> None:
        self._passes.expect(channel, plan, schedule.turn)

    def carry(self, given: Sending) -> Carried:
        amplitude = np.sqrt(given.model_w)
        weights = self.weigh(Emission("w", given.channel, given.plan, amplitude, given.listening, given.turns.turn))
        return Carried(self._passes.steps(given, Step.release(weights, given.model_w)))

    def _known(self, of: Emission) -> tuple[Mixing, ...]:
        """Weights of every slot as receivers know them, on the graph's links."""
        raise NotImplementedError

    def _reaching(self, of: Emission, slot: SlotChannel, known: Mixing) -> FloatArray:
        """Weight of all that arrives, `[heard]`, by the gains as they are."""
        raise NotImplementedError

    def _slot(self, of: Emission, slot: SlotChannel, known: Mixing) -> SlotWeights:
        links, heard = of.channel.links, of.channel.heard
        if slot.gain is slot.gain_est and slot.phase_rad is None and heard is links and self._offsets is None:
            return SlotWeights(known, known, None)
        reaching = self._reaching(of, slot, known)
        if self._offsets is not None:
            return under_offsets(known, heard, reaching, slot, self._offsets)
        if slot.phase_rad is None:
            return SlotWeights(known, Mixing(heard, reaching, known.own, known.scale), None)
        actual = Mixing(heard, reaching * np.cos(slot.phase_rad), known.own, known.scale)
        turned = Mixing(heard, reaching * np.sin(slot.phase_rad), np.zeros_like(known.own), known.scale)
        return SlotWeights(known, actual, turned)


class AllAtOnce(Weigher):
    """The channel adds all senders up; a receiver weighs "air" against its own model."""

    def __init__(self, given: AirSettings):
        super().__init__(given)
        self._from_block = given.balance_from == "block"

    def _known(self, of: Emission) -> tuple[Mixing, ...]:
        links, slots = of.channel.links, of.channel.slots
        gain_est = np.stack([of.channel.of_links(slot.gain_est) for slot in slots])
        air = uniform_air(links)
        if of.plan.balance == "receiver":
            gains = gain_est if self._from_block else [of.channel.mean_gain]
            air = np.stack([balanced_air(links, gain, of.amplitude) for gain in gains])
        air = np.broadcast_to(np.where(of.listening, 1.0, air), (len(slots), links.nodes))
        return tuple(mix(links, slot, of.amplitude, air=one) for slot, one in zip(gain_est, air))

    def _reaching(self, of: Emission, slot: SlotChannel, known: Mixing) -> FloatArray:
        heard = of.channel.heard
        return np.asarray(known.scale[heard.rx] * slot.gain * of.amplitude[heard.tx])


class OneByOne(Weigher):
    """Each neighbour is heard in a turn of its own, divided by its gain, and weighed as Metropolis does.

    least_gain: [K] |h| by sender below which a link is left out.
    """

    def __init__(self, given: AirSettings, least_gain: FloatArray | float):
        super().__init__(given)
        self._least_gain = least_gain

    def _known(self, of: Emission) -> tuple[Mixing, ...]:
        channel, given = of.channel, (of.amplitude, of.listening, self._least_gain)
        return tuple(metropolis(channel.links, channel.of_links(slot.gain_est), *given) for slot in channel.slots)

    def _reaching(self, of: Emission, slot: SlotChannel, known: Mixing) -> FloatArray:
        """A receiver takes all of a turn as if it came from its neighbour there."""
        links, heard, turn = known.links, of.channel.heard, of.turn
        sent = of.channel.of_links(slot.gain_est) * of.amplitude[links.tx]
        factor = np.zeros((links.nodes, int(turn.max(initial=0)) + 1))
        factor[links.rx, turn[links.tx]] = np.divide(known.link, sent, out=np.zeros_like(sent), where=sent > 0)
        return np.asarray(factor[heard.rx, turn[heard.tx]] * slot.gain * of.amplitude[heard.tx])


class UserWeigher(Weigher):
    """Weights that a class of the user's gives for estimated gains; what arrives has the gains as they are."""

    def __init__(self, given: AirSettings, name: str, ask: Asked):
        super().__init__(given)
        self._name, self._ask = name, ask

    def _known(self, of: Emission) -> tuple[Mixing, ...]:
        links, listening, found = of.channel.links, of.listening, []
        on_air = np.bincount(links.tx, minlength=links.nodes) > 0
        for slot in of.channel.slots:
            weight, own, noise = self._ask(links, of.channel.of_links(slot.gain_est), of.amplitude, on_air)
            if listening.any():  # what such a node holds was never sent: none of it may stay
                total = np.bincount(links.rx, weight, minlength=links.nodes)
                takes, scale = listening & (total > 0) & (noise > 0), np.where(total > 0, total, 1.0)
                share = np.where(takes, 1.0 / scale, np.where(listening, 0.0, 1.0))
                weight, noise = weight * share[links.rx], noise * share
                own = np.where(listening, np.where(takes, 0.0, 1.0), own)
            found.append(Mixing(links, weight, own, noise))
        return tuple(found)

    def _reaching(self, of: Emission, slot: SlotChannel, known: Mixing) -> FloatArray:
        if of.channel.heard is not of.channel.links:
            raise ContractError(f'radio.access: {self._name} with radio.interference "physical": use "none"')
        return np.asarray(known.link * slot.gain / np.where(slot.gain_est > 0, slot.gain_est, 1.0))


def delivered_weights(channel: FrameChannel, arrived: BoolArray, listening: BoolArray) -> FrameWeights:
    """Weights of messages, the same for all coordinates. arrived: [links] of the graph; listening: [K]."""
    known = metropolis_delivered(channel.links, arrived, listening)
    if channel.heard is channel.links:
        return FrameWeights((SlotWeights(known, known, None),))
    link = np.zeros(len(channel.heard))  # non-neighbours are noise to a decoder
    link[channel.is_neighbour] = known.link
    return FrameWeights((SlotWeights(known, Mixing(channel.heard, link, known.own, known.scale), None),))


def under_offsets(
    known: Mixing, heard: Links, reaching: FloatArray, slot: SlotChannel, offsets: Offsets
) -> SlotWeights:
    """reaching: [heard] weight of all that arrives, whatever symbol it belongs to. A node's own term is not touched."""
    nothing, phase_rad = np.zeros_like(known.own), slot.phase_rad

    def parts(amount: FloatArray, own: FloatArray) -> tuple[Mixing, Mixing | None]:
        if phase_rad is None:
            return Mixing(heard, amount, own, known.scale), None
        turned = Mixing(heard, amount * np.sin(phase_rad), nothing, known.scale)
        return Mixing(heard, amount * np.cos(phase_rad), own, known.scale), turned

    shares = {0: np.ones(len(heard))} if slot.late is None else symbol_shares(slot.late)
    itself, crosstalk = parts(reaching * shares.pop(0), known.own)
    shifted = tuple((delay, *parts(reaching * share, nothing)) for delay, share in shares.items())
    actual = Mixing(heard, itself.link * offsets.attenuation(heard), known.own, known.scale)
    return SlotWeights(known, actual, None, SymbolWeights(itself, crosstalk, shifted))


def _values(slot: SlotChannel) -> tuple[FloatArray, ...]:
    given = (slot.gain, slot.gain_est, slot.phase_rad, slot.late)
    return tuple(values for values in given if values is not None)


def _same(one: tuple[NDArray[Any], ...], other: tuple[NDArray[Any], ...]) -> bool:
    return len(one) == len(other) and all(a is b or np.array_equal(a, b) for a, b in zip(one, other))
