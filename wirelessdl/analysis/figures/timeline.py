"""The timeline of a few rounds as a Gantt chart: what each node did when."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from wirelessdl.analysis.style import BLUE, COLUMN, ORANGE, save, styled
from wirelessdl.analysis.timeline import KINDS, timeline_of
from wirelessdl.errors import TraceError
from wirelessdl.trace.run import Run

# face, hatch, edge: distinct in grey too; pilots take microseconds, and their edge keeps them visible
_LOOKS = {
    "compute": ("#c9d6e2", "", "none"),
    "down": (ORANGE, "////", "white"),
    "pilot": ("#222222", "", "#222222"),
    "payload": (BLUE, "", "none"),
    "pass": ("#7fa8cc", "", "none"),
}


def draw_timeline(run: Run, first: int | None, rounds: int, path: Path | None) -> Any:
    """`rounds` rounds from `first` on, into a file."""
    with styled():
        return save(timeline_figure(run, first, rounds), path)


def timeline_figure(run: Run, first: int | None, rounds: int) -> Any:
    """The figure: a container of bars per kind, labelled by it, in ms after the first frame shown opened."""
    timeline = timeline_of(run)
    start = 1 if first is None else first
    rows = np.flatnonzero((timeline.round >= start) & (timeline.round < start + rounds))
    if not len(rows):
        raise TraceError(f"--round is {start}; {run.path} has rounds 1 to {timeline.round[-1]}: name one of them")
    bars, begin_s = timeline.bars.of(rows), timeline.opened_s[rows[0]]
    figure, axis = plt.subplots(figsize=(COLUMN, min(5.0, 1.0 + 0.11 * timeline.nodes)), layout="constrained")
    for number, kind in enumerate(KINDS):
        shown = bars[bars.kind == number]
        face, hatch, edge = _LOOKS[kind]
        if len(shown.row):
            axis.barh(
                shown.node,
                1e3 * shown.length_s,
                left=1e3 * (shown.start_s - begin_s),
                height=0.72,
                color=face,
                hatch=hatch,
                edgecolor=edge,
                linewidth=0.7 if kind == "pilot" else 0,
                label=kind,
            )
    for opened_s in timeline.opened_s[rows]:
        axis.axvline(1e3 * (opened_s - begin_s), color="#bbbbbb", linewidth=0.6, zorder=0)
    axis.set_ylim(timeline.nodes - 0.4, -0.6)
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_ylabel("node")
    axis.set_xlabel(f"ms after round {timeline.round[rows[0]]} opened")
    if axis.get_legend_handles_labels()[0]:
        figure.legend(loc="outside upper left", ncols=5, columnspacing=1.2, handlelength=1.4)
    return figure
