"""What surviving costs: checkpoints."""

import tempfile
from collections.abc import Iterator

from wirelessdl.bench.suites import Contest
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import load_scenario

_ROUNDS = 300


def contests() -> Iterator[Contest]:
    """A checkpoint every 50 rounds against none until the end; both flush their traces every 50 rounds."""

    def run(checkpoint_every: int) -> None:
        scenario = load_scenario(
            "urban_er_k20",
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
