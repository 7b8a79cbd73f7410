"""Every epsilon that a run prints is true: what would make it false is refused, charged or said."""

import json
import math
import shutil

import numpy as np
import pytest
from conftest import tiny, tiny_table

import wirelessdl
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.learning.runtime import fetch
from wirelessdl.preview.plan import preview_plan
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.run.wiring import make_engine, run_rounds
from wirelessdl.scenario.loader import load_scenario, parse_scenario

LOUD = """
from dataclasses import replace
from wirelessdl.power.allocate import LinearProgram

class Loud:
    def allocate(self, problem, theta=None):
        plan = LinearProgram("own-noise").allocate(problem, theta)
        return replace(plan, power_w=300 * plan.power_w)
"""


# --- power


@pytest.mark.parametrize("full_power", [True, False])
def test_no_node_radiates_more_than_its_budget_from_the_first_round_on(full_power, tmp_path):
    run = simulate(
        tiny(
            radio={"use_full_power": full_power},
            learning={"model": {"model": "mlp"}, "projection_radius": 0.01},
            privacy={"epsilon_max": 4.0},
        ),
        out=tmp_path,
    )
    assert run.nodes["power_w"].max() <= 1.0 * (1 + 1e-5)
    assert not full_power or run.nodes["power_w"].max() > 0.9


def test_a_plan_that_radiates_more_than_there_is_ends_the_run(tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    table = tiny_table(power={"allocator": {"kind": "loud.py:Loud"}}, learning={"projection_radius": 0.5})
    with pytest.raises(wirelessdl.WirelessdlError, match=r"radiates .* W in round \d+, above its budget of 1 W"):
        simulate(parse_scenario(table, folder=str(tmp_path)), out=tmp_path / "outputs", device="cpu")


SLOTS = {
    "radio": {"payload_slots": 3, "phase_error_rad": 0.1, "power_dbm": 30, "thermal_noise": False},
    "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh", "process": "clarke", "speed_mps": 30}]},
    "scenario": {"name": "slots", "seed": 3, "rounds": 8},
}


@pytest.mark.parametrize("objective", ["sum", "max-min", "min-noise"])
def test_an_adaptive_plan_holds_in_every_slot_of_a_payload(objective, tmp_path):
    run = simulate(
        tiny(
            **SLOTS,
            privacy={"protocol": "paper", "clipping": "batch", "epsilon_max": 8.0},
            power={"schedule": "adaptive", "balance": False, "objective": objective, "alpha_min": 1e-6},
        ),
        out=tmp_path,
    )
    assert run.summary["violations"] == 0
    assert 0 < run.rounds["epsilon_link_max"].max() <= 8.0 * (1 + 1e-9)
    gains = run.links.groupby(["rx", "tx"])["gain"].std()
    assert (gains > 0).all()  # the channel does move


def test_a_fallback_from_power_balancing_in_mid_run_is_an_event(tmp_path):
    """Nodes fall silent one by one as their budgets end; on what is left of the graph, powers cannot balance."""
    ring = {"topology": {"kind": "ring"}, "nodes": 5}
    uneven = {"partition": {"kind": "dirichlet", "concentration": 0.7}, "batch_size": 8}
    run = simulate(
        tiny(
            scenario={"name": "ring", "seed": 3, "rounds": 30},
            network=ring,
            power={"balance": "power", "schedule": "adaptive", "objective": "own-noise"},
            privacy={"epsilon_max": 1.0, "budget_total": 0.01},
            learning=uneven,
        ),
        out=tmp_path,
    )
    assert 0 < run.rounds["active_nodes"].iloc[-1] < 5
    plans = run.events[run.events["kind"] == "plan"]["detail"]
    assert plans.str.contains("balance by receivers instead of power").any()


# --- plans


def test_without_multipliers_a_plan_judges_the_update_by_one_gradient_and_adds_noise_for_one():
    plain, balanced = (preview_plan(build(tiny(power={"multiplier": rule}))) for rule in ("none", "balanced"))
    assert plain.plan.theta == 1.0
    assert balanced.plan.theta == 4.0
    m = 7850
    expected = (
        10.0 * math.sqrt(m * np.sum(plain.plan.beta / plain.plan.alpha)) / 4
    )  # of the mean model; the update is 1
    assert plain.noise_to_update == pytest.approx(expected)
    assert plain.noise_std < balanced.noise_std / 2


