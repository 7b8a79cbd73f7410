"""Clipping: it bounds the influence of one sample on a gradient.

batch        g <- g min(1, G / ||g||), the mini-batch gradient as one; replace-one sensitivity 2G
per-sample   g <- (1/B) sum_b g_b min(1, C / ||g_b||); replace-one sensitivity 2C/B

B is the divisor of the sum, which does not depend on the draw: see `learning/sampling.py`.

A gradient that is not finite has no direction to keep: it counts as zero, and is counted. That includes norms from
1e18 (float32) on, whose squares leave the numbers: every strategy draws the line at the same place.
"""

from typing import Literal, TypeAlias

import numpy as np
import torch

from wirelessdl.arrays import FloatArray

Clipping: TypeAlias = Literal["batch", "per-sample"]
LARGEST = {torch.float32: 1e18, torch.float64: 1e150}  # norms that can be squared and summed


def sensitivity(clipping: Clipping, clip_norm: float, divisor: FloatArray) -> FloatArray:
    """L2 sensitivity of every node's gradient, `[K]`: how far one replaced sample moves it at most. divisor: [K]."""
    return np.full(len(divisor), 2.0 * clip_norm) if clipping == "batch" else 2.0 * clip_norm / divisor


def clip_factor(norm: torch.Tensor, clip_norm: float) -> torch.Tensor:
    """min(1, clip_norm / norm), 1 where the norm is 0."""
    return norm.reciprocal().mul_(clip_norm).clamp_max_(1.0)


def not_finite(norm: torch.Tensor) -> torch.Tensor:
    """Which norms belong to gradients that count as zero."""
    return torch.lt(norm, LARGEST[norm.dtype]).logical_not_()  # NaN is not less


def product_norm(back: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """Norm of an outer product, in place of `back`: 0 where nothing comes back, however large what went in."""
    nothing = back == 0
    return back.mul_(given).masked_fill_(nothing, 0.0)


def may_hold(flags: torch.Tensor) -> bool:
    """Whether any flag is set; True on an accelerator, since asking would wait for it."""
    return flags.device.type != "cpu" or bool(flags.any())


def clear_(values: torch.Tensor, flags: torch.Tensor, dim: int) -> torch.Tensor:
    """Zero where flags of the first dimensions and of `dim`, the samples, are set; multiplied, NaN would stay."""
    shape = [size if place in (*range(flags.ndim - 1), dim) else 1 for place, size in enumerate(values.shape)]
    return values.masked_fill_(flags.view(shape), 0.0)


def clip_rows_(gradient: torch.Tensor, clip_norm: float) -> torch.Tensor:
    """Each row of [K, m] scaled to a norm of at most clip_norm, in place; returns which were not finite, `[K]`."""
    norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    bad = not_finite(norm)
    gradient.mul_(clip_factor(norm, clip_norm))
    if may_hold(bad):
        gradient.masked_fill_(bad, 0.0)
    return bad.squeeze(1)
