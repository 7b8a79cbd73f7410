"""Runs that are killed, stopped, starved of disk or tampered with, and go on as if nothing had happened."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
from conftest import tiny_table

import wirelessdl
from wirelessdl.errors import ContractError, RunInterrupted, TraceError
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.checkpoint import load_checkpoint
from wirelessdl.trace.lock import RunLock, is_locked
from wirelessdl.trace.schema import TABLES

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
UNSEEDED = HIDDEN_STATE.replace("rng.standard", "np.random.default_rng().standard")


def write_scenario(folder: Path, rounds: int = 500) -> Path:
    table = tiny_table(
        scenario={"rounds": rounds},
        network={"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.6}},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh"}, {"model": "drift.py:Drift"}]},
        radio={"power_dbm": 23, "thermal_noise": True, "csi": {"kind": "pilots", "symbols": 8}},
        power={"schedule": "adaptive", "objective": "own-noise"},
        trace={"checkpoint_every": 30, "flush_every": 25},
    )
    (folder / "drift.py").write_text(HIDDEN_STATE)
    path = folder / "tiny.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def start(*arguments: str, cwd: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "wirelessdl", "run", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_run(folder: Path, process: subprocess.Popen) -> Path:
    """The run directory, once the first part is there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        parts = sorted(folder.glob("outputs/*/rounds/part-*.parquet"))
        if parts:
            return parts[0].parent.parent
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError("no run directory within a minute")


def assert_same_tables(one: Path, other: Path) -> None:
    first, second = wirelessdl.open_run(one), wirelessdl.open_run(other)
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(first, name), getattr(second, name), check_exact=True)
    ignored = ("wall_s",)
    assert {k: v for k, v in first.summary.items() if k not in ignored} == {
        k: v for k, v in second.summary.items() if k not in ignored
    }


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nothing happened to, in a process like the others."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    write_scenario(folder)
    process = start("tiny.toml", "--quiet", cwd=folder)
    assert process.wait(timeout=120) == 0, process.communicate()
    return folder / "outputs" / "tiny-s3-r1"


def kill_and_resume(folder: Path, delay_s: float) -> Path:
    process = start("tiny.toml", "--quiet", cwd=folder)
    run = wait_for_run(folder, process)
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not is_locked(run)
    pd.read_parquet(run / "rounds")  # readable as it was left
    done = start("--resume", str(run), "--quiet", cwd=folder)
    assert done.wait(timeout=120) == 0, done.communicate()
    return run


