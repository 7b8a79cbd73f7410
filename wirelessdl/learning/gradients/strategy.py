"""What every gradient strategy is asked for."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from wirelessdl.learning.batch import Batch
from wirelessdl.learning.clipping import Clipping


@dataclass(frozen=True)
class Job:
    """What is to be differentiated, and how it is clipped."""

    learner: Any
    clipping: Clipping
    clip_norm: float
    device: torch.device
    dtype: torch.dtype
    regression: bool = False


class Strategy(Protocol):
    """Clipped gradients of some nodes at a time.

    chunk: nodes to hand over at once; workers: threads that may call at the same time, each with its number
    """

    name: str
    chunk: int
    workers: int
    weighs: bool  # whether batches may be padded with samples of weight zero

    def gradient(self, worker: int, x: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """Clipped gradient into `out[k, m]`; returns the mean loss, `[k]`."""
        ...

    def scores(self, worker: int, x: Tensor, features: Tensor) -> Tensor:
        """Class scores of common samples, `[k, N, classes]`."""
        ...


def sample_losses(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of every sample; half the squared error where labels are real numbers."""
    if labels.is_floating_point():
        return 0.5 * (scores.squeeze(-1) - labels).square()
    return cross_entropy(scores, labels, reduction="none")


def layers(learner: Any, x: Tensor) -> list[Tensor]:
    """Parameters of k models, `[k, *shape]` each, as views of their vectors."""
    parts = torch.split(x, [math.prod(shape) for shape in learner.shapes], dim=1)
    return [part.view(len(x), *shape) for part, shape in zip(parts, learner.shapes)]
