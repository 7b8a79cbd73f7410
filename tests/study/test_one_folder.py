"""Two studies that are asked for in one folder: the first that begins keeps it; runs of another are not counted."""

import os
from contextlib import chdir

import pytest
from in_process import in_process, write_quick

from wirelessdl.errors import StudyError
from wirelessdl.run.session import simulate
from wirelessdl.study import engine
from wirelessdl.study.plan import spec_of
from wirelessdl.trace.files import LockedError, RunLock
from wirelessdl.trace.study import RUNS, read_manifest


def plan_of(folder, values, key="network.nodes"):
    write_quick(folder)
    with chdir(folder):
        spec = spec_of("tiny.toml", {key: values}, None, None, (), (), False)
        return engine.plan_of(spec, engine.Options(jobs=1, threads=1))


@pytest.mark.parametrize("still_runs", [True, False])
def test_a_study_that_began_while_another_was_checked_keeps_its_manifest(tmp_path, monkeypatch, still_runs):
    out, held = tmp_path / "out", []

    def other_begins(*_):
        engine.write_plan(out, plan_of(tmp_path, [4]), {})
        held.extend([RunLock(out)] if still_runs else [])
        return {}

    monkeypatch.setattr(engine, "check_cells", other_begins)
    refused, said = (LockedError, "is being written by process") if still_runs else (StudyError, "is there already")
    with pytest.raises(refused, match=said):
        engine.start_study(out, plan_of(tmp_path, [3, 5]), None, engine.Listener())
    assert [cell["values"] for cell in read_manifest(out)["cells"]] == [{"network.nodes": 4}]
    for lock in held:
        lock.release()


def killed_before_its_manifest(tmp_path):
    """The folder of a study whose driver was killed while it wrote study.json, and its plan."""
    out, plan = tmp_path / "out", plan_of(tmp_path, [3])
    engine.write_plan(out, plan, {})
    (out / "study.json").rename(out / ".study.json.0a1b2c3d")
    (out / "lock").write_text("process 1 on here")
    return out, plan


def test_what_a_sweep_that_was_killed_before_its_manifest_left_takes_the_same_study(tmp_path, monkeypatch):
    out, plan = killed_before_its_manifest(tmp_path)
    monkeypatch.setattr(engine, "check_cells", lambda *_: {})
    with in_process() as cluster:
        result = engine.start_study(out, plan, cluster, engine.Listener())
    assert result.counts == {"finished": 1}
    assert sorted(path.name for path in out.iterdir()) == ["index.parquet", "runs", "scenario.toml", "study.json"]


THEIRS = ["notes.txt", "scenario.toml", "runs/x/notes.txt", "models/street.py", "index.parquet", ".notes"]


@pytest.mark.parametrize("theirs", THEIRS)
def test_nothing_of_the_users_is_taken_for_what_a_killed_sweep_left(theirs, tmp_path):
    out, plan = killed_before_its_manifest(tmp_path)
    (out / theirs).parent.mkdir(parents=True, exist_ok=True)
    (out / theirs).write_text("mine")
    with pytest.raises(StudyError, match="is not empty, and no study: choose another folder"):
        engine.require_free(out, plan)


@pytest.mark.parametrize("finished", [True, False])
def test_a_study_that_goes_on_removes_what_killed_drivers_left_half_written_and_nothing_else(tmp_path, finished):
    out, plan = tmp_path / "out", plan_of(tmp_path, [3])
    engine.write_plan(out, plan, {})
    (planned,) = plan.planned()
    if finished:
        scenario = plan.scenario(plan.cells[0], planned.seed, planned.run)
        simulate(scenario, out=out / RUNS, name=planned.folder_name, device="cpu")
    left = [".index.parquet.e0678778", ".study.json.c2e53bc6", ".scenario.toml.0a1b2c3d", ".report.html.f0634f8a"]
    for name in (*left, ".notes", ".index.parquet.swp"):
        (out / name).write_text("half")
        os.utime(out / name, (0, 0))
    if finished:
        engine.finish_study(out, plan)
    else:
        with in_process() as cluster:
            engine.resume_study(out, plan, {}, cluster, engine.Listener())
    names = [".index.parquet.swp", ".notes", "index.parquet", "runs", "scenario.toml", "study.json"]
    assert sorted(path.name for path in out.iterdir()) == names
