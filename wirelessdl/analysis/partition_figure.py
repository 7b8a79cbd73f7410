"""Who holds what: the class histogram of every node as a figure.

Up to a screenful, a disc per node and class whose area is the number of samples: legible in grey, and a
missing class is a gap. Beyond it, shades. Above, how much each node has in all.
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from wirelessdl.analysis.style import BLUE, HEAT, TEXT, save, styled
from wirelessdl.arrays import IntArray

_MOST_NODES, _MOST_CLASSES = 40, 20  # discs: more would touch or vanish


def draw_partition(counts: IntArray, name: str, path: Path, width: float = TEXT) -> None:
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
        save(figure, path)


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
