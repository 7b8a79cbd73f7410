"""Studies from the command line and from Python, on a cluster within this process."""

import asyncio
import json
import math
import random
import shutil
import subprocess
import sys
import time
from contextlib import chdir, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pandas as pd
import psutil
import pytest
from conftest import command_line
from distributed import Security, rpc
from held import held, write_study
from in_process import one_for_all, write_quick
from interrupting import assert_same_tables
from loopback import PATIENCE_S, wait_until

import wirelessdl
from wirelessdl.cli.sweep import _figures
from wirelessdl.errors import StudyError, TraceError
from wirelessdl.study import cluster as cluster_module
from wirelessdl.study import engine
from wirelessdl.study.cluster import DaskCluster, Done, SchedulerLost
from wirelessdl.study.folder import read_plan, write_plan
from wirelessdl.study.plan import spec_of
from wirelessdl.study.task import RunTask, check, run_or_resume
from wirelessdl.trace.files import RunLock
from wirelessdl.trace.study import STOP, PlannedRun, Row, figures_of, read_manifest, sealed, status_of, task_lock

BROKEN = """
import os

def strike(event):
    '''Fails as often as the file named fails says.'''
    left = int(open("fails").read())
    if left:
        open("fails", "w").write(str(left - 1))
        raise ValueError("struck")
"""


