"""Curves of one or several runs: accuracy, the promised total epsilon, and one against the other.

Runs of one scenario become their mean and a 95% band, mean +- t s / sqrt(n) with Student's t of n - 1
degrees of freedom: the uncertainty of the mean, not the spread of single runs. A single run shows its worst and
best node instead.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator, PercentFormatter

from wirelessdl.analysis.privacy_curve import privacy_curve
from wirelessdl.analysis.runs import Group, common_rounds, mean_band
from wirelessdl.analysis.style import COLUMN, dashed
from wirelessdl.errors import TraceError
from wirelessdl.privacy.terms import adversary_in_short
from wirelessdl.trace.catalog import run_status

AXES = {"round": "round", "time_s": "simulated time in s", "energy_total_j": "energy used by all nodes in J"}
_SIZE = (COLUMN, 2.5)


def draw_curves(groups: list[Group], x: str, y: str) -> Any:
    """A column of the evaluated rounds over another, a curve per scenario.

    Accuracy is the mean over nodes, epsilon the promised total of the worst sender so far, proven. Over epsilon the
    last evaluation is marked, with its 95% bar; a scenario without privacy noise is a line across.
    """
    figure, axis = plt.subplots(figsize=_SIZE, layout="constrained")
    private, every_exact = "epsilon" in (x, y), True
    if private:
        _require_finite(groups)
    for number, group in enumerate(groups):
        if private and _is_infinite(group):
            _draw_infinite(axis, group, number, level=x == "epsilon")
            continue
        frames, exact = (
            _with_epsilon(group) if private else (_common([run.evaluated for run in group.runs], group), True)
        )
        every_exact &= exact
        label = _label(group, groups, private)
        if x == "epsilon":
            _draw_path(axis, frames, number, label)
        else:
            _draw_band(axis, frames, (x, y), number, label, nodes=y != "epsilon" and len(groups) == len(frames) == 1)
    bound = "" if every_exact else ", running bound"
    if x == "epsilon":
        axis.set_xlabel(f"{_total_words(groups)} (replace-one, worst node{bound})")
        axis.set_xlim(left=0)
    else:
        axis.set_xlabel(AXES[x])
    if y == "epsilon":
        axis.set_ylabel(_total_words(groups) + bound)
        axis.set_ylim(bottom=0)
    else:
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axis.yaxis.set_major_locator(MaxNLocator(6))
        axis.set_ylabel("test accuracy")
    axis.margins(x=0.02)
    if not private or len(groups) > 1 or len(groups[0].runs) > 1:
        # above the axes, where no curve can run through it; the figure grows by its height
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + 0.14 * len(groups))
        figure.legend(loc="outside upper left", borderpad=0.1)
    return figure


def _with_epsilon(group: Group) -> tuple[list[pd.DataFrame], bool]:
    """Rounds that all runs of a group evaluated, with the promised total so far; whether it is exact in all."""
    frames, exact = [], True
    for run in group.runs:
        found = privacy_curve(run, others=False)
        curve = pd.DataFrame({"round": found.round, "epsilon": found.epsilon})
        frames.append(run.evaluated.merge(curve[np.isfinite(curve["epsilon"])], on="round"))
        exact &= found.accountant != "running bound"
    return _common(frames, group), exact


def _common(frames: list[pd.DataFrame], group: Group) -> list[pd.DataFrame]:
    """The rounds that all runs of a group evaluated."""
    found = common_rounds(frames)
    if found[0].empty:
        paths = ", ".join(str(run.path) for run in group.runs)
        what = "has no evaluated round yet" if len(group.runs) == 1 else "have no evaluated round in common"
        raise TraceError(f"{paths}: {what}; wait for one, or run with a smaller eval_every")
    return found


def _is_infinite(group: Group) -> bool:
    """Whether a run of a group ends without a finite total: it ran without privacy noise."""
    return any(not np.isfinite(run.rounds["epsilon_promised_bound"].iloc[-1]) for run in group.runs)


def _require_finite(groups: list[Group]) -> None:
    if all(_is_infinite(group) for group in groups):
        raise TraceError(
            f"{groups[0].runs[0].path}: its epsilon is infinite, because it ran without privacy noise; name also a run "
            "whose privacy.epsilon_max is below inf, or draw --figure accuracy"
        )


def _draw_infinite(axis: Any, group: Group, number: int, *, level: bool) -> None:
    """Runs without privacy noise: a name in the legend; level: their accuracy across, its 95% interval at the right."""
    colour, _, _ = dashed(number)
    style = {"color": colour, "linewidth": 0.9, "label": f"{group.name}: epsilon inf"}
    if not level:
        axis.plot([], [], **style)
        return
    ends = np.array([[run.evaluated["accuracy_mean"].iloc[-1]] for run in group.runs])
    (mean,), (half,) = mean_band(ends)
    axis.axhline(mean, linestyle=(0, (5, 2)), **style)
    across = {"transform": axis.get_yaxis_transform(), "color": colour, "linewidth": 1.0}
    axis.plot([0.985, 0.985], [mean - half, mean + half], marker="_", markersize=3.5, **across)


def _draw_path(axis: Any, frames: list[pd.DataFrame], number: int, label: str) -> None:
    """Mean accuracy over mean epsilon, the end marked."""
    epsilon = np.mean([frame["epsilon"] for frame in frames], axis=0)
    accuracy, half = mean_band(np.array([frame["accuracy_mean"] for frame in frames]))
    colour, dash, marker = dashed(number)
    style = {"color": colour, "linestyle": dash, "linewidth": 1.0}
    axis.plot(epsilon, accuracy, **style)
    error = half[-1] if len(frames) > 1 else None
    axis.errorbar(epsilon[-1], accuracy[-1], error, marker=marker, markersize=5, capsize=2, label=label, **style)


def _adversary(group: Group) -> str:
    """Against whom the totals of a group are promised, in short; keys of its runs are alike."""
    status = run_status(group.runs[0].path)
    return adversary_in_short(status.coalition, declared=status.declared)


def _total_words(groups: list[Group]) -> str:
    """What the axis of epsilon shows; the legend names adversaries where they differ."""
    every = {_adversary(group) for group in groups}
    return f"total epsilon against {every.pop()}" if len(every) == 1 else "total epsilon as promised"


def _draw_band(
    axis: Any, frames: list[pd.DataFrame], columns: tuple[str, str], number: int, label: str, *, nodes: bool
) -> None:
    """The mean of a column over runs along another, with its 95% band; nodes: with the worst and best node instead."""
    x = np.mean([frame[columns[0]] for frame in frames], axis=0)
    mean, half = mean_band(np.array([frame[columns[1]] for frame in frames]))
    low, high = (frames[0]["accuracy_min"], frames[0]["accuracy_max"]) if nodes else (mean - half, mean + half)
    colour, dash, marker = dashed(number)
    style = {"marker": marker, "markevery": max(1, len(x) // 8), "markersize": 3.2}
    axis.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    axis.plot(x, mean, color=colour, linestyle=dash, linewidth=1.2, label=label, **style)


def _label(group: Group, groups: list[Group], private: bool) -> str:
    count = len(group.runs)
    if len(groups) == 1:
        return f"mean of {count} runs, 95% band" if count > 1 else "mean, worst and best node"
    name = group.name if count == 1 else f"{group.name} ({count} runs, 95%)"
    differ = private and len({_adversary(one) for one in groups}) > 1
    return name + (f", against {_adversary(group)}" if differ else "")
