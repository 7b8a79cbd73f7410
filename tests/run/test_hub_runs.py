"""Runs with hubs: verify works out again who could share noise, and complains where a table says otherwise."""

import shutil

import numpy as np
import pytest
from conftest import command_line, tiny
from hostile import column, parts, sign

from wirelessdl.analysis.verify import verify
from wirelessdl.run.session import simulate

SECTIONS = {
    "scenario": {"name": "hubs", "seed": 3, "rounds": 6},
    "network": {"nodes": 6, "topology": {"kind": "full"}, "placement": {"kind": "disc", "radius_m": 150}},
    "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
    "radio": {"thermal_noise": True, "alignment": "hubs", "truncate_snr_db": 24, "power_dbm": 23, "hub_failure": 0.2},
    "power": {"objective": "own-noise", "alpha_min": 1e-6},
    "privacy": {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.5, "epsilon_max": 1.0},
    "learning": {"eval_every": 2, "closing_passes": 1},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate(tiny(**SECTIONS), out=tmp_path_factory.mktemp("hubs"))


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run.path, tmp_path / "copy")


def test_the_run_has_components_of_several_sizes_and_nodes_out_of_reach(run):
    sent = run.nodes[run.nodes["transmitted"]]
    sizes = sent.groupby(["round", "component"]).size()
    assert sizes.nunique() > 1
    assert sizes.index.get_level_values("round").duplicated().any()  # two in one round
    away = run.nodes[run.nodes["component"].isna()]
    assert len(away)
    assert not away["transmitted"].any()
    assert not sent["component"].isna().any()


def test_shares_follow_from_the_components(run):
    sent = run.nodes[run.nodes["transmitted"]]
    partners = sent.groupby(["round", "component"])["node"].transform("size") - 1
    partners = np.where(partners > 1, partners, 0)  # the coalition may be the only partner
    np.testing.assert_allclose(sent["own_share"], 1 / (1 + partners * 2.25))
    assert verify(run.path).problems == ()
    shown = command_line("verify", str(run.path))
    assert shown.code == 0


@pytest.mark.parametrize(
    "sections",
    [
        {"privacy": {"pairs": {"groups": 2}}},
        {"privacy": {"pairs": "neighbours"}},
        {"privacy": {"noise": "independent", "coalition": 1}},
        {"privacy": {"budget_total": 0.05}, "radio": {"hub_rotation": True, "truncate_snr_db": 15}},
        {"power": {"alpha_min": 1e-2}},
        {"radio": {"access": "digital", "truncate_snr_db": "auto"}, "learning": {"closing_passes": 0}},  # without hubs
        {"privacy": {"budget_total": 0.05}, "radio": {"alignment": "none", "truncate_snr_db": "auto"}},
    ],
    ids=["groups", "neighbours", "independent", "budget", "without room", "digital", "nobody aligns, budget"],
)
def test_verify_finds_nothing_wrong_with_other_runs(sections, tmp_path):
    made = {name: {**SECTIONS.get(name, {}), **sections.get(name, {})} for name in {*SECTIONS, *sections}}
    if made["privacy"]["noise"] == "independent":
        del made["privacy"]["coalition"], made["privacy"]["pair_ratio"]
    found = simulate(tiny(**made), out=tmp_path)
    assert verify(found.path).problems == ()


def all_in_one(table):
    return column(table, "component", np.zeros(table.num_rows, dtype=np.int32))


def nobody_reached(table):
    return column(table, "component", [None] * table.num_rows)


def larger_shares(table):
    return column(table, "own_share", np.minimum(1.5 * table["own_share"].to_numpy(), table["coalition_share"]))


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (all_in_one, "nodes: own_share does not follow from who was on air"),
        (nobody_reached, "nodes: component is null where a node was on air"),
        (larger_shares, "nodes: own_share does not follow from who was on air"),
    ],
)
def test_verify_complains_of_a_forgery_with_right_checksums(forge, words, copy):
    parts("nodes", forge)(copy)
    sign(copy)
    problems = verify(copy).problems
    assert any(line.startswith(words) for line in problems), problems
