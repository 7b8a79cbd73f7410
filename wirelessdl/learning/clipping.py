"""Clipping: it bounds the influence of one sample on a gradient.

batch        g <- g min(1, G / ||g||), the mini-batch gradient as one; sensitivity 2G
per-sample   g <- (1/B) sum_b g_b min(1, C / ||g_b||); sensitivity 2C/B of a replaced sample, C/B of a zeroed one

B is the divisor of the sum, which does not depend on the draw: see `learning/sampling.py`.

A gradient that is not finite has no direction to keep: it counts as zero, and is counted. That includes norms from
1e18 (float32) on, whose squares leave the numbers: every strategy draws the line at the same place.

Clipping in floating point. What is bounded is what a strategy really adds to its sum. Sample b enters it as
w_b f_b g_b, w_b its weight and g_b either an array that was worked out for this sample alone, or the outer product e a'
of two. The norm is that of this very array or product, not of the gradient that exact arithmetic would give: a
cancellation on the way to g_b makes g_b inexact, not its norm. What remains are the roundings of norms and factors:

    norm     `norm_bound` is no smaller than the norm: a sum of n squares, added in any order, is at most
             n u / (1 - n u) of itself too small (u: unit roundoff, 2^-24 in float32); where squares may vanish,
             below 1e-12 in float32, the bound is sqrt(n) times the largest number
    product  ||e a'|| = ||e|| ||a||, of two such bounds
    factor   f_b = min(1, C (1 - 16 u) / bound): its own two roundings, that of f_b times weight, and that of each
             number that it multiplies stay below 16 u

So ||f_b g_b|| <= C for every sample, whatever its data. Under batch clipping the sum comes first, and the array that is
returned has a norm of at most G.

Rounding before the noise. What a node sends is x + n, x = Proj(s - gamma mult g) for a known s. Noise hides x as the
computer has it, so what rounding adds to the distance of two neighbouring x is charged, on top of the sensitivity in
real arithmetic:

    g    clipped gradients of samples are summed in float64 and rounded once: off by e sum_b w_b ||f_b g_b|| at most,
         e = 2^-24 (float32) + (B + 4) 2^-53
    x    step and projection are in float64, u = 2^-53, and what is sent is rounded after the noise: two x are
         2 u (sqrt(m) + 8) R further apart at most, R the radius of the ball, sqrt(m) u the error of a norm

Each of two neighbours is off by that. A clipped batch is off by the roundings of its scaling. On a device without
float64 the sum is one in float32, e = (B + 4) 2^-24; steps are taken on the CPU there.
"""

import math
from typing import Literal, TypeAlias

import numpy as np
import torch

from wirelessdl.arrays import FloatArray, IntArray

Clipping: TypeAlias = Literal["batch", "per-sample"]
_SQUARES_PER_SUM = 1024  # numbers whose squares are summed at once
_ROUNDINGS = 16  # more than there are around a sum, in factors and in products with them
MAX_NORM = {torch.float32: 1e18, torch.float64: 1e150}  # norms that can be squared and summed
_MAX_WIDENED = 300_000  # numbers that are widened at a time
_UNIT = 2.0**-53


def sensitivity(
    clipping: Clipping, clip_norm: float, divisor: FloatArray, adjacency: str = "replace-one"
) -> FloatArray:
    """L2 sensitivity of every node's gradient, `[K]`: how far one sample that changes moves it at most. divisor: [K].

    Replaced by another, or (zero-out) by a null record: a batch's gradient may turn around either way, a sample's no.
    """
    if clipping == "batch":
        return np.full(len(divisor), 2.0 * clip_norm)
    return (1.0 if adjacency == "zero-out" else 2.0) * clip_norm / divisor


