"""Nodes and links that fail for a while: what leaks meanwhile, and how nodes come back."""

import math

import numpy as np
import pytest
from conftest import tiny_table
from watching import Watched

import wirelessdl
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.scenario.loader import parse_scenario

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


@pytest.mark.parametrize("at_s", [0.021, 0.0195], ids=["within a frame", "between frames"])
def test_a_late_node_that_crashes_loses_the_gradient_it_was_computing(at_s, tmp_path):
    """Whether a frame of the others is open or not: what it sends next holds no gradient, and is not charged."""
    watched = outage(
        tmp_path,
        time={
            "compute": {"kind": "constant", "seconds": [0.001, 0.001, 0.001, 0.025]},
            "policy": {"kind": "clocked", "period_s": 0.01},
        },
        faults={
            "crashes": {"kind": "schedule", "events": [{"node": 3, "at_s": at_s, "for_s": 0.002}]},
            "rejoin": "keep",
        },
        power={"objective": "own-noise"},
        privacy={"epsilon_max": 0.5},
    )
    third = watched.decisions[2]
    opened_s, closed_s = third.opened_ns / 1e9, watched.events["learning.update"][2].time_ns / 1e9
    assert (opened_s < at_s < closed_s) == (at_s == 0.021)
    sends = [one.on_air[3] for one in watched.decisions[:4]]
    assert sends == [True, False, False, True]
    assert watched.decisions[3].release.own_mu[3] == 0.0
    assert (watched.decisions[3].release.own_mu[:3] > 0).all()


@pytest.mark.parametrize("objective", ["sum", "max-min", "min-noise", "own-noise"])
@pytest.mark.parametrize("decay", ["constant", "inverse-sqrt"])
def test_adaptive_plans_keep_the_promise_through_an_outage_and_static_ones_do_not(objective, decay, tmp_path):
    """Also after it, when the node that was silent carries an older, larger gradient than its neighbours."""
    learning = {"batch_size": 8, "eval_every": 8, "learning_rate": {"kind": decay, "initial": 0.1}}
    power = {"objective": objective, "alpha_min": 1e-6}
    adaptive = outage(tmp_path, power={**power, "schedule": "adaptive"}, learning=learning)
    assert max(slot.charged.link.max() for slot in adaptive.decisions) <= 1.0 + 1e-9
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
        sensitivity = run.clients["sensitivity"][node]
        assert 2 / 3000 < sensitivity < 2 / 3000 * (1 + 1e-3)  # full batches of 3000, and rounding of their sum
        mu = np.sqrt(alpha / (1 - alpha)) * sensitivity * 4 / 10  # K = 4, rho = 10
        expected = analytic_epsilon(mu * math.sqrt(own.loc[node, "rounds"]), 1e-4)
        assert own.loc[node, "epsilon_total"] == pytest.approx(expected, rel=1e-9)


# --- coming back


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
