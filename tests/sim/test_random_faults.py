"""Whatever goes wrong, and whenever: rules that learning, privacy and batteries keep."""

import math

import numpy as np
import pytest
from conftest import tiny_table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from watching import Watched

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
            lengths = st.floats(1e-9, 0.02) | st.none()
            for start, length in draw(st.lists(st.tuples(instant, lengths), max_size=3)):
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
    power |= {"objective": "own-noise", "alpha_min": 1e-9, "schedule": draw(st.sampled_from(["static", "adaptive"]))}
    radio |= {"control_failure": draw(st.sampled_from([0.0, 0.3]))}
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
    np.testing.assert_array_equal(engine.stages.ledger.own.rounds, charged)
    # a charge for each gradient that was taken and then sent, none for those that were lost, and none twice
    stepped = np.sum([event.record.stepped for event in watched.events["learning.update"]], axis=0)
    assert (charged <= stepped).all()
    if hasattr(engine.stages.multiplier, "z"):
        assert (np.diagonal(engine.stages.multiplier.memory["z"]) > 0).all()
    # energy adds up: parts to a round, rounds to what batteries lost
    energy, used = world.simulation.energy, np.zeros(world.nodes)
    for slot in slots:
        compute_s = slot.on_air * slot.participation.compute_s
        np.testing.assert_allclose(slot.participation.battery_j, energy.battery_j - used, atol=1e-15)
        cast = slot.participation
        used = used + energy.nominal_j(
            slot.frame, sends=slot.on_air, hears=cast.ready, missed=cast.missed, compute_s=compute_s
        )
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
