"""Families of curves of a study: roles of columns, and curves of means with 95% bands over runs.

A cell of a study is one setting; its runs differ in seed and run number. Along a curve one key varies; every other key
that varies is a series (colour and marker), a style (dash) or a facet (panel). What the user leaves open is filled in
this order. A key that follows from the others, as in a study whose keys vary together, needs no role.

A cell whose horizontal value is infinite (no privacy noise) is a level: a horizontal line at its result. So is a
baseline that has no place on the horizontal axis, such as local training against epsilon.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from wirelessdl.analysis.releases import terms_of
from wirelessdl.analysis.runs import Group, adjacency_of, common_rounds, mean_band, one_adjacency
from wirelessdl.arrays import FloatArray
from wirelessdl.errors import TraceError, quote
from wirelessdl.privacy.terms import adversary_in_short
from wirelessdl.trace.catalog import run_status
from wirelessdl.trace.run import Run
from wirelessdl.trace.schema import TABLES
from wirelessdl.trace.soundness import require_sound
from wirelessdl.trace.study import Study, mean_interval, resolved

# the horizontal axes of learning curves
CURVE_COLUMNS = {
    "round": "round",
    "time": "time_s",
    "energy": "energy_j",
    "nominal-energy": "energy_nominal_j",
    "airtime": "airtime_s",
    "epsilon": "epsilon",
}

_MAX_SWEPT_ERROR = 0.05  # relative, of a result that was asked for: calibrated totals end up to 2% below


@dataclass(frozen=True)
class Request:
    """A figure of a study as a user asked for it; None leaves the choice to the figure.

    curves: the horizontal axis of learning curves, one of CURVE_COLUMNS; None is a figure of the results of runs.
    """

    x: str | None = None
    y: str = "accuracy"
    series: str | None = None
    style: str | None = None
    facet: str | None = None
    where: Sequence[str] = ()
    curves: str | None = None
    logx: bool = False
    labels: Sequence[str] = ()
    size: Literal["single", "double"] = "single"
    template: str = "plain"  # of style.TEMPLATES


@dataclass(frozen=True)
class Roles:
    """Columns of the index by role; `spare` keys vary too and have none."""

    x: str
    y: str
    series: str | None
    style: str | None
    facet: str | None
    spare: tuple[str, ...] = ()

    def keys(self) -> dict[str, str]:
        """Keys that tell curves apart, by role."""
        found = {"facet": self.facet, "series": self.series, "style": self.style}
        return {role: key for role, key in found.items() if key}


@dataclass(frozen=True, eq=False)
class Curve:
    """One line of a figure. A level has one point, whose x is not on the axis (inf), or is of no meaning (NaN).

    points: cell, x, y, low, high, n of each. series, style, facet: values of the keys that have these roles; None where
    a baseline has no value.
    """

    kind: Literal["curve", "level"]
    baseline: str | None
    points: pd.DataFrame
    facet: Any = None
    series: Any = None
    style: Any = None
    joined: bool = True

    def __getitem__(self, column: str) -> FloatArray:
        """One column of its points."""
        return self.points[column].to_numpy(dtype=float)


@dataclass(frozen=True, eq=False)
class Family:
    """Curves with their roles; values of series, styles and facets in order; what a reader must know.

    name: of the scenario, which the study's own curves are called by where no key tells them apart. swept: values along
    the horizontal axis, where it is a key or a total that was asked for.
    """

    roles: Roles
    curves: tuple[Curve, ...]
    series: tuple[Any, ...]
    styles: tuple[Any, ...]
    facets: tuple[Any, ...]
    adjacency: str  # of every epsilon
    adversaries: dict[Any, str]  # of each series, against whom epsilon holds, where all its runs agree
    name: str
    notes: tuple[str, ...]
    swept: tuple[float, ...] = ()

    @property
    def baselines(self) -> tuple[str, ...]:
        """Baselines, in order."""
        return tuple(dict.fromkeys(one.baseline for one in self.curves if one.baseline))


def end_points(study: Study, request: Request) -> Family:
    """A family of the results of runs: each cell a point, each series a curve."""
    rows, roles = rows_and_roles(study, request)
    known = rows.dropna(subset=[roles.y])
    own = known[known["baseline"].isna()]
    notes = []
    if len(known) < len(rows):
        notes.append(f"{len(rows) - len(known)} finished runs have no {roles.y} and are left out")
    if roles.spare:
        notes.append(f"{', '.join(roles.spare)} varies too, so points are not joined; name it in --series or --facet")
    if roles.x == "epsilon_total" and "epsilon_declared" in rows and rows["epsilon_declared"].notna().any():
        notes.append(
            "epsilon_total was read when runs stopped, which proves nothing under a stopping rule; the proven total is "
            "--x epsilon"
        )
    curves = list(_result_curves(own, roles, None))
    for name in in_order(known["baseline"]):
        curves += _result_curves(known[known["baseline"] == name], roles, str(name))
    nowhere = (
        f"{roles.x} is infinite or empty in every run; name another horizontal axis with --x, such as a key that varies"
    )
    return replace(_family(study, own, roles, curves, notes, nowhere), swept=_swept(study, own, roles.x))


def learning_curves(study: Study, request: Request) -> Family:
    """A family of curves over rounds, time, energy, airtime or epsilon: a mean over the runs of each cell.

    They hold the rounds that all runs of a cell evaluated. A cell without finite epsilon is a level.
    """
    rows, roles = rows_and_roles(study, request)
    curves, notes = [], list[str]()
    for cell, part in rows.groupby("cell", sort=False):
        frames, exact = zip(*(curve_frame(require_sound(study.run(path))) for path in part["path"]))
        if roles.x == "epsilon" and not all(exact):
            notes = ["epsilon is the running bound, where totals are not composed from round to round"]
        kept = common_rounds([frame.dropna(subset=roles.y) for frame in frames])
        if kept[0].empty:
            raise TraceError(
                f"{quote(study.path)}: the runs of cell {quote(cell)} have no evaluated round in common; run them with "
                "a smaller learning.eval_every"
            )
        curves.append(_learning_curve(part, roles, kept))
    nowhere = "epsilon is infinite in every run; draw the curves --against round, time or energy"
    return _family(study, rows[rows["baseline"].isna()], roles, curves, notes, nowhere)


def rows_and_roles(study: Study, request: Request) -> tuple[pd.DataFrame, Roles]:
    """Finished runs to draw, and the roles of keys; raises where one varies along learning curves and has none."""
    rows = finished_rows(study, request.where)
    roles = roles_of(study, rows, request)
    if roles.spare and request.curves is not None:
        raise TraceError(
            f"{quote(study.path)}: {', '.join(roles.spare)} varies too; name it in --series, --dashes or --facet, or "
            f"choose one value with --where {roles.spare[0]}=..."
        )
    return rows, roles


def finished_rows(study: Study, where: Sequence[str]) -> pd.DataFrame:
    """Rows of finished runs that fit every `KEY=VALUE`; raises where none of the study's own cells has any.

    A baseline without a value for a key fits any.
    """
    rows = study.index
    for text in where:
        name, equals, value = text.partition("=")
        if not equals:
            raise TraceError(f"--where is {quote(text)!r}; must be KEY=VALUE, such as network.nodes=10")
        key = study.column(name)
        column = rows[key]
        if pd.api.types.is_numeric_dtype(column):
            try:
                fits = column.astype(float) == float(value)
            except ValueError:
                raise TraceError(f"--where {quote(text)}: {key} is a number; {quote(value)!r} is none") from None
        else:
            fits = column.astype(str) == value
        if not fits.any():
            known = ", ".join(quote(one, 40) for one in in_order(column))
            raise TraceError(f"--where {quote(text)}: no run of the study has it; {key} is one of {known}")
        rows = rows[fits | (column.isna() & rows["baseline"].notna())]
    done = rows[rows["status"] == "finished"]
    if done[done["baseline"].isna()].empty:
        raise TraceError(
            f"{quote(study.path)}: none of {len(rows)} runs is finished; wait, or go on with: wirelessdl sweep "
            f"--resume {quote(study.path)}"
        )
    return done


def roles_of(study: Study, rows: pd.DataFrame, request: Request) -> Roles:
    """Roles of columns. Keys that are left over are put where nothing was asked for, as far as they need a place."""
    own = rows[rows["baseline"].isna()]
    # names of cells stand for the other keys, so they come first
    named = [] if own["name"].isna().any() else ["name"]
    varying = [key for key in (*named, *study.varied) if own[key].nunique(dropna=False) > 1]
    if request.curves is None:
        y = _numeric(study, rows, request.y)
        x = _numeric(study, rows, request.x if request.x is not None else _default_x(study, own, varying))
    else:
        y = resolved(request.y, TABLES["rounds"].names, "the rounds table has no column")
        x = CURVE_COLUMNS[request.curves]
    asked = {"series": request.series, "style": request.style, "facet": request.facet}
    found = {role: study.column(name) if name is not None else None for role, name in asked.items()}
    for role, key in found.items():
        other = next((one for one, same in found.items() if same == key and one < role), None)
        if key is not None and other is not None:
            raise TraceError(f"--{role} and --{other} are both {quote(key)}; name another key for one of them")
    free, along, spare = [key for key in varying if key not in found.values()], list[str](), list[str]()
    if request.curves is None:
        along = [x] if x in free else [key for key in free if key != "name"][:1]
    for key in (key for key in free if key not in along):
        used = [*along, *(one for one in found.values() if one)]
        if used and (own.groupby(used, dropna=False)[key].nunique(dropna=False) <= 1).all():
            continue  # it follows from them
        role = next((role for role, value in found.items() if value is None), "")
        if role:
            found[role] = key
        else:
            spare.append(key)
    return Roles(x, y, found["series"], found["style"], found["facet"], tuple(spare))


def _default_x(study: Study, own: pd.DataFrame, varying: list[str]) -> str:
    """The promised epsilon where there is one, else the first key that varies."""
    if "epsilon" in own and pd.to_numeric(own["epsilon"], errors="coerce").between(0, 1e300, inclusive="neither").any():
        return "epsilon"
    keys = [key for key in varying if pd.api.types.is_numeric_dtype(own[key])]
    if not keys:
        raise TraceError(f"{quote(study.path)}: no key that varies is a number; name the horizontal axis with --x")
    return keys[0]


def _numeric(study: Study, rows: pd.DataFrame, name: str) -> str:
    """A column of numbers, of which at least one is there."""
    column = study.column(name)
    texts = ("cell", "name", "baseline", "status", "error", "path")
    if column in texts or not pd.api.types.is_numeric_dtype(rows[column]):
        raise TraceError(f"{quote(study.path)}: column {quote(column)} holds texts; an axis needs numbers")
    if rows[column].isna().all():
        raise TraceError(f"{quote(study.path)}: column {quote(column)} is empty in every finished run; name another")
    return column


def in_order(values: Any) -> list[Any]:
    """Distinct values without empty ones: numbers by size, texts as they first appear."""
    distinct = pd.Series(values).dropna().drop_duplicates()
    return (distinct.sort_values() if pd.api.types.is_numeric_dtype(distinct) else distinct).tolist()


def _result_curves(rows: pd.DataFrame, roles: Roles, baseline: str | None) -> Iterator[Curve]:
    """Curves of the study's own cells, or of one baseline; cells without a place on the axis are levels."""
    keys = [*roles.keys().values()]
    groups: Any = rows.groupby(keys, dropna=False, sort=True) if keys else [((), rows)]
    for _, part in groups if len(rows) else ():
        place = _place(part, roles)
        points = pd.DataFrame([_point(cell, roles) for _, cell in part.groupby("cell", sort=False)])
        on_axis = np.isfinite(points["x"])
        if baseline is not None:
            on_axis &= points["x"] > 0  # a node that sends nothing leaks nothing
            if "." in roles.x and points.loc[on_axis, "x"].nunique() < 2:
                on_axis[:] = False  # a key that the baseline does not vary
        if on_axis.any():
            joined = baseline is not None or not roles.spare
            yield Curve("curve", baseline, points[on_axis].sort_values("x", kind="stable"), joined=joined, **place)
        levels = points[~on_axis]
        if baseline is not None:
            levels = levels.assign(x=math.nan)
            same = part[part["cell"].isin(levels["cell"])].sort_values(["seed", "run"])
            if same.groupby("cell")[roles.y].apply(tuple).nunique() == 1:  # keys that it overrides make no difference
                levels = levels[:1]
        for number in range(len(levels)):
            yield Curve("level", baseline, levels.iloc[[number]], **place)


