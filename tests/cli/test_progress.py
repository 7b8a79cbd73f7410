"""What a run shows on the way: a bar, plain lines or JSON; and a terminal that goes away."""

import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT, mostly_slow
from rich.console import Console

from wirelessdl.cli import progress
from wirelessdl.cli.progress import run_listener
from wirelessdl.cli.sweep import study_listener
from wirelessdl.run.recorder import Progress
from wirelessdl.trace.catalog import state_of
from wirelessdl.trace.checkpoint import checkpoint_round

PATIENCE_S = 300.0


def evaluation(round: int, coalition: int | None = None) -> Progress:
    return Progress(
        round=round,
        rounds=40,
        time_s=0.25 * round,
        accuracy_mean=0.615,
        accuracy_min=0.5,
        accuracy_max=0.7,
        loss_mean=1.2,
        epsilon_total=2.34,
        epsilon_bound=2.5,
        coalition=coalition,
        epsilon_own_total=3.45,
        epsilon_own_bound=3.6,
    )


def shown(*, terminal: bool, as_json: bool = False, width: int = 120, coalition: int | None = None) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, highlight=False)
    with run_listener(console, done=0, rounds=40, as_json=as_json) as listen:
        for round in range(1, 21):
            listen.on_round(round)
            time.sleep(0.01)
            if round % 10 == 0:
                listen.on_evaluation(evaluation(round, coalition))
    return console.file.getvalue()


def test_the_bar_shows_round_accuracy_epsilon_time_rate_and_what_remains():
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown(terminal=True)).rstrip().splitlines()[-1]
    for words in ("20/40", "accuracy 61.5%", "epsilon 2.34 against all other nodes", "5.00 s simulated"):
        assert words in last
    assert re.search(r"\d rounds/s", last)
    assert re.search(r"\d\d:\d\d$", last.strip())


def test_the_bar_keeps_to_one_line_of_a_narrow_terminal():
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown(terminal=True, width=80))
    assert all(len(line) <= 80 for line in re.split(r"[\r\n]", plain))
    assert "accuracy 61.5%" in plain


def test_elsewhere_there_is_a_plain_line_for_each_evaluation():
    assert shown(terminal=False).splitlines() == [
        "round 10/40  accuracy 61.5%, epsilon 2.34 against all other nodes, 2.50 s simulated",
        "round 20/40  accuracy 61.5%, epsilon 2.34 against all other nodes, 5.00 s simulated",
    ]


def test_a_pipe_is_silent_for_at_most_ten_seconds(monkeypatch):
    """Ten are 0.05 here: while a run starts and in its rounds, and while a study starts, checks cells and runs."""
    monkeypatch.setattr(progress, "_SILENT_S", 0.05)
    console = Console(file=io.StringIO(), width=120)

    def last() -> str:
        before = len(console.file.getvalue())
        deadline = time.monotonic() + PATIENCE_S
        while len(console.file.getvalue()) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)  # a line that began before is over
        return console.file.getvalue().splitlines()[-1]

    with run_listener(console, done=0, rounds=40, as_json=False) as listen:
        assert last() == "starting: torch, data, plan"
        listen.on_round(7)
        assert last() == "round 7/40"
    with study_listener(console, as_json=False) as listener:
        assert last() == "starting workers"
        listener.checking(2, 6)
        assert last() == "checking cells 2/6"
    printed = console.file.getvalue()
    time.sleep(0.2)
    assert console.file.getvalue() == printed


def test_under_pairwise_noise_the_promised_epsilon_is_shown_with_its_coalition():
    lines = shown(terminal=False, coalition=5).splitlines()
    assert lines[0] == "round 10/40  accuracy 61.5%, epsilon 2.34 against any 5 nodes, 2.50 s simulated"
    assert "against any one node, " in shown(terminal=False, coalition=1)


def test_json_is_one_object_for_each_evaluation(capsys):
    shown(terminal=True, as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["round"] for line in lines] == [10, 20]
    assert lines[0]["event"] == "evaluation"
    assert (lines[0]["epsilon_total"], lines[0]["coalition"], lines[0]["epsilon_own_total"]) == (2.34, None, 3.45)


@pytest.mark.parametrize("ignored", mostly_slow([False, True], False))
def test_a_terminal_that_goes_away_stops_the_run_after_its_round(ignored, tmp_path, request):
    """Under nohup, which ignores SIGHUP and writes to a file, the run goes on instead."""
    ours, theirs = pty.openpty()
    words = (tmp_path / "nohup.out").open("w") if ignored else theirs
    rounds = "60" if ignored else "100000"
    run = subprocess.Popen(
        [sys.executable, "-m", "wirelessdl", "run", "quickstart", "--rounds", rounds, "--out", str(tmp_path / "runs")],
        cwd=ROOT,
        stdin=theirs,
        stdout=words,
        stderr=words,
        start_new_session=True,
        # a test runner under nohup hands down that hang-ups are ignored
        preexec_fn=lambda: (_own_terminal(), signal.signal(signal.SIGHUP, [signal.SIG_DFL, signal.SIG_IGN][ignored])),
    )
    request.addfinalizer(run.kill)  # no child outlives a test that fails
    os.close(theirs)
    folder = tmp_path / "runs" / "quickstart-s7-r1"
    deadline = time.monotonic() + PATIENCE_S
    while not (folder / "rounds").is_dir():
        assert time.monotonic() < deadline
        assert run.poll() is None
        _drain(ours)
        time.sleep(0.05)
    os.close(ours)  # the terminal hangs up
    code = run.wait(timeout=PATIENCE_S)
    if ignored:
        assert (code, state_of(folder)) == (0, "done")
    else:
        assert code == 128 + signal.SIGHUP
        assert state_of(folder) == "interrupted"
        assert checkpoint_round(folder) > 0


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _drain(terminal: int) -> None:
    os.set_blocking(terminal, False)
    with contextlib.suppress(BlockingIOError):
        os.read(terminal, 65536)
