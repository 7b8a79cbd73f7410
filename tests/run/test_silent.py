"""Networks in which nothing is sent: graphs without links, and one node alone. They learn, and leak nothing."""

import shutil
import warnings

import numpy as np
import pytest
from conftest import command_line, tiny, tiny_table
from interrupting import assert_resumes

import wirelessdl
from wirelessdl.analysis.verify import verify
from wirelessdl.errors import ScenarioError
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import parse_scenario

ROUNDS = 60
RIDGE = {
    "dataset": {"kind": "synthetic-regression", "features": 4, "samples": 200},
    "model": {"model": "ridge", "penalty": 0.1},
    "sampling": "full",
    "learning_rate": {"kind": "constant", "initial": 0.05},
    "dtype": "float64",
}
SILENT = {"local": {"topology": "none"}, "central": {"nodes": 1}}


def silent(which: str, **sections: dict) -> wirelessdl.Scenario:
    """The tiny scenario with nobody to talk to, and with all that would matter if anyone sent anything."""
    radio = {"thermal_noise": True, "interference": "physical", "use_full_power": True, "cancellation_db": 60}
    parts = {
        "scenario": {"rounds": ROUNDS},
        "network": {"nodes": 4, **SILENT[which]},
        "radio": radio,
        "power": {"schedule": "adaptive"},
        "privacy": {"epsilon_max": 1.0, "clip_norm": 1e6},
        "energy": {"receive_w": 1.0, "compute_w": 2.0},
        "learning": {**RIDGE, "eval_every": 20},
        "trace": {"checkpoint_every": 20, "flush_every": 20},
        **sections,
    }
    return parse_scenario(tiny_table(**parts))


@pytest.fixture(scope="module", params=SILENT)
def run(request, tmp_path_factory):
    """A run in which nothing is sent; a warning of NumPy's would fail it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return simulate(silent(request.param), out=tmp_path_factory.mktemp(request.param))


def test_every_node_descends_on_its_own_data_alone(run):
    """Against gradient descent in NumPy on each node's samples: step gamma, no multiplier, no noise."""
    world = build(parse_scenario(run.scenario))
    for node, mine in enumerate(world.client_indices):
        a = np.column_stack([world.data.train_x[mine], np.ones(len(mine))]).astype(np.float64)
        y, x, losses = world.data.train_y[mine].astype(np.float64), np.zeros(a.shape[1]), []
        for _ in range(ROUNDS):
            error = a @ x - y
            losses.append(0.5 * np.mean(error**2) + 0.05 * x @ x)
            x = x - 0.05 * (a.T @ error / len(y) + 0.1 * x)
        traced = run.nodes.query(f"node == {node}")["loss"].to_numpy()
        np.testing.assert_allclose(traced, losses, rtol=1e-5)  # data are stored as float32
        assert losses[-1] < 0.5 * losses[0]


def test_nothing_is_sent_and_nothing_leaks(run):
    nodes, rounds, summary = run.nodes, run.rounds, run.summary
    assert not nodes["transmitted"].any()
    assert run.links.empty
    assert (nodes["multiplier"] == 1.0).all()
    for column in ("power_w", "energy_tx_j", "energy_pilot_j", "energy_rx_j", "energy_control_j", "sent_multiplier"):
        assert (nodes[column] == 0).all(), column
    assert (rounds[["airtime_s", "noise_std", "epsilon_own_max", "epsilon_own_bound", "violations"]] == 0).all().all()
    assert (run.privacy["epsilon_total"] == 0).all()
    assert (run.privacy["rounds"] == 0).all()
    assert summary["epsilon_total"] == summary["epsilon_own_total"] == summary["airtime_s"] == 0.0
    assert summary["adversary"] == "all other nodes: nothing is ever sent"
    assert summary["epsilon_own_conditions"][0].startswith("nothing is sent: models never leave their nodes")
    assert summary["warnings"] == []


