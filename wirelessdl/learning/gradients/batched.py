"""Strategies of several nodes in one call, and the slow twin that defines what a strategy gives.

`Loop` is that twin: one node, one sample, one backward pass at a time.

`ClosedForm` takes as many nodes as the cache holds, or the allowance on an accelerator. `Vectorised` is for
accelerators, and for modules without convolutions. Its per-sample gradients exist only for as many nodes and samples at
a time as the allowance holds: their norms are taken, they are weighed and summed, and the next ones take their place.

`UserGradients` is a user's class with gradients of its own: it differentiates, this clips. Whether a class clips, and
clips each sample, cannot be seen in what it returns: a mean of B gradients of norm at most C may still move by 2C with
one sample, B times what is charged. So nothing is taken on trust:

    batch        each node's gradient is scaled to a norm of at most G here: sensitivity 2G, whatever the class did
    per-sample   the class is asked for one sample at a time, as if each were a node; every answer is scaled to at
                 most C here, weighed and summed here: sensitivity 2C/B

A penalty that the class declares holds no data: it is taken off before clipping, and the engine's step puts it back.
What it is given stays as it is: models are the engine's, and the last column of a batch, ones, serves all of them.
That a row depends on its own sample or node alone is tried before the run: see `learning/behaviour.py`.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap
from torch.nn.functional import cross_entropy

from wirelessdl.contract import Guard, capability
from wirelessdl.errors import ContractError, TrainingError
from wirelessdl.learning.batch import Batch
from wirelessdl.learning.clipping import (
    Clipping,
    clear_,
    clip_factor,
    clip_rows_,
    may_hold,
    norm_bound,
    not_finite,
    sum_samples,
    wide,
)
from wirelessdl.learning.models import is_built_in, layers
from wirelessdl.learning.models.module import ModuleLearner


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


_MAX_CACHED_BYTES = 2**22  # bytes of features that a thread works on at once
_MIN_PIECES = 4  # from which a second thread pays: operations are short, and the interpreter is one
_MAX_PRODUCTS = 2**25  # of a piece, beyond which it is large enough to share
WRITES = (
    "writes into what it is given, which others use after it: compute from a copy, as in x = x.clone() or "
    "torch.clamp(self.weight, -1, 1)"
)


class ClosedForm:
    """Learners of wirelessdl's own, which clip inside."""

    name = "closed-form"
    accepts_weights = True

    def __init__(self, job: GradientJob, sample_bytes: int, batch: int, nodes: int, workers: int, allowance: int):
        """allowance: bytes to work in on an accelerator; a processor's cache holds less."""
        self._job = job
        if job.device.type == "cpu":
            held = min(_MAX_CACHED_BYTES // (sample_bytes * batch), _MAX_PRODUCTS // (job.learner.size * batch))
        else:
            held = allowance // (4 * sample_bytes * batch)  # as stored, as numbers, and in float64 to be summed
        self.chunk = max(1, held)
        self.workers = workers if nodes >= _MIN_PIECES * self.chunk else 1

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

    def __init__(self, job: GradientJob, sample_numbers: int, batch: int, allowance: int):
        """sample_numbers: what one sample leaves in the layers; allowance: bytes to work in."""
        self._job = job
        learner, width = job.learner, job.dtype.itemsize
        summed = 1 if job.device.type == "cpu" else 3  # in float64 besides
        per_sample = (summed * learner.size + 3 * sample_numbers) * width
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
        self._scores: Callable[..., Any] = vmap(learner.forward, in_dims=(0, None))
        self._scored = max(1, allowance // (3 * sample_numbers * width))  # samples, over all nodes

    def gradient(self, worker: int, x: Tensor, batch: Batch, out: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        if self._job.clipping == "batch":
            return self._clip_batches(x, batch, out)
        learner = self._job.learner

        def differentiate(some: slice) -> tuple[list[Tensor], Tensor, Tensor]:
            parts, losses = self._per_sample(layers(learner, x), batch.features[:, some], batch.labels[:, some])
            parts = [part.reshape(*part.shape[:2], -1) for part in parts]
            return parts, losses, norm_bound(torch.stack([norm_bound(part) for part in parts]), dim=0)

        return _clip_samples(differentiate, self._samples, self._job, batch, out)

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

    def scores(self, worker: int, x: Tensor, features: Tensor) -> Tensor:  # noqa: ARG002
        learner = self._job.learner
        if isinstance(learner, ModuleLearner) and x.device.type != "cpu":
            pieces = torch.split(features, max(1, self._scored // len(x)))
            return torch.cat([self._scores(layers(learner, x), some) for some in pieces], dim=1)
        if isinstance(learner, ModuleLearner) or is_built_in(learner):
            return learner.scores(x, features)  # type: ignore[no-any-return]
        return asked_scores(learner, x, features, self._job.classes)


class UserGradients:
    name = "closed-form"
    workers = 1  # a user's class need not stand two calls at a time

    def __init__(self, job: GradientJob, batch: int, chunk: int, allowance: int):
        """chunk: nodes per call under batch clipping; allowance: bytes for samples' gradients."""
        self._job, self._label = job, f"learning.model: {type(job.learner).__name__}.gradient"
        per_sample = job.clipping == "per-sample"
        self.accepts_weights = per_sample or "weight" in inspect.signature(job.learner.gradient).parameters
        self._penalty = capability(job.learner, "penalty") or 0.0
        held = 4 * job.learner.size * job.dtype.itemsize  # weights, answer, what is made of it
        self._samples = max(1, allowance // held)
        self.chunk = max(1, self._samples // batch) if per_sample else chunk

    def gradient(self, worker: int, x: Tensor, batch: Batch, out: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        if self._job.clipping == "batch":
            given = {} if batch.weight is None else {"weight": batch.weight}
            gradient, loss = self._ask(x, batch.features, batch.labels, **given)
            torch.add(gradient, x, alpha=-self._penalty, out=out)
            return loss, clip_rows_(out, self._job.clip_norm).to(loss.dtype)

        def differentiate(some: slice) -> tuple[list[Tensor], Tensor, Tensor]:
            features, labels = batch.features[:, some], batch.labels[:, some]
            points = x.unsqueeze(1).expand(-1, labels.shape[1], -1).reshape(labels.numel(), -1)
            gradient, loss = self._ask(points, features.flatten(0, 1).unsqueeze(1), labels.reshape(-1, 1))
            rows = torch.add(gradient, points, alpha=-self._penalty).view(*labels.shape, -1)
            return [rows], loss.view(labels.shape), norm_bound(rows)

        return _clip_samples(differentiate, self._samples, self._job, batch, out)

    def _ask(self, x: Tensor, features: Tensor, labels: Tensor, **given: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients `[k, m]` and losses `[k]` of the user's class, of the shapes that were asked for."""
        job = self._job
        with unwritten(self._label, x, features), Guard(self._label):
            answer: Any = job.learner.gradient(x, features, labels, job.clipping, job.clip_norm, **given)
        parts = answer if isinstance(answer, tuple | list) else [answer]
        shapes = [tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__ for part in parts]
        if shapes != [tuple(x.shape), (len(x),)]:
            raise ContractError(
                f"{self._label} returned {shapes}, expected gradients {tuple(x.shape)} and losses {(len(x),)}, as "
                "tensors"
            )
        return answer[0].to(x), answer[1].to(x)

    def scores(self, worker: int, x: Tensor, features: Tensor) -> Tensor:  # noqa: ARG002
        return asked_scores(self._job.learner, x, features, self._job.classes)


def _clip_samples(
    differentiate: Callable[[slice], tuple[Sequence[Tensor], Tensor, Tensor]],
    at_once: int,
    job: GradientJob,
    batch: Batch,
    out: Tensor,
) -> tuple[Tensor, Tensor]:
    """Weighed sum of clipped gradients into `out`, mean losses and how many counted as zero, `[k]` each.

    differentiate: of some samples, parts of their gradients `[k, b, numbers]`, losses and bounds on norms, `[k, b]`
    """
    weights = batch.weights()
    losses, bad = torch.empty_like(weights), torch.empty_like(weights, dtype=torch.bool)
    total = torch.zeros_like(out, dtype=wide(out.device))
    for start in range(0, weights.shape[1], at_once):
        some = slice(start, start + at_once)
        parts, losses[:, some], norm = differentiate(some)
        bad[:, some] = not_finite(norm)
        factor = clip_factor(norm, job.clip_norm).mul_(weights[:, some])
        if may_hold(bad[:, some]):
            for values in (factor, *parts):
                clear_(values, bad[:, some], 1)
        for place, part in zip(torch.split(total, [part.shape[2] for part in parts], dim=1), parts):
            place.add_(sum_samples(factor.unsqueeze(1), part).squeeze(1))
    out.copy_(total)
    return batch.mean(losses), batch.count(bad)


@contextmanager
def unwritten(label: str, *tensors: Tensor) -> Iterator[None]:
    """Raise where a user's code writes into what it was given; counted by torch, so that nothing is read for it."""
    versions = [values._version for values in tensors]
    yield
    if [values._version for values in tensors] != versions:
        raise ContractError(f"{label} {WRITES}")


def asked_scores(learner: Any, x: Tensor, features: Tensor, classes: int | None) -> Tensor:
    """Scores `[k, N, classes]` of a user's class, held to their contract; classes: None where any number will do."""
    label = f"learning.model: {type(learner).__name__}.scores"
    with unwritten(label, x, features), Guard(label):
        found: Any = learner.scores(x, features)
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
