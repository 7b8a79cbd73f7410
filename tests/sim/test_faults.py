"""What goes wrong, and what learning, privacy and batteries make of it."""

import math

import numpy as np
import pytest
from conftest import tiny_table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from watching import Watched

import wirelessdl
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.links import Geometry
from wirelessdl.radio.jammer import NoiseJammer, PlacedJammer
from wirelessdl.scenario.loader import parse_scenario

SMALL = {"dataset": {"kind": "synthetic", "samples": 60, "features": 4, "classes": 3}, "batch_size": 4, "eval_every": 9}
ROUNDS = 7


@st.composite
def schedules(draw):
    """A small run in which anything may go wrong at any time; a frame takes about 0.1 ms, a gradient 1 ms."""
    nodes = draw(st.integers(2, 5))
    node, instant = st.integers(0, nodes - 1), st.floats(0, 0.02, allow_subnormal=False)
    crashes = {"kind": "none"}
    kind = draw(st.sampled_from(["none", "schedule", "exponential"]))
    if kind == "exponential":
        mean = st.floats(1e-4, 1e-2)
        crashes = {"kind": kind, "up_s": draw(mean), "down_s": draw(mean)}
    elif kind == "schedule":
        events = []
        for number in draw(st.sets(node)):
            now = 0.0
            for start, length in draw(st.lists(st.tuples(instant, instant | st.none()), max_size=3)):
                events.append({"node": number, "at_s": now + start} | ({} if length is None else {"for_s": length}))
                if length is None:
                    break
                now += start + length
        crashes = {"kind": kind, "events": events}
    link = st.fixed_dictionaries({"tx": node, "rx": node, "from_s": instant, "until_s": instant})
    link = link.filter(lambda event: event["tx"] != event["rx"] and event["until_s"] > event["from_s"])
    blockage = draw(
        st.just({"kind": "none"})
        | st.builds(lambda events: {"kind": "schedule", "events": events}, st.lists(link, max_size=4))
        | st.just({"kind": "snr", "threshold_db": 100.0})
    )
    faults = {
        "crashes": crashes,
        "rejoin": draw(st.sampled_from(["keep", "listen"])),
        "blockage": blockage,
        "stragglers": {"kind": "random", "probability": draw(st.floats(0, 1)), "factor": draw(st.floats(0.1, 10))},
    }
    policy = draw(
        st.sampled_from(
            [
                {"kind": "barrier"},
                {"kind": "clocked", "period_s": 0.0005},
                {"kind": "clocked", "period_s": 0.003},
                {"kind": "deadline", "cap_s": 0.0002},
                {"kind": "deadline", "cap_s": 0.002},
            ]
        )
    )
    protocol = draw(st.sampled_from(["hardened", "hardened", "paper"]))
    privacy = {"epsilon_max": 1.0, "protocol": protocol, "clipping": "batch" if protocol == "paper" else "per-sample"}
    access = draw(st.sampled_from(["full", "full", "half", "tdma"]))
    radio = {"duplex": "half"} if access == "half" else {"access": "tdma"} if access == "tdma" else {}
    z = access != "tdma" and draw(st.booleans())
    power = {"balance": False, "multiplier": "product"} if z else {"balance": "receiver"}
    power |= {"objective": "own-noise", "alpha_min": 1e-9}
    battery = draw(st.sampled_from([math.inf, 5.5e-3]))
    return tiny_table(
        scenario={"rounds": ROUNDS, "run": draw(st.integers(1, 1000))},
        network={"nodes": nodes},
        radio={"power_dbm": 30, "thermal_noise": False, **radio},
        privacy=privacy,
        power=power,
        learning={**SMALL, "learning_rate": {"kind": "constant", "initial": 0.05}},
        time={"compute": {"kind": "log-normal", "median_s": 0.001, "sigma": 0.5}, "policy": policy},
        faults=faults,
        energy={"receive_w": 0.1, "compute_w": 0.05, "battery_j": battery},
    )


