"""Paired differences: two settings at the same seeds and run numbers, the mean of their differences and its interval.

    d_s = y_s - y'_s for every seed (and run) s that both settings have;  mean d +- t s_d / sqrt(n),  t of n - 1 degrees

Runs of one seed share placement, graph and partition, so the difference is free of what these do to both. The interval
is that of the mean difference (95%, Student's t); one pair alone has none.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from wirelessdl.analysis.families.words import spelled
from wirelessdl.analysis.runs import FIGURES, Group, final_figures
from wirelessdl.errors import TraceError, nearest, shown
from wirelessdl.trace.study import Study, mean_interval

_DRAWS = ["seed", "run"]
# final figures of runs whose differences say something
PAIRED_FIGURES = ("accuracy_mean", "accuracy_min", "epsilon", "time_s", "airtime_s", "energy_j")


@dataclass(frozen=True)
class Difference:
    """One setting beside its reference: means of each, and of the difference with its 95% interval over n pairs.

    cell, reference_cell: of a study; empty for runs. median, above: of the differences, and how many are above 0, which
    one outlier hardly changes.
    """

    cell: str
    name: str
    reference: str
    keys: dict[str, Any]
    of: str
    mean: float
    reference_mean: float
    difference: float
    low: float
    high: float
    n: int
    median: float
    above: int
    reference_cell: str = ""


def study_differences(study: Study, of: str, to: str | None = None) -> list[Difference]:
    """Every cell of a study beside its reference.

    to: a baseline (the cell of it that agrees in all keys it has), a cell or its name, or KEY=VALUE (the cell that
    differs in this key alone). None takes `local`, else the first baseline, else the first cell.
    """
    column = study.column(of)
    rows = study.finished
    if not pd.api.types.is_numeric_dtype(rows[column]):
        raise TraceError(f"{shown(study.path)}: column {shown(column)} holds texts; name one that holds numbers")
    rows = rows.dropna(subset=[column])
    if rows.empty:
        raise TraceError(f"{shown(study.path)}: no finished run has {shown(column)} yet; wait, or resume the study")
    cells = rows.drop_duplicates("cell").set_index("cell")
    chosen = to if to is not None else _default(cells)
    found = []
    for cell, values in ((str(cell), values) for cell, values in cells.iterrows()):
        reference = _reference(study, cells, values, chosen)
        if reference is None or reference == cell:
            continue
        pair = [
            rows[rows["cell"] == one].set_index(_DRAWS)[column].astype(float).rename(which)
            for one, which in ((cell, "own"), (reference, "other"))
        ]
        keys = {key: values[key] for key in study.varied if not pd.isna(values[key])}
        name, other = (cell_name(one, cells.loc[one], study.varied) for one in (cell, reference))
        found.append(replace(_difference(cell, pair[0], pair[1], name, other, keys, column), reference_cell=reference))
    return found


def require_reference(study: Study, to: str) -> None:
    """Raise where a study has no cell to which `to` could refer."""
    cells = study.finished.drop_duplicates("cell").set_index("cell")
    _reference(study, cells, cells.iloc[0], to)


def group_differences(groups: Sequence[Group], of: str) -> list[Difference]:
    """Every further scenario beside the first, over the seeds and run numbers that both have."""
    first, *others = [(group.name, _values(group, of)) for group in groups]
    return [_difference("", values, first[1], name, first[0], {}, of) for name, values in others]


def _values(group: Group, of: str) -> "pd.Series[float]":
    rows = []
    for run in group.runs:
        section, value = run.scenario["scenario"], final_figures(run)[of]
        if value is not None:
            rows.append((section["seed"], section["run"], float(value)))
    frame = pd.DataFrame(rows, columns=[*_DRAWS, of]).drop_duplicates(_DRAWS)
    return frame.set_index(_DRAWS)[of]


def _difference(
    cell: str,
    own: "pd.Series[float]",
    other: "pd.Series[float]",
    name: str,
    reference: str,
    keys: dict[str, Any],
    of: str,
) -> Difference:
    both = pd.concat([own.rename("own"), other.rename("other")], axis=1, join="inner")
    apart = (both["own"] - both["other"]).to_numpy()  # inf - inf is NaN: not comparable
    mean, low, high, n = mean_interval(apart)
    own_mean, other_mean = (mean_interval(both[which])[0] for which in ("own", "other"))
    median = float(np.median(apart)) if n else math.nan
    return Difference(
        cell, name, reference, keys, of, own_mean, other_mean, mean, low, high, n, median, int((apart > 0).sum())
    )


def _default(cells: pd.DataFrame) -> str:
    names = [str(name) for name in cells["baseline"].dropna().unique()]
    return "local" if "local" in names else names[0] if names else str(cells.index[0])


def _reference(study: Study, cells: pd.DataFrame, values: Any, to: str) -> str | None:
    """The cell that a cell is compared with; None where there is none for it."""
    if to in cells.index:
        return to
    key, equals, value = to.partition("=")
    if equals:
        return _other_value(study, cells, values, study.column(key, study.varied), value)
    if to in set(cells["baseline"].dropna()):
        if values["baseline"] == to:
            return None
        agree = cells[cells["baseline"] == to]
        for one in study.varied:
            agree = agree[agree[one].isna() | (agree[one] == values[one])]
        return str(agree.index[0]) if len(agree) else None
    named = cells[(cells["name"] == to) & cells["baseline"].isna()]
    if named.empty:
        known = {*map(str, cells["baseline"].dropna()), *map(str, cells["name"].dropna()), *map(str, cells.index)}
        raise TraceError(f"--to is {shown(to)}; no such baseline, cell or name{nearest(to, known)}; or KEY=VALUE")
    others = [one for one in study.varied if named[one].nunique(dropna=False) > 1]
    agree = named
    for one in others:
        agree = agree[agree[one] == values[one]]
    return str(agree.index[0]) if len(agree) else None


def _other_value(study: Study, cells: pd.DataFrame, values: Any, key: str, value: str) -> str | None:
    own = cells[cells["baseline"].isna()]
    fits = own[[spelled(one) == value or _same_number(one, value) for one in own[key]]]
    if fits.empty:
        known = ", ".join(dict.fromkeys(shown(spelled(one), 40) for one in own[key].dropna()))
        raise TraceError(f"--to {shown(key)}={shown(value)}: no cell has it; it is one of {known}")
    if not pd.isna(values["baseline"]):
        return None
    for one in study.varied:
        if one != key:
            fits = fits[(fits[one] == values[one]) | (fits[one].isna() & pd.isna(values[one]))]
    return str(fits.index[0]) if len(fits) else None


def _same_number(one: Any, text: str) -> bool:
    try:
        return float(one) == float(text)
    except (TypeError, ValueError):
        return False


def cell_name(cell: Any, values: Any, varied: Sequence[str]) -> str:
    """A cell in a table: baseline or name, and the short keys that it varies."""
    parts = [shown(values[word], 60) for word in ("baseline", "name") if not pd.isna(values[word])][:1]
    if not parts or not pd.isna(values["baseline"]):
        parts += [
            f"{key.rpartition('.')[2]} {shown(spelled(values[key]), 40)}" for key in varied if not pd.isna(values[key])
        ]
    return ", ".join(parts) or str(cell)


def written(of: str, value: float, *, signed: bool = False) -> str:
    """A figure of a table as text: accuracies in percent, their differences in percentage points."""
    if pd.isna(value):
        return ""
    sign = "+" if signed else ""
    if of.startswith("accuracy"):
        return f"{100 * value:{sign}.1f}{' points' if signed else '%'}"
    return f"{value:{sign}.3g}"


def words_of(of: str) -> str:
    """A figure's name in a table."""
    return FIGURES[of][0] if of in FIGURES else shown(of, 60)
