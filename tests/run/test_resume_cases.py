"""Runs with churn, motion, pairwise noise and mixing passes are stopped or killed, and go on to the same tables bit
for bit; which of them cannot be extended."""

import random
from pathlib import Path

import pytest
import tomli_w
from conftest import mostly_slow, over, tiny_table
from interrupting import HELD, HOLD, assert_same_tables, interrupted, kill_midway

import wirelessdl
from wirelessdl.access import passes
from wirelessdl.analysis.verify import verify
from wirelessdl.errors import TraceError
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
CANCELLING = {
    "scenario": {"rounds": 12},
    "network": {"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.6}},
    "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
    "radio": {"power_dbm": 23, "thermal_noise": True, "mixing_passes": 2, "payload_slots": 1},
    "power": {"schedule": "adaptive", "objective": "own-noise", "alpha_min": 1e-6},
    "privacy": {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.4, "epsilon_max": 0.5},
    "learning": {"eval_every": 4},
    "time": {
        "compute": {"kind": "constant", "seconds": [0.01, 0.01, 0.01, 0.025, 0.01]},
        "policy": {"kind": "deadline", "cap_s": 0.012},
    },
    "faults": {
        "rejoin": "listen",
        "crashes": {"kind": "schedule", "events": [{"node": 4, "at_s": 0.05, "for_s": 0.01}]},
    },
}


def write(folder: Path, base: dict, **changes: dict) -> None:
    """The scenario with these changes; None removes a key."""
    table = tiny_table(**over(base, changes))
    kept = {name: {key: v for key, v in section.items() if v is not None} for name, section in table.items()}
    (folder / "hold.py").write_text(HOLD)
    (folder / "tiny.toml").write_text(tomli_w.dumps(kept))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    write(folder, EVERYTHING)
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
    write(tmp_path, EVERYTHING)
    chance = random.Random(seed)
    run = kill_midway(tmp_path, chance.choice(PARTS), chance.uniform(0, 0.2), hold_in=ROUNDS - 2)
    assert_same_tables(wirelessdl.resume(run).path, uninterrupted)


DIGITAL = {
    "radio": {"access": "digital", "power_dbm": -25, "fade_margin_db": 3.0, "payload_slots": 2},
    "faults": {"blockage": {"kind": "none"}},
    "energy": {"battery_j": None},  # batteries need costs that are known beforehand
    "time": {"policy": {"kind": "deadline", "cap_s": 0.006}},
}
TAPS = {"model": "tdl", "process": "clarke", "speed_mps": 1.5, "delay_spread_s": 3e-7}
TROUBLED = {
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
            "timing_error_s": 1e-8,
        },
        "power": {"schedule": "static", "alpha_min": 1e-9},
        "privacy": {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.4, "budget_total": 0.05},
        "learning": {"closing_passes": 2},
        "faults": {"jammer": {"kind": "noise", "power_dbm": -107.0, "period_s": 0.5}},
    },
    "subbands": {
        "channel": {"models": [{"model": "log-distance"}, TAPS]},
        "radio": {"subbands": 5, "bandwidth_hz": 4e6, "timing_offset_s": [0.0, 3e-8, -2e-8, 1e-8, 0.0]},
    },
    "half": {"radio": {"duplex": "half"}, "network": {"topology": {"kind": "range", "range_m": 200}}},
}
PAIRS = {
    "neighbours": {"privacy": {"pairs": "neighbours"}},
    "groups, chosen ratio": {"privacy": {"pairs": {"groups": 2}, "pair_ratio": "auto"}},
    "closing passes": {"learning": {"closing_passes": 3}, "radio": {"mixing": "plain"}},
    "partial balancing, a total": {
        "power": {"balance": "partial"},
        "privacy": {"epsilon_total": 2.0, "epsilon_max": None, "pair_ratio": "auto"},
    },
    "a budget that ends": {"privacy": {"budget_total": 1.0, "epsilon_max": 2.0}, "learning": {"sampling": "full"}},
    "passes of a large network": {},
}
SHORT = {"scenario": {"rounds": 60}, "trace": {"checkpoint_every": 10**6, "blocks": True}}
# scenario, changes, and rounds after which the run is stopped
CASES = {
    **{name: (EVERYTHING, {**changes, **SHORT}, (1, 37)) for name, changes in TROUBLED.items()},
    **{name: (CANCELLING, changes, (7,)) for name, changes in PAIRS.items()},
}


@pytest.mark.parametrize("case", mostly_slow(CASES, "groups, chosen ratio", "hubs"))
def test_stopped_anywhere_goes_on_to_the_same_tables(case, tmp_path, monkeypatch):
    base, changes, rounds = CASES[case]
    if case == "passes of a large network":  # what serves from 65 nodes on, in a small one
        monkeypatch.setattr(passes, "_MAX_NODES_EVERY_FRAME", 0)
    monkeypatch.chdir(tmp_path)
    write(tmp_path, base, **changes)
    whole = wirelessdl.simulate(load_scenario("tiny.toml"), out="whole")
    assert not whole.nodes["transmitted"].all()  # late nodes, listeners, nodes that are down
    assert verify(whole.path).problems == ()
    for round in rounds:
        assert_same_tables(wirelessdl.resume(interrupted(round, out=f"stopped-{round}")).path, whole.path)


@pytest.mark.slow
def test_killed_between_repetitions_equals_uninterrupted(tmp_path):
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, EVERYTHING, **DIGITAL, scenario={"rounds": 60})
    whole = wirelessdl.simulate(load_scenario(tmp_path / "whole" / "tiny.toml"), out=tmp_path / "whole")
    assert whole.rounds["attempts_mean"].max() > 1
    assert whole.links["outage"].any()
    run = kill_midway(tmp_path / "killed", 30, 0.05, hold_in=58)
    assert_same_tables(wirelessdl.resume(run).path, whole.path)


LASTING = {
    "a promised total": {"privacy": {"epsilon_total": 2.0, "epsilon_max": None}},
    "closing passes": {"learning": {"closing_passes": 2}},
    "a ratio chosen for so many rounds": {"privacy": {"pair_ratio": "auto"}},
    "a stopping rule": {"learning": {"stop_after": 3}},
    "amplitudes chosen for so many rounds": {"power": {"balance": "partial"}},
}


@pytest.mark.parametrize("case", LASTING)
def test_a_run_made_for_its_rounds_cannot_be_extended(case, tmp_path, monkeypatch):
    """Its noise was made for a total of so many releases: more of them would exceed what was promised."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, CANCELLING, scenario={"rounds": 4}, **LASTING[case])
    run = wirelessdl.simulate(load_scenario("tiny.toml"), out="outputs")
    with pytest.raises(TraceError, match=r"scenario.rounds was 4, is 6; start a new run") as caught:
        wirelessdl.resume(run.path, rounds=6)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_run_with_fixed_pairs_may_be_extended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, CANCELLING, scenario={"rounds": 8})
    longer = wirelessdl.simulate(load_scenario("tiny.toml"), out="whole")
    write(tmp_path, CANCELLING, scenario={"rounds": 4})
    run = wirelessdl.simulate(load_scenario("tiny.toml"), out="outputs")
    assert_same_tables(wirelessdl.resume(run.path, rounds=8).path, longer.path)
