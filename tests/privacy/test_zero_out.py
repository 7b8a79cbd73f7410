"""Zero-out neighbours, a record against a null record: the table of samplers, and runs under it.

Exact laws of one release, by quadrature; dp-accounting 0.6.0 where it has the relation (`REPLACE_SPECIAL`): Poisson
sampling and no sampling. It refuses sampling without replacement there.
"""

import math

import numpy as np
import pytest
from conftest import tiny
from scipy.stats import norm

import wirelessdl
from wirelessdl.audit import AuditOptions, audit_scenario
from wirelessdl.errors import TraceError
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.privacy import total_epsilon, valid_accountants
from wirelessdl.privacy.ledger import SenderTotals
from wirelessdl.privacy.pld import profile
from wirelessdl.privacy.terms import PrivacyAssumptions, noise_factor, profile_of
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate

DELTA = 1e-5
ZERO_OUT = {"adjacency": "zero-out"}
X = np.linspace(-40.0, 40.0, 400_001)


def hockey_stick(one, other, epsilon, noise):
    """max(P - e^epsilon Q, 0), integrated. one, other: {mean: share} of mixtures of normals with this deviation."""
    p, q = (sum(share * norm.pdf(X, mean, noise) for mean, share in law.items()) for law in (one, other))
    return np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), X)


def worst(one, other, epsilon, noise):
    return max(hockey_stick(one, other, epsilon, noise), hockey_stick(other, one, epsilon, noise))


def total(nu, q, rounds, accountant, sampler, **more):
    given = {"adjacency": "zero-out", "clipping": "per-sample", **more}
    return total_epsilon(nu, q, rounds, delta=DELTA, accountant=accountant, sampler=sampler, **given)


@pytest.mark.parametrize("q", [0.01, 0.2, 0.9])
@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.3, 1.5])
def test_a_zeroed_sample_of_a_poisson_batch_has_the_laws_of_2_nu(q, epsilon):
    """The record is there with probability q, beside whatever else is: in units of C/B it moves the sum by one."""
    nu = 0.7
    laws = {0.0: 1 - q, 1.0: q}, {0.0: 1.0}
    exact = worst(*laws, epsilon, 2 * nu)
    kind = profile_of("poisson", "per-sample", "zero-out")
    assert exact == pytest.approx(profile(np.array([epsilon]), q, 2 * nu, kind)[0], rel=1e-6, abs=1e-12)


def test_a_zeroed_sample_drawn_without_replacement_is_not_hidden_as_by_2_nu():
    """All others have gradient -C, the record C or none. Drawn, it takes the place of another: C/B + C/B, or C/B."""
    nu, q = 1.0, 0.02
    with_record, zeroed = {0.0: 1 - q, 2.0: q}, {0.0: 1 - q, 1.0: q}
    epsilons = np.array([0.0, 0.1, 0.5, 1.0, 1.4])
    exact = np.array([worst(with_record, zeroed, epsilon, 2 * nu) for epsilon in epsilons])
    assert (exact <= profile(epsilons, q, nu) + 1e-12).all()
    assert exact[-1] > 5 * profile(epsilons[-1:], q, 2 * nu)[0]
    assert noise_factor("pld", "without-replacement", "zero-out", "per-sample") == 1
    assert noise_factor("gdp", "without-replacement", "zero-out", "per-sample") == 2


def test_totals_bound_those_of_dp_accounting():
    """Poisson batches: its Renyi total is ours; its loss distribution keeps the two directions apart, ours does not."""
    import dp_accounting as dp

    nu, q, rounds, relation = 1.5, 0.05, 100, dp.NeighboringRelation.REPLACE_SPECIAL
    release = dp.GaussianDpEvent(2 * nu)  # noise over C/B
    found = {}
    for name, made in (
        ("pld", dp.pld.PLDAccountant(relation)),
        ("rdp", dp.rdp.RdpAccountant(neighboring_relation=relation)),
    ):
        made.compose(dp.PoissonSampledDpEvent(q, release), rounds)
        found[name] = made.get_epsilon(DELTA)
    assert total(nu, q, rounds, "rdp", "poisson") == pytest.approx(found["rdp"], rel=1e-9)
    assert found["pld"] <= total(nu, q, rounds, "pld", "poisson") <= 1.1 * found["pld"]
    full = dp.pld.PLDAccountant(relation)
    full.compose(dp.GaussianDpEvent(2 * 8.0), 3)
    assert total(8.0, 1.0, 3, "gdp", "full-batch") == pytest.approx(full.get_epsilon(DELTA), rel=1e-3)


@pytest.mark.parametrize("sampler", ["without-replacement", "poisson", "full-batch", "shuffled"])
@pytest.mark.parametrize("clipping", ["per-sample", "batch"])
def test_the_table_is_never_below_and_at_best_half_of_replace_one(sampler, clipping):
    for accountant in valid_accountants(sampler, "zero-out", clipping):
        zeroed = total(3.0, 0.05, 40, accountant, sampler, clipping=clipping)
        replaced = {"adjacency": "replace-one", "clipping": "batch"}
        if accountant in valid_accountants(sampler, "replace-one", "batch"):
            assert zeroed >= total(6.0, 0.05, 40, accountant, sampler, **replaced) * (1 - 1e-9)
        if clipping == "batch":
            assert zeroed == total(3.0, 0.05, 40, accountant, sampler, clipping=clipping, adjacency="replace-one")


