"""The total that a plan leads to, if it holds for the whole run."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.leakage import own_mu
from wirelessdl.power.problem import PowerPlan
from wirelessdl.privacy import total_epsilon, valid_accountants
from wirelessdl.privacy.counts import GRID
from wirelessdl.privacy.terms import Accountant, Exposure, Terms
from wirelessdl.run.world import World


@dataclass(frozen=True, eq=False)
class ForecastTerms:
    """What the releases of a run depend on besides its plan.

    rates: [rounds] gamma_t. exposure: how data enter gradients. terms: what totals are stated under. complete: whether
    every node sends in every round, so that no gradient is older than a round when it is sent.
    """

    rates: FloatArray
    rho: float
    exposure: Exposure
    terms: Terms
    complete: bool


def forecast_terms(world: World) -> ForecastTerms:
    """Of a built world."""
    rounds = world.scenario.scenario.rounds
    return ForecastTerms(
        rates=np.array([world.schedule.rate(round) for round in range(1, rounds + 1)]),
        rho=world.scenario.privacy.rho,
        exposure=world.exposure,
        terms=world.terms,
        complete=world.always_complete and math.isinf(world.scenario.privacy.budget_total),
    )


def forecast(
    given: ForecastTerms, plan: PowerPlan, view: Literal["own", "coalition"] | None = None
) -> dict[str, float]:
    """Total of the worst node after all rounds, under every accountant that may count it.

    view: the promised one unless named; all noise is a sender's own in a plan to which no pairs were applied. The paper
    protocol proves nothing with amplification, and its noise lags behind the gradient it masks. Nothing amplifies what
    a whole node's data add.
    """
    terms, releases = given.terms, len(given.rates) - 1
    if not terms.sends:
        return {"gdp": 0.0}
    share = plan.coalition_share if (view or terms.promised) == "coalition" else plan.own_share
    noise_w = plan.beta * plan.power_w * given.rho**2 * (1.0 if share is None else share)
    mu = own_mu(plan.alpha * plan.power_w, noise_w, given.exposure.sensitivity * plan.theta)
    if terms.protocol == "paper" or terms.unit == "node":
        lag = _lag(given) if terms.protocol == "paper" else np.ones(releases)
        spread = float(np.sqrt(np.sum(lag**2)))
        return {"gdp": float(analytic_epsilon(float(mu.max()) * spread, terms.delta))}
    sampler = terms.sampler
    names = valid_accountants(sampler, "replace-one", terms.clipping)
    if not np.isfinite(mu).all():
        return dict.fromkeys(names, math.inf)
    # rounds of an epoch are 1 unless batches are shuffled, where epochs are charged
    charged = [math.ceil(releases / rounds) for rounds in given.exposure.epoch_rounds.tolist()]
    # as the ledger counts it; where nothing is amplified it adds mu up as it is
    nu = GRID.nu(GRID.cell(1.0 / mu)) if terms.amplified else 1.0 / mu
    triples = sorted({(float(v), float(q), n) for v, q, n in zip(nu, given.exposure.sampling_rate, charged)})

    def total(name: Accountant, triple: tuple[float, float, int]) -> float:
        return total_epsilon(*triple, delta=terms.delta, accountant=name, sampler=sampler, clipping=terms.clipping)

    # dp-accounting takes a second a call: only where the tightest of the quick ones is largest
    quick: list[Accountant] = [name for name in names if name != "rdp"]
    tightest: Accountant = "pld" if "pld" in quick else quick[0]
    worst = max(triples, key=lambda triple: total(tightest, triple))
    return {name: total(name, worst) if name == "rdp" else max(total(name, t) for t in triples) for name in names}


def _lag(given: ForecastTerms) -> FloatArray:
    """Largest learning rate of a gradient over that of the round it is sent in, `[rounds - 1]`.

    A node that was silent sends an older gradient, by the paper's timing under the noise of the round it is sent in.
    """
    before = given.rates[:-1] if given.complete else np.maximum.accumulate(given.rates[:-1])
    return np.asarray(before / given.rates[1:])
