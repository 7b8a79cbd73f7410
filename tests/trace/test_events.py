"""Trace sources and the log: whoever asks is told, in order, and nobody else pays."""

import math

import numpy as np
import pytest
import tomli_w
from conftest import ROOT, hubs, tiny, tiny_table
from watching import Watched

import wirelessdl
from wirelessdl.analysis.timeline import hub_turns
from wirelessdl.errors import ContractError, ScenarioError
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import load_scenario, parse_scenario
from wirelessdl.trace.events import TRACE_EVENTS, TraceEvents


def test_every_source_tells_what_the_tables_hold(tmp_path):
    heard = {source: [] for source in TRACE_EVENTS}
    run = wirelessdl.simulate(
        tiny(scenario={"rounds": 3}), out=tmp_path, connect={source: heard[source].append for source in TRACE_EVENTS}
    )
    for source in TRACE_EVENTS[2:]:
        assert len(heard[source]) == 3
    links = run.links.query("round == 2")
    rx = heard["phy.rx"][1]
    np.testing.assert_array_equal(rx.weight, links["weight"])
    np.testing.assert_array_equal(rx.epsilon, links["epsilon"])
    np.testing.assert_array_equal(heard["channel.gain"][1].gain, links["gain"])
    np.testing.assert_array_equal(heard["power.plan"][1].alpha, run.nodes.query("round == 2")["alpha"])
    assert heard["phy.tx"][1].node.tolist() == [0, 1, 2, 3]
    assert heard["mobility.move"][0].position_m.shape == (4, 3)
    assert heard["privacy.release"][0].own_mu.tolist() == [0.0] * 4
    states = [(event.time_s, event.node, event.state) for event in heard["node.state"]]
    table = run.events.dropna(subset="node")
    assert states == list(zip(table["time_s"], table["node"].astype(int), table["kind"]))
    with pytest.raises(AttributeError, match=r"phy.rx has no field gian; did you mean gain"):
        rx.gian  # noqa: B018


def test_every_turn_of_a_hub_is_an_event_at_its_time(tmp_path):
    heard = []
    run = wirelessdl.simulate(hubs(scenario={"rounds": 3}), out=tmp_path, connect={"node.state": heard.append})
    events = run.events[run.events["kind"] == "hub"]
    assert run.events["time_s"].is_monotonic_increasing
    assert len(events) == run.rounds["hubs"].sum() > 3
    heard = [event for event in heard if event.state == "hub"]
    assert [(event.time_s, event.node, event.detail) for event in heard] == list(
        zip(events["time_s"], events["node"], events["detail"])
    )
    turns = hub_turns(run)
    assert len(turns) == len(events)
    for row, round in run.rounds.iterrows():
        mine = [turn for turn in turns if turn.row == row]
        period_s = round["pilot_s"] + 2 * round["guard_s"] + round["payload_s"]
        opened = round["opened_s"] + period_s * np.arange(len(mine))
        assert [turn.opened_s for turn in mine] == pytest.approx(opened.tolist(), abs=1e-9)
        nodes = run.nodes[run.nodes["round"] == round["round"]]
        assert np.bincount([turn.hub for turn in mine], minlength=6).tolist() == nodes["hub_turns"].tolist()
        among = {node for turn in mine for node in turn.members.tolist()} | {turn.hub for turn in mine}
        assert sorted(among) == nodes.loc[nodes["collected"].fillna(False).astype(bool), "node"].tolist()


def test_a_hub_that_fails_says_so(tmp_path):
    run = wirelessdl.simulate(hubs(radio={"hub_failure": 0.5}, scenario={"rounds": 6}), out=tmp_path)
    failed = run.events.loc[run.events["kind"] == "hub", "detail"].str.endswith("; fails before it sends back")
    assert [turn.failed for turn in hub_turns(run)] == failed.tolist()
    assert 0 < failed.sum() < len(failed)


def test_the_page_names_every_source():
    page = (ROOT / "docs" / "time.md").read_text(encoding="utf-8")
    assert all(f"`{source}`" in page for source in TRACE_EVENTS)


