"""Totals: one contract for every accountant, refusals, references, Monte-Carlo."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta as beta_law
from scipy.stats import norm

from wirelessdl.errors import UnsoundError
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.privacy import calibrate, total_epsilon, valid_accountants
from wirelessdl.privacy.ledger import SenderTotals
from wirelessdl.privacy.pld import compose, profile
from wirelessdl.privacy.terms import SAMPLERS as samplers_by_key
from wirelessdl.privacy.terms import PrivacyAssumptions, noise_factor, profile_of

DELTA = 1e-4
SAMPLERS = ("without-replacement", "poisson", "full-batch", "shuffled")
ADJACENCIES = ("replace-one", "add-remove")
CLIPPINGS = ("per-sample", "batch")
VALID = [
    (accountant, *terms)
    for terms in itertools.product(SAMPLERS, ADJACENCIES, CLIPPINGS)
    for accountant in valid_accountants(*terms)
]
REFUSED = [
    (accountant, *terms)
    for terms in itertools.product(SAMPLERS, ADJACENCIES, CLIPPINGS)
    for accountant in ("rdp-wang19", "rdp", "pld", "gdp")
    if accountant not in valid_accountants(*terms)
]


def total(nu, q, rounds, accountant, sampler="without-replacement", adjacency="replace-one", clipping="per-sample"):
    return total_epsilon(
        nu, q, rounds, delta=DELTA, accountant=accountant, sampler=sampler, adjacency=adjacency, clipping=clipping
    )


# --- the contract every accountant passes


@pytest.mark.parametrize(("accountant", "sampler", "adjacency", "clipping"), VALID)
def test_every_accountant_keeps_the_contract(accountant, sampler, adjacency, clipping):
    terms = (accountant, sampler, adjacency, clipping)
    base = total(3.0, 0.05, 50, *terms)
    assert 0 < base < math.inf
    assert total(3.0, 0.05, 0, *terms) == 0.0
    assert total(0.0, 0.05, 50, *terms) == math.inf
    assert total(3.0, 0.05, 80, *terms) >= base
    assert total(4.0, 0.05, 50, *terms) <= base * (1 + 1e-9)
    assert total(3.0, 0.1, 50, *terms) >= base * (1 - 1e-9)
    for nu, q, rounds in ((3.0, 0.0, 1), (3.0, 1.5, 1), (-1.0, 0.5, 1), (3.0, 0.5, -1)):
        with pytest.raises(ValueError, match="must be"):
            total(nu, q, rounds, *terms)


@pytest.mark.parametrize(("accountant", "sampler", "adjacency", "clipping"), REFUSED)
def test_what_has_no_proof_is_refused_with_what_has(accountant, sampler, adjacency, clipping):
    valid = valid_accountants(sampler, adjacency, clipping)
    with pytest.raises(UnsoundError, match=rf"{accountant} proves nothing for {sampler} sampling") as caught:
        total(3.0, 0.05, 50, accountant, sampler, adjacency, clipping)
    assert all(name in str(caught.value) for name in valid)


# factor of nu, noise over replace-one sensitivity, by rdp-wang19, rdp, pld and gdp; -: refused
SPECIFIED = """
    without-replacement  replace-one  per-sample   1 1 1 1
    without-replacement  replace-one  batch        1 1 1 1
    without-replacement  add-remove   per-sample   - - - -
    without-replacement  add-remove   batch        - - - -
    without-replacement  zero-out     per-sample   1 1 1 2
    without-replacement  zero-out     batch        1 1 1 1
    poisson              replace-one  per-sample   1 - 1 1
    poisson              replace-one  batch        1 - 1 1
    poisson              add-remove   per-sample   2 2 2 2
    poisson              add-remove   batch        1 1 1 1
    poisson              zero-out     per-sample   2 2 2 2
    poisson              zero-out     batch        1 - 1 1
    full-batch           replace-one  per-sample   - - - 1
    full-batch           replace-one  batch        - - - 1
    full-batch           add-remove   per-sample   - - - 2
    full-batch           add-remove   batch        - - - -
    full-batch           zero-out     per-sample   - - - 2
    full-batch           zero-out     batch        - - - 1
    shuffled             replace-one  per-sample   - - - 1
    shuffled             replace-one  batch        - - - 1
    shuffled             add-remove   per-sample   - - - -
    shuffled             add-remove   batch        - - - -
    shuffled             zero-out     per-sample   - - - 2
    shuffled             zero-out     batch        - - - 1
