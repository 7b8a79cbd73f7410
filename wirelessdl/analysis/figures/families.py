"""A family of curves as a figure for a paper: bands, levels, panels, and a legend outside the data.

Series differ in colour and marker: seven colours that colour-blind readers tell apart (Okabe and Ito, without yellow),
then other markers; past seven, every curve is also named at its end. Styles differ in dash. Levels (results without a
place on the horizontal axis) are thin lines across, named at their right end.
"""

import math
import textwrap
from dataclasses import dataclass, replace
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, PercentFormatter

from wirelessdl.analysis.families.curves import Curve, Family
from wirelessdl.analysis.families.words import Labels, quoted, spelled
from wirelessdl.analysis.style import COLUMN, DASHES, GREY, TEXT, look
from wirelessdl.errors import TraceError

Size = Literal["single", "double"]
_COLOURS_ALONE = 7  # more series than this are also named at the ends of their curves
_MARKED = 14  # curves of more points have a marker here and there
_SMALL = 6.5  # points, of names beside lines
_SIDES = ((4, 0), (0, 6), (0, -6), (-4, 0), (4, 7), (4, -7), (0, 12), (0, -12), (4, 14), (4, -14))  # points
_ONE_PLACE = 1e-6  # relative distance up to which points are at one place of an axis
_OUTSIDE = 0.02  # of an axis' width, between the intervals of levels
_LEAST_GAP = 0.08  # of an axis' width, between two ticks with labels


@dataclass(frozen=True)
class Look:
    """How a family is drawn."""

    size: Size = "single"
    logx: bool = False
    labels: Labels = Labels()  # noqa: RUF009  frozen, and empty


_CHARACTERS = 15  # of a panel's title, per inch of its width


def draw_family(family: Family, chosen: Look) -> Any:
    """The figure; `style.styled()` must be around it and `style.save`."""
    curves = _on_axis(family, chosen)
    columns = _columns(len(family.facets), chosen.size)
    rows = -(-len(family.facets) // columns)
    width = COLUMN if chosen.size == "single" else TEXT
    height = 2.45 * rows if columns == 1 or rows == 1 else 1.85 * rows + 0.35
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, height), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    panels = axes.ravel().tolist()
    panels[0].set_ylim(*_range(curves, family))  # panels share it
    _widen(panels[0], curves, chosen)
    for axis, facet in zip(panels, family.facets):
        _draw_panel(axis, _of_facet(curves, facet), family, chosen)
        if family.roles.facet:
            words = textwrap.fill(chosen.labels.value(family.roles.facet, facet), round(_CHARACTERS * width / columns))
            axis.set_title(words, fontsize=8, fontweight="normal")
    for axis in panels[len(family.facets) :]:
        axis.remove()
    for place, axis in enumerate(panels[: len(family.facets)]):
        if place % columns == 0:
            axis.set_ylabel(chosen.labels.axis(family.roles.y, family))
        last = place + columns >= len(family.facets)
        axis.tick_params(labelbottom=last)
        if last and rows * columns == 1:
            axis.set_xlabel(chosen.labels.axis(family.roles.x, family))
    if rows * columns > 1:
        figure.supxlabel(chosen.labels.axis(family.roles.x, family), fontsize=8)
    _legend(figure, curves, family, chosen)
    _name_ends(figure, panels[: len(family.facets)], curves, family, chosen)
    _name_points(figure, panels[: len(family.facets)], curves, family)
    return figure


def _columns(panels: int, size: Size) -> int:
    most = 2 if size == "single" else 4
    if panels <= most:
        return panels
    return 2 if size == "single" else 3 if panels in (5, 6, 9) else 4


def _on_axis(family: Family, chosen: Look) -> list[Curve]:
    """Curves as the axes can show them: no point at infinity, nor at 0 of a logarithmic one where others are left."""
    shown = []
    for curve in family.curves:
        above = curve.x > 0 if chosen.logx and curve.kind == "curve" else np.ones(len(curve.x), dtype=bool)
        if not above.any():
            raise TraceError(f"--logx: {family.roles.x} is 0 or below along a curve; a logarithmic axis cannot show it")
        kept = above & np.isfinite(curve.y)
        if not kept.all():
            curve = replace(curve, **{name: getattr(curve, name)[kept] for name in ("x", "y", "low", "high")})
        shown += [curve] if len(curve.x) else []
    if not any(curve.kind == "curve" for curve in shown):
        raise TraceError(f"{family.roles.y} is infinite in every run that has a place; name another with --y")
    return shown


