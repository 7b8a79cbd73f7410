"""Curves of one or several runs: accuracy, the promised total epsilon, and one against the other.

Runs of one scenario become their mean and a 95% band, mean +- t s / sqrt(n) with Student's t of n - 1
degrees of freedom: the uncertainty of the mean, not the spread of single runs. A single run shows its worst and
best node instead.
"""

from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator, PercentFormatter

from wirelessdl.analysis.privacy_curve import privacy_curve
from wirelessdl.analysis.runs import Group, common_rounds, mean_band
from wirelessdl.analysis.style import COLUMN, dashed
from wirelessdl.arrays import FloatArray
from wirelessdl.errors import TraceError
from wirelessdl.privacy.terms import adversary_in_short
from wirelessdl.trace.catalog import run_status

Against = Literal["round", "time", "energy"]
_AXES: dict[Against, tuple[str, str]] = {
    "round": ("round", "round"),
    "time": ("time_s", "simulated time in s"),
    "energy": ("energy_total_j", "energy used by all nodes in J"),
}
_SIZE = (COLUMN, 2.5)


def draw_accuracy(groups: list[Group], against: Against) -> Any:
    """Mean test accuracy of nodes."""
    column, label = _AXES[against]
    figure, axis = plt.subplots(figsize=_SIZE, layout="constrained")
    for number, group in enumerate(groups):
        frames = _common([run.evaluated for run in group.runs], group)
        band = None
        if len(groups) == len(frames) == 1:
            band = [frames[0][f"accuracy_{which}"].to_numpy() for which in ("min", "max")]
        _draw_band(axis, frames, (column, "accuracy_mean"), number, _label(group, len(groups)), band)
    _percent(axis)
    axis.set_xlabel(label)
    _legend(axis, groups, one_too=True)
    return figure


def draw_privacy(groups: list[Group], against: Against) -> Any:
    """Promised total epsilon of the worst sender, proven, over the run."""
    column, label = _AXES[against]
    figure, axis = plt.subplots(figsize=_SIZE, layout="constrained")
    every_exact = True
    _require_finite(groups)
    for number, group in enumerate(groups):
        if _is_infinite(group):  # named in the legend, without a curve
            axis.plot([], [], color=dashed(number)[0], linewidth=0.9, label=f"{group.name}: epsilon inf")
            continue
        frames, exact = _with_epsilon(group)
        every_exact &= exact
        _draw_band(axis, frames, (column, "epsilon"), number, _promised_label(group, groups))
    axis.set(xlabel=label, ylabel=_total_words(groups) + ("" if every_exact else ", running bound"))
    axis.set_ylim(bottom=0)
    _legend(axis, groups)
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


def _draw_level(axis: Any, group: Group, number: int) -> None:
    """Accuracy of runs without privacy noise: a line across, with its 95% interval at the right end."""
    colour, _, _ = dashed(number)
    ends = np.array([[run.evaluated["accuracy_mean"].iloc[-1]] for run in group.runs])
    (mean,), (half,) = mean_band(ends)
    axis.axhline(mean, color=colour, linestyle=(0, (5, 2)), linewidth=0.9, label=f"{group.name}: epsilon inf")
    if half:
        across = {"transform": axis.get_yaxis_transform(), "color": colour, "linewidth": 1.0}
        axis.plot([0.985, 0.985], [mean - half, mean + half], marker="_", markersize=3.5, **across)


def draw_tradeoff(groups: list[Group]) -> Any:
    """Accuracy against the promised total epsilon over the run; the last evaluation is marked, with its 95% bar."""
    figure, axis = plt.subplots(figsize=_SIZE, layout="constrained")
    every_exact = True
    _require_finite(groups)
    for number, group in enumerate(groups):
        if _is_infinite(group):
            _draw_level(axis, group, number)
            continue
        frames, exact = _with_epsilon(group)
        every_exact &= exact
        epsilon = np.mean([frame["epsilon"] for frame in frames], axis=0)
        accuracy, half = mean_band(np.array([frame["accuracy_mean"] for frame in frames]))
        colour, dash, marker = dashed(number)
        axis.plot(epsilon, accuracy, color=colour, linestyle=dash, linewidth=1.0)
        axis.errorbar(
            epsilon[-1],
            accuracy[-1],
            yerr=half[-1] or None,
            color=colour,
            marker=marker,
            linestyle=dash,
            markersize=5,
            linewidth=1.0,
            capsize=2,
            label=_promised_label(group, groups),
        )
    _percent(axis)
    axis.set_xlabel(f"{_total_words(groups)} (replace-one, worst node{'' if every_exact else ', running bound'})")
    axis.set_xlim(left=0)
    _legend(axis, groups)
    return figure


def _adversary(group: Group) -> str:
    """Against whom the totals of a group are promised, in short; keys of its runs are alike."""
    return adversary_in_short(run_status(group.runs[0].path).coalition)


def _total_words(groups: list[Group]) -> str:
    """What the axis of epsilon shows; the legend names adversaries where they differ."""
    every = {_adversary(group) for group in groups}
    return f"total epsilon against {every.pop()}" if len(every) == 1 else "total epsilon as promised"


def _promised_label(group: Group, groups: list[Group]) -> str:
    differ = len({_adversary(one) for one in groups}) > 1
    return _label(group, len(groups)) + (f", against {_adversary(group)}" if differ else "")


def _draw_band(
    axis: Any,
    frames: list[pd.DataFrame],
    columns: tuple[str, str],
    number: int,
    label: str,
    band: list[FloatArray] | None = None,
) -> None:
    """The mean of a column over runs along another, and the band given or that of the mean."""
    x = np.mean([frame[columns[0]] for frame in frames], axis=0)
    mean, half = mean_band(np.array([frame[columns[1]] for frame in frames]))
    low, high = band or (mean - half, mean + half)
    colour, dash, marker = dashed(number)
    style = {"marker": marker, "markevery": max(1, len(x) // 8), "markersize": 3.2}
    axis.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    axis.plot(x, mean, color=colour, linestyle=dash, linewidth=1.2, label=label, **style)


def _label(group: Group, groups: int) -> str:
    count = len(group.runs)
    if groups == 1:
        return f"mean of {count} runs, 95% band" if count > 1 else "mean, worst and best node"
    return group.name if count == 1 else f"{group.name} ({count} runs, 95%)"


def _legend(axis: Any, groups: list[Group], *, one_too: bool = False) -> None:
    """Above the axes, where no curve can run through it; the figure grows by its height."""
    axis.margins(x=0.02)
    if one_too or len(groups) > 1 or len(groups[0].runs) > 1:
        width, height = axis.figure.get_size_inches()
        axis.figure.set_size_inches(width, height + 0.14 * len(groups))
        axis.figure.legend(loc="outside upper left", borderpad=0.1)


def _percent(axis: Any) -> None:
    axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.yaxis.set_major_locator(MaxNLocator(6))
    axis.set_ylabel("test accuracy")
