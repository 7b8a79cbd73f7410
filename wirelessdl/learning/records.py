"""What goes into a round of learning and what comes out of it: frozen records between the rooms."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.families import UpdateKind
from wirelessdl.learning.announced import AnnouncedStep
from wirelessdl.learning.byzantine import Attackers, AttackInput
from wirelessdl.learning.clipping import Clipping
from wirelessdl.learning.gradients import StrategyName
from wirelessdl.learning.robust import Robust
from wirelessdl.learning.sampling import Sampling
from wirelessdl.learning.superposition import Quantizer, Segment


@dataclass(frozen=True, eq=False)
class ModelUpdate:
    """What becomes of every node's model in a round, `[K]` each; made by `round.releases.PendingGradients`.

    withdraw: the last step is taken back, since it will never be sent. keep: the node takes no part, so what it holds
    stays. step: gamma * multiplier of the gradient it takes; 0 for none.
    """

    withdraw: BoolArray
    keep: BoolArray
    step: FloatArray

    @staticmethod
    def everyone(step: FloatArray) -> "ModelUpdate":
        """A round in which every node takes part and nothing is taken back."""
        nobody = np.zeros(len(step), dtype=bool)
        return ModelUpdate(nobody, nobody, step)


@dataclass(frozen=True, eq=False)
class PairInput:
    """Noise that pairs of nodes share.

    own: [K] deviation a of each node's own noise; pair: deviation b of what is shared, [K], or [pairs] if listed.
    group: [K] nodes of one group are all partners, -1 for none; None where pairs low, high `[pairs]` are listed.
    """

    own: FloatArray
    pair: FloatArray
    on_air: BoolArray
    group: IntArray | None
    low: IntArray
    high: IntArray


@dataclass(frozen=True, eq=False)
class MessageInput:
    """What is sent is rounded by a quantizer; on_air: [K] who sends. Who is silent keeps its model as it is."""

    quantizer: Quantizer
    on_air: BoolArray


@dataclass(frozen=True, eq=False)
class StepInput:
    """One step of a frame: y <- heard (A v + noise) + before (the v of the step before), `[K]` each.

    v is w in the first step, and what nodes hold in every other. limit: ||v||^2 / m that a node can send. Who holds
    more scales it down before it sends, and the v before that by the same factor. Infinite: it sends nothing.
    power_ratio: power of this step's v over that of the first that sends what is held.
    """

    segments: tuple[Segment, ...]
    heard: FloatArray
    before: FloatArray
    limit: FloatArray
    power_ratio: FloatArray

    @staticmethod
    def release(segments: tuple[Segment, ...], nodes: int) -> "StepInput":
        """Models with their noise, of which receivers keep what they hear."""
        ones = np.ones(nodes)
        return StepInput(segments, ones, np.zeros(nodes), np.full(nodes, np.inf), ones)

    @property
    def plain(self) -> bool:
        """Whether it only averages."""
        return not ((self.heard != 1.0).any() or self.before.any())


@dataclass(frozen=True, eq=False)
class RoundInput:
    """One round, as decided outside: arrays are float64 per node; segments of a step cover all coordinates."""

    round: int
    steps: tuple[StepInput, ...]  # the first sends w, the others what is held
    noise_scale: FloatArray  # sqrt(beta/alpha) sigma
    update: ModelUpdate
    evaluate: bool
    whole: bool = False  # evaluated on all test samples, whatever `Settings.eval_samples` says
    pairs: PairInput | None = None  # None: every node's noise is its own, of deviation noise_scale
    messages: MessageInput | None = None  # None: what is sent arrives as it is
    gram: FloatArray | None = None  # in a frame of the Gram stage: [K] c that nodes multiply their triangles by
    announced: tuple[AnnouncedStep, ...] = ()  # in place of what steps send, where there are any
    attack: AttackInput | None = None  # None: nobody attacks in this round

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Of the step that sends w."""
        return self.steps[0].segments


@dataclass(frozen=True, eq=False)
class RoundResult:
    """What came of a round, per node unless said otherwise."""

    sent_power: Tensor  # ||x||^2 / m of the model that was sent
    self_interference_power: (
        Tensor | None
    )  # ||w||^2 / m of what was sent, noise and all; None where nothing of it remains
    grad_norm: Tensor
    loss: Tensor
    nonfinite_gradients: Tensor  # how many were not finite and counted as zero: samples, or the whole
    consensus_distance: Tensor  # one number
    held_power: Tensor | None = None  # ||v||^2 / m of what was held and sent on, summed over steps by power_ratio
    excess: Tensor | None = None  # F(x) - F(x*) of the models evaluated, where the optimum is known and wanted
    radiated_w: Tensor | None = None  # W in each announced payload, summed over payloads
    receiver_noise: Tensor | None = None  # variance per coordinate that receivers added to the sum of all, likewise
    attack_square: Tensor | None = None  # ||v||^2 / m that attackers sent in place of w, NaN of others; None: nobody
    accuracy: Tensor | None = None  # share of the test set that the model gets right; None: not evaluated

    @property
    def evaluated(self) -> bool:
        return self.accuracy is not None


@dataclass(frozen=True)
class Settings:
    """How the engine learns."""

    batch_size: int  # of every node
    clipping: Clipping
    clip_norm: float
    projection_radius: float
    gradient_at: Literal["mixed", "own"]  # hardened: s, paper: x
    evaluated: Literal["mixed", "own"] = "mixed"  # what accuracy is of: all that was received, or the last update too
    dtype: Literal["float32", "float64"] = "float32"
    device: str = "cpu"
    sampling: Sampling = "without-replacement"
    batch_fraction: float = 0.0  # share of its samples that each node's batch holds; 0: batch_size samples
    strategy: StrategyName = "auto"
    augment: Literal["none", "flip-crop"] = "none"
    update: tuple[str, Any, UpdateKind] | None = None  # name, object and kind of one other than plain SGD
    regret: bool = False
    passes: int = 0  # most mixing passes of a round
    eval_samples: int = 0  # test samples of an evaluation; 0: all
    links: int | None = None  # that are heard in a slot; None: all pairs may be
    attackers: Attackers | None = None
    robust: Robust | None = None  # None: receivers take the plain mean
    gram: bool = False  # whether training begins with a Gram stage
    adjacency: str = "replace-one"  # what the sensitivity of a gradient is of
    least_step: float = math.inf  # smallest gamma * multiplier of all rounds; inf: no rounding of steps is counted
