"""Aligned power control (PED2FL) against its closed form, its target and the linear program."""

import json

import numpy as np
import pytest
from conftest import tiny

from wirelessdl.channel.fading import Uniform
from wirelessdl.errors import InfeasiblePowerError, ScenarioError
from wirelessdl.links import Geometry, Links
from wirelessdl.power import plan_power
from wirelessdl.power.aligned import Aligned
from wirelessdl.power.problem import PowerProblem
from wirelessdl.run.session import simulate

PRINTED = {"rho": 10.0, "sensitivity": 2.0, "delta": 1e-4}


def full(nodes):
    return Links.from_mask(np.ones((nodes, nodes), dtype=bool), Geometry.at_rest(np.zeros((nodes, 3))))


def problem(nodes=4, seed=0, *, gain=None, power_w=None, epsilon_max=1.0, **changes):
    """A full graph with one gain per sender, drawn from U[0.3, 1]."""
    links = changes.pop("links", full(nodes))
    sender = np.random.default_rng(seed).uniform(0.3, 1.0, nodes) if gain is None else np.full(nodes, gain)
    budget = np.ones(nodes) if power_w is None else np.asarray(power_w)
    given = {**PRINTED, "epsilon_max": epsilon_max, **changes}
    return PowerProblem(links=links, gain=sender[links.tx], power_w=budget, **given)


@pytest.mark.parametrize("nodes", [2, 4, 11])
@pytest.mark.parametrize("kappa", [1.0, 0.3, "auto"])
def test_on_the_full_graph_everyone_counts_alike(nodes, kappa):
    power_w = np.random.default_rng(1).uniform(0.5, 2.0, nodes)
    plan = Aligned(kappa).allocate(problem(nodes, power_w=power_w), 1.0)
    np.testing.assert_allclose(plan.mixing, 1.0 / nodes, rtol=0, atol=1e-12)


def test_the_shares_are_the_closed_form():
    given = problem(5, power_w=[1.0, 0.5, 2.0, 1.0, 3.0])
    plan = Aligned(0.7).allocate(given, 1.0)
    gain = np.array([given.gain[given.links.tx == node][0] for node in range(5)])
    c = 0.7 * np.min(gain * np.sqrt(given.power_w))
    np.testing.assert_allclose(plan.alpha, (c / gain) ** 2 / given.power_w, rtol=1e-14)
    np.testing.assert_array_equal(plan.power_w, given.power_w)
    for rx, tx, leak in zip(given.links.rx, given.links.tx, plan.link_epsilon):
        others = given.links.tx[given.links.rx == rx]
        noise = 10.0**2 * sum(gain[k] ** 2 * given.power_w[k] * (1 - plan.alpha[k]) for k in others)
        mu = 2.0 * c / np.sqrt(noise)
        assert leak == pytest.approx(mu * np.sqrt(2 * np.log(1.25 / 1e-4)), rel=1e-12), (rx, tx)


