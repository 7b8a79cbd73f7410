"""Figures for papers: one IEEE column wide, embedded fonts, legible in grey.

Curves take any number of runs: those of one scenario become a mean with a 95% band. Other figures show one run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from wirelessdl.analysis.figures.air import draw_channel_of_run, draw_map
from wirelessdl.analysis.figures.curves import draw_accuracy, draw_privacy, draw_tradeoff
from wirelessdl.analysis.figures.nodes import draw_partition_of_run, draw_power
from wirelessdl.analysis.figures.timeline import draw_timeline
from wirelessdl.analysis.runs import Group, grouped
from wirelessdl.errors import TraceError
from wirelessdl.trace.run import Run


@dataclass(frozen=True)
class Choice:
    """Options of a figure; None leaves the choice to the figure."""

    against: Literal["round", "time", "energy"] = "round"
    round: int | None = None
    rounds: int = 4
    links: Sequence[tuple[int, int]] = field(default=())


CURVES: dict[str, Callable[[list[Group], Choice, Path | None], Any]] = {
    "accuracy": lambda groups, choice, path: draw_accuracy(groups, choice.against, path),
    "privacy": lambda groups, choice, path: draw_privacy(groups, choice.against, path),
    "tradeoff": lambda groups, choice, path: draw_tradeoff(groups, path),  # noqa: ARG005
    "power": lambda groups, choice, path: draw_power(groups, path),  # noqa: ARG005
}
SINGLE: dict[str, Callable[[Run, Choice, Path | None], Any]] = {
    "map": lambda run, choice, path: draw_map(run, choice.round, path),
    "timeline": lambda run, choice, path: draw_timeline(run, choice.round, choice.rounds, path),
    "channel": lambda run, choice, path: draw_channel_of_run(run, choice.links, path),
    "partition": lambda run, choice, path: draw_partition_of_run(run, path),  # noqa: ARG005
}


def draw(name: str, runs: Sequence[Run], choice: Choice, path: Path | None) -> Any:
    """One figure, into a file whose suffix says the format; without one it is returned open."""
    if name in CURVES:
        return CURVES[name](grouped(runs), choice, path)
    if len(runs) > 1:
        raise TraceError(f"--figure is {name}; it shows one run, and {len(runs)} are named: name one of them")
    return SINGLE[name](runs[0], choice, path)
