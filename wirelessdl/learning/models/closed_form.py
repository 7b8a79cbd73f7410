"""Learners that know their gradients in closed form, K weight vectors in one call.

    softmax   multinomial logistic regression
    mlp       a perceptron with hidden layers

Weights of a layer are [out, in + 1], the bias being the last column, so that a gradient is one contiguous
matrix product. A sample's gradient of a layer is the outer product of what comes back and what went in, so
its norm is the product of theirs: per-sample clipping never holds a sample's gradient. Inside, samples are
the last dimension: a softmax over ten classes that lie apart is fifteen times as fast as over ten in a row.

A learner has `size`, the numbers of a model; `shapes` of its parameters, in the order they lie in x `[K, m]`;
`bias_column`, whether features end in a one; `initial(rng)`; `forward(parameters, features)`, scores `[N, classes]` of
one model as autograd sees them; `scores(x, features)`, `[K, N, classes]`; and, where it needs no autograd, `gradient`.
Everything else (`cnn`, `resnet20`, a user's module) is a torch module: see `learning/models/module.py`.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
import torch
from annotated_types import Ge, MinLen
from torch import Tensor

from wirelessdl.learning.batch import Batch
from wirelessdl.learning.clipping import (
    Clipping,
    clear_,
    clip_factor,
    clip_rows_,
    may_hold,
    norm_bound,
    not_finite,
    product_norm,
    sum_samples,
)
from wirelessdl.learning.models import layers


class Mlp:
    """Perceptron with hidden layers."""

    bias_column = True

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: Annotated[list[Annotated[int, Ge(1)]], MinLen(1)] | None = None,
        activation: Literal["relu", "tanh"] = "relu",
    ):
        self.classes, self.activation = classes, activation
        self.hidden = [128] if hidden is None else hidden
        widths = [features, *self.hidden, classes]
        self.shapes = [(after, before + 1) for before, after in pairwise(widths)]
        self.size = sum(rows * columns for rows, columns in self.shapes)

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        """Deviation sqrt(gain / fan-in), biases zero: activations keep their size through the layers."""
        parts = []
        for number, (rows, columns) in enumerate(self.shapes):
            gain = 2.0 if self.activation == "relu" and number + 1 < len(self.shapes) else 1.0
            layer = rng.standard_normal((rows, columns)) * math.sqrt(gain / (columns - 1))
            layer[:, -1] = 0.0
            parts.append(layer.reshape(-1))
        return np.concatenate(parts)

    def gradient(
        self,
        x: Tensor,
        features: Tensor,
        labels: Tensor,
        clipping: Clipping,
        clip_norm: float,
        weight: Tensor | None = None,
        out: Tensor | None = None,
        nonfinite: Tensor | None = None,
        feature_norm: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Clipped gradient `[K, m]`, into `out` where given, and mean loss `[K]`; arguments as in `Batch`.

        nonfinite: `[K]`, into which goes how many gradients counted as zero, see `learning/clipping.py`
        feature_norm: `[K, B]` bound on the norm of every sample's features, where it is known
        """
        weights = layers(self, x)  # [K, out, in + 1] each
        inputs = [features.mT]
        for layer in weights[:-1]:
            inputs.append(self._activated(torch.bmm(layer, inputs[-1])))
        error, loss = _softmax_error(torch.bmm(weights[-1], inputs[-1]), labels, weight)
        errors = [error]
        for layer, after in zip(weights[:0:-1], inputs[:0:-1]):  # from the last layer to the second
            errors.append(self._back(torch.bmm(layer[:, :, :-1].mT, errors[-1]), after[:, :-1]))
        errors.reverse()
        if clipping == "per-sample":
            given_norms = [norms_of(features, feature_norm), *(norm_bound(given, dim=1) for given in inputs[1:])]
            norms = [product_norm(norm_bound(error, dim=1), norm) for error, norm in zip(errors, given_norms)]
            norm = norms[0] if len(norms) == 1 else norm_bound(torch.stack(norms), dim=0)
            factor = _sample_factor(norm, clip_norm, weight).unsqueeze(1)
            for error in errors:
                error.mul_(factor)
            bad = not_finite(norm)
            if may_hold(bad):  # a product with what a layer was given must be zero as well
                for values in (*errors, *inputs[1:]):
                    clear_(values, bad, 2)
        else:
            for error in errors:
                _weigh_(error, weight)
        gradient = torch.empty_like(x) if out is None else out
        for error, given, place in zip(errors, inputs, layers(self, gradient)):
            place.copy_(sum_samples(error, given.mT))
        if clipping == "batch":
            bad = clip_rows_(gradient, clip_norm).unsqueeze(1)
        if nonfinite is not None:
            nonfinite.copy_(counted(bad, weight if clipping == "per-sample" else None))
        return gradient, loss

    def forward(self, parameters: Sequence[Tensor], features: Tensor) -> Tensor:
        for number, layer in enumerate(parameters):
            features = torch.nn.functional.linear(features, layer)
            if number + 1 < len(parameters):
                features = torch.relu(features) if self.activation == "relu" else torch.tanh(features)
                features = torch.cat([features, torch.ones_like(features[..., :1])], dim=-1)
        return features

    def scores(self, x: Tensor, features: Tensor) -> Tensor:
        first, *others = layers(self, x)
        nodes, rows, columns = first.shape
        shared = first.reshape(nodes * rows, columns) @ features.T  # one product for all nodes
        given = shared.view(nodes, rows, len(features))
        for layer in others:
            given = torch.bmm(layer, self._activated(given))
        return given.mT

    def _activated(self, before: Tensor) -> Tensor:
        """What the next layer sees: activations, then a row of ones."""
        nodes, rows, samples = before.shape
        after = before.new_empty(nodes, rows + 1, samples)
        after[:, -1] = 1.0
        if self.activation == "relu":
            torch.clamp_min(before, 0.0, out=after[:, :-1])
        else:
            torch.tanh(before, out=after[:, :-1])
        return after

    def _back(self, error: Tensor, after: Tensor) -> Tensor:
        """Error before the activation, from the error after it."""
        if self.activation == "relu":
            return torch.ops.aten.threshold_backward(error, after, 0.0)  # type: ignore[no-any-return]
        return torch.ops.aten.tanh_backward(error, after)  # type: ignore[no-any-return]