"""


def test_the_table_of_valid_combinations_is_the_specified_one():
    assert len(VALID) == 27
    assert valid_accountants("poisson", "replace-one", "batch") == ("rdp-wang19", "pld", "gdp")
    assert samplers_by_key == {name: name for name in SAMPLERS if name != "full-batch"} | {"full": "full-batch"}
    rows = [line.split() for line in SPECIFIED.strip().splitlines()]
    assert [tuple(row[:3]) for row in rows] == list(itertools.product(SAMPLERS, (*ADJACENCIES, "zero-out"), CLIPPINGS))
    for *terms, wang, rdp, pld, gdp in rows:
        for accountant, factor in {"rdp-wang19": wang, "rdp": rdp, "pld": pld, "gdp": gdp}.items():
            if factor != "-":
                assert noise_factor(accountant, *terms) == float(factor)
                continue
            words = "nothing is; use replace-one neighbours"
            if terms[0] == "without-replacement":
                words += ", or poisson sampling"
            with pytest.raises(UnsoundError, match="valid there: " if valid_accountants(*terms) else f"{words}$"):
                noise_factor(accountant, *terms)
        poisson = terms == ["poisson", "replace-one", "per-sample"]
        assert profile_of(terms[0], terms[2], terms[1]) == ("poisson" if poisson else "without-replacement")
    for place, what in enumerate(("accountant", "sampler", "adjacency", "clipping")):
        names = ["pld", "poisson", "replace-one", "batch"]
        with pytest.raises(ValueError, match=f"^{what} is 'none'; must be one of .*{names[place]}"):
            noise_factor(*names[:place], "none", *names[place + 1 :])


def test_sensitivities_of_amplified_releases_are_those_of_replaced_samples():
    def terms(sampler, adjacency, protocol="hardened"):
        return PrivacyAssumptions(protocol, sampler, "per-sample", DELTA, adjacency=adjacency)

    for sampler, scale in (("without-replacement", 2.0), ("poisson", 1.0)):
        assert (terms(sampler, "zero-out").replaced, terms(sampler, "zero-out").link_scale) == (2.0, scale)
        assert (terms(sampler, "replace-one").replaced, terms(sampler, "replace-one").link_scale) == (1.0, 1.0)
    for plain in (terms("full-batch", "zero-out"), terms("without-replacement", "zero-out", "paper")):
        assert plain.replaced == plain.link_scale == 1.0


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.floats(0.005, 0.3), st.floats(1.0, 10.0), st.integers(1, 300))
def test_tighter_accountants_are_tighter(q, nu, rounds):
    pld, rdp, paper, gdp = (total(nu, q, rounds, name) for name in ("pld", "rdp", "rdp-wang19", "gdp"))
    assert pld <= rdp * (1 + 1e-3)  # grids of both
    assert rdp <= paper * (1 + 1e-9)
    assert pld <= gdp * (1 + 1e-6)


# --- numbers


def test_different_releases_compose_in_any_mixture():
    mixed = compose({(1.0 - 1e-12, 4.0): 3, (1.0 - 1e-12, 8.0): 5}, DELTA)
    assert mixed == pytest.approx(analytic_epsilon(math.sqrt(3 / 16 + 5 / 64), DELTA), rel=1e-4)


@pytest.mark.parametrize("delta", [1e-12, 1e-13, 1e-14, 1e-16, 1e-20, 1e-30])
@pytest.mark.parametrize("rounds", [1, 100, 1000, 10**5])
@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0, 10.0])
def test_rounding_of_transforms_lowers_no_total_however_small_delta_is(mu, rounds, delta):
    """Releases that nothing amplifies have a total that is known exactly; transforms are right to 1e-15 or so."""
    found, exact = compose({(1.0, rounds**0.5 / mu): rounds}, delta), float(analytic_epsilon(mu, delta))
    assert found >= exact
    total = total_epsilon(rounds**0.5 / mu / 0.01, 0.01, rounds, delta=delta, accountant="pld")
    assert 0.0 < total < math.inf  # other bounds stand


def test_a_spectrum_that_is_zero_somewhere_composes_without_a_warning():
    with np.errstate(divide="raise", invalid="raise"):
        total = compose({(0.25, 1.113188001807785): 1, (1.0, 3.867962879239181): 1}, 1e-4)
    assert total == pytest.approx(1.925250187654947, rel=1e-9)  # as composed where zeros are let pass


@pytest.mark.parametrize(
    ("nu", "rounds", "delta"), [(100.0, 10_000, 0.1), (1000.0, 100_000, 0.05), (100.0, 10_000, 0.01), (20.0, 300, 1e-3)]
)
def test_no_tail_is_lost_however_many_rounds_compose(nu, rounds, delta):
    """At q = 1 the exact total is known; whatever wraps around must be counted."""
    exact = analytic_epsilon(math.sqrt(rounds) / nu, delta)
    found = compose({(1.0 - 1e-12, nu): rounds}, delta)
    assert exact * (1 - 1e-6) <= found <= exact * 1.02 + 1e-3  # chords on 16,384 points, 100,000 times over


@pytest.mark.parametrize("terms", [terms for terms in VALID if terms[0] == "pld"])
def test_totals_rise_up_to_full_batches(terms):
    almost, full = (total(3.0, q, 20, *terms) for q in (0.98, 1.0))
    assert almost <= full * (1 + 1e-3)
    assert full <= 1.1 * almost


@pytest.mark.parametrize("epsilon", [-0.3, -0.01, 0.0, 0.02, 0.2])
def test_the_profile_bounds_the_mixture_it_stands_for(epsilon):
    """P = q N(0, 1) + (1-q) R against Q = q N(mu, 1) + (1-q) R is dominated, for any common R: try R = N(0, 1)."""
    q, nu = 0.1, 2.0
    x = np.linspace(-12, 12, 400_001)
    p, r = norm.pdf(x, 1 / nu), norm.pdf(x)
    mixture = q * p + (1 - q) * r
    for first, second in ((mixture, r), (r, mixture)):
        delta = np.trapezoid(np.maximum(first - math.exp(epsilon) * second, 0.0), x)
        assert profile(np.array([epsilon]), q, nu)[0] >= delta - 1e-9


@pytest.mark.parametrize("epsilon", [-0.3, -0.01, 0.0, 0.02, 0.2, 1.0, 3.0])
@pytest.mark.parametrize("q", [0.01, 0.3, 0.9])
def test_the_poisson_profile_is_that_of_the_mixture(epsilon, q):
    """A sample that is there with probability q moves the sum by 1 one way or the other; noise 2 nu."""
    nu = 0.6
    x = np.linspace(-40, 40, 800_001)
    first, second = (q * norm.pdf(x, mean, 2 * nu) + (1 - q) * norm.pdf(x, 0, 2 * nu) for mean in (1.0, -1.0))
    delta = np.trapezoid(np.maximum(first - math.exp(epsilon) * second, 0.0), x)
    assert profile(np.array([epsilon]), q, nu, "poisson")[0] == pytest.approx(delta, rel=1e-6, abs=1e-12)


def test_dp_accounting_still_takes_replace_one_noise_over_one_clipped_gradient():
    """A canary: its PLD of REPLACE_ONE takes noise over C/B, which is 2 nu; its RDP, below, over 2C/B, which is nu.

    Were the convention to change upstream, everybody who follows it would be off by a factor of two in noise.
    """
    import dp_accounting as dp

    nu, q, rounds = 3.0, 0.05, 100
    relation = dp.NeighboringRelation.REPLACE_ONE
    poisson = dp.pld.PLDAccountant(relation)
    poisson.compose(dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(2 * nu)), rounds)
    ours = total(nu, q, rounds, "pld", "poisson")
    assert poisson.get_epsilon(DELTA) * (1 - 1e-5) <= ours <= poisson.get_epsilon(DELTA) * (1 + 1e-3)
    plain = dp.pld.PLDAccountant(relation)
    plain.compose(dp.GaussianDpEvent(2 * nu), 3)
    assert plain.get_epsilon(DELTA) == pytest.approx(analytic_epsilon(math.sqrt(3) / nu, DELTA), rel=1e-3)


REFERENCE = json.loads((Path(__file__).parent.parent / "reference" / "privacy.json").read_text())
ROWS = pytest.mark.parametrize("row", REFERENCE, ids=lambda row: f"nu {row['nu']} q {row['q']} T {row['rounds']}")


def of_row(row, name, noise=1.0):
    accountant, sampler, adjacency, clipping = name.split()
    given = {"accountant": accountant, "sampler": sampler, "adjacency": adjacency, "clipping": clipping}
    return total_epsilon(noise * row["nu"], row["q"], row["rounds"], delta=row["delta"], **given)


@ROWS
def test_totals_agree_with_frozen_reference_numbers(row):
    """Ours within the grids of both, 16,384 points and steps of 1e-4; what dp-accounting computes as it did."""
    for name, expected in row["epsilon"].items():
        tolerance = 1e-9 if name.startswith("gdp") else 1e-6 if name.startswith("rdp") else 2e-4
        assert of_row(row, name) == pytest.approx(expected, rel=tolerance), name


def test_reference_numbers_are_there_for_every_valid_use_of_rdp_and_pld_and_every_sampler():
    for row in REFERENCE:
        frozen = {tuple(name.split()) for name in row["epsilon"]}
        assert {terms for terms in VALID if terms[0] in ("rdp", "pld")} <= frozen
        assert {terms[1:] for terms in VALID} == {terms[1:] for terms in frozen}


def test_reference_numbers_would_notice_a_sensitivity_twice_as_large():
    """google/differential-privacy, issue 378: replace-one RDP is to take noise over C, not over 2C."""
    for name, expected in REFERENCE[0]["epsilon"].items():
        assert of_row(REFERENCE[0], name, noise=0.5) > 2 * expected, name


@ROWS
def test_renyi_totals_without_replacement_lie_between_the_loss_distribution_and_theorem_9(row):
    """An independent derivation: dp-accounting's bound is no tighter than exact, and no looser than Theorem 9."""
    known = row["epsilon"]
    for clipping in ("per-sample", "batch"):
        terms = f"without-replacement replace-one {clipping}"
        assert known[f"pld {terms}"] < known[f"rdp {terms}"] <= of_row(row, f"rdp-wang19 {terms}")


