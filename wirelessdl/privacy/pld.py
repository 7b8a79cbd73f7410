"""One Gaussian release on a sampled batch, replace-one: its privacy loss distribution, and its Renyi divergence.

Privacy profiles of one release, e' >= 0:

    without replacement   delta'(e') = q delta_Gauss(e),   exp(e') = 1 + q (exp(e) - 1)   (Balle, Barthe, Gaboardi 2018)
    poisson               delta'(e') = P[x > t] - exp(e') Q[x > t],   P, Q = (1-q) N(0, s^2) + q N(+1 or -1, s^2)

Under Poisson sampling the sample that is replaced is there with probability q, on either side: the sum moves from 0 by
one clipped gradient, half the sensitivity, so s = 2 nu. P/Q grows with x, and t is where it is exp(e'): a root of a
quadratic in exp(t / s^2).

Both are symmetric: delta'(-e') = 1 - exp(-e') (1 - delta'(e')). Between grid points the profile, as a function of
exp(e'), is replaced by its chords (Doroshenko et al. 2022), which lie above it: the composed epsilon is never below the
true one. Composition is multiplication of Fourier transforms.

    e, e'        privacy loss bounds without and with sampling; q: sampling rate, 0 to 1
    delta_Gauss  profile of the Gaussian release with noise multiplier nu, noise over replace-one sensitivity

Renyi DP, as printed in the paper (Theorem 9 of Wang, Balle, Kasiviswanathan).

    eps_sub(l) <= 1/(l-1) ln[ 1 + q^2 C(l,2) min{4(e^eps(2) - 1), 2 e^eps(2)}
                                + sum_{k=3..l} 2 q^k C(l,k) e^((k-1) eps(k)) ],    eps(k) = k / (2 nu^2)

    eps_sub(l)  Renyi divergence bound of order l of one release; q: sampling rate, 0 to 1
    eps(k)      Renyi divergence of the Gaussian release without sampling; nu: noise multiplier

Sampling without replacement, replace-one neighbours. Valid for integer orders l >= 2; the bound is not unimodal in
the order, so all orders are evaluated. Terms reach e^(10^6): everything is computed in logarithms.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, TypeAlias, overload

import numpy as np
from numpy.fft import irfft, rfft  # scipy's are the same, and keep the tables of 16 lengths, of 140 kB each, for good
from scipy.fft import next_fast_len
from scipy.special import gammaln, log_ndtr

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.gaussian import log_delta

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


BEYOND = 5000.0  # releases whose cheap bounds exceed this are not composed: the bound is their total
_POINTS = 1 << 14  # of the grid of losses that is kept
_TAIL_SHARE = 1e-10  # probability, relative to delta, that may be moved to infinity
_LEAST_DELTA = 1e-12  # below it rounding in transforms, some 1e-15 of probability, may lower a composed total


Sampled: TypeAlias = Literal["without-replacement", "poisson"]


def profile(epsilon: FloatArray, q: float, nu: float, sampler: Sampled = "without-replacement") -> FloatArray:
    """delta'(e') of one release, of the shape of epsilon = e', which may have either sign."""
    size = np.abs(epsilon)
    upper = _poisson(size, q, 2.0 * nu) if sampler == "poisson" else _without_replacement(size, q, nu)
    return np.where(epsilon >= 0, upper, -np.expm1(-size) + np.exp(-size) * upper)


def _without_replacement(size: FloatArray, q: float, nu: float) -> FloatArray:
    """delta'(e') at e' = size >= 0."""
    # exp(e) = 1 + (exp(e') - 1)/q, in the form that keeps its digits at either end
    near, far = np.minimum(size, 1.0), np.maximum(size, 1.0)
    inner = np.where(size < 1.0, np.log1p(np.expm1(near) / q), far + np.log1p(-(1.0 - q) * np.exp(-far)) - math.log(q))
    inner = np.maximum(inner, 1e-300)
    return np.asarray(q * np.exp(log_delta(inner, np.full_like(inner, 1.0 / nu))))


def _poisson(size: FloatArray, q: float, s: float) -> FloatArray:
    """delta'(e') at e' = size >= 0; s: noise deviation over the clipped gradient's norm."""
    if q >= 1.0:
        return np.asarray(np.exp(log_delta(np.maximum(size, 1e-300), np.full_like(size, 2.0 / s))))
    # c u^2 - b u - c exp(e') = 0 with u = exp(t / s^2): all in logarithms
    log_c = math.log(q) - 0.5 / s**2
    with np.errstate(divide="ignore"):
        log_b = math.log1p(-q) + size + np.log(-np.expm1(-size))
    root = 0.5 * np.logaddexp(2.0 * log_b, math.log(4.0) + 2.0 * log_c + size)
    t = s**2 * (np.logaddexp(log_b, root) - math.log(2.0) - log_c)
    absent, here, there = (log_ndtr((mean - t) / s) for mean in (0.0, 1.0, -1.0))
    log_p = np.logaddexp(math.log1p(-q) + absent, math.log(q) + here)
    log_q = np.logaddexp(math.log1p(-q) + absent, math.log(q) + there)
    return np.asarray(np.maximum(np.exp(log_p) - np.exp(size + log_q), 0.0))


