"""Figures for papers: one IEEE column wide, embedded fonts, legible in grey.

Curves take any number of runs: those of one scenario become a mean with a 95% band. Other figures show one run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wirelessdl.analysis.figures.curves import draw_accuracy, draw_privacy, draw_tradeoff
from wirelessdl.analysis.figures.run import draw_channel, draw_map, draw_partition, draw_power, draw_timeline
from wirelessdl.analysis.releases import data_split
from wirelessdl.analysis.runs import Group, grouped
from wirelessdl.analysis.style import save, styled
from wirelessdl.errors import TraceError
from wirelessdl.trace.run import Run


@dataclass(frozen=True)
class Choice:
    """Options of a figure; None leaves the choice to the figure."""

    against: Literal["round", "time", "energy"] = "round"
    round: int | None = None
    rounds: int = 4
    links: Sequence[tuple[int, int]] = ()


CURVES: dict[str, Callable[[list[Group], Choice], Any]] = {
    "accuracy": lambda groups, choice: draw_accuracy(groups, choice.against),
    "privacy": lambda groups, choice: draw_privacy(groups, choice.against),
    "tradeoff": lambda groups, _: draw_tradeoff(groups),
    "power": lambda groups, _: draw_power(groups),
}
SINGLE: dict[str, Callable[[Run, Choice], Any]] = {
    "map": lambda run, choice: draw_map(run, choice.round),
    "timeline": lambda run, choice: draw_timeline(run, choice.round, choice.rounds),
    "channel": lambda run, choice: draw_channel(run, choice.links),
    "partition": lambda run, _: draw_partition(data_split(run).counts),
}


def draw(name: str, runs: Sequence[Run], choice: Choice, path: Path | None) -> Any:
    """One figure, into a file whose suffix says the format; without one it is returned open."""
    with styled():
        if name in CURVES:
            return save(CURVES[name](grouped(runs), choice), path)
        if len(runs) > 1:
            raise TraceError(f"--figure is {name}; it shows one run, and {len(runs)} are named: name one of them")
        return save(SINGLE[name](runs[0], choice), path)