class Softmax(Mlp):
    """Multinomial logistic regression: no hidden layer."""

    def __init__(self, features: int, classes: int):
        super().__init__(features, classes, hidden=[])

    def initial(self, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG002
        return np.zeros(self.size)  # convex: zero is as good a start as any, and carries no data


def _softmax_error(scores: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """dL/d(scores) of every sample, p - y, and the mean loss of every node; scores `[k, classes, B]`."""
    chosen = labels.unsqueeze(1)
    log_p = torch.log_softmax(scores, dim=1)
    losses = log_p.gather(1, chosen).squeeze(1).neg_()
    error = log_p.exp_()
    error.scatter_(1, chosen, -1.0, reduce="add")
    return error, Batch(scores, labels, weight).mean(losses)


def norms_of(features: Tensor, known: Tensor | None) -> Tensor:
    """Bound on the norm of every sample's features, `[k, B]`: known from the start, or worked out."""
    return norm_bound(features) if known is None else known


def _sample_factor(norm: Tensor, clip_norm: float, weight: Tensor | None) -> Tensor:
    """What each sample's gradient is multiplied by: clipped, and weighed in the sum."""
    factor = clip_factor(norm, clip_norm)
    return factor.div_(norm.shape[1]) if weight is None else factor.mul_(weight)


def counted(bad: Tensor, weight: Tensor | None) -> Tensor:
    """Gradients that counted as zero, `[k]`; padding is none."""
    return (bad if weight is None else bad & (weight > 0)).sum(dim=1)


def _weigh_(error: Tensor, weight: Tensor | None) -> Tensor:
    return error.div_(error.shape[2]) if weight is None else error.mul_(weight.unsqueeze(1))
