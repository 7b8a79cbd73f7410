# ruff: noqa: ARG001  (a process takes env, network and rng, whatever it uses)
"""Processes of the user's: what they may see and change, when it takes effect, and how a resumed run lives it again."""

from functools import partial

import numpy as np
import pytest
from in_process import quick_table
from interrupting import StopAt, assert_resumes

import wirelessdl
from wirelessdl import ContractError, ScenarioError
from wirelessdl.scenario.loader import parse_scenario

LATE = """
def joins_late(env, network, rng, node=3, at_s=0.05):
    network.take_down(node)
    yield network.wait(at_s)
    network.bring_up(node)


class Blocks:
    def __init__(self, at_s: float = 0.021):
        self.at_s = at_s

    def process(self, env, network, rng):
        yield network.wait(self.at_s)
        network.block(0, 1)
        yield env.timeout(int(rng.integers(10_000_000, 20_000_000)))
        network.unblock(0, 1)
        network.lower_power(2, 6.0)
        network.jam(-70.0, [0])
        network.move(1, (5.0, 6.0, 1.5), (1.0, 0.0, 0.0))
        network.emit("all is said", node=2)
"""


ROUNDS = {"scenario": {"rounds": 20}}  # a round takes 5 ms


def scenario(*processes, **sections):
    return parse_scenario(quick_table(events={"processes": list(processes)}, **ROUNDS | sections))


def run(*processes, table=None, **parts):
    return wirelessdl.simulate(
        parse_scenario(quick_table(**ROUNDS | (table or {}))), processes=list(processes), out=None, **parts
    )


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(LATE)
    monkeypatch.chdir(tmp_path)
    return [{"kind": "mine.py:joins_late", "at_s": 0.04}, "mine.py:Blocks"]


def of_links(found, tx, rx):
    return found.links.query(f"tx == {tx} and rx == {rx}")


def test_changes_are_events_at_their_nanosecond_and_hold_from_the_next_frame(mine):
    found = wirelessdl.simulate(scenario(*mine), out=None)
    events = found.events
    crash, back = (events[events["kind"] == kind].query("node == 3") for kind in ("crash", "rejoin"))
    assert [crash["time_s"].item(), back["time_s"].item()] == [0.0, 0.04]
    said = events[events["kind"] == "process"]
    assert said["time_s"].iloc[0] == 0.021
    assert said["detail"].iloc[0] == "link 0 <-> 1 blocked"
    opened = found.rounds["opened_s"].to_numpy()
    number, until_s = found.rounds["round"].to_numpy(), said["time_s"].iloc[1]
    assert set(of_links(found, 0, 1)["round"]) == set(number[(opened < 0.021) | (opened >= until_s)])
    up = found.nodes.query("node == 3")["up"].to_numpy()
    assert (up == (opened >= 0.04)).all()
    assert up.any()
    assert not up.all()
    last = number[opened >= until_s]
    assert len(last) > 3
    moved = found.nodes.query("node == 1 and round >= @last[0]")
    assert moved["x_m"].to_numpy() == pytest.approx(5.0 + opened[last - 1] - until_s, abs=1e-9)


def test_lower_power_and_jamming_are_what_links_show():
    def later(env, network, rng):
        yield network.wait(0.03)
        network.lower_power(2, 6.0)
        network.jam(-60.0, [0])
        yield network.wait(0.03)
        network.jam(float("-inf"))

    found = run(later, table={"radio": {"thermal_noise": True}})
    opened = found.rounds["opened_s"].to_numpy()
    gain_db = 20 * np.log10(of_links(found, 2, 0)["gain"].to_numpy())
    assert np.ptp(gain_db[opened < 0.03]) == pytest.approx(0, abs=1e-9)
    assert gain_db[opened >= 0.03] - gain_db[0] == pytest.approx(-6.0, abs=1e-9)
    fallen_db = of_links(found, 1, 0)["snr_db"].to_numpy() - of_links(found, 1, 0)["sinr_db"].to_numpy()
    jammed = (opened >= 0.03) & (opened < 0.06)
    assert (fallen_db[jammed] > 3).all()
    assert jammed.any()
    assert not (fallen_db[~jammed] > 1e-9).any()  # NaN where nothing disturbs


def test_a_resumed_run_lives_it_again_bit_for_bit(mine, tmp_path):
    whole = assert_resumes(scenario(*mine), tmp_path, 6)  # while the link is blocked and the node away
    assert len(whole.rounds) == 20


def test_a_process_that_draws_elsewhere_is_refused_when_it_is_resumed(tmp_path):
    drawn, stop = iter(range(1, 100)), StopAt(6)

    def forgets(env, network, rng):
        yield network.wait(0.01)
        network.lower_power(0, float(next(drawn)))

    given = parse_scenario(quick_table(**ROUNDS))
    stopping = {"on_round": stop.on_round, "should_stop": stop.should_stop}
    part = wirelessdl.simulate(given, processes=forgets, out=tmp_path, **stopping)
    with pytest.raises(ContractError, match=r"events\.processes gave other values than before"):
        wirelessdl.resume(part)


def test_nothing_that_a_process_sees_depends_on_data():
    """Condition a of the proof: the same with other data, another model and another split."""
    seen: list[list] = []

    def watches(env, network, rng):
        seen.append([])
        while True:
            yield network.wait(0.007)
            public = [name for name in dir(network) if name[0] != "_" and not callable(getattr(network, name))]
            seen[-1].append([(name, np.array(getattr(network, name)).tolist()) for name in public])

    table = {"energy": {"battery_j": 100.0}, "radio": {"thermal_noise": True}}
    run(watches, table=table)
    run(watches, table=table | {"learning": {"partition": {"kind": "dirichlet", "concentration": 0.1}}})
    assert seen[0] == seen[1]
    assert {name for name, _ in seen[0][0]} >= {"nodes", "now_s", "position_m", "is_up", "battery_j"}
    assert len(seen[0]) > 5


