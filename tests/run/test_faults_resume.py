"""Runs with churn, motion, fading in time and a clock are killed, and go on to the same tables bit for bit."""

import random
from pathlib import Path

import pytest
import tomli_w
from conftest import tiny_table
from test_survival import StopAt, assert_same_tables, kill_and_resume, start

import wirelessdl
from wirelessdl.errors import ContractError, RunInterrupted
from wirelessdl.scenario.loader import load_scenario

EVERYTHING = {
    "scenario": {"rounds": 400},
    "network": {
        "nodes": 5,
        "topology": {"kind": "erdos-renyi", "p": 0.7},
        "mobility": {"kind": "random-waypoint", "speed_mps": [1.0, 3.0], "area_m": [300, 300]},
    },
    "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh", "process": "clarke"}]},
    "radio": {"power_dbm": 23, "thermal_noise": True, "csi": {"kind": "pilots", "symbols": 8}},
    "power": {"schedule": "adaptive", "objective": "own-noise"},
    "privacy": {"epsilon_max": 1.0, "budget_total": 0.02},
    "time": {
        "compute": {"kind": "log-normal", "median_s": 0.004, "sigma": 0.6, "spread": 0.3},
        "policy": {"kind": "clocked", "period_s": 0.012},
    },
    "faults": {
        "crashes": {"kind": "exponential", "up_s": 0.3, "down_s": 0.1},
        "rejoin": "listen",
        "blockage": {"kind": "snr", "threshold_db": 20.0},
        "stragglers": {"kind": "random", "probability": 0.1, "factor": 8.0},
        "jammer": {"kind": "noise", "power_dbm": -95.0, "period_s": 0.5},
    },
    "energy": {"receive_w": 0.05, "compute_w": 0.5, "battery_j": [0.1, 100.0, 100.0, 100.0, 0.3]},
    "trace": {"checkpoint_every": 30, "flush_every": 25},
}


def write(folder: Path, **changes: dict) -> None:
    sections = {name: {**EVERYTHING.get(name, {}), **changes.get(name, {})} for name in {*EVERYTHING, *changes}}
    (folder / "tiny.toml").write_text(tomli_w.dumps(tiny_table(**sections)))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    write(folder)
    process = start("tiny.toml", "--quiet", cwd=folder)
    assert process.wait(timeout=120) == 0, process.communicate()
    return folder / "outputs" / "tiny-s3-r1"


def test_everything_went_wrong_in_it(uninterrupted):
    run = wirelessdl.open_run(uninterrupted)
    kinds = set(run.events["kind"])
    assert {"crash", "rejoin", "late", "budget", "battery", "frame", "computed"} <= kinds
    assert run.nodes["up"].mean() < 0.9


@pytest.mark.parametrize("seed", range(3))
def test_killed_in_the_midst_of_trouble_equals_uninterrupted(seed, uninterrupted, tmp_path):
    write(tmp_path)
    assert_same_tables(kill_and_resume(tmp_path, random.Random(seed).uniform(0, 1.0)), uninterrupted)


@pytest.mark.parametrize("round", [1, 57])
@pytest.mark.parametrize("case", ["paper", "barrier", "tdma", "half"])
def test_stopped_anywhere_goes_on_to_the_same_tables(round, case, tmp_path, monkeypatch):
    changes = {
        "paper": {
            "privacy": {"protocol": "paper", "clipping": "batch", "budget_total": 1e6},
            "power": {"balance": False, "alpha_min": 1e-9, "schedule": "static"},
        },
        "barrier": {"time": {"policy": {"kind": "deadline", "cap_s": 0.006}}, "faults": {"rejoin": "keep"}},
        "tdma": {"radio": {"access": "tdma"}, "time": {"policy": {"kind": "barrier"}}},
        "half": {"radio": {"duplex": "half"}, "network": {"topology": {"kind": "range", "range_m": 200}}},
    }[case]
    write(tmp_path, **{**changes, "scenario": {"rounds": 90}, "trace": {"checkpoint_every": 10**6}})
    monkeypatch.chdir(tmp_path)
    whole = wirelessdl.simulate(load_scenario("tiny.toml"), out="whole")
    stop = StopAt(round)
    with pytest.raises(RunInterrupted) as caught:
        wirelessdl.simulate(load_scenario("tiny.toml"), on_round=stop.on_round, should_stop=stop.should_stop)
    assert_same_tables(wirelessdl.resume(caught.value.folder).path, whole.path)


def test_faults_that_are_not_deterministic_are_named(tmp_path, monkeypatch):
    (tmp_path / "odd.py").write_text(
        "import random\nclass Odd:\n  def outages(self, node, rng):\n    return [(random.random() / 10, 0.05)]\n"
    )
    write(tmp_path, scenario={"rounds": 60}, faults={"crashes": "odd.py:Odd"})
    monkeypatch.chdir(tmp_path)
    stop = StopAt(50)
    with pytest.raises(RunInterrupted) as caught:
        wirelessdl.simulate(load_scenario("tiny.toml"), on_round=stop.on_round, should_stop=stop.should_stop)
    with pytest.raises(ContractError, match=r"^faults.crashes gave other values than before the interruption"):
        wirelessdl.resume(caught.value.folder)
