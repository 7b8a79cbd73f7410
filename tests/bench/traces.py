"""What traces cost: checkpoints while a run goes on, its links as a pandas frame, and its report."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from bench.suites import FLAGSHIP, Contest
from wirelessdl.analysis.report import write_report
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.trace.run import Run, open_run

_ROUNDS = 300
_CHEAP = (
    "scenario.name=large",
    "scenario.rounds=1000",
    "network.nodes=100",
    "network.topology=full",
    "network.placement={kind='disc',radius_m=150}",
    "power.schedule=static",
    "learning.batch_size=8",
    "learning.partition=iid",
    "learning.eval_every=50",
)


def checkpoints() -> Iterator[Contest]:
    """A checkpoint every 50 rounds against none until the end; both flush their traces every 50 rounds."""

    def run(checkpoint_every: int) -> None:
        scenario = load_scenario(
            FLAGSHIP,
            overrides=[
                f"scenario.rounds={_ROUNDS}",
                f"trace.checkpoint_every={checkpoint_every}",
                "trace.flush_every=50",
            ],
        )
        with tempfile.TemporaryDirectory(prefix="wirelessdl-bench-") as folder:
            simulate(scenario, out=folder)

    yield Contest(
        "softmax K=20, checkpoint every 50 rounds against none",
        ours=lambda: run(50),
        other=lambda: run(10**9),
        at_most=1.03,
        repeats=9,
    )


def large_run(out: Path) -> Run:
    """A hundred nodes that all hear each other, a thousand rounds: 9.9 million links, in under a minute."""
    return simulate(load_scenario(FLAGSHIP, overrides=list(_CHEAP)), out=out)


def reports() -> Iterator[Contest]:
    """Links of a large run as a pandas frame, and its report, against a bare read of the files."""
    with tempfile.TemporaryDirectory(prefix="wirelessdl-bench-") as folder:
        run = large_run(Path(folder))
        yield Contest(
            "links of K=100 x 1,000 rounds as pandas, against a bare read",
            ours=lambda: open_run(run.path).links,
            other=lambda: pq.read_table(run.path / "links"),
            at_most=3.0,
        )
        yield Contest(
            "report of it, against a bare read of its links",
            ours=lambda: write_report([run.path], Path(folder) / "report.html"),
            other=lambda: pq.read_table(run.path / "links"),
            repeats=1,
        )