def test_computing_still_takes_time_and_energy(run):
    assert run.summary["time_s"] == pytest.approx(0.005 * (ROUNDS - 1))
    for column in ("energy_compute_j", "energy_j"):
        np.testing.assert_allclose(run.nodes[column], 0.005 * 2.0)


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        *((command, "") for command in ("report RUN", "verify RUN", "list FOLDER", "compare RUN COPY")),
        ("plot RUN --figure map", "has no links, for nothing was sent"),
        ("plot RUN --figure channel", "has no links, for nothing was sent"),
    ],
)
def test_silent_runs_can_be_read_and_what_needs_links_says_that_there_are_none(command, refusal, run, tmp_path):
    copy = shutil.copytree(run.path, tmp_path / "copy")
    names = {"RUN": str(run.path), "FOLDER": str(run.path.parent), "COPY": str(copy)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = command_line(*(names.get(word, word) for word in command.split()))
    assert (result.code, len(result.err.splitlines())) == ((2, 1) if refusal else (0, 0)), result.err
    assert refusal in result.err
    assert "nan" not in result.out.lower().split()


@pytest.mark.parametrize("which", SILENT)
def test_interrupted_silent_runs_go_on_to_the_same_tables(which, tmp_path):
    crashes = {"crashes": {"kind": "exponential", "up_s": 0.1, "down_s": 0.02}, "rejoin": "listen"}
    whole = assert_resumes(silent(which, faults=crashes), tmp_path, 33)
    assert whole.summary["epsilon_total"] == 0.0
    assert (whole.events["kind"] == "crash").any()


def test_a_crash_takes_the_step_that_was_under_way(tmp_path):
    """The model goes back to what it was: it neither keeps half a step nor loses older ones."""
    down = {"crashes": {"kind": "schedule", "events": [{"node": 1, "at_s": 0.012, "for_s": 0.001}]}}
    run = simulate(silent("local", faults=down), out=tmp_path)
    loss = run.nodes.query("node == 1").set_index("round")["loss"].to_numpy()
    kept = ~np.isnan(loss)
    again = np.flatnonzero(np.isclose(np.diff(loss[kept]), 0.0))
    assert len(again) == 1  # one gradient was computed twice
    assert (np.diff(loss[kept]) <= 1e-12).all()


def test_without_mixing_both_protocols_are_one(tmp_path):
    """The gradient is taken at s or at x, and s is x: the printed protocol and the hardened one learn the same."""
    losses = []
    for protocol in ("hardened", "paper"):
        privacy = {"epsilon_max": 1.0, "protocol": protocol, "clipping": "batch"}
        run = simulate(silent("local", privacy=privacy, learning={"batch_size": 8}), out=tmp_path / protocol)
        losses.append(run.nodes["loss"].to_numpy())
        assert run.summary["epsilon_total"] == 0.0
    np.testing.assert_array_equal(*losses)


@pytest.mark.parametrize("which", SILENT)
def test_a_promised_total_a_budget_and_a_stopping_rule_cost_nothing(which, tmp_path):
    privacy = {"epsilon_max": float("inf"), "epsilon_total": 0.5, "budget_total": 0.1}
    scenario = silent(
        which,
        scenario={"rounds": 20},
        privacy=privacy,
        power={"objective": "own-noise"},
        learning={**RIDGE, "eval_every": 5, "stop_after": 3, "stop_within": 0.0},
    )
    summary = simulate(scenario, out=tmp_path).summary
    assert summary["epsilon_total"] == summary["epsilon_declared"] == 0.0


@pytest.mark.parametrize("which", SILENT)
@pytest.mark.parametrize(
    "override",
    [
        {"privacy": {"noise": "pairwise"}, "power": {"objective": "own-noise"}},
        {"radio": {"mixing_passes": 2}, "power": {"objective": "own-noise"}},
        {"learning": {"closing_passes": 2}, "power": {"objective": "own-noise"}},
    ],
)
def test_what_only_senders_can_do_is_refused(which, override):
    with pytest.raises(ScenarioError, match=r"nothing is sent") as caught:
        tiny(network={"nodes": 4, **SILENT[which]}, **override)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("which", SILENT)
@pytest.mark.parametrize("command", ["check", "plan"])
def test_what_is_said_before_a_silent_run(command, which, wirelessdl_command):
    key, value = next(iter(SILENT[which].items()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = wirelessdl_command(command, "quickstart", "--set", f"network.{key}={value}")
    assert result.code == 0, result.err
    said = " ".join(result.out.split())
    assert "nothing is sent, so nothing leaks" in said
    assert "epsilon 0 for one sample (replace-one): nothing is sent" in said
    assert "epsilon_max" not in said


def test_one_node_has_no_links_on_any_graph():
    for topology in ({"kind": "k-regular", "degree": 4}, {"kind": "small-world"}, {"kind": "snr", "min_snr_db": 0}):
        world = build(tiny(network={"nodes": 1, "topology": topology}))
        assert len(world.links) == 0


def test_an_automatic_rate_needs_no_rho_where_nothing_is_sent():
    """No noise is made of rho: a baseline without links may step further than rho times the rate allows."""
    sets = ["learning.learning_rate=auto", "scenario.rounds=3", "network.nodes=4"]
    scenario = wirelessdl.load_scenario("urban_er_k20", baseline="local", overrides=sets)
    run = wirelessdl.simulate(scenario, out=None)
    assert scenario.privacy.rho * run.rounds["learning_rate"].max() > 1
    assert run.summary["epsilon_total"] == 0


@pytest.mark.parametrize("baseline", ["local", "central"])
def test_what_the_air_would_be_like_does_not_matter_to_verify(baseline):
    """Links are accounted for where nobody sends, whatever turns an alignment would have made."""
    scenario = wirelessdl.load_scenario("urban_er_k20", baseline=baseline, overrides=["scenario.rounds=2"])
    run = wirelessdl.simulate(scenario, out=None)
    assert run.summary["epsilon_link_max"] == 0
    assert verify(run.path).problems == ()
