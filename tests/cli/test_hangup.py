"""A terminal that goes away: SIGHUP stops a run after its round, with its state kept."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT, mostly_slow

from wirelessdl.trace.checkpoint import checkpoint_round
from wirelessdl.trace.run import state_of

PATIENCE_S = 300.0


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
