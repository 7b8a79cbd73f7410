"""Benchmarks: ratios measured side by side in one process, never seconds.

Machines are shared and noisy, so contenders take turns, and what counts is the median of their ratios
over the turns, each ratio between neighbours in time.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

# the main example as it was once: ratios over time refer to the same work
FLAGSHIP = Path(__file__).parent / "scenarios" / "bench_er_k20.toml"


@dataclass(frozen=True)
class Contest:
    """Two ways of doing one thing; the ratio is `ours` over `other`.

    Seconds are measured; in another unit, or with `reported`, each call returns its own number.
    """

    name: str
    ours: Callable[[], Any]
    other: Callable[[], Any]
    at_most: float | None = None  # target of the ratio
    at_least: float | None = None  # or of its inverse, the speed-up
    repeats: int = 7
    unit: str = "s"
    reported: bool = False
    skipped: str = ""  # why it cannot be measured here


@dataclass(frozen=True)
class Result:
    """Medians of both, median ratio, and whether the target was met."""

    name: str
    ours: float
    other: float
    ratio: float
    target: str
    met: bool | None  # None where it was not measured
    unit: str = "s"
    note: str = ""


def measure(contest: Contest) -> Result:
    """Interleaved repeats after one warm-up of each."""
    if contest.skipped:
        return Result(contest.name, math.nan, math.nan, math.nan, _target(contest), None, contest.unit, contest.skipped)
    contest.ours()
    contest.other()
    ours: list[float] = []
    other: list[float] = []
    for repeat in range(contest.repeats):
        order = [(contest.ours, ours), (contest.other, other)]
        for run, seconds in order if repeat % 2 else order[::-1]:
            seconds.append(float(run()) if contest.reported else _time(run))
    ratio = statistics.median(a / b for a, b in zip(ours, other))
    met = True
    if contest.at_most is not None:
        met = ratio <= contest.at_most
    elif contest.at_least is not None:
        met = 1.0 / ratio >= contest.at_least
    return Result(
        contest.name, statistics.median(ours), statistics.median(other), ratio, _target(contest), met, contest.unit
    )


def _target(contest: Contest) -> str:
    if contest.at_most is not None:
        return f"<= {contest.at_most:g}x" + (" the time" if contest.unit == "s" else "")
    return "" if contest.at_least is None else f">= {contest.at_least:g}x the speed"


def _time(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def bare_rounds(world: Any, rounds: int, listened: Sequence[str] = ()) -> float:
    """Seconds of processor time of rounds without events and tables; listened: trace events with an idle listener."""
    from wirelessdl.radio.frame import Participation
    from wirelessdl.run.wiring import make_engine

    engine, everyone = make_engine(world), Participation.everyone(world.nodes)
    nobody, step_ns = np.zeros(world.nodes, dtype=bool), world.frame.airtime_ns + 5_000_000
    for name in listened:
        engine.trace.connect(name, lambda _: None)
    started = time.process_time()
    for round in range(1, rounds + 1):
        engine.open_frame(round, (round - 1) * step_ns, everyone)
        engine.close_frame(round, round * step_ns, nobody)
    return time.process_time() - started


def traced_run(world: Any, attach: Callable[[Any, Any], None] | None = None) -> float:
    """Processor seconds of a whole run, from its first frame to its last, with events and tables.

    attach: given the engine and the recorder before the run begins.
    """
    from wirelessdl.run.wiring import make_engine, make_recorder, run_rounds
    from wirelessdl.trace.sink import RunWriter

    with tempfile.TemporaryDirectory(prefix="wirelessdl-bench-") as folder:
        recorder = make_recorder(world)
        recorder.writer = RunWriter(Path(folder))
        engine = make_engine(world, recorder)
        if attach is not None:
            attach(engine, recorder)
        started = time.process_time()
        run_rounds(world, engine)
        recorder.flush()
        return time.process_time() - started


# modules are imported when their suite runs: some need packages that are not always installed
SUITES = {
    "channel": "bench.channel:contests",
    "network": "bench.network:contests",
    "engine": "bench.engine:contests",
    "limit": "bench.limit:contests",
    "noise": "bench.noise:contests",
    "power": "bench.power:contests",
    "privacy": "bench.privacy:contests",
    "report": "bench.traces:reports",
    "scale": "bench.scale:contests",
    "study": "bench.study:contests",
    "survival": "bench.traces:checkpoints",
    "time": "bench.time:contests",
}


def run_suite(name: str) -> Iterator[Result]:
    """Results of a suite, as they come."""
    module, _, function = SUITES[name].partition(":")
    contests: Callable[[], Iterator[Contest]] = getattr(import_module(module), function)
    for contest in contests():
        yield measure(contest)
