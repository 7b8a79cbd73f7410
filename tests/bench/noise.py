"""What pairwise-cancelling noise costs in a round, and what mixing passes do."""

from collections.abc import Callable, Iterator

from bench.suites import FLAGSHIP, Contest
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, run_rounds
from wirelessdl.scenario.loader import load_scenario

_ROUNDS = 200  # so many that the exact totals at the end of each view do not count
_CONTESTS = 3
_PAIRWISE = ("privacy.noise=pairwise", "privacy.coalition=5", "privacy.pair_ratio=1")


def contests() -> Iterator[Contest]:
    """The same rounds with independent noise per node, with noise that pairs share, and with passes."""
    alone = _rounds()
    yield Contest("softmax K=20: pairwise noise against independent", _rounds(*_PAIRWISE), alone, at_most=1.25)
    listed = _rounds(*_PAIRWISE, "privacy.pairs=neighbours")
    yield Contest("softmax K=20: pairwise noise of neighbours, every pair drawn, against independent", listed, alone)
    passing = _rounds(*_PAIRWISE, "radio.mixing_passes=5")
    yield Contest("softmax K=20: pairwise noise and five mixing passes against independent, none", passing, alone)


def _rounds(*settings: str) -> Callable[[], None]:
    """Rounds of the main example, without traces: building it is not counted."""
    overrides = [f"scenario.rounds={_ROUNDS}", f"learning.eval_every={_ROUNDS}", *settings]
    scenario = load_scenario(FLAGSHIP, overrides=overrides)
    worlds = iter([build(scenario, device="cpu") for _ in range(8 * _CONTESTS)])  # a warm-up and seven turns in each

    def run() -> None:
        world = next(worlds)
        run_rounds(world, make_engine(world))

    return run
