"""A thousand tiny runs: memory of scheduler and driver stays flat, the index can be read while it grows."""

import subprocess
import sys
import time

import pandas as pd
import psutil
import pytest
from in_process import write_quick
from loopback import PATIENCE_S, Loopback

RUNS = 1000


@pytest.mark.slow
def test_a_thousand_runs_take_no_more_memory_than_two_hundred(tmp_path):
    write_quick(tmp_path, trace={"links": "none"})
    with Loopback(tmp_path) as cluster:
        command = ["sweep", "tiny.toml", "--runs", str(RUNS), "--no-local", "--scheduler", cluster.address]
        with (tmp_path / "driver.log").open("w") as log:
            driver = subprocess.Popen(
                [sys.executable, "-m", "wirelessdl", *command, "--out", "out"], cwd=tmp_path, stdout=log, stderr=log
            )
            seen = watch({"driver": driver.pid, "scheduler": cluster.scheduler.pid}, driver, tmp_path / "out")
    assert driver.returncode == 0, (tmp_path / "driver.log").read_text()
    index = pd.read_parquet(tmp_path / "out" / "index.parquet")
    assert len(index) == RUNS
    assert set(index["status"]) == {"finished"}
    print(seen.iloc[:: max(1, len(seen) // 12)].to_string())
    assert seen["finished"].is_monotonic_increasing
    assert len(seen["finished"].unique()) > 20  # read while it grew
    early, late = seen[seen["finished"] <= 200].iloc[-1], seen.iloc[-1]
    assert late["finished"] > 900
    for name in ("driver", "scheduler"):
        assert late[name] - early[name] < 15, name  # MB: 800 results held would be more, rows of the index are 3


def watch(pids: dict[str, int], driver: subprocess.Popen, study) -> pd.DataFrame:
    """Resident memory in MB and finished runs by the index, until the driver ends."""
    seen, deadline = [], time.monotonic() + 6 * PATIENCE_S
    while driver.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.5)
        if not (study / "index.parquet").exists():
            continue
        with (study / "index.parquet").open(
            "rb"
        ) as handle:  # by its name pandas opens it twice, and it may be replaced
            finished = int((pd.read_parquet(handle, columns=["status"])["status"] == "finished").sum())
        try:
            memory = {name: psutil.Process(pid).memory_info().rss / 1e6 for name, pid in pids.items()}
        except psutil.NoSuchProcess:
            break
        if driver.poll() is None and min(memory.values()) > 1:
            seen.append({"finished": finished, **memory})
    driver.wait(timeout=PATIENCE_S)
    return pd.DataFrame(seen)
