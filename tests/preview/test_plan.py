"""Schedules, margins, multipliers and the verdict before training."""

import json
import math

import numpy as np
import pytest
import tomli_w
from conftest import hubs, tiny, tiny_table

import wirelessdl
from wirelessdl import simulate
from wirelessdl.analysis.timeline import hub_turns
from wirelessdl.cli.plan import _figures
from wirelessdl.cli.plan import facts as plan_facts
from wirelessdl.links import Links
from wirelessdl.mixing import balanced_air, mix, uniform_air
from wirelessdl.preview import cancelling, describe
from wirelessdl.preview.plan import preview_plan
from wirelessdl.privacy.coalition import group_variance
from wirelessdl.round.multiplier import Mean, SparseMean, make_multiplier
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import load_scenario

FADING = {
    "scenario": {"rounds": 30},
    "network": {"nodes": 6, "topology": {"kind": "erdos-renyi", "p": 0.7}},
    "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
    "radio": {"power_dbm": 23, "thermal_noise": True},
}


def run(tmp_path, **sections):
    return wirelessdl.simulate(tiny(**{**FADING, **sections}), out=tmp_path)


def rate(run):
    return run.summary["violations"] / len(run.links)


def test_static_breaks_the_promise_under_fading_robust_hardly_and_adaptive_never(tmp_path):
    static = run(tmp_path, power={"schedule": "static"})
    robust = run(tmp_path, power={"schedule": "robust", "samples": 100})
    adaptive = run(tmp_path, power={"schedule": "adaptive"})
    assert rate(static) > 0.02
    assert rate(robust) < rate(static) / 4
    assert adaptive.summary["violations"] == 0
    assert static.rounds["violations"].sum() == static.summary["violations"]
    first = run(tmp_path, power={"schedule": "static", "reference": "first"})
    assert (first.nodes["alpha"].to_numpy() != static.nodes["alpha"].to_numpy()).any()
    assert first.rounds["violations"].iloc[0] == 0 < first.summary["violations"]


def test_estimated_gains_break_the_promise_and_a_margin_restores_it(tmp_path):
    radio = {"power_dbm": 23, "thermal_noise": True, "csi": {"kind": "pilots", "symbols": 4}}
    half = {"epsilon_max": 0.5}
    plain = run(tmp_path, radio=radio, privacy=half, power={"schedule": "adaptive"})
    margin = run(tmp_path, radio=radio, privacy=half, power={"schedule": "adaptive", "csi_margin_db": 1.0})
    assert plain.summary["violations"] > 0
    assert rate(margin) < rate(plain) / 4


def test_power_balancing_runs_and_traces_its_back_off(tmp_path):
    traced = run(tmp_path, power={"schedule": "adaptive", "balance": "power"})
    assert traced.nodes["backoff_db"].max() > 0.5
    by_round = traced.nodes.groupby("round")["backoff_db"].min()
    np.testing.assert_allclose(by_round, 0.0, atol=1e-9)  # someone always uses all of it
    np.testing.assert_allclose(traced.nodes["multiplier"], 6.0)


def test_crediting_thermal_noise_lowers_link_epsilon_and_never_own(tmp_path):
    loud = {"power_dbm": 30, "thermal_noise": True, "bandwidth_hz": 1e13}
    plain = wirelessdl.simulate(tiny(radio=loud), out=tmp_path)
    credited = wirelessdl.simulate(tiny(radio=loud, privacy={"epsilon_max": 1.0, "credit_thermal": True}), out=tmp_path)
    assert (credited.nodes["alpha"].to_numpy() > plain.nodes["alpha"].to_numpy()).all()
    assert credited.links["epsilon"].max() <= 1.0 + 1e-9
    assert credited.rounds["epsilon_own_max"].iloc[-1] > plain.rounds["epsilon_own_max"].iloc[-1]
    world = build(tiny(radio=loud, privacy={"epsilon_max": 1.0, "credit_thermal": True}))
    assert any("thermal noise is credited" in line for line in preview_plan(world).verdict)


