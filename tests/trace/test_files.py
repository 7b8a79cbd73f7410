"""Files written aside and renamed: two writers of one, and what a killed one leaves."""

import os
import threading
from contextlib import chdir
from pathlib import Path

import pytest
import tomli_w
from conftest import command_line, tiny, tiny_table
from interrupting import StopAt, assert_same_tables

import wirelessdl
from wirelessdl.errors import TraceError
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.files import StablePath, is_locked, write_text, write_whole


def test_two_writers_of_one_file_each_write_it_whole(tmp_path):
    """The second begins and ends while the first is half done."""
    path = tmp_path / "index.parquet"
    seen = []

    def slowly(handle):
        handle.write(b"first, ")
        handle.flush()
        second = threading.Thread(target=write_text, args=(path, "second, whole"))
        second.start()
        second.join()
        seen.append(path.read_text())
        handle.write(b"whole")

    write_whole(path, slowly)
    assert seen == ["second, whole"]
    assert path.read_text() == "first, whole"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("no table")])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(error, tmp_path):
    path = tmp_path / "summary.json"
    write_text(path, "old")

    def fails(handle):
        handle.write(b"half")
        raise error

    with pytest.raises(TraceError if isinstance(error, OSError) else type(error)):
        write_whole(path, fails)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


OURS = [
    ".scenario.toml.0a1b2c3d",
    ".summary.json.0a1b2c3d",
    ".checksums.txt.0a1b2c3d",
    ".report.html.0a1b2c3d",
    "rounds/.part-000085.parquet.0a1b2c3d",
    "nodes/.part-000085.parquet.0a1b2c3d",
    "checkpoint/.round-000085.npz.0a1b2c3d",
    "models/.0123456789ab-street.py.0a1b2c3d",
]
MINE = [
    ".notes",
    ".gitignore",
    ".scenario.toml.swp",
    "mine/.env",
    "mine/.part-000085.parquet",
    "rounds/.comments",
    "checkpoint/.keep",
    "models/.street.py",
]


def test_resume_removes_what_a_killed_process_left_and_no_other_hidden_file(tmp_path):
    stop = StopAt(2)
    scenario = tiny(scenario={"rounds": 4})
    run = wirelessdl.simulate(scenario, out=tmp_path, on_round=stop.on_round, should_stop=stop.should_stop).path
    elsewhere = tmp_path / "elsewhere"
    for name in (*OURS, *MINE):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("half")
        os.utime(run / name, (0, 0))  # of a process that was killed long ago
    (run / ".report.html.ffffffff").write_text("half")  # of one that writes a report now, without a lock
    elsewhere.mkdir()
    (elsewhere / ".part-000085.parquet").write_text("mine")
    (run / "blocks").symlink_to(elsewhere)  # a table that this run does not write
    assert wirelessdl.resume(run).summary["rounds"] == 4
    assert [name for name in MINE if not (run / name).exists()] == []
    assert [name for name in OURS if (run / name).exists()] == []
    assert (run / ".report.html.ffffffff").exists()
    assert (elsewhere / ".part-000085.parquet").exists()


def test_a_report_removes_what_killed_ones_left_in_its_run_and_nothing_beside_others(tmp_path):
    run = wirelessdl.simulate(tiny(scenario={"rounds": 2}), out=tmp_path).path
    for folder in (run, tmp_path):
        (folder / ".report.html.0a1b2c3d").write_text("half")
        os.utime(folder / ".report.html.0a1b2c3d", (0, 0))
        assert command_line("report", str(run), "--out", str(folder / "report.html")).code == 0
    assert not (run / ".report.html.0a1b2c3d").exists()
    assert (tmp_path / ".report.html.0a1b2c3d").exists()


# --- Code of the user's that changes the working folder: a run stays where it began, and is called as it was named

MOVES = """
import os
import numpy as np

{at_import}

class Moves:
    def gain(self, links, time_s, rng):
        {in_a_round}
        return np.full(len(links), 0.5)
"""
MOVED = {
    "when it is loaded": {"at_import": "os.chdir('elsewhere')", "in_a_round": "pass"},
    "in every round": {"at_import": "", "in_a_round": "os.chdir(os.environ['ELSEWHERE'])"},
    "in a later round": {
        "at_import": "calls = []",
        "in_a_round": "calls.append(links) or len(calls) != 10 or os.chdir(os.environ['ELSEWHERE'])",
    },
}


@pytest.fixture(params=MOVED.values(), ids=MOVED)
def here(request, tmp_path, monkeypatch):
    """A working folder whose scenario moves to `elsewhere`, where a run of the same name lies."""
    table = tiny_table(
        scenario={"rounds": 45},
        channel={"models": [{"model": "uniform"}, {"model": "mine/moves.py:Moves"}]},
        trace={"checkpoint_every": 20, "flush_every": 20},
    )
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "tiny.toml").write_text(tomli_w.dumps(table))
    monkeypatch.setenv("ELSEWHERE", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    Path("mine/moves.py").write_text(MOVES.format(at_import="", in_a_round="pass"))
    other = wirelessdl.simulate(load_scenario("tiny.toml"), out="elsewhere/outputs").path
    Path("mine/moves.py").write_text(MOVES.format(**request.param))
    before = contents(tmp_path / other)
    yield tmp_path
    assert contents(tmp_path / other) == before


def contents(run):
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_a_run_whose_code_moves_away_is_written_where_it_began(here):
    run = wirelessdl.simulate(load_scenario("tiny.toml"))
    assert Path.cwd() == here / "elsewhere"
    assert run.path == here / "outputs" / "tiny-s3-r1"  # absolute: the name that was given leads elsewhere
    assert run.summary["rounds"] == len(run.rounds) == 45
    assert run.provenance["folder"] == str(here)
    assert not is_locked(run.path)
    assert sorted(path.name for path in (here / "elsewhere").iterdir()) == ["outputs"]


def test_a_run_whose_code_moves_away_goes_on_where_it_was_interrupted(here):
    with chdir(here):
        whole = wirelessdl.simulate(load_scenario("tiny.toml"), out="whole").path
    stop = StopAt(25)
    with chdir(here):
        part = wirelessdl.simulate(load_scenario("tiny.toml"), on_round=stop.on_round, should_stop=stop.should_stop)
    assert part.state == "interrupted"
    with chdir(here):
        assert_same_tables(wirelessdl.resume("outputs/tiny-s3-r1").path, whole)
        assert wirelessdl.open_run("outputs/tiny-s3-r1").summary["rounds"] == 45
        assert not Path("outputs/tiny-s3-r1/lock").exists()


def test_a_stable_path_is_the_same_folder_from_everywhere(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    place = StablePath(Path("outputs"))
    assert (place.path, place.absolute) == (Path("outputs"), first / "outputs")
    os.chdir(second)
    assert (place.path, place.absolute) == (first / "outputs", first / "outputs")
    os.chdir(first)
    assert place.path == Path("outputs")
    os.chdir(second)
