"""A user's class with gradients of its own: it differentiates, this clips.

Whether a class clips, and clips each sample, cannot be seen in what it returns: a mean of B gradients of norm at most
C may still move by 2C with one sample, B times what is charged. So nothing is taken on trust:

    batch        each node's gradient is scaled to a norm of at most G here: sensitivity 2G, whatever the class did
    per-sample   the class is asked for one sample at a time, as if each were a node; every answer is scaled to at
                 most C here, weighed and summed here: sensitivity 2C/B

A penalty that the class declares holds no data: it is taken off before clipping, and the engine's step puts it back.
What it is given stays as it is: models are the engine's, and the last column of a batch, ones, serves all of them.
That a row depends on its own sample or node alone is tried before the run: see `learning/behaviour.py`.
"""

import inspect
from typing import Any

import torch
from torch import Tensor

from wirelessdl.contract import Guard, capability
from wirelessdl.errors import ContractError, TrainingError
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
from wirelessdl.learning.gradients.strategy import Job

_WRITES = "writes into what it is given, which others use after it; copy it first, as in x = x.clone()"


class UserGradients:
    name = "closed-form"
    workers = 1  # a class of the user's need not stand two calls at a time

    def __init__(self, job: Job, batch: int, chunk: int, allowance: int):
        """chunk: nodes per call under batch clipping; allowance: bytes for samples' gradients."""
        self._job, self._label = job, f"{type(job.learner).__name__}.gradient"
        self._per_sample = job.clipping == "per-sample"
        self._weighs = "weight" in inspect.signature(job.learner.gradient).parameters
        self.accepts_weights = self._per_sample or self._weighs
        self._penalty = capability(job.learner, "penalty") or 0.0
        held = 4 * job.learner.size * job.dtype.itemsize  # weights, answer, what is made of it
        self._samples = max(1, allowance // held)
        self.chunk = max(1, self._samples // batch) if self._per_sample else chunk

    def gradient(self, worker: int, x: Tensor, batch: Batch, out: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        if self._per_sample:
            loss, nonfinite = self._clip_samples(x, batch, out)
        else:
            given = {} if batch.weight is None else {"weight": batch.weight}
            gradient, loss = self._ask(x, batch.features, batch.labels, **given)
            torch.add(gradient, x, alpha=-self._penalty, out=out)
            nonfinite = clip_rows_(out, self._job.clip_norm).to(loss.dtype)
        return loss, nonfinite

    def _clip_samples(self, x: Tensor, batch: Batch, out: Tensor) -> tuple[Tensor, Tensor]:
        nodes, weights = len(x), batch.weights()
        losses, bad = torch.empty_like(weights), torch.empty_like(weights, dtype=torch.bool)
        total = torch.zeros_like(out, dtype=wide(out.device))
        for start in range(0, weights.shape[1], self._samples):
            some = slice(start, start + self._samples)
            features, labels = batch.features[:, some], batch.labels[:, some]
            count = labels.shape[1]
            points = x.unsqueeze(1).expand(-1, count, -1).reshape(nodes * count, -1)
            gradient, loss = self._ask(points, features.flatten(0, 1).unsqueeze(1), labels.reshape(-1, 1))
            rows = torch.add(gradient, points, alpha=-self._penalty).view(nodes, count, -1)
            norm = norm_bound(rows)
            losses[:, some], bad[:, some] = loss.view(nodes, count), not_finite(norm)
            factor = clip_factor(norm, self._job.clip_norm).mul_(weights[:, some])
            if may_hold(bad[:, some]):
                clear_(factor, bad[:, some], 1)
                clear_(rows, bad[:, some], 1)
            total.add_(sum_samples(factor.unsqueeze(1), rows).squeeze(1))
        out.copy_(total)
        return batch.mean(losses), batch.count(bad)

    def _ask(self, x: Tensor, features: Tensor, labels: Tensor, **given: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients `[k, m]` and losses `[k]` of the user's, of the shapes that were asked for."""
        job, written = self._job, (x._version, features._version)
        with Guard(f"learning.model: {self._label}"):
            answer: Any = job.learner.gradient(x, features, labels, job.clipping, job.clip_norm, **given)
        shapes = [tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__ for part in _parts(answer)]
        if shapes != [tuple(x.shape), (len(x),)]:
            raise ContractError(
                f"learning.model: {self._label} returned {shapes}, expected gradients {tuple(x.shape)} and losses "
                f"{(len(x),)}, as tensors"
            )
        if (x._version, features._version) != written:
            raise ContractError(f"learning.model: {self._label} {_WRITES}")
        return answer[0].to(x), answer[1].to(x)

    def scores(self, worker: int, x: Tensor, features: Tensor) -> Tensor:  # noqa: ARG002
        return asked_scores(self._job.learner, x, features, self._job.classes)


def asked_scores(learner: Any, x: Tensor, features: Tensor, classes: int | None) -> Tensor:
    """Scores `[k, N, classes]` of a user's class, held to their contract; classes: None where any number will do."""
    label = f"learning.model: {type(learner).__name__}.scores"
    # counted by torch: a comparison of values would read the whole test set in every evaluation
    written = x._version, features._version
    with Guard(label):
        found: Any = learner.scores(x, features)
    if (x._version, features._version) != written:
        raise ContractError(f"{label} {_WRITES}")
    shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    last = found.shape[-1] if classes is None and isinstance(found, Tensor) and found.ndim else classes
    expected = (len(x), len(features), last)
    if shape != expected or found.is_complex() or found.dtype == torch.bool:
        kind = f" of {found.dtype}" if shape == expected else ""
        raise ContractError(
            f"{label} returned {shape}{kind}, expected a tensor of real numbers {expected}: models, samples, classes"
        )
    # infinite scores are ordered, as the logarithm of a probability of zero
    bad = torch.isnan(found)
    if bool(bad.any()):
        model, sample, _ = bad.nonzero()[0].tolist()
        raise TrainingError(
            f"{label} returned nan for model {model} and sample {sample} ({int(bad.sum())} of {bad.numel()} scores), "
            "expected numbers: avoid 0/0 and log of negative numbers, or lower learning.learning_rate"
        )
    scores: Tensor = found.to(x.device)
    return scores


def _parts(answer: Any) -> list[Any]:
    return list(answer) if isinstance(answer, tuple | list) else [answer]
