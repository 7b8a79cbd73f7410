"""Runs to be killed, stopped and gone on with: a scenario with hidden state, processes that wait to be killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import tomli_w
from conftest import tiny_table

import wirelessdl
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.checkpoint import load_checkpoint
from wirelessdl.trace.schema import TABLES

PATIENCE_S = 900  # for what takes seconds: a machine may be very busy

HIDDEN_STATE = """
import numpy as np

class Drift:
    '''A walk in dB that only the object itself remembers.'''
    def __init__(self):
        self.level_db = None
    def gain(self, links, time_s, rng):
        if self.level_db is None:
            self.level_db = np.zeros(links.nodes ** 2)
        self.level_db = 0.9 * self.level_db + rng.standard_normal(links.nodes ** 2)
        return 10 ** (self.level_db[links.rx * links.nodes + links.tx] / 20)
"""
HOLD = """
import os
import time

def hold(event):
    '''In the round that HOLD_IN names, says so by a file named held and waits for one named go.'''
    if event.round == int(os.environ.get("HOLD_IN", "0")):
        open("held", "w").close()
        while not os.path.exists("go"):
            time.sleep(0.01)
"""
HELD = {"learning.update": "hold.py:hold"}  # as trace.connect


def write_scenario(folder: Path, rounds: int = 100) -> None:
    table = tiny_table(
        scenario={"rounds": rounds},
        network={"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.6}},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh"}, {"model": "drift.py:Drift"}]},
        radio={"power_dbm": 23, "thermal_noise": True, "csi": {"kind": "pilots", "symbols": 8}},
        power={"schedule": "adaptive", "objective": "own-noise"},
        trace={"checkpoint_every": 30, "flush_every": 25, "connect": HELD},
        learning={"eval_every": 10},
    )
    (folder / "drift.py").write_text(HIDDEN_STATE)
    (folder / "hold.py").write_text(HOLD)
    (folder / "tiny.toml").write_text(tomli_w.dumps(table))


# --- in processes of their own


def start(*arguments: str, cwd: Path, hold_in: int = 0) -> subprocess.Popen:
    """`wirelessdl run`, which stays in a round, if one is named, until there is a file named go."""
    return subprocess.Popen(
        [sys.executable, "-m", "wirelessdl", "run", *arguments],
        cwd=cwd,
        env={**os.environ, "HOLD_IN": str(hold_in)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_part(folder: Path, process: subprocess.Popen, round: int = 1) -> Path:
    """The run directory, once rounds up to this one are there."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        parts = sorted(folder.glob("outputs/*/rounds/part-*.parquet"))
        if parts and int(parts[-1].stem.removeprefix("part-")) >= round:
            return parts[-1].parent.parent
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError(f"round {round} was not written within {PATIENCE_S} s")


def wait_for_hold(folder: Path, process: subprocess.Popen) -> None:
    """Until the process is in the round in which it stays."""
    deadline = time.monotonic() + PATIENCE_S
    while not (folder / "held").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"the run was not held within {PATIENCE_S} s"
        time.sleep(0.01)


def kill_midway(folder: Path, round: int, delay_s: float, hold_in: int) -> Path:
    """Start a run and kill it, some time after this round is written and before it is over."""
    process = start("tiny.toml", "--quiet", cwd=folder, hold_in=hold_in)
    run = wait_for_part(folder, process, round)
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL
    pd.read_parquet(run / "rounds")  # readable as it was left
    return run


def assert_same_tables(one: Path, other: Path, *, but: tuple[str, ...] = ()) -> None:
    """And the same final models, with all else that the last checkpoint holds, but for some arrays."""
    first, second = wirelessdl.open_run(one), wirelessdl.open_run(other)
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(first, name), getattr(second, name), check_exact=True)

    def told(run: wirelessdl.Run) -> dict:
        """All but the time it took, and that a run was extended, which another one was not."""
        kept = {key: value for key, value in run.summary.items() if key != "wall_s"}
        return {**kept, "warnings": [line for line in kept["warnings"] if "was extended from" not in line]}

    assert told(first) == told(second)
    kept, expected = load_checkpoint(one), load_checkpoint(other)
    assert kept.round == expected.round
    assert [name for name in kept.arrays if name not in but] == [name for name in expected.arrays if name not in but]
    for name, values in ((name, values) for name, values in expected.arrays.items() if name not in but):
        np.testing.assert_array_equal(kept.arrays[name], values, err_msg=f"{name} of the last checkpoint")


# --- in this process


class StopAt:
    """Stops a run after a round."""

    def __init__(self, round: int):
        self.round, self.now = round, 0

    def on_round(self, round: int) -> None:
        self.now = round

    def should_stop(self) -> bool:
        return self.now >= self.round


def interrupted(round: int, out: str = "outputs") -> Path:
    """The run of tiny.toml in the working folder, stopped after a round."""
    stop = StopAt(round)
    scenario = load_scenario("tiny.toml")
    run = wirelessdl.simulate(scenario, out=out, on_round=stop.on_round, should_stop=stop.should_stop)
    assert run.state == "interrupted"
    assert len(run.rounds) == round
    return run.path


def assert_resumes(scenario: wirelessdl.Scenario, folder: Path, after: int) -> wirelessdl.Run:
    """Stopped after a round and gone on with, a scenario's run equals the whole one, which is returned."""
    whole, stop = wirelessdl.simulate(scenario, out=folder / "whole", device="cpu"), StopAt(after)
    given = {"on_round": stop.on_round, "should_stop": stop.should_stop}
    part = wirelessdl.simulate(scenario, out=folder / "part", device="cpu", **given)
    assert part.state == "interrupted"
    assert_same_tables(wirelessdl.resume(part.path, device="cpu").path, whole.path)
    return whole