def _range(curves: list[Curve], family: Family) -> tuple[float, float]:
    """Vertical range of all curves with their bands. An interval may reach beyond what an accuracy can be."""
    values = np.concatenate([part for curve in curves for part in (curve.y, curve.low, curve.high)])
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.05 * (most - least) or 0.05 * abs(most) or 1.0
    low, high = least - margin, most + margin
    means = np.concatenate([curve.y for curve in curves])
    if family.roles.y.startswith("accuracy") and means.min() >= 0:
        low, high = max(low, 0.0), min(high, 1.02)
    return low, high


def _widen(axis: Any, curves: list[Curve], chosen: Look) -> None:
    """A horizontal range where all points lie at one place but for rounding: an axis cannot be so short."""
    places = np.concatenate([curve.x for curve in curves if curve.kind == "curve"])
    low, high = float(places.min()), float(places.max())
    if high - low > _ONE_PLACE * max(abs(low), abs(high)):
        return
    if chosen.logx:
        axis.set_xscale("log")
        axis.set_xlim(low / 2, high * 2)
    else:
        half = 0.05 * max(abs(low), abs(high)) or 0.5
        axis.set_xlim(low - half, high + half)


def _draw_panel(axis: Any, curves: list[Curve], family: Family, chosen: Look) -> None:
    if chosen.logx:
        axis.set_xscale("log")
    for curve in curves:
        if curve.kind == "curve":
            _draw_curve(axis, curve, family)
    axis.margins(x=0.03)
    if not chosen.logx and family.roles.x != "round":
        left, right = axis.get_xlim()
        span = right - left
        if left > 0 and left < 0.35 * span:  # zero is near: show it
            axis.set_xlim(left=0)
    levels = [curve for curve in curves if curve.kind == "level"]
    for curve in levels:
        _draw_level(axis, curve, family, _step(curves) * (1 + _lane(curve, levels)))
    if family.roles.y.startswith("accuracy"):
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    if chosen.logx:
        _plain_log_ticks(axis, family.swept)
    elif family.roles.x in ("round", "network.nodes"):
        axis.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    else:
        axis.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))


def _plain_log_ticks(axis: Any, swept: tuple[float, ...]) -> None:
    """The values that were swept, else 1, 2, 5, 10, as plain numbers where few decades are shown."""
    low, high = axis.get_xlim()
    if len(swept) > 1 and np.diff(np.log(swept)).min() > _LEAST_GAP * math.log(high / low):
        axis.xaxis.set_major_locator(FixedLocator(swept))
    else:
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,)))
    if high / low < 1e4:
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())


def _look(curve: Curve, family: Family) -> tuple[str, Any, str]:
    """Colour, dash and marker of a curve; grey where it belongs to no series."""
    colour, marker = GREY, ""
    if family.roles.series is None:  # colours tell the scenario and its baselines apart; levels are named at their ends
        if curve.baseline is None:
            colour, marker = look(0)
        elif curve.kind == "curve":
            colour, marker = look(1 + family.baselines.index(curve.baseline))
    elif curve.series in family.series:  # a baseline may have a name that is no series of the study's own cells
        colour, marker = look(family.series.index(curve.series))
    dash = DASHES[family.styles.index(curve.style) % len(DASHES)] if curve.style in family.styles else "-"
    return colour, dash, marker