def hold_to_the_rules(table):
    watched = Watched(table).run()
    engine, world, slots = watched.engine, watched.world, watched.decisions
    # no deadlock: every round came to its end; time never goes back
    assert [slot.round for slot in slots] == list(range(1, ROUNDS + 1))
    times = [event.time_ns for event in watched.order]
    assert times == sorted(times)
    frames = [time for time, _, state in watched.states() if state == "frame"]
    for slot, start, after in zip(slots, frames, frames[1:]):
        assert after >= start + slot.frame.airtime_ns
    for number, slot in enumerate(slots):
        cast, weights = slot.participation, slot.weights.actual
        assert (cast.ready <= cast.up).all()
        assert (slot.on_air <= cast.ready & ~cast.listening).all()
        np.testing.assert_allclose(weights.row_sum, 1.0, atol=1e-12)  # perfect CSI
        np.testing.assert_array_equal(weights.dense[~cast.ready], np.eye(world.nodes)[~cast.ready])
        assert slot.on_air[slot.channel.links.tx].all()
        if number:  # who takes no part holds what it held
            before = watched.after_round[number - 1]
            still = ~cast.ready & ~cast.lost
            np.testing.assert_array_equal(watched.after_round[number][still], before[still])
    # every transmission has its record, and every record its transmission
    sent, recorded = watched.events["phy.tx"], watched.events["privacy.release"]
    assert len(sent) == len(recorded) == ROUNDS
    for tx, release in zip(sent, recorded):
        assert tx.node.tolist() == np.flatnonzero(release.on_air).tolist()
        assert (release.own_mu[~release.on_air] == 0).all()
        assert release.on_air[release.link_tx].all()
    charged = np.sum([release.own_mu > 0 for release in recorded], axis=0)
    np.testing.assert_array_equal(engine.stages.ledger.own_rounds, charged)
    # a charge for each gradient that was taken and then sent, none for those that were lost, and none twice
    stepped = np.sum([event.record.stepped for event in watched.events["learning.update"]], axis=0)
    assert (charged <= stepped).all()
    if hasattr(engine.stages.multiplier, "z"):
        assert (np.diagonal(engine.stages.multiplier.z) > 0).all()
    # energy adds up: parts to a round, rounds to what batteries lost
    energy, used = world.simulation.energy, np.zeros(world.nodes)
    for slot in slots:
        compute_s = slot.on_air * slot.participation.compute_s
        np.testing.assert_allclose(slot.participation.battery_j, energy.battery_j - used, atol=1e-15)
        used = used + energy.nominal_j(slot.frame, slot.on_air, slot.participation.ready, compute_s)
    assert (used <= energy.battery_j).all()


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(schedules())
def test_random_faults_break_no_rule(table):
    hold_to_the_rules(table)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(schedules())
def test_a_thousand_random_faults_break_no_rule(table):
    hold_to_the_rules(table)


# --- outage and privacy

GAINS = """
import numpy as np

class Table:
    '''|h| between four nodes, the same both ways.'''
    def gain(self, links, time_s, rng):
        return 0.4 + 0.1 * ((links.rx + links.tx) % 5)
"""
OUTAGE = {"crashes": {"kind": "schedule", "events": [{"node": 3, "at_s": 0.02, "for_s": 0.03}]}}


def outage(tmp_path, **sections):
    (tmp_path / "gains.py").write_text(GAINS)
    base = {
        "scenario": {"rounds": 8},
        "channel": {"models": [{"model": "gains.py:Table"}]},
        "time": {"compute": {"kind": "constant", "seconds": 0.005}, "policy": {"kind": "clocked", "period_s": 0.01}},
        "faults": OUTAGE,
        "learning": {"batch_size": 8, "eval_every": 8, "learning_rate": {"kind": "constant", "initial": 0.1}},
    }
    return Watched(tiny_table(**{**base, **sections}), folder=str(tmp_path)).run()


def test_silencing_one_of_three_neighbours_raises_epsilon_by_the_factor_of_its_noise(tmp_path):
    watched = outage(tmp_path, power={"objective": "own-noise"}, privacy={"epsilon_max": 0.5})
    before, during, after = watched.decisions[1], watched.decisions[3], watched.decisions[6]
    assert before.on_air.all()
    assert during.on_air.tolist() == [True, True, True, False]
    assert after.on_air.all()
    gain = before.channel.links.matrix(before.channel.slots[0].gain)
    noise_w = (1 - before.plan.alpha) * before.budget_w * before.sigma**2  # constant gamma: the same in all rounds
    epsilon = before.channel.links.matrix(before.link_epsilon, fill=np.nan)
    now = during.channel.links.matrix(during.link_epsilon, fill=np.nan)
    for rx in range(3):
        heard = [tx for tx in range(4) if tx != rx]
        masking = sum(gain[rx, k] ** 2 * noise_w[k] for k in heard)
        factor = math.sqrt(masking / (masking - gain[rx, 3] ** 2 * noise_w[3]))
        assert factor > 1.05
        for tx in set(heard) - {3}:
            assert now[rx, tx] == pytest.approx(factor * epsilon[rx, tx], rel=1e-9)
    assert np.isnan(now[3]).all()
    assert np.isnan(now[:, 3]).all()