@pytest.mark.parametrize("seed", range(3))
def test_killed_and_resumed_equals_uninterrupted(seed, uninterrupted, tmp_path):
    write_scenario(tmp_path)
    run = kill_and_resume(tmp_path, random.Random(seed).uniform(0, 1.0))
    assert_same_tables(run, uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_killed_and_resumed_twenty_times(seed, uninterrupted, tmp_path):
    write_scenario(tmp_path)
    run = kill_and_resume(tmp_path, random.Random(seed).uniform(0, 1.2))
    assert_same_tables(run, uninterrupted)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_after_the_round_and_says_how_to_go_on(number, code, uninterrupted, tmp_path):
    write_scenario(tmp_path)
    process = start("tiny.toml", "--quiet", cwd=tmp_path)
    run = wait_for_run(tmp_path, process)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    kept = load_checkpoint(run)
    shown = run.relative_to(tmp_path)
    assert err.strip() == f"stopped after round {kept.round}; resume with: wirelessdl run --resume {shown}"
    assert wirelessdl.open_run(run).rounds["round"].iloc[-1] == kept.round
    assert wirelessdl.open_run(run).provenance["state"] == "interrupted"
    command = err.strip().partition("wirelessdl run ")[2].split()
    done = start(*command, "--quiet", cwd=tmp_path)
    assert done.wait(timeout=120) == 0, done.communicate()
    assert_same_tables(run, uninterrupted)


def test_a_second_ctrl_c_ends_at_once_and_harms_nothing(uninterrupted, tmp_path):
    write_scenario(tmp_path)
    process = start("tiny.toml", "--quiet", cwd=tmp_path)
    run = wait_for_run(tmp_path, process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    done = start("--resume", str(run), "--quiet", cwd=tmp_path)
    assert done.wait(timeout=120) == 0, done.communicate()
    assert_same_tables(run, uninterrupted)


# --- in this process: stopping and going on by the Python API


class StopAt:
    """Stops a run after a round."""

    def __init__(self, round: int):
        self.round, self.now = round, 0

    def on_round(self, round: int) -> None:
        self.now = round

    def should_stop(self) -> bool:
        return self.now >= self.round


@pytest.fixture
def here(tmp_path, monkeypatch):
    write_scenario(tmp_path, rounds=100)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def interrupted(round: int, out: str = "outputs") -> Path:
    stop = StopAt(round)
    with pytest.raises(RunInterrupted) as caught:
        wirelessdl.simulate(load_scenario("tiny.toml"), out=out, on_round=stop.on_round, should_stop=stop.should_stop)
    assert caught.value.round == round
    return Path(caught.value.folder)


@pytest.fixture
def whole(here):
    """The run in this folder that nothing happened to."""
    assert Path.cwd() == here
    return wirelessdl.simulate(load_scenario("tiny.toml"), out="whole").path


@pytest.mark.parametrize("round", [1, 30, 99])
def test_stopped_at_any_round_goes_on_to_the_same_tables(round, whole):
    run = interrupted(round)
    assert_same_tables(wirelessdl.resume(run).path, whole)


@pytest.mark.usefixtures("here")
def test_unbalanced_paper_protocol_resumes_to_the_same_tables():
    table = tiny_table(
        scenario={"rounds": 60},
        privacy={"protocol": "paper", "clipping": "batch"},
        power={"balance": False, "alpha_min": 1e-6},
    )
    Path("tiny.toml").write_text(tomli_w.dumps(table))
    whole = wirelessdl.simulate(load_scenario("tiny.toml"), out="whole").path
    assert_same_tables(wirelessdl.resume(interrupted(37)).path, whole)


def test_a_run_may_be_stopped_again_and_again(whole):
    run = interrupted(20)
    for round in (40, 61, 83):
        stop = StopAt(round)
        with pytest.raises(RunInterrupted):
            wirelessdl.resume(run, on_round=stop.on_round, should_stop=stop.should_stop)
    assert_same_tables(wirelessdl.resume(run).path, whole)
    assert len(wirelessdl.open_run(run).provenance["resumed"]) == 4


def test_parts_written_after_the_checkpoint_are_discarded(whole):
    run = interrupted(60)
    for name in ("rounds", "nodes"):  # as a process that was killed between checkpoint and end leaves them
        shutil.copy(run / name / "part-000060.parquet", run / name / "part-000085.parquet")
    (run / "links" / ".part-000085.parquet").write_bytes(b"half")
    assert_same_tables(wirelessdl.resume(run).path, whole)
    assert not list(run.glob("*/.part*"))


def test_a_damaged_checkpoint_falls_back_to_the_one_before(whole):
    run = interrupted(60)
    kept = sorted((run / "checkpoint").iterdir())
    assert [path.name for path in kept] == ["round-000030.npz", "round-000060.npz"]
    kept[1].write_bytes(kept[1].read_bytes()[:1000])
    assert_same_tables(wirelessdl.resume(run).path, whole)


def test_a_run_without_a_checkpoint_starts_over(whole):
    run = interrupted(20)
    shutil.rmtree(run / "checkpoint")
    assert_same_tables(wirelessdl.resume(run).path, whole)


@pytest.mark.usefixtures("here")
def test_a_checkpoint_holds_no_pickle_and_its_version():
    kept = load_checkpoint(interrupted(20))
    assert kept.facts["schema"] == 1
    assert all(values.dtype != object for values in kept.arrays.values())
    assert json.dumps(kept.facts)


@pytest.mark.usefixtures("here")
def test_changes_are_refused_before_the_first_checkpoint_too():
    run = interrupted(20)
    shutil.rmtree(run / "checkpoint")
    with pytest.raises(TraceError, match=r"privacy.epsilon_max was 1.0, is 4.0; scenario.seed was 3, is 9"):
        wirelessdl.resume(run, overrides=["privacy.epsilon_max=4.0", "scenario.seed=9"])
    Path("drift.py").write_text(HIDDEN_STATE.replace("0.9", "0.8"))
    with pytest.raises(TraceError, match=r"user_files.drift.py was"):
        wirelessdl.resume(run)


def test_two_damaged_checkpoints_do_not_start_over_unasked(whole):
    run = interrupted(60)
    for path in (run / "checkpoint").iterdir():
        path.write_bytes(b"")
    with pytest.raises(TraceError, match="no checkpoint in it can be read; remove the folder to start the run over"):
        wirelessdl.resume(run)
    assert len(wirelessdl.open_run(run).rounds) == 60
    shutil.rmtree(run / "checkpoint")
    assert_same_tables(wirelessdl.resume(run).path, whole)


@pytest.mark.parametrize(
    ("key", "source"),
    [
        ("time.compute", "class Odd:\n  def duration_s(self, node, round):\n    return random.random() / 1000\n"),
        (
            "learning.partition",
            "class Odd:\n  def split(self, labels, nodes, rng):\n"
            "    return np.array_split(np.random.default_rng().permutation(len(labels)), nodes)\n",
        ),
        (
            "network.topology",
            "class Odd:\n  def links(self, geometry, snr_db, rng):\n    mask = np.ones((5, 5), bool)\n"
            "    a, b = random.sample(range(5), 2)\n    mask[a, b] = False\n"
            "    return Links.from_mask(mask, geometry)\n",
        ),
    ],
)
def test_other_parts_that_are_not_deterministic_are_named(key, source, here):
    (here / "odd.py").write_text(f"import random\nimport numpy as np\nfrom wirelessdl import Links\n{source}")
    section, _, name = key.partition(".")
    table = tomllib.loads((here / "tiny.toml").read_text())
    table.setdefault(section, {})[name] = "odd.py:Odd"
    (here / "tiny.toml").write_text(tomli_w.dumps(table))
    run = interrupted(20)
    for _ in range(10):  # a random graph may come out the same
        stop = StopAt(21)
        with pytest.raises((ContractError, RunInterrupted)) as caught:
            wirelessdl.resume(run, on_round=stop.on_round, should_stop=stop.should_stop)
        if caught.type is ContractError:
            break
        shutil.rmtree(run)
        run = interrupted(20)
    assert str(caught.value).startswith(f"{key} gave other values")


@pytest.mark.usefixtures("here")
def test_extending_repeats_no_event():
    """Paper protocol with a long guard: gradients end while the last frame's guard still runs."""
    table = tiny_table(
        scenario={"rounds": 30},
        radio={"power_dbm": 30, "thermal_noise": False, "guard_s": 0.01},
        privacy={"protocol": "paper", "clipping": "batch"},
        power={"balance": False, "alpha_min": 1e-6},
        time={"compute": {"kind": "constant", "seconds": 0.018}},
    )
    Path("tiny.toml").write_text(tomli_w.dumps(table))
    short = wirelessdl.simulate(load_scenario("tiny.toml"))
    long = wirelessdl.simulate(load_scenario("tiny.toml", overrides=["scenario.rounds=36"]), out="long")
    assert_same_tables(wirelessdl.resume(short.path, rounds=36).path, long.path)


@pytest.mark.usefixtures("here")
def test_resume_looks_at_the_parts_it_keeps():
    run = interrupted(60)
    (run / "rounds" / "notes.txt").write_text("mine")
    with pytest.raises(TraceError, match=r"notes.txt: foreign file.*the run cannot go on"):
        wirelessdl.resume(run)
    (run / "rounds" / "notes.txt").unlink()
    (run / "nodes" / "part-000030.parquet").unlink()
    with pytest.raises(TraceError, match=r"nodes: rounds 26 to 30 are missing"):
        wirelessdl.resume(run)


def test_a_run_of_an_absolute_model_path_resumes_from_its_copy(here):
    table = tomllib.loads((here / "tiny.toml").read_text())
    table["channel"]["models"][2]["model"] = f"{here}/drift.py:Drift"
    (here / "tiny.toml").write_text(tomli_w.dumps(table))
    run = interrupted(20)
    (here / "drift.py").unlink()
    assert wirelessdl.resume(run).summary["rounds"] == 100


@pytest.mark.usefixtures("here")
def test_wall_clock_and_origin_span_all_sessions():
    run = interrupted(60)
    before = wirelessdl.open_run(run).provenance
    after = wirelessdl.resume(run)
    assert after.summary["wall_s"] > before["wall_s"]
    assert {key: after.provenance[key] for key in ("started", "folder", "command")} == {
        key: before[key] for key in ("started", "folder", "command")
    }


def test_a_checkpoint_of_another_version_is_refused(here, monkeypatch):
    monkeypatch.setattr("wirelessdl.trace.checkpoint.VERSION", 0)
    run = interrupted(20)
    monkeypatch.undo()
    os.chdir(here)
    with pytest.raises(TraceError, match="checkpoint of schema 0, this version reads 1"):
        wirelessdl.resume(run)


def test_a_finished_run_is_left_alone_and_may_be_extended(here, wirelessdl_command):
    os.chdir(here)
    long = wirelessdl.simulate(load_scenario("tiny.toml", overrides=["scenario.rounds=140"]), out="long").path
    run = wirelessdl.simulate(load_scenario("tiny.toml"))
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.is_file()}
    result = wirelessdl_command("run", "--resume", str(run.path))
    assert (result.code, result.out) == (0, "outputs/tiny-s3-r1 is finished; --rounds extends it\n")
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.is_file()} == before
    assert wirelessdl_command("run", "--resume", str(run.path), "--rounds", "140", "--quiet").code == 0
    assert_same_tables(run.path, long)


