"""The timeline is what the clock did: checked against SimPy's own events, in the figure and on the page."""

import numpy as np
import pytest
import simpy
from browser import choose, chromium, complaints, open_page
from conftest import hubs, tiny

from wirelessdl import simulate
from wirelessdl.analysis.figures import draw_timeline
from wirelessdl.analysis.report import write_report
from wirelessdl.analysis.timeline import KINDS, hub_turns, timeline_of

NS = 1e-9  # the clock's step; seconds in traces are rounded to it
PILOTS = {"kind": "pilots", "symbols": 16}
OWN, TDMA = {"objective": "own-noise"}, {"access": "tdma"}
FRAMES = {
    "tdma": {"radio": {**TDMA, "guard_s": 1e-4}, "power": OWN},
    # feedback before the first payload
    "half duplex": {"radio": {"duplex": "half", "guard_s": 1e-4, "csi": PILOTS}, "power": {"schedule": "adaptive"}},
    # z is exchanged after the last payload
    "three slots": {"radio": {"payload_slots": 3, "guard_s": 1e-4, "csi": PILOTS}, "power": {"balance": False}},
    "three slots, tdma": {"radio": {**TDMA, "payload_slots": 3}, "power": OWN},
    "paper": {"privacy": {"protocol": "paper", "clipping": "batch"}, "radio": {"guard_s": 1e-4}},
    "two slots, passes": {
        "radio": {"payload_slots": 2, "guard_s": 1e-4, "mixing_passes": 2},
        "power": OWN,
        "learning": {"closing_passes": 3},
    },
}
TURNS = {"tdma": 3, "half duplex": 2, "three slots, tdma": 3}


class RecordingEnvironment(simpy.Environment):
    """Writes down when each timeout of the medium came to pass, in ns."""

    log: list[int]

    def timeout(self, delay=0, value=None):
        event = simpy.Timeout(self, delay, value)
        if self.active_process is not None and self.active_process.name == "process":  # Medium.process
            event.callbacks.append(lambda _: self.log.append(int(self.now)))
        return event


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """By name, a run and the ends of its payloads by SimPy, `[rounds][slots * turns]` in s."""
    return {name: record(name, tmp_path_factory.mktemp("runs")) for name in FRAMES}


def record(name, folder):
    log = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simpy, "Environment", type("Recording", (RecordingEnvironment,), {"log": log}))
        frame = FRAMES[name]
        # full batches: nothing is amplified, so pages need no seconds for accountants
        learning = {**frame.get("learning", {}), "sampling": "full"}
        network = {"nodes": 6, **({"topology": "ring"} if "tdma" in name else {})}
        scenario = tiny(**{**frame, "scenario": {"rounds": 4}, "network": network, "learning": learning})
        run = simulate(scenario, out=folder)
    ends = []
    for turns in run.rounds["slots"]:  # of every turn the pilots and the payload end, then the frame
        frame, log = log[: 2 * turns + 1], log[2 * turns + 1 :]
        ends.append([1e-9 * end for end in frame[1::2]])
    assert not log, "the medium waited for something else"
    return run, ends


@pytest.fixture(params=FRAMES)
def recorded(request, runs):
    return request.param, *runs[request.param]


def of_kind(bars, kind):
    return bars[bars.kind == KINDS.index(kind)]


def sent(bars):
    """Payloads and passes."""
    return bars[np.isin(bars.kind, [KINDS.index("payload"), KINDS.index("pass")])]