@pytest.mark.parametrize("objective", ["sum", "max-min", "min-noise", "own-noise"])
@pytest.mark.parametrize("decay", ["constant", "inverse-sqrt"])
def test_adaptive_plans_keep_the_promise_through_an_outage_and_static_ones_do_not(objective, decay, tmp_path):
    """Also after it, when the node that was silent carries an older, larger gradient than its neighbours."""
    learning = {"batch_size": 8, "eval_every": 8, "learning_rate": {"kind": decay, "initial": 0.1}}
    power = {"objective": objective, "alpha_min": 1e-6}
    adaptive = outage(tmp_path, power={**power, "schedule": "adaptive"}, learning=learning)
    assert max(slot.link_epsilon.max() for slot in adaptive.decisions) <= 1.0 + 1e-9
    assert adaptive.engine.violations == 0
    carried = np.stack([slot.release.gamma for slot in adaptive.decisions])
    if decay == "inverse-sqrt":
        assert (carried[5] > 0).all()
        assert carried[5, 3] > 1.3 * carried[5, 0]
    static = outage(tmp_path, power=power, learning=learning)
    if objective == "sum":
        assert static.engine.violations > 0
    if objective == "own-noise":
        assert static.engine.violations == 0


def test_own_totals_charge_exactly_the_transmissions_made(tmp_path):
    power = {"objective": "own-noise"}
    churn = {"crashes": {"kind": "exponential", "up_s": 0.03, "down_s": 0.02}}
    table = tiny_table(
        scenario={"rounds": 12},
        faults=churn,
        power=power,
        privacy={"epsilon_max": 0.5},
        time={"policy": {"kind": "clocked", "period_s": 0.01}},
        learning={"batch_size": 8, "sampling": "full", "eval_every": 12},
    )
    run = wirelessdl.simulate(parse_scenario(table), out=tmp_path)
    nodes = run.nodes.set_index(["node", "round"])
    own = run.privacy.query("view == 'own'").set_index("tx")
    assert not nodes["transmitted"].all()
    for node in range(4):
        # a transmission is charged if a gradient was finished since the one before
        charged, carries, round = 0, False, 0
        for event in run.events.itertuples():
            if event.kind == "computed" and event.node == node:
                carries = True
            elif event.kind == "frame":
                round += 1
                if nodes.loc[(node, round), "transmitted"]:
                    charged, carries = charged + carries, False
        assert own.loc[node, "rounds"] == charged
        alpha = nodes.loc[node, "alpha"].iloc[0]
        mu = np.sqrt(alpha / (1 - alpha)) * 2 / 3000 * 4 / 10  # full batches of 3000, K = 4, rho = 10
        expected = analytic_epsilon(mu * math.sqrt(own.loc[node, "rounds"]), 1e-4)
        assert own.loc[node, "epsilon_total"] == pytest.approx(expected, rel=1e-9)


def test_noise_follows_the_gradient_carried_through_silence(tmp_path):
    learning = {"batch_size": 8, "eval_every": 8, "learning_rate": {"kind": "inverse-sqrt", "initial": 0.1}}
    watched = outage(tmp_path, learning=learning, power={"objective": "own-noise"})
    silent = [slot.round for slot in watched.decisions if not slot.on_air[3]]
    back = watched.decisions[silent[-1]]
    rates = [watched.world.schedule.rate(slot.round) for slot in watched.decisions]
    assert back.sigma[3] == pytest.approx(10 * rates[silent[0] - 2])
    assert back.sigma[0] == pytest.approx(10 * rates[back.round - 2])


# --- coming back


def comeback(rejoin):
    crash = {"kind": "schedule", "events": [{"node": 1, "at_s": 0.012, "for_s": 0.03}]}
    table = tiny_table(
        scenario={"rounds": 8},
        privacy={"epsilon_max": math.inf},
        faults={"crashes": crash, "rejoin": rejoin},
        time={"compute": {"kind": "constant", "seconds": 0.001}, "policy": {"kind": "clocked", "period_s": 0.01}},
        learning={"dtype": "float64", "batch_size": 8, "eval_every": 8},
    )
    return Watched(table).run()


