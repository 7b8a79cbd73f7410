"""A figure of a study: a family of curves with bands, levels, panels, and a legend outside the data.

Beside it are written its data as CSV and the command that made it.

Series differ in colour and marker: seven colours that colour-blind readers tell apart (Okabe and Ito, without yellow),
then other markers; past seven, every curve is also named at its end. Styles differ in dash. Levels (results without a
place on the horizontal axis) are thin dashed lines across.
"""

import math
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter

from wirelessdl.analysis.families import Curve, Family, Request, as_frame, end_points, learning_curves
from wirelessdl.analysis.runs import format_value
from wirelessdl.analysis.study_tables import Labels, escape_math, labels_of
from wirelessdl.analysis.style import COLUMN, DASHES, FORMATS, GREY, TEXT, look, require_format, save, styled
from wirelessdl.errors import TraceError, quote
from wirelessdl.trace.files import open_regular, write_text
from wirelessdl.trace.study import Study

_MAX_LINE_BYTES = 4096  # of a script's first line that are looked at
_MAX_APART = 7  # more series than this are named at their ends; more levels have their intervals closer together
_MAX_MARKED_POINTS = 14  # curves of more points have a marker here and there
_CHARACTERS_PER_INCH = 16.5  # of titles and labels
_NAME_OFFSETS_PT = ((4, 0), (0, 6), (0, -6), (-4, 0), (4, 7), (4, -7), (0, 12), (0, -12), (4, 14), (4, -14))
_MIN_RELATIVE_RANGE = 1e-6  # relative distance up to which points are at one place of an axis
_INTERVAL_GAP = 0.02  # of an axis' width, between the intervals of levels
_MIN_TICK_GAP = 0.08  # of an axis' width, between two ticks with labels
_LEVEL_DASH = (0, (5, 2))
_BASELINE_DASHES: tuple[Any, ...] = ((0, (1, 1.2)), (0, (3, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 3)))


def draw_study(study: Study, request: Request, path: Path, command: str) -> Family:
    """The figure in `path`, its data in `.csv` and its command in `.sh` beside it; returns what was drawn.

    Files beside that no plot wrote are left as they are, and refused.
    """
    require_format(path)
    script, data = path.with_suffix(".sh"), path.with_suffix(".csv")
    for file in (script, data):
        if file.exists() and not _is_script(script, path.stem):
            raise TraceError(f"{quote(file)}: is there, and no plot wrote it; move it, or name another figure")
    figure, family = study_figure(study, request)
    with styled(request.template):
        save(figure, path)
    # the script first: it says that the data are a plot's, also where this process is killed in between
    origin = f"study {study.manifest['name']}, scenario sha256 {study.manifest.get('scenario_sha256', 'unknown')}"
    write_text(script, f"# {quote(path.name)}: {quote(origin, 400)}\n{command}\n")  # one line, whatever a study's name
    write_text(data, as_frame(family).to_csv(index=False))
    return family


def _is_script(path: Path, stem: str) -> bool:
    """Whether a file begins as `draw_study` writes it, for a figure of any format."""
    try:
        with open_regular(path) as handle:
            first = handle.readline(_MAX_LINE_BYTES).decode(errors="replace")
    except OSError:
        return False
    return any(first.startswith(f"# {quote(f'{stem}.{kind}')}: study ") for kind in FORMATS)


def study_figure(study: Study, request: Request) -> tuple[Any, Family]:
    """The figure, open, and what was drawn."""
    labels = labels_of(request.labels, study)
    family = end_points(study, request) if request.curves is None else learning_curves(study, request)
    with styled(request.template):
        return draw_family(family, request, labels), family


def draw_family(family: Family, request: Request, labels: Labels) -> Any:
    """The figure; `style.styled()` must be around it and `style.save`."""
    roles, count, size, logx = family.roles, len(family.facets), request.size, request.logx
    curves = _on_axis(family, logx)
    most = 2 if size == "single" else 4
    columns = count if count <= most else 3 if size == "double" and count in (5, 6, 9) else most
    rows = -(-count // columns)
    width = COLUMN if size == "single" else TEXT
    height = 2.45 * rows if columns == 1 or rows == 1 else 1.85 * rows + 0.35
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, height), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    every = axes.ravel().tolist()
    every[0].set_ylim(*_range(curves, family))  # panels share it
    _widen(every[0], curves, logx)
    for axis in every[count:]:
        axis.remove()
    for place, (axis, facet) in enumerate(zip(every, family.facets)):
        here = [curve for curve in curves if curve.facet is None or curve.facet == facet]
        _draw_panel(axis, here, family, logx)
        if roles.facet:
            axis.set_title(_wrapped(labels.value(roles.facet, facet), width / columns), fontsize=8, fontweight="normal")
        if place % columns == 0:
            axis.set_ylabel(_wrapped(labels.axis(roles.y, family), 0.8 * height / rows))
        axis.tick_params(labelbottom=place + columns >= count)
    if count > 1:
        figure.supxlabel(_wrapped(labels.axis(roles.x, family), width), fontsize=8)
    else:
        every[0].set_xlabel(_wrapped(labels.axis(roles.x, family), 0.85 * width))  # it is centred on the axis
    _legend(figure, curves, family, labels)
    if len(family.series) > _MAX_APART:
        figure.draw_without_rendering()
        for axis, facet in zip(every, family.facets):
            _name_series(axis, [curve for curve in curves if curve.facet is None or curve.facet == facet], family)
    return figure


