"""How cost grows with the network: CPU time per round by component, and memory, from 1,000 nodes to 100,000.

    PYTHONPATH=tests python -m bench.scale geometric 10000 --rounds 5     # one size, as one JSON object

Two graphs of degree 10: `geometric` (links by distance on a disc whose area grows with K; mixes slowly) and `regular`
(random neighbours on a disc of fixed size; mixes fast, so that elimination fills in). Everything else is alike:
Rayleigh fading drawn in four slots of every frame, an adaptive plan, own noise, softmax of 490 parameters on synthetic
data with 8 samples per node, all tables. The first round, in which much is worked out once, and the last, which has
the totals, are not counted.

CPU time, not wall-clock time: machines are shared. Every size runs in a process of its own, for its peak memory.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.suites import Contest
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, make_recorder, run_rounds
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.sink import RunWriter

SIZES = (1_000, 3_000, 10_000, 30_000)
GRAPHS = ("geometric", "regular")
COMPONENTS = ("whole", "channel", "plan", "ledger", "recorder")
_AT_MOST = 1.1  # exponent of K
_SPACE_M = 15.0  # radius of the disc over sqrt(K), metres
_SCENARIO = Path(__file__).parent / "scenarios" / "bench_scale.toml"


def scale_scenario(graph: str, nodes: int, rounds: int = 5, overrides: Sequence[str] = ()) -> Scenario:
    """The scenario of a graph and size."""
    places = {
        "geometric": [
            f"network.placement={{kind='poisson-disc', radius_m={_SPACE_M * math.sqrt(nodes):.6g}, min_distance_m=17}}",
            "network.topology={kind='random-geometric', radius_m=48}",
        ],
        "regular": [
            "network.placement={kind='disc', radius_m=150}",
            "network.topology={kind='k-regular', degree=10}",
        ],
    }[graph]
    return load_scenario(
        _SCENARIO,
        overrides=[
            f"scenario.name=scale_{graph}",
            f"scenario.rounds={rounds}",
            f"network.nodes={nodes}",
            f"learning.dataset.samples={8 * nodes}",
            f"learning.eval_every={rounds}",
            *places,
            *overrides,
        ],
    )


class Clock:
    """CPU time of methods, by component, since it was last started."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def watch(self, component: str, owner: Any, method: str) -> None:
        """Count the time of a method of this very object."""
        original: Callable[..., Any] = getattr(owner, method)

        def timed(*given: Any, **named: Any) -> Any:
            started = time.process_time()
            try:
                return original(*given, **named)
            finally:
                spent = time.process_time() - started
                self.seconds[component] = self.seconds.get(component, 0.0) + spent

        setattr(owner, method, timed)


def peak_bytes() -> float:
    """Most memory that this process held. On Linux ru_maxrss starts from the parent's peak, VmHWM from zero."""
    if sys.platform == "linux":
        text = Path("/proc/self/status").read_text(encoding="ascii")
        return float(text.partition("VmHWM:")[2].split()[0]) * 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def measured(graph: str, nodes: int, rounds: int = 5, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """CPU seconds per round of each component, of the rounds between the first and the last, and peak memory."""
    built_from = time.process_time()
    world = build(scale_scenario(graph, nodes, rounds, overrides), device="cpu")
    build_s = time.process_time() - built_from
    clock, recorder = Clock(), make_recorder(world)
    engine = make_engine(world, recorder)
    stages = engine.stages
    watched: list[tuple[str, Any, str]] = [
        ("channel", stages.observer, "observe"),
        ("plan", stages.planner, "plan"),
        ("plan", stages.carrier, "carry"),
        ("ledger", stages.releases, "release"),
        ("ledger", stages.ledger, "record"),
        ("ledger", stages.ledger.own, "bound"),
        ("learning", stages.learning, "round"),
        ("recorder", recorder, "flush"),
    ]
    for component, owner, method in watched:
        clock.watch(component, owner, method)
    marks: dict[int, dict[str, float]] = {}
    recorded = recorder.add

    def mark(record: Any) -> None:
        recorded(record)
        recorder.flush()  # every round pays for its own rows
        marks[record.decision.round] = {**clock.seconds, "whole": time.process_time()}

    recorder.add = mark  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory(prefix="wirelessdl-bench-") as folder:
        recorder.writer = RunWriter(Path(folder))
        run_rounds(world, engine)
        written = sum(path.stat().st_size for path in Path(folder).rglob("*.parquet"))
    first, last = marks[1], marks[rounds - 1]
    per_round = {name: (last[name] - first[name]) / (rounds - 2) for name in last}
    return {
        "graph": graph,
        "nodes": nodes,
        "links": world.heard_links,
        "parameters": world.learning.learner.size,
        "rounds": rounds,
        "build_s": build_s,
        "cpu_s": per_round,
        "written_mb": written / 1e6,
        "peak_gb": peak_bytes() / 1e9,
    }


def exponent(nodes: Sequence[int], seconds: Sequence[float]) -> float:
    """Slope of log time over log K, least squares."""
    return float(np.polyfit(np.log(nodes), np.log(seconds), 1)[0])


def contests() -> Iterator[Contest]:
    """Exponents of K, of each component on each graph."""
    for graph in GRAPHS:
        found = [_in_a_process(graph, nodes) for nodes in SIZES]
        for component in COMPONENTS:
            slope = exponent(SIZES, [one["cpu_s"][component] for one in found])
            yield Contest(
                f"{graph} graph, {component}: exponent of K of CPU time a round, against linear",
                ours=partial(float, slope),
                other=lambda: 1.0,
                at_most=_AT_MOST,
                repeats=1,
                unit="",
                reported=True,
            )


def _in_a_process(graph: str, nodes: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.scale", graph, str(nodes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", choices=GRAPHS)
    parser.add_argument("nodes", type=int)
    parser.add_argument("--rounds", type=int, default=5, help="at least 3")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="overrides, as of run")
    given = parser.parse_args()
    print(json.dumps(measured(given.graph, given.nodes, max(3, given.rounds), given.set)))


if __name__ == "__main__":
    main()
