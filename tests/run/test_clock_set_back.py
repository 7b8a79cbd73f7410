"""The clock of the machine is set back while a run goes on: a library between Python and the kernel does it.

`clock_gettime(CLOCK_REALTIME)` of the child is two hours less once there is a file named back; other clocks go on.
"""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from interrupting import PATIENCE_S, assert_same_tables, wait_for_hold, write_scenario

from wirelessdl import simulate
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.catalog import runs_in

SHIM = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long back(void) {
    const char *file = getenv("CLOCK_BACK");
    return file && access(file, F_OK) == 0 ? 7200 : 0;
}
int clock_gettime(clockid_t clock, struct timespec *at) {
    int code = syscall(SYS_clock_gettime, clock, at);
    if (code == 0 && clock == CLOCK_REALTIME) at->tv_sec -= back();
    return code;
}
int gettimeofday(struct timeval *at, void *zone) {
    int code = syscall(SYS_gettimeofday, at, zone);
    if (code == 0) at->tv_sec -= back();
    return code;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""
COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="needs Linux and a C compiler")


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shim")
    (folder / "back.c").write_text(SHIM)
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", "back.so", "back.c"], cwd=folder, check=True)
    return folder / "back.so"


def start(shim, folder, *arguments, hold_in=0):
    return subprocess.Popen(
        [sys.executable, "-m", "wirelessdl", *arguments],
        cwd=folder,
        env={**os.environ, "LD_PRELOAD": str(shim), "CLOCK_BACK": str(folder / "back"), "HOLD_IN": str(hold_in)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return out


def times_of(run):
    origin = json.loads((run / "provenance.json").read_text())
    return [
        datetime.fromisoformat(text) for text in (origin["started"], *origin.get("resumed", []), origin["finished"])
    ]


def test_the_library_sets_the_clock_back(shim, tmp_path):
    """The tests below can fail."""
    (tmp_path / "back").touch()
    code = (
        "import datetime, time; print(time.time(), time.monotonic(), datetime.datetime.now(datetime.UTC).timestamp())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LD_PRELOAD": str(shim), "CLOCK_BACK": str(tmp_path / "back")},
        capture_output=True,
        text=True,
        check=True,
    )
    wall, steady, day = map(float, done.stdout.split())
    now = datetime.now(UTC).timestamp()
    assert now - wall == pytest.approx(7200, abs=60)
    assert now - day == pytest.approx(7200, abs=60)
    assert steady > 0


def test_a_run_whose_clock_is_set_back_equals_one_whose_clock_is_not(shim, tmp_path):
    """Set back in the middle, killed, gone on with an hour and more before it was started, listed and reported."""
    write_scenario(tmp_path, rounds=60)
    process = start(shim, tmp_path, "run", "tiny.toml", "--quiet", hold_in=40)
    wait_for_hold(tmp_path, process)
    (tmp_path / "back").touch()
    (tmp_path / "go").touch()
    ended(process)
    (run,) = (tmp_path / "outputs").iterdir()
    started, finished = times_of(run)
    assert started <= finished
    for name in ("summary.json", "provenance.json"):
        assert 0 <= json.loads((run / name).read_text())["wall_s"] < PATIENCE_S
    shown = ended(start(shim, tmp_path, "list", "outputs"))  # started two hours from now
    assert " -" not in shown
    ended(start(shim, tmp_path, "report", str(run)))
    ended(start(shim, tmp_path, "verify", str(run)))
    (tmp_path / "whole").mkdir()
    write_scenario(tmp_path / "whole", rounds=60)
    assert_same_tables(run, simulate(load_scenario(tmp_path / "whole" / "tiny.toml"), out=tmp_path / "whole").path)


def test_a_killed_run_goes_on_though_its_clock_is_before_its_start(shim, tmp_path):
    write_scenario(tmp_path, rounds=60)
    process = start(shim, tmp_path, "run", "tiny.toml", "--quiet", hold_in=40)
    wait_for_hold(tmp_path, process)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    (tmp_path / "back").touch()
    (run,) = (tmp_path / "outputs").iterdir()
    ended(start(shim, tmp_path, "run", "--resume", str(run), "--quiet"))
    started, resumed, finished = times_of(run)
    assert started <= resumed <= finished
    assert finished - started < timedelta(minutes=30)
    (tmp_path / "whole").mkdir()
    write_scenario(tmp_path / "whole", rounds=60)
    assert_same_tables(run, simulate(load_scenario(tmp_path / "whole" / "tiny.toml"), out=tmp_path / "whole").path)
    assert [one.state for one in runs_in(tmp_path / "outputs")] == ["done"]
