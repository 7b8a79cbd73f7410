"""Figures with one mark per node: the power split, and samples per class.

The partition is drawn up to a screenful as a disc per node and class whose area is the number of samples: legible in
grey, and a missing class is a gap. Beyond that it is drawn in shades.
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from wirelessdl.analysis.releases import data_split
from wirelessdl.analysis.runs import Group, mean_band, node_means
from wirelessdl.analysis.style import BLUE, COLUMN, HEAT, ORANGE, TEXT, save, styled
from wirelessdl.arrays import IntArray
from wirelessdl.errors import TraceError
from wirelessdl.trace.run import Run

_MOST_NODES, _MOST_CLASSES = 40, 20  # discs: more would touch or vanish


def draw_power(groups: list[Group], path: Path | None) -> Any:
    """Shares of power for model and noise, and radiated power: means over rounds with a transmission, and over runs."""
    if len(groups) > 1:
        raise TraceError(
            "--figure is power; it shows one scenario, and runs of several are named: name runs of one scenario"
        )
    (group,) = groups
    runs = np.array([node_means(run, ("alpha", "beta", "power_w")) for run in group.runs])  # [runs, columns, K]
    alpha, half = mean_band(runs[:, 0])
    beta, power_w = runs[:, 1].mean(axis=0), runs[:, 2].mean(axis=0)
    node = np.arange(len(alpha))
    with styled():
        figure, (split, power) = plt.subplots(
            2, 1, figsize=(COLUMN, 3.0), sharex=True, layout="constrained", gridspec_kw={"height_ratios": [1.4, 1]}
        )
        bars = half if len(group.runs) > 1 else None
        split.bar(node, alpha, color=BLUE, label="model, alpha", yerr=bars, error_kw={"linewidth": 0.8})
        split.bar(
            node, beta, bottom=alpha, color=ORANGE, hatch="////", edgecolor="white", linewidth=0, label="noise, beta"
        )
        split.set_ylim(0, 1.3)
        split.set_yticks([0, 0.5, 1])
        split.set_ylabel("share of power")
        split.legend(loc="upper left", ncols=2)
        power.bar(node, 1e3 * power_w, color=BLUE)
        power.set_ylabel("radiated in mW")
        power.set_xlabel("node")
        power.set_xlim(-0.7, len(node) - 0.3)
        power.xaxis.set_major_locator(MaxNLocator(integer=True))
        power.yaxis.set_major_locator(MaxNLocator(4))
        return save(figure, path)


def draw_partition_of_run(run: Run, path: Path | None) -> Any:
    """Samples of each class at each node, as the clients table holds them."""
    return draw_partition(data_split(run).counts, "", path, width=COLUMN)


def draw_partition(counts: IntArray, name: str, path: Path | None, width: float = TEXT) -> Any:
    """Samples of each class at each node, `counts[nodes, classes]`; width in inches."""
    nodes, classes = counts.shape
    with styled():
        figure, (sizes, table) = plt.subplots(
            2,
            1,
            figsize=(width, 1.6 + min(0.22 * classes, 4.4)),
            sharex=True,
            layout="constrained",
            gridspec_kw={"height_ratios": [1.0, max(1.2, min(0.22 * classes, 4.4))]},
        )
        if name:
            figure.suptitle(name, fontsize=9, x=0.01, ha="left")
        sizes.bar(np.arange(nodes), counts.sum(axis=1), color=BLUE)
        sizes.set_ylabel("samples")
        sizes.set_title("Samples of each node")
        if nodes <= _MOST_NODES and classes <= _MOST_CLASSES:
            _discs(table, counts, width)
        else:
            _shades(figure, table, counts)
        table.set_xlabel("node")
        table.set_ylabel("class")
        table.set_xlim(-0.6, nodes - 0.4)
        table.set_ylim(-0.6, classes - 0.4)
        table.xaxis.set_major_locator(MaxNLocator(integer=True))
        table.yaxis.set_major_locator(MaxNLocator(nbins=10, integer=True, min_n_ticks=1))
        return save(figure, path)


def _discs(axis: Any, counts: IntArray, width: float) -> None:
    node, label = np.nonzero(counts)
    share = counts[node, label] / counts.max()
    across = min((width - 0.86) * 72 / len(counts), 0.22 * 72) * 0.92  # points: the widest disc that touches no other
    axis.scatter(node, label, s=share * across**2, color=BLUE, linewidths=0)
    axis.set_title(f"Samples of each class (largest disc: {counts.max():,})")


def _shades(figure: Any, axis: Any, counts: IntArray) -> None:
    image = axis.imshow(counts.T, cmap=HEAT, aspect="auto", origin="lower", interpolation="nearest", vmin=0)
    figure.colorbar(image, ax=axis, label="samples")
    axis.set_title("Samples of each class")
