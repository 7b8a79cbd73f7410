"""What `wirelessdl list` shows of names, and what the shell completes, in real terminals."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from conftest import command_line

from wirelessdl.channel import CHANNELS
from wirelessdl.run.registry import PARTS

PATIENCE_S = 30.0


def terminal(columns: int) -> tuple[int, int]:
    """Both ends of a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    return ours, theirs


def read_until(end: int, done) -> str:
    """What a terminal shows, until it is done or hangs up."""
    shown = b""
    while not done(shown.decode(errors="replace")):
        assert select.select([end], [], [], PATIENCE_S)[0], shown
        try:
            shown += os.read(end, 65536)
        except OSError:  # hung up
            break
    return shown.decode()


@pytest.mark.parametrize("columns", [80, 60])
def test_names_stay_within_the_width_of_a_terminal(columns):
    ours, theirs = terminal(columns)
    bare = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    listing = subprocess.Popen(
        [sys.executable, "-m", "wirelessdl", "list"], stdout=theirs, env={**bare, "TERM": "xterm"}
    )
    os.close(theirs)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", read_until(ours, lambda _: False)).splitlines()
    os.close(ours)
    assert listing.wait(timeout=PATIENCE_S) == 0
    assert max(map(len, lines)) <= columns
    first = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert {name for kind in PARTS.values() for name in kind.classes} <= set(first)  # whole, and on a line of its own
    assert "…" not in "".join(lines)


def test_one_key_is_listed_with_a_line_for_each_of_its_models():
    title, *lines = command_line("list", "channel.models").out.splitlines()
    assert title == "channel.models"
    assert [line.split()[0] for line in lines] == list(CHANNELS)
    assert json.loads(command_line("list", "channel.models", "--json").out) == {"channel.models": list(CHANNELS)}
    for key, kind in PARTS.items():
        said = command_line("list", key).out.splitlines()[1:]
        assert len(said) == len(kind.classes)
        assert all(len(line.split()) > 2 for line in said), key  # a name is explained


def test_a_name_that_is_no_folder_is_corrected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command_line("list", "channel.model").err == (
        "TraceError: channel.model: no such folder; did you mean channel.models?\n"
    )
    unknown = command_line("list", "outputs").err
    assert unknown == "TraceError: outputs: no such folder; `wirelessdl list` shows all names\n"
    Path("scenarios").mkdir()  # as in the repository
    assert command_line("list", "scenarios").out.startswith("scenarios\n")
    assert command_line("list", "scenarios/").out == "no runs in scenarios\n"


@pytest.fixture
def bash(tmp_path):
    """A shell that completes, and what it shows after keys are pressed."""
    (tmp_path / "mine.toml").touch()
    ours, theirs = terminal(200)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "PS1": "ready> ", "TERM": "dumb", "HISTFILE": "/dev/null"},
        start_new_session=True,
    )
    os.close(theirs)

    def press(keys: str, wanted: str) -> None:
        os.write(ours, keys.encode())
        assert wanted in read_until(ours, lambda shown: wanted in shown)

    press('eval "$(_WIRELESSDL_COMPLETE=bash_source wirelessdl)"; echo comp""letes\n', "completes\r\nready> ")
    yield press
    shell.kill()
    shell.wait()
    os.close(ours)


def test_the_shell_completes_scenarios_baselines_and_keys(bash):
    bash("wirelessdl run quick\t", "run quickstart ")
    bash("--base\t", "--baseline ")
    bash("own\t", "own-noise ")
    bash("--set power.obj\tsum", "--set power.objective=sum")  # no blank before the value
    bash("\x15wirelessdl check min\t", "check mine.toml ")
    bash("\x15wirelessdl sweep quickstart --vary learning.par\t", "--vary learning.partition=")
    bash("\x15wirelessdl list channel.m\t", "list channel.models ")
