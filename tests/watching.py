"""Runs an engine with an ear at every trace source; no run directory."""

from collections import defaultdict

from wirelessdl.round.engine import Engine
from wirelessdl.run.build import build
from wirelessdl.run.recorder import Recorder
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.trace.events import TRACE_EVENTS


class Watched:
    """An engine that ran, and all it told, by source."""

    def __init__(self, table, folder=""):
        self.world = build(parse_scenario(table, folder=folder), device="cpu")
        recorder = Recorder(
            energy=self.world.simulation.energy, thermal_w=self.world.thermal_w, links="all", flush_every=10**9
        )
        self.engine = Engine(self.world, recorder)
        self.told = defaultdict(list)
        self.order = []
        self.after_round = []
        for source in TRACE_EVENTS:
            self.engine.trace.connect(source, self._hear)

    def _hear(self, event):
        self.told[event.source].append(event)
        self.order.append(event)
        if event.source == "learning.update":
            self.after_round.append(self.world.learning.x.numpy().copy())

    def run(self):
        self.engine.run()
        return self

    @property
    def slots(self):
        return [event.slot for event in self.told["learning.update"]]

    def states(self):
        """(time_ns, node, state) in order; node None for the network."""
        named = ("node.state", "net.state")
        return [(e.time_ns, e.fields.get("node"), e.state) for e in self.order if e.source in named]
