"""Several nodes in one call: built-in learners with gradients in closed form, and modules by torch.func.vmap.

`ClosedForm` takes as many nodes as the cache holds. `Vectorised` is for accelerators, and for modules without
convolutions. Its per-sample gradients exist only for as many nodes and samples at a time as the allowance holds: their
norms are taken, they are weighed and summed, and the next ones take their place.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

from wirelessdl.contract import capability
from wirelessdl.learning.batch import Batch
from wirelessdl.learning.clipping import (
    clear_,
    clip_factor,
    clip_rows_,
    may_hold,
    norm_bound,
    not_finite,
    sum_samples,
    wide,
)
from wirelessdl.learning.gradients.strategy import Job, layers, sample_losses
from wirelessdl.learning.gradients.users import asked_scores
from wirelessdl.learning.models import is_built_in
from wirelessdl.learning.models.module import ModuleLearner

_CACHE = 2**22  # bytes of features that a thread works on at once
_PIECES = 4  # pieces from which a second thread pays: operations are short, and the interpreter is one
_WORK = 2**25  # products in a piece, beyond which it is large enough to share


class ClosedForm:
    """Learners of wirelessdl's own, which clip inside; a user's go through `users.py`."""

    name = "closed-form"
    accepts_weights = True

    def __init__(self, job: Job, sample_bytes: int, batch: int, nodes: int, workers: int):
        self._job = job
        held, work = _CACHE // (sample_bytes * batch), _WORK // (job.learner.size * batch)
        self.chunk = max(1, min(held, work))
        self.workers = workers if nodes >= _PIECES * self.chunk else 1

    def gradient(self, worker: int, x: Tensor, batch: Batch, out: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        job = self._job
        nonfinite = x.new_empty(len(x))
        _, loss = job.learner.gradient(
            x, batch.features, batch.labels, job.clipping, job.clip_norm, batch.weight, out, nonfinite, batch.norm
        )
        return loss, nonfinite

    def scores(self, worker: int, x: Tensor, features: Tensor) -> Tensor:  # noqa: ARG002
        return self._job.learner.scores(x, features)  # type: ignore[no-any-return]


class Vectorised:
    name = "vmap"
    accepts_weights = True
    workers = 1

    def __init__(self, job: Job, sample_numbers: int, batch: int, allowance: int):
        """sample_numbers: what one sample leaves in the layers; allowance: bytes to work in."""
        self._job = job
        learner, width = job.learner, job.dtype.itemsize
        per_sample = (learner.size + 3 * sample_numbers) * width
        self._samples = max(1, allowance // per_sample)
        held = (
            batch * per_sample if job.clipping == "per-sample" else (3 * sample_numbers * batch + learner.size) * width
        )
        self.chunk = max(1, allowance // held)

        def total(parameters: list[Tensor], features: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
            losses = sample_losses(learner.forward(parameters, features), labels)
            return (losses * weight).sum(), losses

        def single(parameters: list[Tensor], features: Tensor, label: Tensor) -> Tensor:
            return sample_losses(learner.forward(parameters, features.unsqueeze(0)), label.unsqueeze(0))[0]

        self._batched: Callable[..., Any] = vmap(grad_and_value(total, has_aux=True))
        samples = vmap(grad_and_value(single), in_dims=([None] * len(learner.shapes), 0, 0))
        self._per_sample: Callable[..., Any] = vmap(samples)

    def gradient(self, worker: int, x: Tensor, batch: Batch, out: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        if self._job.clipping == "per-sample":
            return self._clip_samples(x, batch, out)
        return self._clip_batches(x, batch, out)

    def _clip_batches(self, x: Tensor, batch: Batch, out: Tensor) -> tuple[Tensor, Tensor]:
        learner, weights = self._job.learner, batch.weights()
        losses = torch.zeros_like(weights)
        # where samples see each other, padding must not be among them: node by node, with its real samples
        apart = batch.counts is not None and capability(learner, "batch_norm") is not None
        for nodes in [slice(n, n + 1) for n in range(len(x))] if apart else [slice(None)]:
            there = (nodes, batch.real(nodes.start) if apart else slice(None))
            parts, (_, losses[there]) = self._batched(
                layers(learner, x[nodes]), batch.features[there], batch.labels[there], weights[there]
            )
            for place, part in zip(layers(learner, out[nodes]), parts):
                place.copy_(part)
        bad = clip_rows_(out, self._job.clip_norm)
        return batch.mean(losses), bad.to(losses.dtype)

    def _clip_samples(self, x: Tensor, batch: Batch, out: Tensor) -> tuple[Tensor, Tensor]:
        learner, weights = self._job.learner, batch.weights()
        losses, bad = torch.empty_like(weights), torch.empty_like(weights, dtype=torch.bool)
        total = torch.zeros_like(out, dtype=wide(out.device))
        for start in range(0, weights.shape[1], self._samples):
            some = slice(start, start + self._samples)
            parts, losses[:, some] = self._per_sample(
                layers(learner, x), batch.features[:, some], batch.labels[:, some]
            )
            parts = [part.reshape(*part.shape[:2], -1) for part in parts]
            norm = norm_bound(torch.stack([norm_bound(part) for part in parts]), dim=0)
            bad[:, some] = not_finite(norm)
            factor = clip_factor(norm, self._job.clip_norm).mul_(weights[:, some]).unsqueeze(1)
            if may_hold(bad[:, some]):
                for values in (factor.squeeze(1).unsqueeze(2), *parts):
                    clear_(values, bad[:, some], 1)
            for place, part in zip(layers(learner, total), parts):
                place.add_(sum_samples(factor, part).view(place.shape))
        out.copy_(total)
        return batch.mean(losses), batch.count(bad)

    def scores(self, worker: int, x: Tensor, features: Tensor) -> Tensor:  # noqa: ARG002
        learner = self._job.learner
        if isinstance(learner, ModuleLearner) or is_built_in(learner):
            return learner.scores(x, features)  # type: ignore[no-any-return]
        return asked_scores(learner, x, features, self._job.classes)