@pytest.mark.parametrize("theta", [1.0, 4.0])
@pytest.mark.parametrize("epsilon_max", [0.1, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("seed", range(4))
def test_auto_meets_the_target_exactly(seed, epsilon_max, theta):
    plan = Aligned("auto").allocate(problem(seed=seed, epsilon_max=epsilon_max, alpha_min=1e-6), theta)
    assert plan.link_epsilon.max() == pytest.approx(epsilon_max, rel=1e-9)
    assert (plan.power_w <= 1.0).all()


def test_auto_lowers_the_amplitude_first_and_then_the_noise():
    """At kappa = 1 this channel leaks 0.6 or so: less takes a smaller c, more takes less noise at the same c."""
    given = problem()
    printed = Aligned(1.0).allocate(given, 1.0)
    leak = printed.link_epsilon.max()
    quiet = Aligned("auto").allocate(problem(epsilon_max=0.9 * leak), 1.0)
    assert quiet.alpha.max() < 1.0
    np.testing.assert_array_equal(quiet.power_w, 1.0)
    loud = Aligned("auto").allocate(problem(epsilon_max=1.1 * leak), 1.0)
    np.testing.assert_allclose(loud.alpha * loud.power_w, printed.alpha, rtol=1e-14)  # the same models arrive
    assert loud.power_w.min() < 1.0
    assert "noise as for rho = " in loud.notes[0]
    rho = float(loud.notes[0].partition("rho = ")[2].partition(":")[0])
    same = Aligned(1.0).allocate(problem(rho=rho), 1.0)  # as if the scenario had that rho
    assert same.link_epsilon.max() == pytest.approx(1.1 * leak, rel=2e-4)  # the note has four digits


def test_the_weakest_sender_sends_no_noise_of_its_own():
    plan = Aligned(1.0).allocate(problem(), 1.0)
    weakest = int(np.argmax(plan.alpha))
    assert plan.alpha[weakest] == 1.0
    assert plan.epsilon_own[weakest] == np.inf
    assert np.isfinite(np.delete(plan.epsilon_own, weakest)).all()


def test_with_step_k_and_equal_gains_it_is_the_linear_program():
    plan = Aligned("auto").allocate(problem(gain=0.5), 4.0)
    np.testing.assert_allclose(plan.alpha, 0.199007, rtol=0, atol=5e-7)
    gain = 0.5 * (1 - np.eye(4))
    program = plan_power(gain, **PRINTED, epsilon_max=1.0, balance="receiver")
    np.testing.assert_allclose(plan.alpha, program.alpha, rtol=1e-6)


def test_credited_thermal_noise_counts_as_masking():
    for thermal_w in (0.0, 0.5, 50.0):
        plan = Aligned("auto").allocate(problem(thermal_w=thermal_w), 1.0)
        assert plan.link_epsilon.max() <= 1.0 + 1e-9
    assert plan.alpha.min() == 1.0  # so much of it hides everybody: no noise is sent


def test_theta_follows_from_the_graph_where_no_multiplier_is_fixed():
    ring = Links.from_pairs(np.arange(6), (np.arange(6) + 1) % 6, full(6).geometry, both_ways=True)
    assert Aligned(1.0).allocate(problem(6, links=ring)).theta == pytest.approx(6.0)  # regular: doubly stochastic
    path = Links.from_pairs(np.arange(5), np.arange(5) + 1, full(6).geometry, both_ways=True)
    assert Aligned(1.0).allocate(problem(6, links=path)).theta > 6.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda gain, links: gain * np.where(links.rx == 2, 1.0001, 1.0), r"node 0 is heard with gains from .* to "),
        (lambda gain, links: np.where(links.tx == 3, 0.0, gain), "node 3 is heard by nobody"),
    ],
)
def test_gains_that_cannot_be_aligned_are_refused(change, words):
    given = problem()
    wrong = PowerProblem(
        links=given.links, gain=change(given.gain, given.links), power_w=given.power_w, **PRINTED, epsilon_max=1.0
    )
    with pytest.raises(InfeasiblePowerError, match=words):
        Aligned().allocate(wrong, 1.0)


def test_too_small_a_share_is_refused_with_the_node():
    with pytest.raises(InfeasiblePowerError, match=r"alpha would be .* on node \d, below alpha_min=0.001"):
        Aligned("auto").allocate(problem(epsilon_max=0.01), 4.0)


# --- the channel that it needs


def test_gains_per_sender_are_the_same_at_all_receivers_and_uniform():
    links = full(400)
    gain = links.matrix(Uniform(0.3, 1.0, per="sender").gain(links, 0.0, np.random.default_rng(5)), fill=np.nan)
    np.fill_diagonal(gain, np.nan)
    assert (np.nanmax(gain, axis=0) == np.nanmin(gain, axis=0)).all()
    sender = np.nanmax(gain, axis=0)
    assert len(np.unique(sender)) == 400
    assert sender.mean() == pytest.approx(0.65, abs=4 * 0.7 / np.sqrt(12 * 400))  # four standard errors