def _wrapped(words: str, inches: float) -> str:
    return textwrap.fill(words, round(_CHARACTERS_PER_INCH * inches), break_on_hyphens=False)


def _on_axis(family: Family, logx: bool) -> list[Curve]:
    """Curves as the axes can show them: no point at infinity, nor at 0 of a logarithmic one where others are left."""
    drawn = []
    for curve in family.curves:
        above = curve["x"] > 0 if logx and curve.kind == "curve" else np.ones(len(curve.points), dtype=bool)
        if not above.any():
            raise TraceError(f"--logx: {family.roles.x} is 0 or below along a curve; a logarithmic axis cannot show it")
        kept = replace(curve, points=curve.points[above & np.isfinite(curve["y"])])
        drawn += [kept] if len(kept.points) else []
    if not any(curve.kind == "curve" for curve in drawn):
        raise TraceError(f"{family.roles.y} is infinite in every run that has a place; name another with --y")
    return drawn


def _range(curves: list[Curve], family: Family) -> tuple[float, float]:
    """Vertical range of all curves with their bands. An interval may reach beyond what an accuracy can be."""
    values = np.concatenate([curve[name] for curve in curves for name in ("y", "low", "high")])
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.05 * (most - least) or 0.05 * abs(most) or 1.0
    low, high = least - margin, most + margin
    if family.roles.y.startswith("accuracy") and min(curve["y"].min() for curve in curves) >= 0:
        low, high = max(low, 0.0), min(high, 1.02)
    return low, high


def _widen(axis: Any, curves: list[Curve], logx: bool) -> None:
    """A horizontal range where all points lie at one place but for rounding: an axis cannot be so short."""
    places = np.concatenate([curve["x"] for curve in curves if curve.kind == "curve"])
    low, high = float(places.min()), float(places.max())
    if high - low > _MIN_RELATIVE_RANGE * max(abs(low), abs(high)):
        return
    if logx:
        axis.set_xscale("log")
        axis.set_xlim(low / 2, high * 2)
    else:
        half = 0.05 * max(abs(low), abs(high)) or 0.5
        axis.set_xlim(low - half, high + half)


def _draw_panel(axis: Any, curves: list[Curve], family: Family, logx: bool) -> None:
    roles, levels = family.roles, [curve for curve in curves if curve.kind == "level"]
    if logx:
        axis.set_xscale("log")
    for curve in curves:
        if curve.kind == "curve":
            _draw_curve(axis, curve, family)
    axis.margins(x=0.03)
    if not logx and roles.x != "round":
        left, right = axis.get_xlim()
        if 0 < left < 0.35 * (right - left):  # zero is near: show it
            axis.set_xlim(left=0)
    for number, level in enumerate(levels, start=1):  # their intervals side by side, outside the axis
        _draw_level(axis, level, family, 1 + _INTERVAL_GAP * number * min(1.0, _MAX_APART / len(levels)))
    if roles.y.startswith("accuracy"):
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
    axis.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    if logx:
        _plain_log_ticks(axis, family.swept)
    else:
        whole = roles.x in ("round", "network.nodes")
        steps = [1, 2, 5, 10] if whole else [1, 2, 2.5, 5, 10]
        axis.xaxis.set_major_locator(MaxNLocator(6, integer=whole, steps=steps))


def _plain_log_ticks(axis: Any, swept: tuple[float, ...]) -> None:
    """The values that were swept, else 1, 2, 5, 10, as plain numbers where few decades are shown."""
    low, high = axis.get_xlim()
    if len(swept) > 1 and np.diff(np.log(swept)).min() > _MIN_TICK_GAP * math.log(high / low):
        axis.xaxis.set_major_locator(FixedLocator(swept))
    else:
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,)))
    if high / low < 1e4:
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())


def _colour_and_marker(curve: Curve, family: Family) -> tuple[str, str]:
    """Of a curve; grey without marker where it belongs to no series."""
    if family.roles.series is None:  # colours tell the scenario and its baselines apart
        return look(0 if curve.baseline is None else 1 + family.baselines.index(curve.baseline))
    if curve.series in family.series:  # a baseline may have a name that is no series of the study's own cells
        return look(family.series.index(curve.series))
    return GREY, ""


def _baseline_dash(name: str, family: Family) -> Any:
    return _BASELINE_DASHES[family.baselines.index(name) % len(_BASELINE_DASHES)]