def _place(rows: pd.DataFrame, roles: Roles) -> dict[str, Any]:
    """Values of facet, series and style, which rows share."""
    first = rows.iloc[0]
    return {role: None if pd.isna(first[key]) else first[key] for role, key in roles.keys().items()}


def _point(rows: pd.DataFrame, roles: Roles) -> dict[str, Any]:
    """The result of a cell."""
    mean, low, high, n = mean_interval(rows[roles.y])
    x = rows[roles.x].astype(float)
    place = float(x.mean()) if np.isfinite(x).all() else math.nan if x.isna().any() else float(x.max())
    return {"cell": str(rows["cell"].iloc[0]), "x": place, "y": mean, "low": low, "high": high, "n": n}


def _learning_curve(rows: pd.DataFrame, roles: Roles, frames: list[pd.DataFrame]) -> Curve:
    """The curve of a cell from its runs at the same rounds."""
    first = rows.iloc[0]
    baseline = None if pd.isna(first["baseline"]) else str(first["baseline"])
    return _mean_curve(str(first["cell"]), roles, frames, baseline, **_place(rows, roles))


def _mean_curve(
    cell: str, roles: Roles, frames: list[pd.DataFrame], baseline: str | None = None, **place: Any
) -> Curve:
    """Means over runs with their bands; a level where x ends at infinity, or where nothing is sent."""
    x = np.mean([frame[roles.x] for frame in frames], axis=0)
    mean, half = mean_band(np.array([frame[roles.y] for frame in frames], dtype=float))
    points = pd.DataFrame({"cell": cell, "x": x, "y": mean, "low": mean - half, "high": mean + half, "n": len(frames)})
    still = baseline is not None and not x[-1] > 0  # it sends nothing: no place along what sending costs
    if still or not np.isfinite(x[-1]):  # without privacy noise the first rounds may have leaked nothing yet
        points = points[-1:].assign(x=math.nan if still else math.inf)
        return Curve("level", baseline, points, **place)
    return Curve("curve", baseline, points[np.isfinite(points["x"])], **place)


