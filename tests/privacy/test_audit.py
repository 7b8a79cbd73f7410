"""Transcript audits: Theorem 1 in one slot, attained by linear losses, below what is proven; forecasts of totals."""

import itertools
import json
import sys

import numpy as np
import pytest
from conftest import ROOT, tiny

import wirelessdl
from wirelessdl.errors import TraceError
from wirelessdl.preview.plan import preview_plan
from wirelessdl.run.build import build

sys.path.append(str(ROOT / "docs" / "reproduction"))
from transcripts import Transcript, audit_run, transcript_mu, transcript_of


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


def test_forecasts_of_plan_follow_their_accountants(wirelessdl_command):
    own = ("--set", "power.objective=own-noise", "--json")
    facts = json.loads(wirelessdl_command("plan", "urban_er_k20_paper_lp", *own).out)
    totals = facts["epsilon_own_total"]
    assert totals["pld"] < totals["rdp"] < totals["rdp-wang19"] < totals["gdp"]
    assert totals["pld"] == pytest.approx(2.5, abs=0.1)
    assert wirelessdl_command("plan").code == 2


def test_the_forecast_is_what_the_run_spends(tmp_path):
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