def test_what_would_change_results_is_refused_with_its_keys(here, wirelessdl_command):
    os.chdir(here)
    run = str(interrupted(20))

    def refused(*arguments):
        result = wirelessdl_command("run", "--resume", run, *arguments)
        assert result.code == 2
        assert len(result.err.strip().splitlines()) == 1
        return result.err

    assert "privacy.epsilon_max was 1.0, is 2.0; start a new run" in refused("--set", "privacy.epsilon_max=2.0")
    assert "scenario.seed was 3, is 4" in refused("--seed", "4", "--force")
    assert "learning.eval_every was 2, is 5; --force goes on" in refused("--set", "learning.eval_every=5")
    assert "round 20 is done; --rounds 10 lies behind it" in refused("--rounds", "10")
    (here / "drift.py").write_text(HIDDEN_STATE.replace("0.9", "0.8"))
    assert "user_files.drift.py was " in refused("--force")
    (here / "drift.py").unlink()  # the copy in the run directory will do
    assert wirelessdl_command("run", "--resume", run, "--quiet", "--set", "learning.eval_every=5", "--force").code == 0


@pytest.mark.usefixtures("here")
def test_other_threads_are_refused_unless_forced(monkeypatch):
    run = interrupted(20)
    monkeypatch.setattr("wirelessdl.run.session.threads", lambda: 64)
    with pytest.raises(TraceError, match=r"threads was \d+, is 64; --force goes on, but not to bit-identical tables"):
        wirelessdl.resume(run)
    assert wirelessdl.resume(run, force=True).summary["rounds"] == 100


