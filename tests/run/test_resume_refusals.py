"""Who may go on with a run, with what changes, and what `list` says of it."""

import json
import os

import numpy as np
import pandas as pd
import pytest
from interrupting import HIDDEN_STATE, assert_same_tables, interrupted, write_scenario

import wirelessdl
from wirelessdl.errors import ContractError, TraceError
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.files import RunLock, is_locked


@pytest.fixture
def here(tmp_path, monkeypatch):
    write_scenario(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_finished_run_is_left_alone_and_may_be_extended(here, wirelessdl_command):
    os.chdir(here)
    long = wirelessdl.simulate(load_scenario("tiny.toml", overrides=["scenario.rounds=140"]), out="long").path
    run = wirelessdl.simulate(load_scenario("tiny.toml"))
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.is_file()}
    result = wirelessdl_command("run", "--resume", str(run.path))
    assert (result.code, result.out) == (0, "outputs/tiny-s3-r1 is finished; --rounds extends it\n")
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.is_file()} == before
    assert wirelessdl_command("run", "--resume", str(run.path), "--rounds", "140", "--quiet").code == 0
    assert_same_tables(run.path, long)


def test_what_would_change_results_is_refused_with_its_keys(here, wirelessdl_command):
    os.chdir(here)
    run = str(interrupted(20))

    def refused(*arguments):
        result = wirelessdl_command("run", "--resume", run, *arguments)
        assert result.code == 2
        assert len(result.err.strip().splitlines()) == 1
        return result.err

    assert "privacy.epsilon_max was 1.0, is 2.0; start a new run" in refused("--set", "privacy.epsilon_max=2.0")
    assert "scenario.seed was 3, is 4" in refused("--seed", "4", "--force")
    assert "learning.eval_every was 10, is 5; --force goes on" in refused("--set", "learning.eval_every=5")
    assert "rounds is 10; must be at least 100, as many as the run was started with: its privacy total" in refused(
        "--rounds", "10"
    )
    (here / "drift.py").write_text(HIDDEN_STATE.replace("0.9", "0.8"))
    assert "user_files.drift.py was " in refused("--force")
    (here / "drift.py").unlink()  # the copy in the run directory will do
    assert wirelessdl_command("run", "--resume", run, "--quiet", "--set", "learning.eval_every=5", "--force").code == 0


def test_resuming_a_file_is_refused_as_such(here, wirelessdl_command):
    (here / "mine.toml").touch()
    done = wirelessdl_command("run", "--resume", str(here / "mine.toml"))
    assert done.code == 2
    assert "mine.toml: is a file, not a run directory; name a folder that `wirelessdl run` made" in done.err


@pytest.mark.usefixtures("here")
def test_other_threads_are_refused_unless_forced(monkeypatch):
    run = interrupted(20)
    monkeypatch.setattr("wirelessdl.run.session.threads", lambda: 64)
    with pytest.raises(TraceError, match=r"threads was \d+, is 64; --force goes on, but not to bit-identical tables"):
        wirelessdl.resume(run)
    assert wirelessdl.resume(run, force=True).summary["rounds"] == 100


@pytest.mark.usefixtures("here")
def test_two_processes_do_not_write_one_run():
    run = interrupted(20)
    with RunLock(run), pytest.raises(TraceError, match=rf"is being written by process {os.getpid()} on"):
        wirelessdl.resume(run)
    (run / "lock").write_text("process 1 on a machine that lost power")
    assert not is_locked(run)
    assert wirelessdl.resume(run).summary["rounds"] == 100


@pytest.mark.usefixtures("here")
def test_a_run_is_read_while_it_goes_on():
    seen = []

    def look(round):
        if round == 75:
            run = wirelessdl.open_run("outputs/tiny-s3-r1")
            seen.append((len(run.rounds), run.summary, is_locked(run.path)))
            assert len(pd.read_parquet(run.path / "links"))

    wirelessdl.simulate(load_scenario("tiny.toml"), on_round=look)
    assert seen == [(60, {}, True)]  # parts at 25, 30, 55, 60: a checkpoint flushes


def test_list_shows_how_runs_stand(here, wirelessdl_command):
    os.chdir(here)
    interrupted(20)
    wirelessdl.simulate(load_scenario("tiny.toml", overrides=["scenario.name=whole"]))
    (here / "drift.py").write_text("class Drift:\n  n = 0\n  def gain(self, links, t, rng):\n    self.n += 1\n"
                                   "    return links.distance_m / (0 if self.n > 30 else 1)\n")  # fmt: skip
    with np.errstate(divide="ignore"), pytest.raises(ContractError):
        wirelessdl.simulate(load_scenario("tiny.toml", overrides=["scenario.name=broken"]))
    listed = {
        run["name"]: run for run in map(json.loads, wirelessdl_command("list", "outputs", "--json").out.splitlines())
    }
    states = {name: (run["state"], run["round"], run["rounds"]) for name, run in listed.items()}
    assert states == {
        "tiny-s3-r1": ("interrupted", 20, 100),
        "whole-s3-r1": ("done", 100, 100),
        "broken-s3-r1": ("failed", 30, 100),
    }
    assert "drift.py:Drift.gain returned inf" in listed["broken-s3-r1"]["error"]
    assert 0 < listed["whole-s3-r1"]["accuracy"] < 1
    with RunLock(here / "outputs" / "tiny-s3-r1"):
        shown = wirelessdl_command("list", "outputs").out
    assert "running" in shown
    assert "failed" in shown
    assert wirelessdl_command("list", "nowhere").code == 2