@pytest.fixture(scope="module", autouse=True)
def one_cluster():
    with one_for_all() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two epsilons, two sizes, two seeds, and local beside them: 12 runs. In it, what the command line said."""
    folder = tmp_path_factory.mktemp("study")
    write_quick(folder)
    with chdir(folder):
        said = command_line(
            *("sweep", "tiny.toml", "--vary", "privacy.epsilon_max=0.5,inf", "--vary", "network.nodes=3,4"),
            *("--seeds", "2", "--out", "out"),
        )
    assert said.code == 0, said.err
    (folder / "said.txt").write_text(said.out)
    return folder / "out"


def rows(study):
    return pd.read_parquet(study / "index.parquet")


def test_every_planned_run_is_there_and_equals_the_run_by_itself(study):
    index = rows(study)
    assert len(index) == 12
    assert set(index["status"]) == {"finished"}
    row = index[(index["network.nodes"] == 4) & (index["seed"] == 4) & index["privacy.epsilon_max"].eq(0.5)].iloc[0]
    with chdir(study.parent):
        overrides = ["privacy.epsilon_max=0.5", "network.nodes=4", "scenario.seed=4"]
        alone = wirelessdl.simulate(
            wirelessdl.load_scenario("tiny.toml", overrides=overrides), out=study.parent / "alone"
        )
    assert_same_tables(study / row["path"], alone.path)
    for key in ("accuracy_mean", "epsilon_total", "energy_j"):
        assert row[key] == alone.summary[key]


def test_the_index_has_numbers_where_json_has_texts_and_local_beside(study):
    index = rows(study)
    assert index["privacy.epsilon_max"].dtype == float
    assert math.inf in set(index["privacy.epsilon_max"])
    assert index["epsilon_total"].dtype == float
    assert str(index["seed"].dtype) == "int64"
    local = index[index["baseline"] == "local"]
    assert sorted(local["network.nodes"]) == [3, 3, 4, 4]
    assert local["privacy.epsilon_max"].isna().all()
    assert (local["epsilon_total"] == 0).all()
    assert "warnings" not in index


def test_the_manifest_says_what_decides_results(study):
    manifest = read_manifest(study)
    assert manifest["varied"] == ["privacy.epsilon_max", "network.nodes"]
    assert (manifest["seeds"], manifest["runs"], manifest["scenario"]) == ([3, 4], [1], "tiny.toml")
    assert manifest["versions"]["wirelessdl"] == wirelessdl.__version__
    assert manifest["cells"][2] == {
        "cell": "c002",
        "name": None,
        "values": {"privacy.epsilon_max": "inf", "network.nodes": 3},
        "overrides": ["privacy.epsilon_max=inf", "network.nodes=3"],
        "baseline": None,
    }
    assert {run.path for run in read_plan(study)[0].planned()} == set(rows(study)["path"])
    threads = {wirelessdl.open_run(study / path).provenance["threads"] for path in rows(study)["path"]}
    assert threads == {manifest["threads"]}


def test_what_the_terminal_says(study):
    first, *lines, last = (study.parent / "said.txt").read_text().splitlines()
    assert first.startswith("out  6 cells, 12 runs, in out; 1 worker of ")
    # Runs report as they end; which of them ends first is the scheduler's.
    assert [line.split()[0] for line in lines] == [f"{done}/12" for done in range(1, 13)]
    assert sum("  c000-s3-r1 epsilon_max=0.5 nodes=3  accuracy " in line for line in lines) == 1
    against = [line.partition("(replace-one), proven, against ")[2] for line in lines]
    assert sorted({words.rpartition(", ")[0] for words in against}) == [
        "all other nodes colluding",
        "all other nodes: nothing is ever sent",
    ]
    assert len({line.split()[1] for line in lines}) == 12
    assert last.startswith("12 runs in out, ")
    assert last.endswith("index in out/index.parquet")


def test_a_complete_study_says_so_and_resuming_it_restores_its_index_and_nothing_else(study):
    before = {path: path.stat().st_mtime_ns for path in study.glob("runs/*/*/*")}
    index = rows(study)
    (study / "index.parquet").unlink()
    with chdir(study.parent):
        done = command_line("sweep", "--resume", "out")
        told = json.loads(command_line("list", "out", "--json").out.splitlines()[0])
    assert (told["finished"], told["runs"], told["state"], told["error"]) == (12, 12, "done", "")
    assert done.out.strip() == "12 runs in out, all finished before; index in out/index.parquet"
    pd.testing.assert_frame_equal(rows(study), index)
    assert before == {path: path.stat().st_mtime_ns for path in study.glob("runs/*/*/*")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--out", "out"],
            "StudyError: --out is out; the study out is there already: go on with it by --resume",
        ),
        (["--out", "tiny.toml"], "StudyError: --out is tiny.toml; is a file, and no study"),
        (["--out", "out/runs"], "TraceError: out/runs: belongs to the study "),
        (["--vary", "privacy.epsilonmax=1"], "unknown key privacy.epsilonmax; did you mean privacy.epsilon_max?"),
        (["--vary", "network.nodes="], "StudyError: network.nodes has no values; the grid would be empty"),
        (["--vary", "nodes"], "StudyError: --vary nodes: must be section.key=value,value"),
        (["--vary", "network.nodes=3", "--vary", "network.nodes=4"], "StudyError: --vary network.nodes is given twice"),
        (["--vary", "learning.model=resnet21"], "cell c000 (learning.model=resnet21): learning.model.model is"),
        (["--vary", "network.nodes=4,200"], "cell c001 (network.nodes=200)"),
        (["--jobs", "0"], "StudyError: --jobs is 0; must be >= 1"),
        (["--jobs", "2", "--scheduler", "tcp://x:1"], "StudyError: --jobs and --scheduler exclude each other"),
        (["--seeds", "0"], "StudyError: seeds is 0; must be from 1 to 100,000 different numbers"),
        (["--baseline", "lokal"], 'StudyError: baseline is "lokal"; there is none of that name; did you mean local?'),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(study, arguments, message):
    with chdir(study.parent):
        there = sorted(Path().rglob("*"))
        if "--out" not in arguments:
            arguments = [*arguments, "--out", "other"]
        done = command_line("sweep", "tiny.toml", *arguments)
        assert sorted(Path().rglob("*")) == there
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a SCENARIO or a study file"),
        (["tiny.toml", "--resume", "out"], "SCENARIO, --resume and --status exclude each other"),
        (["tiny.toml", "--status", "out"], "SCENARIO, --resume and --status exclude each other"),
        (["--resume", "out", "--seeds", "4"], "a study goes on as it was"),
        (["tiny.toml", "--force"], "--force goes with --resume"),
        (["--resume", "out", "--dry-run"], "--dry-run goes with a SCENARIO"),
    ],
)
def test_options_that_exclude_each_other(study, arguments, message):
    with chdir(study.parent):
        done = command_line("sweep", *arguments)
    assert done.code == 2
    assert message in " ".join(done.err.split())


@contextmanager
def changed(study, name, change):
    """A file of the study, or beside it, written otherwise, while a run of the study is still to be made."""
    path, run, aside = study.parent / name, study / "runs" / "c001-s3-r1", study.parent / "aside"
    before = path.read_text()
    path.write_text(change(before))
    run.rename(aside)
    try:
        yield
    finally:
        shutil.rmtree(run, ignore_errors=True)
        aside.rename(run)
        path.write_text(before)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tiny.toml", ("rounds = 2", "rounds = 3"), "tiny.toml was changed since: scenario.rounds was 2, is 3"),
        ("out/scenario.toml", ("rounds = 2", "rounds = 3"), "scenario.toml: was changed since the study began"),
        ("out/study.json", ('"seeds": [', '"sseeds": ['), "study.json: was edited"),
        ("out/study.json", ('"c001"', '"../x"'), "study.json: was edited"),
        ("out/study.json", ("epsilon_max=0.5", "epsilon_max=0.7"), "study.json: was edited"),
    ],
)
def test_a_study_that_was_changed_is_not_gone_on_with(study, name, text, message):
    with changed(study, name, lambda before: before.replace(*text)), chdir(study.parent):
        done = command_line("sweep", "--resume", "out")
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_a_study_of_other_versions_goes_on_by_force_only(study):
    def older(before):
        content = json.loads(before)
        content["versions"]["wirelessdl"] = "90.1.0"
        return json.dumps(sealed(content))

    index = (study / "index.parquet").read_bytes()
    with changed(study, "out/study.json", older), chdir(study.parent):
        done, forced = (command_line("sweep", "--resume", "out", *force) for force in ((), ("--force",)))
    (study / "index.parquet").write_bytes(index)
    assert done.code == 2
    assert f"wirelessdl was 90.1.0, is {wirelessdl.__version__}; --force goes on" in done.err
    assert forced.code == 0, forced.err


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00{}", b'{"epsilon_totbl": 1.0}'])
def test_a_finished_run_without_readable_figures_is_not_counted_as_finished(study, content):
    """Its row had empty figures, and nothing was said."""
    path = study / "runs" / "c001-s3-r1" / "summary.json"
    before, index = path.read_bytes(), (study / "index.parquet").read_bytes()
    path.write_bytes(content)
    try:
        with chdir(study.parent):
            done = command_line("sweep", "--resume", "out")
    finally:
        path.write_bytes(before)
        (study / "index.parquet").write_bytes(index)
    assert done.code == 1
    assert "summary.json" in done.err


def test_every_flipped_bit_of_the_manifest_is_noticed(study, tmp_path):
    """A cell of another value went through unsaid."""
    copy = shutil.copytree(study, tmp_path / "copy", ignore=shutil.ignore_patterns("runs"))
    good, old = wirelessdl.open_study(study).index, (copy / "study.json").read_bytes()
    for number in range(150):
        rng = random.Random(number)
        place = rng.randrange(len(old))
        flipped = bytes([old[place] ^ (1 << rng.randrange(8))])
        (copy / "study.json").write_bytes(old[:place] + flipped + old[place + 1 :])
        with suppress(TraceError):
            pd.testing.assert_frame_equal(wirelessdl.open_study(copy).index, good)


def test_another_table_in_place_of_the_index(study, tmp_path):
    """Found by damages: a traceback."""
    copy = shutil.copytree(study, tmp_path / "copy")
    shutil.copy(next(copy.glob("runs/*/nodes/*.parquet")), copy / "index.parquet")
    assert "index.parquet: has no column status" in command_line("list", str(copy)).out
    assert "copy/index.parquet: " in command_line("compare", str(copy)).err
    assert command_line("sweep", "--resume", str(copy)).code == 0
    pd.testing.assert_frame_equal(rows(copy), rows(study))


def test_a_study_without_its_manifest_is_named_as_such(study, tmp_path):
    """Found by damages: compare asked for a second run."""
    assert "not a study (no study.json)" in command_line("sweep", "--resume", str(tmp_path)).err
    assert "no such folder" in command_line("sweep", "--resume", str(tmp_path / "x")).err
    copy = shutil.copytree(study, tmp_path / "copy", ignore=shutil.ignore_patterns("runs"))
    (copy / "study.json").unlink()
    for name in ("compare", "report", "plot"):
        done = command_line(name, str(copy))
        assert done.code == 2
        assert done.err == f"TraceError: {copy}: is a study whose study.json is missing; restore it\n"


def test_dry_run_tells_cells_and_writes_nothing(tmp_path):
    write_quick(tmp_path, scenario={"rounds": 40})
    with chdir(tmp_path):
        arguments = ("sweep", "tiny.toml", "--vary", "network.nodes=3,4", "--seeds", "3", "--dry-run")
        done = command_line(*arguments)
        told = json.loads(command_line(*arguments, "--json").out)
    assert done.code == 0, done.err
    assert [line.split()[0] for line in done.out.splitlines()[:4]] == ["c000", "c001", "c002", "c003"]
    assert done.out.splitlines()[-1] == "4 cells x 3 seeds x 1 run: 12 runs; nothing was written"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.toml"]
    assert [cell["values"].get("network.nodes") for cell in told["cells"][:2]] == [3, 4]


def test_json_lines(tmp_path):
    """A total stands with its status, adversary and adjacency, and at the declared rounds where a rule stopped it."""
    write_quick(tmp_path, scenario={"rounds": 6}, learning={"eval_every": 1, "stop_after": 2, "stop_within": 1.0})
    with chdir(tmp_path):
        done = command_line("sweep", "tiny.toml", "--seeds", "2", "--no-local", "--json", "--out", "out")
    one, other, last = map(json.loads, done.out.splitlines())
    summary = wirelessdl.open_run(tmp_path / "out" / one["path"]).summary
    for key in ("epsilon_total", "epsilon_declared", "epsilon_status", "unit", "adjacency", "adversary"):
        assert one[key] == summary[key]
    assert one["epsilon_total"] < one["epsilon_declared"]
    row = Row(PlannedRun("c000", None, None, {}, 3, 1), "finished", None, summary)
    words = f"epsilon {summary['epsilon_declared']:.3g} (replace-one), proven, against all other nodes colluding"
    assert words in _figures(row)
    assert {one["path"], other["path"]} == {"runs/c000-s3-r1", "runs/c000-s4-r1"}
    assert one["event"] == "finished"
    assert (last["event"], last["finished"]) == ("study", 2)


def with_strikes(folder, fails, **sections):
    write_quick(folder, trace={"connect": {"learning.update": "strike.py:strike"}}, **sections)
    (folder / "strike.py").write_text(BROKEN)
    (folder / "fails").write_text(str(fails))


def test_failures_are_isolated_told_in_one_line_and_can_be_tried_again(tmp_path):
    with_strikes(tmp_path, fails=4)  # once each, and the first of them again
    with chdir(tmp_path):
        done = command_line("sweep", "tiny.toml", "--seeds", "3", "--no-local", "--out", "out")
        assert done.code == 1
        assert "failed, is tried again" in done.out
        index = rows(Path("out"))
        assert sorted(index["status"]) == ["failed", "finished", "finished"]
        failed = index[index["status"] == "failed"].iloc[0]
        assert "struck" in failed["error"]
        assert len(failed["error"].splitlines()) == 1
        assert math.isnan(failed["accuracy_mean"])
        line, last = done.err.splitlines()
        assert line == f"{failed['path'].removeprefix('runs/')}: {failed['error']}"
        assert last == ("1 of 3 runs failed; the others are kept; try again with: wirelessdl sweep --resume out")
        listed = command_line("sweep", "--status", "out").out
        assert "2/3" in listed
        assert "struck" in listed
        again = command_line("sweep", "--resume", "out")
        assert again.code == 0, again.err
    assert set(rows(tmp_path / "out")["status"]) == {"finished"}


def test_a_bug_leaves_its_traceback_in_a_file(tmp_path, monkeypatch):
    write_quick(tmp_path)

    def broken(*_, **__):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("wirelessdl.run.session.simulate", broken)
    with chdir(tmp_path):
        done = command_line("sweep", "tiny.toml", "--no-local", "--out", "out")
    assert done.code == 1
    assert "ZeroDivisionError: oops (traceback in errors/c000-s3-r1.txt)" in done.err
    assert "in broken" in (tmp_path / "out" / "errors" / "c000-s3-r1.txt").read_text()
    assert rows(tmp_path / "out")["status"].tolist() == ["failed"]
    assert "out: c000-s3-r1: ZeroDivisionError: oops" in command_line("list", str(tmp_path / "out")).out


def test_a_changed_file_of_the_users_is_not_gone_on_with(tmp_path):
    with_strikes(tmp_path, fails=2)
    with chdir(tmp_path):
        assert command_line("sweep", "tiny.toml", "--no-local", "--out", "out").code == 1
        (tmp_path / "strike.py").write_text(BROKEN + "# another\n")
        done = command_line("sweep", "--resume", "out")
    assert done.code == 2
    assert done.err.strip() == (
        "StudyError: out: cannot go on: strike.py was changed since; restore it, or start a new study"
    )


def test_one_driver_at_a_time(tmp_path):
    with_strikes(tmp_path, fails=2)
    with chdir(tmp_path):
        command_line("sweep", "tiny.toml", "--no-local", "--out", "out")
        with RunLock(Path("out")):
            done = command_line("sweep", "--resume", "out")
            listed = command_line("list", "out").out
    assert done.code == 2
    assert "out: is being written by process" in done.err
    assert "running" in listed


def test_python_sweeps_a_scenario_and_opens_the_study(tmp_path):
    scenario = wirelessdl.load_scenario(write_quick(tmp_path))
    found = wirelessdl.sweep(scenario, vary={"network.nodes": [3, 4]}, seeds=2, local=False, out=tmp_path / "out")
    assert found.varied == ["network.nodes"]
    assert len(found.runs()) == 4
    assert found.mean(by=["network.nodes"])["n"].tolist() == [2, 2]
    again = wirelessdl.sweep(resume=tmp_path / "out")
    pd.testing.assert_frame_equal(again.index, found.index)


def test_one_process_sweeps_again_on_workers_of_its_own(tmp_path):
    """In a process of its own: what the first study leaves behind is what the second one meets."""
    write_quick(tmp_path)
    script = """