def test_a_model_that_is_not_deterministic_is_named(here):
    (here / "drift.py").write_text(UNSEEDED)
    run = interrupted(20)
    with pytest.raises(ContractError, match=r"drift.py:Drift gave other values than before the interruption"):
        wirelessdl.resume(run)
    assert wirelessdl.open_run(run).rounds["round"].iloc[-1] == 20  # nothing lost


@pytest.mark.usefixtures("here")
def test_two_processes_do_not_write_one_run():
    run = interrupted(20)
    with RunLock(run), pytest.raises(TraceError, match=rf"is being written by process {os.getpid()} on"):
        wirelessdl.resume(run)
    (run / "lock").write_text("process 1 on a machine that lost power")
    assert not is_locked(run)
    assert wirelessdl.resume(run).summary["rounds"] == 100


@pytest.mark.usefixtures("here")
def test_a_run_is_read_while_it_goes_on():
    seen = []

    def look(round):
        if round == 75:
            run = wirelessdl.open_run("outputs/tiny-s3-r1")
            seen.append((len(run.rounds), run.summary, is_locked(run.path)))
            assert len(pd.read_parquet(run.path / "links"))

    wirelessdl.simulate(load_scenario("tiny.toml"), on_round=look)
    assert seen == [(60, {}, True)]  # parts at 25, 30, 55, 60: a checkpoint flushes


