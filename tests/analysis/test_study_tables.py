"""Paired differences by seed: against scipy's paired test, each cell beside its reference, mistakes in one line."""

import json
import math

import numpy as np
import pytest
from conftest import tiny
from scipy import stats
from studies import write_study

from wirelessdl import open_study, simulate
from wirelessdl.analysis.study_tables import study_differences

KEYS = ["privacy.epsilon_max", "network.nodes"]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(2)
    made = []
    world = {seed: rng.normal(0, 0.1) for seed in (7, 8, 9, 10)}  # what a seed does to every cell
    for number, (limit, nodes) in enumerate([(0.5, 4), (0.5, 10), (math.inf, 4), (math.inf, 10)]):
        for seed, shift in world.items():
            accuracy = 0.5 + shift + 0.01 * nodes + 0.05 * math.isinf(limit) + rng.normal(0, 0.002)
            keys = dict(zip(KEYS, (limit, nodes)))
            made.append({"cell": f"c{number:03d}", "seed": seed, **keys, "accuracy_mean": accuracy})
    for number, nodes in enumerate((4, 10)):
        for seed, shift in world.items():
            local = {"baseline": "local", "name": "local", KEYS[1]: nodes, "accuracy_mean": 0.4 + shift}
            made.append({"cell": f"c{number + 4:03d}", "seed": seed, **local})
    made[0]["status"] = "failed"  # its pair drops out
    return write_study(tmp_path / "study", made, KEYS)


def values(study, cell):
    rows = study.finished
    return rows[rows["cell"] == cell].set_index("seed")["accuracy_mean"]


def test_differences_are_those_of_the_paired_t_test(folder):
    study = open_study(folder)
    found = {one.name: one for one in study_differences(study, "accuracy", "privacy.epsilon_max=inf")}
    assert {name: one.reference for name, one in found.items()} == {
        "epsilon_max 0.5, nodes 4": "epsilon_max inf, nodes 4",
        "epsilon_max 0.5, nodes 10": "epsilon_max inf, nodes 10",
    }
    for cell, other, nodes in (("c000", "c002", 4), ("c001", "c003", 10)):
        one = found[f"epsilon_max 0.5, nodes {nodes}"]
        own, reference = values(study, cell).align(values(study, other), join="inner")
        test = stats.ttest_rel(own, reference)
        interval = test.confidence_interval(0.95)
        assert (one.difference, one.low, one.high) == pytest.approx(
            ((own - reference).mean(), interval.low, interval.high)
        )
        assert one.n == len(own) == (3 if cell == "c000" else 4)
        spread = own.std() / math.sqrt(len(own))
        assert one.high - one.low < spread, "pairing takes out what the seed does to both"


def test_the_baseline_of_the_same_size_is_the_default_reference_and_a_cell_is_one_for_all(folder):
    found = study_differences(open_study(folder), "accuracy")
    assert [(one.keys["network.nodes"], one.reference) for one in found] == [
        *((nodes, f"local, nodes {nodes}") for nodes in (4, 10, 4, 10))
    ]
    found = study_differences(open_study(folder), "accuracy", "c003")
    assert [one.reference for one in found] == 5 * ["epsilon_max inf, nodes 10"]


def test_compare_prints_and_speaks_json(folder, wirelessdl_command):
    shown = wirelessdl_command("compare", str(folder))
    assert shown.code == 0, shown.err
    assert "paired differences by seed and run" in shown.out
    facts = json.loads(wirelessdl_command("compare", str(folder), "--to", "epsilon_max=inf", "--json").out)
    assert [one["n"] for one in facts["differences"]] == [3, 4]
    assert facts["differences"][0]["keys"] == {"privacy.epsilon_max": 0.5, "network.nodes": 4.0}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--to", "locl"], "did you mean local?"),
        (["--to", "privacy.epsilon_max=3"], "no cell has it; it is one of 0.5, inf"),
        (["--to", "privacy.epsilon=1"], "did you mean privacy.epsilon_max?"),
        (["--of", "acuracy"], "did you mean accuracy_mean?"),
        (["--of", "status"], "holds texts"),
        (["other"], "is a study; name it alone"),
    ],
)
def test_mistakes_are_one_line(arguments, words, folder, wirelessdl_command):
    shown = wirelessdl_command("compare", str(folder), *arguments)
    assert shown.code == 2
    assert words in shown.err.splitlines()[-1], shown.err


def test_scenarios_run_with_the_same_seeds_are_paired(tmp_path, wirelessdl_command):
    made = [
        simulate(tiny(scenario={"seed": seed}, privacy={"epsilon_max": limit}), out=tmp_path / "runs", device="cpu")
        for limit in (1.0, 0.5)
        for seed in (1, 2)
    ]
    shown = json.loads(wirelessdl_command("compare", *(str(run.path) for run in made), "--json").out)
    one = next(one for one in shown["paired"] if one["of"] == "accuracy_mean")
    first, second = ([run.summary["accuracy_mean"] for run in made[n : n + 2]] for n in (0, 2))
    assert (one["name"], one["reference"], one["n"]) == ("epsilon_max 0.5", "epsilon_max 1", 2)
    assert one["difference"] == pytest.approx(np.subtract(second, first).mean())
    printed = wirelessdl_command("compare", *(str(run.path) for run in made)).out
    assert "paired differences by seed and run to epsilon_max 1" in printed
    alone = json.loads(wirelessdl_command("compare", str(made[0].path), str(made[2].path), "--json").out)
    assert alone["paired"] == []


@pytest.mark.usefixtures("folder")
def test_list_shows_a_study_as_one_line(tmp_path, wirelessdl_command):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "study.json").write_text("{")
    (broken / "scenario.toml").write_text("")
    shown = wirelessdl_command("list", str(tmp_path))
    assert shown.code == 0, shown.err
    lines = [line.split() for line in shown.out.splitlines()]
    assert ["study", "study", "of", "tiny", "failed", "23/24"] in lines
    assert any(line.startswith("broken: study.json: cannot be read") for line in shown.out.splitlines())
    found = [json.loads(line) for line in wirelessdl_command("list", str(tmp_path), "--json").out.splitlines()]
    assert {one["study"]: (one["state"], one["finished"], one["runs"]) for one in found} == {
        "broken": ("unreadable", 0, 0),
        "study": ("failed", 23, 24),
    }
