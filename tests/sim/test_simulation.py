"""Things happen when they happen: frames, policies, compute times, turns, energy."""

import numpy as np
import pytest
from conftest import tiny_table
from watching import Watched

from wirelessdl.access.tdma import coloring
from wirelessdl.errors import ScenarioError
from wirelessdl.links import Geometry, Links
from wirelessdl.radio.frame import Frame
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import parse_scenario

FRAME = 3_000 + 10_000 + 3_925_000 + 10_000  # three pilots, guard, 7850 / 2 symbols, guard, at 1 MHz
MS = 1_000_000

ONE_OF_EACH = {
    "scenario": {"rounds": 4},
    "network": {"nodes": 3},
    "time": {"compute": {"kind": "constant", "seconds": 0.001}},
    "faults": {
        "stragglers": {"kind": "schedule", "events": [{"node": 1, "factor": 25, "from_round": 1, "to_round": 1}]},
        "crashes": {"kind": "schedule", "events": [{"node": 2, "at_s": 0.006, "for_s": 0.01}]},
    },
}


def table(**sections):
    whole = {name: {**ONE_OF_EACH.get(name, {}), **sections.get(name, {})} for name in {*ONE_OF_EACH, *sections}}
    return tiny_table(**whole)


def test_log_of_a_straggler_and_a_crash_on_the_clock():
    watched = Watched(table(time={**ONE_OF_EACH["time"], "policy": {"kind": "clocked", "period_s": 0.01}})).run()
    computed = FRAME + MS  # after a frame opens
    assert watched.states() == [
        (0, None, "frame"),
        (0, None, "plan"),
        (computed, 0, "computed"),
        (computed, 2, "computed"),
        (6 * MS, 2, "crash"),
        (10 * MS, None, "frame"),
        (10 * MS, 1, "late"),
        (10 * MS + computed, 0, "computed"),
        (16 * MS, 2, "rejoin"),
        (20 * MS, None, "frame"),
        (20 * MS, None, "violation"),  # the static plan counts on node 1's noise
        (20 * MS, 1, "late"),
        (20 * MS + computed, 0, "computed"),
        (20 * MS + computed, 2, "computed"),
        (FRAME + 25 * MS, 1, "computed"),
        (30 * MS, None, "frame"),
    ]
    assert [slot.on_air.tolist() for slot in watched.decisions] == [
        [True, True, True],
        [True, False, False],
        [True, False, True],
        [True, True, True],
    ]


def test_log_of_the_same_behind_a_barrier():
    watched = Watched(table()).run()
    straggled = FRAME + 25 * MS  # node 1 is waited for; node 2 is back by then
    second, third = straggled + FRAME + MS, straggled + 2 * (FRAME + MS)
    assert watched.states() == [
        (0, None, "frame"),
        (0, None, "plan"),
        (FRAME + MS, 0, "computed"),
        (FRAME + MS, 2, "computed"),
        (6 * MS, 2, "crash"),
        (16 * MS, 2, "rejoin"),
        (straggled, 1, "computed"),
        (straggled, None, "frame"),
        *[(second, node, "computed") for node in (0, 2, 1)],
        (second, None, "frame"),
        *[(third, node, "computed") for node in (0, 2, 1)],
        (third, None, "frame"),
    ]


def test_log_of_the_same_with_a_deadline():
    watched = Watched(table(time={**ONE_OF_EACH["time"], "policy": {"kind": "deadline", "cap_s": 0.003}})).run()
    frames = [time for time, _, state in watched.states() if state == "frame"]
    # round 1 to 2: node 1 is late, the cap passes; node 2 crashes within frame 2, which it still carries
    assert frames == [0, FRAME + 3 * MS, 2 * (FRAME + 3 * MS), 3 * (FRAME + 3 * MS)]
    assert [slot.on_air.tolist() for slot in watched.decisions] == [
        [True, True, True],
        [True, False, False],
        [True, False, False],
        [True, False, True],
    ]


