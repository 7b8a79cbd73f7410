"""A round as it was decided and as it came out: frozen records that stages hand on and the recorder writes."""

from dataclasses import dataclass
from typing import Literal

from wirelessdl.access import Carried
from wirelessdl.access.weights import FrameWeights
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.learning.records import RoundResult
from wirelessdl.mechanism import Protection
from wirelessdl.power.problem import PowerPlan
from wirelessdl.privacy.ledger import FrameRelease
from wirelessdl.radio.frame import Frame
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.radio.participation import Participation
from wirelessdl.round.passing import PassWeights


@dataclass(frozen=True, eq=False)
class FrameDecision:
    """A frame as it was decided, before learning: arrays over nodes `[K]`, or over the links that are heard."""

    round: int
    opened_ns: int
    frame: Frame
    turn: IntArray  # in which each node sends
    participation: Participation
    channel: FrameChannel
    protection: Protection
    release: FrameRelease
    carried: Carried
    passes: PassWeights | None  # mixing passes after the payload
    on_air: BoolArray
    computes: BoolArray  # who takes a gradient step: those on air, or everyone where nothing is ever sent
    budget_w: FloatArray  # power that amplitudes are measured against
    violations: int
    sigma: FloatArray
    learning_rate: float
    multiplier: FloatArray
    z_lost: BoolArray  # whose broadcast of z reached nobody
    spectral_gap: float
    link_epsilon: FloatArray
    own_epsilon: FloatArray
    coalition_epsilon: FloatArray | None
    own_bound: FloatArray  # proven total of each sender over the rounds so far, by a fast bound
    own_total: float  # of the worst sender, exact; NaN between evaluations, and where it would take too long
    promised_bound: FloatArray  # the same in the view that is promised
    promised_total: float
    promised: Literal["own", "coalition"]

    @property
    def plan(self) -> PowerPlan:
        """With the noise that the mechanism takes."""
        return self.protection.plan

    @property
    def weights(self) -> FrameWeights:
        """Of the payload."""
        return self.carried.weights

    @property
    def absent(self) -> BoolArray:
        """Nodes that hold what they held: not ready, or listeners that heard nobody, `[K]`.

        A listener that heard nobody still holds an un-noised model: it must not be shown, nor mixed.
        """
        return ~self.participation.ready | (self.participation.listening & ~self.weights.heard)


@dataclass(frozen=True, eq=False)
class RoundRecord:
    """A frame, when its payload ended, what learning made of it, and who took a gradient step, `[K]`."""

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
    epsilon_own_total: float  # against everyone else; NaN likewise
    epsilon_own_bound: float
