"""Runs in memory: whose they are, and how they are kept."""

import copy
import os
import pickle
import shutil

import pytest
from in_process import quick_table

import wirelessdl
from wirelessdl import TraceError
from wirelessdl.analysis.verify import verify
from wirelessdl.api.run import Keeper
from wirelessdl.scenario.loader import parse_scenario


@pytest.fixture(scope="module")
def run():
    return wirelessdl.simulate(parse_scenario(quick_table()), out=None)


def test_a_forked_process_does_not_remove_what_its_parent_holds():
    keeper = Keeper()
    child = os.fork()
    if child == 0:
        keeper.remove()  # as at the end of a process
        os._exit(0)
    os.waitpid(child, 0)
    assert keeper.folder.is_dir()
    keeper.remove()
    assert not keeper.folder.exists()


def test_a_run_in_memory_cannot_be_sent_to_another_process_but_a_saved_one_can(run, tmp_path):
    with pytest.raises(TraceError, match="save it into a folder first"):
        pickle.dumps(run)
    assert len(copy.deepcopy(run).rounds) == 2
    saved = pickle.loads(pickle.dumps(run.save(tmp_path / "new" / "copy")))
    assert saved.rounds.equals(run.rounds)
    assert not verify(saved.path).problems
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["copy"]
    with pytest.raises(TraceError, match="is there already"):
        run.save(tmp_path / "new" / "copy")


@pytest.mark.parametrize("within", ["copy", "rounds/copy"])
def test_a_run_is_not_saved_into_itself(within, run):
    with pytest.raises(TraceError, match="lies in the run"):
        run.save(run.path / within)
    assert not verify(run.path).problems


def test_a_copy_that_fails_leaves_nothing(run, tmp_path, monkeypatch):
    def full(_, target, **__):
        target.mkdir(parents=True)
        (target / "scenario.toml").touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(TraceError, match="No space left"):
        run.save(tmp_path / "new" / "copy")
    assert list((tmp_path / "new").iterdir()) == []
