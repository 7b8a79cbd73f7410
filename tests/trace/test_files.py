"""Files written aside and renamed: two writers of one, and what a killed one leaves."""

import os
import threading

import pytest
from conftest import command_line, tiny
from interrupting import StopAt

import wirelessdl
from wirelessdl.errors import TraceError
from wirelessdl.trace.files import write_text, write_whole


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


def test_a_name_as_long_as_a_file_system_takes_is_written(tmp_path):
    path = tmp_path / ("é" * 127)
    write_text(path, "whole")
    assert path.read_text() == "whole"


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
