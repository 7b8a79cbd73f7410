"""What time and tracing cost: events, trace sources and Parquet, against rounds that are only decided and learned."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wirelessdl.bench.suites import Contest
from wirelessdl.round.engine import Engine
from wirelessdl.run.build import build
from wirelessdl.run.recorder import Recorder
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.sim.node_states import Participation
from wirelessdl.trace.events import TRACE_EVENTS, TraceEvents
from wirelessdl.trace.sink import RunWriter

_ROUNDS = 200


class _Deaf:
    """Subscribes to nothing."""

    def listen(self, trace: TraceEvents) -> None:
        pass


def contests() -> Iterator[Contest]:
    """The flagship's rounds with and without events and tables, and with an idle ear at every source."""
    scenario = load_scenario("urban_er_k20", overrides=[f"scenario.rounds={_ROUNDS}"])
    world = build(scenario)
    nobody = np.zeros(world.nodes, dtype=bool)
    step_ns = world.frame.airtime_ns + 5_000_000

    def bare(recorder: Any = None) -> None:
        engine = Engine(world, recorder or _Deaf())  # type: ignore[arg-type]
        cast = Participation.everyone(world.nodes)
        for round in range(1, _ROUNDS + 1):
            engine.open_frame(round, (round - 1) * step_ns, cast)
            engine.close_frame(round, round * step_ns, nobody)

    def traced() -> None:
        with tempfile.TemporaryDirectory(prefix="wirelessdl-bench-") as folder:
            trace = scenario.trace
            recorder = Recorder(
                energy=world.simulation.energy,
                thermal_w=world.thermal_w,
                links=trace.links,
                flush_every=trace.flush_every,
            )
            recorder.writer = RunWriter(Path(folder))
            Engine(world, recorder).run()
            recorder.flush()

    def heard() -> None:
        class Ear(_Deaf):
            def listen(self, trace: TraceEvents) -> None:
                for source in TRACE_EVENTS:
                    trace.connect(source, lambda _: None)

        bare(Ear())

    yield Contest("softmax K=20, events and tables against neither", ours=traced, other=bare, at_most=1.08)
    yield Contest("softmax K=20, an ear at every trace source against none", ours=heard, other=bare, at_most=1.02)
