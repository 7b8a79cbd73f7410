"""Final figures of a run, the privacy total that a plan leads to, and stopping rules.

Training may end once mean accuracy stays within a narrow band:

    window     the last n evaluations lie within the band of each other: max - min <= within
    anchored   as the paper prints it, |acc(t+k) - acc(t)| <= within for k = 1 .. n: n + 1 evaluations, all compared
               with the first of them. Values may differ by twice the band among each other, and noise of a single
               evaluation at t spoils the n that follow

Either may never be met; the run then takes all its rounds, and the summary says so.

When to stop depends on the data. An epsilon read off at the stop is an odometer, not a guarantee that was fixed
beforehand; what was promised is the total at the declared number of rounds, so both are told.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.families import columns as access_columns
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.leakage import own_mu
from wirelessdl.mechanism.gram import GramStage
from wirelessdl.mechanism.own import Member as OwnNoise
from wirelessdl.power.problem import PowerPlan
from wirelessdl.privacy import total_epsilon, valid_accountants
from wirelessdl.privacy.counts import GRID
from wirelessdl.privacy.terms import Accountant, Exposure, PrivacyAssumptions
from wirelessdl.privacy.totals import charged_releases
from wirelessdl.round.engine import Engine
from wirelessdl.run.build import World
from wirelessdl.run.warnings import receiver_noise_warnings
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.run import Run
from wirelessdl.units import to_s


def summarise(scenario: Scenario, engine: Engine, run: Run, wall_s: float, warnings: list[str]) -> dict[str, Any]:
    """Final figures of a run."""
    # through lists: frames, and even Arrow's own arrays, would import pandas, which nothing else here needs
    columns = ["round", "accuracy_mean", "accuracy_min", "accuracy_max", "epsilon_link_max", "airtime_s"]
    columns += ["energy_j", "energy_nominal_j", "privacy_noise_std", "receiver_noise_std"]
    of_access = [name for name, *_ in access_columns("rounds")]
    columns += of_access
    rounds = {name: np.array(values, float) for name, values in run.table("rounds", columns).to_pydict().items()}
    noise = (float(np.sum(rounds[name] ** 2)) for name in ("privacy_noise_std", "receiver_noise_std"))
    ledger = engine.stages.ledger
    section, privacy = scenario.scenario, scenario.privacy
    total = {one.view: float(one.epsilon_total.max(initial=0.0)) for one in ledger.statements()}
    return {
        "scenario": section.name,
        "seed": section.seed,
        "run": section.run,
        "rounds": int(rounds["round"][-1]),
        "nodes": scenario.network.nodes,
        **{name: float(rounds[name][-1]) for name in ("accuracy_mean", "accuracy_min", "accuracy_max")},
        "protocol": privacy.protocol,
        "epsilon_max": privacy.epsilon_max,
        "delta": privacy.delta,
        "epsilon_link_max": float(np.nanmax(rounds["epsilon_link_max"])) if ledger.terms.counts_links else None,
        "violations": engine.violations,
        "unit": privacy.unit,
        "adjacency": ledger.terms.adjacency,
        "amplified": ledger.terms.amplified,
        "epsilon_total": total.get(ledger.terms.promised, total["own"]),
        "promised": ledger.terms.promised,
        "epsilon_status": ledger.terms.status,
        "adversary": ledger.terms.adversary,
        "coalition": ledger.terms.coalition or None,
        **engine.stages.planner.mechanism.figures(),
        "epsilon_own_total": total["own"],
        "epsilon_coalition_total": total.get("coalition"),
        "epsilon_link_total": total.get("link"),
        "delta_total": privacy.delta_total,
        "rounding_share": ledger.terms.rounding,
        "gram_apart": None if engine.stages.learning.gram is None else engine.stages.learning.gram.apart,
        "time_s": to_s(engine.time_ns),
        **{name: float(rounds[name].sum()) for name in ("airtime_s", "energy_j", "energy_nominal_j")},
        **{name: float(np.nanmean(rounds[name])) for name in of_access if np.isfinite(rounds[name]).any()},
        "wall_s": wall_s,
        "connectivity": engine.stages.observer.connectivity.formatted(),
        "warnings": [*warnings, *_mechanism_warnings(engine, run), *receiver_noise_warnings(scenario, *noise)],
        "epsilon_own_conditions": ledger.terms.conditions,
    }


def _mechanism_warnings(engine: Engine, run: Run) -> list[str]:
    """What the mechanism says of the notes of all frames."""
    mechanism = engine.stages.planner.mechanism
    if isinstance(mechanism, OwnNoise):
        return []
    return list(mechanism.warnings(run.table("events", ["detail"])["detail"].to_pylist()))


@dataclass(frozen=True, eq=False)
class ForecastInput:
    """What the releases of a run depend on besides its plan.

    rates: [rounds] gamma_t. exposure: how data enter gradients. terms: what totals are stated under. complete: whether
    every node sends in every round, so that no gradient is older than a round when it is sent.
    """

    rates: FloatArray
    rho: float
    exposure: Exposure
    terms: PrivacyAssumptions
    complete: bool
    gram: GramStage | None = None

    @property
    def first(self) -> int:
        """Round of the first gradient."""
        return 1 if self.gram is None else self.gram.frames

    @property
    def releases(self) -> int:
        """Gradients that are charged."""
        return len(self.rates) - self.first


def forecast_input(world: World) -> ForecastInput:
    """Of a built world."""
    rounds = world.scenario.scenario.rounds
    return ForecastInput(
        rates=np.array([world.schedule.rate(round) for round in range(1, rounds + 1)]),
        rho=world.scenario.privacy.rho,
        exposure=world.exposure,
        terms=world.terms,
        gram=world.gram,
        complete=world.always_complete and math.isinf(world.scenario.privacy.budget_total),
    )


def forecast(
    given: ForecastInput, plan: PowerPlan, view: Literal["own", "coalition"] | None = None
) -> dict[str, float]:
    """Total of the worst node after all rounds, under every accountant that may count it.

    view: the promised one unless named; all noise is a sender's own in a plan to which no pairs were applied. The paper
    protocol proves nothing with amplification, and its noise lags behind the gradient it masks. Nothing amplifies what
    a whole node's data add.
    """
    terms, releases = given.terms, given.releases
    if not terms.sends:
        return {"gdp": 0.0}
    share = plan.coalition_share if (view or terms.promised) == "coalition" else plan.own_share
    noise_w = plan.beta * plan.power_w * given.rho**2 * (1.0 if share is None else share)
    mu = own_mu(plan.alpha * plan.power_w, noise_w, given.exposure.sensitivity * plan.theta)
    beside = 0.0 if given.gram is None else float(mu.max()) * given.gram.ratio
    if terms.protocol == "paper" or terms.unit == "node" or terms.kind != "base":
        lag = _lag(given) if terms.protocol == "paper" else np.ones(releases)
        spread = float(np.sqrt(np.sum(lag**2)))
        return {"gdp": float(analytic_epsilon(float(mu.max()) * spread, terms.delta))}
    sampler = terms.sampler
    names = valid_accountants(sampler, terms.adjacency, terms.clipping)
    names = tuple(name for name in names if name != "rdp" or not beside)
    if not np.isfinite(mu).all():
        return dict.fromkeys(names, math.inf)
    charged = charged_releases(given.first, len(given.rates), given.exposure, terms).tolist()
    # as the ledger counts it; where nothing is amplified it adds mu up as it is
    replaced = mu * terms.factor("gdp")
    nu = GRID.nu(GRID.cell(1.0 / replaced)) if terms.amplified else 1.0 / replaced
    triples = sorted({(float(v), float(q), n) for v, q, n in zip(nu, given.exposure.sampling_rate, charged)})

    def total(name: Accountant, triple: tuple[float, float, int]) -> float:
        kinds: dict[str, Any] = {
            "beside": beside,
            "sampler": sampler,
            "adjacency": terms.adjacency,
            "clipping": terms.clipping,
        }
        return total_epsilon(*triple, delta=terms.delta, accountant=name, **kinds)

    # dp-accounting takes a second a call: only where the tightest of the quick ones is largest
    quick: list[Accountant] = [name for name in names if name != "rdp"]
    tightest: Accountant = "pld" if "pld" in quick else quick[0]
    worst = max(triples, key=lambda triple: total(tightest, triple))
    return {name: total(name, worst) if name == "rdp" else max(total(name, t) for t in triples) for name in names}


def _lag(given: ForecastInput) -> FloatArray:
    """Largest learning rate of a gradient over that of the round it is sent in, `[rounds - 1]`.

    A node that was silent sends an older gradient, by the paper's timing under the noise of the round it is sent in.
    """
    before = given.rates[:-1] if given.complete else np.maximum.accumulate(given.rates[:-1])
    return np.asarray(before / given.rates[1:])


StopRule: TypeAlias = Literal["window", "anchored"]
_ROUNDING = 1e-12  # accuracies that differ by the band exactly are within it


class Plateau:
    """Whether the newest evaluations lie within a band; never, when count is 0."""

    def __init__(self, count: int, within: float, rule: StopRule = "window"):
        self._count, self._within, self._rule = count, within, rule
        self._recent: deque[float] = deque(maxlen=count + 1 if rule == "anchored" else max(count, 1))

    @property
    def enabled(self) -> bool:
        return self._count > 0

    def add(self, accuracy: float) -> None:
        self._recent.append(accuracy)

    @property
    def reached(self) -> bool:
        if not self.enabled or len(self._recent) < (self._recent.maxlen or 0):
            return False
        if self._rule == "anchored":
            first = self._recent[0]
            return all(abs(later - first) <= self._within + _ROUNDING for later in self._recent)
        return max(self._recent) - min(self._recent) <= self._within


class StoppingRuleMet(Exception):
    """Training has come to rest."""