def run_curves(groups: Sequence[Group], curves: str, y: str) -> tuple[Family, bool]:
    """Learning curves of runs, a series for each scenario; whether epsilon is composed in all, not the running bound.

    The band of one run alone is that of its worst and best node.
    """
    roles = Roles(CURVE_COLUMNS[curves], y, "name" if len(groups) > 1 else None, None, None)
    found, adversaries, every_exact = [], {}, True
    for group in groups:
        frames, exact = zip(*map(curve_frame, group.runs))
        kept = common_rounds([frame.dropna(subset=y) for frame in frames])
        if kept[0].empty:
            paths = ", ".join(str(run.path) for run in group.runs)
            what = "has no evaluated round yet" if len(group.runs) == 1 else "have no evaluated round in common"
            raise TraceError(f"{paths}: {what}; wait for one, or run with a smaller eval_every")
        curve = _mean_curve(group.name, roles, kept, series=group.name)
        if len(groups) == len(kept) == 1 and y == "accuracy_mean" and curve.kind == "curve":
            ends = {end: kept[0][f"accuracy_{name}"].to_numpy() for end, name in (("low", "min"), ("high", "max"))}
            curve = replace(curve, points=curve.points.assign(**ends))
        found.append(curve)
        status = run_status(group.runs[0].path)
        adversaries[group.name] = adversary_in_short(status.coalition, declared=status.declared)
        every_exact &= all(exact)
    endless = all(curve.kind == "level" or not np.isfinite(curve["y"]).any() for curve in found)
    if endless:
        raise TraceError(
            f"{groups[0].runs[0].path}: its epsilon is infinite, because it ran without privacy noise; name also a run "
            "whose privacy.epsilon_max is below inf, or draw --figure accuracy"
        )
    names = tuple(group.name for group in groups)
    adjacency = (
        one_adjacency(terms_of(run).adjacency for group in groups for run in group.runs)
        if "epsilon" in (curves, y)
        else ""
    )
    family = Family(roles, tuple(found), names, (None,), (None,), adjacency, adversaries, groups[0].name, ())
    return family, every_exact