@pytest.mark.parametrize(
    ("sampler", "nu", "q", "bound", "true"),
    [("poisson", 0.287, 0.0137, 1298, 7.9), ("without-replacement", 0.3075, 0.0056, 382, 27.7)],
)
def test_totals_are_composed_where_cheap_bounds_are_in_the_thousands(sampler, nu, q, bound, true):
    assert total_epsilon(nu, q, 300, delta=1e-5, accountant="rdp-wang19") == pytest.approx(bound, rel=1e-2)
    assert total_epsilon(nu, q, 300, delta=1e-5, accountant="pld", sampler=sampler) == pytest.approx(true, abs=0.05)
    of_run = SenderTotals(PrivacyAssumptions("hardened", sampler, "per-sample", 1e-5), np.array([q]))
    for round in range(300):
        of_run.record(round, np.array([0]), np.array([1 / nu]))
    assert of_run.bound()[0] > bound * 0.99
    assert of_run.total()[0] == of_run.known()[0] == pytest.approx(true, rel=0.03)  # nu is rounded down by 1% at most


@pytest.mark.parametrize(
    ("nu", "rounds", "above"), [(0.02, 1, 1e-6), (0.05, 10, 1e-4), (0.5, 1000, 5e-3), (2.0, 10_000, 3e-2)]
)
def test_large_losses_compose_without_overflow(nu, rounds, above):
    """Totals of 1,462 and 2,269, known exactly at q = 1; exp(710) is no number."""
    exact = analytic_epsilon(math.sqrt(rounds) / nu, 1e-5)
    with np.errstate(over="raise", invalid="raise"):
        for sampler in ("without-replacement", "poisson"):
            assert exact * (1 - 1e-6) <= compose({(1.0, nu): rounds}, 1e-5, sampler=sampler)
            assert compose({(1.0, nu): rounds}, 1e-5, sampler=sampler) <= exact * (1 + above)


