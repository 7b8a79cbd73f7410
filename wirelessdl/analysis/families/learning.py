"""Learning curves of a study: the mean over the runs of each cell at the rounds that all of them evaluated."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wirelessdl.analysis.families.curves import Curve, Family, family_of, unfinished_note
from wirelessdl.analysis.families.roles import Request, Roles, curve_roles, finished_rows
from wirelessdl.analysis.families.words import CURVE_COLUMNS
from wirelessdl.analysis.runs import mean_band
from wirelessdl.arrays import FloatArray
from wirelessdl.errors import TraceError, shown
from wirelessdl.trace.run import Run
from wirelessdl.trace.schema import TABLES
from wirelessdl.trace.soundness import require_sound
from wirelessdl.trace.study import Study, resolved

_SUMS = ("energy_j", "airtime_s")  # columns of a round that an axis adds up


def learning_curves(study: Study, request: Request, against: str) -> Family:
    """A family of curves over rounds, time, energy, airtime or epsilon; a cell without finite epsilon is a level."""
    rows, roles = curves_asked_for(study, request, against)
    x, y = roles.x, roles.y
    curves, notes = [], unfinished_note(study, rows)
    for place, baseline, cell, part in _cells(rows, roles.facet, roles.series, roles.style):
        frames, exact = zip(*(run_curve(require_sound(study.run(path)), x, y) for path in part["path"]))
        if not all(exact):
            notes.append("epsilon is the running bound, where totals are not composed from round to round")
        curves.append(_curve(study, place, baseline, cell, list(frames)))
    own = rows[rows["baseline"].isna()]
    if not any(curve.kind == "curve" for curve in curves):
        raise TraceError(
            f"{shown(study.path)}: epsilon is infinite in every run; draw the curves --against round, time or energy"
        )
    return family_of(study, curves, roles, own, list(dict.fromkeys(notes)))


def curves_asked_for(study: Study, request: Request, against: str) -> tuple[pd.DataFrame, Roles]:
    """Finished runs to draw curves of, and the roles of keys; raises where one varies and has none."""
    rows = finished_rows(study, request.where)
    y = resolved(request.y, TABLES["rounds"].names, "the rounds table has no column")
    roles = curve_roles(study, rows, request, CURVE_COLUMNS[against], y)
    if roles.spare:
        raise TraceError(
            f"{shown(study.path)}: {', '.join(roles.spare)} varies too; name it in --series, --style or --facet, or "
            f"choose one value with --where {roles.spare[0]}=..."
        )
    return rows, roles


def _cells(
    rows: pd.DataFrame, facet: str | None, series: str | None, style: str | None
) -> Iterator[tuple[tuple[Any, Any, Any], str | None, str, pd.DataFrame]]:
    for cell, part in rows.groupby("cell", sort=False):
        first = part.iloc[0]
        values = [None if key is None or pd.isna(first[key]) else first[key] for key in (facet, series, style)]
        baseline = None if pd.isna(first["baseline"]) else str(first["baseline"])
        yield (values[0], values[1], values[2]), baseline, str(cell), part


def run_curve(run: Run, x: str, y: str) -> tuple[pd.DataFrame, bool]:
    """Evaluated rounds of a run with columns round, x and y; whether x is exact (an epsilon may be a bound)."""
    axes, exact = axes_of(run)
    frame = pd.DataFrame({"round": axes["round"], "x": axes[x], "y": at_evaluations(run, y)})
    return frame.dropna(subset="y"), exact or x != "epsilon"


def axes_of(run: Run) -> tuple[dict[str, FloatArray], bool]:
    """What curves go along, at the evaluated rounds of a run; whether its epsilon is composed, not the bound."""
    found = {column: at_evaluations(run, column) for column in ("round", "time_s", *_SUMS)}
    total = at_evaluations(run, "epsilon_promised_total")  # null where composing takes long
    exact = not bool(np.isnan(total).any())
    return {**found, "epsilon": total if exact else at_evaluations(run, "epsilon_promised_bound")}, exact


def at_evaluations(run: Run, column: str) -> FloatArray:
    """A column of the rounds table at evaluated rounds; energy and airtime are those used by then."""
    values: FloatArray = run.rounds[column].to_numpy(dtype=float)
    values = values.cumsum() if column in _SUMS else values
    return values[run.rounds["accuracy_mean"].notna().to_numpy()]


def _curve(
    study: Study, place: tuple[Any, Any, Any], baseline: str | None, cell: str, frames: Sequence[pd.DataFrame]
) -> Curve:
    common = set(frames[0]["round"]).intersection(*(frame["round"] for frame in frames[1:]))
    if not common:
        raise TraceError(
            f"{shown(study.path)}: the runs of cell {shown(cell)} have no evaluated round in common; run them with a "
            "smaller learning.eval_every"
        )
    kept = [frame[frame["round"].isin(common)].sort_values("round") for frame in frames]
    x = np.mean([frame["x"] for frame in kept], axis=0)
    mean, half = mean_band(np.array([frame["y"] for frame in kept]))
    low, high = (mean - half, mean + half) if len(kept) > 1 else (np.full_like(mean, math.nan),) * 2
    finite = np.isfinite(x)
    facet, series, style = place
    still = baseline is not None and not x[-1] > 0  # it sends nothing: no place along what sending costs
    if still or not finite[-1]:  # without privacy noise the first rounds may have leaked nothing yet
        end = slice(len(x) - 1, None)
        x = np.array([math.nan if still else math.inf])
        mean, low, high = mean[end], low[end], high[end]
        return Curve("level", facet, series, style, baseline, (cell,), x, mean, low, high, (len(kept),))
    x, mean, low, high = x[finite], mean[finite], low[finite], high[finite]
    return Curve("curve", facet, series, style, baseline, (cell,), x, mean, low, high, (len(kept),))
