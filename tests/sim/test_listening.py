"""Nodes that come back and listen, and what crashes and blockages leave in the books."""

import numpy as np
import pytest
from conftest import tiny

import wirelessdl
from wirelessdl.analysis.privacy_curve import privacy_curve
from wirelessdl.errors import ScenarioError
from wirelessdl.round.engine import Engine
from wirelessdl.run.build import build
from wirelessdl.run.recorder import Recorder
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.sink import RunWriter


def test_a_listener_that_hears_nobody_keeps_what_it_held(tmp_path):
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

    def watched(order):
        before = world.learning.mixed()
        outcome = inner(order)
        held.append((order.absent, before, world.learning.mixed(), world.learning.state()))
        return outcome

    world.learning.round = watched
    recorder = Recorder(energy=world.simulation.energy, thermal_w=world.thermal_w, links="none", flush_every=50)
    recorder.writer = RunWriter(tmp_path)
    Engine(world, recorder).run()
    listened = [(before, after, x) for absent, before, after, x in held if absent is not None and absent[1]]
    assert listened
    for before, after, x in listened:
        np.testing.assert_array_equal(after[1], before[1])
        assert (after[1] != x[1]).any()


def test_spending_is_exact_where_a_crash_took_a_gradient(tmp_path):
    """Totals worked out again from traces, by every accountant, equal what the run stored."""
    run = wirelessdl.simulate(load_scenario("churn_k20", overrides=["scenario.rounds=25"]), out=tmp_path)
    assert (run.events.kind == "crash").any()
    found = privacy_curve(run)
    assert found.accountant == "pld"
    assert found.epsilon[-1] == pytest.approx(run.summary["epsilon_own_total"])
    # a gradient that was lost was never sent: fewer releases than transmissions after the first
    sent = run.nodes[run.nodes.transmitted]
    assert (sent.carried == 0).sum() > sent.node.nunique()


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