def test_pruned_graphs_inherit_the_gains_of_senders():
    links = full(6)
    model = Uniform(per="sender")
    whole = model.gain(links, 0.0, np.random.default_rng(1))
    few = links.where((links.tx + links.rx) % 2 == 1)
    np.testing.assert_array_equal(
        model.gain(few, 1.0, np.random.default_rng(2)), whole[np.isin(links.number, few.number)]
    )


# --- in scenarios


def ped2fl(kappa="auto", **sections):
    power = {"allocator": {"kind": "aligned", "kappa": kappa}, "balance": False, "multiplier": "none"}
    return tiny(
        channel={"models": [{"model": "uniform", "per": "sender"}]},
        power={**power, **sections.pop("power", {})},
        **sections,
    )


@pytest.mark.parametrize("multiplier", ["none", "nodes", 2.5])
def test_runs_leak_what_is_allowed_at_every_step(multiplier, tmp_path):
    scenario = ped2fl(power={"multiplier": multiplier, "alpha_min": 1e-6}, privacy={"epsilon_max": 0.3})
    run = simulate(scenario, out=tmp_path)
    factor = {"none": 1.0, "nodes": 4.0}.get(multiplier, multiplier)
    assert (run.nodes["multiplier"] == factor).all()
    assert run.summary["epsilon_link_max"] == pytest.approx(0.3, rel=1e-9)
    assert run.summary["violations"] == 0
    np.testing.assert_allclose(run.links["weight"], 0.25, atol=1e-12)


def test_a_fixed_kappa_leaks_what_the_channel_makes_it_and_is_counted(tmp_path):
    scenario = ped2fl(1.0, privacy={"epsilon_max": 1e-3})
    summary = simulate(scenario, out=tmp_path).summary
    assert summary["violations"] == 12  # every link of the one round whose model holds a gradient
    assert float(summary["epsilon_total"]) == np.inf  # the weakest node sends no noise of its own


@pytest.mark.parametrize(
    "sections",
    [
        {"privacy": {"epsilon_max": np.inf, "epsilon_total": 1.0}, "power": {"objective": "own-noise"}},
        {"privacy": {"noise": "pairwise"}, "power": {"objective": "own-noise"}},
        {"radio": {"mixing_passes": 1}, "power": {"objective": "own-noise", "balance": "receiver"}},
        {"radio": {"access": "tdma"}, "power": {"objective": "own-noise", "balance": "receiver"}},
        {"power": {"balance": "power"}},
        {"power": {"balance": "partial"}},
    ],
)
def test_what_alignment_does_not_go_with_is_refused(sections):
    with pytest.raises(ScenarioError, match="aligned"):
        ped2fl(**sections)


# --- what plan says of it

ALIGNED = ["--set", "power.allocator=aligned", "--set", "channel.models.0.per=sender", "--set", "power.balance=false"]
ALIGNED += ["--set", "power.multiplier=none"]


def test_hints_promise_only_what_the_allocator_will_do(wirelessdl_command):
    """Less sensitivity or more balance changes nothing of a plan that does not look at epsilon_max."""
    printed = ["paper_k4_full", *ALIGNED, "--json"]
    verdict = json.loads(wirelessdl_command("plan", *printed).out)["verdict"]
    assert not any("per-sample clipping" in line or "balancing would" in line for line in verdict)
    assert any("whatever epsilon_max is" in line for line in verdict)
    hidden = next(line for line in verdict if "hides behind others" in line)
    assert "leaks without bound" in hidden
    assert 'allocator = "lp" with objective = "own-noise" hides every sender by itself' in hidden
    auto = json.loads(wirelessdl_command("plan", *printed, "--set", "power.allocator.kappa=auto").out)
    assert any("per-sample clipping" in line for line in auto["verdict"])
    low = json.loads(wirelessdl_command("plan", *printed, "--set", "privacy.epsilon_max=0.01").out)
    assert any("above epsilon_max 0.01" in line for line in low["verdict"])
