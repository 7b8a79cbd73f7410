"""Reading a study: means with Student's intervals, short names, and directories that somebody damaged or made up."""

import json
import math
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import tiny
from scipy import stats
from studies import write_study

import wirelessdl
from wirelessdl import open_run, open_study, simulate
from wirelessdl.errors import TraceError
from wirelessdl.trace.study import mean_interval

KEYS = ["privacy.epsilon_max", "network.nodes"]


def rows():
    """Two keys, three seeds; one cell without noise, one baseline, one run that failed."""
    rng = np.random.default_rng(1)
    made = []
    for number, (limit, nodes) in enumerate([(0.5, 4), (0.5, 10), (math.inf, 4), (math.inf, 10)]):
        for seed in (7, 8, 9):
            epsilon = limit * 0.4 + 0.01 * seed
            own = dict(zip(KEYS, (limit, nodes)))
            figures = {"accuracy_mean": float(rng.uniform(0.5, 0.8)), "epsilon_total": epsilon, "energy_j": 1.0}
            made.append({"cell": f"c{number:03d}", "seed": seed, **own, **figures, "promised": "own", "nodes": nodes})
    made[-1] |= {"status": "failed", "accuracy_mean": None, "error": "no power split"}
    made += [{"cell": "c004", "baseline": "local", "seed": seed, "accuracy_mean": 0.3} for seed in (7, 8, 9)]
    return made


@pytest.fixture
def folder(tmp_path):
    return write_study(tmp_path / "study", rows(), KEYS)


def test_means_are_those_of_finished_own_runs_with_students_interval(folder):
    study = open_study(folder)
    found = study.mean(by=KEYS, of="accuracy_mean")
    assert list(found.columns) == [*KEYS, "mean", "low", "high", "n"]
    assert found["n"].tolist() == [3, 3, 3, 2]
    index = study.index
    for _, row in found.iterrows():
        values = index[(index[KEYS[0]] == row[KEYS[0]]) & (index[KEYS[1]] == row[KEYS[1]])]["accuracy_mean"].dropna()
        low, high = stats.t.interval(0.95, len(values) - 1, loc=values.mean(), scale=stats.sem(values))
        assert (row["mean"], row["low"], row["high"]) == pytest.approx((values.mean(), low, high))
    with_baselines = study.mean(by=["baseline"], of="accuracy")
    assert with_baselines.set_index("baseline")["n"].to_dict()["local"] == 3
    assert study.mean(by=[], of="accuracy")["n"].tolist() == [11]


def test_one_value_has_no_interval_and_infinite_values_have_none():
    assert mean_interval([0.4])[0] == 0.4
    assert np.isnan(mean_interval([0.4])[1:3]).all()
    mean, low, high, n = mean_interval([1.0, math.inf])
    assert (mean, n) == (math.inf, 2)
    assert np.isnan([low, high]).all()
    assert mean_interval([])[3] == 0


def test_epsilon_is_the_declared_total_where_there_is_one(tmp_path):
    made = [
        {"cell": "c000", "seed": 1, "epsilon_total": 0.5, "epsilon_declared": 0.9},
        {"cell": "c000", "seed": 2, "epsilon_total": 0.6, "epsilon_declared": None},
    ]
    study = open_study(write_study(tmp_path / "study", made, []))
    assert study.index["epsilon"].tolist() == [0.9, 0.6]


@pytest.mark.parametrize(
    ("given", "column"),
    [
        ("accuracy", "accuracy_mean"),
        ("energy", "energy_j"),
        ("epsilon", "epsilon"),
        ("epsilon_max", "privacy.epsilon_max"),
        ("network.nodes", "network.nodes"),
    ],
)
def test_short_names(folder, given, column):
    assert open_study(folder).column(given) == column


def test_unknown_columns_suggest_the_nearest(folder):
    with pytest.raises(TraceError, match=r"no column 'acuracy'; did you mean accuracy_mean\?"):
        open_study(folder).column("acuracy")
    with pytest.raises(TraceError, match="holds texts"):
        open_study(folder).mean(by=[], of="promised")


