"""A round as it was decided and as it came out: frozen records that stages hand on and the recorder writes."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from wirelessdl.access import Carried
from wirelessdl.access.weights import FrameWeights
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.learning.records import RoundResult
from wirelessdl.mechanism import Protection
from wirelessdl.power.problem import PowerPlan
from wirelessdl.privacy.ledger import FrameRelease
from wirelessdl.radio.frame import Frame, Participation
from wirelessdl.radio.frame_channel import FrameChannel
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
    coalition: int | None  # most nodes that collude, against whom it is promised; None: everyone else
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
