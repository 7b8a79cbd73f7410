"""Runs that are stopped by the Python API go on to the same tables; what a checkpoint needs and what it refuses."""

import json
import os
import shutil
import tomllib
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
from conftest import tiny, tiny_table
from interrupting import HIDDEN_STATE, StopAt, assert_same_tables, interrupted

import wirelessdl
from wirelessdl.analysis.verify import verify
from wirelessdl.errors import ContractError, TraceError
from wirelessdl.run import session
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.checkpoint import VERSION, load_checkpoint
from wirelessdl.trace.files import RunLock, is_locked


@pytest.fixture
def whole(finished, here):
    """A run to compare with; the working folder holds the same scenario."""
    assert Path.cwd() == here
    return finished


@pytest.mark.parametrize("round", [1, 30, 99])
def test_stopped_at_any_round_goes_on_to_the_same_tables(round, whole):
    run = interrupted(round)
    assert_same_tables(wirelessdl.resume(run).path, whole)


@pytest.mark.parametrize("stopped", [1, 2])
def test_shuffled_epochs_go_on_from_before_the_first_gradient_is_sent(stopped, tmp_path):
    scenario = tiny(scenario={"rounds": 4}, learning={"sampling": "shuffled"})
    whole, stop = wirelessdl.simulate(scenario, out=tmp_path / "whole"), StopAt(stopped)
    part = wirelessdl.simulate(scenario, out=tmp_path / "part", on_round=stop.on_round, should_stop=stop.should_stop)
    assert verify(part.path).problems == ()
    assert_same_tables(wirelessdl.resume(part.path).path, whole.path)


def test_parts_written_after_the_checkpoint_are_discarded(whole):
    run = interrupted(60)
    for name in ("rounds", "nodes"):  # as a process that was killed between checkpoint and end leaves them
        shutil.copy(run / name / "part-000060.parquet", run / name / "part-000085.parquet")
    (run / "links" / ".part-000085.parquet.0a1b2c3d").write_bytes(b"half")
    assert_same_tables(wirelessdl.resume(run).path, whole)
    assert not list(run.glob("*/.part*"))


@pytest.mark.usefixtures("here")
def test_a_checkpoint_holds_no_pickle_and_its_version():
    kept = load_checkpoint(interrupted(20))
    assert kept.facts["schema"] == VERSION
    assert all(values.dtype != object for values in kept.arrays.values())
    assert json.dumps(kept.facts)


@pytest.mark.usefixtures("here")
def test_changes_are_refused_before_the_first_checkpoint_too():
    run = interrupted(20)
    shutil.rmtree(run / "checkpoint")
    with pytest.raises(TraceError, match=r"privacy.epsilon_max was 1.0, is 4.0; scenario.seed was 3, is 9"):
        wirelessdl.resume(run, overrides=["privacy.epsilon_max=4.0", "scenario.seed=9"])


def test_two_damaged_checkpoints_do_not_start_over_unasked(whole):
    run = interrupted(60)
    for path in (run / "checkpoint").iterdir():
        path.write_bytes(b"")
    with pytest.raises(TraceError, match="no checkpoint in it is whole; remove the folder to start the run over"):
        wirelessdl.resume(run)
    assert len(wirelessdl.open_run(run).rounds) == 60
    shutil.rmtree(run / "checkpoint")
    assert_same_tables(wirelessdl.resume(run).path, whole)


@pytest.mark.parametrize(
    ("key", "source"),
    [
        ("time.compute", "class Odd:\n  def duration_s(self, node, round):\n    return random.random() / 1000\n"),
        (
            "learning.partition",
            "class Odd:\n  def split(self, labels, nodes, rng):\n"
            "    return np.array_split(np.random.default_rng().permutation(len(labels)), nodes)\n",
        ),
        (
            "network.topology",
            "class Odd:\n  def links(self, geometry, snr_db, rng):\n    mask = np.ones((5, 5), bool)\n"
            "    i, j = 1 + np.array(np.nonzero(~np.eye(4, dtype=bool)))[:, random.sample(range(12), 6)]\n"
            "    mask[i, j] = False\n"  # as many links every time: frames last as long
            "    return Links.from_mask(mask, geometry)\n",
        ),
    ],
)
def test_other_parts_that_are_not_deterministic_are_named(key, source, here):
    (here / "odd.py").write_text(f"import random\nimport numpy as np\nfrom wirelessdl import Links\n{source}")
    section, _, name = key.partition(".")
    table = tomllib.loads((here / "tiny.toml").read_text())
    table.setdefault(section, {})[name] = "odd.py:Odd"
    (here / "tiny.toml").write_text(tomli_w.dumps(table))
    run = interrupted(20)
    with pytest.raises(ContractError, match=f"^{key} gave other values"):
        wirelessdl.resume(run)