@pytest.mark.parametrize("source", ["block", "mean"])
def test_receivers_balance_by_the_gains_of_the_frame_or_by_the_mean_ones(source, tmp_path):
    links = run(tmp_path, scenario={"rounds": 5}, power={"balance_from": source}).links
    air = links.groupby(["round", "rx"])["weight"].sum().unstack()
    assert (air.max() - air.min() < 1e-12).all() == (source == "mean")


# --- multipliers: a quadratic task with a known optimum, gradients of f_i = ||x - b_i||^2 / 2


def bias(rule, balance, *, fading, rounds=6000, seed=0):
    """Distance of the average iterate from the optimum, mean of all b_i, after many rounds of D-PSGD."""
    rng = np.random.default_rng(seed)
    nodes = 6
    mean = rng.uniform(0.1, 1.0, (nodes, nodes)) * (1 - np.eye(nodes))
    mean[2, [1, 3]] = 0.0  # not everyone hears everyone
    links = Links.from_gain(mean)
    optimum = rng.standard_normal((nodes, 20))
    multiplier = make_multiplier(rule, nodes)
    ones, x = np.ones(nodes), np.zeros((nodes, 20))
    reference = links.vector(mean)
    total, counted = np.zeros(20), 0
    for t in range(1, rounds + 1):
        gain = reference * (rng.rayleigh(np.sqrt(0.5), len(links)) if fading else 1.0)
        if balance == "block":
            air = balanced_air(links, gain, ones)
        else:
            air = balanced_air(links, reference, ones) if balance == "mean" else uniform_air(links)
        mixing = mix(links, gain, ones, air=air)
        factor = np.minimum(multiplier.advance(mixing), 50.0)
        x = mixing.dense @ x
        x = x - 0.002 * factor[:, None] * (x - optimum)
        if t > rounds // 2:
            total, counted = total + x.mean(axis=0), counted + 1
    return float(np.linalg.norm(total / counted - optimum.mean(axis=0)) / np.linalg.norm(optimum.mean(axis=0)))


def test_every_multiplier_finds_the_optimum_of_a_fixed_channel():
    # here and below: the table of docs/power.md
    for rule, balance in [("product", False), ("mean", False), ("tracked", False), ("windowed", False)]:
        assert bias(rule, balance, fading=False) == pytest.approx(0.003, abs=5e-4)
    for balance in ("block", "mean"):
        assert bias("balanced", balance, fading=False) < 5e-4


@pytest.mark.slow
def test_under_fading_the_papers_product_stays_biased_and_the_others_do_not():
    biases = {
        "product": bias("product", False, fading=True),
        "balanced per block": bias("balanced", "block", fading=True),
        "balanced from the mean": bias("balanced", "mean", fading=True),
        "mean": bias("mean", False, fading=True),
        "tracked": bias("tracked", False, fading=True),
        "windowed": bias("windowed", False, fading=True),
    }
    assert list(biases.values()) == pytest.approx([0.290, 0.000, 0.015, 0.005, 0.004, 0.013], abs=1e-3), biases


def test_the_mean_of_a_large_network_is_that_of_a_small_one_in_less_memory():
    rng = np.random.default_rng(0)
    gain = rng.uniform(0.1, 1.0, (6, 6)) * (1 - np.eye(6))
    gain[2, 3] = gain[4, 0] = 0.0
    links = Links.from_gain(gain)
    dense, sparse, second = Mean(6), SparseMean(6), SparseMean(6)
    for n in range(30):
        fading = np.random.default_rng(n).rayleigh(size=len(links))
        here = links if n % 3 else links.where(np.arange(len(links)) != 5)
        frame = mix(here, links.vector(gain)[: len(here)] * fading[: len(here)], np.ones(6), air=uniform_air(here))
        lost = np.arange(6) == (0 if n else 9)  # every row is heard in the first round, one not any more
        np.testing.assert_allclose(sparse.advance(frame, lost=lost), dense.advance(frame, lost=lost), rtol=1e-9)
    second.restore(sparse.state())
    np.testing.assert_array_equal(second.advance(frame), sparse.advance(frame))


# --- the verdict


