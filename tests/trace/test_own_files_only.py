"""A run directory holds what the run wrote, and a report: commands that would write anything else into it refuse."""

import shutil

import pytest
from conftest import command_line
from in_process import quick_table, write_quick
from studies import run_study

import wirelessdl
from wirelessdl.errors import TraceError
from wirelessdl.scenario.loader import parse_scenario


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from wirelessdl.run.session import simulate

    return simulate(parse_scenario(quick_table()), out=tmp_path_factory.mktemp("runs"), device="cpu").path


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return run_study(tmp_path_factory.mktemp("studies"), {"network.nodes": [3]}, seeds=(3,))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("report RUN --out RUN/scenario.toml", "name one that ends in .html"),
        ("report RUN --out RUN/second.html", "lies in the run RUN"),
        ("report RUN --out RUN/rounds/report.html", "lies in the run RUN"),
        ("report RUN --csv RUN", "RUN: is a run"),
        ("report RUN --tensorboard RUN/tb", "lies in the run RUN"),
        ("plot RUN --figure accuracy --out LINK/x.pdf", "lies in the run RUN"),
        ("channel SCENARIO --figure RUN/x.pdf", "lies in the run RUN"),
        ("channel SCENARIO --export RUN/x.parquet", "lies in the run RUN"),
        ("run SCENARIO --out RUN", "RUN: is a run"),
        ("sweep SCENARIO --out RUN/study", "lies in the run RUN"),
        ("channel SCENARIO --export STUDY/index.parquet", "belongs to the study STUDY"),
        ("plot STUDY --x nodes --out STUDY/runs/x.pdf", "belongs to the study STUDY"),
        ("report STUDY --out STUDY/runs/report.html", "belongs to the study STUDY"),
        ("run SCENARIO --out STUDY/runs", "belongs to the study STUDY"),
    ],
)
def test_a_command_that_would_write_into_a_run_or_over_a_study_refuses(command, words, run, study, tmp_path):
    (tmp_path / "link").symlink_to(run)
    names = {"RUN": run, "STUDY": study, "LINK": tmp_path / "link", "SCENARIO": write_quick(tmp_path)}
    before = files_of(run), files_of(study)
    for name, path in names.items():
        command, words = command.replace(name, str(path)), words.replace(name, str(path))
    done = command_line(*command.split())
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
    assert words in done.err
    assert (files_of(run), files_of(study)) == before


def test_python_writes_into_a_run_no_more_than_the_command_line(run, tmp_path):
    before, opened = files_of(run), wirelessdl.open_run(run)
    for write in (
        lambda: opened.to_csv(run / "csv"),
        lambda: wirelessdl.simulate(str(write_quick(tmp_path)), out=run / "more"),
        lambda: wirelessdl.sweep(str(write_quick(tmp_path)), out=run / "more"),
    ):
        with pytest.raises(TraceError, match="lies in the run"):
            write()
    assert files_of(run) == before


def test_a_report_in_its_run_and_runs_beside_a_scenario_are_allowed(run, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    assert command_line("report", str(copy), "--out", str(copy / "report.html")).code == 0
    assert command_line("verify", str(copy)).code == 0
    monkeypatch.chdir(tmp_path)
    write_quick(tmp_path).rename("scenario.toml")  # a user's scenario may be called that
    done = command_line("run", "scenario.toml", "--out", ".", "--quiet")
    assert done.code == 0, done.err


def test_figures_reports_and_reports_of_its_runs_may_lie_in_a_study(study):
    (run,) = (study / "runs").glob("c*")
    assert command_line("plot", str(study), "--x", "nodes", "--out", str(study / "x.png")).code == 0
    assert command_line("report", str(study)).code == 0
    assert command_line("report", str(run)).code == 0
    assert (run / "report.html").is_file()