def test_list_shows_how_runs_stand(here, wirelessdl_command):
    os.chdir(here)
    interrupted(20)
    wirelessdl.simulate(load_scenario("tiny.toml", overrides=["scenario.name=whole"]))
    (here / "drift.py").write_text("class Drift:\n  n = 0\n  def gain(self, links, t, rng):\n    self.n += 1\n"
                                   "    return links.distance_m / (0 if self.n > 30 else 1)\n")  # fmt: skip
    with np.errstate(divide="ignore"), pytest.raises(ContractError):
        wirelessdl.simulate(load_scenario("tiny.toml", overrides=["scenario.name=broken"]))
    listed = {
        run["name"]: run for run in map(json.loads, wirelessdl_command("list", "outputs", "--json").out.splitlines())
    }
    states = {name: (run["state"], run["round"], run["rounds"]) for name, run in listed.items()}
    assert states == {
        "tiny-s3-r1": ("interrupted", 20, 100),
        "whole-s3-r1": ("done", 100, 100),
        "broken-s3-r1": ("failed", 30, 100),
    }
    assert "drift.py:Drift.gain returned inf" in listed["broken-s3-r1"]["error"]
    assert 0 < listed["whole-s3-r1"]["accuracy"] < 1
    with RunLock(here / "outputs" / "tiny-s3-r1"):
        shown = wirelessdl_command("list", "outputs").out
    assert "running" in shown
    assert "failed" in shown
    assert wirelessdl_command("list", "nowhere").code == 2


# --- disks


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 700 kilobytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting is not allowed here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def test_a_full_disk_is_one_clear_error_and_the_run_goes_on_when_there_is_space(whole, small_disk):
    with pytest.raises(TraceError, match=r"cannot be written: No space left on device$"):
        wirelessdl.simulate(load_scenario("tiny.toml"), out=small_disk)
    run = small_disk / "tiny-s3-r1"
    assert not list(run.glob("**/.*"))  # nothing half-written
    done = len(wirelessdl.open_run(run).rounds)
    assert 0 < done < 100
    remount(small_disk, "size=50m")
    assert_same_tables(wirelessdl.resume(run).path, whole)


def test_a_disk_that_turns_read_only_is_one_clear_error(whole, small_disk):
    remount(small_disk, "size=50m")

    def lock_up(round):
        if round == 70:
            remount(small_disk, "ro")

    with pytest.raises(TraceError, match="Read-only file system"):
        wirelessdl.simulate(load_scenario("tiny.toml"), out=small_disk, on_round=lock_up)
    run = small_disk / "tiny-s3-r1"
    assert len(wirelessdl.open_run(run).rounds) == 60
    with pytest.raises(TraceError, match="Read-only file system"):
        wirelessdl.simulate(load_scenario("tiny.toml"), out=small_disk)
    remount(small_disk, "rw")
    assert_same_tables(wirelessdl.resume(run).path, whole)