@pytest.mark.parametrize("accountant", ["pld", "gdp", pytest.param("rdp", marks=pytest.mark.slow)])  # 70 totals
def test_calibration_meets_its_target_and_not_by_much(accountant):
    terms = {"q": 0.05, "delta": DELTA, "accountant": accountant}
    nu = calibrate(1.5, rounds=60, **terms)
    assert total(nu, 0.05, 60, accountant) <= 1.5
    assert total(0.99 * nu, 0.05, 60, accountant) > 1.5
    rounds = calibrate(1.5, noise_multiplier=4.0, **terms)
    assert total(4.0, 0.05, rounds, accountant) <= 1.5 < total(4.0, 0.05, rounds + 1, accountant)


def test_odd_arguments_are_refused_or_answered():
    assert total(math.inf, 0.1, 10, "pld") == 0.0
    assert calibrate(1.0, q=0.1, delta=DELTA, accountant="gdp", rounds=0) == 0.0
    assert total(1e-3, 0.1, 10, "pld", "poisson") > 200
    for arguments in ((3.0, 0.1, 2.5, "gdp"), (3.0, 0.1, 10, "pld", "Poisson"), (3.0, 0.1, 10, "lpd")):
        with pytest.raises(ValueError, match="must be"):
            total(*arguments)
    with pytest.raises(ValueError, match="must be > 0 and finite"):
        calibrate(math.inf, q=0.1, delta=DELTA, accountant="gdp", rounds=10)
    with pytest.raises(ValueError, match="that is no limit"):
        calibrate(1.0, q=0.1, delta=DELTA, accountant="gdp", noise_multiplier=1e6)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_a_release_beside_is_counted_or_refused(accountant):
    given = {"delta": 1e-5, "sampler": "poisson", "adjacency": "add-remove", "beside": 1.0}
    assert total_epsilon(1.0, 0.1, 10, accountant="gdp", **given) == analytic_epsilon(
        math.hypot(10**0.5 / 2, 1.0), 1e-5
    )
    with pytest.raises(UnsoundError, match=f"{accountant} of add-remove neighbours counts no release beside"):
        total_epsilon(1.0, 0.1, 10, accountant=accountant, **given)


