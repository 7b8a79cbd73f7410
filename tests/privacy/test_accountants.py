"""Accountants: one contract for all, refusals, references, Monte-Carlo, budgets, audit."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta as beta_law
from scipy.stats import norm

import wirelessdl
from wirelessdl.analysis.audit import audit_run, transcript_of
from wirelessdl.errors import TraceError, UnsoundError
from wirelessdl.gaussian import analytic_epsilon, classic_factor
from wirelessdl.privacy import FrameRelease, Ledger, Terms, calibrate, total_epsilon, valid_accountants
from wirelessdl.privacy.audit import Transcript, transcript_mu
from wirelessdl.privacy.pld import compose, profile

DELTA = 1e-4
NU = classic_factor(DELTA)
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


def test_the_table_of_valid_combinations_is_the_specified_one():
    assert len(VALID) == 27
    assert valid_accountants("without-replacement", "add-remove", "per-sample") == ()
    assert valid_accountants("poisson", "replace-one", "batch") == ("rdp-wang19", "pld", "gdp")
    assert valid_accountants("shuffled", "replace-one", "batch") == ("gdp",)


@settings(max_examples=15, deadline=None)
@given(st.floats(0.005, 0.3), st.floats(1.0, 10.0), st.integers(1, 300))
def test_tighter_accountants_are_tighter(q, nu, rounds):
    pld, rdp, paper, gdp = (total(nu, q, rounds, name) for name in ("pld", "rdp", "rdp-wang19", "gdp"))
    assert pld <= rdp * (1 + 1e-3)  # grids of both
    assert rdp <= paper * (1 + 1e-9)
    assert pld <= gdp * (1 + 1e-6)


# --- numbers


@pytest.mark.parametrize(("rounds", "expected"), [(1, 0.0104037), (100, 0.13780)])
def test_profile_without_replacement_composes_to_the_known_totals(rounds, expected):
    assert total(NU, 0.0213, rounds, "pld") == pytest.approx(expected, rel=1e-3)


def test_without_sampling_the_loss_distribution_is_the_gaussian_one():
    assert compose({(1.0 - 1e-12, NU): 10}, DELTA) == pytest.approx(2.61992, rel=1e-4)


def test_different_releases_compose_in_any_mixture():
    mixed = compose({(1.0 - 1e-12, 4.0): 3, (1.0 - 1e-12, 8.0): 5}, DELTA)
    assert mixed == pytest.approx(analytic_epsilon(math.sqrt(3 / 16 + 5 / 64), DELTA), rel=1e-4)


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


REFERENCE = json.loads((Path(__file__).parent.parent / "reference" / "privacy.json").read_text())


@pytest.mark.parametrize("row", REFERENCE, ids=lambda row: f"nu {row['nu']} q {row['q']} T {row['rounds']}")
def test_totals_agree_with_frozen_reference_numbers(row):
    for name, expected in row["epsilon"].items():
        accountant, sampler, adjacency, clipping = name.split()
        found = total(row["nu"], row["q"], row["rounds"], accountant, sampler, adjacency, clipping)
        assert found == pytest.approx(expected, rel=1e-2), name


@pytest.mark.parametrize("accountant", ["pld", "gdp", "rdp"])
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


def test_calibration_says_what_cannot_be():
    with pytest.raises(UnsoundError, match=r"rdp-wang19 cannot prove epsilon 1 for 300 rounds at q=0.1: even a noise"):
        calibrate(1.0, q=0.1, delta=DELTA, accountant="rdp-wang19", rounds=300)
    assert calibrate(0.01, q=0.5, delta=DELTA, accountant="gdp", noise_multiplier=0.5) == 0
    with pytest.raises(ValueError, match="give rounds"):
        calibrate(1.0, q=0.1, delta=DELTA, accountant="pld")
    with pytest.raises(ValueError, match="target_epsilon"):
        calibrate(0.0, q=0.1, delta=DELTA, accountant="pld", rounds=3)


# --- Monte-Carlo


def test_privacy_loss_of_the_worst_case_pair_has_the_gaussian_moments():
    """Gradients +-G at multiplier theta: loss ~ N(mu^2/2, mu^2), mu = 2 G gamma theta sqrt(alpha P) g / noise."""
    rng = np.random.default_rng(0)
    gain, alpha, power, gamma, theta = np.array([0.4, 0.9, 0.6]), 0.2, 1.5, 0.1, 3.5
    noise = np.sqrt(np.sum(gain**2 * (1 - alpha) * power * (10 * gamma) ** 2))
    shift = 2 * gamma * theta * gain[1] * np.sqrt(alpha * power)
    mu, count = shift / noise, 200_000
    heard = gain @ (np.sqrt((1 - alpha) * power) * 10 * gamma * rng.standard_normal((3, count)))
    loss = (norm.logpdf(heard, 0, noise) - norm.logpdf(heard, shift, noise)) * 1.0
    assert abs(loss.mean() - mu**2 / 2) < 4 * mu / np.sqrt(count)
    assert abs(loss.var() - mu**2) < 4 * mu**2 * np.sqrt(2 / count)


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


# --- budgets


def release(round, own_mu):
    nodes = len(own_mu)
    nothing = np.zeros(0, dtype=np.int64)
    ones = np.ones(nodes)
    return FrameRelease(round, np.ones(nodes, bool), ones, ones, np.asarray(own_mu), nothing, nothing, np.zeros(0))


@pytest.mark.parametrize("protocol", ["hardened", "paper"])
def test_budgets_are_never_exceeded_whatever_the_schedule(protocol):
    """500 senders, each with its own fading and silences, in groups that share a ledger."""
    rng = np.random.default_rng(5)
    budget, stopped = 0.8, 0
    for _ in range(25):
        q = rng.choice([0.02, 0.05, 0.1], 20)
        ledger = Ledger(Terms(protocol, "without-replacement", "per-sample", 1e-5), q)
        fading = rng.choice([0.2, 0.4, 0.8], 20)
        for round in range(1, 26):
            mu = fading * rng.choice([0.0, 1.0, 1.0, 1.6], 20)
            spent = ledger.exhausted(mu, budget)
            stopped += int(spent.sum())
            ledger.record(release(round, np.where(spent, 0.0, mu)))
        assert (ledger.own_total() <= budget).all()
    assert stopped > 100


@pytest.mark.parametrize(("q", "nu"), [(0.02, 2.0), (0.1, 4.0), (0.3, 6.0), (0.5, 0.5)])
def test_a_budget_of_exactly_so_many_releases_allows_exactly_so_many(q, nu):
    terms = Terms("hardened", "without-replacement", "per-sample", 1e-5)
    reference = Ledger(terms, np.array([q]))
    for round in range(1, 41):
        reference.record(release(round, [1 / nu]))
    budget = float(reference.own_total()[0])
    ledger = Ledger(terms, np.array([q]))
    sent = 0
    while not ledger.exhausted(np.array([1 / nu]), budget)[0]:
        sent += 1
        ledger.record(release(sent, [1 / nu]))
    assert sent == 40
    assert ledger.own_total()[0] <= budget


def test_budgets_hold_in_runs_under_fading_and_what_falls_silent_shows_nothing(tmp_path):
    """Adaptive plans, uneven data: some nodes retire early. Their model is what they last received, not their step."""
    base = {
        "scenario": {"rounds": 40},
        "network": {"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.7}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"power_dbm": 23, "thermal_noise": True},
        "power": {"schedule": "adaptive", "objective": "own-noise"},
        "learning": {"batch_size": 100, "partition": {"kind": "dirichlet"}, "eval_every": 1},
    }
    free = wirelessdl.simulate(tiny(**base), out=tmp_path)
    totals = free.privacy.query("view == 'own'")["epsilon_total"]
    limit = float(totals.median())
    run = wirelessdl.simulate(tiny(**base, privacy={"epsilon_max": 1.0, "budget_total": limit}), out=tmp_path)
    assert run.privacy.query("view == 'own'")["epsilon_total"].max() <= limit
    sent = run.nodes.pivot(index="round", columns="node", values="transmitted")
    assert not (sent.astype(int).diff() > 0).any().any()  # once silent, silent for good
    retired = sent.columns[~sent.iloc[-1]]
    assert 0 < len(retired) < 5
    accuracy = run.nodes.pivot(index="round", columns="node", values="accuracy")
    for node in retired:
        first = int((~sent[node]).idxmax())
        # it shows again what it showed in the last slot it sent in: the step after that was taken back
        assert accuracy[node].loc[first] == accuracy[node].loc[first - 1]
    audits = audit_run(run)
    assert all(np.isfinite([audit.attained, audit.link_sum, audit.proven]).all() for audit in audits)
    assert all(audit.attained <= audit.proven * (1 + 1e-9) for audit in audits)


def test_a_budgeted_run_resumes_to_the_same_tables(tmp_path):
    from wirelessdl.errors import RunInterrupted

    sections = {"scenario": {"rounds": 40}, "power": {"objective": "own-noise"}, "learning": {"batch_size": 64}}
    limit = wirelessdl.simulate(tiny(**sections), out=tmp_path / "free").summary["epsilon_own_total"] / 2
    base = tiny(**sections, privacy={"epsilon_max": 1.0, "budget_total": limit})
    whole = wirelessdl.simulate(base, out=tmp_path / "whole")
    silent = whole.nodes[~whole.nodes["transmitted"]]["round"].min()
    for stop in (silent - 1, silent + 2):
        done: list[int] = []

        def enough(done=done, stop=stop):
            return done[-1] >= stop

        with pytest.raises(RunInterrupted) as caught:
            wirelessdl.simulate(base, out=tmp_path / "cut", on_round=done.append, should_stop=enough)
        again = wirelessdl.resume(caught.value.folder)
        pd.testing.assert_frame_equal(again.nodes, whole.nodes, check_exact=True)
        pd.testing.assert_frame_equal(again.events, whole.events, check_exact=True)


def test_a_budget_silences_nodes_in_a_run(tmp_path):
    base = {"scenario": {"rounds": 40}, "power": {"objective": "own-noise"}, "learning": {"batch_size": 64}}
    free = wirelessdl.simulate(tiny(**base), out=tmp_path)
    limit = free.summary["epsilon_own_total"] / 2
    bound = wirelessdl.simulate(tiny(**base, privacy={"epsilon_max": 1.0, "budget_total": limit}), out=tmp_path)
    assert limit * 0.8 < bound.summary["epsilon_own_total"] <= limit
    silent = bound.nodes[~bound.nodes["transmitted"]]
    assert len(silent)
    assert (silent["power_w"] == 0).all()
    sent = bound.nodes.groupby("node")["transmitted"].sum()
    own = bound.privacy.query("view == 'own'").set_index("tx")["rounds"]
    assert (own == sent - 1).all()  # every transmission but the first carries a gradient, and is charged
    assert (bound.events["kind"] == "budget").sum() == 4
    heard = bound.links[["round", "tx"]].merge(bound.nodes, left_on=["round", "tx"], right_on=["round", "node"])
    assert heard["transmitted"].all()
    assert bound.rounds["active_nodes"].iloc[-1] == 0


# --- audit


def test_one_slot_of_the_audit_is_theorem_1():
    weights = np.array([[0.4, 0.35, 0.25], [0.3, 0.4, 0.3], [0.2, 0.5, 0.3]])
    noise, step = np.array([0.7, 0.5, 0.9]), np.array([0.1, 0.2, 0.3])
    two = Transcript(np.stack([weights] * 2), np.stack([noise] * 2), np.stack([step] * 2))
    # round 2 alone carries the gradient of round 1; round 1's noise reaches the receiver only mixed
    direct = 2.0 * weights[0, 1] * step[1] / np.sqrt((weights[0, 1] * noise[1]) ** 2 + (weights[0, 2] * noise[2]) ** 2)
    found = transcript_mu(two, receiver=0, sender=1, sensitivity=2.0)
    assert 0 < found < direct  # noise sent in round 1 comes back and masks, too
    fresh = Transcript(two.mixing, np.stack([[0.7, 1e-9, 1e-9], noise]), two.step)
    assert transcript_mu(fresh, 0, 1, 2.0) == pytest.approx(direct, rel=1e-6)  # without it: Theorem 1


def test_the_audit_is_attained_by_linear_losses():
    """Simulate both neighbours' transcripts and measure the separation an optimal linear test sees."""
    rng = np.random.default_rng(3)
    nodes, rounds, trials = 3, 4, 60_000
    weights = rng.uniform(0.1, 1.0, (rounds, nodes, nodes))
    weights /= weights.sum(axis=2, keepdims=True)
    noise, step = rng.uniform(0.5, 1.0, (rounds, nodes)), rng.uniform(0.1, 0.3, (rounds, nodes))

    def views(gradient):
        rng = np.random.default_rng(4)  # the same noise every time: differences are exact
        x = np.zeros((nodes, trials))
        seen = []
        for t in range(rounds):
            eta = rng.standard_normal((nodes, trials))
            eta[0] = 0.0  # the receiver knows its own
            w = x + noise[t][:, None] * eta
            seen.append(weights[t, 0, 1:] @ w[1:])
            x = weights[t] @ w
            x[1] -= step[t, 1] * gradient[t]
        return np.stack(seen)

    still = views(np.zeros(rounds))
    columns = [views(unit).mean(axis=1) - still.mean(axis=1) for unit in np.eye(rounds)]
    covariance, response = np.cov(still), np.stack(columns, axis=1)
    measured = max(
        np.sqrt((response @ u) @ np.linalg.solve(covariance, response @ u))
        for u in (2.0 * np.array(signs) for signs in itertools.product((1, -1), repeat=rounds))
    )
    claimed = transcript_mu(Transcript(weights, noise, step), 0, 1, sensitivity=2.0)
    assert measured == pytest.approx(claimed, rel=0.02)  # 60,000 trials: about half a percent


