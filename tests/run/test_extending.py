"""Extensions that are interrupted, whenever: they end where others end, and say that they are extensions."""

import shutil

import pytest
from conftest import tiny
from interrupting import StopAt, assert_same_tables

import wirelessdl
from wirelessdl.errors import RunInterrupted
from wirelessdl.run.session import resume, simulate
from wirelessdl.trace import files


class Killed(BaseException):
    """Stands for a kill: nothing is written from here on."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that its rule stopped in round 30 of 60, and the same extended to 200, which stops in round 60.

    Three evaluations are always within the band. Checkpoints after rounds 20, 30, 50, 60; a silent network is quick.
    """
    folder = tmp_path_factory.mktemp("stopped")
    scenario = tiny(
        scenario={"rounds": 60},
        network={"topology": "none"},
        learning={"eval_every": 10, "stop_after": 3, "stop_within": 1.0},
        trace={"checkpoint_every": 20, "flush_every": 20},
    )
    run = simulate(scenario, out=folder)
    assert run.summary["stopped"] == 30
    whole = shutil.copytree(run.path, folder / "whole")
    assert resume(whole, rounds=200).summary["stopped"] == 60
    return run.path, whole


@pytest.fixture
def copy(stopped, tmp_path):
    return shutil.copytree(stopped[0], tmp_path / "run")


@pytest.mark.parametrize("rounds", [(33,), (40,), (45, 55)])
def test_a_stopped_run_that_is_extended_and_interrupted_ends_in_the_same_round(rounds, stopped, copy):
    for number, round in enumerate(rounds):
        stop = StopAt(round)
        with pytest.raises(RunInterrupted):
            resume(copy, rounds=None if number else 200, on_round=stop.on_round, should_stop=stop.should_stop)
    assert_same_tables(resume(copy).path, stopped[1])


@pytest.mark.parametrize("round", [33, 45, 55])
def test_a_stopped_run_that_is_extended_and_killed_ends_in_the_same_round(round, stopped, copy):
    def kill(now):
        if now == round:
            raise Killed

    with pytest.raises(Killed):
        resume(copy, rounds=200, on_round=kill)
    assert_same_tables(resume(copy).path, stopped[1])


def test_a_run_that_was_extended_to_a_stop_stays_at_rest_and_is_extended_again(stopped, tmp_path):
    run = shutil.copytree(stopped[1], tmp_path / "run")
    (run / "summary.json").unlink()  # as if killed before the end was written
    assert resume(run).summary["stopped"] == 60
    stop = StopAt(75)
    with pytest.raises(RunInterrupted):
        resume(run, rounds=300, on_round=stop.on_round, should_stop=stop.should_stop)
    again = resume(run)
    assert again.summary["stopped"] == 90
    assert again.provenance["extended"] == [60, 200]


def test_a_stop_counts_where_its_checkpoint_is_damaged(copy, stopped):
    (copy / "checkpoint" / "round-000030.npz").write_bytes(b"")
    assert_same_tables(resume(copy, rounds=200).path, stopped[1])


# --- killed while it says that it is extended


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A run of two rounds."""
    return wirelessdl.simulate(tiny(), out=tmp_path_factory.mktemp("short")).path


@pytest.mark.parametrize("saved", [True, False], ids=["with checkpoints", "before the first checkpoint"])
@pytest.mark.parametrize("documents", range(4))
def test_an_extension_that_is_killed_between_two_documents_is_still_one(documents, saved, short, tmp_path, monkeypatch):
    """provenance.json, scenario.toml: the first of them to say 5 rounds must not hide that there were to be 2."""
    run = shutil.copytree(short, tmp_path / "run")
    if not saved:
        shutil.rmtree(run / "checkpoint")
        (run / "summary.json").unlink()
    written = []

    def whole(path, write, real=files.write_whole):
        if len(written) == documents:
            raise Killed
        real(path, write)
        written.append(path.name)

    with monkeypatch.context() as patch:
        patch.setattr("wirelessdl.trace.files.write_whole", whole)
        with pytest.raises(Killed):
            wirelessdl.resume(run, rounds=5)
    again = wirelessdl.resume(run)
    assert again.summary["rounds"] == (5 if "scenario.toml" in written else 2)
    assert warned(again) == ("scenario.toml" in written)
    longer = wirelessdl.resume(run, rounds=6)
    assert warned(longer)
    assert longer.provenance["extended"] == ([2, 5] if "scenario.toml" in written else [2])


def warned(run):
    return any("was extended from 2 to" in line for line in run.summary["warnings"])
