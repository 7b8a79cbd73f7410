"""Strongly convex learners, whose optimum can be known.

    ridge      f_i(w) = mean of (w'a - y)^2 / 2 over node i's samples + penalty/2 ||w||^2
    logistic   f_i(w) = mean cross entropy over node i's samples      + penalty/2 ||w||^2

The last column of a is one, so the bias is penalised like any weight: that is what makes them strongly
convex. The penalty's gradient holds no data: `gradient` leaves it out, and the engine's step adds it after clipping,
in float64. What the network minimises is F = sum_i f_i, with equal weight for each node; `objective` gives
F(w) - F(w*) of any models.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
import scipy
import torch
from annotated_types import Gt
from torch import Tensor

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.contract import Guard, capability
from wirelessdl.learning.batch import Buffer, Store, finite_mean
from wirelessdl.learning.clipping import (
    Clipping,
    clear_,
    clip_factor,
    clip_rows_,
    may_hold,
    not_finite,
    product_norm,
    sum_samples,
)
from wirelessdl.learning.models import is_built_in
from wirelessdl.learning.models.closed_form import Softmax, counted, norms_of
from wirelessdl.learning.models.module import name_of

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