def test_audits_of_runs_lie_below_what_is_proven_and_beyond_the_sum_over_slots(tmp_path):
    ring = {"nodes": 6, "topology": {"kind": "ring", "reach": 2}}
    run = wirelessdl.simulate(
        tiny(scenario={"rounds": 30}, network=ring, power={"objective": "own-noise"}), out=tmp_path
    )
    found = audit_run(run, receiver=2)
    assert [audit.tx for audit in found] == [0, 1, 3, 4]
    assert all(0 < audit.attained <= audit.proven * (1 + 1e-9) for audit in found)
    assert any(audit.attained > 1.05 * audit.link_sum for audit in found)
    transcript = transcript_of(run)
    np.testing.assert_allclose(transcript.mixing.sum(axis=2), 1.0)
    with pytest.raises(TraceError, match="no receiver 9; nodes are 0 to 5"):
        audit_run(run, receiver=9)
    without = wirelessdl.simulate(tiny(trace={"links": "none"}), out=tmp_path)
    with pytest.raises(TraceError, match="the audit needs every link"):
        audit_run(without)


def test_plan_forecasts_and_audits(tmp_path, wirelessdl_command):
    run = wirelessdl.simulate(tiny(scenario={"rounds": 25}, power={"objective": "own-noise"}), out=tmp_path)
    shown = wirelessdl_command("plan", "--audit", str(run.path))
    assert "audit >=" in shown.out
    assert "proven <=" in shown.out
    audits = json.loads(wirelessdl_command("plan", "--audit", str(run.path), "--json", "--receiver", "1").out)
    assert {audit["rx"] for audit in audits} == {1}
    facts = json.loads(wirelessdl_command("plan", "urban_er_k20", "--json").out)
    totals = facts["epsilon_own_total"]
    assert totals["pld"] < totals["rdp"] < totals["rdp-wang19"] < totals["gdp"]
    assert totals["pld"] == pytest.approx(2.5, abs=0.1)
    assert wirelessdl_command("plan").code == 2
    assert "--audit looks at a run alone" in wirelessdl_command("plan", "quickstart", "--audit", str(run.path)).err
    assert "--receiver goes with --audit" in wirelessdl_command("plan", "quickstart", "--receiver", "1").err
    assert wirelessdl_command("plan", "--audit", "nowhere").code == 2


def test_the_forecast_is_what_the_run_spends(tmp_path):
    from wirelessdl.preview.plan import preview_plan
    from wirelessdl.run.build import build

    for sections in (
        {"power": {"objective": "own-noise"}},
        {
            "privacy": {"protocol": "paper", "clipping": "batch", "epsilon_max": 1.0},
            "power": {"balance": False, "alpha_min": 1e-6},
        },
    ):
        scenario = tiny(scenario={"rounds": 30}, **sections)
        said = preview_plan(build(scenario)).forecast
        spent = wirelessdl.simulate(scenario, out=tmp_path).summary["epsilon_own_total"]
        accountant = "gdp" if "privacy" in sections else "pld"
        # the paper's multipliers start at 1 and rise towards theta, so its run spends less
        assert spent <= said[accountant] * 1.04
        assert spent >= said[accountant] * (0.7 if accountant == "gdp" else 0.999)
