"""Nodes that come back and listen, and what crashes and blockages leave in the books."""

import numpy as np
import pytest
from conftest import tiny

import wirelessdl
from wirelessdl.analysis.releases import promised_totals
from wirelessdl.errors import ScenarioError
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, run_rounds
from wirelessdl.scenario.loader import load_scenario


def test_a_listener_that_hears_nobody_keeps_what_it_held():
    """Its model is un-noised: nothing shown may be taken from it."""
    scenario = tiny(
        scenario={"rounds": 4},
        network={"nodes": 3, "topology": "full"},
        faults={
            "crashes": {"kind": "schedule", "events": [{"node": 1, "at_s": 0.006, "for_s": 0.001}]},
            "rejoin": "listen",
            "blockage": {
                "kind": "schedule",
                "events": [{"rx": 1, "tx": 0, "from_s": 0.005}, {"rx": 1, "tx": 2, "from_s": 0.005}],
            },
        },
        time={"compute": {"kind": "constant", "seconds": [0.005, 0.001, 0.005]}},
        learning={"eval_every": 1},
    )
    world = build(scenario)
    held = []
    inner = world.learning.round

    def watched(given):
        before = world.learning.mixed()
        result = inner(given)
        held.append((given.update.keep, before, world.learning.mixed(), world.learning.x.numpy()))
        return result

    world.learning.round = watched
    run_rounds(world, make_engine(world))
    listened = [(before, after, x) for kept, before, after, x in held if kept[1]]
    assert listened
    for before, after, x in listened:
        np.testing.assert_array_equal(after[1], before[1])
        assert (after[1] != x[1]).any()


def test_spending_is_exact_where_a_crash_took_a_gradient(tmp_path):
    """Totals worked out again from traces, by every accountant, equal what the run stored."""
    run = wirelessdl.simulate(
        load_scenario("churn_k20", overrides=["scenario.rounds=25", "network.nodes=8"]), out=tmp_path
    )
    assert (run.events.kind == "crash").any()
    found = promised_totals(run)
    assert found.note == ""
    assert found.epsilon["pld"].max() == pytest.approx(run.summary["epsilon_own_total"])
    # a gradient that was lost was never sent: fewer releases than transmissions after the first
    sent = run.nodes[run.nodes.transmitted]
    assert (sent.sent_multiplier == 0).sum() > sent.node.nunique()


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"tx": 0, "rx": 0, "from_s": 0.0}, "blocks node 0 from itself"),
        ({"tx": 0, "rx": 1, "from_s": 5.0, "until_s": 1.0}, "until_s is 1; must be after from_s, 5"),
    ],
)
def test_blockages_that_make_no_sense_are_refused(event, words):
    with pytest.raises(ScenarioError, match=words):
        build(tiny(faults={"blockage": {"kind": "schedule", "events": [event]}}))