@pytest.mark.usefixtures("here")
def test_extending_repeats_no_event():
    """Paper protocol with a long guard: gradients end while the last frame's guard still runs."""
    table = tiny_table(
        scenario={"rounds": 30},
        radio={"power_dbm": 30, "thermal_noise": False, "guard_s": 0.01},
        privacy={"protocol": "paper", "clipping": "batch"},
        power={"balance": False, "alpha_min": 1e-6},
        time={"compute": {"kind": "constant", "seconds": 0.018}},
    )
    Path("tiny.toml").write_text(tomli_w.dumps(table))
    short = wirelessdl.simulate(load_scenario("tiny.toml"))
    long = wirelessdl.simulate(load_scenario("tiny.toml", overrides=["scenario.rounds=36"]), out="long")
    assert_same_tables(wirelessdl.resume(short.path, rounds=36).path, long.path)


def test_a_checkpoint_of_another_version_is_refused(here, monkeypatch):
    monkeypatch.setattr("wirelessdl.trace.checkpoint.VERSION", 0)
    run = interrupted(20)
    monkeypatch.undo()
    os.chdir(here)
    with pytest.raises(TraceError, match=f"checkpoint of schema 0, this version reads {VERSION}"):
        wirelessdl.resume(run)


# --- Who may go on with a run, with what changes, and what `list` says of it


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


# --- Two processes that go on with one run: one of them writes, and nothing that either finished is lost


@pytest.fixture
def run(tmp_path):
    """Interrupted in round 3 of 5."""
    stop = StopAt(3)
    scenario = tiny(scenario={"rounds": 5})
    return wirelessdl.simulate(scenario, out=tmp_path, on_round=stop.on_round, should_stop=stop.should_stop).path


def meanwhile(monkeypatch, name, other):
    """Let `other` happen when a resume comes to one of its steps."""
    step, begun = getattr(session, name), []

    def first(*arguments, **options):
        if not begun:
            begun.append(name)
            other()
        return step(*arguments, **options)

    monkeypatch.setattr(session, name, first)
    return begun


@pytest.mark.parametrize("step", ["load_checkpoints", "build", "sound_checkpoint"])
def test_a_run_is_locked_from_the_first_look_at_its_checkpoints(step, run, monkeypatch):
    """Its checkpoints were read, its lock let go, and what another process finished in between was discarded."""
    refused = []

    def other():
        with pytest.raises(TraceError, match="is being written by process") as caught:
            wirelessdl.resume(run, rounds=9)
        refused.append(str(caught.value))

    meanwhile(monkeypatch, step, other)
    assert wirelessdl.resume(run).summary["rounds"] == 5
    assert len(refused[0].splitlines()) == 1
    assert not is_locked(run)
    assert not (run / "lock").exists()


@pytest.mark.parametrize("rounds", [None, 7])
def test_what_another_process_finished_before_the_lock_was_taken_is_kept(rounds, run, monkeypatch):
    begun = meanwhile(monkeypatch, "require_writable", lambda: wirelessdl.resume(run, rounds=9))
    short = pytest.raises(TraceError, match="rounds is 7; must be at least 9") if rounds else nullcontext()
    with short:
        wirelessdl.resume(run, rounds=rounds)
    assert begun
    found = wirelessdl.open_run(run)
    assert (found.summary["rounds"], found.provenance["state"]) == (9, "done")


@pytest.mark.parametrize("error", [TraceError("no"), KeyboardInterrupt()])
def test_a_resume_that_fails_while_building_lets_go_of_the_lock(error, run, monkeypatch):
    def fails():
        raise error

    with monkeypatch.context() as patch:
        meanwhile(patch, "build", fails)
        with pytest.raises(type(error)):
            wirelessdl.resume(run)
    assert not is_locked(run)
    assert wirelessdl.resume(run).summary["rounds"] == 5