@pytest.mark.usefixtures("here")
def test_a_vanished_folder_is_one_clear_error():
    def vanish(round):
        if round == 40:
            shutil.rmtree("outputs")

    with pytest.raises(TraceError, match=r"tiny-s3-r1.* cannot be written: No such file or directory"):
        wirelessdl.simulate(load_scenario("tiny.toml"), on_round=vanish)


# --- parts that were tampered with


def test_a_truncated_part_is_named_and_the_rest_is_read(whole):
    part = whole / "nodes" / "part-000055.parquet"
    part.write_bytes(part.read_bytes()[:200])
    with pytest.raises(TraceError, match=r"part-000055.parquet: cannot be read: .*strict=False\) reads the rest"):
        _ = wirelessdl.open_run(whole).nodes
    with pytest.warns(UserWarning, match="part-000055"):
        rest = wirelessdl.open_run(whole, strict=False).nodes
    assert sorted(rest["round"].unique()) == [*range(1, 31), *range(56, 101)]
    assert len(wirelessdl.open_run(whole).rounds) == 100


@pytest.mark.parametrize(("last", "missing"), [(55, "31 to 55"), (100, "91 to 100"), (25, "1 to 25")])
def test_a_deleted_part_is_named(last, missing, whole):
    (whole / "links" / f"part-{last:06d}.parquet").unlink()
    with pytest.raises(TraceError, match=rf"links: rounds {missing} are missing; a part was deleted"):
        _ = wirelessdl.open_run(whole).links
    with pytest.warns(UserWarning, match="missing"):
        assert len(wirelessdl.open_run(whole, strict=False).links)


def test_a_deleted_table_a_copied_part_and_damaged_pages_are_named(whole):
    shutil.copy(whole / "events" / "part-000025.parquet", whole / "events" / "part-000101.parquet")
    with pytest.raises(TraceError, match=r"part-000101.parquet: covers rounds 1 to 25 again; a part was copied"):
        _ = wirelessdl.open_run(whole).events
    shutil.rmtree(whole / "privacy")
    with pytest.raises(TraceError, match="privacy: is missing; it was deleted"):
        _ = wirelessdl.open_run(whole).privacy
    shutil.rmtree(whole / "links")
    with pytest.raises(TraceError, match="links: rounds 1 to 100 are missing"):
        _ = wirelessdl.open_run(whole).links
    part = whole / "nodes" / "part-000025.parquet"
    content = bytearray(part.read_bytes())
    content[20:1500] = b"\xff" * 1480  # pages, not the footer
    part.write_bytes(content)
    with pytest.raises(TraceError, match=r"part-000025.parquet: cannot be read"):
        _ = wirelessdl.open_run(whole).nodes
    with pytest.warns(UserWarning, match="part-000025"):
        assert wirelessdl.open_run(whole, strict=False).nodes["round"].min() == 26


def test_odd_run_folders_are_one_line_each(whole, wirelessdl_command, here):
    os.chdir(here)
    (whole / "provenance.json").write_text("[]")
    assert "holds no JSON object" in wirelessdl_command("run", "--resume", str(whole), "--rounds", "120").err
    (whole / "scenario.toml").write_text("[scenario")
    listed = wirelessdl_command("list", str(whole.parent)).out
    assert "unreadable" in listed
    assert wirelessdl_command("run", "--resume", str(whole)).code == 2


def test_a_foreign_part_is_named(whole):
    pd.DataFrame({"a": [1]}).to_parquet(whole / "rounds" / "part-000026.parquet")
    (whole / "rounds" / "notes.txt").write_text("mine")
    with pytest.raises(TraceError, match=r"notes.txt: foreign file.*\(and 1 more\)"):
        _ = wirelessdl.open_run(whole).rounds
    with pytest.warns(UserWarning, match="foreign file|other columns") as told:
        assert len(wirelessdl.open_run(whole, strict=False).rounds) == 100
    assert [str(warning.message).partition(": ")[2] for warning in told] == [
        "foreign file; move it out of the table's folder",
        "has other columns than the rounds table of this version",
    ]


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
