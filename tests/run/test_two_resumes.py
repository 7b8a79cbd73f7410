"""Two processes that go on with one run: one of them writes, and nothing that either finished is lost."""

import pytest
from conftest import tiny
from interrupting import StopAt

import wirelessdl
from wirelessdl.errors import TraceError
from wirelessdl.run import session
from wirelessdl.trace.files import is_locked


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


def test_what_another_process_finished_before_the_lock_was_taken_is_kept(run, monkeypatch):
    begun = meanwhile(monkeypatch, "require_writable", lambda: wirelessdl.resume(run, rounds=9))
    found = wirelessdl.resume(run)
    assert begun
    assert found.summary["rounds"] == 9
    assert found.provenance["state"] == "done"


def test_what_another_process_extended_before_the_lock_was_taken_is_not_cut_short(run, monkeypatch):
    meanwhile(monkeypatch, "require_writable", lambda: wirelessdl.resume(run, rounds=9))
    with pytest.raises(TraceError, match="rounds is 7; must be at least 9"):
        wirelessdl.resume(run, rounds=7)
    assert wirelessdl.open_run(run).summary["rounds"] == 9


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
