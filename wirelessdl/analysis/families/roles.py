"""Which column of a study has which role in a figure: axes, series, style, facet; and which cells are shown.

A cell of a study is one setting; its runs differ in seed and run number. Along a curve one key varies; every other key
that varies is a series (colour and marker), a style (dash) or a facet (panel). What the user leaves open is filled in
this order. A key that follows from the others, as in a study whose keys vary together, needs no role.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from wirelessdl.errors import TraceError, shown
from wirelessdl.trace.study import Study

CURVE_AXES = ("round", "time", "energy", "airtime", "epsilon")


@dataclass(frozen=True)
class Request:
    """What a user asked for; None leaves the choice to the figure."""

    x: str | None = None
    y: str = "accuracy"
    series: str | None = None
    style: str | None = None
    facet: str | None = None
    where: Sequence[str] = ()


@dataclass(frozen=True)
class Roles:
    """Columns of the index by role; `spare` keys vary too and have none."""

    x: str
    y: str
    series: str | None
    style: str | None
    facet: str | None
    spare: tuple[str, ...] = ()


def rows_of(study: Study, where: Sequence[str]) -> pd.DataFrame:
    """Rows of the index that fit every `KEY=VALUE`. A baseline without a value for the key fits any."""
    rows = study.index
    for text in where:
        name, equals, value = text.partition("=")
        if not equals:
            raise TraceError(f"--where is {shown(text)!r}; must be KEY=VALUE, such as network.nodes=10")
        key = study.column(name)
        column = rows[key]
        if pd.api.types.is_numeric_dtype(column):
            try:
                fits = column.astype(float) == float(value)
            except ValueError:
                raise TraceError(f"--where {shown(text)}: {key} is a number; {shown(value)!r} is none") from None
        else:
            fits = column.astype(str) == value
        kept = rows[fits | (column.isna() & rows["baseline"].notna())]
        if not fits.any():
            known = ", ".join(shown(one, 40) for one in in_order(column))
            raise TraceError(f"--where {shown(text)}: no run of the study has it; {key} is one of {known}")
        rows = kept
    return rows


def finished_rows(study: Study, where: Sequence[str]) -> pd.DataFrame:
    """The rows of finished runs among those asked for; raises where there are none."""
    rows = rows_of(study, where)
    done = rows[rows["status"] == "finished"]
    if done[done["baseline"].isna()].empty:
        raise TraceError(
            f"{shown(study.path)}: none of {len(rows)} runs is finished; wait, or go on with: wirelessdl sweep "
            f"--resume {shown(study.path)}"
        )
    return done


def roles_of(study: Study, rows: pd.DataFrame, request: Request) -> Roles:
    """Roles for a figure of end points."""
    y = numeric(study, rows, request.y)
    x = numeric(study, rows, request.x if request.x is not None else default_x(study, rows))
    given = _given(study, request)
    keys = _varying(study, rows)
    taken = [key for key in given.values() if key]
    free = [key for key in keys if key not in taken]
    if x in free:
        along = x
    else:
        drives = [key for key in free if key != "name"]
        along = drives[0] if drives else ""
    return _filled(rows, x, y, given, [key for key in free if key != along], [along] if along else [])


def curve_roles(study: Study, rows: pd.DataFrame, request: Request, x: str, y: str) -> Roles:
    """Roles for learning curves: every key that varies needs one."""
    given = _given(study, request)
    taken = [key for key in given.values() if key]
    return _filled(rows, x, y, given, [key for key in _varying(study, rows) if key not in taken], [])


def _given(study: Study, request: Request) -> dict[str, str | None]:
    named = {"series": request.series, "style": request.style, "facet": request.facet}
    found = {role: study.column(name) if name is not None else None for role, name in named.items()}
    for role, key in found.items():
        other = next((one for one, same in found.items() if same == key and one < role), None)
        if key is not None and other is not None:
            raise TraceError(f"--{role} and --{other} are both {shown(key)}; name another key for one of them")
    return found


def _filled(
    rows: pd.DataFrame, x: str, y: str, given: dict[str, str | None], left: list[str], along: list[str]
) -> Roles:
    """The roles with the keys that are left over put where nothing was asked for, as far as they need a place."""
    own = rows[rows["baseline"].isna()].drop_duplicates("cell")
    found, spare = dict(given), []
    for key in left:
        used = [*along, *(one for one in found.values() if one)]
        if _follows(own, key, used):
            continue
        role = next((role for role, value in found.items() if value is None), None)
        if role is None:
            spare.append(key)
        else:
            found[role] = key
    return Roles(x, y, found["series"], found["style"], found["facet"], tuple(spare))


def _varying(study: Study, rows: pd.DataFrame) -> list[str]:
    """Keys with more than one value in the study's own cells; the names of cells first, which stand for the others."""
    own = rows[rows["baseline"].isna()]
    named = [] if own["name"].isna().any() else ["name"]
    return [key for key in (*named, *study.varied) if own[key].nunique(dropna=False) > 1]


def _follows(cells: pd.DataFrame, key: str, used: list[str]) -> bool:
    """Whether the keys that have a role leave only one value for this one."""
    if not used:
        return bool(cells[key].nunique(dropna=False) <= 1)
    return bool((cells.groupby(used, dropna=False)[key].nunique(dropna=False) <= 1).all())


def default_x(study: Study, rows: pd.DataFrame) -> str:
    """The promised epsilon where there is one, else the first key that varies."""
    own = rows[rows["baseline"].isna()]
    if "epsilon" in own and pd.to_numeric(own["epsilon"], errors="coerce").between(0, 1e300, inclusive="neither").any():
        return "epsilon"
    keys = [key for key in _varying(study, rows) if pd.api.types.is_numeric_dtype(own[key])]
    if not keys:
        raise TraceError(f"{shown(study.path)}: no key that varies is a number; name the horizontal axis with --x")
    return keys[0]


def numeric(study: Study, rows: pd.DataFrame, name: str) -> str:
    """A column of numbers, of which at least one is there."""
    column = study.column(name)
    if column in ("cell", "name", "baseline", "status", "error", "path") or not pd.api.types.is_numeric_dtype(
        rows[column]
    ):
        raise TraceError(f"{shown(study.path)}: column {shown(column)} holds texts; an axis needs numbers")
    if rows[column].isna().all():
        raise TraceError(f"{shown(study.path)}: column {shown(column)} is empty in every finished run; name another")
    return column


def in_order(values: Any) -> list[Any]:
    """Distinct values without empty ones: numbers by size, texts as they first appear."""
    distinct = pd.Series(values).dropna().drop_duplicates()
    return (distinct.sort_values() if pd.api.types.is_numeric_dtype(distinct) else distinct).tolist()
