"""Runs that are stopped by the Python API go on to the same tables; what a checkpoint needs and what it refuses."""

import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest
import tomli_w
from conftest import tiny_table
from interrupting import HIDDEN_STATE, StopAt, assert_same_tables, interrupted, write_scenario

import wirelessdl
from wirelessdl.errors import ContractError, TraceError
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.checkpoint import VERSION, load_checkpoint


@pytest.fixture
def here(tmp_path, monkeypatch):
    write_scenario(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The run of 100 rounds that nothing happened to."""
    folder = tmp_path_factory.mktemp("finished")
    write_scenario(folder)
    return wirelessdl.simulate(load_scenario(folder / "tiny.toml"), out=folder).path


@pytest.fixture
def whole(finished, here):
    """A run to compare with; the working folder holds the same scenario."""
    assert Path.cwd() == here
    return finished


@pytest.mark.parametrize("round", [1, 30, 99])
def test_stopped_at_any_round_goes_on_to_the_same_tables(round, whole):
    run = interrupted(round)
    assert_same_tables(wirelessdl.resume(run).path, whole)


def test_a_run_may_be_stopped_again_and_again(whole):
    run = interrupted(20)
    for round in (40, 61, 83):
        stop = StopAt(round)
        stopped = wirelessdl.resume(run, on_round=stop.on_round, should_stop=stop.should_stop)
        assert stopped.state == "interrupted"
    assert_same_tables(wirelessdl.resume(run).path, whole)
    assert len(wirelessdl.open_run(run).provenance["resumed"]) == 4


def test_parts_written_after_the_checkpoint_are_discarded(whole):
    run = interrupted(60)
    for name in ("rounds", "nodes"):  # as a process that was killed between checkpoint and end leaves them
        shutil.copy(run / name / "part-000060.parquet", run / name / "part-000085.parquet")
    (run / "links" / ".part-000085.parquet").write_bytes(b"half")
    assert_same_tables(wirelessdl.resume(run).path, whole)
    assert not list(run.glob("*/.part*"))


def test_a_damaged_checkpoint_falls_back_to_the_one_before(whole):
    run = interrupted(60)
    kept = sorted((run / "checkpoint").iterdir())
    assert [path.name for path in kept] == ["round-000030.npz", "round-000060.npz"]
    kept[1].write_bytes(kept[1].read_bytes()[:1000])
    assert_same_tables(wirelessdl.resume(run).path, whole)


def test_a_run_without_a_checkpoint_starts_over(whole):
    run = interrupted(20)
    shutil.rmtree(run / "checkpoint")
    assert_same_tables(wirelessdl.resume(run).path, whole)


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
    Path("drift.py").write_text(HIDDEN_STATE.replace("0.9", "0.8"))
    with pytest.raises(TraceError, match=r"user_files.drift.py was"):
        wirelessdl.resume(run)


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
            "    a, b = random.sample(range(5), 2)\n    mask[a, b] = False\n"
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
    told = ""
    for _ in range(10):  # a random graph may come out the same
        stop = StopAt(21)
        try:
            wirelessdl.resume(run, on_round=stop.on_round, should_stop=stop.should_stop)
        except ContractError as error:
            told = str(error)
            break
        shutil.rmtree(run)
        run = interrupted(20)
    assert told.startswith(f"{key} gave other values")


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


@pytest.mark.usefixtures("here")
def test_resume_looks_at_the_parts_it_keeps():
    run = interrupted(60)
    (run / "rounds" / "notes.txt").write_text("mine")
    with pytest.raises(TraceError, match=r"notes.txt: foreign file.*the run cannot go on"):
        wirelessdl.resume(run)
    (run / "rounds" / "notes.txt").unlink()
    (run / "nodes" / "part-000030.parquet").unlink()
    with pytest.raises(TraceError, match=r"nodes: rounds 26 to 30 are missing"):
        wirelessdl.resume(run)


def test_a_run_of_an_absolute_model_path_resumes_from_its_copy(here):
    table = tomllib.loads((here / "tiny.toml").read_text())
    table["channel"]["models"][2]["model"] = f"{here}/drift.py:Drift"
    (here / "tiny.toml").write_text(tomli_w.dumps(table))
    run = interrupted(20)
    (here / "drift.py").unlink()
    assert wirelessdl.resume(run).summary["rounds"] == 100


@pytest.mark.usefixtures("here")
def test_wall_clock_and_origin_span_all_sessions():
    run = interrupted(60)
    before = wirelessdl.open_run(run).provenance
    after = wirelessdl.resume(run)
    assert after.summary["wall_s"] > before["wall_s"]
    assert {key: after.provenance[key] for key in ("started", "folder", "command")} == {
        key: before[key] for key in ("started", "folder", "command")
    }


def test_a_checkpoint_of_another_version_is_refused(here, monkeypatch):
    monkeypatch.setattr("wirelessdl.trace.checkpoint.VERSION", 0)
    run = interrupted(20)
    monkeypatch.undo()
    os.chdir(here)
    with pytest.raises(TraceError, match=f"checkpoint of schema 0, this version reads {VERSION}"):
        wirelessdl.resume(run)
