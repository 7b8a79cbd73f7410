"""Studies with protocols, scales and figures: what they plan, what they write, and that it comes out the same."""

import math
import os
import re
import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT, command_line, mostly_slow
from in_process import one_for_all, write_quick

import wirelessdl
from wirelessdl.errors import StudyError
from wirelessdl.study import engine
from wirelessdl.study.reproduce import PAPER, bundled_studies, reproductions, run_study, with_scale

sys.path.append(str(ROOT / "docs" / "reproduction"))
from cells import cell_tables

STUDY = """
[study]
scenario = "tiny.toml"
seeds = 3
differences = ["local", "half"]

[[study.cells]]
name = "one"
[[study.cells]]
name = "half"
set = { "privacy.epsilon_max" = 0.5 }
[[study.cells]]
name = "none"  # a number that JSON does not have
set = { "privacy.epsilon_max" = inf }

[study.protocols.hardened]
[study.protocols.paper]
set = { "privacy.protocol" = "paper", "privacy.clipping" = "batch", "power.balance" = false }

[study.scales.smoke]
seeds = 2
set = { "scenario.rounds" = 3 }

[[study.figures]]
name = "tradeoff"
x = "epsilon"
protocols = ["hardened"]
"""


@pytest.fixture(scope="module", autouse=True)
def one_cluster():
    with one_for_all() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study of one's own, reproduced; in it, what the command line said."""
    folder = tmp_path_factory.mktemp("reproduced")
    write_quick(folder)
    (folder / "mine.toml").write_text(STUDY)
    with chdir(folder):
        said = command_line("reproduce", "mine.toml", "--scale", "smoke", "--out", "out")
    assert said.code == 0, said.err
    return folder


def csvs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.csv"))}


def test_a_study_of_ones_own_gives_means_differences_and_figures_for_each_protocol(folder):
    names = {path.name for path in (folder / "out").iterdir()}
    assert {"mine-hardened", "mine-paper", "mine-hardened.csv", "mine-paper-differences.csv"} <= names
    assert "mine-hardened-tradeoff.pdf" in names
    assert "mine-paper-tradeoff.pdf" not in names
    means = pd.read_csv(folder / "out" / "mine-hardened.csv")
    assert set(means["n"]) == {2}
    index = pd.read_parquet(folder / "out" / "mine-hardened" / "index.parquet")
    runs = pd.read_csv(folder / "out" / "mine-hardened-runs.csv")
    assert len(runs) == len(index) == 2 * len(means)
    assert not {"path", "wall_s", "status"} & set(runs)  # what another run of the study would write otherwise
    wider = cell_tables(wirelessdl.open_study(folder / "out" / "mine-hardened"))
    pd.testing.assert_frame_equal(wider[""][means.columns], means, rtol=1e-9, check_dtype=False)
    noise = wider["-runs"].groupby("cell")["noise_over_update"].mean()
    np.testing.assert_allclose(wider[""].set_index("cell")["noise_over_update"], noise, rtol=1e-9)
    for row in means.itertuples():
        values = index[index["cell"] == row.cell]["accuracy_mean"]
        assert row.accuracy_mean == pytest.approx(values.mean(), rel=1e-9)
        half = 12.706204736 * values.std(ddof=1) / math.sqrt(2)  # Student's t, one degree of freedom
        assert row.accuracy_mean_high - row.accuracy_mean == pytest.approx(half, rel=1e-6, abs=1e-9)
        largest = index[index["cell"] == row.cell]["epsilon_total"].max()
        assert row.epsilon_total_most == pytest.approx(largest, rel=1e-9)
        assert row.epsilon_total_most >= row.epsilon_total
    differences = pd.read_csv(folder / "out" / "mine-hardened-differences.csv")
    assert {name.partition(",")[0] for name in differences["reference"]} == {"local", "half"}
    assert np.allclose(differences["difference"], differences["mean"] - differences["reference_mean"], atol=1e-9)
    accuracy = index.set_index(["cell", "seed"])["accuracy_mean"]
    beside = {"local": means[means["baseline"] == "local"]["cell"].iloc[0], "half": "c001"}
    for row in differences.itertuples():
        assert row.reference_cell == beside[row.reference.partition(",")[0]]
        apart = accuracy[row.cell] - accuracy[row.reference_cell]  # by seed
        assert row.above == (apart > 0).sum()
        assert row.median == pytest.approx(apart.median(), abs=1e-9)
        half = 12.706204736 * apart.std(ddof=1) / math.sqrt(2)
        assert row.high - row.difference == pytest.approx(half, rel=1e-6, abs=1e-9)


