"""The Gaussian mechanism, classic and analytic.

A release with L2 sensitivity D and noise deviation s has noise multiplier nu = s / D; mu = 1 / nu.

    classic    eps = mu sqrt(2 ln(1.25 / delta))                        proven for eps < 1
    analytic   delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)   exact (Balle and Wang 2018)

The paper's Theorem 1 is the classic form. It is proven up to eps = 1 only, so `slot_epsilon` uses the analytic form
beyond: max(1, analytic), which is monotone and never below the exact value.
"""

import math

import numpy as np
import scipy

from wirelessdl.arrays import FloatArray
from wirelessdl.units import Level

_LARGEST = 1e18  # an epsilon beyond which exponents overflow; what keeps this one keeps larger ones


def classic_factor(delta: float) -> float:
    """sqrt(2 ln(1.25/delta)): epsilon per unit mu of the classic mechanism."""
    return math.sqrt(2.0 * math.log(1.25 / delta))


def log_delta(epsilon: FloatArray, mu: FloatArray) -> FloatArray:
    """ln delta of a Gaussian release, exact; epsilon and mu: positive arrays of one shape."""
    upper = scipy.special.log_ndtr(mu / 2 - epsilon / mu)
    lower = epsilon + scipy.special.log_ndtr(-mu / 2 - epsilon / mu)
    # log domain: exp overflows beyond epsilon 700
    gap = np.minimum(lower - upper, -1e-300)
    return np.asarray(upper + np.log(-np.expm1(gap)))


def analytic_epsilon(mu: Level, delta: float) -> Level:
    """Smallest epsilon of a Gaussian release at delta, of the shape of mu = sensitivity / noise deviation."""
    values = np.asarray(mu, dtype=np.float64)
    epsilon = np.where(np.isposinf(values), np.inf, 0.0)
    # delta(0) = 2 Phi(mu/2) - 1: below it, epsilon 0 will do
    floor = np.exp(scipy.special.log_ndtr(values / 2)) - np.exp(scipy.special.log_ndtr(-values / 2))
    live = np.isfinite(values) & (floor > delta)
    if live.any():
        epsilon[live] = _newton(values[live], delta)
    return epsilon if isinstance(mu, np.ndarray) else float(epsilon)


def _newton(mu: FloatArray, delta: float) -> FloatArray:
    """Root of ln delta(eps) = ln delta. Concave in eps: from the right, Newton falls monotonically."""
    target = math.log(delta)
    epsilon = mu * mu / 2 + mu * math.sqrt(-2.0 * target)  # a valid bound (Renyi), so right of the root
    for _ in range(50):
        value = log_delta(epsilon, mu)
        slope = -np.exp(epsilon + scipy.special.log_ndtr(-mu / 2 - epsilon / mu) - value)
        step = (value - target) / slope
        epsilon = np.maximum(epsilon - step, 0.0)
        if np.all(np.abs(step) <= 1e-13 * (1.0 + epsilon)):
            break
    return np.asarray(epsilon)


def analytic_mu(epsilon: float, delta: float) -> float:
    """Largest mu = sensitivity / noise deviation of an (epsilon, delta) Gaussian release."""
    if math.isinf(epsilon):
        return math.inf
    epsilon = min(epsilon, _LARGEST)

    def excess(log_mu: float) -> float:
        return float(log_delta(np.array(epsilon), np.array(math.exp(log_mu)))) - math.log(delta)

    # mu <= sqrt(2 eps) + 2 sqrt(2 ln 1/delta) is generous on the right; 1e-12 epsilon on the left
    low = math.log(min(epsilon, 1.0) * 1e-3 + 1e-12)
    while excess(low) > 0:
        low -= 5.0
    high = math.log(math.sqrt(2 * epsilon) + 10 * classic_factor(delta) + 10)
    return math.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-14, rtol=1e-14))


def slot_mu(epsilon_max: float, delta: float) -> float:
    """Largest mu with a one-slot epsilon of at most epsilon_max: classic up to 1, analytic beyond."""
    if epsilon_max <= 1.0:
        return epsilon_max / classic_factor(delta)
    return analytic_mu(epsilon_max, delta)


def slot_epsilon(mu: FloatArray, delta: float) -> FloatArray:
    """Epsilon of one slot (Theorem 1), of the shape of mu: classic up to 1, then max(1, analytic)."""
    epsilon = mu * classic_factor(delta)
    beyond = epsilon > 1.0
    if beyond.any():
        epsilon = epsilon.copy()
        epsilon[beyond] = np.maximum(1.0, analytic_epsilon(mu[beyond], delta))
    return epsilon


def exact_slot_epsilon(epsilon: float, delta: float) -> float:
    """What a one-slot epsilon is by the analytic form, which totals rest on; 1 and more are that already."""
    return analytic_epsilon(epsilon / classic_factor(delta), delta) if epsilon < 1.0 else epsilon