def test_words_that_no_file_holds_are_written_with_their_codes():
    def says(env, network, rng):
        network.emit("half \ud800 \x1b[31m <b>")
        yield network.wait(0.01)

    assert run(says).events.query("kind == 'process'")["detail"].item() == "half \\ud800 \x1b[31m <b>"


def test_batteries_are_charged_and_places_are_those_of_mobility():
    places = []

    def charges(env, network, rng):
        places.append(network.position_m)
        network.charge(0, 50.0)
        yield network.wait(0.01)
        assert network.battery_j[0] > network.battery_j[1] + 49.9

    found = run(charges, table={"energy": {"battery_j": 100.0}})
    first = found.nodes.query("round == 1")
    assert (places[0][:, 0] == first["x_m"].to_numpy()).all()


def test_a_node_that_two_things_keep_down_stays_down_until_both_are_over():
    def also(env, network, rng):
        yield network.wait(0.02)
        network.take_down(2)
        yield network.wait(0.05)
        network.bring_up(2)

    crash = {"kind": "schedule", "events": [{"node": 2, "at_s": 0.01, "for_s": 0.03}]}
    found = run(also, table={"faults": {"crashes": crash}})
    events = found.events.query("node == 2 and kind in ('crash', 'rejoin')")
    assert events["time_s"].tolist() == [0.01, 0.07]
    assert events["detail"].tolist() == ["for 0.03 s", ""]


def test_a_barrier_waits_while_nobody_runs_and_frames_pass_unused_where_nobody_ever_will():
    def empties(env, network, rng):
        yield network.wait(0.01)
        for node in range(network.nodes):
            network.take_down(node)
        yield network.wait(0.05)
        for node in range(network.nodes):
            network.bring_up(node)

    def ends(env, network, rng):
        yield network.wait(0.01)
        for node in range(network.nodes):
            network.take_down(node, for_good=True)

    found = run(empties)
    assert (found.rounds["active_nodes"] == found.summary["nodes"]).sum() >= 19
    assert np.diff(found.rounds["opened_s"]).max() > 0.05
    assert run(ends).rounds["active_nodes"].iloc[-1] == 0


def no_generator(env, network, rng):
    network.emit("said")


def waits_in_seconds(env, network, rng):
    yield env.timeout(0.5)


def yields_a_number(env, network, rng):
    yield 5


def names_nobody(env, network, rng):
    yield network.wait(0.01)
    network.take_down(99)


def waits_backwards(env, network, rng):
    yield network.wait(-1)


def has_a_child_that_fails(env, network, rng):
    def child():
        yield network.wait(0.01)
        raise ValueError("boom")

    env.process(child())
    yield network.wait(1.0)


def ends_all(env, network, rng):
    yield network.wait(0.01)
    for node in range(network.nodes):
        network.take_down(node)


def sinks(env, network, rng):
    network.move(0, (0, 0, 1), (0, 0, -100))
    yield network.wait(0.01)


def fails_an_event(env, network, rng):
    env.event().fail(ValueError("boom"))
    yield network.wait(1.0)


def meets_another(env, network, rng):
    network.move(0, network.position_m[1])
    yield network.wait(0.01)


MISTAKES = {
    fails_an_event: r"an event failed with ValueError: boom, and no process waits for it: yield it",
    no_generator: r"no_generator returned NoneType; must be a generator: use yield",
    waits_in_seconds: r"waits_in_seconds waits until 0\.5 ns; the clock has whole ns: use network\.wait",
    yields_a_number: r"yields_a_number yields 5, expected an event",
    names_nobody: r"names_nobody raised ContractError: node is 99; no such node.*test_processes\.py line",
    has_a_child_that_fails: r"a process of theirs raised ValueError: boom \(test_processes\.py line \d+\)",
    ends_all: r"events\.processes took every node down, and nothing that happens in round \d+ brings one up",
    waits_backwards: r"seconds is -1; must be a finite number >= 0",
    meets_another: r"events\.processes has nodes \d and \d at one point at 0 s; a link needs a length",
    sinks: r"node 0 sinks below the ground",
}


@pytest.mark.parametrize("process", MISTAKES, ids=lambda process: process.__name__)
def test_mistakes_are_one_line(process):
    with pytest.raises(ContractError, match=MISTAKES[process]) as error:
        run(process)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("mine.py:nothing", "mine.py has no nothing"),
        ({"kind": "mine.py:joins_late", "when": 1}, r"unknown key events.processes\[0\].when; known: at_s, node"),
        ("mine.py:LATE", "has no LATE"),
        ("mine.py:short", r"short\(env, network\) must take env, network, rng first"),
        ("mine.py:Empty", r"the class needs a method process\(env, network, rng\)"),
        ("traffic", 'events.processes.*is "traffic"; no such kind'),
    ],
)
def test_mistakes_in_a_scenario_are_one_line(given, words, tmp_path):
    with (tmp_path / "mine.py").open("a") as file:
        file.write("\n\ndef short(env, network):\n    yield\n\n\nclass Empty:\n    pass\n")
    with pytest.raises(ScenarioError, match=words):
        wirelessdl.simulate(scenario(given), out=None)


def test_a_function_with_parameters_is_handed_in_by_partial():
    def late(env, network, rng, at_s=1.0):
        network.take_down(1)
        yield network.wait(at_s)
        network.bring_up(1)

    found = run(partial(late, at_s=0.03))
    assert found.events.query("kind == 'rejoin'")["time_s"].item() == 0.03