def test_the_plan_of_a_network_that_takes_turns_shows_the_mixing_of_its_runs(tmp_path):
    scenario = tiny(
        network={"nodes": 6, "topology": {"kind": "erdos-renyi", "p": 0.5}},
        radio={"access": "tdma", "power_dbm": 30, "thermal_noise": False},
        power={"objective": "own-noise"},
        trace={"links": "all"},
    )
    found = preview_plan(build(scenario))
    links = simulate(scenario, out=tmp_path).links
    first = links[links["round"] == 2]
    shown = found.plan.mixing[first["rx"], first["tx"]]
    np.testing.assert_allclose(shown, first["weight"], rtol=1e-9)
    np.testing.assert_allclose(found.plan.epsilon[first["rx"], first["tx"]], first["epsilon"], rtol=1e-9)
    np.testing.assert_allclose(found.plan.link_epsilon, found.plan.epsilon_own[found.plan.problem.links.tx], rtol=1e-9)


# --- what is protected


def test_a_whole_node_is_charged_twice_the_clip_norm_and_no_amplification(tmp_path):
    scenario = tiny(
        scenario={"name": "unit", "seed": 3, "rounds": 5},
        privacy={"epsilon_max": 2.0, "unit": "node", "clip_norm": 0.5},
        power={"objective": "own-noise", "alpha_min": 1e-9},
    )
    run = simulate(scenario, out=tmp_path)
    sensitivity = run.clients["sensitivity"].max()
    assert 1.0 <= sensitivity < 1.0 + 1e-5  # and what rounding before the noise may add
    assert (run.clients["sampling_rate"] == 1.0).all()
    assert set(run.privacy["unit"]) == {"node"}
    assert run.summary["unit"] == "node"
    nodes = run.nodes[run.nodes["transmitted"] & (run.nodes["sent_multiplier"] > 0)]
    mu = sensitivity * nodes["sent_multiplier"] * np.sqrt(nodes["alpha"] / nodes["beta"]) / 10.0
    squares = (mu**2).groupby(nodes["node"]).sum()
    expected = analytic_epsilon(float(np.sqrt(squares.max())), 1e-4)
    assert run.summary["epsilon_own_total"] == pytest.approx(expected, rel=1e-9)
    assert any("all data of one node" in condition for condition in run.summary["epsilon_own_conditions"])
    sample = tiny(privacy={"epsilon_max": 2.0, "clip_norm": 0.5}, power={"objective": "own-noise"})
    other = simulate(sample, out=tmp_path).nodes
    cost = (nodes["beta"] / nodes["alpha"]).max() / (other["beta"] / other["alpha"]).max()
    assert cost == pytest.approx(8**2, rel=1e-5)  # noise of a whole node: as much more as a batch has samples


@pytest.mark.parametrize("clipping", ["per-sample", "batch"])
@pytest.mark.parametrize("sampling", ["without-replacement", "full", "shuffled"])
def test_replacing_all_data_of_a_node_moves_its_gradient_by_no_more_than_the_charge(clipping, sampling):
    """Two runs of the real engine: all samples of node 0 replaced, everything else the same."""

    def gradient(flip):
        scenario = tiny(
            privacy={"unit": "node", "clipping": clipping, "clip_norm": 0.3, "epsilon_max": math.inf},
            learning={"sampling": sampling, "batch_size": 8, "dtype": "float64"},
            power={"multiplier": "none", "balance": "receiver"},
        )
        world = build(scenario, device="cpu")
        if flip:
            mine, store = world.client_indices[0], world.learning._store
            store.train_x, store.train_y = store.train_x.clone(), store.train_y.clone()  # the data set's own memory
            store.train_x[mine] = 255 - store.train_x[mine]
            store.train_y[mine] = (store.train_y[mine] + 5) % 10
        run_rounds(world, make_engine(world))
        return world.learning.x.numpy()

    scenario = tiny(privacy={"unit": "node", "clipping": clipping, "clip_norm": 0.3})
    charge = build(scenario).exposure.sensitivity[0]
    assert 0.6 < charge < 0.6 * (1 + 1e-5)  # and what rounding may add
    moved = np.linalg.norm(gradient(flip=False)[0] - gradient(flip=True)[0])
    rate = build(scenario).schedule.rate(1) + build(scenario).schedule.rate(2)
    assert 0 < moved <= charge * rate * (1 + 1e-9)


# --- one name, one number


def test_the_last_evaluation_the_table_and_the_summary_tell_the_same_epsilon(tmp_path, wirelessdl_command):
    result = wirelessdl_command("run", "quickstart", "--json", "--out", str(tmp_path), "--set", "scenario.rounds=23")
    lines = [json.loads(line) for line in result.out.splitlines()]
    evaluations = [line for line in lines if line["event"] == "evaluation"]
    summary = lines[-1]
    run = wirelessdl.open_run(next(tmp_path.iterdir()))
    assert evaluations[-1]["epsilon_own_total"] == summary["epsilon_own_total"]
    assert evaluations[-1]["epsilon_total"] == summary["epsilon_total"] == summary["epsilon_own_total"]
    assert run.rounds["epsilon_own_total"].iloc[-1] == summary["epsilon_own_total"]
    assert run.privacy.loc[run.privacy["view"] == "own", "epsilon_total"].max() == summary["epsilon_own_total"]
    total = run.rounds["epsilon_own_total"]
    assert total.notna().tolist() == run.rounds["accuracy_mean"].notna().tolist()
    assert total.dropna().is_monotonic_increasing
    assert (total.dropna() < run.rounds["epsilon_own_bound"][total.notna()]).all()


