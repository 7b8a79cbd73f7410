"""Superposition and update on the batch: the paper's eq. 5-11 as a few calls on [K, m].

w = x + sqrt(beta/alpha) eta        what each node sends, in units of its model
s = A w + thermal / (c (d + 1))     what each node holds after the slot
x <- Proj(s - gamma mult g)
"""

import torch
from torch import Tensor


def superpose(weights: Tensor, sent: Tensor, out: Tensor) -> Tensor:
    """s = A w, written to `out`, which may hold receiver noise already."""
    return torch.addmm(out, weights, sent, out=out)


def project_(x: Tensor, radius: float) -> Tensor:
    """Each row onto the ball of a radius about 0, in place."""
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x.mul_((radius / norm.clamp_min(radius)).clamp_max_(1.0))


def consensus_distance(x: Tensor) -> Tensor:
    """Root mean square distance of the rows from their mean."""
    apart: Tensor = torch.linalg.vector_norm(x - x.mean(dim=0), dim=1)
    return apart.square().mean().sqrt()