def test_the_verdict_tells_what_trains_and_what_does_not():
    urban = preview_plan(build(load_scenario("urban_er_k20")))
    assert urban.verdict[0].endswith("should train")
    assert urban.plan.epsilon_own.max() <= 1.0
    printed = preview_plan(build(load_scenario("paper_k4_full")))
    assert "this will not train" in printed.verdict[0]
    assert printed.noise_to_update > 100
    assert printed.verdict[1].startswith("per-sample clipping (with the hardened protocol) has a smaller sensitivity")
    lp = preview_plan(build(load_scenario("urban_er_k20_paper_lp", overrides=["power.balance=false"])))
    assert any("receiver balancing would make it 20" in line for line in lp.verdict)
    assert any('objective = "own-noise"' in line for line in lp.verdict)


def test_plan_speaks_draws_and_prints_json(wirelessdl_command, tmp_path):
    shown = wirelessdl_command("plan", "urban_er_k20_paper_lp", "--figure", "plan.svg").out
    for words in ("x the update", "spectral gap", "one slot, one receiver", "figure in plan.svg"):
        assert words in shown
    drawing = (tmp_path / "plan.svg").read_text()
    for words in ("Power split", "epsilon of one slot", "epsilon_max"):
        assert words in drawing
    facts = json.loads(wirelessdl_command("plan", "quickstart", "--json").out)
    assert len(facts["alpha"]) == 4
    assert facts["epsilon"][0][0] is None
    assert facts["theta"] == 4.0
    no_noise = json.loads(wirelessdl_command("plan", "quickstart", "--json", "--set", "privacy.epsilon_max=inf").out)
    assert no_noise["epsilon_own"] == [math.inf] * 4  # a number, as in summary.json
    wirelessdl_command("plan", "quickstart", "--set", "privacy.epsilon_max=inf", "--figure", "none.png")
    assert (tmp_path / "none.png").stat().st_size > 10_000


# --- pairwise-cancelling noise, passes, partial balancing and a promised total

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
    np.testing.assert_allclose(found.node_noise_std**2, own**2 * (1 + 5 * ratio**2))
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
    bare = wirelessdl.simulate(
        scenario(radio={"mixing_passes": 0}, learning={"closing_passes": 0}), out=tmp_path, device="cpu"
    )
    assert cost.airtime_s - bare.summary["airtime_s"] == pytest.approx(cost.airtime_passes_s)
    assert (cost.passes, cost.closing) == (3, 5)


def test_words_name_adversary_ratio_passes_and_exponent(found):
    rows = cancelling(found, scenario().power)
    assert "against any 2 colluding nodes that hear every transmission" in rows["one slot"]
    assert "against all other nodes colluding" in rows["one slot"]
    assert f"pair ratio {found.protection.roster.terms.ratio:.3g} (chosen" in rows["pairs"]
    assert "5 partners a node" in rows["pairs"]
    assert "coalition 2" in rows["pairs"]
    assert rows["passes"].startswith("3 after every payload, 5 more in the last round (chebyshev)")
    assert f"exponent {found.joint.best.exponent:.3g} (chosen" in rows["amplitudes"]
    fixed = scenario(privacy={"pair_ratio": 1.5}, power={"balance_exponent": 0.5})
    rows = cancelling(preview_plan(build(fixed, device="cpu")), fixed.power)
    assert "pair ratio 1.5 (as set)" in rows["pairs"]
    assert "exponent 0.5 (as set" in rows["amplitudes"]


@pytest.fixture
def six(tmp_path):
    """The scenario as a file."""
    path = tmp_path / "six.toml"
    path.write_text(tomli_w.dumps(tiny_table(**SECTIONS)))
    return path.name