def test_a_barrier_waits_for_nobody_who_is_gone_and_for_the_first_who_comes_back():
    gone = [{"node": node, "at_s": 0.001, "for_s": 0.1 if node == 1 else 0.2} for node in range(3)]
    faults = {"crashes": {"kind": "schedule", "events": gone}}
    watched = Watched(tiny_table(scenario={"rounds": 3}, network={"nodes": 3}, faults=faults)).run()
    frames = [time for time, _, state in watched.states() if state == "frame"]
    assert frames[1] == 101 * MS
    assert [slot.on_air.tolist() for slot in watched.decisions][1:] == [[False, True, False]] * 2
    for event in gone:
        event.pop("for_s")
    watched = Watched(tiny_table(scenario={"rounds": 3}, network={"nodes": 3}, faults=faults)).run()
    assert [slot.participation.up.any() for slot in watched.decisions] == [True, False, False]


def test_a_crash_within_a_frame_takes_effect_at_its_end_and_takes_the_gradient():
    faults = {"crashes": {"kind": "schedule", "events": [{"node": 2, "at_s": 0.002, "for_s": 0.1}]}}
    watched = Watched(tiny_table(scenario={"rounds": 2}, network={"nodes": 3}, faults=faults)).run()
    first, second = watched.events["learning.update"]
    assert first.decision.on_air.all()
    assert first.record.stepped.tolist() == [True, True, False]
    assert second.decision.participation.up.tolist() == [True, True, False]
    assert watched.engine.stages.pending.gamma[2] == 0.0


def test_compute_times_come_from_their_laws():
    def durations(kind, rounds=400, **parameters):
        world = build(parse_scenario(tiny_table(time={"compute": {"kind": kind, **parameters}})), device="cpu")
        return np.array([[world.simulation.duration_ns(n, t) for n in range(4)] for t in range(1, rounds + 1)]) / 1e9

    drawn = np.log(durations("log-normal", median_s=0.01, sigma=0.5))
    error = 0.5 / np.sqrt(drawn.size)
    assert drawn.mean() == pytest.approx(np.log(0.01), abs=5 * error)
    assert drawn.std() == pytest.approx(0.5, abs=5 * error / np.sqrt(2))
    fleet = np.log(durations("log-normal", median_s=0.01, sigma=0.0, spread=1.0))
    assert (fleet == fleet[0]).all()
    assert len(set(fleet[0].tolist())) == 4
    flops = durations("flops", rounds=1, gflops=[1.0, 2.0, 4.0, 8.0])[0]
    np.testing.assert_allclose(flops, 8 * 6 * 7850 / 1e9 / np.array([1, 2, 4, 8]), atol=1e-9)
    np.testing.assert_array_equal(
        durations("constant", rounds=1, seconds=[0.1, 0.2, 0.3, 0.4])[0], [0.1, 0.2, 0.3, 0.4]
    )


def test_flops_of_a_convolution_are_counted_not_guessed():
    table = tiny_table(time={"compute": {"kind": "flops"}}, learning={"batch_size": 8, "model": {"model": "cnn"}})
    world = build(parse_scenario(table), device="cpu")
    dense = 8 * 6 * world.learning.learner.size / 1e10
    assert world.simulation.duration_ns(0, 1) / 1e9 > 2 * dense  # a kernel's weights are used at every place


def test_frames_hold_pilots_feedback_and_z():
    def frame(**sections):
        return build(parse_scenario(tiny_table(**sections)), device="cpu").frame

    pilots = frame(radio={"csi": {"kind": "pilots", "symbols": 3}})
    assert (pilots.pilot_ns, pilots.own_pilot_ns) == (4 * 3_000, 3_000)
    adaptive = frame(power={"schedule": "adaptive"})
    assert adaptive.feedback_ns == (12 + 2 * 4) * 1600
    assert adaptive.exchange_ns == 0
    printed = frame(power={"balance": False, "alpha_min": 1e-6})
    assert printed.exchange_ns == 4 * 4 * 1600
    over_air = frame(power={"balance": False, "alpha_min": 1e-6}, radio={"z_exchange": "air"})
    assert over_air.exchange_ns == 0
    assert over_air.payload_ns == printed.payload_ns + 2_000  # four coordinates, two symbols
    half = frame(radio={"duplex": "half"})
    assert (half.turns, half.pilot_ns) == (2, 2_000)
    assert half.airtime_ns == 2 * (2_000 + 3_925_000 + 20_000)