def test_what_every_command_headlines_after_a_stop_is_the_total_of_all_rounds_declared(tmp_path, wirelessdl_command):
    stop = ["learning.eval_every=2", "learning.stop_after=3", "learning.stop_within=1.0", "scenario.rounds=60"]
    run = simulate(load_scenario("quickstart", overrides=stop), out=tmp_path)
    declared, odometer = run.summary["epsilon_declared"], run.summary["epsilon_own_total"]
    assert odometer < 0.9 * declared
    listed = wirelessdl_command("list", str(tmp_path), "--json").out
    assert json.loads(listed.splitlines()[0])["epsilon"] == declared
    twin = shutil.copytree(run.path, tmp_path / "twin")
    compared = json.loads(wirelessdl_command("compare", str(run.path), str(twin), "--json").out)
    assert compared["runs"][0]["epsilon"] == declared
    assert compared["runs"][0]["epsilon_total"] == odometer
    assert compared["runs"][0]["epsilon_own"] == declared
    table = wirelessdl_command("compare", str(run.path), str(twin)).out
    assert "every epsilon protects" in table
    assert "no epsilon covers it" in table


def test_the_stopping_rule_of_the_paper_protocol_looks_at_what_was_received():
    paper = {"protocol": "paper", "clipping": "batch", "epsilon_max": 4.0}
    power = {"balance": False, "alpha_min": 1e-6}
    for stop, shown in ((0, "x"), (3, "_mixed")):
        world = build(tiny(privacy=paper, power=power, learning={"stop_after": stop}), device="cpu")
        results = []
        engine = make_engine(world)
        engine.trace.connect("learning.update", lambda event, results=results: results.append(event.result))
        run_rounds(world, engine)
        accuracy = world.learning.accuracy(getattr(world.learning, shown))
        np.testing.assert_array_equal(fetch([results[-1].accuracy])[0], accuracy.numpy())
        covered = "accuracy is of what was received"
        assert (covered in world.terms.conditions) is bool(stop)


def test_classes_of_a_file_are_stated_or_said_to_come_from_its_labels(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=(size, 5)) for name, size in (("train_x", 80), ("test_x", 20))}
    labels = {"train_y": np.arange(80) % 3, "test_y": np.arange(20) % 3}
    np.savez(tmp_path / "d.npz", **arrays, **labels)

    def world(**dataset):
        table = tiny_table(learning={"dataset": {"kind": "file", "path": str(tmp_path / "d.npz"), **dataset}})
        return build(parse_scenario(table), device="cpu")

    from wirelessdl.run.warnings import scenario_warnings

    assert any("state them as classes" in line for line in scenario_warnings(world()))
    stated = world(classes=5)
    assert stated.data.classes == 5
    assert not any("state them as classes" in line for line in scenario_warnings(stated))
    assert world(classes=["2", "1", "0"]).data.train_y[:3].tolist() == [2, 1, 0]
    with pytest.raises(
        wirelessdl.WirelessdlError, match=r"label .*2.* is none of learning.dataset.classes: must be 0 to 1"
    ):
        world(classes=2)


# --- what a reviewer found


def test_what_a_stopped_run_declares_covers_gradients_that_waited(tmp_path):
    """The paper's timing, nodes that are late: an older gradient is sent under the noise of its later round."""
    overrides = [
        "scenario.rounds=25",
        "privacy.protocol=paper",
        "privacy.clipping=batch",
        "privacy.rho=100",
        "learning.learning_rate={kind='cosine',initial=0.01}",
        "time.policy={kind='clocked',period_s=0.01}",
        "time.compute={kind='log-normal',median_s=0.004}",
        "faults.stragglers={kind='random',probability=0.3,factor=20.0}",
        "learning.eval_every=1",
    ]
    stops = [*overrides, "learning.stop_after=2", "learning.stop_within=1.0"]
    declared = simulate(load_scenario("quickstart", overrides=stops), out=tmp_path).summary["epsilon_declared"]
    whole = simulate(load_scenario("quickstart", overrides=overrides), out=tmp_path).summary["epsilon_own_total"]
    assert float(declared) >= whole