def curve_frame(run: Run) -> tuple[pd.DataFrame, bool]:
    """The rounds table of a run at its evaluations, and whether its column epsilon is composed, not the bound.

    Energy and airtime are those used by then; epsilon is the promised total so far.
    """
    sums = {name: run.rounds[name].cumsum() for name in ("energy_j", "energy_nominal_j", "airtime_s")}
    frame = run.rounds.assign(**sums)[run.rounds["accuracy_mean"].notna()]
    exact = bool(frame["epsilon_promised_total"].notna().all())  # null where composing takes long
    return frame.assign(epsilon=frame[f"epsilon_promised_{'total' if exact else 'bound'}"]), exact


def scenario_name(study: Study) -> str:
    """What the scenario of a study is called: its file, or its bundled name."""
    return Path(str(study.manifest.get("scenario", ""))).stem or str(study.manifest["name"])


def _family(
    study: Study,
    own: pd.DataFrame,
    roles: Roles,
    curves: list[Curve],
    notes: list[str],
    nowhere: str,
) -> Family:
    """Curves with the values that their roles take in the study's own rows; raises where none has a place."""
    if not any(curve.kind == "curve" for curve in curves):
        raise TraceError(f"{quote(study.path)}: {nowhere}")
    series, styles, facets = (
        tuple(in_order(own[key])) if key else (None,) for key in (roles.series, roles.style, roles.facet)
    )
    finite = own[np.isfinite(own["epsilon"].astype(float))] if "epsilon" in own else own
    groups = finite.groupby(roles.series, sort=False) if roles.series else [(None, finite)]
    adversaries = {value: name for value, part in groups if (name := adversary_of_rows(part))}
    count = int((study.index["status"] != "finished").sum())
    unfinished = [f"{count} of {len(study.index)} runs of the study are not finished"] if count else []
    notes = [*unfinished, *notes]
    return Family(
        roles,
        tuple(curves),
        series,
        styles,
        facets,
        adjacency_of(study),
        adversaries,
        scenario_name(study),
        tuple(notes),
    )


