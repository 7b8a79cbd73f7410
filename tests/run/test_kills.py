"""Runs that are killed or told to stop go on, in another process, as if nothing had happened."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from conftest import command_line, mostly_slow, tiny_table
from interrupting import (
    PATIENCE_S,
    assert_same_tables,
    kill_midway,
    start,
    wait_for_hold,
    wait_for_part,
    write_scenario,
)

import wirelessdl
from wirelessdl.analysis.verify import verify
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.checkpoint import load_checkpoint
from wirelessdl.trace.files import is_locked

ROUNDS = 150
PARTS = (25, 30, 55, 60, 85, 90, 115)  # rounds after which tables are written, without the last


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nothing happened to, in this process, which has as many threads as the others."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    write_scenario(folder, ROUNDS)
    return wirelessdl.simulate(load_scenario(folder / "tiny.toml"), out=folder).path


def kill_somewhere(folder: Path, seed: int) -> Path:
    """A run that was killed between two of its parts, as chance has it."""
    write_scenario(folder, ROUNDS)
    chance = random.Random(seed)
    run = kill_midway(folder, chance.choice(PARTS), chance.uniform(0, 0.3), hold_in=ROUNDS - 2)
    assert not is_locked(run)
    return run


@pytest.mark.parametrize("seed", mostly_slow(range(3), 0))
def test_killed_and_resumed_equals_uninterrupted(seed, uninterrupted, tmp_path):
    run = kill_somewhere(tmp_path, seed)
    assert_same_tables(wirelessdl.resume(run).path, uninterrupted)


KILLED_AT = """
import os, signal, sys
name = sys.argv.pop(1)

def kill(event, given):
    if event == "open" and f"/.{name}." in str(given[0]):
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill)
from wirelessdl.cli.main import main
main()
"""


def killed_as_it_opens(name: str, *arguments: str) -> Path:
    """The run of a process that is killed when it opens the file aside of this name for the first time."""
    killed = subprocess.run([sys.executable, "-c", KILLED_AT, name, *arguments], timeout=PATIENCE_S)
    assert killed.returncode == -signal.SIGKILL
    (run,) = Path("outputs").iterdir()
    return run


@pytest.mark.parametrize("scenario", [("quickstart",), ("paper_k4_full",), ("quickstart", "radio.access=digital")])
def test_killed_between_its_last_checkpoint_and_its_summary_it_has_the_same_models(scenario, tmp_path, monkeypatch):
    """At rest by `learning.stop_after`: going on with it computes no round, and its models are those of before."""
    monkeypatch.chdir(tmp_path)
    name, *overrides = scenario
    overrides += ["learning.eval_every=2", "learning.stop_after=2", "learning.stop_within=1", "learning.batch_size=8"]
    settings = [word for override in overrides for word in ("--set", override)]
    arguments = ["run", name, "--rounds", "30", "--quiet", *settings]
    run = killed_as_it_opens("summary.json", *arguments)
    assert not (run / "summary.json").exists()
    assert command_line("run", "--resume", str(run), "--quiet").code == 0
    assert command_line(*arguments, "--out", "whole").code == 0
    (whole,) = (tmp_path / "whole").iterdir()
    assert wirelessdl.open_run(whole).summary["rounds"] == 4
    assert_same_tables(run, whole)
    weights = [float(model["weight"].abs().sum()) for model in wirelessdl.open_run(run).final_models()]
    assert min(weights) > 0
    assert verify(run).problems == ()


def test_killed_as_it_writes_its_checksums_anew_it_leaves_nothing_once_it_is_gone_on_with(tmp_path, monkeypatch):
    """The very last that a run does: all else is there, and says that it is done."""
    monkeypatch.chdir(tmp_path)
    run = killed_as_it_opens("checksums.txt", "run", "quickstart", "--rounds", "2", "--quiet")
    (run / ".checksums.txt.0123abcd").write_text("half a line")  # a moment later
    assert wirelessdl.open_run(run).state == "done"
    assert verify(run).problems == ()
    assert command_line("run", "--resume", str(run), "--quiet").code == 0
    assert not [path for path in run.rglob("*") if path.name.startswith(".") or path.name == "lock"]
    listed = [line.split("  ")[1] for line in (run / "checksums.txt").read_text().splitlines()]
    assert listed == sorted(
        path.relative_to(run).as_posix() for path in run.rglob("*.*") if path.name != "checksums.txt"
    )
    assert verify(run).problems == ()
    before = (run / "checksums.txt").stat()
    assert command_line("run", "--resume", str(run), "--quiet").code == 0
    assert (run / "checksums.txt").stat() == before  # nothing is left to do


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_after_the_round_and_says_how_to_go_on(number, code, uninterrupted, tmp_path):
    write_scenario(tmp_path, ROUNDS)
    process = start("tiny.toml", "--quiet", cwd=tmp_path, hold_in=58)
    run = wait_for_part(tmp_path, process, 25)
    process.send_signal(number)
    (tmp_path / "go").touch()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    kept = load_checkpoint(run)
    assert 25 <= kept.round <= 58
    shown = run.relative_to(tmp_path)
    assert err.strip() == f"stopped after round {kept.round}; resume with: wirelessdl run --resume {shown}"
    assert wirelessdl.open_run(run).rounds["round"].iloc[-1] == kept.round
    assert wirelessdl.open_run(run).provenance["state"] == "interrupted"
    if number == signal.SIGINT:
        command = err.strip().partition("wirelessdl run ")[2].split()
        done = start(*command, "--quiet", cwd=tmp_path)
        assert done.wait(timeout=PATIENCE_S) == 0, done.communicate()
    else:
        wirelessdl.resume(run)
    assert_same_tables(run, uninterrupted)


def test_a_second_ctrl_c_ends_at_once_and_harms_nothing(uninterrupted, tmp_path):
    """Held in round 58, it cannot stop after a round: only the second signal ends it."""
    write_scenario(tmp_path, ROUNDS)
    process = start("tiny.toml", "--quiet", cwd=tmp_path, hold_in=58)
    wait_for_hold(tmp_path, process)
    (run,) = (tmp_path / "outputs").iterdir()
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGINT)  # two at once may arrive as one
        time.sleep(0.05)
    assert process.returncode == 130
    assert load_checkpoint(run).round == 30  # nothing was kept on the way out
    assert_same_tables(wirelessdl.resume(run).path, uninterrupted)


@pytest.mark.slow
def test_memory_stays_flat_over_20_000_rounds(tmp_path):
    """Resident memory, read in a process of its own every thousand rounds."""
    code = """
import os, wirelessdl
from wirelessdl.scenario.loader import load_scenario
rss = []
def note(round):
    if round % 1000 == 0:
        rss.append(int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
wirelessdl.simulate(load_scenario("tiny.toml"), on_round=note)
print(*rss)
"""
    table = tiny_table(
        scenario={"rounds": 20_000},
        channel={"models": [{"model": "rayleigh"}]},
        power={"objective": "own-noise"},
        learning={"batch_size": 1, "eval_every": 1000},
    )
    (tmp_path / "tiny.toml").write_text(tomli_w.dumps(table))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    rss = np.array(done.stdout.split(), dtype=float)
    rounds = 1000.0 * np.arange(1, 21)
    slope = np.polyfit(rounds[5:], rss[5:], 1)[0]
    print(f"resident memory {rss[5] / 1e6:.0f} MB, slope {slope:.1f} bytes a round")
    assert slope < 300  # a leak of one float per link and round would be 96; of one model, 31,400
