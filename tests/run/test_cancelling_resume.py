"""Runs with noise that cancels and mixing passes, stopped and gone on with; which of them cannot be extended."""

from pathlib import Path

import pytest
import tomli_w
from conftest import tiny_table
from interrupting import assert_same_tables, interrupted

import wirelessdl
from wirelessdl.access import passes
from wirelessdl.analysis.verify import verify
from wirelessdl.errors import TraceError
from wirelessdl.scenario.loader import load_scenario

FAULTS = {
    "time": {
        "compute": {"kind": "constant", "seconds": [0.01, 0.01, 0.01, 0.025, 0.01]},
        "policy": {"kind": "deadline", "cap_s": 0.012},
    },
    "faults": {
        "rejoin": "listen",
        "crashes": {"kind": "schedule", "events": [{"node": 4, "at_s": 0.05, "for_s": 0.01}]},
    },
}


def write(rounds=12, **sections):
    table = {
        "scenario": {"rounds": rounds},
        "network": {"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.6}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"power_dbm": 23, "thermal_noise": True, "mixing_passes": 2, "payload_slots": 1},
        "power": {"schedule": "adaptive", "objective": "own-noise", "alpha_min": 1e-6},
        "privacy": {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.4, "epsilon_max": 0.5},
        "learning": {"eval_every": 4},
        **FAULTS,
    }
    for name, section in sections.items():
        table[name] = {**table.get(name, {}), **section}
    if "epsilon_total" in table["privacy"]:
        table["privacy"].pop("epsilon_max")
    written = tiny_table(**table)
    written["privacy"] = table["privacy"]
    Path("tiny.toml").write_text(tomli_w.dumps(written))


CASES = {
    "neighbours": {"privacy": {"pairs": "neighbours"}},
    "groups, chosen ratio": {"privacy": {"pairs": {"groups": 2}, "pair_ratio": "auto"}},
    "closing passes": {"learning": {"closing_passes": 3}, "radio": {"mixing": "plain"}},
    "partial balancing, a total": {
        "power": {"balance": "partial"},
        "privacy": {"epsilon_total": 2.0, "pair_ratio": "auto"},
    },
    "a budget that ends": {"privacy": {"budget_total": 1.0, "epsilon_max": 2.0}, "learning": {"sampling": "full"}},
}


@pytest.mark.parametrize("case", CASES)
def test_a_stopped_run_goes_on_to_the_same_tables(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(**CASES[case])
    whole = wirelessdl.simulate(load_scenario("tiny.toml"), out="whole")
    assert not whole.nodes.transmitted.all()  # late nodes and listeners
    assert verify(whole.path).problems == ()  # traces lead to the totals of both views
    assert_same_tables(wirelessdl.resume(interrupted(7)).path, whole.path)


def test_passes_of_a_large_network_do_not_depend_on_where_it_was_stopped(tmp_path, monkeypatch):
    """What serves from 65 nodes on, in a small one."""
    monkeypatch.setattr(passes, "_MAX_NODES_EVERY_FRAME", 0)
    monkeypatch.chdir(tmp_path)
    write()
    whole = wirelessdl.simulate(load_scenario("tiny.toml"), out="whole")
    assert_same_tables(wirelessdl.resume(interrupted(4)).path, whole.path)


LASTING = {
    "a promised total": {"privacy": {"epsilon_total": 2.0}},
    "closing passes": {"learning": {"closing_passes": 2}},
    "a ratio chosen for so many rounds": {"privacy": {"pair_ratio": "auto"}},
    "amplitudes chosen for so many rounds": {"power": {"balance": "partial"}},
}


@pytest.mark.parametrize("case", LASTING)
def test_a_run_made_for_its_rounds_cannot_be_extended(case, tmp_path, monkeypatch):
    """Its noise was made for a total of so many releases: more of them would exceed what was promised."""
    monkeypatch.chdir(tmp_path)
    write(rounds=4, **LASTING[case])
    run = wirelessdl.simulate(load_scenario("tiny.toml"), out="outputs")
    with pytest.raises(TraceError, match=r"scenario.rounds was 4, is 6; start a new run") as caught:
        wirelessdl.resume(run.path, rounds=6)
    assert "\n" not in str(caught.value)


def test_a_run_with_fixed_pairs_may_be_extended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(rounds=8)
    longer = wirelessdl.simulate(load_scenario("tiny.toml"), out="whole")
    write(rounds=4)
    run = wirelessdl.simulate(load_scenario("tiny.toml"), out="outputs")
    assert_same_tables(wirelessdl.resume(run.path, rounds=8).path, longer.path)
