"""Overrides as values by key, beside texts; `Scenario.replace`."""

import math
from pathlib import Path

import numpy as np
import pytest
from conftest import tiny

import wirelessdl
from wirelessdl import ScenarioError, load_scenario


def test_values_by_key_are_what_the_texts_say():
    partition = "{ kind = 'dirichlet', concentration = 0.5 }"
    texts = ["privacy.epsilon_max=2", f"learning.partition={partition}", "network.nodes=6"]
    values = {
        "privacy.epsilon_max": 2,
        "learning.partition": {"kind": "dirichlet", "concentration": np.float32(0.5)},
        "network.nodes": np.int64(6),
    }
    assert load_scenario("quickstart", overrides=values) == load_scenario("quickstart", overrides=texts)


def test_python_values_become_what_toml_has():
    found = load_scenario(
        "quickstart",
        overrides={
            "privacy.epsilon_max": math.inf,
            "radio.power_dbm": (20, 21, 22, np.float64(23)),
            "radio.thermal_noise": np.bool_(True),
            "learning.dataset": {"kind": "file", "path": Path("x.npz")},
        },
        baseline="no-privacy",
    )
    assert found.privacy.epsilon_max == math.inf
    assert found.radio.power_dbm == [20, 21, 22, 23.0]
    assert found.radio.thermal_noise is True
    assert found.learning.dataset.parameters == {"path": "x.npz"}
    assert found.scenario.name == "quickstart-no-privacy"


def test_replace_gives_a_checked_copy_and_leaves_the_scenario_alone():
    base = tiny()
    other = base.replace({"scenario.rounds": 7}, topology={"kind": "erdos-renyi", "p": 0.9})
    assert (base.scenario.rounds, other.scenario.rounds) == (2, 7)
    assert other.network.topology.name == "erdos-renyi"
    assert base.replace() == base
    assert base.replace(["scenario.rounds=7"]) == base.replace({"scenario.rounds": 7})


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ("scenario.rounds=3", "overrides is 'scenario.rounds=3'; must be values by key"),
        ({"privacy.epsilonmax": 2}, "unknown key privacy.epsilonmax; did you mean privacy.epsilon_max?"),
        ({"privacy.epsilon_max": -1}, "privacy.epsilon_max is -1; must be > 0"),
        ({"privacy.epsilon_max": None}, "privacy.epsilon_max is None; leave it out for what the scenario says"),
        ({"rounds": 3}, 'overrides: rounds: must be section.key=value, as in "scenario.rounds=100"'),
        ({"channel.models.7.k_db": 3}, "overrides: channel.models.7.k_db: 7 is no entry of a list of 1; count from 0"),
        ({"scenario.rounds": "three"}, 'scenario.rounds is "three"; must be an integer'),
    ],
)
def test_a_mistake_is_one_line(overrides, said):
    with pytest.raises(ScenarioError) as caught:
        load_scenario("quickstart", overrides=overrides)
    assert said in str(caught.value)
    with pytest.raises(ScenarioError):
        load_scenario("quickstart").replace(overrides)


def test_a_scenario_may_be_named_where_a_run_starts():
    run = wirelessdl.simulate("quickstart", out=None, overrides={"scenario.rounds": 2})
    assert run.summary["rounds"] == 2
    with pytest.raises(ScenarioError, match=r"scenario is 3; must be a file, the name of a bundled scenario, or what"):
        wirelessdl.simulate(3, out=None)
