"""Renyi DP of the subsampled Gaussian, as printed in the paper (Theorem 9 of Wang, Balle, Kasiviswanathan).

    eps_sub(l) <= 1/(l-1) ln[ 1 + q^2 C(l,2) min{4(e^eps(2) - 1), 2 e^eps(2)}
                                + sum_{k=3..l} 2 q^k C(l,k) e^((k-1) eps(k)) ],    eps(k) = k / (2 nu^2)

    eps_sub(l)  Renyi divergence bound of order l of one release; q: sampling rate, 0 to 1
    eps(k)      Renyi divergence of the Gaussian release without sampling; nu: noise multiplier

Sampling without replacement, replace-one neighbours. Valid for integer orders l >= 2; the bound is not unimodal in
the order, so all orders are evaluated. Terms reach e^(10^6): everything is computed in logarithms.
"""

import math
from functools import lru_cache
from typing import overload

import numpy as np
from scipy.special import gammaln

from wirelessdl.arrays import FloatArray, IntArray

ALL_ORDERS: IntArray = np.arange(2, 1025)
# for running totals; any subset of orders is a valid bound, and the large ones cost most
SPARSE_ORDERS: IntArray = np.unique(
    np.concatenate([np.arange(2, 33), np.round(np.geomspace(32, 1024, 13)).astype(np.int64)])
)


@overload
def subsampled_rdp(order: int, q: float, noise_multiplier: float) -> float: ...
@overload
def subsampled_rdp(order: IntArray, q: float, noise_multiplier: float) -> FloatArray: ...
def subsampled_rdp(order: int | IntArray, q: float, noise_multiplier: float) -> float | FloatArray:
    """eps_sub at one order, or at an array of orders, of one release with sampling rate q."""
    if not 0 < q <= 1:
        raise ValueError(f"q is {q}; must be in (0, 1]")
    orders = np.atleast_1d(np.asarray(order, dtype=np.int64))
    if orders.min() < 2:
        raise ValueError(f"order is {orders.min()}; must be an integer >= 2")
    values = rdp_table(tuple(orders.tolist()), np.array([q]), np.array([noise_multiplier]))[0]
    return values if isinstance(order, np.ndarray) else float(values[0])


def rdp_table(orders: tuple[int, ...], q: FloatArray, nu: FloatArray) -> FloatArray:
    """eps_sub, `[n, orders]`, of pairs (q, nu), `[n]` each; nu = 0 gives inf, q = 1 no amplification."""
    start, k, pairs, log_choose, last = _terms(orders)
    order = np.asarray(orders, dtype=np.float64)
    table = np.empty((len(q), len(orders)))
    with np.errstate(divide="ignore"):
        inverse = np.where(nu > 0, (1.0 / np.where(nu > 0, nu, 1.0)) ** 2, np.inf)
    plain = (q >= 1.0) | np.isinf(inverse)
    table[plain] = order * inverse[plain, None] / 2
    for chunk in np.array_split(np.flatnonzero(~plain), max(1, int((~plain).sum()) // 64)):
        rate, curvature = q[chunk, None], inverse[chunk, None]
        exponent = log_choose + k * np.log(rate) + pairs * curvature
        # k = 2 comes first in every order's run of terms and has its own constant
        second = np.minimum(math.log(4.0) + _log_expm1(curvature), math.log(2.0) + curvature)
        exponent[:, start] += second - math.log(2.0) - curvature
        peak = np.maximum(np.maximum.reduceat(exponent, start, axis=1) + math.log(2.0), 0.0)
        np.subtract(exponent, peak[:, last], out=exponent)
        np.exp(exponent, out=exponent)
        rest = 2.0 * np.add.reduceat(exponent, start, axis=1)
        # ln(1 + rest) keeps the digits of a small rest, where the peak is the 1 itself
        table[chunk] = np.where(peak > 0, peak + np.log(rest + np.exp(-peak)), np.log1p(rest)) / (order - 1)
    return table


def convert(total: FloatArray, delta: float) -> FloatArray:
    """Epsilon, `[streams]`, of RDP totals at SPARSE_ORDERS, `[streams, orders]`, by the paper's conversion."""
    bound = np.min(total + math.log(1 / delta) / (SPARSE_ORDERS - 1), axis=1)
    return np.where(total.max(axis=1) > 0, bound, 0.0)


def _log_expm1(x: FloatArray) -> FloatArray:
    return np.where(x < 30, np.log(np.maximum(np.expm1(np.minimum(x, 30.0)), 1e-300)), x)


@lru_cache(maxsize=4)
def _terms(orders: tuple[int, ...]) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, IntArray]:
    """Flat run of (order, k), k = 2..order: starts, k, k(k-1)/2, ln C(order, k), run of each term."""
    length = np.asarray(orders) - 1
    start = np.concatenate([[0], np.cumsum(length)[:-1]]).astype(np.int64)
    run = np.repeat(np.arange(len(orders)), length)
    k = (np.arange(length.sum()) - start[run] + 2).astype(np.float64)
    order = np.asarray(orders, dtype=np.float64)[run]
    log_choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    return start, k, k * (k - 1) / 2, log_choose, run.astype(np.int64)
