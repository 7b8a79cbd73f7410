"""Standard output that takes nothing any more, and a working folder that is gone: one line, and no work is lost."""

import json
import os
import subprocess
import sys

import pytest
import tomli_w
from in_process import quick_table

from wirelessdl.trace.checkpoint import checkpoint_round
from wirelessdl.trace.run import state_of


def _wirelessdl(*words, stdout, cwd, **more):
    command = [sys.executable, "-m", "wirelessdl", *words]
    return subprocess.run(
        command, cwd=cwd, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=900, check=False, **more
    )


def _pipe_without_reader():
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w")


def test_a_run_whose_output_is_full_stops_after_its_round_and_can_be_gone_on_with(tmp_path):
    with open("/dev/full", "w") as full:
        done = _wirelessdl("run", "quickstart", "--rounds", "100000", "--json", stdout=full, cwd=tmp_path)
    run = tmp_path / "outputs" / "quickstart-s7-r1"
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("OutputError: standard output: No space left on device; stopped after round 10; ")
    assert line.endswith("wirelessdl run --resume outputs/quickstart-s7-r1")
    assert (state_of(run), checkpoint_round(run)) == ("interrupted", 10)


def test_a_run_whose_reader_has_left_stops_like_one_that_a_signal_stops(tmp_path):
    with _pipe_without_reader() as pipe:
        words = ("run", "quickstart", "--rounds", "100000", "--json")
        done = _wirelessdl(*words, stdout=pipe, cwd=tmp_path)
    assert done.returncode == 141
    assert done.stderr.splitlines() == [
        "stopped after round 10; resume with: wirelessdl run --resume outputs/quickstart-s7-r1"
    ]
    assert state_of(tmp_path / "outputs" / "quickstart-s7-r1") == "interrupted"


def test_a_list_whose_reader_has_left_ends_without_a_word(tmp_path):
    with _pipe_without_reader() as pipe:
        done = _wirelessdl("list", stdout=pipe, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_list_on_a_full_disk_is_one_line(tmp_path):
    with open("/dev/full", "w") as full:
        done = _wirelessdl("list", stdout=full, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "OSError: standard output: No space left on device\n")


def test_a_working_folder_that_is_gone_is_one_line(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = _wirelessdl("check", "quickstart", stdout=subprocess.PIPE, cwd=gone, preexec_fn=gone.rmdir)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ScenarioError: the working folder is not there any more; change to one that is\n"


def test_what_an_encoding_lacks_is_escaped(tmp_path):
    (tmp_path / "Zürich").mkdir()
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = _wirelessdl("list", "Zürich", stdout=subprocess.PIPE, cwd=tmp_path, env=env)
    assert (done.stdout, done.stderr) == ("no runs in Z\\xfcrich\n", "")


_LOUD = """
print('loaded', flush=True)

class Loud:
    def gain(self, links, time_s, rng):
        print('heard', flush=True)
        return 1.0 + 0 * links.distance_m
"""


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--rounds", "2"],
        ["check", "--rounds", "2"],
        ["plan", "--rounds", "2"],
        ["channel", "--rounds", "2", "--figure", "gains.png"],
        ["audit", "--rounds", "2", "--trials", "200", "--workers", "2"],
        ["sweep", "--rounds", "2", "--no-local", "--jobs", "1", "--out", "out"],
    ],
    ids=" ".join,
)
def test_json_of_every_command_stays_alone_where_a_model_prints_also_in_worker_processes(words, tmp_path):
    (tmp_path / "loud.py").write_text(_LOUD)
    (tmp_path / "tiny.toml").write_text(
        tomli_w.dumps(quick_table(channel={"models": [{"model": "uniform"}, {"model": "loud.py:Loud"}]}))
    )
    command, *options = words
    done = _wirelessdl(command, "tiny.toml", "--json", *options, stdout=subprocess.PIPE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    many = command in ("run", "sweep")
    found = [json.loads(line) for line in done.stdout.splitlines()] if many else json.loads(done.stdout)
    assert found
    assert "loaded" in done.stderr
    assert "heard" in done.stderr
