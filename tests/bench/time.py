"""What time and tracing cost: events, trace sources and Parquet, against rounds that are only decided and learned."""

from collections.abc import Iterator
from functools import partial

from bench.suites import FLAGSHIP, Contest, bare_rounds, traced_run
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.events import TRACE_EVENTS

_ROUNDS = 200


def contests() -> Iterator[Contest]:
    """The flagship's rounds with and without events and tables, and with an idle listener at every trace event."""
    world = build(load_scenario(FLAGSHIP, overrides=[f"scenario.rounds={_ROUNDS}"]))
    bare, heard = (partial(bare_rounds, world, _ROUNDS, listened) for listened in ((), TRACE_EVENTS))
    traced = partial(traced_run, world)
    yield Contest("softmax K=20, events and tables against neither", ours=traced, other=bare, at_most=1.08)
    yield Contest("softmax K=20, a listener at every trace event against none", ours=heard, other=bare, at_most=1.02)
