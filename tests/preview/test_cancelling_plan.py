"""Noise that cancels, passes, partial balancing and a promised total, as `check` and `plan` tell of them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from conftest import tiny

import wirelessdl
from wirelessdl.power.joint import choose
from wirelessdl.preview.cancelling import PASSES, trade
from wirelessdl.preview.plan import preview_plan
from wirelessdl.preview.words import cancelling
from wirelessdl.privacy.coalition import group_sent_variance, group_variance
from wirelessdl.run.build import build

SECTIONS = {
    "scenario": {"rounds": 4},
    "network": {"nodes": 6, "topology": {"kind": "erdos-renyi", "p": 0.7}},
    "channel": {"models": [{"model": "log-distance"}]},
    "radio": {"power_dbm": 23, "thermal_noise": True, "mixing_passes": 3},
    "power": {"objective": "own-noise", "balance": "partial"},
    "privacy": {"epsilon_total": 2.0, "epsilon_max": float("inf"), "noise": "pairwise", "coalition": 2},
    "learning": {"closing_passes": 5, "sampling": "full"},
}


def scenario(**changes):
    return tiny(**{name: {**SECTIONS.get(name, {}), **changes.get(name, {})} for name in {*SECTIONS, *changes}})


@pytest.fixture(scope="module")
def found():
    return preview_plan(build(scenario(), device="cpu"))


def test_the_previewed_noise_is_that_of_a_complete_group(found):
    ratio, gamma = found.protection.roster.terms.ratio, found.noise_std / found.plan.noise_per_step
    own = found.noise_std * np.sqrt(6)  # of the mean of six nodes: a / sqrt(K)
    np.testing.assert_allclose(found.node_noise_std**2, group_sent_variance(own, ratio, 6))
    hidden = np.sqrt(group_variance(own, ratio, 6, 2))
    mu = found.plan.problem.step(found.plan.theta) * gamma / hidden
    np.testing.assert_allclose(mu, found.plan.problem.target_mu, rtol=1e-9)


def test_forecast_totals_are_of_the_promised_view_and_own_stands_beside_it(found):
    assert min(found.forecast.values()) == pytest.approx(2.0, rel=1e-6)
    assert all(found.forecast_own[name] > 1.2 * total for name, total in found.forecast.items())
    assert (found.plan.epsilon_own > found.plan.epsilon_coalition).all()
    everyone = preview_plan(build(scenario(privacy={"noise": "independent"}), device="cpu"))
    assert everyone.forecast == everyone.forecast_own
    assert everyone.protection.facts() is None


def test_the_verdict_counts_what_is_left_in_the_consensus(found):
    apart = preview_plan(build(scenario(privacy={"noise": "independent"}), device="cpu"))
    assert found.noise_to_update < apart.noise_to_update
    assert found.verdict[0].startswith(f"noise that is left in the consensus is {found.noise_to_update:.3g}x")
    assert any(f"independent noise would be {apart.noise_to_update:.3g}x" in line for line in found.verdict)
    assert not any("hides behind others" in line for line in found.verdict)


def test_a_run_begins_as_previewed_and_takes_the_airtime_that_was_said(found, tmp_path):
    run = wirelessdl.simulate(scenario(), out=tmp_path, device="cpu")
    first = run.nodes[run.nodes["round"] == 1]
    np.testing.assert_allclose(first["alpha"], found.plan.alpha, rtol=1e-9)
    assert run.summary["pair_ratio"] == pytest.approx(found.protection.roster.terms.ratio)
    assert run.summary["epsilon_total"] == pytest.approx(min(found.forecast.values()), rel=1e-9)
    assert run.summary["epsilon_own_total"] == pytest.approx(min(found.forecast_own.values()), rel=1e-9)
    cost = found.passes
    assert run.summary["airtime_s"] == pytest.approx(cost.airtime_s)
    assert 0.0 < run.summary["energy_j"] <= cost.energy_j
    bare = wirelessdl.simulate(
        scenario(radio={"mixing_passes": 0}, learning={"closing_passes": 0}), out=tmp_path, device="cpu"
    )
    assert cost.airtime_s - bare.summary["airtime_s"] == pytest.approx(cost.airtime_passes_s)
    assert (cost.passes, cost.closing) == (3, 5)


def test_the_trade_is_the_joint_problem_at_other_numbers_of_passes(found):
    assert [passes for passes, _ in found.trade] == sorted({*PASSES, 3})
    at = {(passes, one.ratio): one for passes, row in found.trade for one in row}
    best = found.joint.best
    assert at[3, best.ratio].error == pytest.approx(best.error)
    assert min(one.error for (passes, _), one in at.items() if passes == 3) == pytest.approx(best.error)
    other = choose(replace(found.joint.problem, passes=20), (best.ratio,)).best
    assert at[20, best.ratio].error == pytest.approx(other.error)
    # passes remove disagreement, not what noise leaves in the mean; receivers without noise, which passes would add to
    quiet = replace(found.joint, problem=replace(found.joint.problem, thermal_w=0.0))
    at = {(passes, one.ratio): one for passes, row in trade(quiet, (0, 20)) for one in row}
    assert at[20, 1.0].apart < at[0, 1.0].apart / 10
    assert at[20, 1.0].mean == pytest.approx(at[0, 1.0].mean, rel=1e-9)


def test_words_name_adversary_ratio_passes_and_exponent(found):
    rows = cancelling(found, scenario().power)
    assert "against any 2 colluding nodes that hear every transmission" in rows["one slot"]
    assert "against everyone else, all nodes colluding" in rows["one slot"]
    assert f"pair ratio {found.protection.roster.terms.ratio:.3g} (chosen" in rows["pairs"]
    assert "5 partners a node" in rows["pairs"]
    assert "coalition 2" in rows["pairs"]
    assert rows["passes"].startswith("3 after every payload, 5 more in the last round (chebyshev)")
    assert f"exponent {found.joint.best.exponent:.3g} (chosen" in rows["amplitudes"]
    fixed = scenario(privacy={"pair_ratio": 1.5}, power={"balance_exponent": 0.5})
    rows = cancelling(preview_plan(build(fixed, device="cpu")), fixed.power)
    assert "pair ratio 1.5 (as set)" in rows["pairs"]
    assert "exponent 0.5 (as set" in rows["amplitudes"]


FILE = """
scenario = { name = "six", rounds = 4 }
network = { nodes = 6 }
channel = { models = [{ model = "log-distance" }] }
radio = { power_dbm = 23, mixing_passes = 3 }
power = { objective = "own-noise", balance = "partial" }
privacy = { epsilon_total = 2, noise = "pairwise", coalition = 2 }
learning = { sampling = "full" }
"""


def test_check_and_plan_show_the_promise_and_no_link_epsilon(wirelessdl_command, tmp_path):
    (tmp_path / "six.toml").write_text(FILE)
    facts = json.loads(wirelessdl_command("check", "six.toml", "--json").out)
    words = "epsilon 2 over the whole run at delta 0.0001 for one sample (replace-one), against any 2 colluding"
    assert words in facts["privacy"]
    for row in ("one slot", "whole run", "pairs", "passes", "amplitudes", "predicted error"):
        assert facts[row]
    shown = wirelessdl_command("plan", "six.toml", "--figure", "plan.svg").out
    assert "promised" in shown
    assert "one slot, one receiver" not in shown
    assert "receiver down, sender across" not in shown
    drawing = (tmp_path / "plan.svg").read_text()
    for words in ("Predicted error of a node's model", "of the consensus", "pair ratio r", "any 2 nodes"):
        assert words in drawing
    assert "What a link leaks" not in drawing


def test_json_has_the_numbers_of_the_figure(wirelessdl_command, tmp_path):
    (tmp_path / "six.toml").write_text(FILE)
    facts = json.loads(wirelessdl_command("plan", "six.toml", "--json").out)
    assert (facts["promised"], facts["epsilon"]) == ("coalition", None)
    assert facts["pairs"]["coalition"] == 2
    assert {row["passes"] for row in facts["trade"]} == {*PASSES, 3}
    here = [row for row in facts["trade"] if row["passes"] == 3]
    assert min(row["error"] for row in here) == pytest.approx(facts["joint"]["error"])
    assert all(row["error"] == pytest.approx(row["mean"] + row["apart"]) for row in facts["trade"])
    plain = json.loads(wirelessdl_command("plan", "quickstart", "--json").out)
    assert (plain["pairs"], plain["passes"], plain["joint"], plain["trade"]) == (None, None, None, [])
    assert plain["epsilon"][0][1] is not None


def test_noise_that_leaves_too_little_power_is_one_line_with_the_file(wirelessdl_command, tmp_path):
    (tmp_path / "six.toml").write_text(FILE)
    changes = ("--set", "privacy.pair_ratio=100", "--set", "privacy.epsilon_total=0.01", "--set", "privacy.rho=0.1")
    result = wirelessdl_command("plan", "six.toml", *changes)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "six.toml: pairwise noise leaves node" in result.err


def test_pairs_of_neighbours_and_groups_are_previewed_with_everyone_on_air():
    ring = {"nodes": 6, "topology": {"kind": "ring"}}
    near = preview_plan(build(scenario(network=ring, privacy={"pairs": "neighbours", "coalition": 1}), device="cpu"))
    assert near.protection.roster.partners.tolist() == [2] * 6
    assert "nodes with a link share noise, 2 partners" in cancelling(near, scenario().power)["pairs"]
    halves = preview_plan(build(scenario(privacy={"pairs": {"groups": 2}, "coalition": 1}), device="cpu"))
    assert halves.protection.roster.partners.tolist() == [2] * 6
    np.testing.assert_allclose(halves.plan.epsilon_coalition, halves.plan.problem.epsilon_max, rtol=1e-6)
