"""Runs an engine with a listener at every trace event; no run directory."""

from collections import defaultdict

from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, run_rounds
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.trace.events import TRACE_EVENTS


class Watched:
    """An engine that ran, and every event it fired, by name."""

    def __init__(self, table, folder=""):
        self.world = build(parse_scenario(table, folder=folder), device="cpu")
        self.engine = make_engine(self.world)
        self.events = defaultdict(list)
        self.order = []
        self.after_round = []
        for name in TRACE_EVENTS:
            self.engine.trace.connect(name, self._hear)

    def _hear(self, event):
        self.events[event.source].append(event)
        self.order.append(event)
        if event.source == "learning.update":
            self.after_round.append(self.world.learning.x.numpy().copy())

    def run(self):
        run_rounds(self.world, self.engine)
        return self

    @property
    def decisions(self):
        return [event.decision for event in self.events["learning.update"]]

    def states(self):
        """(time_ns, node, state) in order; node None for the network."""
        named = ("node.state", "net.state")
        return [(e.time_ns, e.fields.get("node"), e.state) for e in self.order if e.source in named]
