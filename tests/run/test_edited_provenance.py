"""Versions, device, threads and times in provenance.json that somebody edited: one line, never a traceback."""

import json
import shutil

import pytest
from conftest import command_line, tiny
from interrupting import StopAt, assert_same_tables

import wirelessdl
from wirelessdl.trace.sink import Checksums


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run and one that was interrupted, of one scenario."""
    folder, stop = tmp_path_factory.mktemp("runs"), StopAt(25)
    scenario = tiny(scenario={"rounds": 45}, trace={"checkpoint_every": 20, "flush_every": 20})
    whole = wirelessdl.simulate(scenario, out=folder / "whole").path
    part = wirelessdl.simulate(scenario, out=folder / "part", on_round=stop.on_round, should_stop=stop.should_stop)
    assert part.state == "interrupted"
    return whole, part.path


def edited(run, folder, **changes):
    """A copy whose provenance.json has other entries."""
    copy = shutil.copytree(run, folder / run.name)
    content = json.loads((copy / "provenance.json").read_text())
    (copy / "provenance.json").write_text(json.dumps({**content, **changes}))
    return copy


EDITS = {
    "another version": {"packages": {"numpy": "9.9", "torch": "9.9"}},
    "packages as a list": {"packages": ["numpy", 2]},
    "escape sequences": {"wirelessdl": "\x1b[31m9.9"},
}


@pytest.mark.parametrize("changes", EDITS.values(), ids=EDITS)
def test_commands_that_look_at_a_finished_run_with_other_versions_say_so(runs, changes, tmp_path):
    run = edited(runs[0], tmp_path, **changes)
    verified = command_line("verify", str(run))
    assert verified.code == 1
    assert "provenance.json: differs from its checksum" in verified.out
    for words in (("report", str(run)), ("compare", str(run), str(runs[0])), ("run", "--resume", str(run))):
        done = command_line(*words)
        assert done.code in (0, 2), (words, done)
        assert len(done.err.splitlines()) == 1, (words, done)
        assert "provenance.json" in done.err
        assert done.err.startswith("warning: " if done.code == 0 else "TraceError: ")
    assert command_line("list", str(tmp_path)).code == 0


def test_going_on_with_a_finished_run_gives_no_edit_a_checksum(runs, tmp_path):
    """One that says it is not done was written anew, with whatever else it said."""
    run = edited(runs[0], tmp_path, state="running", wirelessdl="9.9")
    assert command_line("run", "--resume", str(run)).code == 2
    assert "provenance.json: differs from its checksum" in command_line("verify", str(run)).out


def test_a_forced_process_that_was_killed_before_it_saved_goes_on(runs, tmp_path, monkeypatch):
    """Its provenance has today's versions, its checkpoint those of before."""
    run = edited(runs[1], tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("wirelessdl.run.session.threads", lambda: 64)
        stop = StopAt(26)
        gone_on = wirelessdl.resume(run, force=True, on_round=stop.on_round, should_stop=stop.should_stop)
        assert gone_on.state == "interrupted"
    shutil.rmtree(run / "checkpoint")
    shutil.copytree(runs[1] / "checkpoint", run / "checkpoint")
    with monkeypatch.context() as patch:
        patch.setattr("wirelessdl.run.session.threads", lambda: 64)
        assert "threads was 1, is 64" in command_line("run", "--resume", str(run)).err
        assert_same_tables(wirelessdl.resume(run, force=True).path, runs[0])


def unlisted(run, name):
    """As a process leaves it that is killed after it wrote a file and before it listed it."""
    lines = [line for line in (run / "checksums.txt").read_text().splitlines() if not line.endswith(f"  {name}")]
    (run / "checksums.txt").write_text("".join(f"{line}\n" for line in lines))


def test_a_checkpoint_that_a_killed_process_did_not_list_is_listed(runs, tmp_path):
    """Found by kills, pairwise: the finished run had a file that verify did not know."""
    run = edited(runs[1], tmp_path)
    (newest,) = (run / "checkpoint").glob("round-000025.npz")
    unlisted(run, f"checkpoint/{newest.name}")
    assert command_line("run", "--resume", str(run), "--quiet").code == 0
    assert command_line("verify", str(run)).code == 0
    assert_same_tables(run, runs[0])


@pytest.mark.parametrize("last_word", [False, True])
def test_last_figures_and_last_words_that_a_killed_process_did_not_list_are_listed(last_word, runs, tmp_path):
    """Killed before it listed its summary, or before it listed that it is done."""
    run = edited(runs[0], tmp_path, state="running")
    Checksums(run).wrote(run / "provenance.json")
    if last_word:
        shutil.copy(runs[0] / "provenance.json", run / "provenance.json")
    else:
        unlisted(run, "summary.json")
    for command, code in (("verify", 1), ("run --resume", 0), ("verify", 0)):
        assert command_line(*command.split(), str(run)).code == code