def sum_rounding(
    clipping: Clipping,
    clip_norm: float,
    samples: IntArray,
    divisor: FloatArray,
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> FloatArray:
    """How much further apart gradients of two neighbours may be, `[K]`. samples: [K] in a batch at most."""
    unit = torch.finfo(dtype).eps / 2
    if clipping == "batch":
        return np.full(len(divisor), 2.0 * clip_norm * 4.0 * unit)
    added = torch.finfo(wide(device)).eps / 2
    error = (unit if dtype != wide(device) else 0.0) + (samples + 4.0) * added
    return np.asarray(2.0 * clip_norm * error * samples / divisor)


def step_rounding(radius: float, size: int) -> float:
    """How much further apart models of two neighbours may be after step and projection. radius: of the ball."""
    return 2.0 * _UNIT * (math.sqrt(size) + 8.0) * radius


def charged_share(share: float) -> float:
    """A share of rounding as it is charged: a power of ten from 1e-6 on, so that more rounds seldom change it.

    The least step is that of the last round. A run that is extended must have had the sensitivity of the longer one.
    """
    return 0.0 if share == 0.0 else 10.0 ** max(-6, math.ceil(math.log10(share)))


def wide(device: torch.device) -> torch.dtype:
    """The widest numbers that a device has."""
    return torch.float32 if device.type == "mps" else torch.float64


def sum_samples(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left @ right in the widest numbers, `[..., r, c]`: sums over samples, left `[..., r, B]`, right `[..., B, c]`."""
    dtype = wide(right.device)
    if right.device.type != "cpu":  # an accelerator is given no more than it holds
        return left.to(dtype) @ right.to(dtype)
    if right.ndim == 2:
        return sum_samples(left[None], right[None])[0]
    nodes, samples, columns = right.shape
    at_once = max(1, min(nodes, _MAX_WIDENED // max(1, samples * columns)))
    step = max(1, min(samples, _MAX_WIDENED // max(1, columns)))
    total, turned = right.new_zeros(nodes, left.shape[1], columns, dtype=dtype), right.stride(2) != 1
    widened = right.new_empty(at_once * step * columns, dtype=dtype)  # one piece of memory, which stays in the cache
    for error, given, sums in zip(*(part.unsafe_split(at_once) for part in (left.to(dtype), right, total))):
        for start in range(0, samples, step):
            block = given[:, start : start + step]
            lies = block.mT if turned else block
            wider = widened[: block.numel()].view(lies.shape).copy_(lies)
            sums.baddbmm_(error[..., start : start + step], wider.mT if turned else wider)
    return total


def norm_bound(values: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """No smaller than the norm along a dimension, and larger by less than 1.3e-4 (float32, up to a million)."""
    count = terms = values.shape[dim]
    if dim != -1:  # samples last: `vector_norm` takes fifteen times as long over numbers that lie apart
        norm = values.square().sum(dim=dim).sqrt_()
    elif count <= _SQUARES_PER_SUM:
        norm = torch.linalg.vector_norm(values, dim=-1)
    else:  # sums of sums: a single one of a million squares in float32 was seen 5e-4 too small
        whole, terms = count // _SQUARES_PER_SUM * _SQUARES_PER_SUM, _SQUARES_PER_SUM + count // _SQUARES_PER_SUM + 1
        blocks = torch.linalg.vector_norm(values[..., :whole].unfold(-1, _SQUARES_PER_SUM, _SQUARES_PER_SUM), dim=-1)
        rest = torch.linalg.vector_norm(values[..., whole:], dim=-1, keepdim=True)
        norm = torch.linalg.vector_norm(torch.cat([blocks, rest], dim=-1), dim=-1)
    kind = torch.finfo(values.dtype)
    smallest = math.sqrt(kind.tiny / kind.eps**2)  # below, squares that vanished may be a share of the sum
    if count and (norm.device.type != "cpu" or not norm.min() >= smallest):  # NaN is not more
        largest = torch.linalg.vector_norm(values, torch.inf, dim=dim)
        norm = torch.where(norm < smallest, largest.mul_(math.sqrt(count)), norm)
    return norm.mul_(1.0 + (terms + _ROUNDINGS) * kind.eps / 2)


def clip_factor(norm: torch.Tensor, clip_norm: float) -> torch.Tensor:
    """min(1, clip_norm / norm), 1 where the norm is 0; smaller by what the products with it may be rounded up."""
    below = clip_norm * (1.0 - _ROUNDINGS * torch.finfo(norm.dtype).eps / 2)
    return norm.reciprocal().mul_(below).clamp_max_(1.0)


def not_finite(norm: torch.Tensor) -> torch.Tensor:
    """Which norms belong to gradients that count as zero."""
    return torch.lt(norm, MAX_NORM[norm.dtype]).logical_not_()  # NaN is not less


def product_norm(back: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """Norm of an outer product, of bounds of both, in place of `back`: 0 where nothing comes back to however much."""
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
    norm = norm_bound(gradient).unsqueeze(1)
    bad = not_finite(norm)
    gradient.mul_(clip_factor(norm, clip_norm))
    if may_hold(bad):
        gradient.masked_fill_(bad, 0.0)
    return bad.squeeze(1)