def _draw_curve(axis: Any, curve: Curve, family: Family) -> None:
    colour, marker = _colour_and_marker(curve, family)
    x, y, low, high = (curve[name] for name in ("x", "y", "low", "high"))
    if not curve.joined or len(x) == 1:
        error = np.nan_to_num(np.stack([y - low, high - y]))
        axis.errorbar(x, y, error, color=colour, fmt=marker or "o", markersize=3.6, linewidth=0.9, capsize=1.6)
        return
    dash: Any = DASHES[family.styles.index(curve.style) % len(DASHES)] if curve.style in family.styles else "-"
    few = len(x) <= _MAX_MARKED_POINTS
    axis.fill_between(x, low, high, where=np.isfinite(low) & np.isfinite(high), color=colour, alpha=0.16, linewidth=0)
    axis.plot(
        x,
        y,
        color=colour,
        linestyle=dash if curve.baseline is None else _baseline_dash(curve.baseline, family),
        marker=marker,
        markersize=3.6 if few else 3.0,
        markevery=1 if few else max(1, len(x) // 8),
        markeredgewidth=0.5,
        linewidth=1.2,
    )


def _draw_level(axis: Any, level: Curve, family: Family, place: float) -> None:
    """A line across, and its 95% interval as a bar outside the axis, where no curve can cover it."""
    colour, _ = _colour_and_marker(level, family)
    dash = _LEVEL_DASH if level.baseline is None else _baseline_dash(level.baseline, family)
    (y,), (low,), (high,) = level["y"], level["low"], level["high"]
    axis.axhline(y, color=colour, linestyle=dash, linewidth=0.9, zorder=1.5)
    if np.isfinite(low):
        floor, top = axis.get_ylim()
        across = axis.get_yaxis_transform()  # x in shares of the axis, y in data
        bar = {"transform": across, "color": colour, "clip_on": False, "zorder": 1.6}
        axis.plot([place] * 2, [max(low, floor), min(high, top)], marker="_", markersize=3.0, linewidth=0.9, **bar)


def _legend(figure: Any, curves: list[Curve], family: Family, labels: Labels) -> None:
    """Above the panels, where no curve can run through it; the figure grows by its height."""
    roles, entries = family.roles, list[tuple[Any, str]]()

    def add(words: str, colour: str = GREY, marker: str = "", dash: Any = "-", width: float = 1.2) -> None:
        line = Line2D([], [], color=colour, marker=marker, markersize=3.6, linestyle=dash, linewidth=width)
        entries.append((line, words))

    baselines = dict.fromkeys(curve.baseline for curve in curves if curve.baseline is not None)
    own_levels = any(curve.kind == "level" and curve.baseline is None for curve in curves)
    if roles.series:
        for number, value in enumerate(family.series):
            add(labels.series(value, family), *look(number))
    if roles.style:
        dashed = {curve.style for curve in curves if curve.kind == "curve"}  # levels have a dash of their own
        for number, value in enumerate(family.styles):
            if value in dashed:
                add(labels.value(roles.style, value), dash=DASHES[number % len(DASHES)])
    if not roles.series and (baselines or own_levels):
        add(labels.baseline(family.name), *look(0))
    if own_levels:
        name = "ε" if roles.x.startswith("epsilon") else labels.column(roles.x)
        add(f"{name} ∞", dash=_LEVEL_DASH, width=0.9)
    for name in baselines:
        style = (GREY, "") if roles.series else look(1 + family.baselines.index(name))
        add(labels.baseline(name), *style, dash=_baseline_dash(name, family), width=1.0)
    if not entries:
        return
    runs = sorted({int(count) for curve in curves for count in curve.points["n"]})
    if runs != [1]:
        count = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        patch = Rectangle((0, 0), 1, 1, facecolor=GREY, alpha=0.3, linewidth=0)
        entries.append((patch, f"95%, {count} runs"))
    width, height = figure.get_size_inches()
    longest = max(len(text) for _, text in entries)
    columns = max(1, min(len(entries), int((width - 0.2) / (0.42 + 0.054 * longest))))
    figure.set_size_inches(width, height + 0.05 + 0.145 * -(-len(entries) // columns))
    # matplotlib fills columns first; these are to be read row by row
    handles, texts = zip(*(entry for start in range(columns) for entry in entries[start::columns]))
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


def _name_series(axis: Any, curves: list[Curve], family: Family) -> None:
    """The value of every curve beside its last point, on a side where no other name stands."""
    taken: list[Any] = []
    for curve in curves:
        if curve.baseline is not None or curve.kind == "level":
            continue
        for across, up in _NAME_OFFSETS_PT:
            name = axis.annotate(
                escape_math(format_value(curve.series)),
                xy=(curve["x"][-1], curve["y"][-1]),
                xytext=(across, up),
                textcoords="offset points",
                fontsize=6.5,
                color=_colour_and_marker(curve, family)[0],
                va="center",
                ha="center" if not across else "left" if across > 0 else "right",
                annotation_clip=False,
            )
            box = name.get_window_extent()
            if not any(box.overlaps(other) for other in taken) or (across, up) == _NAME_OFFSETS_PT[-1]:
                taken.append(box)
                break
            name.remove()
