"""Benchmarks: ratios measured side by side in one process, never seconds.

Machines are shared and noisy, so contenders take turns, and what counts is the median of their ratios
over the turns, each ratio between neighbours in time.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Contest:
    """Two ways of doing one thing; the ratio is `ours` over `other`."""

    name: str
    ours: Callable[[], Any]
    other: Callable[[], Any]
    at_most: float | None = None  # target of the ratio
    at_least: float | None = None  # or of its inverse, the speed-up
    repeats: int = 7


@dataclass(frozen=True)
class Result:
    """Median seconds of both, median ratio, and whether the target was met."""

    name: str
    ours_s: float
    other_s: float
    ratio: float
    target: str
    met: bool


def measure(contest: Contest) -> Result:
    """Interleaved repeats after one warm-up of each."""
    contest.ours()
    contest.other()
    ours: list[float] = []
    other: list[float] = []
    for repeat in range(contest.repeats):
        order = [(contest.ours, ours), (contest.other, other)]
        for run, seconds in order if repeat % 2 else order[::-1]:
            seconds.append(_time(run))
    ratio = statistics.median(a / b for a, b in zip(ours, other))
    if contest.at_most is not None:
        target, met = f"<= {contest.at_most:g}x the time", ratio <= contest.at_most
    elif contest.at_least is not None:
        target, met = f">= {contest.at_least:g}x the speed", 1.0 / ratio >= contest.at_least
    else:
        target, met = "", True
    return Result(contest.name, statistics.median(ours), statistics.median(other), ratio, target, met)


def _time(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def run_suite(name: str) -> Iterator[Result]:
    """Results of a suite, as they come."""
    for contest in SUITES[name]():
        yield measure(contest)


def _channel() -> Iterator[Contest]:
    from wirelessdl.experiments.bench_channel import contests

    return contests()


def _survival() -> Iterator[Contest]:
    from wirelessdl.experiments.bench_survival import contests

    return contests()


def _privacy() -> Iterator[Contest]:
    from wirelessdl.experiments.bench_privacy import contests

    return contests()


def _network() -> Iterator[Contest]:
    from wirelessdl.experiments.bench_network import contests

    return contests()


def _power() -> Iterator[Contest]:
    from wirelessdl.experiments.bench_power import contests

    return contests()


def _report() -> Iterator[Contest]:
    from wirelessdl.experiments.bench_report import contests

    return contests()


SUITES: dict[str, Callable[[], Iterator[Contest]]] = {
    "channel": _channel,
    "network": _network,
    "power": _power,
    "privacy": _privacy,
    "report": _report,
    "survival": _survival,
}