def test_a_node_that_listens_takes_the_mean_of_what_it_hears():
    watched = comeback("listen")
    listens = [slot.round for slot in watched.decisions if slot.participation.listening[1]]
    assert len(listens) == 1
    slot, before = watched.decisions[listens[0] - 1], watched.after_round[listens[0] - 2]
    assert not slot.on_air[1]
    heard = [0, 2, 3]
    gain = slot.channel.links.matrix(slot.channel.slots[0].gain)[1]
    amplitude = gain * np.sqrt(slot.plan.alpha * slot.budget_w)
    expected = sum(amplitude[k] * before[k] for k in heard) / sum(amplitude[k] for k in heard)
    np.testing.assert_allclose(watched.after_round[listens[0] - 1][1], expected, atol=1e-12)
    after = watched.decisions[listens[0]]
    assert after.on_air[1]
    assert after.release.own_mu[1] == 0.0  # it carries no gradient of its own


def test_a_node_that_keeps_its_state_sends_at_once_what_it_carried():
    watched = comeback("keep")
    down = [slot.round for slot in watched.decisions if not slot.participation.up[1]]
    first = watched.decisions[down[-1]]
    assert first.on_air[1]
    np.testing.assert_array_equal(watched.after_round[down[-1] - 1][1], watched.after_round[down[0] - 2][1])


def test_a_gradient_lost_in_a_crash_leaves_what_was_received():
    crash = {"kind": "schedule", "events": [{"node": 1, "at_s": 0.006, "for_s": 0.001}]}  # frame ends at 3.9 ms
    table = tiny_table(
        scenario={"rounds": 2},
        faults={"crashes": crash},
        time={"compute": {"kind": "constant", "seconds": 0.005}},
        learning={"dtype": "float64", "batch_size": 8, "eval_every": 1},
    )
    with_crash, without = Watched(table).run(), Watched({**table, "faults": {}}).run()
    assert with_crash.decisions[1].participation.lost.tolist() == [False, True, False, False]
    assert with_crash.decisions[1].release.own_mu[1] == 0.0
    assert without.decisions[1].release.own_mu[1] > 0.0
    evaluated = [event.result.accuracy[1] for event in with_crash.events["learning.update"]]
    assert evaluated[0] == without.events["learning.update"][0].result.accuracy[1]


def test_late_nodes_are_judged_by_what_they_held():
    slow = {"kind": "schedule", "events": [{"node": 2, "factor": 25, "from_round": 2, "to_round": 2}]}
    table = tiny_table(
        scenario={"rounds": 5},
        faults={"stragglers": slow},
        time={"compute": {"kind": "constant", "seconds": 0.001}, "policy": {"kind": "clocked", "period_s": 0.01}},
        learning={"batch_size": 8, "eval_every": 1},
    )
    watched = Watched(table).run()
    late = [slot.round for slot in watched.decisions if not slot.participation.ready[2]]
    assert late == [3, 4]
    accuracy = [float(event.result.accuracy[2]) for event in watched.events["learning.update"]]
    assert accuracy[1] == accuracy[2] == accuracy[3]


# --- links and jammers


def test_blocked_links_are_gone_while_they_are_blocked(tmp_path):
    events = [
        {"tx": 0, "rx": 1, "from_s": 0.015, "until_s": 0.035},
        {"tx": 2, "rx": 3, "from_s": 0, "both_ways": False},
    ]
    watched = outage(tmp_path, faults={"blockage": {"kind": "schedule", "events": events}})
    for slot in watched.decisions:
        hears = slot.channel.links.matrix(np.ones(len(slot.channel.links))) > 0
        away = 3 <= slot.round <= 4
        assert hears[1, 0] == hears[0, 1] == (not away)
        assert not hears[3, 2]
        assert hears[2, 3]


def test_links_below_an_snr_fall_out_and_stay_heard_where_interference_is_physical():
    sections = {
        "scenario": {"rounds": 4},
        "network": {"nodes": 6},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "faults": {"blockage": {"kind": "snr", "threshold_db": 30.0}},
        "power": {"objective": "own-noise"},
    }
    plain = Watched(tiny_table(**sections, radio={"power_dbm": 23, "thermal_noise": True})).run()
    radio = {"power_dbm": 23, "thermal_noise": True, "interference": "physical"}
    physical = Watched(tiny_table(**sections, radio=radio)).run()
    lost = 0
    for one, other in zip(plain.decisions, physical.decisions):
        snr_db = 10 * np.log10(one.channel.slots[0].gain ** 2 * 0.2 / plain.world.noise_w)
        assert (snr_db >= 30.0 - 0.01).all()
        lost += 30 - len(one.channel.links)
        assert len(other.channel.heard) == 30
        assert len(other.channel.links) == len(one.channel.links)
    assert 0 < lost < 120


