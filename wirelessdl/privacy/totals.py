"""Totals of equal releases; the noise, or the number of rounds, that meets a target.

`rdp-wang19` is Theorem 9 over all orders 2..1024; `pld` of replace-one neighbours is `wirelessdl.privacy.pld`; `rdp`,
and `pld` of neighbours that add or remove a sample, are computed by dp-accounting; `gdp` has no amplification.
"""

import math
from bisect import bisect_right
from typing import Any

import numpy as np
from scipy.optimize import brentq

from wirelessdl.arrays import IntArray
from wirelessdl.errors import UnsoundError
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.privacy.counts import GRID
from wirelessdl.privacy.pld import ALL_ORDERS, BEYOND, SPARSE_ORDERS, compose, subsampled_rdp
from wirelessdl.privacy.terms import (
    Accountant,
    Adjacency,
    Clipping,
    Exposure,
    PrivacyAssumptions,
    Sampler,
    noise_factor,
    profile_of,
)

_MAX_ROUNDS = 10**7


def total_epsilon(
    noise_multiplier: float,
    q: float,
    rounds: int,
    *,
    delta: float,
    accountant: Accountant,
    sampler: Sampler = "without-replacement",
    adjacency: Adjacency = "replace-one",
    clipping: Clipping = "per-sample",
    beside: float = 0.0,
) -> float:
    """Epsilon of `rounds` charged releases with noise multiplier nu, the noise over replace-one sensitivity.

    beside: mu of one more release, which nothing amplifies (the Gram stage); not by `rdp`.
    """
    nu = noise_multiplier * noise_factor(accountant, sampler, adjacency, clipping)
    _check(noise_multiplier, q, rounds, delta)
    if rounds == 0 or math.isinf(nu):
        return analytic_epsilon(beside, delta)
    if nu == 0:
        return math.inf
    plain_nu = noise_multiplier * noise_factor("gdp", sampler, adjacency, clipping)
    plain = analytic_epsilon(math.hypot(math.sqrt(rounds) / plain_nu, beside), delta)  # amplification never hurts
    if accountant == "gdp" or q == 1.0:
        return plain
    if accountant == "rdp-wang19":
        return _wang19(nu, q, rounds, delta, beside=beside)
    if beside and (accountant == "rdp" or adjacency == "add-remove"):
        raise UnsoundError(
            f"{accountant} of {adjacency} neighbours counts no release beside those that sampling amplifies; use gdp"
        )
    if accountant == "rdp":
        return _dp_accounting_rdp(nu, q, rounds, delta, poisson=sampler == "poisson")
    wang19_nu = noise_multiplier * noise_factor("rdp-wang19", sampler, adjacency, clipping)
    bound = min(plain, _wang19(wang19_nu, q, rounds, delta, SPARSE_ORDERS, beside=beside))
    if bound > BEYOND:
        return bound
    if adjacency == "add-remove":
        return min(bound, _dp_accounting_pld(nu, q, rounds, delta, bound))
    counts = {(q, nu): rounds, **({(1.0, 1.0 / beside): 1} if beside else {})}
    return min(bound, compose(counts, delta, sampler=profile_of(sampler, clipping, adjacency)))


def calibrate(
    target_epsilon: float,
    *,
    q: float,
    delta: float,
    accountant: Accountant,
    rounds: int | None = None,
    noise_multiplier: float | None = None,
    sampler: Sampler = "without-replacement",
    adjacency: Adjacency = "replace-one",
    clipping: Clipping = "per-sample",
    beside: float = 0.0,
) -> float:
    """The least noise multiplier that `rounds` releases need for a target, or the most rounds a multiplier allows."""
    if not (target_epsilon > 0 and math.isfinite(target_epsilon)):
        raise ValueError(f"target_epsilon is {target_epsilon}; must be > 0 and finite")
    if (rounds is None) == (noise_multiplier is None):
        raise ValueError("give rounds to find the noise multiplier, or noise_multiplier to find the rounds")
    terms: dict[str, Any] = {
        "delta": delta,
        "accountant": accountant,
        "sampler": sampler,
        "adjacency": adjacency,
        "clipping": clipping,
        "beside": beside,
    }
    if rounds is not None:
        return _least_noise(target_epsilon, q, rounds, terms)
    assert noise_multiplier is not None
    return _most_rounds(target_epsilon, q, noise_multiplier, terms)