def _swept(study: Study, own: pd.DataFrame, x: str) -> tuple[float, ...]:
    """Values of the key along the horizontal axis, or of one that results on it follow: a total that was asked for."""
    for key in (x, *study.varied):
        if key not in study.varied or x not in own or not pd.api.types.is_numeric_dtype(own[key]):
            continue
        asked, found = own[key].to_numpy(dtype=float), own[x].to_numpy(dtype=float)
        here = np.isfinite(asked) & np.isfinite(found) & (asked > 0)
        if here.any() and np.allclose(found[here], asked[here], rtol=_MAX_SWEPT_ERROR, atol=0):
            return tuple(np.unique(asked[here]).tolist())
    return ()


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
    declared = "epsilon_status" in rows and bool((rows["epsilon_status"] != "proven").any())
    short = found.pop() if len(found) == 1 else None
    return f"{short} (not proven)" if short is not None and declared else short


def as_frame(family: Family) -> pd.DataFrame:
    """Every point of a family as a row, for a CSV file."""
    roles = family.roles
    parts = []
    for curve in family.curves:
        keys = {key: getattr(curve, role) for role, key in roles.keys().items()}
        points = curve.points.rename(columns={"low": "low_95", "high": "high_95"})
        values = {roles.x: points.pop("x"), "mean" if roles.x == roles.y else roles.y: points.pop("y")}
        first = {"kind": "level" if curve.kind == "level" else "point", "baseline": curve.baseline, **keys}
        parts.append(pd.DataFrame({**first, "cell": points.pop("cell"), **values, **points}))
    return pd.concat(parts).convert_dtypes()  # whole numbers stay whole beside empty fields
