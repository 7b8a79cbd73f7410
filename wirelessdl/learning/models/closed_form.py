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

Two are strongly convex, so that their optimum can be known:

    ridge      f_i(w) = mean of (w'a - y)^2 / 2 over node i's samples + penalty/2 ||w||^2
    logistic   f_i(w) = mean cross entropy over node i's samples      + penalty/2 ||w||^2

The last column of a is one, so the bias is penalised like any weight: that is what makes them strongly convex.
The penalty's gradient holds no data: `gradient` leaves it out, and the engine's step adds it after clipping,
in float64. What the network minimises is F = sum_i f_i, with equal weight for each node; `objective` gives
F(w) - F(w*) of any models.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
import scipy
import torch
from annotated_types import Ge, Gt, MinLen
from torch import Tensor

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.contract import Guard, capability
from wirelessdl.learning.batch import Batch, Buffer, Store, finite_mean
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
from wirelessdl.learning.models import is_built_in, layers
from wirelessdl.learning.models.module import name_of


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


Penalty = Annotated[float, Gt(0)]


class Objective(Protocol):
    """What a network minimises: F(w) = sum over samples of weight * loss + K penalty/2 ||w||^2."""

    optimum: FloatArray

    def excess(self, x: Tensor) -> Tensor:
        """F(x_j) - F(w*) of each model, `[K]`."""


class Ridge:
    """Linear regression with an L2 penalty."""

    bias_column = True
    task: ClassVar[str] = "regression"

    def __init__(self, features: int, penalty: Penalty = 0.01):
        self.penalty = penalty
        self.size = features + 1
        self.shapes = [(1, features + 1)]

    def initial(self, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG002
        return np.zeros(self.size)

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
        error = torch.bmm(features, x.unsqueeze(2)).squeeze(2).sub_(labels)
        each = torch.full_like(error, 1.0 / error.shape[1]) if weight is None else weight
        total = each.sum(dim=1).clamp_min(torch.finfo(x.dtype).tiny)
        loss = finite_mean((error.square() * each).sum(dim=1) / (2.0 * total), 0.5 * error.square(), each)
        loss = loss + 0.5 * self.penalty * x.square().sum(dim=1)
        if clipping == "per-sample":
            norm = product_norm(error.abs(), norms_of(features, feature_norm))
            bad = not_finite(norm)
            error = error * clip_factor(norm, clip_norm)
            if may_hold(bad):
                clear_(error, bad, 1)
        gradient = torch.empty_like(x) if out is None else out
        gradient.unsqueeze(1).copy_(sum_samples((error * each).unsqueeze(1), features))
        if clipping == "batch":
            bad = clip_rows_(gradient, clip_norm).unsqueeze(1)
        if nonfinite is not None:
            nonfinite.copy_(counted(bad, weight if clipping == "per-sample" else None))
        return gradient, loss

    def scores(self, x: Tensor, features: Tensor) -> Tensor:
        return (features @ x.T).T.unsqueeze(2)

    def objective(self, features: Tensor, labels: Tensor, weight: Tensor, nodes: int) -> "Quadratic":
        a, y, w = (part.double() for part in (features, labels, weight))
        matrix = (a * w.unsqueeze(1)).T @ a + nodes * self.penalty * torch.eye(
            self.size, dtype=a.dtype, device=a.device
        )
        return Quadratic(matrix, a.T @ (w * y), features.dtype)


class Quadratic:
    """F(w) = w'Hw/2 - b'w + c."""

    def __init__(self, matrix: Tensor, vector: Tensor, dtype: torch.dtype):
        best = torch.linalg.solve(matrix, vector)
        self.optimum = best.cpu().numpy()
        self._matrix, self._best = matrix.to(dtype), best.to(dtype)

    def excess(self, x: Tensor) -> Tensor:
        apart = x - self._best
        excess: Tensor = 0.5 * (apart @ self._matrix * apart).sum(dim=1)
        return excess


class Logistic:
    """Multinomial logistic regression with an L2 penalty."""

    bias_column = True

    def __init__(self, features: int, classes: int, penalty: Penalty = 0.01):
        self._softmax = Softmax(features, classes)
        self.size, self.shapes, self.classes = self._softmax.size, self._softmax.shapes, classes
        self.penalty = penalty

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        return self._softmax.initial(rng)

    def gradient(self, x: Tensor, *given: Any) -> tuple[Tensor, Tensor]:
        """As `Softmax.gradient`, the penalty in the loss only."""
        gradient, loss = self._softmax.gradient(x, *given)
        return gradient, loss + 0.5 * self.penalty * x.square().sum(dim=1)

    def scores(self, x: Tensor, features: Tensor) -> Tensor:
        return self._softmax.scores(x, features)

    def objective(self, features: Tensor, labels: Tensor, weight: Tensor, nodes: int) -> "CrossEntropy":
        return CrossEntropy(self, features, labels, weight, nodes)


class CrossEntropy:
    """F of logistic regression, summed over all samples; its minimum by L-BFGS."""

    def __init__(self, learner: Logistic, features: Tensor, labels: Tensor, weight: Tensor, nodes: int):
        self._learner, self._features, self._labels, self._weight = learner, features, labels, weight
        self._nodes = nodes
        found = scipy.optimize.minimize(
            self._value_and_slope,
            np.zeros(learner.size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-14, "gtol": 1e-8},
        )
        self.optimum = np.asarray(found.x)
        best = torch.as_tensor(found.x, dtype=features.dtype, device=features.device)
        self._least = self._value(best.unsqueeze(0))

    def excess(self, x: Tensor) -> Tensor:
        return self._value(x) - self._least

    def _value(self, x: Tensor) -> Tensor:
        log_p = torch.log_softmax(self._learner.scores(x, self._features), dim=2)
        chosen = log_p.gather(2, self._labels.view(1, -1, 1).expand(len(x), -1, 1)).squeeze(2)
        return -(chosen * self._weight).sum(dim=1) + self._penalty() * x.square().sum(dim=1)

    def _value_and_slope(self, flat: FloatArray) -> tuple[float, FloatArray]:
        features = self._features.double()
        w = torch.as_tensor(flat, device=features.device).view(self._learner.classes, -1)
        log_p = torch.log_softmax(features @ w.T, dim=1)
        weight = self._weight.double()
        value = (
            -(log_p.gather(1, self._labels.unsqueeze(1)).squeeze(1) * weight).sum() + self._penalty() * w.square().sum()
        )
        error = log_p.exp()
        error[torch.arange(len(error), device=error.device), self._labels] -= 1.0
        slope = (error * weight.unsqueeze(1)).T @ features + 2.0 * self._penalty() * w
        return float(value), slope.reshape(-1).cpu().numpy()

    def _penalty(self) -> float:
        return 0.5 * self._nodes * self._learner.penalty


def known_objective(learner: Any, store: Store, client_indices: Sequence[IntArray]) -> Objective:
    """The mean of all nodes' losses and where it is least. Raises ValueError for a learner that does not know it."""
    if capability(learner, "objective") is None:
        raise ValueError(
            f"learning.regret is true; the optimum of {type(learner).__name__} is not known: use ridge or logistic"
        )
    features = Buffer(store).normalise(store.train_x)
    weight = torch.zeros(len(features), dtype=store.dtype, device=features.device)
    for client in client_indices:  # each node's mean counts alike
        weight[torch.as_tensor(client, device=features.device)] = 1.0 / len(client)
    guard = Guard(f"learning.model: {name_of(learner)}.objective", is_user_class=not is_built_in(learner))
    with torch.no_grad(), guard:
        objective: Objective = learner.objective(features, store.train_y, weight, len(client_indices))
    return objective