def loss_masses(
    grid: FloatArray, q: float, nu: float, sampler: Sampled = "without-replacement"
) -> tuple[FloatArray, float]:
    """Probability of each privacy loss, of the shape of grid, and of an infinite loss, by chords of the profile."""
    height, gap = profile(grid, q, nu, sampler), np.diff(grid)
    rise = np.diff(height)
    # slopes over exp(e') left and right of a point, times exp(e') there, which overflows beyond 700; left of the grid
    # the curve falls like 1 - exp(e') from 1, right of it, it is flat at the tail's height
    before = np.concatenate([[height[0] - 1.0], -rise / np.expm1(-gap)])
    after = np.concatenate([rise / np.expm1(gap), [0.0]])
    mass = np.maximum(after - before, 0.0)
    infinite = float(height[-1])
    return mass, max(infinite, 1.0 - float(mass.sum()))


def compose(
    counts: Mapping[tuple[float, float], int], delta: float, *, sampler: Sampled = "without-replacement"
) -> float:
    """Epsilon of releases `(q, nu) -> how many`; infinite, which bounds nothing, where delta is below `_LEAST_DELTA`.

    The range of losses kept is chosen so that what lies beyond has at most _TAIL_SHARE delta of probability, by
    Chernoff's bound on the composed masses themselves; that much is counted as infinite loss, so nothing
    that wraps around is lost.
    """
    if not counts:
        return 0.0
    if delta < _LEAST_DELTA:
        return math.inf
    reach = max(_support(q, nu, delta / sum(counts.values()), sampler) for q, nu in counts)
    half = _range(counts, reach, delta, sampler)
    step = 2.0 * half / _POINTS
    steps = math.ceil(reach / step)
    grid = step * np.arange(-steps, steps + 1, dtype=np.float64)
    length = next_fast_len(_POINTS + 2 * steps + 2, real=True)
    spectrum = np.zeros(length // 2 + 1, dtype=np.complex128)
    finite = 0.0
    for (q, nu), count in counts.items():
        mass, infinite = loss_masses(grid, q, nu, sampler)
        with np.errstate(divide="ignore", invalid="ignore"):  # of a number that is 0: exp(-inf) is 0 again
            spectrum += count * np.log(rfft(np.roll(np.pad(mass, (0, length - len(mass))), -steps)))
        finite += count * math.log1p(-min(infinite, 1.0 - 1e-16))
    total = np.roll(irfft(np.exp(spectrum), length), length // 2)
    loss = step * (np.arange(length, dtype=np.float64) - length // 2)
    return _epsilon(np.maximum(total, 0.0), loss, -math.expm1(finite) + 2.0 * _TAIL_SHARE * delta, delta)


def _range(counts: Mapping[tuple[float, float], int], reach: float, delta: float, sampler: Sampled) -> float:
    """Loss that the sum exceeds in size with probability at most _TAIL_SHARE delta."""
    # a coarser grid of chords dominates the finer one, so its moments bound the finer one's upper tail
    grid = np.linspace(-reach, reach, 301)
    slopes = np.geomspace(1e-3, 1e4, 36) / max(reach, 1e-12)
    upper, lower = np.zeros(len(slopes)), np.zeros(len(slopes))
    for (q, nu), count in counts.items():
        mass, _ = loss_masses(grid, q, nu, sampler)
        with np.errstate(divide="ignore"):
            log_mass = np.log(mass)
        tilt = slopes[:, None] * grid
        upper += count * _log_sum_exp(log_mass + tilt)
        lower += count * _log_sum_exp(log_mass - tilt)
    needed = -math.log(_TAIL_SHARE * delta)
    widest = max(float(np.min((upper + needed) / slopes)), float(np.min((lower + needed) / slopes)))
    return min(1.01 * widest + 2 * reach / 300, 1.01 * sum(counts.values()) * reach) + 1e-12


def _log_sum_exp(values: FloatArray) -> FloatArray:
    """Of each row; scipy's takes ten times as long over rows this short."""
    top = values.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(values - top).sum(axis=1)) + top[:, 0])


def _support(q: float, nu: float, delta: float, sampler: Sampled) -> float:
    """Loss beyond which a release's tail is negligible against delta."""
    if sampler == "poisson" and q < 1.0:
        s = 2.0 * nu
        x = 1.0 + s * math.sqrt(-2.0 * math.log(_TAIL_SHARE * delta))
        return _sampled(q, (x - 0.5) / s**2) - _sampled(q, -(x + 0.5) / s**2)
    mu = 1.0 / nu
    return _sampled(q, mu * mu / 2 + mu * math.sqrt(-2.0 * math.log(_TAIL_SHARE * delta)))


def _sampled(q: float, loss: float) -> float:
    """ln(1 - q + q exp(loss))."""
    return math.log1p(q * math.expm1(loss)) if loss < 700.0 else loss + math.log(q)


def _epsilon(mass: FloatArray, loss: FloatArray, infinite: float, delta: float) -> float:
    """Smallest epsilon with sum over larger losses of mass (1 - exp(epsilon - loss)) + infinite <= delta."""
    if infinite >= delta:
        return math.inf
    mass, loss = mass[loss > 0], loss[loss > 0]

    def sums(first: int) -> tuple[float, float]:
        """Mass of losses from a grid point on, and the same with each times exp(this loss - its own)."""
        some = mass[first:]
        # no product of BLAS, whose last digits follow the number of threads
        return float(some.sum()) + infinite, float((some * np.exp(loss[first] - loss[first:])).sum())

    def is_enough(first: int) -> bool:
        tail, weighted = sums(first)
        return tail - weighted <= delta

    first = bisect_left(range(len(mass) - 1), True, key=is_enough)
    tail, weighted = sums(first)
    # between grid points both sums are those of the right one: solve for epsilon
    return max(0.0, float(loss[first]) + math.log((tail - delta) / weighted)) if tail > delta else 0.0