def test_payloads_end_when_the_event_log_says(recorded):
    name, run, ends = recorded
    turns, radio = TURNS.get(name, 1), run.scenario["radio"]
    assert (run.rounds["turns"] == turns).all()
    timeline = timeline_of(run)
    payload = sent(timeline.bars)
    symbols = np.ceil(7850 / 2 / (radio["payload_slots"] if "slots" in name else 1))
    assert payload.length_s == pytest.approx(symbols / radio["bandwidth_hz"], abs=NS)
    for row, expected in enumerate(ends):
        mine = payload.in_rows(row)
        found = np.unique(np.round(mine.start_s + mine.length_s, 9))
        assert found == pytest.approx(expected, abs=NS)
        assert found[-1] == pytest.approx(timeline.closed_s[row], abs=NS)
        turn = run.nodes.loc[run.nodes["round"] == row + 1, "turn"]
        for node in range(6):  # in each slot its own turn
            expected_turns = [slot * turns + turn.iloc[node] for slot in range(len(expected) // turns)]
            own = mine[mine.node == node]
            place = np.searchsorted(expected, own.start_s + own.length_s - NS)
            assert place.tolist() == expected_turns


def test_nobody_who_is_heard_sends_while_the_receiver_hears_another_or_sends(recorded):
    """The rule of tdma and half duplex, from the links table: no bar of ours can show it by construction."""
    name, run, _ = recorded
    payload, links = sent(timeline_of(run).bars), run.links
    for row in range(4):
        mine = payload.in_rows(row)
        intervals = {
            node: [(s, s + n) for s, n in zip(mine.start_s[mine.node == node], mine.length_s[mine.node == node])]
            for node in range(6)
        }
        heard = links[(links["round"] == row + 1) & (links["weight"] > 0)]
        for rx, senders in heard.groupby("rx")["tx"]:
            if "tdma" in name:
                together = [*senders.tolist(), rx]
                pairs = [(a, b) for n, a in enumerate(together) for b in together[n + 1 :]]
            elif name == "half duplex":
                pairs = [(tx, rx) for tx in senders.tolist()]
            else:
                pairs = []
                assert all(intervals[tx] == intervals[rx] for tx in senders.tolist())
            for a, b in pairs:
                assert not any(overlap(one, two) for one in intervals[a] for two in intervals[b]), (rx, a, b)


def overlap(one, two):
    return min(one[1], two[1]) - max(one[0], two[0]) > NS


def test_pilots_come_one_after_another_before_the_payload_of_their_turn(recorded):
    name, run, _ = recorded
    bars, frames = timeline_of(run).bars, run.rounds
    symbols = run.scenario["radio"]["csi"].get("symbols", 1)
    for row in range(4):
        frame, pilots, payloads = frames.iloc[row], of_kind(bars, "pilot").in_rows(row), sent(bars).in_rows(row)
        assert pilots.length_s == pytest.approx(symbols / run.scenario["radio"]["bandwidth_hz"], abs=NS)
        assert len(pilots.row) == len(payloads.row)
        first = payloads.start_s == payloads.start_s.min()
        starts = np.sort(pilots.start_s[pilots.node == pilots.node[np.argmin(pilots.start_s)]])
        assert starts[0] == pytest.approx(frame["opened_s"], abs=NS)
        ahead = payloads.start_s - frame["guard_s"] - frame["feedback_s"] * first
        phase = ahead - frame["pilot_s"]  # when the pilots of its turn begin
        assert (pilots.start_s >= phase - NS).all()
        assert (pilots.start_s + pilots.length_s <= ahead + NS).all()
        for begin in np.unique(np.round(phase, 9)):
            mine = np.sort(pilots.start_s[np.abs(phase - begin) < NS])
            apart = np.diff(mine)
            assert (apart == 0).all() if "tdma" in name else (apart >= symbols / 1e6 - NS).all()
    feedback, exchange = frames["feedback_s"].gt(0).all(), frames["exchange_s"].gt(0).all()
    assert (feedback, exchange) == (name == "half duplex", name == "three slots")


def test_gradients_are_computed_after_the_frame_or_beside_it(recorded):
    name, run, _ = recorded
    timeline, frames = timeline_of(run), run.rounds
    compute = of_kind(timeline.bars, "compute")
    ends = frames["time_s"] + frames["guard_s"] + frames["exchange_s"]
    begins = (frames["opened_s"] if name == "paper" else ends).to_numpy()
    assert compute.start_s == pytest.approx(begins[compute.row], abs=NS)
    assert compute.length_s == pytest.approx(run.scenario["time"]["compute"]["seconds"], abs=NS)
    # the last gradients are never sent, so nobody waits for them
    assert np.bincount(compute.row, minlength=4)[:3].tolist() == [6, 6, 6]


def test_the_figure_draws_these_bars(recorded):
    name, run, _ = recorded
    timeline = timeline_of(run)
    figure = draw_timeline(run, 2, 2)
    (axis,) = figure.axes
    shown = timeline.bars.in_rows([1, 2])
    for container in axis.containers:
        expected = of_kind(shown, container.get_label())
        drawn = [(bar.get_x(), bar.get_width(), bar.get_y() + bar.get_height() / 2) for bar in container]
        start = 1e3 * (expected.start_s - timeline.opened_s[1])
        for found, wanted in zip(zip(*drawn), (start, 1e3 * expected.length_s, expected.node), strict=True):
            assert found == pytest.approx(wanted.tolist(), abs=1e-6)
    kinds = {"compute", "payload", "pilot", *(["pass"] if "passes" in name else [])}
    assert {container.get_label() for container in axis.containers} == kinds


def test_members_send_until_their_hub_does_and_the_last_turn_ends_with_the_frame(tmp_path):
    run = simulate(hubs(scenario={"rounds": 4}), out=tmp_path)
    timeline, frames, turns = timeline_of(run), run.rounds, hub_turns(run)
    payloads, pilots = of_kind(timeline.bars, "payload"), of_kind(timeline.bars, "pilot")
    broadcasts = of_kind(timeline.bars, "broadcast")
    assert len(payloads.row) == sum(len(turn.members) for turn in turns)
    assert broadcasts.node.tolist() == [turn.hub for turn in turns]
    for row, frame in frames.iterrows():
        mine, sends_pilots, back = (bars.in_rows(row) for bars in (payloads, pilots, broadcasts))
        assert (back.start_s + back.length_s).max() == pytest.approx(frame["time_s"], abs=NS)
        assert len(sends_pilots.row) == frame["hubs"] * frame["active_nodes"]
        for turn in (turn for turn in turns if turn.row == row):
            starts_s = turn.opened_s + frame["pilot_s"] + frame["guard_s"]
            inside = (mine.start_s > starts_s - NS) & (mine.start_s < starts_s + frame["payload_s"] - NS)
            assert mine.node[inside].tolist() == turn.members.tolist()
            (back_s,) = back.start_s[(back.start_s > starts_s - NS) & (back.start_s < starts_s + frame["payload_s"])]
            assert (mine.start_s + mine.length_s)[inside] == pytest.approx(back_s, abs=NS)


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def test_the_page_draws_these_bars(runs, browser, tmp_path):
    open_page(browser, write_report([run.path for run, _ in runs.values()], tmp_path / "report.html"))
    for number, (run, ends) in enumerate(runs.values()):
        choose(browser, "#timeline .run-switch", number)
        drawn, timeline = drawn_bars(browser), timeline_of(run)  # five rounds at a time, so all of them
        opened = timeline.opened_s[0]
        for kind in ("compute", "payload", "pass"):
            bars = of_kind(timeline.bars, kind)
            begins = 1e3 * (bars.start_s - opened)
            expected = sorted(zip(bars.node.tolist(), begins, begins + 1e3 * bars.length_s))
            assert len(drawn.get(kind, [])) == len(expected)
            if expected:
                np.testing.assert_allclose(sorted(drawn[kind]), expected, atol=1e-4)  # a tenth of a microsecond
        on_air = [*drawn["payload"], *drawn.get("pass", [])]
        found = np.unique(np.round([until for _, _, until in on_air], 4))
        assert found == pytest.approx([1e3 * (end - opened) for round in ends for end in round], abs=2e-4)
    assert complaints(browser) == []


def drawn_bars(browser):
    """Node, begin and end in ms of each bar, by kind."""
    traces = browser.execute_script(
        "return document.getElementById('fig-timeline').data.map(t => [t.name, [...t.x], [...t.y]])"
    )
    return {kind: list(zip(y[::3], x[::3], x[1::3], strict=True)) for kind, x, y in traces}


def test_a_slow_node_computes_through_frames_that_it_misses(tmp_path):
    slow = {"kind": "schedule", "events": [{"node": 1, "factor": 10, "from_round": 2, "to_round": 2}]}
    policy = {"policy": {"kind": "clocked", "period_s": 0.02}}
    run = simulate(tiny(scenario={"rounds": 8}, time=policy, faults={"stragglers": slow}), out=tmp_path)
    late = run.nodes.query("node == 1 and not transmitted")["round"].tolist()
    assert late == [3, 4], "the node misses other rounds than the test counts on"
    compute = of_kind(timeline_of(run).bars, "compute")
    slow = compute[(compute.node == 1) & (compute.row == 1)]
    assert slow.length_s == pytest.approx([10 * run.scenario["time"]["compute"]["seconds"]])
    assert not np.isin(compute.row[compute.node == 1], [2, 3]).any()


def test_a_node_is_down_from_the_opening_of_a_frame_to_the_next(tmp_path):
    crash = {"kind": "schedule", "events": [{"node": 2, "at_s": 0.012, "for_s": 0.01}]}
    run = simulate(tiny(scenario={"rounds": 5}, faults={"crashes": crash}), out=tmp_path)
    (gone,) = np.flatnonzero(~run.nodes.query("node == 2")["up"])
    timeline = timeline_of(run)
    down = of_kind(timeline.bars, "down")
    assert (down.node.tolist(), down.row.tolist()) == ([2], [gone])
    assert down.start_s == pytest.approx(timeline.opened_s[gone])
    assert down.length_s == pytest.approx(timeline.opened_s[gone + 1] - timeline.opened_s[gone])
    assert 2 not in of_kind(timeline.bars, "payload").in_rows(gone).node
