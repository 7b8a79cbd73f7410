"""Learners: K weight vectors, one call.

`Softmax`: multinomial logistic regression. Weights of a node are [classes, features + 1], the bias
being the last column, so that a gradient is one contiguous matrix product.
"""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from wirelessdl.learning.clipping import Clipping, clip_factor


class Learner(Protocol):
    """Gradients and scores of K models `x[K, m]` at once."""

    size: int

    def initial(self, rng: np.random.Generator) -> np.ndarray: ...

    def gradient(
        self, x: Tensor, features: Tensor, labels: Tensor, clipping: Clipping, clip_norm: float
    ) -> tuple[Tensor, Tensor]:
        """Clipped gradient `[K, m]` and mean loss `[K]`; features `[K, B, features + 1]`."""
        ...

    def scores(self, x: Tensor, features: Tensor) -> Tensor:
        """Class scores of common samples, `[K, N, classes]`."""
        ...


class Softmax:
    """Multinomial logistic regression.

    Closed form: dL/dW = (p - y) a', so a sample's gradient has norm ||p - y|| ||a||.
    """

    def __init__(self, features: int, classes: int):
        self.features, self.classes = features, classes
        self.size = classes * (features + 1)

    def initial(self, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG002
        return np.zeros(self.size)  # convex: zero is as good a start as any, and carries no data

    def gradient(
        self, x: Tensor, features: Tensor, labels: Tensor, clipping: Clipping, clip_norm: float
    ) -> tuple[Tensor, Tensor]:
        nodes, batch, width = features.shape
        weights = x.view(nodes, self.classes, width)
        log_p = torch.log_softmax(torch.bmm(features, weights.transpose(1, 2)), dim=2)
        loss = -log_p.gather(2, labels.unsqueeze(2)).mean(dim=(1, 2))
        error = log_p.exp_()
        error.scatter_add_(2, labels.unsqueeze(2), error.new_full((), -1.0).expand(nodes, batch, 1))
        if clipping == "per-sample":
            norm = torch.linalg.vector_norm(error, dim=2) * torch.linalg.vector_norm(features, dim=2)
            error.mul_((clip_factor(norm, clip_norm) / batch).unsqueeze(2))
        else:
            error.div_(batch)
        gradient = torch.bmm(error.transpose(1, 2), features).view(nodes, self.size)
        if clipping == "batch":
            norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
            gradient.mul_(clip_factor(norm, clip_norm))
        return gradient, loss

    def scores(self, x: Tensor, features: Tensor) -> Tensor:
        nodes = len(x)
        flat = features @ x.view(nodes * self.classes, -1).T  # one product for all nodes
        return flat.view(len(features), nodes, self.classes).transpose(0, 1)


MODELS = {"softmax": Softmax}