def test_runs_are_the_finished_ones_opened(tmp_path):
    made = simulate(tiny(), out=tmp_path / "study/runs", device="cpu")
    planned = [
        {"cell": "c000", "seed": 3, "path": f"runs/{made.path.name}", "accuracy_mean": 0.5},
        {"cell": "c000", "seed": 4, "status": "planned", "accuracy_mean": None},
    ]
    study = open_study(write_study(tmp_path / "study", planned, []))
    assert [run.path.name for run in study.runs()] == [made.path.name]
    with pytest.raises(TraceError, match="is a study"):
        open_run(tmp_path / "study")
    assert wirelessdl.open_study is open_study
    shutil.rmtree(made.path)
    with pytest.raises(TraceError, match="no such folder"):
        study.runs()


def rewritten(folder, **columns):
    """The index with columns replaced."""
    table = pq.read_table(folder / "index.parquet")
    for name, values in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(values))
    pq.write_table(table, folder / "index.parquet")


@pytest.mark.parametrize(
    "path", ["../elsewhere", "/etc", "runs/../../elsewhere", "", "runs/link", "a\0b"], ids=lambda path: repr(path)
)
def test_paths_may_not_leave_the_study(folder, path):
    (folder / "runs").mkdir()
    (folder.parent / "elsewhere").mkdir()
    (folder / "runs/link").symlink_to(folder.parent / "elsewhere")
    count = len(pd.read_parquet(folder / "index.parquet"))
    rewritten(folder, path=[f"runs/c{n}" for n in range(count - 1)] + [path])
    with pytest.raises(TraceError, match="out of the study"):
        open_study(folder)


def manifest_of(**changes):
    def change(folder):
        content = json.loads((folder / "study.json").read_text())
        content.update(changes)
        (folder / "study.json").write_text(json.dumps({k: v for k, v in content.items() if v is not None}))

    return change


def index_of(**columns):
    def change(folder):
        count = len(pd.read_parquet(folder / "index.parquet"))
        rewritten(folder, **{name: [value] * count for name, value in columns.items()})

    return change


DAMAGE = {
    "no study": (lambda folder: (folder / "study.json").unlink(), "not a study"),
    "no JSON": (lambda folder: (folder / "study.json").write_text("{"), "study.json: cannot be read"),
    "a list": (lambda folder: (folder / "study.json").write_text("[]"), "holds no JSON object"),
    "deep": (lambda folder: (folder / "study.json").write_text("[" * 100_000), "cannot be read"),
    "a folder": (lambda folder: ((folder / "index.parquet").unlink(), (folder / "index.parquet").mkdir()), "regular"),
    "another schema": (manifest_of(schema=9), "schema is 9, this version reads 1"),
    "varied": (manifest_of(varied="network.nodes"), "varied is network.nodes; must be a list of different keys"),
    "cells": (manifest_of(cells=[1]), "cells is .*; must be a list of cells"),
    "seeds": (manifest_of(seeds=[True]), "seeds is"),
    "name": (manifest_of(name=None), "name is None; must be a text"),
    "a key that is no column": (manifest_of(varied=["network.node"]), "column network.node is missing"),
    "fewer runs planned": (manifest_of(seeds=[1]), "has 15 rows, study.json plans 5 runs"),
    "no index": (lambda folder: (folder / "index.parquet").unlink(), "is missing; resume the study"),
    "damaged": (lambda folder: (folder / "index.parquet").write_bytes(b"PAR1" + b"x" * 99), "cannot be read"),
    "status": (index_of(status="lost"), "status lost is unknown"),
    "cell": (index_of(cell="c999"), "cell c999 is unknown"),
    "empty": (index_of(path=None), "column path holds null"),
    "nested": (index_of(accuracy_mean=[1.0]), "column accuracy_mean holds list"),
    "numbers for texts": (index_of(baseline=1), "column baseline holds int64"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_one_clear_line(what, folder):
    change, words = DAMAGE[what]
    change(folder)
    with pytest.raises(TraceError, match=words) as caught:
        open_study(folder)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500
