"""Makes privacy.json: totals by dp-accounting (Google, Apache-2.0), called by its public interface, and in closed form.

    python tests/reference/make_privacy.py

The file in the repository was made with dp-accounting 0.6.0. nu is noise over replace-one sensitivity, so noise over
the norm of one clipped gradient, which dp-accounting takes for Poisson sampling, is 2 nu. An open change there
(google/differential-privacy, issue 378 and pull request 464) makes `RdpAccountant` do so for REPLACE_ONE, too: the
rows `rdp without-replacement` notice it.

dp-accounting has no loss distribution of sampling without replacement: there its chords and its composition are
used, and the profile is Theorem 9 of Balle, Barthe and Gaboardi (2018), by scipy's normal distribution.
"""

import json
import math
from pathlib import Path

import dp_accounting as dp
import numpy as np
from dp_accounting.pld import PLDAccountant, pld_pmf
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq
from scipy.stats import norm

CASES = [
    (4.343612, 0.02, 100, 1e-4),
    (4.343612, 0.1, 300, 1e-4),
    (1.5, 0.01, 1000, 1e-4),
    (8.0, 0.25, 50, 1e-4),
    (0.287, 0.0137, 300, 1e-5),  # the last two: Renyi and Gaussian bounds of 382 to 2,077
    (0.3075, 0.0056, 300, 1e-5),
]
RELATION = dp.NeighboringRelation


def spent(accountant, event, rounds, delta):
    accountant.compose(event, rounds)
    return accountant.get_epsilon(delta)


def gaussian_delta(epsilon, mu):
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))


def gaussian(nu, rounds, delta):
    """Balle and Wang (2018), solved for epsilon."""
    mu = math.sqrt(rounds) / nu
    return brentq(lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0.0, mu * mu + 20 * mu, xtol=1e-12)


def without_replacement(nu, q, rounds, delta, step=1e-4):
    mu = 1 / nu
    last = math.ceil(math.log1p(q * math.expm1(mu * mu / 2 + 8 * mu)) / step)
    number = np.arange(-last, last + 1)
    size = step * np.abs(number)
    height = q * gaussian_delta(np.log1p(np.expm1(size) / q), mu)
    height = np.where(number >= 0, height, -np.expm1(-size) + np.exp(-size) * height)
    return (
        pld_pmf.create_pmf_pessimistic_connect_dots(step, number, height)
        .self_compose(rounds)
        .get_epsilon_for_delta(delta)
    )


rows = []
for nu, q, rounds, delta in CASES:
    drawn = dp.SampledWithoutReplacementDpEvent(10**9, math.ceil(q * 10**9), dp.GaussianDpEvent(nu))
    half = dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(2 * nu))  # add/remove moves a clipped sum half as far
    whole = dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(nu))
    rest = (rounds, delta)
    renyi = spent(RdpAccountant(None, RELATION.REPLACE_ONE), drawn, *rest)
    losses = without_replacement(nu, q, *rest)
    values = {
        "rdp without-replacement replace-one per-sample": renyi,
        "rdp without-replacement replace-one batch": renyi,
        "rdp poisson add-remove per-sample": spent(RdpAccountant(None, RELATION.ADD_OR_REMOVE_ONE), half, *rest),
        "rdp poisson add-remove batch": spent(RdpAccountant(None, RELATION.ADD_OR_REMOVE_ONE), whole, *rest),
        "pld without-replacement replace-one per-sample": losses,
        "pld without-replacement replace-one batch": losses,
        "pld poisson replace-one per-sample": spent(PLDAccountant(RELATION.REPLACE_ONE), half, *rest),
        "pld poisson replace-one batch": losses,
        "pld poisson add-remove per-sample": spent(PLDAccountant(RELATION.ADD_OR_REMOVE_ONE), half, *rest),
        "pld poisson add-remove batch": spent(PLDAccountant(RELATION.ADD_OR_REMOVE_ONE), whole, *rest),
        "gdp full-batch replace-one per-sample": gaussian(nu, *rest),
        "gdp full-batch replace-one batch": gaussian(nu, *rest),
        "gdp full-batch add-remove per-sample": gaussian(2 * nu, *rest),
        "gdp shuffled replace-one per-sample": gaussian(nu, *rest),
        "gdp shuffled replace-one batch": gaussian(nu, *rest),
    }
    rows.append({"nu": nu, "q": q, "rounds": rounds, "delta": delta, "epsilon": values})

path = Path(__file__).with_name("privacy.json")
path.write_text(json.dumps(rows, indent=1) + "\n")
