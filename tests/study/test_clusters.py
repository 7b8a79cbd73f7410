"""24 runs on a cluster whose worker, and then scheduler, are killed: as if nothing had happened."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import chdir
from pathlib import Path

import pytest
from held import HELD_IN, ends, held, write_study
from interrupting import assert_same_tables
from loopback import PATIENCE_S, Loopback, wait_until

import wirelessdl
from wirelessdl.study.folder import read_plan
from wirelessdl.study.plan import make_plan
from wirelessdl.study.study_file import read_study
from wirelessdl.trace.catalog import runs_in
from wirelessdl.trace.study import status_of

pytestmark = pytest.mark.slow


def sweep(folder: Path, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "wirelessdl", "sweep", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def holding(folder: Path, *arguments: str) -> subprocess.Popen:
    """A sweep of the study whose first two runs wait in a round."""
    write_study(folder)
    (folder / "hold").touch()
    driver = sweep(folder, "study.toml", "--out", "out", *arguments)
    wait_until(lambda: len(held(folder)) == 2 or driver.poll() is not None, "two runs in progress")
    assert driver.poll() is None, driver.communicate()
    return driver


def counts(study: Path) -> dict[str, int]:
    """Runs by their status, which their directories tell."""
    return Counter(status_of(study, planned)[0] for planned in read_plan(study)[0].planned())


def resume(folder: Path, *arguments: str) -> None:
    """Go on with the study to its end; no run was run to its end twice."""
    driver = sweep(folder, "--resume", "out", *arguments)
    out, error = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 0, out + error
    assert counts(folder / "out") == {"finished": 24}
    assert ends(folder) == 24


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory):
    """The runs of the study, one after another in this process."""
    folder = tmp_path_factory.mktemp("one_by_one")
    write_study(folder)
    with chdir(folder):
        plan = make_plan(read_study(Path("study.toml")))
        cells = {cell.cell: cell for cell in plan.cells}
        for planned in plan.planned():
            scenario = plan.scenario(cells[planned.cell], planned.seed, planned.run)
            wirelessdl.simulate(scenario, out="runs", name=planned.folder_name)
    return folder


def assert_same_study(study: Path, reference: Path) -> None:
    plan, _ = read_plan(study)
    paths = [planned.path for planned in plan.planned()]
    assert len(paths) == 24
    for path in paths:
        assert_same_tables(study / path, reference / path)


def test_a_killed_worker_and_a_killed_scheduler_cost_nothing_but_time(tmp_path, one_by_one):
    study = tmp_path / "out"
    with Loopback(tmp_path) as cluster:
        driver = holding(tmp_path, "--scheduler", cluster.address)
        victim = min(held(tmp_path))
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len(held(tmp_path)) == 3, "the killed worker's run, in a new process")
        (tmp_path / "hold").unlink()
        wait_until(lambda: ends(tmp_path) >= 8, "eight finished runs")
        for path in tmp_path.glob("held-*"):
            path.unlink()
        (tmp_path / "hold").touch()
        wait_until(lambda: len(held(tmp_path)) == 2, "two runs in progress again")
        cluster.scheduler.send_signal(signal.SIGKILL)
        out, error = driver.communicate(timeout=PATIENCE_S)
        assert driver.returncode == 1, out + error
        assert error.strip() == (
            f"the scheduler at {cluster.address} is gone; what is finished is kept, go on with: "
            f"wirelessdl sweep --resume out --scheduler {cluster.address}"
        )
        (tmp_path / "hold").unlink()
        done = counts(study)
        assert 8 <= done["finished"] < 24
        with Loopback(tmp_path) as another:  # while the workers of the first may still be at it
            resume(tmp_path, "--scheduler", another.address)
    continued = [run for run in study.glob("runs/*") if "resumed" in wirelessdl.open_run(run).provenance]
    assert len(continued) >= 1  # the killed worker's run, from its checkpoint
    assert_same_study(study, one_by_one)


def test_a_killed_driver_takes_its_workers_along_and_the_study_goes_on(tmp_path, one_by_one):
    driver = holding(tmp_path, "--jobs", "2", "--threads", "1")
    driver.send_signal(signal.SIGKILL)
    driver.communicate(timeout=PATIENCE_S)
    wait_until(lambda: not any(map(alive, held(tmp_path))), "the end of the workers")
    (tmp_path / "hold").unlink()
    assert counts(tmp_path / "out") == {"interrupted": 2, "planned": 22}
    resume(tmp_path, "--jobs", "2")
    assert_same_study(tmp_path / "out", one_by_one)


def test_ctrl_c_stops_runs_after_their_round_and_resume_goes_on_within_them(tmp_path, one_by_one):
    driver = holding(tmp_path, "--jobs", "2", "--threads", "1")
    for process in (driver.pid, *held(tmp_path)):  # as a terminal does, to all of them
        os.kill(process, signal.SIGINT)
    wait_until((tmp_path / "out" / "stop").exists, "word to the workers")
    time.sleep(0.3)  # runs look for it ten times a second
    (tmp_path / "hold").unlink()
    out, error = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 130, out + error
    assert error.strip() == "stopped; 0 of 24 runs are finished; go on with: wirelessdl sweep --resume out"
    assert counts(tmp_path / "out") == {"interrupted": 2, "planned": 22}
    assert {run.round for run in runs_in(tmp_path / "out" / "runs")} == {HELD_IN}
    assert ends(tmp_path) == 0
    resume(tmp_path, "--jobs", "2")
    assert_same_study(tmp_path / "out", one_by_one)


def test_a_run_that_kills_its_worker_twice_has_failed_and_the_others_have_not(tmp_path):
    write_study(tmp_path)
    (tmp_path / "die.py").write_text("import os\ndef die(event):\n    os._exit(9)\n")
    (tmp_path / "deadly.toml").write_text(
        """
        [study]
        scenario = "tiny.toml"
        local = false
        runs = 4
        [[study.cells]]
        name = "deadly"
        set = { "trace.connect" = { "learning.update" = "die.py:die" } }
        [[study.cells]]
        name = "harmless"
        """
    )
    driver = sweep(tmp_path, "deadly.toml", "--jobs", "2", "--out", "out", "--runs", "1", "--quiet")
    out, error = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 1, out + error
    assert error.splitlines() == [
        "c000-s3-r1: its worker died, and the next one, too: out of memory, or killed",
        "1 of 2 runs failed; the others are kept; try again with: wirelessdl sweep --resume out",
    ]
    assert sorted(wirelessdl.open_study(tmp_path / "out").index["status"]) == ["failed", "finished"]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
