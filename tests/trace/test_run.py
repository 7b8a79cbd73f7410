"""Disks that fail, and parts of runs that were tampered with: one clear error, and the rest is read."""

import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from in_process import quick_table
from interrupting import assert_same_tables

import wirelessdl
from wirelessdl.errors import TraceError
from wirelessdl.scenario.loader import load_scenario, parse_scenario
from wirelessdl.trace import run as run_module
from wirelessdl.trace.soundness import find_parts


@pytest.fixture
def whole(finished, here):
    """A copy of a finished run, to be spoilt; the working folder holds its scenario."""
    return shutil.copytree(finished, here / "whole" / finished.name)


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


# --- Reading a run while it is written


@pytest.mark.parametrize("name", ["nodes", "links"])
def test_a_flush_while_a_table_is_listed_is_not_taken_for_a_deleted_part(name, tmp_path, monkeypatch):
    from wirelessdl.run.session import simulate

    scenario = parse_scenario(quick_table(scenario={"rounds": 40}, trace={"flush_every": 20, "checkpoint_every": 20}))
    folder = simulate(scenario, out=tmp_path, device="cpu").path
    (folder / "summary.json").unlink()
    newest = {table: folder / table / "part-000040.parquet" for table in (name, "rounds")}
    for path in newest.values():
        path.rename(path.with_name(f".{path.name}"))

    def then_flushed(*asked):
        found = find_parts(*asked)
        for path in newest.values():  # rounds last, as a run writes them
            if not path.exists():
                path.with_name(f".{path.name}").rename(path)
        return found

    monkeypatch.setattr(run_module, "find_parts", then_flushed)
    assert wirelessdl.open_run(folder).frame(name)["round"].max() == 40