def test_an_unknown_source_is_named():
    with pytest.raises(ValueError, match=r'no trace event "phy.rxx"; did you mean phy.rx'):
        TraceEvents().connect("phy.rxx", print)
    with pytest.raises(ScenarioError, match=r'unknown key trace.connect."phy.rxx"; did you mean phy.rx'):
        build(parse_scenario(tiny_table(trace={"connect": {"phy.rxx": "a.py:b"}})), device="cpu")
    with pytest.raises(ScenarioError, match=r'is "no_file"; must name a function, "file.py:function"'):
        build(parse_scenario(tiny_table(trace={"connect": {"phy.rx": "no_file"}})), device="cpu")


CALLBACKS = """
lines = []
def note(event):
    with open("heard.txt", "a") as file:
        file.write(f"{event.round} {event.time_ns} {len(event.rx)}\\n")
def fail(event):
    1 / 0
"""


def test_a_scenario_connects_functions_and_a_resumed_run_tells_each_round_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ears.py").write_text(CALLBACKS)
    table = tiny_table(scenario={"rounds": 30}, trace={"connect": {"phy.rx": ["ears.py:note"]}})
    (tmp_path / "tiny.toml").write_text(tomli_w.dumps(table))
    now = []
    stopped = wirelessdl.simulate(load_scenario("tiny.toml"), on_round=now.append, should_stop=lambda: len(now) >= 12)
    run = wirelessdl.resume(stopped)
    rounds = [int(line.split()[0]) for line in (tmp_path / "heard.txt").read_text().splitlines()]
    assert rounds == list(range(1, 31))
    assert [file.name[13:] for file in (run.path / "models").iterdir()] == ["ears.py"]


def test_a_callback_that_fails_is_one_line(tmp_path):
    (tmp_path / "ears.py").write_text(CALLBACKS)
    table = tiny_table(trace={"connect": {"phy.rx": "ears.py:fail"}})
    with pytest.raises(ContractError, match=r"ears.py:fail raised ZeroDivisionError.*on phy.rx at 0 s"):
        wirelessdl.simulate(parse_scenario(table, folder=str(tmp_path)), out=tmp_path)


def test_nothing_is_told_that_nobody_asked_for():
    trace = TraceEvents()
    assert not any(trace.has_listeners(source) for source in TRACE_EVENTS)
    heard = []
    trace.connect("phy.rx", heard.append)
    trace.muted = True
    trace.fire("phy.rx", 0, round=1)
    assert not trace.has_listeners("phy.rx")
    assert heard == []


def test_the_log_has_simulation_time_in_front(tmp_path, wirelessdl_command):
    (tmp_path / "tiny.toml").write_text(tomli_w.dumps(tiny_table(channel={"models": [{"model": "uniform"}]})))
    result = wirelessdl_command("run", "tiny.toml", "--quiet", "--log", "sim=debug,channel=info")
    assert result.code == 0
    lines = result.err.splitlines()
    assert lines[0] == "    0.000000000 s  sim  frame: round 1"
    assert lines[2].startswith("    0.000000000 s  channel  channel.gain, rx 0 to 3 (12), tx 0 to 3 (12), gain 0.")
    assert lines[3] == "    0.008949000 s  sim  node 0: computed"
    assert len(lines) == 2 + 1 + 4 + 1 + 1
    quiet = wirelessdl_command("run", "tiny.toml", "--quiet", "--log", "sim=warning")
    assert quiet.err == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sym=debug", "no component 'sym'; did you mean sim?"),
        ("sim=loud", "no level 'loud': use debug, info or warning"),
        ("loud", "no level 'loud'"),
    ],
)
def test_a_log_that_cannot_be_is_one_line(text, words, wirelessdl_command, tmp_path):
    (tmp_path / "tiny.toml").write_text(tomli_w.dumps(tiny_table()))
    result = wirelessdl_command("run", "tiny.toml", "--quiet", "--log", text)
    assert result.code == 2
    assert words in result.err
    assert not (tmp_path / "outputs").exists()


def test_all_components_have_words_for_their_sources(capsys):
    faults = {"crashes": {"kind": "exponential", "up_s": 0.01, "down_s": 0.01}}
    from wirelessdl.trace.events import connect_log, parse_log

    watched = Watched(tiny_table(scenario={"rounds": 4}, faults=faults, privacy={"epsilon_max": math.inf}))
    connect_log(watched.engine.trace, parse_log("debug"))
    watched.run()
    named = {line.split()[2] for line in capsys.readouterr().err.splitlines()}
    assert named == {"sim", "network", "channel", "power", "privacy", "phy", "learning"}
