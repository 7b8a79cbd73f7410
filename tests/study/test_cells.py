"""Cells of a study: products, zips, baselines, and what is refused."""

import math

import pytest
import tomli_w
from conftest import tiny
from in_process import write_quick

from wirelessdl.errors import WirelessdlError
from wirelessdl.scenario.loader import bundled_scenarios, load_scenario
from wirelessdl.study.plan import cell_scenario, make_cells, make_plan
from wirelessdl.study.study_file import StudySpec, StudyTable, find_study, parse_values, read_study, toml_text


def table(scenario="", **given):
    return StudyTable(scenario=scenario, **{"local": False, **given})


def cells(base=None, **given):
    return make_cells(table(**given), base or tiny())


def values(found):
    return [dict(cell.values) for cell in found]


def test_a_grid_gives_all_combinations_the_last_key_moving_fastest():
    varied, found = cells(grid={"privacy.epsilon_max": [0.5, math.inf], "network.nodes": [3, 4]})
    assert varied == ["privacy.epsilon_max", "network.nodes"]
    assert [tuple(one.values()) for one in values(found)] == [(0.5, 3), (0.5, 4), (math.inf, 3), (math.inf, 4)]
    assert [cell.cell for cell in found] == ["c000", "c001", "c002", "c003"]
    scenario = cell_scenario(tiny(), found[2], seed=8, run=2)
    assert (scenario.privacy.epsilon_max, scenario.network.nodes) == (math.inf, 3)
    assert (scenario.scenario.seed, scenario.scenario.run) == (8, 2)


def test_zipped_lists_go_together_and_the_rest_multiplies():
    _, found = cells(zip={"network.nodes": [3, 4], "learning.batch_size": [8, 16]}, grid={"privacy.rho": [1.5, 2]})
    assert [tuple(one.values()) for one in values(found)] == [(3, 8, 1.5), (3, 8, 2), (4, 16, 1.5), (4, 16, 2)]


def test_named_cells_show_the_scenarios_value_where_they_leave_a_key_alone():
    paper = {"privacy.protocol": "paper", "privacy.clipping": "batch"}
    named = [{"name": "plain"}, {"name": "paper", "set": paper}]
    varied, found = cells(cells=named, grid={"network.nodes": [3, 4]})
    assert varied == ["privacy.protocol", "privacy.clipping", "network.nodes"]
    assert [cell.name for cell in found] == ["plain", "plain", "paper", "paper"]
    assert found[0].values == {"privacy.protocol": "hardened", "privacy.clipping": "per-sample", "network.nodes": 3}
    assert found[0].overrides == ("network.nodes=3",)


def test_adjustments_change_the_cells_that_match_and_no_others():
    adjust = [{"where": {"network.nodes": 4}, "set": {"learning.batch_size": 16}}]
    _, found = cells(grid={"network.nodes": [3, 4]}, adjust=adjust)
    assert [cell_scenario(tiny(), cell).learning.batch_size for cell in found] == [8, 16]


def test_a_private_study_has_local_beside_it_once_for_what_still_matters():
    grid = {"privacy.epsilon_max": [0.5, math.inf], "network.nodes": [3, 4], "radio.power_dbm": [20, 30]}
    _, found = cells(grid=grid, local=True)
    local = [cell for cell in found if cell.baseline]
    assert len(found) == 8 + 2
    assert values(local) == [{"network.nodes": 3}, {"network.nodes": 4}]
    assert {(cell.name, cell.baseline) for cell in local} == {("local", "local")}
    scenario = cell_scenario(tiny(), local[0])
    assert (scenario.network.topology.name, scenario.network.nodes) == ("none", 3)


def test_a_study_without_privacy_has_no_local_unless_asked_for():
    base = tiny(privacy={"epsilon_max": math.inf})
    assert len(cells(base, grid={"network.nodes": [3, 4]}, local=True)[1]) == 2
    assert len(cells(base, grid={"network.nodes": [3, 4]}, baselines=["local"])[1]) == 4


def test_baselines_drop_the_keys_that_they_decide():
    grid = {"privacy.epsilon_max": [0.5, 1], "privacy.clip_norm": [1.0, 2.0]}
    _, found = cells(grid=grid, baselines=["no-privacy", "own-noise", "central"])
    by_name = {name: values(c for c in found if c.baseline == name) for name in ("no-privacy", "own-noise", "central")}
    assert by_name["no-privacy"] == [{"privacy.clip_norm": 1.0}, {"privacy.clip_norm": 2.0}]
    assert len(by_name["own-noise"]) == 4
    assert by_name["central"] == by_name["no-privacy"]
    assert [cell.cell for cell in found] == [f"c{n:03d}" for n in range(len(found))]


def test_a_trusted_holder_is_run_once_for_each_epsilon_that_it_publishes_under():
    base = load_scenario("urban_er_k20")
    grid = {"privacy.epsilon_total": [0.5, 2.0], "privacy.pair_ratio": [1.0, 2.0], "radio.power_dbm": [20, 30]}
    _, found = cells(base, grid=grid, baselines=["central-dp"])
    central = [cell for cell in found if cell.baseline]
    assert values(central) == [{"privacy.epsilon_total": 0.5}, {"privacy.epsilon_total": 2.0}]
    assert [cell_scenario(base, cell).privacy.epsilon_total for cell in central] == [0.5, 2.0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5,1,inf", [0.5, 1, math.inf]),
        ("iid, { kind = 'dirichlet', concentration = 0.1 }", ["iid", {"kind": "dirichlet", "concentration": 0.1}]),
        ("[1, 2],[3]", [[1, 2], [3]]),
        ("'a,b',true", ["a,b", True]),
        ("", []),
    ],
)
def test_values_are_cut_at_commas_outside_of_brackets_and_quotes(text, expected):
    found = parse_values(text)
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]
    assert parse_values(",".join(map(toml_text, found))) == expected


