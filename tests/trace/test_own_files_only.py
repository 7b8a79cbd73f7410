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


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "RUN", "--out", "RUN/scenario.toml"],
        ["report", "RUN", "--out", "RUN/summary.json"],
        ["report", "RUN", "--out", "RUN/second.html"],
        ["report", "RUN", "--out", "RUN/rounds/report.html"],
        ["report", "RUN", "--csv", "RUN"],
        ["report", "RUN", "--tensorboard", "RUN/tb"],
        ["plot", "RUN", "--figure", "accuracy", "--out", "RUN/rounds/x.pdf"],
        ["plot", "RUN", "--figure", "accuracy", "--out", "LINK/x.pdf"],
        ["channel", "SCENARIO", "--figure", "RUN/x.pdf"],
        ["channel", "SCENARIO", "--export", "RUN/x.parquet"],
        ["run", "SCENARIO", "--out", "RUN"],
        ["run", "SCENARIO", "--out", "RUN/rounds"],
        ["sweep", "SCENARIO", "--out", "RUN/study"],
    ],
)
def test_a_command_that_would_write_into_a_run_refuses_and_writes_nothing(arguments, run, tmp_path):
    (tmp_path / "link").symlink_to(run)
    names = {"RUN": str(run), "LINK": str(tmp_path / "link"), "SCENARIO": str(write_quick(tmp_path))}
    before = files_of(run)
    for name, path in names.items():
        arguments = [argument.replace(name, path) for argument in arguments]
    done = command_line(*arguments)
    assert done.code == 2, done.err
    assert len(done.err.splitlines()) == 1
    said = ("name one that ends in .html", f"{run}: is a run", f"lies in the run {run}")
    assert any(words in done.err for words in said)
    assert files_of(run) == before


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


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return run_study(tmp_path_factory.mktemp("studies"), {"network.nodes": [3]}, seeds=(3,))


@pytest.mark.parametrize(
    "arguments",
    [
        ["channel", "SCENARIO", "--export", "STUDY/index.parquet"],
        ["channel", "SCENARIO", "--export", "STUDY/runs/x.npz"],
        ["plot", "STUDY", "--x", "nodes", "--out", "STUDY/runs/x.pdf"],
        ["report", "STUDY", "--out", "STUDY/runs/report.html"],
        ["run", "SCENARIO", "--out", "STUDY/runs"],
    ],
    ids=" ".join,
)
def test_a_command_that_would_write_over_a_studys_own_files_refuses_and_writes_nothing(arguments, study, tmp_path):
    names = {"STUDY": str(study), "SCENARIO": str(write_quick(tmp_path))}
    before = files_of(study)
    for name, path in names.items():
        arguments = [argument.replace(name, path) for argument in arguments]
    done = command_line(*arguments)
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
    assert f"belongs to the study {study}; choose another place" in done.err
    assert files_of(study) == before


def test_figures_reports_and_reports_of_its_runs_may_lie_in_a_study(study):
    (run,) = (study / "runs").glob("c*")
    assert command_line("plot", str(study), "--x", "nodes", "--out", str(study / "x.png")).code == 0
    assert command_line("report", str(study)).code == 0
    assert command_line("report", str(run)).code == 0
    assert (run / "report.html").is_file()