import wirelessdl

if __name__ == "__main__":
    for out in ("first", "second"):
        found = wirelessdl.sweep("tiny.toml", local=False, jobs=1, out=out)
        print(out, len(found.runs()))
"""
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["first", "1", "second", "1"]


def test_python_warns_of_failures(tmp_path):
    with_strikes(tmp_path, fails=2)
    with chdir(tmp_path), pytest.warns(UserWarning, match="1 runs failed, the first c000-s3-r1: .*struck"):
        wirelessdl.sweep("tiny.toml", local=False, out="out")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "name a scenario, or a study to resume"),
        ({"scenario": "quickstart", "vary": {"network.nodes": 4}}, "network.nodes is 4; must be a list of values"),
        ({"scenario": "quickstart", "resume": "out"}, "leave scenario and vary out"),
        ({"scenario": "quickstart", "seeds": []}, r"seeds is \[\]; must be from 1"),
    ],
)
def test_python_refuses_in_one_line(given, message):
    with pytest.raises(StudyError, match=message):
        wirelessdl.sweep(**given)


# --- one task


def task_for(folder):
    """A study of one run, planned but not begun, and its task."""
    write_quick(folder, scenario={"rounds": 30}, trace={"checkpoint_every": 20, "flush_every": 20})
    with chdir(folder):
        plan = engine.plan_of(spec_of("tiny.toml", {}, None, None, (), (), False), engine.Options(jobs=1, threads=1))
    write_plan(folder / "out", plan, {})
    (planned,) = plan.planned()
    job = engine.job_of(plan, plan.cells[0], planned.seed, planned.run)
    return RunTask(job, str((folder / "out").resolve()), planned), planned


def test_a_task_stops_where_the_study_says_so_goes_on_later_and_is_run_once(tmp_path):
    task, planned = task_for(tmp_path)
    out = tmp_path / "out"
    (out / STOP).touch()
    assert run_or_resume(task).status == "stopped"
    assert status_of(out, planned) == ("planned", None)
    (out / STOP).unlink()
    left = out / "runs" / f".{planned.folder_name}.abc"  # of a process that was killed
    left.mkdir()
    assert run_or_resume(task).status == "finished"
    assert sorted(path.name for path in (out / "runs").iterdir()) == [planned.folder_name]
    written = {path: path.stat().st_mtime_ns for path in (out / planned.path).rglob("*")}
    assert run_or_resume(task).status == "finished"
    assert written == {path: path.stat().st_mtime_ns for path in (out / planned.path).rglob("*")}
    assert status_of(out, planned) == ("finished", None)
    assert figures_of(out, planned)["rounds"] == 30


def test_a_task_waits_for_another_that_has_the_same_run(tmp_path, one_cluster):
    task, planned = task_for(tmp_path)
    lock = RunLock(tmp_path / "out" / "runs", task_lock(planned.folder_name))
    assert status_of(tmp_path / "out", planned)[0] == "running"
    one_cluster.submit(f"waits-{tmp_path.name}", run_or_resume, task)
    time.sleep(0.5)
    assert not (tmp_path / "out" / planned.path).exists()
    lock.release()
    found: list[Done] = []
    while not found:
        found = list(one_cluster.finished())
    assert found[0].value.status == "finished"


def test_a_worker_without_the_files_says_so(tmp_path):
    task, _ = task_for(tmp_path)
    (tmp_path / "out" / "study.json").unlink()
    outcome = run_or_resume(task)
    assert outcome.status == "failed"
    assert "workers need the files of the machine" in outcome.error


ENDED = "code of the user's ended the program: SystemExit: over (test_sweep.py line"


def test_code_that_ends_the_program_unguarded_is_a_failed_run_with_its_line(tmp_path, monkeypatch):
    """A worker that passes it on is taken for dead."""

    def ends(*_args, **_named):
        raise SystemExit("over")

    task, _ = task_for(tmp_path)
    monkeypatch.setattr("wirelessdl.run.session.simulate", ends)
    monkeypatch.setattr("wirelessdl.run.build.build", ends)
    outcome = run_or_resume(task)
    assert (outcome.status, outcome.error[:12]) == ("failed", "StudyError: ")
    assert all(line.startswith(ENDED) for line in (outcome.error[12:], check(task.job).error))


# --- schedulers that are not there


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tcp://127.0.0.1:9", r"no scheduler answers there within 0.3 s .*start one with `dask scheduler`"),
        ("nonsense://x", "--scheduler is nonsense://x"),
        ("tls://127.0.0.1:9", r"Dask's configuration has no certificate: distributed\.comm\.tls"),
    ],
)
def test_a_scheduler_that_cannot_be_reached_is_one_line_soon(address, message, monkeypatch):
    monkeypatch.setattr(cluster_module, "_CONNECT_S", 0.3)
    with (
        pytest.raises(StudyError, match=message) as refused,
        cluster_module.open_cluster(jobs=1, threads=1, scheduler=address),
    ):
        pass
    assert len(str(refused.value).splitlines()) == 1


def test_nobody_without_its_key_connects_to_the_scheduler_of_a_running_sweep(tmp_path):
    """Whoever does can run code as its user: every port that the sweep and its workers listen on is tried."""
    write_study(tmp_path)
    (tmp_path / "hold").touch()
    command = [sys.executable, "-m", "wirelessdl", "sweep", "study.toml", "--jobs", "1", "--out", "out", "--quiet"]
    driver = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_until(lambda: held(tmp_path) or driver.poll() is not None, "a run in progress")
        processes = [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]
        listening = [
            place.laddr for process in processes for place in process.net_connections() if place.status == "LISTEN"
        ]
        assert {place.ip for place in listening} == {"127.0.0.1"}
        assert len(listening) >= 3  # scheduler, nanny, worker; pages of theirs
        strangers = {"tcp": Security(), "tls": Security.temporary()}  # without a key, and with another
        asked = [(f"{name}://127.0.0.1:{place.port}", one) for place in listening for name, one in strangers.items()]
        assert asyncio.run(obedient(asked)) == []
        for place in listening:
            with suppress(OSError, HTTPException):  # not a page
                page = HTTPConnection("127.0.0.1", place.port, timeout=5)
                page.request("GET", "/info/main/workers.html")
                assert page.getresponse().status == 404
        assert driver.poll() is None
    finally:
        driver.kill()
        driver.communicate(timeout=PATIENCE_S)


async def obedient(asked):
    """Those of the addresses at which a request of Dask's is answered."""

    async def ask(address, security):
        async with rpc(address, connection_args=security.get_connection_args("client"), timeout=2) as there:
            return await asyncio.wait_for(there.identity(), 5)

    answers = await asyncio.gather(*(ask(*one) for one in asked), return_exceptions=True)
    assert all(isinstance(answer, dict | OSError | TimeoutError | ValueError) for answer in answers), answers
    return [address for (address, _), answer in zip(asked, answers) if isinstance(answer, dict)]


def test_a_lost_scheduler_is_noticed():
    class Gone:
        status = "closed"

    with pytest.raises(SchedulerLost, match="the scheduler at tcp://a:1 is gone"):
        DaskCluster(Gone(), "tcp://a:1").workers()
