"""The slots of a few rounds as a Gantt chart: what each node did when."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from wirelessdl.analysis.style import BLUE, COLUMN, ORANGE, save, styled
from wirelessdl.analysis.timeline import Slots, slots_of
from wirelessdl.errors import TraceError
from wirelessdl.trace.run import Run

# fill, hatch: told apart in grey too
_LOOKS = {
    "compute": ("#c9d6e2", ""),
    "pilot": ("#222222", ""),
    "payload": (BLUE, ""),
    "down": (ORANGE, "////"),
}


def draw_timeline(run: Run, first: int | None, rounds: int, path: Path) -> None:
    """`rounds` rounds from `first` on."""
    slots = slots_of(run)
    start = 1 if first is None else first
    shown = np.flatnonzero((slots.round >= start) & (slots.round < start + rounds) & np.isfinite(slots.opened_s))
    if not len(shown):
        raise TraceError(f"--round is {start}; {run.path} has rounds 1 to {slots.round[-1]}: name one of them")
    nodes = slots.sent.shape[1]
    begin_s = slots.opened_s[shown[0]]
    with styled():
        height = min(5.0, 1.0 + 0.11 * nodes)
        figure, axis = plt.subplots(figsize=(COLUMN, height), layout="constrained")
        for kind, node, start_s, length_s in bars(slots, shown):
            colour, hatch = _LOOKS[kind]
            axis.barh(
                node,
                1e3 * length_s,
                left=1e3 * (start_s - begin_s),
                height=0.72,
                color=colour,
                hatch=hatch,
                edgecolor=_edge(kind),
                linewidth=0.7 if kind == "pilot" else 0,
            )
        for row in shown:
            axis.axvline(1e3 * (slots.opened_s[row] - begin_s), color="#bbbbbb", linewidth=0.6, zorder=0)
        axis.set_ylim(nodes - 0.4, -0.6)
        axis.yaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_ylabel("node")
        axis.set_xlabel(f"ms after round {slots.round[shown[0]]} opened")
        used = {kind for kind, *_ in bars(slots, shown)}
        handles: list[Any] = [
            Patch(facecolor=colour, hatch=hatch, edgecolor=_edge(kind), linewidth=0, label=kind)
            for kind, (colour, hatch) in _LOOKS.items()
            if kind in used
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=4, columnspacing=1.2, handlelength=1.4)
        save(figure, path)


def _edge(kind: str) -> str:
    """Pilots take microseconds: their edge keeps them visible."""
    return {"down": "white", "pilot": _LOOKS["pilot"][0]}.get(kind, "none")


def bars(slots: Slots, rows: Any) -> list[tuple[str, int, float, float]]:
    """Kind, node, start and length in s of everything that happened in these rounds."""
    found = []
    for row in rows:
        opened, closed = slots.opened_s[row], slots.closed_s[row]
        follows = slots.opened_s[row + 1] if row + 1 < len(slots.opened_s) else closed + slots.guard_s
        for node in range(slots.sent.shape[1]):
            if not slots.up[row, node]:
                found.append(("down", node, float(opened), float(np.nanmax([follows, closed]) - opened)))
                continue
            if slots.sent[row, node]:
                found.append(("pilot", node, float(opened), slots.pilot_s))
                begin = opened + slots.pilot_s + slots.guard_s
                found.append(("payload", node, float(begin), float(closed - begin)))
            ready = slots.computed_s[row, node]
            if np.isfinite(ready):
                begin = slots.compute_from_s[row]
                found.append(("compute", node, float(begin), float(ready - begin)))
    # computing may run beside the slot: it lies below
    return sorted(found, key=lambda bar: bar[0] != "compute")
