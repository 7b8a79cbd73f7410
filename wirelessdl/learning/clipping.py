"""Clipping: it bounds the influence of one sample on a gradient.

batch        g <- g min(1, G / ||g||), the mini-batch gradient as one; replace-one sensitivity 2G
per-sample   g <- (1/B) sum_b g_b min(1, C / ||g_b||); replace-one sensitivity 2C/B

B is the divisor of the sum, which does not depend on the draw: see `learning/sampling.py`.
"""

from typing import Literal, TypeAlias

import numpy as np
import torch

from wirelessdl.arrays import FloatArray

Clipping: TypeAlias = Literal["batch", "per-sample"]


def sensitivity(clipping: Clipping, clip_norm: float, divisor: FloatArray) -> FloatArray:
    """L2 sensitivity of every node's gradient, `[K]`: how far one replaced sample moves it at most. divisor: [K]."""
    return np.full(len(divisor), 2.0 * clip_norm) if clipping == "batch" else 2.0 * clip_norm / divisor


def clip_factor(norm: torch.Tensor, clip_norm: float) -> torch.Tensor:
    """min(1, clip_norm / norm), 1 where the norm is 0."""
    return norm.reciprocal().mul_(clip_norm).clamp_max_(1.0)


def clip_rows_(gradient: torch.Tensor, clip_norm: float) -> torch.Tensor:
    """Each row of [K, m] scaled to a norm of at most clip_norm, in place."""
    norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    return gradient.mul_(clip_factor(norm, clip_norm))