def test_interrupted_and_resumed_every_csv_has_the_same_bytes(folder):
    with chdir(folder):
        one = reproductions("mine.toml", "smoke", "hardened")[0]
        study = folder / "cut" / one.name
        options = engine.Options(jobs=1, threads=1)
        result = run_study(study, one.plan, options, engine.Listener(), lambda: any(study.rglob("summary.json")))
        assert result.stopped
        assert result.counts["finished"] < len(one.plan)
        said = command_line("reproduce", "mine.toml", "--scale", "smoke", "--out", "cut")
    assert said.code == 0, said.err
    assert csvs(folder / "cut") == csvs(folder / "out")


def test_called_again_nothing_runs_and_another_study_is_refused(folder):
    with chdir(folder):
        before = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("summary.json")}
        assert command_line("reproduce", "mine.toml", "--scale", "smoke", "--out", "out").code == 0
        assert before == {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("summary.json")}
        refused = command_line("reproduce", "mine.toml", "--scale", "smoke", "--seeds", "1", "--out", "out")
    assert refused.code == 2
    assert "holds a study with other seeds; choose another --out" in refused.err


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            ('x = "epsilon"', 'x = "epsilon"\ncurves = "round"'),
            'study.figures.0 has curves = "round" and x; curves are',
        ),
        (('protocols = ["hardened"]', 'protocols = ["printed"]'), "names the protocol printed, none of the study"),
        (('"tradeoff"', '"a/b"'), "study.figures.0.name is a/b; must be at most 40 letters"),
        (
            ("protocols.paper", 'protocols."../paper"'),
            "study.protocols names '../paper'; a name must be at most 40 lett",
        ),
        (("protocols.paper", "protocols.both"), 'study.protocols names "both"; --protocol both means all of them'),
        (("protocols.paper", 'protocols.""'), "study.protocols names ''; a name must be"),
        (("seeds = 3", "seeds = true"), "study.seeds is True; must be a number >= 1 (how many), or a list of numbers"),
        (
            ("[study.scales.smoke]", "[study.scales.tiny]"),
            "study.scales.tiny is tiny; must be 'smoke', 'cpu' or 'paper'",
        ),
        (("seeds = 2", 'grid = { "network.nodes" = [3] }'), "network.nodes is no key of its grid"),
        (("seeds = 2", 'only = ["ones"]'), "only names ones, no cell of it; did you mean one?"),
        (('"tradeoff"', '"runs"'), "study.figures names runs, the name of a table of every study"),
        (("[[study.figures]]", '[[study.figures]]\nname = "tradeoff"\n[[study.figures]]'), "another figure of it"),
        (('"privacy.clipping"', '"privacy.cliping"'), "unknown key privacy.cliping; did you mean privacy.clipping?"),
    ],
)
def test_a_mistake_of_a_study_file_is_refused_before_anything_runs(tmp_path, change, complaint):
    write_quick(tmp_path)
    assert change[0] in STUDY
    (tmp_path / "mine.toml").write_text(STUDY.replace(*change, 1))
    with chdir(tmp_path):
        said = command_line("reproduce", "mine.toml", "--scale", "smoke", "--out", "out")
    assert said.code == 2
    assert complaint in said.err
    assert len(said.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_figure_of_a_column_that_is_not_there_is_one_line_and_runs_are_kept(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "again")
    text = (tmp_path / "again" / "mine.toml").read_text()
    (tmp_path / "again" / "mine.toml").write_text(text.replace('x = "epsilon"', 'x = "epsilonn"', 1))
    with chdir(tmp_path / "again"):
        said = command_line("reproduce", "mine.toml", "--scale", "smoke", "--out", "out")
    assert said.code == 2
    assert "figure tradeoff: out/mine-hardened: the study has no column 'epsilonn'; did you mean" in said.err


def test_the_study_file_of_the_documentation_runs(tmp_path):
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "mine.toml").write_text(block)
    with chdir(tmp_path):
        said = command_line("reproduce", "mine.toml", "--scale", "smoke", "--out", "out")
    assert said.code == 0, said.err
    assert {"mine-paper", "mine-hardened"} == {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()}
    assert len(list((tmp_path / "out").glob("*-tradeoff.pdf"))) == 2


def test_scales_and_protocols_that_a_file_has_not_are_refused(tmp_path):
    write_quick(tmp_path)
    (tmp_path / "mine.toml").write_text(STUDY.replace("protocols.paper", "protocols.other"))
    with pytest.raises(StudyError, match=r"no table \[study.scales.paper\]"):
        reproductions(str(tmp_path / "mine.toml"), "paper")
    with pytest.raises(StudyError, match="--protocol is paper; mine has hardened, other"):
        reproductions(str(tmp_path / "mine.toml"), "smoke", "paper")
    assert [one.name for one in reproductions(str(tmp_path / "mine.toml"), "smoke", "other")] == ["mine-other"]
    with pytest.raises(StudyError, match="fig44: no figure or study file of this name; did you mean fig4"):
        reproductions("fig44", "smoke")