def test_check_and_plan_show_the_promise_and_no_link_epsilon(six, wirelessdl_command, tmp_path):
    facts = json.loads(wirelessdl_command("check", six, "--json").out)
    words = "epsilon 2 over the whole run at delta 0.0001 for one sample (replace-one), against any 2 colluding"
    assert words in facts["privacy"]
    for row in ("one slot", "whole run", "pairs", "passes", "amplitudes", "predicted error"):
        assert facts[row]
    shown = wirelessdl_command("plan", six, "--figure", "plan.svg").out
    assert "guaranteed" in shown
    assert "one slot, one receiver" not in shown
    drawing = (tmp_path / "plan.svg").read_text()
    assert "any 2 nodes" in drawing
    assert "Leakage of a link" not in drawing


def test_json_has_the_numbers_of_the_figure(six, wirelessdl_command):
    facts = json.loads(wirelessdl_command("plan", six, "--json").out)
    assert (facts["promised"], facts["epsilon"]) == ("coalition", None)
    assert facts["pairs"]["coalition"] == 2
    assert facts["joint"]["error"] == pytest.approx(facts["joint"]["mean"] + facts["joint"]["apart"])
    plain = json.loads(wirelessdl_command("plan", "quickstart", "--json").out)
    assert (plain["pairs"], plain["passes"], plain["joint"]) == (None, None, None)
    assert plain["epsilon"][0][1] is not None


def test_noise_that_leaves_too_little_power_is_one_line_with_the_file(six, wirelessdl_command):
    changes = ("--set", "privacy.pair_ratio=100", "--set", "privacy.epsilon_total=0.01", "--set", "privacy.rho=0.1")
    result = wirelessdl_command("plan", six, *changes)
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


CARRIERS = {"kind": "uniform", "low": -5.0, "high": 5.0}
PAIRED = {"epsilon_max": math.inf, "epsilon_total": 2.0, "noise": "pairwise", "coalition": 2, "pair_ratio": 1.0}


def test_under_hubs_nothing_is_said_of_links_and_passes_that_are_not_used():
    given = hubs(privacy=PAIRED, scenario={"rounds": 3}, radio={"cfo_hz": CARRIERS, "interference": "physical"})
    world = build(given, device="cpu")
    found = preview_plan(world)
    rows, facts = cancelling(found, given.power), describe(world)
    assert not {"passes", "messages", "predicted error"} & rows.keys()
    assert "pairs" in rows
    assert not any("mixing_passes" in line for line in found.verdict)
    assert any("independent noise would be" in line for line in found.verdict)
    assert facts["heard"] == "everyone: who sends to whom follows from gains, turn by turn"
    assert facts["frame"].startswith("as many turns as gains need, each after ")
    assert "rad" not in facts["offsets"]
    assert len(found.sinr_db) == 0
    assert found.violation_rate is None
    shown = [name for name, _ in _figures(found, given.power)]
    assert "hubs" in shown
    assert not {"SINR of links", "spectral gap", "under fading"} & set(shown)
    printed = plan_facts(found)
    assert printed["hubs"]["hubs"]
    assert printed["messages"] is printed["spectral_gap"] is printed["joint"] is None


def test_what_hubs_take_is_what_a_run_without_fading_takes(tmp_path):
    still = {"channel": {"models": [{"model": "log-distance", "exponent": 3.0}]}}
    given = hubs(
        **still, scenario={"rounds": 3}, radio={"mixing_passes": 1, "power_dbm": 3}, learning={"closing_passes": 2}
    )
    carry = preview_plan(build(given, device="cpu")).carry
    run = simulate(given, out=tmp_path)
    hub, first = run.events[run.events["kind"] == "hub"]["node"].astype(int).tolist(), carry.facts["hubs"]
    assert len(first) > 1
    assert hub == first * (2 * 3 + 2)
    assert carry.facts["airtime_s"] == pytest.approx(run.rounds["airtime_s"].sum(), abs=1e-9)
    assert carry.facts["round_airtime_s"] == pytest.approx(run.rounds["airtime_s"].iloc[0], abs=1e-9)
    assert carry.facts["disagreement"] == pytest.approx(run.rounds["disagreement"].iloc[0])
    assert "2 times, 2 times more in the last round" in carry.words
    assert [(one, members.tolist()) for one, members in carry.hub_members] == [
        (turn.hub, turn.members.tolist()) for turn in hub_turns(run)[: len(first)]
    ]
