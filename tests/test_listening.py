"""A node that comes back and listens."""

import numpy as np
from conftest import tiny

from wirelessdl.sim.build import build
from wirelessdl.sim.engine import Engine
from wirelessdl.sim.recorder import Recorder
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
    recorder = Recorder(energy=world.clockwork.energy, thermal_w=world.thermal_w, links="none", flush_every=50)
    recorder.writer = RunWriter(tmp_path)
    Engine(world, recorder).run()
    listened = [(before, after, x) for absent, before, after, x in held if absent is not None and absent[1]]
    assert listened
    for before, after, x in listened:
        np.testing.assert_array_equal(after[1], before[1])
        assert (after[1] != x[1]).any()
