"""A round as it was decided and as it came out: frozen records that stages hand on and the recorder writes.

`Segments` makes the steps of a frame inputs of the learning engine (step 6 of a round). A payload is divided into
resource blocks, each with some coordinates of the models. A `Segment` is one block: its coordinates, its weights A, and
by which factors receiver noise and self-interference come in.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from wirelessdl.access import Carried, Step
from wirelessdl.access.weights import FrameWeights, SlotWeights
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.learning.records import RoundResult, StepInput
from wirelessdl.learning.superposition import Segment, Shifted, SymbolOffsets, Values
from wirelessdl.mechanism import Protection
from wirelessdl.mixing import Mixing
from wirelessdl.power.problem import PowerPlan
from wirelessdl.privacy.ledger import FrameRelease
from wirelessdl.radio.frame import Frame, Participation
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.radio.offsets import Offsets
from wirelessdl.trace.events import TraceEvents


@dataclass(frozen=True, eq=False)
class OnAir:
    """Who sends, whose budget is spent from this round on, `[K]` each; what is heard of the senders; their noise.

    uncovered: [K] who would send and is out of reach: it keeps what it holds and what is pending. component: [K] groups
    that what is sent can join; None where it joins all.
    """

    on_air: BoolArray
    over_budget: BoolArray
    channel: FrameChannel
    protection: Protection
    uncovered: BoolArray
    component: IntArray | None = None


@dataclass(frozen=True, eq=False)
class ProvenTotal:
    """Proven total epsilon over the rounds so far: bound, `[K]` by a fast bound; worst, of the worst sender, exact.

    worst is NaN between evaluations, and where it would take too long; so are entries of total, `[K]`, the exact ones.
    """

    bound: FloatArray
    worst: float
    total: FloatArray


@dataclass(frozen=True, eq=False)
class Charged:
    """Epsilon of a frame and of the rounds so far, as the ledger was charged.

    link: [heard], own, coalition: [K] of this frame by Theorem 1; coalition: None where there is no such view. view:
    which is promised. violations: links above epsilon_max, or senders where links are not counted.
    """

    link: FloatArray
    own: FloatArray
    coalition: FloatArray | None
    own_total: ProvenTotal
    promised_total: ProvenTotal
    view: Literal["own", "coalition"]
    violations: int

    @property
    def promised(self) -> FloatArray:
        """One-slot epsilon of each sender in the promised view, `[K]`."""
        return self.own if self.coalition is None or self.view == "own" else self.coalition


@dataclass(frozen=True, eq=False)
class FrameDecision:
    """A frame as it was decided, before learning: arrays over nodes `[K]`, or over the links that are heard."""

    round: int
    opened_ns: int
    frame: Frame
    turn: IntArray  # in which each node sends
    participation: Participation
    air: OnAir
    carried: Carried
    release: FrameRelease
    charged: Charged
    attackers: BoolArray  # nodes that send something else than they hold, if they send (`faults.byzantine`)
    computes: BoolArray  # who takes a gradient step: those on air, or everyone where nothing is ever sent
    budget_w: FloatArray  # power that amplitudes are measured against
    sigma: FloatArray
    learning_rate: float
    multiplier: FloatArray
    orthogonal: bool  # whether a receiver hears one sender at a time
    z_lost: BoolArray  # whose broadcast of z reached nobody
    spectral_gap: float

    @property
    def on_air(self) -> BoolArray:
        return self.air.on_air

    @property
    def channel(self) -> FrameChannel:
        """Among who sends and who listens."""
        return self.air.channel

    @property
    def plan(self) -> PowerPlan:
        """With the noise that the mechanism takes."""
        return self.air.protection.plan

    @property
    def weights(self) -> FrameWeights:
        """Of the payload."""
        return self.carried.weights

    @property
    def absent(self) -> BoolArray:
        """Nodes that hold what they held: not ready, out of reach, or listeners that heard nobody, `[K]`.

        A listener that heard nobody still holds an un-noised model: it must not be shown, nor mixed.
        """
        return ~self.participation.ready | self.air.uncovered | (self.participation.listening & ~self.weights.heard)


@dataclass(frozen=True, eq=False)
class RoundRecord:
    """A decided frame, the time at which its payload ended, the result of learning, and who took a step, `[K]`."""

    decision: FrameDecision
    time_ns: int
    result: RoundResult
    stepped: BoolArray


@dataclass(frozen=True)
class Progress:
    """Where the run is, at an evaluation."""

    round: int
    rounds: int
    time_s: float
    accuracy_mean: float
    accuracy_min: float
    accuracy_max: float
    loss_mean: float
    epsilon_total: float  # promised; NaN where composing it takes too long: then there is the bound
    epsilon_bound: float
    coalition: int | None  # most nodes that collude, against whom it is promised; None: all other nodes
    epsilon_own_total: float  # if all other nodes collude; NaN likewise
    epsilon_own_bound: float
    declared: bool = False  # not proven: a mechanism's or an update's word


def fire_frame(trace: TraceEvents, time_ns: int, decision: FrameDecision) -> None:
    """Everything that is known when a frame opens, causes first."""
    channel, geometry, plan = decision.channel, decision.channel.links.geometry, decision.plan
    if trace.has_listeners("mobility.move"):
        trace.fire(
            "mobility.move", time_ns, position_m=geometry.position_m.copy(), velocity_mps=geometry.velocity_mps.copy()
        )
    if trace.has_listeners("channel.gain"):
        links = channel.heard
        gain, gain_est = channel.heard_gain, channel.heard_gain_est
        trace.fire("channel.gain", time_ns, rx=links.rx, tx=links.tx, gain=gain, gain_est=gain_est)
    if trace.has_listeners("power.plan"):
        trace.fire("power.plan", time_ns, alpha=plan.alpha, power_w=plan.power_w, theta=plan.theta)
    if trace.has_listeners("privacy.release"):
        release = decision.release
        trace.fire(
            "privacy.release",
            time_ns,
            round=release.round,
            on_air=release.on_air,
            own_mu=release.own_mu,
            link_rx=release.link_rx,
            link_tx=release.link_tx,
            link_mu=release.link_mu,
        )
    if trace.has_listeners("phy.tx"):
        sender = np.flatnonzero(decision.on_air)
        trace.fire(
            "phy.tx",
            time_ns,
            round=decision.round,
            node=sender,
            alpha=plan.alpha[sender],
            noise_std=decision.sigma[sender],
        )
    if trace.has_listeners("phy.rx"):
        trace.fire(
            "phy.rx",
            time_ns,
            round=decision.round,
            rx=channel.heard.rx,
            tx=channel.heard.tx,
            gain=channel.heard_gain,
            weight=decision.weights.actual.link,
            epsilon=decision.charged.link,
        )
    if trace.has_listeners("node.state"):
        for at_ns, node, state, detail in decision.carried.states:
            trace.fire("node.state", at_ns, node=node, state=state, detail=detail)


class Segments:
    """Makes the segments of every frame.

    size: coordinates of a model. thermal_w: receiver noise in W; self_interference: share of its own emission that a
    node hears; offsets: of carriers and timing, None without any. coded: models go in messages, which arrive whole and
    without noise, or not at all. robust: receivers keep values apart (`learning/robust`).
    """

    def __init__(
        self,
        frame: Frame,
        size: int,
        thermal_w: float,
        self_interference: float,
        offsets: Offsets | None,
        *,
        coded: bool = False,
        robust: bool = False,
    ):
        self._coordinates, self._symbols = (slice(0, size),) if coded else frame.coordinates(size), frame.block_symbols
        self._coded, self._robust = coded, robust
        self._thermal_w, self._self_interference, self._offsets = thermal_w, self_interference, offsets

    def steps(self, decision: FrameDecision) -> tuple[StepInput, ...]:
        """Of w, and of what is sent on after it."""
        steps = decision.carried.steps
        first_held = steps[min(1, len(steps) - 1)]
        return tuple(
            StepInput(
                self._segments_of(decision, step),
                step.heard,
                step.before,
                step.limit,
                power_ratio=_ratio(step.power_w, first_held.power_w),
            )
            for step in steps
        )

    def _segments_of(self, decision: FrameDecision, step: Step) -> tuple[Segment, ...]:
        jammer_w = decision.channel.jammer_w
        own = np.asarray(decision.on_air * np.sqrt(self._self_interference * step.power_w), np.float64)
        noise = 0.0 if self._coded else np.sqrt(self._thermal_w if jammer_w is None else self._thermal_w + jammer_w)
        found = tuple(self._slot(part, slot, noise, own) for part, slot in zip(self._coordinates, step.weights.slots))
        if not self._robust or step.source != "w" or decision.carried.announced:
            return found
        noise_w = np.broadcast_to(np.square(noise), own.shape)
        apart = (values_of(decision, slot, number, noise_w) for number, slot in enumerate(step.weights.slots))
        return tuple(replace(segment, values=values) for segment, values in zip(found, apart))

    def _slot(self, coordinates: slice, weights: SlotWeights, noise: float | FloatArray, own: FloatArray) -> Segment:
        """What one slot makes of its coordinates. noise, own: amplitudes of receiver noise and own emission, `[K]`."""
        symbols, offsets = weights.symbols, self._offsets
        crosstalk = weights.crosstalk if symbols is None else symbols.crosstalk
        symbol_offsets = None
        if symbols is not None and offsets is not None:
            symbol_offsets = SymbolOffsets(
                ramp_rad=offsets.ramp_rad,
                symbols=self._symbols,
                shifted=tuple(
                    Shifted(delay, direct.compact, None if turned is None else turned.compact)
                    for delay, direct, turned in symbols.shifted
                ),
            )
        return Segment(
            coordinates=coordinates,
            weights=(weights.actual if symbols is None else symbols.itself).compact,
            crosstalk=None if crosstalk is None else crosstalk.compact,
            thermal_scale=noise * weights.actual.scale,
            self_interference_scale=own * weights.actual.scale,
            offsets=symbol_offsets,
        )


def values_of(decision: FrameDecision, slot: SlotWeights, number: int, noise_w: FloatArray) -> Values:
    """What each receiver gets apart in a block: one value of every turn in which it hears anybody that it weighs.

        v_p = sum_l reaching_l w_l / W_p + noise,   W_p = sum of known weights of the turn

    Receiver noise comes in with the scale of the mean under superposition; where one sender is heard alone (TDMA) the
    value is divided by its gain and amplitude, and so is the noise. noise_w: [K], 0 of messages.
    """
    known, actual, turn = slot.known, slot.actual, decision.turn
    nodes, turns = len(turn), int(turn.max(initial=0)) + 1
    place = known.links.rx * turns + turn[known.links.tx]
    weight = np.asarray(np.bincount(place, known.link, minlength=nodes * turns), dtype=np.float64)
    chosen: IntArray = np.flatnonzero(weight > 0)
    receiver = np.asarray(chosen // turns)
    scale = known.scale[receiver]
    if decision.orthogonal:
        amplitude = np.sqrt(decision.plan.alpha * decision.budget_w)[known.links.tx]
        gain = decision.channel.of_links(
            decision.channel.slots[number if len(decision.channel.slots) > 1 else 0].gain_est
        )
        # a message arrives whole and without noise, even where its pilots gave a gain of 0
        divided = np.divide(known.link, gain * amplitude, out=np.zeros_like(gain), where=(known.link > 0) & (gain > 0))
        scale = np.asarray(np.bincount(place, divided, minlength=nodes * turns)[chosen], dtype=np.float64)
    row: IntArray = np.full(nodes * turns, -1)
    row[chosen] = np.arange(len(chosen))

    def rows(mixing: Mixing) -> FloatArray:
        found = np.zeros((len(chosen), nodes))
        at = row[mixing.links.rx * turns + turn[mixing.links.tx]]
        np.add.at(found, (at[at >= 0], mixing.links.tx[at >= 0]), mixing.link[at >= 0])
        return found / weight[chosen][:, None]

    deviation = np.sqrt(noise_w[receiver]) * scale / weight[chosen]
    crosstalk = None if slot.crosstalk is None else rows(slot.crosstalk)
    return Values(receiver, weight[chosen], rows(actual), crosstalk, deviation, known.own)


def _ratio(power_w: FloatArray, reference_w: FloatArray) -> FloatArray:
    return np.divide(power_w, reference_w, out=np.ones_like(power_w), where=reference_w > 0)
