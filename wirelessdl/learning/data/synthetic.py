"""Synthetic data of any size, for tests, scaling and theory.

synthetic              a mixture of unit Gaussians, one per class, whose centres lie `separation` from the origin
synthetic-regression   y = X w + b + noise. The noise of the training set is made orthogonal to [X 1], so the
                       least-squares optimum over all training samples is w and b themselves.

Made from their own seed: another scenario.seed splits the same data differently among nodes.
"""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from wirelessdl.learning.data.dataset import Dataset
from wirelessdl.memory import require_free

Count = Annotated[int, Ge(1)]


class Synthetic:
    """A Gaussian mixture: one unit Gaussian per class, centres on a sphere."""

    def __init__(
        self,
        classes: Annotated[int, Ge(2)] = 10,
        features: Count = 32,
        separation: Annotated[float, Ge(0)] = 3.0,
        samples: Count = 10_000,
        test_samples: Count = 2_000,
        seed: Annotated[int, Ge(0)] = 0,
    ):
        if samples < classes:
            raise ValueError(f"samples is {samples}; must be at least one for each of {classes} classes")
        self.classes, self.features, self.separation = classes, features, separation
        self.samples, self.test_samples, self.seed = samples, test_samples, seed

    def load(self) -> Dataset:
        _require_room(self.samples, self.test_samples, self.features, self.classes)
        rng = np.random.default_rng(self.seed)
        centre = rng.standard_normal((self.classes, self.features))
        centre *= self.separation / np.linalg.norm(centre, axis=1, keepdims=True)
        train_y, test_y = (
            rng.permutation(np.arange(count, dtype=np.int64) % self.classes)
            for count in (self.samples, self.test_samples)
        )
        train_x, test_x = (
            (centre[label] + rng.standard_normal((len(label), self.features))).astype(np.float32)
            for label in (train_y, test_y)
        )
        return Dataset("synthetic", train_x, train_y, test_x, test_y, classes=self.classes)


class SyntheticRegression:
    """Linear regression whose least-squares optimum is known."""

    def __init__(
        self,
        features: Count = 16,
        noise: Annotated[float, Ge(0)] = 0.1,
        condition: Annotated[float, Ge(1)] = 1.0,
        weight_norm: Annotated[float, Gt(0)] = 1.0,
        samples: Count = 10_000,
        test_samples: Count = 2_000,
        seed: Annotated[int, Ge(0)] = 0,
    ):
        if samples <= features + 1:
            raise ValueError(f"samples is {samples}; must exceed features + 1, which is {features + 1}")
        self.features, self.noise, self.condition, self.weight_norm = features, noise, condition, weight_norm
        self.samples, self.test_samples, self.seed = samples, test_samples, seed

    def load(self) -> Dataset:
        _require_room(self.samples, self.test_samples, self.features, 1)
        rng = np.random.default_rng(self.seed)
        truth = rng.standard_normal(self.features + 1)
        truth *= self.weight_norm / np.linalg.norm(truth)
        # variances of the features fall from 1 to 1/condition
        scale = np.geomspace(1.0, self.condition**-0.5, self.features)
        train_x, test_x = (scale * rng.standard_normal((n, self.features)) for n in (self.samples, self.test_samples))
        ones = np.ones((self.samples, 1))
        basis, _ = np.linalg.qr(np.hstack([train_x, ones]))
        error = self.noise * rng.standard_normal(self.samples)
        error -= basis @ (basis.T @ error)
        train_y = train_x @ truth[:-1] + truth[-1] + error
        test_y = test_x @ truth[:-1] + truth[-1] + self.noise * rng.standard_normal(self.test_samples)
        return Dataset(
            "synthetic-regression", train_x, train_y, test_x, test_y, classes=1, task="regression", truth=truth
        )


def _require_room(samples: int, test_samples: int, features: int, classes: int) -> None:
    """Raise before numbers are drawn that memory cannot hold: three copies in float64 on the way."""
    largest = 3 * 8 * (max(samples, test_samples) + classes) * (features + 1) + 4 * (samples + test_samples) * features
    require_free(
        f"samples is {samples} and test_samples {test_samples}, of {features} features each",
        largest,
        "lower one of them",
    )
