"""ns-3 inside a run: its mobility moves the nodes, its loss model computes every gain.

pip install ns3 && python examples/ns3_live.py
"""

import importlib.util
import sys

import numpy as np

import wirelessdl

NODES, SECONDS, STEP_S = 10, 40, 0.5

if importlib.util.find_spec("ns") is None:
    print("ns-3 is not installed, so there is nothing to show.\nInstall it: pip install ns3\nThen run this again.")
    sys.exit(0)
from ns import ns  # noqa: E402  (loads ns-3, which takes seconds)


def ns3_walks():
    """Places of ns-3's RandomWalk2d, `[instants, nodes, 2]`: its simulator runs first, and tells where nodes were."""
    ns.RngSeedManager.SetSeed(7)
    nodes = ns.NodeContainer()
    nodes.Create(NODES)
    helper = ns.MobilityHelper()
    box = "ns3::UniformRandomVariable[Min=0|Max=120]"
    helper.SetPositionAllocator(
        "ns3::RandomRectanglePositionAllocator", "X", ns.StringValue(box), "Y", ns.StringValue(box)
    )
    bounds = ns.RectangleValue(ns.Rectangle(0, 120, 0, 120))
    speed = ns.StringValue("ns3::UniformRandomVariable[Min=1|Max=2]")
    helper.SetMobilityModel("ns3::RandomWalk2dMobilityModel", "Bounds", bounds, "Speed", speed)
    helper.Install(nodes)
    models = [nodes.Get(node).GetObject[ns.MobilityModel]() for node in range(NODES)]
    places = []
    for _ in np.arange(0, SECONDS + STEP_S, STEP_S):
        found = [model.__deref__().GetPosition() for model in models]
        places.append([(place.x, place.y) for place in found])
        ns.Simulator.Stop(ns.Seconds(STEP_S))
        ns.Simulator.Run()
    ns.Simulator.Destroy()
    return np.array(places)


class Ns3Walks:
    """Mobility of wirelessdl: straight on between the places that ns-3 gave."""

    def __init__(self):
        self.places = ns3_walks()

    def geometry(self, time_s):
        step = min(int(time_s / STEP_S), len(self.places) - 2)
        share = min(time_s / STEP_S - step, 1.0)
        here, there = self.places[step], self.places[step + 1]
        ground, velocity = here + share * (there - here), (there - here) / STEP_S
        height, level = np.full((NODES, 1), 1.5), np.zeros((NODES, 1))
        return wirelessdl.Geometry(np.hstack([ground, height]), np.hstack([velocity, level]))


loss = {
    "model": "ns3",
    "loss": "ThreeGppV2vUrbanPropagationLossModel",
    "channel_condition": "ProbabilisticV2vUrbanChannelConditionModel",
}
overrides = {
    "scenario.rounds": 60,
    "network.nodes": NODES,
    "channel.models": [loss, {"model": "rayleigh"}],
    "channel.frequency_hz": 5.9e9,
    "radio.thermal_noise": True,
    "power.schedule": "adaptive",
    "power.objective": "own-noise",
    "time.compute": {"kind": "constant", "seconds": 0.5},
}
run = wirelessdl.simulate("quickstart", mobility=Ns3Walks(), overrides=overrides)
first = run.nodes.query("node == 0")
way = np.hypot(np.diff(first["x_m"]), np.diff(first["y_m"])).sum()
print(f"node 0 walked {way:.0f} m by ns-3 in {run.summary['time_s']:.0f} s")
print(f"gains of ns-3: {20 * np.log10(run.links['gain']).median():.0f} dB in the median of all links and rounds")
print(f"test accuracy {run.summary['accuracy_mean']:.1%}, epsilon {run.summary['epsilon_total']:.2f}")