def charged_releases(first: int, rounds: int, exposure: Exposure, terms: PrivacyAssumptions) -> IntArray:
    """Releases that each node is charged with, `[K]`, of gradients of rounds first .. rounds - 1, all of them sent.

    Where batches are shuffled, these are the epochs in which the rounds are, whole or not.
    """
    length = exposure.epoch_rounds if terms.by_epoch else np.ones_like(exposure.epoch_rounds)
    return np.asarray(-(-(rounds - 1) // length) - (first - 1) // length)


def release_mu(
    epsilon_total: float,
    rounds: int,
    exposure: Exposure,
    terms: PrivacyAssumptions,
    *,
    first: int = 1,
    beside: float = 0.0,
) -> float:
    """Largest mu of a release with which no node's total exceeds epsilon_total after all rounds.

    first: round of the first gradient; that of the last round is not sent. Batches and sizes decide how much sampling
    amplifies; the worst node counts. beside: mu of what else is released once, which nothing amplifies.
    """
    charged = charged_releases(first, rounds, exposure, terms)
    kinds = {(float(q), int(n)) for q, n in zip(exposure.sampling_rate, charged)}
    # nu is over replace-one sensitivity, mu of that of the adjacency
    least = max(_least_counted_nu(epsilon_total, q, n, terms, beside) for q, n in kinds)
    return 1.0 / (least * terms.factor("gdp") if terms.amplified else least)


def _least_counted_nu(target: float, q: float, releases: int, terms: PrivacyAssumptions, beside: float) -> float:
    """The least noise multiplier of so many releases of a node, as the ledger counts it: by the lower end of a cell."""
    try:
        if not terms.amplified:
            plain: dict[str, Any] = {"accountant": "gdp", "rounds": releases, "beside": beside * (1.0 + 2e-9)}
            return calibrate(target, q=1.0, delta=terms.delta, **plain) * (1.0 + 1e-9)
        of_ledger: dict[str, Any] = {name: getattr(terms, name) for name in ("sampler", "clipping", "adjacency")}
        of_ledger["beside"] = beside * (1.0 + 2e-9)  # as it is charged
        found = calibrate(target, q=q, delta=terms.delta, accountant="pld", rounds=releases, **of_ledger)
    except UnsoundError as error:
        raise ValueError(f"epsilon_total is {target:g}; {error}") from error
    cell = int(GRID.cell(np.array([found]))[0])
    lower, upper = GRID.nu(np.array([cell, cell + 1])).tolist()
    least = upper if lower < found else lower
    if not math.isfinite(least) or cell < 0:
        raise ValueError(
            f"epsilon_total is {target:g}; it needs a noise multiplier of {found:.3g}, beyond what is counted"
        )
    return float(least * (1.0 + 1e-9))


def _least_noise(target: float, q: float, rounds: int, terms: dict[str, Any]) -> float:
    if rounds == 0:
        return 0.0

    def excess(log_nu: float) -> float:
        total = total_epsilon(math.exp(log_nu), q, rounds, **terms)
        return math.log(min(total, 1e300) + 1e-300) - math.log(target)

    low, high = math.log(1e-2), math.log(10.0)
    while excess(high) > 0:
        high += 1.0
        if high > math.log(1e6):
            least = total_epsilon(1e6, q, rounds, **terms)
            raise UnsoundError(
                f"{terms['accountant']} cannot prove epsilon {target:g} for {rounds} rounds at q={q:g}: even a noise "
                f"multiplier of a million leaves {least:.3g}; use another accountant, fewer rounds or a smaller q"
            )
    while excess(low) < 0:
        low -= 1.0
    found = math.exp(brentq(excess, low, high, xtol=1e-6))
    while total_epsilon(found, q, rounds, **terms) > target:  # the root may be slightly too small
        found *= 1 + 1e-6
    return found


def _most_rounds(target: float, q: float, nu: float, terms: dict[str, Any]) -> int:
    if total_epsilon(nu, q, 1, **terms) > target:
        return 0
    low, high = 1, 2
    while total_epsilon(nu, q, high, **terms) <= target:
        low, high = high, 2 * high
        if high > _MAX_ROUNDS:
            raise ValueError(f"noise_multiplier {nu:g} allows more than {_MAX_ROUNDS:,} rounds; that is no limit")
    return low + bisect_right(range(low + 1, high), target, key=lambda rounds: total_epsilon(nu, q, rounds, **terms))


def _wang19(
    nu: float, q: float, rounds: int, delta: float, orders: IntArray = ALL_ORDERS, *, beside: float = 0.0
) -> float:
    rdp = subsampled_rdp(orders, q, nu)
    return float(np.min(rounds * rdp + 0.5 * orders * beside**2 + math.log(1 / delta) / (orders - 1)))


def _dp_accounting_rdp(nu: float, q: float, rounds: int, delta: float, *, poisson: bool) -> float:
    import dp_accounting as dp
    from dp_accounting.rdp import RdpAccountant

    release = dp.GaussianDpEvent(nu)
    if poisson:
        relation, event = dp.NeighboringRelation.ADD_OR_REMOVE_ONE, dp.PoissonSampledDpEvent(q, release)
    else:
        size = 10**9  # the accountant only looks at the ratio
        relation = dp.NeighboringRelation.REPLACE_ONE
        event = dp.SampledWithoutReplacementDpEvent(size, math.ceil(q * size), release)
    accountant = RdpAccountant(neighboring_relation=relation)
    accountant.compose(event, rounds)
    return float(accountant.get_epsilon(delta))


def _dp_accounting_pld(nu: float, q: float, rounds: int, delta: float, bound: float) -> float:
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    # its own grid of 1e-4 takes half a minute and 2 GB at a bound of 2,000; a coarser one is never below it
    interval = max(1e-4, 1e-6 * bound)
    accountant = PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=interval)
    accountant.compose(dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(nu)), rounds)
    return float(accountant.get_epsilon(delta))


def _check(nu: float, q: float, rounds: int, delta: float) -> None:
    if not 0 < q <= 1:
        raise ValueError(f"q is {q}; must be in (0, 1]")
    if not nu >= 0:
        raise ValueError(f"noise_multiplier is {nu}; must be >= 0")
    if not (isinstance(rounds, int | np.integer) and rounds >= 0):
        raise ValueError(f"rounds is {rounds}; must be an integer >= 0")
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; must be in (0, 1)")
