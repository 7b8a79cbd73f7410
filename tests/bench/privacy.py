"""What accounting costs in a round."""

import tempfile
from collections.abc import Iterator

from bench.suites import FLAGSHIP, Contest
from wirelessdl.privacy.ledger import FrameRelease, Ledger
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import load_scenario


def contests() -> Iterator[Contest]:
    """Writing every slot of a run into a fresh ledger, against running it."""
    slots: list[FrameRelease] = []
    keep = Ledger.record

    def listen(ledger: Ledger, release: FrameRelease) -> None:
        slots.append(release)
        keep(ledger, release)

    scenario = load_scenario(FLAGSHIP)
    with tempfile.TemporaryDirectory(prefix="wirelessdl-bench-") as folder:
        Ledger.record = listen  # type: ignore[method-assign,assignment]
        try:
            simulate(scenario, out=folder)
        finally:
            Ledger.record = keep  # type: ignore[method-assign]
    from wirelessdl.run.build import build

    world = build(scenario)

    def account() -> None:
        ledger = Ledger(world.terms, world.exposure.sampling_rate)
        for slot in slots:
            ledger.record(slot)
            ledger.own.bound()

    def run() -> None:
        with tempfile.TemporaryDirectory(prefix="wirelessdl-bench-") as folder:
            simulate(scenario, out=folder)

    yield Contest("softmax K=20, 300 rounds: running accounting against the whole run", account, run, at_most=0.05)
