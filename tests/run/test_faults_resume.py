"""Runs with churn, motion, fading in time and a clock are killed, and go on to the same tables bit for bit."""

import random
from pathlib import Path

import pytest
import tomli_w
from conftest import mostly_slow, tiny_table
from interrupting import HELD, HOLD, assert_same_tables, interrupted, kill_midway

import wirelessdl
from wirelessdl.scenario.loader import load_scenario

ROUNDS = 120
PARTS = (25, 30, 55, 60, 85, 90)  # rounds after which tables are written, without the last
EVERYTHING = {
    "scenario": {"rounds": ROUNDS},
    "network": {
        "nodes": 5,
        "topology": {"kind": "erdos-renyi", "p": 0.7},
        "mobility": {"kind": "random-waypoint", "speed_mps": [1.0, 3.0], "area_m": [300, 300]},
    },
    "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh", "process": "clarke"}]},
    "radio": {"power_dbm": 23, "thermal_noise": True, "csi": {"kind": "pilots", "symbols": 8}},
    "power": {"schedule": "adaptive", "objective": "own-noise"},
    "privacy": {"epsilon_max": 1.0, "budget_total": 0.012},
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
    "energy": {"receive_w": 0.05, "compute_w": 0.5, "battery_j": [0.1, 100.0, 100.0, 100.0, 0.2]},
    "learning": {"eval_every": 10},
    "trace": {"checkpoint_every": 30, "flush_every": 25, "connect": HELD},
}


def write(folder: Path, **changes: dict) -> None:
    sections = {name: {**EVERYTHING.get(name, {}), **changes.get(name, {})} for name in {*EVERYTHING, *changes}}
    if sections["radio"].get("access") == "digital":  # batteries need costs that are known beforehand
        del sections["energy"]["battery_j"]
    (folder / "hold.py").write_text(HOLD)
    (folder / "tiny.toml").write_text(tomli_w.dumps(tiny_table(**sections)))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    write(folder)
    return wirelessdl.simulate(load_scenario(folder / "tiny.toml"), out=folder).path


def test_everything_went_wrong_in_it(uninterrupted):
    run = wirelessdl.open_run(uninterrupted)
    kinds = set(run.events["kind"])
    assert {"crash", "rejoin", "late", "budget", "battery", "frame", "computed"} <= kinds
    assert run.nodes["up"].mean() < 0.9
    frames = run.events.query("kind == 'frame'")["time_s"].to_numpy()
    latest = run.events.groupby("kind")["time_s"].max()
    for kind in ("crash", "rejoin", "late", "budget", "computed"):  # still after half of the rounds
        assert latest[kind] > frames[ROUNDS // 2]


@pytest.mark.parametrize("seed", mostly_slow(range(3), 0))
def test_killed_in_the_midst_of_trouble_equals_uninterrupted(seed, uninterrupted, tmp_path):
    write(tmp_path)
    chance = random.Random(seed)
    run = kill_midway(tmp_path, chance.choice(PARTS), chance.uniform(0, 0.2), hold_in=ROUNDS - 2)
    assert_same_tables(wirelessdl.resume(run).path, uninterrupted)


DIGITAL = {
    "radio": {"access": "digital", "power_dbm": -25, "fade_margin_db": 3.0, "payload_slots": 2},
    "faults": {"blockage": {"kind": "none"}},
    "energy": {"receive_w": 0.05, "compute_w": 0.5},
    "time": {"policy": {"kind": "deadline", "cap_s": 0.006}},
}
CASES = {
    "paper": {
        "privacy": {"protocol": "paper", "clipping": "batch", "budget_total": 1e6},
        "power": {"balance": False, "alpha_min": 1e-9, "schedule": "static"},
    },
    "barrier": {"time": {"policy": {"kind": "deadline", "cap_s": 0.006}}, "faults": {"rejoin": "keep"}},
    "tdma": {"radio": {"access": "tdma"}, "time": {"policy": {"kind": "barrier"}}},
    "digital": DIGITAL,
    "hubs": {
        "radio": {
            "alignment": "hubs",
            "truncate_snr_db": 12,
            "hub_order": "there-and-back",
            "hub_rotation": True,
            "hub_failure": 0.2,
            "subslots": 3,
            "mixing_passes": 1,
            "cfo_hz": [3.0, -2.0, 1.0, 0.0, 5.0],
            "phase_error_rad": 0.05,
        },
        "power": {"schedule": "static", "alpha_min": 1e-9},
        "privacy": {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.4, "budget_total": 0.05},
        "learning": {"closing_passes": 2},
        "faults": {"jammer": {"kind": "noise", "power_dbm": -107.0, "period_s": 0.5}},
    },
    "half": {"radio": {"duplex": "half"}, "network": {"topology": {"kind": "range", "range_m": 200}}},
}


@pytest.mark.parametrize("case", mostly_slow(CASES, "paper", "digital", "hubs"))
def test_stopped_anywhere_goes_on_to_the_same_tables(case, tmp_path, monkeypatch):
    write(tmp_path, **{**CASES[case], "scenario": {"rounds": 60}, "trace": {"checkpoint_every": 10**6}})
    monkeypatch.chdir(tmp_path)
    whole = wirelessdl.simulate(load_scenario("tiny.toml"), out="whole")
    for round in (1, 37):
        assert_same_tables(wirelessdl.resume(interrupted(round, out=f"stopped-{round}")).path, whole.path)


@pytest.mark.slow
def test_killed_between_repetitions_equals_uninterrupted(tmp_path):
    changes = {**DIGITAL, "scenario": {"rounds": 60}}
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, **changes)
    whole = wirelessdl.simulate(load_scenario(tmp_path / "whole" / "tiny.toml"), out=tmp_path / "whole")
    assert whole.rounds["attempts_mean"].max() > 1
    assert whole.links["outage"].any()
    run = kill_midway(tmp_path / "killed", 30, 0.05, hold_in=58)
    assert_same_tables(wirelessdl.resume(run).path, whole.path)
