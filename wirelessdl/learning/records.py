"""What goes into a round of learning and what comes out of it: frozen records between the rooms."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.learning.clipping import Clipping
from wirelessdl.learning.gradients import StrategyName
from wirelessdl.learning.quantizer import Quantizer
from wirelessdl.learning.sampling import Sampling
from wirelessdl.learning.superposition import Segment


@dataclass(frozen=True, eq=False)
class ModelUpdate:
    """What becomes of every node's model in a round, `[K]` each; made by the one who keeps what is pending.

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
class PassInput:
    """One mixing pass: y <- heard (A y + noise) + kept y + before (the y before that), `[K]` each.

    limit: ||y||^2 / m that a node can send. Who holds more scales it down before it sends, and the y before that by the
    same factor. Infinite: it sends nothing.
    """

    segments: tuple[Segment, ...]
    heard: FloatArray
    kept: FloatArray
    before: FloatArray
    limit: FloatArray

    @property
    def plain(self) -> bool:
        """Whether it only averages."""
        return not ((self.heard != 1.0).any() or self.kept.any() or self.before.any())


@dataclass(frozen=True, eq=False)
class RoundInput:
    """One round, as decided outside: arrays are float64 per node; segments cover all coordinates in turn."""

    round: int
    segments: tuple[Segment, ...]
    noise_scale: FloatArray  # sqrt(beta/alpha) sigma
    update: ModelUpdate
    evaluate: bool
    whole: bool = False  # evaluated on all test samples, whatever `Settings.eval_samples` says
    pairs: PairInput | None = None  # None: every node's noise is its own, of deviation noise_scale
    passes: tuple[PassInput, ...] = ()  # the payload's own weights first, then the passes after it
    messages: MessageInput | None = None  # None: what is sent arrives as it is


@dataclass(frozen=True, eq=False)
class RoundValues:
    """What came of a round, per node unless said otherwise."""

    sent_power: Tensor  # ||x||^2 / m of the model that was sent
    self_interference_power: (
        Tensor | None
    )  # ||w||^2 / m of what was sent, noise and all; None where nothing of it remains
    grad_norm: Tensor
    loss: Tensor
    nonfinite_gradients: Tensor  # how many were not finite and counted as zero: samples, or the whole
    consensus_distance: Tensor  # one number
    pass_power: Tensor | None = None  # ||y||^2 / m of what was sent in mixing passes, summed over them
    excess: Tensor | None = None  # F(x) - F(x*) of the models evaluated, where the optimum is known and wanted


@dataclass(frozen=True, eq=False)
class RoundResult:
    """What came of a round, which may still be under way: whoever reads it waits for it."""

    values: RoundValues | Future[RoundValues]
    evaluation: Tensor | Future[Tensor] | None  # accuracy, perhaps still on its way; None: not evaluated

    @property
    def known_values(self) -> RoundValues:
        return self.values.result() if isinstance(self.values, Future) else self.values

    @property
    def settled(self) -> bool:
        """Whether nobody who reads it has to wait."""
        return all(part.done() for part in (self.values, self.evaluation) if isinstance(part, Future))

    @property
    def sent_power(self) -> Tensor:
        return self.known_values.sent_power

    @property
    def self_interference_power(self) -> Tensor | None:
        return self.known_values.self_interference_power

    @property
    def grad_norm(self) -> Tensor:
        return self.known_values.grad_norm

    @property
    def loss(self) -> Tensor:
        return self.known_values.loss

    @property
    def nonfinite_gradients(self) -> Tensor:
        return self.known_values.nonfinite_gradients

    @property
    def consensus_distance(self) -> Tensor:
        return self.known_values.consensus_distance

    @property
    def pass_power(self) -> Tensor | None:
        return self.known_values.pass_power

    @property
    def excess(self) -> Tensor | None:
        return self.known_values.excess

    @property
    def evaluated(self) -> bool:
        return self.evaluation is not None

    @property
    def known(self) -> bool:
        """Whether `accuracy` can be had without waiting."""
        return not isinstance(self.evaluation, Future) or self.evaluation.done()

    @property
    def accuracy(self) -> Tensor | None:
        """Share of the test set that each node's model gets right; None without an evaluation. Waits for it."""
        return self.evaluation.result() if isinstance(self.evaluation, Future) else self.evaluation


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
    regret: bool = False
    passes: int = 0  # most mixing passes of a round
    eval_samples: int = 0  # test samples of an evaluation; 0: all
    links: int | None = None  # that are heard in a slot; None: all pairs may be
