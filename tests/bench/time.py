"""What time and tracing cost: events, trace sources and Parquet, against rounds that are only decided and learned."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.suites import FLAGSHIP, Contest
from wirelessdl.radio.participation import Participation
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, make_recorder, run_rounds
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.events import TRACE_EVENTS
from wirelessdl.trace.sink import RunWriter

_ROUNDS = 200


def contests() -> Iterator[Contest]:
    """The flagship's rounds with and without events and tables, and with an idle listener at every trace event."""
    world = build(load_scenario(FLAGSHIP, overrides=[f"scenario.rounds={_ROUNDS}"]))
    nobody = np.zeros(world.nodes, dtype=bool)
    step_ns = world.frame.airtime_ns + 5_000_000

    def bare(listened: tuple[str, ...] = ()) -> None:
        engine = make_engine(world)
        for name in listened:
            engine.trace.connect(name, lambda _: None)
        everyone = Participation.everyone(world.nodes)
        for round in range(1, _ROUNDS + 1):
            engine.open_frame(round, (round - 1) * step_ns, everyone)
            engine.close_frame(round, round * step_ns, nobody)

    def traced() -> None:
        with tempfile.TemporaryDirectory(prefix="wirelessdl-bench-") as folder:
            recorder = make_recorder(world)
            recorder.writer = RunWriter(Path(folder))
            run_rounds(world, make_engine(world, recorder))
            recorder.flush()

    def heard() -> None:
        bare(TRACE_EVENTS)

    yield Contest("softmax K=20, events and tables against neither", ours=traced, other=bare, at_most=1.08)
    yield Contest("softmax K=20, a listener at every trace event against none", ours=heard, other=bare, at_most=1.02)
