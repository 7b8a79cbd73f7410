"""Whole runs: same in, same out; traces that pandas reads alone; time that adds up."""

import gc
import tomllib

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from conftest import tiny, tiny_table

import wirelessdl
from wirelessdl.errors import TrainingError
from wirelessdl.gaussian import slot_epsilon
from wirelessdl.privacy import total_epsilon
from wirelessdl.radio.frame import Frame
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.run.warnings import scenario_warnings
from wirelessdl.scenario.loader import bundled_scenarios, load_scenario, parse_scenario
from wirelessdl.trace.schema import TABLES
from wirelessdl.units import to_ns

FADING = {
    "scenario": {"rounds": 25},
    "network": {"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.6}},
    "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
    "radio": {"power_dbm": 23, "thermal_noise": True, "csi": {"kind": "pilots"}},
    "power": {"schedule": "adaptive"},
    "learning": {"partition": {"kind": "dirichlet"}, "eval_every": 10},
    "trace": {"blocks": True},
}


PERFECT = {**FADING, "radio": {"power_dbm": 23, "thermal_noise": True}}


@pytest.fixture(scope="module")
def fading(tmp_path_factory):
    """A run whose links fade, under pilots; tests only read it."""
    return wirelessdl.simulate(tiny(**FADING), out=tmp_path_factory.mktemp("fading"))


@pytest.fixture(scope="module")
def perfect(tmp_path_factory):
    """The same with gains known exactly; tests only read it."""
    return wirelessdl.simulate(tiny(**PERFECT), out=tmp_path_factory.mktemp("perfect"))


def frames(run):
    return {name: getattr(run, name) for name in TABLES}


def test_the_same_scenario_gives_the_same_tables(fading, tmp_path):
    again = wirelessdl.simulate(tiny(**FADING), out=tmp_path)
    assert fading.path != again.path
    for name, frame in frames(fading).items():
        assert len(frame), name
        pd.testing.assert_frame_equal(frame, frames(again)[name], check_exact=True)


def test_another_run_has_other_draws_in_the_same_world(fading, tmp_path):
    other = wirelessdl.simulate(tiny(**{**FADING, "scenario": {"rounds": 25, "run": 2}}), out=tmp_path)
    same = ["round", "tx", "rx", "distance_m"]
    pd.testing.assert_frame_equal(fading.links[same], other.links[same])
    assert (fading.links["gain"] != other.links["gain"]).mean() > 0.99
    assert fading.nodes[["x_m", "y_m"]].equals(other.nodes[["x_m", "y_m"]])
    assert (fading.nodes["loss"] != other.nodes["loss"]).mean() > 0.7  # softmax starts at ln 10 either way
    client_indices = [
        build(tiny(**{**FADING, "scenario": {"rounds": 25, "run": number}})).client_indices for number in (1, 2)
    ]
    assert all((a == b).all() for a, b in zip(*client_indices))


def test_changing_the_learner_leaves_the_channel_unchanged(fading, tmp_path):
    learning = {"learning": {**FADING["learning"], "batch_size": 16, "learning_rate": {"kind": "constant"}}}
    power = {"power": {"schedule": "static", "objective": "own-noise"}}
    other = wirelessdl.simulate(tiny(**{**FADING, **learning, **power}), out=tmp_path)
    columns = ["round", "tx", "rx", "gain", "gain_est"]
    pd.testing.assert_frame_equal(fading.links[columns], other.links[columns], check_exact=True)


def test_tables_have_their_columns_units_and_nulls(fading):
    run = fading
    for name, schema in TABLES.items():
        frame = pd.read_parquet(run.path / name)  # without wirelessdl
        assert list(frame.columns) == schema.names
        stored = pq.read_schema(next((run.path / name).glob("*.parquet")))
        for field in stored:
            assert field.metadata[b"meaning"]
            assert (field.metadata[b"unit"] == b"s") == field.name.endswith("_s")
    rounds = run.rounds
    assert rounds["round"].tolist() == list(range(1, 26))
    assert rounds["accuracy_mean"].notna().to_numpy().nonzero()[0].tolist() == [9, 19, 24]
    assert run.nodes["accuracy"].notna().sum() == 15
    assert run.privacy.query("view == 'own'")["rx"].isna().all()
    assert set(run.privacy["status"]) == {"proven", "unproven"}
    assert (run.privacy.query("view == 'own'")["rounds"] == 24).all()  # the first round carries no data
    assert run.links["snr_db"].notna().all()


PHYSICS = {
    **FADING,
    "radio": {"power_dbm": 23, "thermal_noise": True, "csi": {"kind": "pilots", "symbols": 16}, "use_full_power": True},
    "privacy": {"epsilon_max": 0.6, "delta": 1e-4, "delta_total": 1e-6},
}


def test_physical_columns_follow_from_their_definitions(tmp_path):
    run = wirelessdl.simulate(tiny(**PHYSICS), out=tmp_path)
    world = build(tiny(**PHYSICS))
    power_w, m = 10 ** (23 / 10 - 3), world.learning.learner.size
    node, rounds = run.nodes, run.rounds.set_index("round")
    sigma = rounds["noise_std"].loc[node["round"]].to_numpy()
    # round 1 sends x = 0: noise alone, scaled so that the loudest possible sender would reach the budget
    first = node["round"] == 1
    peak = (node["alpha"] * 0.5**2 + node["beta"] * sigma**2)[first].max()
    np.testing.assert_allclose(node["power_w"][first], power_w * (node["beta"] * sigma**2)[first] / peak)
    assert (node["power_w"] <= power_w * (1 + 1e-6)).all()  # models on the ball's edge, in float32
    pilot_j, payload_s = power_w * 16 / 1e6, np.ceil(m / 2) / 1e6
    reported = run.links.query("round == 1").groupby("rx").size().loc[node["node"]].to_numpy()
    control_j = power_w * reported * 16 / 1e7  # a gain of every link into the node; listening is free here
    np.testing.assert_allclose(node["energy_j"], node["power_w"] * payload_s + pilot_j + control_j)
    feedback_s = (len(run.links.query("round == 1")) + 2 * 5) * 16 / 1e7  # gains up, alpha and weights down
    np.testing.assert_allclose(rounds["airtime_s"], 5 * 16 / 1e6 + payload_s + 2e-5 + feedback_s)
    assert run.summary["energy_j"] == pytest.approx(node["energy_j"].sum())
    sender = run.links.merge(node[["round", "node", "power_w"]], left_on=["round", "tx"], right_on=["round", "node"])
    thermal_w = 1.380649e-23 * 290 * 1e6 * 10**0.7
    snr = 10 * np.log10(sender["gain"] ** 2 * sender["power_w"] / thermal_w)
    np.testing.assert_allclose(sender["snr_db"], snr)


def test_spectral_gap_is_that_of_the_mixing(perfect):
    for round in (1, 13, 25):
        A = np.zeros((5, 5))
        for link in perfect.links.query("round == @round").itertuples():
            A[link.rx, link.tx] = link.weight
        A[np.diag_indices(5)] = 1 - A.sum(axis=1)
        second = np.sort(np.abs(np.linalg.eigvals(A)))[-2]
        assert perfect.rounds["spectral_gap"].iloc[round - 1] == pytest.approx(1 - second, abs=1e-9)


def test_totals_use_each_nodes_own_rate_and_the_total_delta(tmp_path):
    static = {**PHYSICS, "channel": {"models": [{"model": "uniform"}]}, "power": {"objective": "own-noise"}}
    run = wirelessdl.simulate(tiny(**static), out=tmp_path)
    world = build(tiny(**static))
    q = np.array([8 / len(client) for client in world.client_indices])
    assert len(np.unique(q)) > 1
    node = run.nodes.query("round == 2").set_index("node")
    mu = (2 / 8) * 5 * np.sqrt(node["alpha"] / node["beta"]).to_numpy() / 10  # sens K sqrt(alpha/beta) / rho
    exact = np.array([total_epsilon(1 / m, r, 24, delta=1e-6, accountant="pld") for m, r in zip(mu, q)])
    own = run.privacy.query("view == 'own'")["epsilon_total"].to_numpy()
    assert (own >= exact * (1 - 1e-3)).all()
    assert (own <= exact * 1.04).all()  # nu is rounded down by at most 1%
    assert set(run.privacy["delta"]) == {1e-6}


def test_accuracy_is_of_what_was_received_when_hardened_and_of_the_update_on_paper(tmp_path):
    """One huge step takes x far from s: the two score differently."""
    for protocol, clipping in (("hardened", "per-sample"), ("paper", "batch")):
        scenario = tiny(
            scenario={"rounds": 1},
            privacy={"protocol": protocol, "clipping": clipping, "epsilon_max": float("inf")},
            power={"balance": False},
            learning={"eval_every": 1, "batch_size": 64},
        )
        run = wirelessdl.simulate(scenario, out=tmp_path)
        untrained = run.summary["accuracy_mean"] == pytest.approx(0.1, abs=1e-6)  # x_1 = 0 guesses one class
        assert untrained == (protocol == "hardened")


def test_multipliers_never_exceed_the_plans_theta(tmp_path):
    unbalanced = {**FADING, "power": {"balance": False, "multiplier": "product", "schedule": "adaptive"}}
    run = wirelessdl.simulate(tiny(**unbalanced), out=tmp_path)
    theta = float(run.events.query("kind == 'plan'")["detail"].iloc[0].split()[1].rstrip(","))
    assert run.nodes["multiplier"].max() <= theta * (1 + 1e-3)
    assert run.nodes["multiplier"].max() > 5.0


def test_receivers_balance_by_what_they_estimate(tmp_path):
    """The estimated weights are doubly stochastic; the true ones, in the table, are not."""
    run = wirelessdl.simulate(tiny(**{**PHYSICS, "power": {"objective": "own-noise"}}), out=tmp_path)
    link = run.links.query("round == 9")
    scale = link["weight"] / (link["gain"] * np.cos(link["phase_rad"]))
    believed = np.zeros((5, 5))
    believed[link["rx"], link["tx"]] = scale * link["gain_est"]
    columns = believed.sum(axis=0) + (1 - believed.sum(axis=1))
    np.testing.assert_allclose(columns, 1.0, atol=1e-9)
    actual = np.zeros((5, 5))
    actual[link["rx"], link["tx"]] = link["weight"]
    assert np.abs(actual.sum(axis=0) + (1 - believed.sum(axis=1)) - 1.0).max() > 1e-4


def test_simulated_time_is_computing_plus_air_or_the_longer_of_both(tmp_path):
    frame = Frame.from_settings(parameters=7850, nodes=4, pilots=1, bandwidth_hz=1e6, guard_s=1e-5)
    assert (frame.pilot_ns, frame.payload_ns, frame.guard_ns) == (4_000, 3_925_000, 10_000)
    air = frame.airtime_ns / 1e9
    hardened = wirelessdl.simulate(tiny(time={"compute": {"kind": "constant", "seconds": 0.5}}), out=tmp_path)
    step = hardened.rounds["time_s"].diff().iloc[1]
    assert step == pytest.approx(0.5 + air, abs=1e-12)
    paper = {"protocol": "paper", "clipping": "batch", "epsilon_max": 1.0}
    printed = {"balance": False, "alpha_min": 1e-6}
    exchange = 4 * 4 * 16 / 1e7  # z over the control channel
    for seconds, expected in [(0.5, 0.5), (1e-4, air + exchange)]:
        compute = {"compute": {"kind": "constant", "seconds": seconds}}
        run = wirelessdl.simulate(tiny(privacy=paper, power=printed, time=compute), out=tmp_path)
        assert run.rounds["time_s"].diff().iloc[1] == pytest.approx(expected, abs=1e-12)


def test_events_of_two_rounds_in_order(tmp_path):
    run = wirelessdl.simulate(tiny(time={"compute": {"kind": "constant", "seconds": 0.001}}), out=tmp_path)
    events = run.events[["time_s", "kind"]]
    log = [(to_ns(row.time_s), row.kind) for row in events.itertuples()]
    received = 4_000 + 10_000 + 3_925_000 + 10_000
    assert log[0] == (0, "frame")
    assert log[1] == (0, "plan")
    assert log[2:6] == [(received + 1_000_000, "computed")] * 4
    assert log[6] == (received + 1_000_000, "frame")
    assert len(log) == 7


def test_paper_links_leak_as_printed_and_the_first_round_is_charged_there(tmp_path):
    paper = {"protocol": "paper", "clipping": "batch", "epsilon_max": 1.0}
    run = wirelessdl.simulate(
        tiny(scenario={"rounds": 5}, privacy=paper, power={"balance": False, "alpha_min": 1e-6}), out=tmp_path
    )
    np.testing.assert_allclose(run.rounds["epsilon_link_max"], 1.0, rtol=1e-6)
    link, own = run.privacy.query("view == 'link'"), run.privacy.query("view == 'own'")
    assert set(link["rounds"]) == {5}
    assert set(own["rounds"]) == {4}
    assert set(own["accountant"]) == {"gdp"}
    # sigma_t = rho gamma_t masks a gradient of gamma_{t-1}: sqrt(2) too little noise at t = 2, and the ledger knows
    node = run.nodes.pivot(index="round", columns="node")
    gamma = run.rounds["learning_rate"].to_numpy()
    carried = run.clients["sensitivity"].to_numpy() * gamma[:-1, None] * node["multiplier"].to_numpy()[:-1]
    noise = np.sqrt(node["beta"] / node["alpha"]).to_numpy()[1:] * 10 * gamma[1:, None]
    expected = slot_epsilon(carried / noise, 1e-4).max(axis=1)
    np.testing.assert_allclose(run.rounds["epsilon_own_max"], [0.0, *expected], rtol=1e-9)


def test_using_full_power_leaves_epsilon_alone_and_lowers_thermal_noise(tmp_path):
    noisy = {"power_dbm": 30, "thermal_noise": True, "bandwidth_hz": 1e13}
    plain = wirelessdl.simulate(tiny(radio=noisy), out=tmp_path)
    full = wirelessdl.simulate(tiny(radio={**noisy, "use_full_power": True}), out=tmp_path)
    np.testing.assert_allclose(full.links["epsilon"], plain.links["epsilon"], rtol=1e-9)
    assert full.nodes["power_w"].max() <= 1.0
    assert full.nodes["power_w"].mean() > 2 * plain.nodes["power_w"].mean()


def test_run_directory_is_complete_and_scenario_is_resolved(tmp_path):
    run = wirelessdl.simulate(tiny(), out=tmp_path / "deep" / "er")
    assert run.path == tmp_path / "deep" / "er" / "tiny-s3-r1"
    assert {path.name for path in run.path.iterdir()} >= {"scenario.toml", "provenance.json", "summary.json", "rounds"}
    resolved = tomllib.loads((run.path / "scenario.toml").read_text())
    assert resolved["network"]["placement"] == {"kind": "disc", "radius_m": 150.0, "height_m": 1.5}
    assert resolved["learning"]["learning_rate"] == {"kind": "inverse-sqrt", "initial": 0.1}
    again = wirelessdl.simulate(parse_scenario(resolved), out=tmp_path)
    pd.testing.assert_frame_equal(again.nodes, run.nodes, check_exact=True)
    assert wirelessdl.open_run(run.path).rounds.equals(run.rounds)
    assert run.provenance["threads"] >= 1


def test_an_existing_run_is_never_overwritten(tmp_path):
    names = [wirelessdl.simulate(tiny(), out=tmp_path).path.name for _ in range(3)]
    assert names == ["tiny-s3-r1", "tiny-s3-r1-2", "tiny-s3-r1-3"]


def test_only_wanted_links_are_traced(tmp_path):
    none = wirelessdl.simulate(tiny(scenario={"rounds": 5}, trace={"links": "none"}), out=tmp_path)
    assert len(none.links) == 0
    some = wirelessdl.simulate(tiny(scenario={"rounds": 5}, trace={"links": "evaluated"}), out=tmp_path)
    assert sorted(some.links["round"].unique()) == [2, 4, 5]


def test_training_that_blows_up_names_node_and_round_and_keeps_its_trace(tmp_path, monkeypatch):
    from wirelessdl.learning.engine import LearningEngine

    inner = LearningEngine.round

    def poisoned(self, order):
        if order.round == 3:
            self._mixed[1] = float("nan")
        return inner(self, order)

    monkeypatch.setattr(LearningEngine, "round", poisoned)
    ring = {"nodes": 4, "topology": {"kind": "ring"}}
    with pytest.raises(TrainingError, match="loss of node 0 is nan in round 3"):
        wirelessdl.simulate(tiny(scenario={"rounds": 6}, network=ring), out=tmp_path)
    assert wirelessdl.open_run(tmp_path / "tiny-s3-r1").rounds["round"].tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("name", bundled_scenarios())
def test_every_bundled_scenario_runs(name, tmp_path):
    overrides = ["scenario.rounds=3"]
    if name.startswith(("cifar", "fashion")):  # 170 MB are not fetched for this: a few images of the same shape
        rng, grey = np.random.default_rng(0), name.startswith("fashion")
        x = rng.integers(0, 256, (1100, 28, 28) if grey else (1100, 3, 32, 32), dtype=np.uint8)
        y = np.arange(1100) % 10
        np.savez(tmp_path / "images.npz", train_x=x[:1000], train_y=y[:1000], test_x=x[1000:], test_y=y[1000:])
        small = f"learning.dataset={{ kind = 'file', path = '{tmp_path / 'images.npz'}', scale = 255.0 }}"
        overrides += [small, "learning.batch_size=4", "learning.partition=iid"]
        if grey:
            overrides += ["scenario.rounds=24"]  # its Gram stage takes 23
        if name == "cifar10_er_k20":  # whose filters would take half a minute
            overrides += ["learning.features=oriented-gradients"]
    run = wirelessdl.simulate(load_scenario(name, overrides=overrides), out=tmp_path / "runs")
    assert run.summary["rounds"] == (24 if name == "fashion_full_k20" else 3)


def test_a_users_channel_is_found_used_and_kept(tmp_path):
    table = tiny_table(channel={"models": [{"model": "channel_models/street.py:Street", "exponent": 2.5}]})
    run = wirelessdl.simulate(parse_scenario(table), out=tmp_path)
    loss = 40 + 25 * np.log10(run.links["distance_m"])
    np.testing.assert_allclose(run.links["gain"], 10 ** (-loss / 20))
    assert [file.name[13:] for file in (run.path / "models").iterdir()] == ["street.py"]
    assert list(run.provenance["user_files"]) == ["channel_models/street.py"]


@pytest.mark.parametrize(("key", "value"), [("channel.frequency_hz", 3.5), ("radio.bandwidth_hz", 20.0)])
def test_a_carrier_or_bandwidth_that_forgot_its_prefix_is_warned_of(key, value):
    section, _, name = key.partition(".")
    warnings = scenario_warnings(build(tiny(**{section: {name: value}})))
    assert [line for line in warnings if line.startswith(f"{key} is {value:g} Hz, below ") and "MHz or GHz" in line]
    assert not scenario_warnings(build(tiny()))


# --- What campaigns over combinations, kills and damages found (docs/reliability.md)


def test_rounds_in_which_nobody_sends_stand_beside_rounds_with_self_interference(tmp_path):
    """A budget that is spent after some rounds: nothing is left of anyone's own emission in the others."""
    run = simulate(
        tiny(
            scenario={"rounds": 8},
            radio={"cancellation_db": 90.0},
            power={"objective": "own-noise"},
            privacy={"unit": "node", "budget_total": 1.5},
        ),
        out=tmp_path,
    )
    sent = run.nodes.groupby("round")["transmitted"].sum()
    assert sent.max() == 4
    assert sent.min() == 0
    heard = run.nodes["self_interference_w"]
    assert (heard.notna() == run.nodes["round"].map(sent > 0)).all()
    assert (heard[heard.notna()] > 0).all()


def test_a_clock_goes_on_though_nothing_is_sent(tmp_path):
    """Frames without a transmission take no time: every one of them was opened at time zero."""
    run = simulate(
        tiny(
            scenario={"rounds": 3},
            network={"topology": "none"},
            time={"policy": {"kind": "clocked", "period_s": 0.2}},
        ),
        out=tmp_path,
    )
    assert run.rounds["opened_s"].tolist() == [0.0, 0.2, 0.4]


def test_a_run_that_ended_keeps_no_samples_in_memory(tmp_path):
    def held():
        return sum(each.nbytes for each in gc.get_objects() if type(each) is torch.Tensor)

    gc.collect()
    gc.disable()
    try:
        before = held()
        wirelessdl.simulate(tiny(**PERFECT), out=tmp_path)
        assert held() - before < 1_000_000  # the samples are 38 MB
    finally:
        gc.enable()