def test_a_frame_of_several_slots_and_turns_adds_up():
    frame = Frame.from_settings(
        parameters=100, nodes=4, pilots=1, bandwidth_hz=1e6, guard_s=1e-6, slots=3, turns=2, senders=2, feedback_s=1e-5
    )
    assert frame.symbols == 17
    assert frame.turn_ns == 2_000 + 17_000 + 2_000
    assert frame.airtime_ns == 3 * 2 * frame.turn_ns + 10_000
    assert [frame.opens_ns(slot) for slot in range(3)] == [0, 42_000 + 10_000, 84_000 + 10_000]
    assert frame.listening_ns == 3 * 19_000
    assert [part.stop for part in frame.coordinates(100)] == [34, 68, 100]


# --- half duplex and one sender at a time


def random_links(nodes, p, rng):
    mask = rng.random((nodes, nodes)) < p
    mask |= mask.T
    return Links.from_mask(mask, Geometry.at_rest(np.zeros((nodes, 3))))


@pytest.mark.parametrize("seed", range(20))
def test_in_a_turn_no_receiver_hears_two_nor_sends(seed):
    links = random_links(12, 0.3, np.random.default_rng(seed))
    turn = coloring(links)
    for now in range(turn.max() + 1):
        sends = turn == now
        heard = links.sum_per_receiver(sends[links.tx].astype(float))
        assert heard.max(initial=0.0) <= 1.0
        assert not heard[sends].any()
    assert turn.max() + 1 <= links.degree.max() ** 2 + 1  # greedy: at most one more than the conflicts of a node


def test_turns_follow_a_graph_that_moves():
    moving = {"kind": "random-waypoint", "speed_mps": [200, 400], "area_m": [300, 300]}
    table = tiny_table(
        scenario={"rounds": 12},
        network={"nodes": 8, "topology": {"kind": "range", "range_m": 120}, "mobility": moving},
        channel={"models": ["log-distance"]},
        radio={"power_dbm": 23, "access": "tdma", "thermal_noise": False},
        power={"objective": "own-noise"},
        time={"compute": {"kind": "constant", "seconds": 0.05}},
    )
    watched = Watched(table).run()
    turns = [slot.frame.turns for slot in watched.decisions]
    assert turns == [int(coloring(slot.channel.links).max()) + 1 for slot in watched.decisions]
    assert len(set(turns)) > 1
    frames = [time for time, _, state in watched.states() if state == "frame"]
    airtime = [slot.frame.airtime_ns for slot in watched.decisions]
    np.testing.assert_array_equal(np.diff(frames), np.array(airtime[:-1]) + 50 * MS)


# --- energy


def test_energy_is_what_each_part_draws_and_adds_up(tmp_path):
    import wirelessdl

    energy = {"efficiency": 0.25, "receive_w": 0.1, "compute_w": 2.0}
    radio = {"power_dbm": 20, "thermal_noise": True, "csi": {"kind": "pilots", "symbols": 8}}
    table = tiny_table(scenario={"rounds": 3}, energy=energy, radio=radio)
    run = wirelessdl.simulate(parse_scenario(table), out=tmp_path)
    node = run.nodes
    payload_s, own_s, pilot_s = 3925e-6, 8e-6, 4 * 8e-6
    np.testing.assert_allclose(node["energy_tx_j"], node["power_w"] * payload_s / 0.25)
    np.testing.assert_allclose(node["energy_pilot_j"], 0.1 * own_s / 0.25)
    np.testing.assert_allclose(node["energy_rx_j"], 0.1 * (payload_s + pilot_s))
    np.testing.assert_allclose(node["energy_compute_j"], 2.0 * 0.005)
    parts = ["energy_tx_j", "energy_pilot_j", "energy_rx_j", "energy_compute_j"]
    np.testing.assert_allclose(node[parts].sum(axis=1), node["energy_j"])
    np.testing.assert_allclose(node.groupby("round")["energy_j"].sum(), run.rounds["energy_j"])
    assert node["battery_j"].isna().all()
    rest_j = run.rounds["energy_j"] - node.groupby("round")["energy_tx_j"].sum().to_numpy()
    np.testing.assert_allclose(run.rounds["energy_nominal_j"], rest_j + 4 * 0.1 * payload_s / 0.25)
    assert (run.rounds["energy_j"] < run.rounds["energy_nominal_j"]).all()
    np.testing.assert_allclose(run.summary["energy_nominal_j"], run.rounds["energy_nominal_j"].sum())


