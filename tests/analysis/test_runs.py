"""Runs side by side: differing keys, final figures, and what cannot be compared."""

import json
import math
import shutil

import pyarrow.parquet as pq
import pytest
from conftest import tiny

from wirelessdl import simulate
from wirelessdl.analysis.runs import differing, final_figures, grouped
from wirelessdl.trace.schema import VERSION


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two draws of one scenario, one of another epsilon, one of another size and without noise."""
    out = tmp_path_factory.mktemp("runs")
    made = [simulate(tiny(scenario={"rounds": 4, "run": number}), out=out) for number in (1, 2)]
    made.append(simulate(tiny(scenario={"rounds": 4}, privacy={"epsilon_max": 0.5}), out=out))
    five = {"scenario": {"rounds": 4, "name": "five"}, "network": {"nodes": 5}, "privacy": {"epsilon_max": math.inf}}
    made.append(simulate(tiny(**five), out=out))
    return made


def test_differing_keys_are_those_whose_values_differ(runs):
    assert differing(runs[:2]) == {"scenario.run": [1, 2]}
    assert differing(runs[:1]) == {}
    assert differing([runs[0], runs[2]]) == {"privacy.epsilon_max": [1.0, 0.5]}
    assert set(differing([runs[0], runs[3]])) == {"scenario.name", "network.nodes", "privacy.epsilon_max"}


def test_runs_of_one_scenario_are_grouped_whatever_their_draws(runs):
    groups = grouped(runs)
    assert [len(group.runs) for group in groups] == [2, 1, 1]
    names = [group.name for group in grouped(runs[:3])]
    assert names == ["epsilon_max 1", "epsilon_max 0.5"]


def test_final_figures_are_the_summarys(runs):
    for run in runs:
        figures, summary = final_figures(run), run.summary
        for name in ("accuracy_mean", "accuracy_min", "epsilon_total", "epsilon_link_total", "time_s", "wall_s"):
            assert str(figures[name]) == str(summary[name]), name  # JSON holds infinities as text
        assert figures["epsilon_own"] == float(summary["epsilon_own_total"])
        for name in ("energy_j", "airtime_s", "epsilon_link_max"):
            assert figures[name] == pytest.approx(float(summary[name])), name


def test_compare_prints_keys_and_figures(runs, wirelessdl_command):
    shown = wirelessdl_command("compare", *(str(run.path) for run in runs))
    assert shown.code == 0, shown.err
    lines = {line[:40].strip(): line[40:].split() for line in shown.out.splitlines()}
    assert lines["network.nodes"] == ["4", "4", "4", "5"]
    assert lines["privacy.epsilon_max"] == ["1", "1", "0.5", "inf"]
    assert "total epsilon, guaranteed" in shown.out
    promised = next(line for line in shown.out.splitlines() if line.startswith("the promised epsilon holds against"))
    assert promised.count("all other nodes colluding") == len(runs)


def test_compare_speaks_json(runs, wirelessdl_command):
    alone = wirelessdl_command("compare", str(runs[0].path))
    assert alone.code == 2
    assert "two runs or more" in alone.err
    assert json.loads(wirelessdl_command("compare", *(str(run.path) for run in runs), "--json").out)  # inf, too
    shown = json.loads(wirelessdl_command("compare", str(runs[0].path), str(runs[2].path), "--json").out)
    assert shown["differing"] == ["privacy.epsilon_max"]
    assert [run["keys"] for run in shown["runs"]] == [{"privacy.epsilon_max": 1.0}, {"privacy.epsilon_max": 0.5}]
    assert shown["runs"][0]["accuracy_mean"] == runs[0].summary["accuracy_mean"]


def old_run(run, folder):
    """A copy whose tables are of schema 1, without the columns and the table that came later."""
    old = folder / "old"
    shutil.copytree(run.path, old)
    shutil.rmtree(old / "clients")
    for part in (old / "rounds").iterdir():
        table = pq.ParquetFile(part).read().drop_columns(["opened_s", "pilot_s"])
        pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"wirelessdl_schema": b"1"}), part)
    origin = json.loads((old / "provenance.json").read_text())
    (old / "provenance.json").write_text(json.dumps({**origin, "schema": 1, "wirelessdl": "0.1.0"}))
    return old


def test_a_run_of_an_older_schema_is_one_line_of_the_list_and_hides_no_other(runs, tmp_path, wirelessdl_command):
    old = old_run(runs[0], tmp_path)
    shutil.copytree(runs[1].path, tmp_path / "new")
    shown = wirelessdl_command("list", str(tmp_path))
    assert shown.code == 0
    line = (
        f"its tables are of schema 1, this version reads {VERSION}; use the wirelessdl that wrote it (0.1.0), or run "
    )
    assert f"old: {line}the scenario again" in shown.out.splitlines()
    found = {
        run["name"]: run
        for run in map(json.loads, wirelessdl_command("list", str(tmp_path), "--json").out.splitlines())
    }
    assert (found[old.name]["state"], found["new"]["state"]) == ("unreadable", "done")


@pytest.mark.parametrize("command", [["compare"], ["plot", "--figure", "accuracy"], ["report"]])
def test_what_is_no_run_is_refused_in_one_line(command, runs, wirelessdl_command, tmp_path):
    good, empty, future, edited = str(runs[0].path), *(tmp_path / name for name in ("empty", "future", "edited"))
    for folder in (empty, future, edited):
        folder.mkdir()
        (folder / "scenario.toml").write_text((runs[0].path / "scenario.toml").read_text())
    (edited / "scenario.toml").write_text('[scenario]\nname = "x"\nrounds = 2\nseed = 1\nrun = 1\n')
    (future / "provenance.json").write_text(json.dumps({"schema": 99, "wirelessdl": "9.9"}))
    old = old_run(runs[0], tmp_path)
    for bad, words in (
        (str(tmp_path), "not a run directory"),
        (str(tmp_path / "nowhere"), "no such folder"),
        (str(empty), "is empty, no round was written"),
        (str(edited), "network.nodes is missing"),
        (str(future), f"of schema 99, this version reads {VERSION}"),
        (str(old), f"of schema 1, this version reads {VERSION}; use the wirelessdl that wrote it (0.1.0), or run the"),
        (good, "is named twice"),
    ):
        shown = wirelessdl_command(*command, good, bad)
        assert shown.code == 2, bad
        assert words in shown.err
        assert len(shown.err.strip().splitlines()) == 1
    assert not list(tmp_path.glob("*.pdf")) + list(tmp_path.glob("*.html"))