@pytest.mark.parametrize("name", bundled_scenarios())
def test_a_cell_of_a_bundled_scenario_is_what_run_makes_of_it(name):
    override = "learning.batch_size=7"
    direct = load_scenario(name, overrides=[override])
    (cell,) = cells(load_scenario(name), grid={"learning.batch_size": [7]})[1]
    assert cell_scenario(load_scenario(name), cell).to_table() == direct.to_table()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"grid": {"privacy.epsilonmax": [1]}}, "unknown key privacy.epsilonmax; did you mean privacy.epsilon_max?"),
        ({"grid": {"network.nodes": [3, 3]}}, "network.nodes has the value 3 twice"),
        ({"grid": {"network.nodes": [3, -1]}}, "cell c001 (network.nodes=-1): network.nodes is -1; must be"),
        ({"grid": {"scenario.seed": [3]}}, "scenario.seed cannot be varied; --seeds says how many"),
        ({"grid": {"scenario.name": ["a"]}}, "scenario.name cannot be varied"),
        ({"grid": {"nodes": [3]}}, "cell c000 (nodes=3): --set nodes=3: must be section.key=value"),
        ({"grid": {"network.nodes": [3]}, "zip": {"network.nodes": [4]}}, "varied in two places"),
        ({"zip": {"network.nodes": [3], "privacy.rho": [1, 2]}}, "study.zip needs lists of equal length"),
        ({"cells": [{"name": "a"}, {"name": "a"}]}, "two cells of the study have the same name"),
        ({"baselines": ["locl"]}, 'baseline is "locl"; there is none of that name; did you mean local?'),
        ({"grid": {"network.nodes": [*range(2, 1002)], "privacy.rho": [*range(1001)]}}, "1,001,000 cells; at most"),
        ({"seeds": [1, 1]}, "seeds is [1, 1]; must be from 1 to 100,000 different numbers"),
        ({"seeds": 1000, "runs": 101}, "the study has 101,000 runs; at most 100,000"),
    ],
)
def test_what_cannot_be_planned_is_one_line(given, message, tmp_path):
    with pytest.raises(WirelessdlError) as caught:
        make_plan(StudySpec(table(str(write_quick(tmp_path)), **given)))
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


# --- study files


def study_file(folder, **study):
    write_quick(folder)
    path = folder / "study.toml"
    path.write_text(tomli_w.dumps({"study": {"scenario": "tiny.toml", **study}}))
    return path


def test_a_study_file_says_what_the_command_line_says_and_more(tmp_path):
    path = tmp_path / "study.toml"
    write_quick(tmp_path)
    path.write_text(
        """
        [study]
        scenario = "tiny.toml"
        seeds = [3, 9]
        runs = 2
        baselines = ["no-privacy"]
        set = { "scenario.rounds" = 3 }
        [study.grid]
        privacy.epsilon_max = [0.5, inf]           # bare keys
        learning.learning_rate.initial = [0.1]
        "network.nodes" = [3, 4]                   # and quoted ones
        [[study.cells]]
        name = "fast"
        set = { "learning.batch_size" = 4 }
        [[study.cells]]
        name = "slow"
        set = { learning.batch_size = 8 }
        [[study.adjust]]
        where = { "network.nodes" = 4 }
        set = { "privacy.rho" = 1.5 }
        """
    )
    assert find_study(path) == path
    plan = make_plan(read_study(path))
    own = [cell for cell in plan.cells if not cell.baseline]
    assert plan.name == "study"
    assert len(own) == 2 * 2 * 2
    assert (plan.seeds, plan.runs) == ((3, 9), (1, 2))
    assert plan.base.scenario.rounds == 3
    assert {cell.baseline for cell in plan.cells} == {None, "no-privacy", "local"}
    last = plan.scenario(own[-1], 9, 2)
    assert (last.network.nodes, last.privacy.rho, last.learning.batch_size) == (4, 1.5, 8)
    assert len(plan) == len(list(plan.planned())) == len({run.path for run in plan.planned()})


def test_bundled_studies_can_be_planned_and_named():
    found = find_study("tradeoff")
    assert found is not None
    assert len(make_plan(read_study(found))) > 10
    assert find_study("quickstart") is None


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ({"grids": {}}, "unknown key study.grids; did you mean grid?"),
        ({"grid": {"network.nodes": []}}, "study.grid.network.nodes is []; must have at least 1 entries"),
        ({"grid": {"network.nodes": 4}}, "study.grid.network.nodes is 4; must be a list"),
        ({"seeds": 0}, "study.seeds"),
        ({"cells": [{"set": {}}]}, "missing key study.cells.0.name; add it"),
        ({"cells": [{"name": "a/b"}]}, "study.cells.0.name is a/b; must be at most 100 letters"),
        ({"scenario": 3}, "study.scenario is 3; must be a scenario file"),
        ({"name": "../x"}, "study.name is ../x; must be at most 100 letters"),
    ],
)
def test_a_bad_study_file_is_one_line(study, message, tmp_path):
    with pytest.raises(WirelessdlError) as caught:
        read_study(study_file(tmp_path, **study))
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_scenario_in_a_study_file_is_refused_with_what_belongs_there(tmp_path):
    path = study_file(tmp_path)
    path.write_text(path.read_text() + "[network]\nnodes = 4\n")
    with pytest.raises(WirelessdlError, match=r"unknown section \[network\]; a study file has one table"):
        read_study(path)
