"""`wirelessdl watch`: a page that follows a run, for who has the token and nobody else; and `--log wandb`."""

import http.client
import importlib.util
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading

import pytest
from in_process import quick_table, write_quick

import wirelessdl
from wirelessdl import TraceError
from wirelessdl.cli.watch import Watch, WatchServer
from wirelessdl.scenario.loader import parse_scenario


def asked(server, path, host=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()


@pytest.fixture
def served(tmp_path):
    """A run in round 25 of 60 that waits, and the server that watches it."""
    seen, go = threading.Event(), threading.Event()

    def hold(round):
        if round == 25:
            seen.set()
            go.wait(60)

    given = parse_scenario(quick_table(scenario={"rounds": 60}, trace={"flush_every": 20, "checkpoint_every": 20}))
    runs = []
    thread = threading.Thread(
        target=lambda: runs.append(wirelessdl.simulate(given, out=tmp_path, name="r", on_round=hold))
    )
    thread.start()
    assert seen.wait(60)
    server = WatchServer(Watch(tmp_path / "r", every_s=0.0), 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def finish():
        go.set()
        thread.join(60)
        assert runs

    yield server, finish
    finish()
    server.shutdown()
    server.server_close()


def test_the_page_follows_the_run_until_it_is_done(served):
    server, finish = served
    before = sorted(path.name for path in server.watch.run.rglob("*"))
    status, headers, page = asked(server, f"/{server.token}/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Refresh"] == "0"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert sorted(path.name for path in server.watch.run.rglob("*")) == before  # nothing is written there
    finish()
    _, headers, last = asked(server, f"/{server.token}/")
    assert "Refresh" not in headers  # this one is final
    assert last != page
    assert asked(server, f"/{server.token}/")[2] == last


def test_nobody_else_gets_an_answer(served):
    server, _ = served
    assert len(server.token) >= 32
    assert server.server_address[0] == "127.0.0.1"
    for path in (
        "/",
        "/x/",
        f"/{server.token}",
        f"/{server.token}/../",
        f"/{server.token[:-1]}/",
        "/%2e%2e/etc/passwd",
    ):
        status, _, page = asked(server, path)
        assert status == 404, path
        assert server.token not in page
    assert asked(server, f"/{server.token}/", host=f"evil.example:{server.server_port}")[0] == 404
    assert asked(server, f"/{server.token}/", host=f"localhost:{server.server_port}")[0] == 200
    assert WatchServer(server.watch, 0).token != server.token


def test_ctrl_c_stops_it_and_leaves_the_run_alone(tmp_path):
    wirelessdl.simulate(parse_scenario(quick_table()), out=tmp_path, name="r")
    command = [sys.executable, "-m", "wirelessdl", "watch", "r"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert re.fullmatch(r"watch http://127\.0\.0\.1:\d+/[\w-]{32}/\n", line)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.endswith("stopped; the run goes on by itself\n")
    assert err == ""


@pytest.mark.parametrize("words", [["nothing"], ["r", "--port", "{taken}"]])
def test_mistakes_are_one_line(tmp_path, words):
    wirelessdl.simulate(parse_scenario(quick_table()), out=tmp_path, name="r")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = [word.format(taken=taken.getsockname()[1]) for word in words]
        command = [sys.executable, "-m", "wirelessdl", "watch", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "nothing" in done.stderr or "cannot be listened on" in done.stderr


def test_wandb_that_is_missing_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(TraceError, match=r"--log wandb needs a package .* pip install wirelessdl\[wandb\]"):
        wirelessdl.simulate(parse_scenario(quick_table()), out=tmp_path, log="wandb")
    assert not list(tmp_path.iterdir())


def wandb_records(content):
    """Records of a .wandb file: LevelDB's log format behind seven bytes."""
    assert content[:4] == b":W&B"
    place, parts = 7, []
    while place + 7 <= len(content):
        if 32768 - place % 32768 < 7:  # the rest of a block that holds no header
            place += 32768 - place % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        parts.append(content[place + 7 : place + 7 + length])
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield b"".join(parts)
            parts = []


@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="wandb is not installed: pip install wandb")
def test_wandb_offline_has_the_rounds_table(tmp_path):
    """Its own reader finds in its file what the table holds; no key, and no word on the terminal."""
    write_quick(tmp_path, scenario={"rounds": 23})
    command = [sys.executable, "-m", "wirelessdl", "run", "tiny.toml", "--log", "wandb", "--quiet"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=plain)
    assert done.stdout == ""
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    from wandb.proto import wandb_internal_pb2 as messages

    rows = {}
    for data in wandb_records(next(folder.glob("*.wandb")).read_bytes()):
        record = messages.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
            rows[int(items["_step"])] = {key: float(text) for key, text in items.items() if key[0] != "_"}
    (path,) = (tmp_path / "outputs").iterdir()
    table = wirelessdl.open_run(path).rounds.set_index("round")
    assert sorted(rows) == list(range(1, 24))
    for column in ("time_s", "epsilon_own_bound", "learning_rate", "energy_j", "loss_mean"):
        assert [rows[n][column] for n in sorted(rows)] == table[column].tolist()
    assert {n for n in rows if "accuracy_mean" in rows[n]} == set(table["accuracy_mean"].dropna().index)
