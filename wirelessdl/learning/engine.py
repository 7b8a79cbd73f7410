"""The learning engine: all nodes' models as one [K, m] tensor, one call per round.

The simulator hands over an `Order`, what the air and the plan decided for this slot; the engine
answers with `Outcome`, tensors that nobody waits for until they are traced.
"""

import math
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.errors import ScenarioError
from wirelessdl.learning.air import consensus_distance, project_, superpose
from wirelessdl.learning.clipping import Clipping
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.models import Learner
from wirelessdl.streams import Streams

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True, eq=False)
class Order:
    """One slot, as decided outside: arrays are float64 per node, `weights` is A[rx, tx]."""

    round: int
    weights: FloatArray
    noise_scale: FloatArray  # sqrt(beta/alpha) sigma
    thermal_scale: FloatArray  # tau / (c (d + 1))
    echo_scale: FloatArray  # what remains of own emission at the own receiver, likewise, per unit of ||w|| / sqrt(m)
    step: FloatArray  # gamma mult
    evaluate: bool
    withdrawn: BoolArray  # nodes whose last step is taken back: it will never be sent


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of it, per node unless said otherwise; accuracy is None without an evaluation."""

    sent_power: Tensor  # ||x||^2 / m of the model that was sent
    echo_power: Tensor | None  # ||w||^2 / m of what was sent, noise and all; None where nothing of it remains
    grad_norm: Tensor
    loss: Tensor
    consensus_distance: Tensor  # one number
    accuracy: Tensor | None


@dataclass(frozen=True)
class Settings:
    """How the engine learns."""

    batch_size: int
    clipping: Clipping
    clip_norm: float
    projection_radius: float
    gradient_at: Literal["mixed", "own"]  # hardened: s, paper: x
    dtype: Literal["float32", "float64"] = "float32"
    device: str = "cpu"


class LearningEngine:
    """State and update of K models."""

    def __init__(self, learner: Learner, data: Dataset, hands: list[IntArray], streams: Streams, settings: Settings):
        self.learner, self.settings, self.hands = learner, settings, hands
        self.nodes = len(hands)
        self.device = pick_device(settings.device)
        self.dtype = _DTYPES[settings.dtype]
        self.draws = NodeDraws(streams, self.nodes, self.device)
        self.radius = settings.projection_radius * math.sqrt(learner.size)

        self._slope = 1.0 / (data.scale * data.deviation)
        self._offset = data.mean / data.deviation
        self._train_x = _flat(data.train_x, self.device)
        self._train_y = torch.as_tensor(data.train_y, device=self.device)
        self._test_x = self._features(_flat(data.test_x, self.device))
        self._test_y = torch.as_tensor(data.test_y, device=self.device)

        start = torch.as_tensor(learner.initial(streams.world("learning.initial")), dtype=self.dtype)
        self.x = start.to(self.device).repeat(self.nodes, 1)
        self._echo_power: Tensor | None = None
        self._noise, self._sent, self._mixed = (torch.zeros_like(self.x) for _ in range(3))

    def round(self, order: Order) -> Outcome:
        """One slot: send, superpose, differentiate, step."""
        settings = self.settings
        if order.withdrawn.any():
            back = torch.as_tensor(order.withdrawn, device=self.device)
            self.x = torch.where(back.unsqueeze(1), self._mixed, self.x)
        own = self.x
        sent_power = torch.linalg.vector_norm(own, dim=1).square() / self.learner.size
        mixed = self._superpose(order)

        features, labels = self._batch(order.round)
        point = mixed if settings.gradient_at == "mixed" else own
        gradient, loss = self.learner.gradient(point, features, labels, settings.clipping, settings.clip_norm)
        grad_norm = torch.linalg.vector_norm(gradient, dim=1)

        stepped = gradient.mul_(-self._column(order.step)).add_(mixed)
        updated = project_(stepped, self.radius)
        judged = mixed if settings.gradient_at == "mixed" else updated
        outcome = Outcome(
            sent_power,
            self._echo_power,
            grad_norm,
            loss,
            consensus_distance(judged),
            self.accuracy(judged) if order.evaluate else None,
        )
        self.x = updated
        return outcome

    def state(self) -> np.ndarray:
        """The models, `[K, m]`; all else is keyed by node and round."""
        return self.x.cpu().numpy()

    def mixed(self) -> np.ndarray:
        """What each node held after the last slot, before its step, `[K, m]`."""
        return self._mixed.cpu().numpy()

    def restore(self, models: np.ndarray, mixed: np.ndarray | None = None) -> None:
        """Go on from remembered models."""
        self.x = torch.as_tensor(models).to(device=self.device, dtype=self.dtype)
        if mixed is not None:
            self._mixed.copy_(torch.as_tensor(mixed))

    def accuracy(self, x: Tensor) -> Tensor:
        """Share of the common test set each model gets right."""
        guess = self.learner.scores(x, self._test_x).argmax(dim=2)
        return (guess == self._test_y).to(self.dtype).mean(dim=1)

    def _superpose(self, order: Order) -> Tensor:
        sent = self.x
        if order.noise_scale.any():
            self.draws.fill_normal(self._noise, order.round, "noise")
            sent = torch.addcmul(self.x, self._noise, self._column(order.noise_scale), out=self._sent)
        self._echo_power = None
        if order.thermal_scale.any() or order.echo_scale.any():
            self.draws.fill_normal(self._mixed, order.round, "thermal")
            self._mixed.mul_(self._receiver_noise(order, sent))
        else:
            self._mixed.zero_()
        return superpose(self._tensor(order.weights), sent, self._mixed)

    def _receiver_noise(self, order: Order, sent: Tensor) -> Tensor:
        """Deviation of what a receiver adds: thermal noise, and what remains of its own emission.

        The latter follows what was really sent, noise included, so it tells no more than the sender's release.
        """
        thermal = self._column(order.thermal_scale)
        if not order.echo_scale.any():
            return thermal
        self._echo_power = torch.linalg.vector_norm(sent, dim=1).square() / self.learner.size
        return (thermal.square() + self._column(order.echo_scale).square() * self._echo_power.unsqueeze(1)).sqrt()

    def _batch(self, round: int) -> tuple[Tensor, Tensor]:
        size = self.settings.batch_size
        chosen = np.concatenate(
            [hand[self.draws.batch(node, round, len(hand), size)] for node, hand in enumerate(self.hands)]
        )
        index = torch.from_numpy(chosen).to(self.device, non_blocking=True)
        features = self._features(self._train_x.index_select(0, index))
        labels = self._train_y.index_select(0, index)
        return features.view(self.nodes, size, -1), labels.view(self.nodes, size)

    def _features(self, stored: Tensor) -> Tensor:
        """Stored samples, normalised, with a column of ones for the bias."""
        features = torch.ones(len(stored), stored.shape[1] + 1, dtype=self.dtype, device=self.device)
        body = features[:, :-1]
        body.copy_(stored)
        body.mul_(self._slope).sub_(self._offset)
        return features

    def _tensor(self, values: FloatArray) -> Tensor:
        return torch.as_tensor(values).to(device=self.device, dtype=self.dtype, non_blocking=True)

    def _column(self, values: FloatArray) -> Tensor:
        return self._tensor(values).unsqueeze(1)


def fetch(tensors: list[Tensor]) -> FloatArray:
    """Tensors of equal shape as one float64 array, in one transfer."""
    return torch.stack(tensors).to(device="cpu", dtype=torch.float64).numpy()


def threads() -> int:
    """How many threads torch computes with; sums depend on it in the last bits."""
    return torch.get_num_threads()


def pick_device(name: str) -> torch.device:
    """The device a name stands for; `auto` takes an accelerator where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", name):
            raise ValueError(name)
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ValueError):
        raise ScenarioError(f'--device is "{name}"; not available here: use auto, cpu, cuda, cuda:N or mps') from None
    return device


def _flat(stored: np.ndarray, device: torch.device) -> Tensor:
    return torch.as_tensor(stored).reshape(len(stored), -1).to(device)
