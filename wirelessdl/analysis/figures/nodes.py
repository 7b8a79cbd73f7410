"""One bar or disc per node: the power split, and who holds which data."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from wirelessdl.analysis.clients import holdings
from wirelessdl.analysis.figures.curves import mean_band
from wirelessdl.analysis.partition_figure import draw_partition
from wirelessdl.analysis.runs import Group
from wirelessdl.analysis.style import BLUE, COLUMN, ORANGE, save, styled
from wirelessdl.arrays import FloatArray
from wirelessdl.errors import TraceError
from wirelessdl.trace.run import Run


def draw_power(groups: list[Group], path: Path) -> None:
    """Shares of power for model and noise, and what was radiated: means over the rounds on air, and over runs."""
    if len(groups) > 1:
        raise TraceError("--figure is power; it shows one scenario, and runs of several are named: name one's runs")
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
        save(figure, path)


def node_means(run: Run, columns: tuple[str, ...]) -> FloatArray:
    """Mean of columns over the rounds in which each node was on air, `[columns, K]`; 0 for one that never was."""
    nodes = run.frame("nodes", ["node", "transmitted", *columns])
    count = run.scenario["network"]["nodes"]
    sent = nodes[nodes["transmitted"]].groupby("node")[list(columns)].mean()
    return sent.reindex(range(count), fill_value=0.0).to_numpy().T


def draw_partition_of_run(run: Run, path: Path) -> None:
    """Samples of each class at each node."""
    draw_partition(holdings(run).counts, "", path, width=COLUMN)
