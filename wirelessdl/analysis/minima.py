"""Distances to two minima over rounds, as a figure."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from wirelessdl.analysis.families.words import quoted
from wirelessdl.analysis.style import COLUMN, look, save, styled

_LINES = (("to_optimum", "-", "to the minimum of sum f"), ("to_weighted", "--", "to that of sum pi f"))


def draw_minima(table: pd.DataFrame, path: Path) -> None:
    """By name of cell: the distance to each minimum over rounds; both axes logarithmic."""
    with styled():
        figure, axis = plt.subplots(figsize=(COLUMN, 2.6), layout="constrained")
        for number, (name, part) in enumerate(table.groupby("name", sort=False)):
            colour, marker = look(number)
            for column, dash, words in _LINES:
                label = f"{quoted(str(name))}, {words}"
                axis.plot(part["rounds"], part[column], color=colour, linestyle=dash, marker=marker, label=label)
        axis.set(xscale="log", yscale="log", xlabel="round", ylabel="distance of the models")
        axis.legend(fontsize=6.5)
        save(figure, path)
