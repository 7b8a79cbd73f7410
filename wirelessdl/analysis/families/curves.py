"""The curves of a family: end points of cells joined per series, or learning curves; means with 95% bands over runs.

A cell whose horizontal value is infinite (no privacy noise) is a level: a horizontal line at its result. So is a
baseline that has no place on the horizontal axis, such as learning alone against epsilon.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from wirelessdl.analysis.families.roles import Request, Roles, finished_rows, in_order, roles_of
from wirelessdl.arrays import FloatArray
from wirelessdl.errors import TraceError, shown
from wirelessdl.privacy.terms import adversary_in_short
from wirelessdl.trace.study import Study, mean_interval

Kind = Literal["curve", "level"]
_FOLLOWS = 0.05  # relative distance up to which a result is what was asked for: calibrated totals end up to 2% below
EPSILONS = ("epsilon", "epsilon_total", "epsilon_declared")  # totals as promised: the adversary belongs to them


@dataclass(frozen=True, eq=False)
class Curve:
    """One line of a figure. A level has one point, whose x is not on the axis (inf), or is of no meaning (NaN).

    series, style, facet: values of the keys that have these roles; None where a baseline has no value.
    """

    kind: Kind
    facet: Any
    series: Any
    style: Any
    baseline: str | None
    cells: tuple[str, ...]  # of every point, or of all of them
    x: FloatArray
    y: FloatArray
    low: FloatArray
    high: FloatArray
    n: tuple[int, ...]
    joined: bool = True


@dataclass(frozen=True, eq=False)
class Family:
    """Curves with their roles; values of series, styles and facets in order; what a reader must know.

    name: of the scenario, which the study's own curves are called by where no key tells them apart. swept: values along
    the horizontal axis that cells were asked for; empty where results lie elsewhere, and for learning curves.
    """

    roles: Roles
    curves: tuple[Curve, ...]
    series: tuple[Any, ...]
    styles: tuple[Any, ...]
    facets: tuple[Any, ...]
    adversaries: dict[Any, str]  # of each series, against whom epsilon holds, where all its runs agree
    name: str
    swept: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def baselines(self) -> tuple[str, ...]:
        """Baselines that have curves, in order."""
        named = (curve.baseline for curve in self.curves if curve.kind == "curve")
        return tuple(dict.fromkeys(name for name in named if name is not None))


def end_points(study: Study, request: Request) -> Family:
    """A family of the results of runs: each cell a point, each series a curve."""
    rows = finished_rows(study, request.where)
    roles = roles_of(study, rows, request)
    known = rows.dropna(subset=[roles.y])
    notes = _notes(study, rows, known, roles)
    own, others = known[known["baseline"].isna()], known[known["baseline"].notna()]
    curves = [
        *_own_curves(own, roles),
        *(curve for _, part in others.groupby("baseline", sort=False) for curve in _baseline_curves(part, roles)),
    ]
    if not any(curve.kind == "curve" for curve in curves):
        raise TraceError(
            f"{shown(study.path)}: {roles.x} is infinite or empty in every run; name another horizontal axis with --x, "
            "such as a key that varies"
        )
    return replace(family_of(study, curves, roles, own, notes), swept=_swept(study, own, roles.x))


def scenario_name(study: Study) -> str:
    """What the scenario of a study is called: its file, or its bundled name."""
    return Path(str(study.manifest.get("scenario", ""))).stem or str(study.manifest["name"])


def family_of(study: Study, curves: list[Curve], roles: Roles, own: pd.DataFrame, notes: list[str]) -> Family:
    """Curves with the values that their roles take, in order."""

    def values(role: str) -> tuple[Any, ...]:
        key = getattr(roles, role)
        return tuple(in_order(own[key])) if key else (None,)

    return Family(
        roles,
        tuple(curves),
        values("series"),
        values("style"),
        values("facet"),
        _adversaries(own, roles),
        scenario_name(study),
        notes=tuple(notes),
    )


def _swept(study: Study, own: pd.DataFrame, x: str) -> tuple[float, ...]:
    """Values of the key along the horizontal axis, or of one that results on it follow: a total that was asked for."""
    for key in (x, *study.varied):
        if key not in study.varied or x not in own or not pd.api.types.is_numeric_dtype(own[key]):
            continue
        asked, found = own[key].to_numpy(dtype=float), own[x].to_numpy(dtype=float)
        here = np.isfinite(asked) & np.isfinite(found) & (asked > 0)
        if here.any() and np.allclose(found[here], asked[here], rtol=_FOLLOWS, atol=0):
            return tuple(np.unique(asked[here]).tolist())
    return ()


def _notes(study: Study, rows: pd.DataFrame, known: pd.DataFrame, roles: Roles) -> list[str]:
    notes = unfinished_note(study, rows)
    if len(known) < len(rows):
        notes.append(f"{len(rows) - len(known)} finished runs have no {roles.y} and are left out")
    if roles.spare:
        notes.append(f"{', '.join(roles.spare)} varies too, so points are not joined; name it in --series or --facet")
    if roles.x == "epsilon_total" and "epsilon_declared" in rows and rows["epsilon_declared"].notna().any():
        notes.append(
            "epsilon_total was read when runs stopped, which proves nothing under a stopping rule; the proven total is "
            "--x epsilon"
        )
    return notes


def unfinished_note(study: Study, rows: pd.DataFrame) -> list[str]:
    """How much of the study is not done yet."""
    count = int((study.index["status"] != "finished").sum())
    return [f"{count} of {len(study.index)} runs of the study are not finished"] if count and len(rows) else []


def adversary_of_rows(rows: pd.DataFrame) -> str | None:
    """Against whom the promised epsilon of runs holds, in short; None where they differ or do not say."""
    if "promised" not in rows:
        return None
    coalition = rows["coalition"] if "coalition" in rows else pd.Series(np.nan, rows.index)
    pairs = zip(rows["promised"], pd.to_numeric(coalition, errors="coerce"))
    found = {
        adversary_in_short(int(most) if view == "coalition" else None)
        if view == "own" or (view == "coalition" and math.isfinite(most))
        else None
        for view, most in pairs
    }
    return found.pop() if len(found) == 1 else None


def _adversaries(own: pd.DataFrame, roles: Roles) -> dict[Any, str]:
    finite = own[np.isfinite(own["epsilon"].astype(float))] if "epsilon" in own else own
    groups = finite.groupby(roles.series, sort=False) if roles.series else [(None, finite)]
    found = {value: adversary_of_rows(part) for value, part in groups}
    return {value: name for value, name in found.items() if name}


def _own_curves(own: pd.DataFrame, roles: Roles) -> Iterator[Curve]:
    for place, part in _grouped(own, roles):
        cells = _cells(part, roles)
        on_axis = cells[np.isfinite(cells["x"])].sort_values("x", kind="stable")
        if len(on_axis):
            yield _curve("curve", place, None, on_axis, joined=not roles.spare)
        for _, cell in cells[~np.isfinite(cells["x"])].iterrows():
            yield _curve("level", place, None, cell.to_frame().T)


def _baseline_curves(part: pd.DataFrame, roles: Roles) -> Iterator[Curve]:
    """Of one baseline: where its cells have places on the horizontal axis a curve, else levels."""
    name = str(part["baseline"].iloc[0])
    for place, rows in _grouped(part, roles):
        cells = _cells(rows, roles)
        known = np.isfinite(cells["x"]) & (cells["x"] > 0)  # a node that sends nothing leaks nothing
        if "." in roles.x and cells.loc[known, "x"].nunique() < 2:
            known[:] = False  # a key that the baseline does not vary
        if known.any():
            yield _curve("curve", place, name, cells[known].sort_values("x", kind="stable"))
        levels = cells[~known]
        if len(levels) > 1 and _alike(rows[rows["cell"].isin(levels["cell"])], roles):
            levels = levels.iloc[:1]
        for _, cell in levels.iterrows():
            yield _curve("level", place, name, cell.to_frame().T.assign(x=math.nan))


def _alike(rows: pd.DataFrame, roles: Roles) -> bool:
    """Whether cells of a baseline gave the same results: keys that it overrides make no difference to it."""
    parts = [part.sort_values(["seed", "run"])[roles.y].tolist() for _, part in rows.groupby("cell")]
    return all(part == parts[0] for part in parts)


def _grouped(rows: pd.DataFrame, roles: Roles) -> Iterator[tuple[tuple[Any, Any, Any], pd.DataFrame]]:
    """Rows by facet, series and style."""
    keys = [key for key in (roles.facet, roles.series, roles.style) if key]
    if not keys:
        yield (None, None, None), rows
        return
    groups: Any = rows.groupby(keys, dropna=False, sort=True)
    for group, part in groups:
        values = dict(zip(keys, (None if pd.isna(value) else value for value in group)))
        yield (
            (
                values.get(roles.facet or ""),
                values.get(roles.series or ""),
                values.get(roles.style or ""),
            ),
            part,
        )


def _cells(rows: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """One row per cell: x, y, low, high, n."""
    return pd.DataFrame([_cell(part, roles) for _, part in rows.groupby("cell", sort=False)])


def _cell(part: pd.DataFrame, roles: Roles) -> dict[str, Any]:
    mean, low, high, n = mean_interval(part[roles.y])
    x = part[roles.x].astype(float)
    return {
        "cell": str(part["cell"].iloc[0]),
        "x": float(x.mean()) if np.isfinite(x).all() else math.nan if x.isna().any() else float(x.max()),
        "y": mean,
        "low": low,
        "high": high,
        "n": n,
    }


def _curve(
    kind: Kind, place: tuple[Any, Any, Any], baseline: str | None, cells: pd.DataFrame, *, joined: bool = True
) -> Curve:
    facet, series, style = place
    x, y, low, high = (cells[name].to_numpy(dtype=float) for name in ("x", "y", "low", "high"))
    return Curve(
        kind,
        facet,
        series,
        style,
        baseline,
        tuple(cells["cell"]),
        x,
        y,
        low,
        high,
        tuple(int(count) for count in cells["n"]),
        joined,
    )


def as_frame(family: Family) -> pd.DataFrame:
    """Every point of a family as a row, for a CSV file."""
    roles = family.roles
    rows = []
    for curve in family.curves:
        for number in range(len(curve.y)):
            row = {
                "kind": "level" if curve.kind == "level" else "point",
                "baseline": curve.baseline,
                **{
                    key: value
                    for key, value in (
                        (roles.facet, curve.facet),
                        (roles.series, curve.series),
                        (roles.style, curve.style),
                    )
                    if key
                },
                "cell": curve.cells[number] if len(curve.cells) == len(curve.y) else curve.cells[0],
                roles.x: float(curve.x[number]),
            }
            row |= {
                "mean" if roles.x == roles.y else roles.y: float(curve.y[number]),
                "low_95": float(curve.low[number]),
                "high_95": float(curve.high[number]),
                "n": curve.n[number] if len(curve.n) == len(curve.y) else curve.n[0],
            }
            rows.append(row)
    return pd.DataFrame(rows).convert_dtypes()  # whole numbers stay whole beside empty fields