def test_a_reference_that_a_scale_leaves_out_is_no_mistake(tmp_path):
    write_quick(tmp_path)
    (tmp_path / "mine.toml").write_text(STUDY.replace("seeds = 2", 'only = ["one"]'))
    for one in reproductions(str(tmp_path / "mine.toml"), "smoke"):
        assert one.differences == ("local",)
    for one in reproductions(str(tmp_path / "mine.toml"), "cpu"):
        assert one.differences == ("local", "half")
    grid = STUDY.replace('"local", "half"]', '"clip_norm=2.0"]').replace(
        "[[study.cells]]", '[study.grid]\n"privacy.clip_norm" = [1.0, 2]\n[[study.cells]]', 1
    )
    (tmp_path / "mine.toml").write_text(grid.replace("seeds = 2", 'grid = { "privacy.clip_norm" = [1.0] }'))
    assert [one.differences for one in reproductions(str(tmp_path / "mine.toml"), "smoke", "hardened")] == [()]
    assert [len(one.differences) for one in reproductions(str(tmp_path / "mine.toml"), "cpu", "hardened")] == [1]


def test_all_at_the_papers_scale_is_what_has_it():
    assert with_scale("paper") == ["fig2", "fig3", "fig4", "fig5", "fig6"]
    assert with_scale("cpu") == with_scale("smoke") == list(PAPER)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["fig4", "--scale", "big"], "'big' is not one of 'smoke', 'cpu', 'paper'"),
        (["fig4", "--scale", "smoke", "--seeds", "0"], "'--seeds': 0 is not in the range"),
        (["fig4", "--scale", "smoke", "--jobs", "0"], "'--jobs': 0 is not in the range"),
        (["fig4", "--scale", "smoke", "--protocol", "printed"], "--protocol is printed; fig4 has paper, hardened"),
        (["fig4", "--scale", "smoke", "--out", "file/in"], "--out is file/in/fig4-paper; cannot be made"),
        (["theorem1", "--scale", "paper"], "theorem1 has no table [study.scales.paper]"),
        (["quickstart", "--scale", "smoke"], "quickstart: no figure or study file of this name"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line_and_exit_2(options, complaint, tmp_path):
    (tmp_path / "file").write_text("")
    with chdir(tmp_path):
        said = command_line("reproduce", *options)
    assert said.code == 2
    assert complaint in said.err.splitlines()[-1]
    assert not list(tmp_path.rglob("*.csv"))


@pytest.mark.parametrize("name", PAPER)
def test_every_figure_of_the_paper_has_a_plan_and_its_small_one_is_small(name):
    small, usual = (reproductions(name, scale) for scale in ("smoke", "cpu"))
    assert name in bundled_studies()
    theorem = name in ("theorem1", "theorem2", "bias")  # drawn by docs/reproduction/theorems.py
    assert all(bool(one.figures) != theorem for one in (*small, *usual))
    for one in small:
        assert len(one.plan.seeds) == 1
        rounds = [one.plan.scenario(cell, 1, 1).scenario.rounds for cell in one.plan.cells]
        assert max(rounds) <= 20
        assert {one.plan.scenario(cell, 1, 1).network.nodes for cell in one.plan.cells} == {4}
    if name in ("fig2", "fig3"):
        assert [len(one.plan.seeds) for one in usual] == [8, 8]
    if name.startswith("fig"):
        assert [one.name for one in usual] == [f"{name}-paper", f"{name}-hardened"]
        assert len(reproductions(name, "paper", "paper")) == 1
    if not theorem:  # figures of accuracy
        assert all(any(cell.baseline == "local" for cell in one.plan.cells) for one in (*small, *usual))


@pytest.mark.parametrize("name", mostly_slow((*PAPER, "alone", "bias-fading"), "fig4"))
def test_every_figure_of_the_paper_runs_small_and_twice_the_same(name, tmp_path):
    with chdir(tmp_path):
        for out in ("out", "again") if name == "fig4" else ("out",):
            said = command_line("reproduce", name, "--scale", "smoke", "--seeds", "1", "--out", out)
            assert said.code == 0, said.err
    if name in ("theorem1", "theorem2", "bias", "bias-fading"):
        script = ROOT / "docs" / "reproduction" / "theorems.py"
        subprocess.run([sys.executable, script, tmp_path / "out"], check=True, env={**os.environ, "PYTHONPATH": ROOT})
    assert list((tmp_path / "out").glob("*.csv"))
    assert list((tmp_path / "out").glob("*.pdf"))
    if name == "fig4":
        assert csvs(tmp_path / "again") == csvs(tmp_path / "out")