def test_epsilon_1_of_full_batches_is_0_469_for_a_zeroed_record():
    mu = 1 / total_nu(1.0)
    assert total(1 / mu, 1.0, 1, "gdp", "full-batch") == pytest.approx(0.469, abs=5e-4)


def total_nu(epsilon):
    """Noise multiplier, over replace-one sensitivity, of one release with this epsilon."""
    low, high = 0.1, 100.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if analytic_epsilon(1 / middle, DELTA) > epsilon else (low, middle)
    return high


@pytest.mark.parametrize("sampler", ["without-replacement", "poisson"])
def test_the_ledger_composes_drawn_batches_by_the_table(sampler):
    """mu is over C/B; the table goes by 2C/B."""
    nu, q, rounds = 2.0, 0.1, 30
    senders = SenderTotals(PrivacyAssumptions("hardened", sampler, "per-sample", DELTA, **ZERO_OUT), np.array([q]))
    for round in range(rounds):
        senders.record(round, np.array([0]), np.array([0.5 / nu]))
    expected = total(nu, q, rounds, "pld", sampler)
    assert expected <= senders.total()[0] <= 1.03 * expected  # noise is rounded down by 1% at most
    assert senders.bound()[0] >= total(nu, q, rounds, "rdp-wang19", sampler)
    assert not senders.exhausted(np.array([0.5 / nu]), 1.1 * expected)[0]
    assert senders.exhausted(np.array([0.5 / nu]), 0.9 * expected)[0]


@pytest.mark.parametrize(
    ("sampling", "unit", "clipping", "share"),
    [
        ("full", "sample", "per-sample", 0.5),
        ("without-replacement", "sample", "per-sample", 0.5),
        ("full", "node", "per-sample", 0.5),
        ("full", "sample", "batch", 1.0),
    ],
)
def test_a_run_is_charged_by_half_the_sensitivity_where_samples_are_clipped(sampling, unit, clipping, share):
    worlds = [
        build(
            tiny(
                privacy={"unit": unit, "clipping": clipping, "adjacency": adjacency},
                learning={"sampling": sampling, "dtype": "float64"},
            )
        )
        for adjacency in ("replace-one", "zero-out")
    ]
    charged = [world.exposure.sensitivity for world in worlds]
    assert charged[1] == pytest.approx(share * charged[0], rel=1e-6)
    assert (charged[1] > share * (charged[0] - worlds[0].learning.rounding)).all()  # rounding is not halved


def test_a_run_promises_and_verifies_its_total_and_every_table_says_zero_out(tmp_path):
    from wirelessdl.analysis.families import run_curves
    from wirelessdl.analysis.runs import grouped
    from wirelessdl.analysis.verify import verify

    def run(sampling, adjacency, name):
        privacy = {"epsilon_max": math.inf, "epsilon_total": 0.1, "delta_total": DELTA, "adjacency": adjacency}
        settings = {"privacy": privacy, "power": {"objective": "own-noise"}, "learning": {"sampling": sampling}}
        return simulate(tiny(scenario={"rounds": 4, "name": name}, **settings), out=tmp_path)

    for sampling in ("full", "without-replacement"):
        found = run(sampling, "zero-out", sampling)
        assert found.summary["epsilon_total"] == pytest.approx(0.1, rel=3e-2)
        assert found.summary["epsilon_total"] <= 0.1 * (1 + 1e-9)
        assert found.summary["adjacency"] == "zero-out" == set(found.privacy["adjacency"]).pop()
        assert verify(found.path).problems == ()
    other = run("full", "replace-one", "other")
    first = wirelessdl.open_run(tmp_path / "full-s3-r1")
    alpha = [one.nodes["alpha"].iloc[-1] for one in (other, first)]
    ratio = [math.sqrt((1 - a) / a) for a in alpha]  # noise per unit of step: half as much, and that for rounding
    assert 0.5 * ratio[0] < ratio[1] < 0.501 * ratio[0]
    with pytest.raises(TraceError, match="epsilons of different neighbours do not compare"):
        run_curves(grouped([found, other]), "epsilon", "accuracy_mean")


@pytest.mark.parametrize("sampling", ["full", "poisson", "without-replacement"])
def test_the_audit_zeroes_its_canary(sampling):
    """With full batches it comes close to what is charged: a null record beside a canary, C/n apart."""
    scenario = tiny(
        scenario={"rounds": 6},
        privacy={"epsilon_max": 3.0, "delta": 1e-2, "delta_total": 1e-2, **ZERO_OUT},
        power={"objective": "own-noise"},
        learning={"sampling": sampling, "batch_size": 4},
    )
    report = audit_scenario(scenario, AuditOptions(trials=200, rounds=4, samples=8))
    assert report.sound
    assert {check.name: check.sound for check in report.checks}
    shift = report.checks[0]
    assert shift.name == "shift of x over its charge"
    if sampling == "full":
        assert 0.9 < shift.measured <= 1.0
        assert report.reach > 0.9