def test_jammers_are_where_and_when_they_say():
    geometry = Geometry.at_rest(np.array([[0.0, 0.0, 1.5], [30.0, 40.0, 1.5]]))
    pulsed = NoiseJammer(power_dbm=-30, from_s=1.0, until_s=5.0, period_s=2.0, on_share=0.5)
    on = [pulsed.noise_w(geometry, time)[0] > 0 for time in (0.5, 1.5, 2.5, 3.5, 5.5)]
    assert on == [False, True, False, True, False]
    assert pulsed.noise_w(geometry, 1.5)[1] == pytest.approx(1e-6)
    placed = PlacedJammer(power_dbm=30, x_m=0, y_m=0, height_m=1.5, exponent=3.0, frequency_hz=3.5e9)
    friis = (299792458 / (4 * np.pi * 3.5e9)) ** 2
    np.testing.assert_allclose(placed.noise_w(geometry, 0.0), [friis, friis / 50**3])


def test_a_jammer_disturbs_models_and_estimates_but_no_epsilon():
    radio = {"power_dbm": 30, "thermal_noise": True, "csi": {"kind": "pilots", "symbols": 4}}
    quiet = Watched(tiny_table(radio=radio, power={"objective": "own-noise"})).run()
    jammer = {"kind": "noise", "power_dbm": 0.0}
    loud = Watched(tiny_table(radio=radio, power={"objective": "own-noise"}, faults={"jammer": jammer})).run()
    for one, other in zip(quiet.decisions, loud.decisions):
        np.testing.assert_array_equal(one.link_epsilon, other.link_epsilon)
        np.testing.assert_array_equal(one.own_epsilon, other.own_epsilon)
        jammed, clear = (np.abs(d.channel.gain_est - d.channel.gain).max() for d in (other, one))
        assert jammed > 1e-3 > clear
    assert np.abs(quiet.after_round[0] - loud.after_round[0]).max() > 1e-3


# --- faults of one's own

YOURS = """
import numpy as np

class Every:
    def __init__(self, period_s: float, nodes):
        self.period_s = period_s
    def outages(self, node, rng):
        start = self.period_s
        while True:
            yield start + 0.001 * node, 0.002
            start += self.period_s

class Backwards:
    def outages(self, node, rng):
        return [(2.0, 1.0), (1.0, 1.0)] if node == 2 else [(0.001, 0.001), (0.0015, 0.001)]

class Negative:
    def noise_w(self, geometry, time_s):
        return -np.ones(geometry.nodes)

class Many:
    def blocked(self, links, time_s, snr_db):
        return np.zeros(3, dtype=bool)

class Late:
    def wait(self, gate):
        yield gate.all_ready()
        yield gate.env.timeout(7_000_000)
"""


def test_faults_and_policies_may_be_yours(tmp_path):
    (tmp_path / "yours.py").write_text(YOURS)
    sections = {
        "scenario": {"rounds": 4},
        "faults": {"crashes": {"kind": "yours.py:Every", "period_s": 0.01}},
        "time": {"policy": "yours.py:Late"},
    }
    watched = Watched(tiny_table(**sections), folder=str(tmp_path)).run()
    assert [state for _, _, state in watched.states()].count("crash") >= 4
    assert watched.states()[0] == (7_000_000, None, "frame")


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"crashes": "yours.py:Backwards"}, "Backwards.outages gave node 0 an outage at 0.0015 s for 0.001 s"),
        ({"jammer": "yours.py:Negative"}, "faults.jammer: Negative.noise_w returned shape"),
        ({"blockage": "yours.py:Many"}, r"faults.blockage: Many.blocked returned shape \(3,\), expected finite"),
    ],
)
def test_faults_of_yours_are_held_to_their_contract(faults, words, tmp_path):
    (tmp_path / "yours.py").write_text(YOURS)
    with pytest.raises(wirelessdl.WirelessdlError, match=words):
        Watched(tiny_table(scenario={"rounds": 4}, faults=faults), folder=str(tmp_path)).run()
