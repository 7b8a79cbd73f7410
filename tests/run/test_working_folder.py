"""Code of the user's that changes the working folder: a run stays where it began, and is called as it was named."""

import os
from contextlib import chdir
from pathlib import Path

import pytest
import tomli_w
from conftest import tiny_table
from interrupting import StopAt, assert_same_tables

import wirelessdl
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.files import StablePath, is_locked

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


def test_a_run_is_called_as_it_was_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(tomli_w.dumps(tiny_table()))
    run = wirelessdl.simulate(load_scenario("tiny.toml"))
    assert str(run.path) == "outputs/tiny-s3-r1"
    assert str(wirelessdl.resume("outputs/tiny-s3-r1", rounds=3).path) == "outputs/tiny-s3-r1"


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
    first.rename(tmp_path / "renamed")
    assert (place.path, place.absolute) == (Path("outputs"), tmp_path / "renamed" / "outputs")
    (tmp_path / "renamed").rmdir()
    assert (place.path, place.absolute) == (first / "outputs", first / "outputs")
    os.chdir(second)
