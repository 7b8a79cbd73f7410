"""Names that no file can have, numbers that are too long, files as Windows writes them."""

import re
import subprocess
import sys

import pytest
from conftest import command_line
from in_process import write_quick

import wirelessdl
from wirelessdl.errors import ScenarioError, StudyError, TraceError, WirelessdlError
from wirelessdl.scenario.loader import load_scenario

LONG = "x" * 300
DIGITS = "9" * 5000
HEX = "0x" + "f" * 5000


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", LONG],
        ["run", "tiny.toml", "--out", LONG],
        ["run", "--resume", "one\ntwo " * 60],
        ["run", "tiny.toml", "--set", f"learning.model={LONG}.py:Net"],
        ["run", "tiny.toml", "--set", f"learning.dataset={{ kind = 'file', path = '{LONG}.npz' }}"],
        ["sweep", LONG],
        ["report", LONG],
        ["verify", LONG],
        ["channel", "tiny.toml", "--export", f"{LONG}.npz"],
        ["run", "/".join("x" * 3000)],
        ["run", "tiny.toml", "--set", f"scenario.seed={DIGITS}"],
        ["run", "tiny.toml", "--set", f"network.nodes={HEX}"],
        ["run", "tiny.toml", "--set", f"channel.models.{DIGITS}.model=uniform"],
        ["sweep", "tiny.toml", "--vary", f"network.nodes=4,{HEX}"],
        ["channel", "tiny.toml", "--links", f"0-{DIGITS}"],
    ],
    ids=lambda arguments: "-".join(arguments)[:40],
)
def test_a_name_or_number_that_is_too_long_is_one_line(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_quick(tmp_path)
    done = command_line(*arguments)
    assert done.code == 2, done.err
    assert len(done.err.splitlines()[-1]) < 700
    assert "Traceback" not in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "quickstart", "--out", b"lat\xe9"],
        ["run", "quickstart", "--set", b"scenario.description=h\xfc"],
        ["verify", b"lat\xe9"],
    ],
)
def test_an_argument_that_is_not_utf_8_is_one_line_before_anything_is_written(arguments, tmp_path):
    command = [sys.executable, "-m", "wirelessdl", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(r"ScenarioError: .*\\udc.*: holds bytes that are not UTF-8, .*\n", done.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_python_refuses_names_that_no_file_can_have(name):
    for call, kind in (
        (lambda: wirelessdl.open_run(name), TraceError),
        (lambda: wirelessdl.open_study(name), TraceError),
        (lambda: wirelessdl.load_scenario(name), ScenarioError),
        (lambda: wirelessdl.sweep(name), StudyError),
    ):
        with pytest.raises(kind, match="no file has such a name"):
            call()


@pytest.mark.parametrize("name", [LONG, "a\0b"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("learning.model", lambda name: f"{name}.py:Net"),
        ("learning.dataset", lambda name: {"kind": "file", "path": f"{name}.npz"}),
        ("learning.partition", lambda name: {"kind": "file", "path": f"{name}.csv"}),
        ("network.placement", lambda name: {"kind": "file", "file": f"{name}.csv"}),
        ("channel.models", lambda name: [{"model": "replay", "file": f"{name}.npz"}]),
        ("trace.connect", lambda name: {"phy.rx": f"{name}.py:heard"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_scenario_refuses_names_that_no_file_can_have(key, value, name, tmp_path):
    with pytest.raises(ScenarioError, match="no file has such a name"):
        wirelessdl.simulate(wirelessdl.load_scenario("quickstart", overrides={key: value(name)}), out=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [DIGITS, HEX])
@pytest.mark.parametrize("file", ["tiny.toml", "study.toml"])
def test_a_file_with_a_number_that_is_too_long_is_one_line(file, number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_quick(tmp_path)
    (tmp_path / "study.toml").write_text('[study]\nscenario = "tiny.toml"\n')
    (tmp_path / file).write_text((tmp_path / file).read_text() + f"[more]\nseed = {number}\n")
    done = command_line("sweep", file)
    assert done.code == 2
    assert f"{file}: a whole number in it has thousands of digits" in done.err
    with pytest.raises(ScenarioError, match="thousands of digits"):
        load_scenario("quickstart", overrides={"scenario.seed": 10**5000})


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = write_quick(tmp_path).read_text()
    (tmp_path / "tiny.toml").write_text(text.replace("\n", "\r\n"), encoding="utf-8-sig")
    assert load_scenario("tiny.toml").scenario.name == "tiny"
    (tmp_path / "study.toml").write_text('[study]\nscenario = "tiny.toml"\nlocal = false\n', encoding="utf-8-sig")
    done = command_line("sweep", "study.toml", "--dry-run")
    assert done.code == 0, done.err
    (tmp_path / "tiny.toml").write_text(text, encoding="utf-16")
    with pytest.raises(WirelessdlError, match="not a text file in UTF-8"):
        load_scenario("tiny.toml")