def _draw_curve(axis: Any, curve: Curve, family: Family) -> None:
    colour, dash, marker = _look(curve, family)
    if curve.baseline is not None:
        dash = (0, (1, 1.2))
    few = len(curve.x) <= _MARKED
    if not curve.joined or (len(curve.x) == 1):
        error = np.nan_to_num(np.stack([curve.y - curve.low, curve.high - curve.y]))
        axis.errorbar(
            curve.x, curve.y, error, color=colour, fmt=marker or "o", markersize=3.6, linewidth=0.9, capsize=1.6
        )
        return
    known = np.isfinite(curve.low) & np.isfinite(curve.high)
    axis.fill_between(curve.x, curve.low, curve.high, where=known, color=colour, alpha=0.16, linewidth=0)
    axis.plot(
        curve.x,
        curve.y,
        color=colour,
        linestyle=dash,
        marker=marker,
        markersize=3.6 if few else 3.0,
        markevery=1 if few else max(1, len(curve.x) // 8),
        markeredgewidth=0.5,
        linewidth=1.2,
    )


def _draw_level(axis: Any, curve: Curve, family: Family, place: float) -> None:
    """A line across, and its 95% interval as a bar outside the axis, where no curve can cover it."""
    colour, _, _ = _look(curve, family)
    dash = (0, (5, 2)) if curve.baseline is None else (0, (1, 1.2))
    (y,), (low,), (high,) = curve.y, curve.low, curve.high
    axis.axhline(y, color=colour, linestyle=dash, linewidth=0.9, zorder=1.5)
    if np.isfinite(low):
        floor, top = axis.get_ylim()
        across = axis.get_yaxis_transform()  # x in shares of the axis, y in data
        bar = {"transform": across, "color": colour, "clip_on": False, "zorder": 1.6}
        axis.plot([1 + place] * 2, [max(low, floor), min(high, top)], marker="_", markersize=3.0, linewidth=0.9, **bar)


def _legend(figure: Any, curves: list[Curve], family: Family, chosen: Look) -> None:
    """Above the panels, where no curve can run through it; the figure grows by its height."""
    entries: list[tuple[Any, str]] = []
    if family.roles.series:
        for number, value in enumerate(family.series):
            colour, marker = look(number)
            handle = Line2D([], [], color=colour, marker=marker, markersize=3.6, linewidth=1.2)
            entries.append((handle, chosen.labels.series(value, family)))
    if family.roles.style:
        dashed_ones = {curve.style for curve in curves if curve.kind == "curve"}  # levels have a dash of their own
        for number, value in enumerate(family.styles):
            if value not in dashed_ones:
                continue
            handle = Line2D([], [], color=GREY, linestyle=DASHES[number % len(DASHES)], linewidth=1.2)
            entries.append((handle, chosen.labels.value(family.roles.style, value)))
    baselines = dict.fromkeys(curve.baseline for curve in curves if curve.baseline is not None)
    own_levels = [curve for curve in curves if curve.kind == "level" and curve.baseline is None]
    if not family.roles.series and (baselines or own_levels):
        colour, marker = look(0)
        handle = Line2D([], [], color=colour, marker=marker, markersize=3.6, linewidth=1.2)
        entries.append((handle, chosen.labels.baseline(family.name)))
    if own_levels:
        entries.append((Line2D([], [], color=GREY, linestyle=(0, (5, 2)), linewidth=0.9), _level_words(family)))
    for name in baselines:
        colour, marker = GREY, ""
        if not family.roles.series and name in family.baselines:
            colour, marker = look(1 + family.baselines.index(name))
        handle = Line2D([], [], color=colour, marker=marker, markersize=3.6, linestyle=(0, (1, 1.2)), linewidth=1.0)
        entries.append((handle, chosen.labels.baseline(name)))
    runs = sorted({count for curve in curves for count in curve.n})
    if not entries or runs == [1]:
        if not entries:
            return
    else:
        count = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        patch = Rectangle((0, 0), 1, 1, facecolor=GREY, alpha=0.3, linewidth=0)
        entries.append((patch, f"95%, {count} runs"))
    width, height = figure.get_size_inches()
    longest = max(len(text) for _, text in entries)
    columns = max(1, min(len(entries), int((width - 0.2) / (0.42 + 0.054 * longest))))
    lines = -(-len(entries) // columns)
    figure.set_size_inches(width, height + 0.05 + 0.145 * lines)
    handles, texts = zip(*_by_row(entries, columns))
    figure.legend(
        handles,
        texts,
        loc="outside upper left",
        ncols=columns,
        borderpad=0.1,
        columnspacing=1.2,
        handlelength=1.9,
        fontsize=7.5,
        labelspacing=0.3,
    )


def _by_row(entries: list[Any], columns: int) -> list[Any]:
    """Entries such that matplotlib, which fills columns first, shows them row by row."""
    return [entry for start in range(columns) for entry in entries[start::columns]]


def _level_words(family: Family) -> str:
    return "epsilon inf" if family.roles.x.startswith("epsilon") else quoted(f"{family.roles.x} inf")


def _name_ends(figure: Any, panels: list[Any], curves: list[Curve], family: Family, chosen: Look) -> None:
    """Names beside the right ends of levels, which do not overlap."""
    named = [(axis, _names(_of_facet(curves, facet), family, chosen)) for axis, facet in zip(panels, family.facets)]
    most = max(len(names) for _, names in named)
    if not most:
        return
    figure.draw_without_rendering()  # lays the panels out
    line = _SMALL * 1.25 / 72 * figure.dpi
    lacking = most * line - panels[0].get_window_extent().height
    if lacking > 0:
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + lacking / figure.dpi * len({axis.get_position().y0 for axis in panels}))
        figure.draw_without_rendering()
    for (axis, names), facet in zip(named, family.facets):
        bottom, top = axis.get_ylim()
        gap = (top - bottom) * line / axis.get_window_extent().height
        here = _of_facet(curves, facet)
        edge = 1.0 + _OUTSIDE + _step(here) * _lanes(here)
        for (y, words, colour), place in zip(names, _spread([y for y, _, _ in names], gap, top)):
            moved = abs(place - y) > 0.3 * gap
            arrow = {"arrowstyle": "-", "color": colour, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 0}
            axis.annotate(
                words,
                xy=(edge - 0.5 * _OUTSIDE, y),
                xytext=(edge + (0.02 if moved else 0.0), place),
                xycoords=("axes fraction", "data"),
                textcoords=("axes fraction", "data"),
                fontsize=_SMALL,
                color=colour,
                va="center",
                ha="left",
                annotation_clip=False,
                arrowprops=arrow if moved else None,
            )


def _lane(curve: Curve, levels: list[Curve]) -> int:
    """Where the interval of a level stands: those of the study's own cells side by side, those of a baseline too."""
    return [one for one in levels if one.baseline == curve.baseline].index(curve)


def _lanes(curves: list[Curve]) -> int:
    levels = [curve for curve in curves if curve.kind == "level"]
    return max((1 + _lane(curve, levels) for curve in levels), default=0)


def _step(curves: list[Curve]) -> float:
    """Distance between the intervals of levels."""
    return _OUTSIDE * min(1.0, _COLOURS_ALONE / max(1, _lanes(curves)))


def _names(curves: list[Curve], family: Family, chosen: Look) -> list[tuple[float, str, str]]:
    """Height, name and colour of what is named at the right of a panel, in order of height."""
    many = len(family.series) > _COLOURS_ALONE
    names = []
    for curve in curves:
        colour, _, _ = _look(curve, family)
        if curve.baseline is not None and curve.kind == "level":
            names.append((float(curve.y[0]), chosen.labels.baseline(curve.baseline), colour))
        elif curve.kind == "level" and not many:
            names.append((float(curve.y[0]), "inf", colour))
    return sorted(names)


def _name_points(figure: Any, panels: list[Any], curves: list[Curve], family: Family) -> None:
    """Past seven series, the value of every curve beside its last point, on a side where no other name stands."""
    if len(family.series) <= _COLOURS_ALONE:
        return
    figure.draw_without_rendering()
    for axis, facet in zip(panels, family.facets):
        taken: list[Any] = []
        for curve in _of_facet(curves, facet):
            if curve.kind == "level" or curve.baseline is not None:
                continue
            colour, _, _ = _look(curve, family)
            for across, up in _SIDES:
                name = axis.annotate(
                    quoted(spelled(curve.series)),
                    xy=(curve.x[-1], curve.y[-1]),
                    xytext=(across, up),
                    textcoords="offset points",
                    fontsize=_SMALL,
                    color=colour,
                    va="center",
                    ha="center" if not across else "left" if across > 0 else "right",
                    annotation_clip=False,
                )
                box = name.get_window_extent()
                if not any(box.overlaps(other) for other in taken) or (across, up) == _SIDES[-1]:
                    taken.append(box)
                    break
                name.remove()


def _of_facet(curves: list[Curve], facet: Any) -> list[Curve]:
    """Curves of a panel; those without a facet are in every one."""
    return [curve for curve in curves if curve.facet is None or curve.facet == facet]


def _spread(wanted: list[float], gap: float, top: float = np.inf) -> list[float]:
    """Places at least a gap apart, near those wanted, which are in order: clusters are spread about their mean.

    No place is above `top`, as far as that leaves room.
    """
    clusters: list[list[float]] = []
    for value in wanted:
        clusters.append([value])
        while len(clusters) > 1:
            first, second = clusters[-2], clusters[-1]
            if _centre(second) - _centre(first) >= gap * (len(first) + len(second)) / 2:
                break
            clusters[-2:] = [first + second]
    places = [
        _centre(cluster) + gap * (number - (len(cluster) - 1) / 2)
        for cluster in clusters
        for number in range(len(cluster))
    ]
    for number in range(len(places) - 1, -1, -1):
        places[number] = min(places[number], top)
        top = places[number] - gap
    return places


def _centre(values: list[float]) -> float:
    return sum(values) / len(values)
