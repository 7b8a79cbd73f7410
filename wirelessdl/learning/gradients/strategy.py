"""The protocol of gradient strategies.

`Loop` is the slow twin that defines it: one node, one sample, one backward pass at a time.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from wirelessdl.contract import capability
from wirelessdl.learning.batch import Batch
from wirelessdl.learning.clipping import Clipping, clip_factor, clip_rows_, norm_bound, not_finite, wide
from wirelessdl.learning.models import layers


@dataclass(frozen=True)
class GradientJob:
    """What is to be differentiated, and how it is clipped."""

    learner: Any
    clipping: Clipping
    clip_norm: float
    device: torch.device
    dtype: torch.dtype
    regression: bool = False
    classes: int | None = None  # scores of a sample, where they are checked; 1 of a regression


class Strategy(Protocol):
    """Clipped gradients of some nodes at a time.

    chunk: nodes per call; workers: threads that may call at the same time, each with its number
    """

    name: str
    chunk: int
    workers: int
    accepts_weights: bool  # whether batches may be padded with samples of weight zero

    def gradient(self, worker: int, x: Tensor, batch: Batch, out: Tensor) -> tuple[Tensor, Tensor]:
        """Clipped gradient into `out[k, m]`; returns the mean loss, and how many gradients counted as zero, `[k]`."""

    def scores(self, worker: int, x: Tensor, features: Tensor) -> Tensor:
        """Class scores of common samples, `[k, N, classes]`."""


def sample_losses(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of every sample; half the squared error where labels are real numbers."""
    if labels.is_floating_point():
        return 0.5 * (scores.squeeze(-1) - labels).square()
    return cross_entropy(scores, labels, reduction="none")


class Loop:
    name = "loop"
    chunk = workers = 1
    accepts_weights = True

    def __init__(self, job: GradientJob):
        self._job = job

    def gradient(self, worker: int, x: Tensor, batch: Batch, out: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        clip_norm, per_sample = self._job.clip_norm, self._job.clipping == "per-sample"
        weights, losses = batch.weights(), torch.empty_like(batch.weights())
        # batch normalisation makes samples one: then there is no going one by one
        nonfinite = torch.zeros_like(weights[:, 0])
        together = capability(self._job.learner, "batch_norm") is not None
        for node in range(len(x)):
            total = torch.zeros_like(x[node], dtype=wide(x.device))
            losses[node] = 0.0
            for place in [batch.real(node)] if together else [slice(b, b + 1) for b in range(weights.shape[1])]:
                gradient, losses[node, place] = self._one(
                    x[node], batch.features[node, place], batch.labels[node, place], weights[node, place]
                )
                weight = weights[node, place].sum().item()
                if per_sample and weight > 0:
                    norm = norm_bound(gradient) / weight
                    if not_finite(norm):
                        nonfinite[node] += 1
                        continue
                    gradient = gradient * clip_factor(norm, clip_norm)
                if weight > 0:
                    total += gradient
            out[node] = total
        if not per_sample:
            nonfinite += clip_rows_(out, clip_norm)
        return batch.mean(losses), nonfinite

    def scores(self, worker: int, x: Tensor, features: Tensor) -> Tensor:  # noqa: ARG002
        with torch.no_grad():
            return torch.stack([self._forward(row, features) for row in x])

    def _one(self, row: Tensor, features: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient of a weighed sum of losses, and the losses."""
        with torch.enable_grad():
            point = row.detach().clone().requires_grad_()
            losses = sample_losses(self._forward(point, features), labels)
            (gradient,) = torch.autograd.grad((losses * weight).sum(), point)
        return gradient, losses.detach()

    def _forward(self, row: Tensor, features: Tensor) -> Tensor:
        parameters = [part[0] for part in layers(self._job.learner, row.unsqueeze(0))]
        return self._job.learner.forward(parameters, features)  # type: ignore[no-any-return]