def test_calibration_says_what_cannot_be():
    with pytest.raises(UnsoundError, match=r"rdp-wang19 cannot prove epsilon 1 for 300 rounds at q=0.1: even a noise"):
        calibrate(1.0, q=0.1, delta=DELTA, accountant="rdp-wang19", rounds=300)
    assert calibrate(0.01, q=0.5, delta=DELTA, accountant="gdp", noise_multiplier=0.5) == 0
    with pytest.raises(ValueError, match="give rounds"):
        calibrate(1.0, q=0.1, delta=DELTA, accountant="pld")
    with pytest.raises(ValueError, match="target_epsilon"):
        calibrate(0.0, q=0.1, delta=DELTA, accountant="pld", rounds=3)


# --- Monte-Carlo


def test_own_noise_composition_over_five_sampled_rounds_stays_within_its_bound():
    """1-D, linear loss, batches of one in eight: a likelihood-ratio attack, with 99.9% confidence limits."""
    rng, q, nu, rounds, trials = np.random.default_rng(1), 1 / 8, 0.7, 5, 400_000
    mu = 1 / nu

    def loss_ratio(seen):
        """ln p(seen | replaced) - ln p(seen | original): each release is a mixture over being drawn."""
        plain, other = norm.pdf(seen, 0.0), norm.pdf(seen, mu)
        return np.log((1 - q) * plain + q * other).sum(axis=1) - np.log(plain).sum(axis=1)

    def draw(present):
        drawn = (rng.random((trials, rounds)) < q) & present
        return rng.standard_normal((trials, rounds)) + mu * drawn

    replaced, original = loss_ratio(draw(True)), loss_ratio(draw(False))
    bound = total(nu, q, rounds, "pld")
    for epsilon in (0.25 * bound, 0.5 * bound, 0.75 * bound):
        hits, alarms = int(np.sum(replaced > epsilon)), int(np.sum(original > epsilon))
        sure = beta_law.ppf(1e-3, hits, trials - hits + 1)
        most = beta_law.ppf(1 - 1e-3, alarms + 1, trials - alarms)
        # (epsilon, delta)-DP at the bound: P(hit) <= e^bound P(alarm) + delta
        assert sure <= math.exp(bound) * most + DELTA
    # and the bound is not idle: the exact delta of this attack at a fifth of it exceeds DELTA
    excess = np.maximum(1 - np.exp(bound / 5 - replaced), 0.0)
    assert excess.mean() - 4 * excess.std() / math.sqrt(trials) > DELTA