def test_a_battery_ends_a_node_by_what_it_would_use_at_full_power():
    power_w, payload_s, pilot_s = 1.0, 3925e-6, 1e-6
    cost = power_w * (payload_s + pilot_s)
    table = tiny_table(scenario={"rounds": 6}, energy={"battery_j": [3.5 * cost, 100.0, 100.0, 1.0 * cost]})
    watched = Watched(table).run()
    assert np.stack([slot.on_air for slot in watched.decisions])[:, [0, 3]].T.tolist() == [
        [True, True, True, False, False, False],
        [True, False, False, False, False, False],
    ]
    ended = [(event.node, event.state) for event in watched.events["node.state"] if event.state == "battery"]
    assert ended == [(3, "battery"), (0, "battery")]
    left = np.stack([slot.participation.battery_j for slot in watched.decisions])
    np.testing.assert_allclose(left[:4, 0], cost * np.array([3.5, 2.5, 1.5, 0.5]))
    for slot in watched.decisions:  # what is really radiated never exceeds what batteries pay for
        assert (slot.plan.alpha * 0.5**2 + (1 - slot.plan.alpha) * slot.sigma**2 <= 1.0).all()


# --- mistakes


def crash(*events):
    return {"faults": {"crashes": {"kind": "schedule", "events": list(events)}}}


MISTAKES = [
    (
        crash({"node": 7, "at_s": 1}),
        r"events\[0\].node is 7; no such",
    ),
    (
        crash({"nod": 1, "at_s": 1}),
        "unknown key nod; did you mean node",
    ),
    (crash({"node": 1}), r"events\[0\] has no at_s"),
    (
        crash({"node": 1, "at_s": -1}),
        "at_s is -1; must be a number >= 0",
    ),
    (
        crash({"node": 1, "at_s": 1}, {"node": 1, "at_s": 2}),
        "events let node 1 crash at 2 s, while it is down from 1 s",
    ),
    (
        {"faults": {"crashes": {"kind": "exponential", "up_s": 1, "down_s": 1, "only": [9]}}},
        r"only\[0\] is 9; no such node",
    ),
    (
        {"faults": {"blockage": {"kind": "schedule", "events": [{"tx": 0, "rx": 4, "from_s": 0}]}}},
        r"events\[0\].rx is 4",
    ),
    (
        {"faults": {"blockage": {"kind": "schedule", "events": [{"tx": 0, "rx": 1, "from_s": 0, "both_ways": 1}]}}},
        "both_ways is 1; must be true or false",
    ),
    ({"faults": {"stragglers": {"kind": "schedule", "events": [{"node": 5, "factor": 2}]}}}, r"events\[0\].node is 5"),
    (
        {"faults": {"jammer": {"kind": "noise", "power_dbm": -60, "from_s": 2, "until_s": 1}}},
        "until_s is 1; must be > from_s",
    ),
    ({"time": {"policy": {"kind": "clocked", "period_s": 0.003}}}, "period_s is 0.003; a frame takes 0.003949 s"),
    ({"time": {"policy": {"kind": "clocked"}}}, "missing key time.policy.period_s"),
    ({"time": {"policy": {"kind": "clokced", "period_s": 1}}}, "did you mean clocked"),
    ({"time": {"compute": {"kind": "constant", "seconds": [1, 2]}}}, "time.compute.seconds has 2 entries"),
    ({"energy": {"battery_j": 1e-3}}, "energy.battery_j is 0.001 for node 0; one round takes 0.003926 J"),
    ({"energy": {"battery_j": [1.0, 2.0]}}, "energy.battery_j has 2 entries"),
    ({"energy": {"battery_j": 0.0}}, "battery_j is 0.0; must be > 0, inf for no limit"),
    ({"radio": {"access": "tdma"}}, 'power.objective is "sum" under radio.access "tdma"'),
    (
        {"radio": {"access": "tdma", "duplex": "half"}, "power": {"objective": "own-noise"}},
        'radio.duplex is "half" under radio.access "tdma"',
    ),
    (
        {"power": {"balance": "power", "schedule": "adaptive"}, "time": {"policy": {"kind": "clocked", "period_s": 1}}},
        'power.balance is "power" with schedule = "adaptive" while time.policy takes links away',
    ),
]


@pytest.mark.parametrize(("sections", "words"), MISTAKES)
def test_mistakes_in_time_are_one_clear_line(sections, words):
    with pytest.raises(ScenarioError, match=words) as caught:
        build(parse_scenario(tiny_table(**sections)), device="cpu")
    assert "\n" not in str(caught.value)
