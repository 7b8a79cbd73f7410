"""A study as tables: means of each cell over its runs with 95% intervals, and paired differences of cells.

NAME_most is the largest of a cell's runs, for figures that a claim bounds in every run. Numbers are written with ten
digits: the same runs give the same bytes.

Paired differences take two settings at the same seeds and run numbers:

    d_s = y_s - y'_s for every seed (and run) s that both settings have;  mean d +- t s_d / sqrt(n),  t of n - 1 degrees

Runs of one seed share placement, graph and partition, so the difference is free of what these do to both. The interval
is that of the mean difference (95%, Student's t); one pair alone has none.

Labels are texts of columns, values and curves. Texts of a study are untrusted: none is read as mathematics.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from wirelessdl.analysis.families import Family, scenario_name
from wirelessdl.analysis.runs import FIGURES, Group, final_figures, format_value
from wirelessdl.errors import TraceError, nearest, quote
from wirelessdl.trace.schema import TABLES
from wirelessdl.trace.study import Study, mean_interval, resolved

CELL_FIGURES = (
    "rounds",
    "accuracy_mean",
    "accuracy_min",
    "epsilon_link_max",
    "epsilon_link_total",
    "epsilon_total",
)
LARGEST = ("rounds", "epsilon_link_max", "epsilon_total")
_DRAWS = ["seed", "run"]
# final figures of runs whose differences say something
PAIRED_FIGURES = ("accuracy_mean", "accuracy_min", "epsilon", "time_s", "airtime_s", "energy_j")
_STATISTICS = ("of", "mean", "reference_mean", "difference", "low", "high", "n", "median", "above")


def run_table(study: Study, rows: pd.DataFrame, figures: Sequence[str] = CELL_FIGURES) -> pd.DataFrame:
    """One row per finished run, rows of an index: its cell, seed and run number, and figures."""
    rows = rows.sort_values(["cell", "seed", "run"])
    return rows[["cell", "name", "baseline", *study.varied, "seed", "run", *(one for one in figures if one in rows)]]


def cell_means(
    study: Study, rows: pd.DataFrame, figures: Sequence[str] = CELL_FIGURES, largest: Sequence[str] = LARGEST
) -> pd.DataFrame:
    """One row per cell: its values, n, of every figure the mean, low and high, and of some the largest."""
    found = []
    for cell, part in rows.groupby("cell", sort=True):
        first = part.iloc[0]
        row: dict[str, Any] = {"cell": cell, "name": first["name"], "baseline": first["baseline"]}
        row |= {key: first[key] for key in study.varied}
        row["n"] = len(part)
        for figure in figures:
            values = pd.to_numeric(part[figure], errors="coerce") if figure in part else pd.Series([math.nan])
            mean, low, high, _ = mean_interval(values.dropna())
            row |= {figure: mean, f"{figure}_low": low, f"{figure}_high": high}
            if figure in largest:
                row[f"{figure}_most"] = values.max()
        found.append(row)
    return pd.DataFrame(found)


def cell_differences(study: Study, references: tuple[str, ...]) -> pd.DataFrame:
    """Every cell beside each reference at the same seeds: mean difference of accuracy with its interval."""
    found = [one for to in references for one in study_differences(study, "accuracy_mean", to)]
    return pd.DataFrame(
        [{**asdict(one), **{key: one.keys.get(key) for key in study.varied}} for one in found],
        columns=["cell", "name", "reference", "reference_cell", *study.varied, *_STATISTICS],
    )


def csv_text(frame: pd.DataFrame) -> str:
    return frame.to_csv(index=False, float_format="%.10g", lineterminator="\n")


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
        raise TraceError(f"{quote(study.path)}: column {quote(column)} holds texts; name one that holds numbers")
    rows = rows.dropna(subset=[column])
    if rows.empty:
        raise TraceError(f"{quote(study.path)}: no finished run has {quote(column)} yet; wait, or resume the study")
    cells = rows.drop_duplicates("cell").set_index("cell")
    draws = {str(cell): part.set_index(_DRAWS)[column].astype(float) for cell, part in rows.groupby("cell")}
    chosen = to if to is not None else _default(cells)
    found = []
    for cell, values in ((str(cell), values) for cell, values in cells.iterrows()):
        reference = _reference(study, cells, values, chosen)
        if reference is None or reference == cell:
            continue
        names = [cell_name(one, cells.loc[one], study.varied) for one in (cell, reference)]
        keys = {key: values[key] for key in study.varied if not pd.isna(values[key])}
        found.append(_difference(column, draws[cell], draws[reference], names, (cell, reference), keys))
    return found


def group_differences(groups: Sequence[Group], of: str) -> list[Difference]:
    """Every further scenario beside the first, over the seeds and run numbers that both have."""
    first, *others = [(group.name, _values(group, of)) for group in groups]
    return [_difference(of, values, first[1], [name, first[0]], ("", ""), {}) for name, values in others]


def _values(group: Group, of: str) -> "pd.Series[float]":
    """A final figure of runs by their draws."""
    sections = [run.scenario["scenario"] for run in group.runs]
    draws = pd.MultiIndex.from_tuples([(one["seed"], one["run"]) for one in sections], names=_DRAWS)
    values = pd.Series([final_figures(run)[of] for run in group.runs], draws, dtype=float)
    return values[~draws.duplicated()].dropna()


def _difference(
    of: str,
    own: "pd.Series[float]",
    other: "pd.Series[float]",
    names: Sequence[str],
    cells: tuple[str, str],
    keys: dict[str, Any],
) -> Difference:
    """Of two settings by seed and run; names and cells are those of the two."""
    both = pd.concat([own.rename("own"), other.rename("other")], axis=1, join="inner")
    apart = (both["own"] - both["other"]).to_numpy()  # inf - inf is NaN: not comparable
    mean, low, high, n = mean_interval(apart)
    return Difference(
        cell=cells[0],
        name=names[0],
        reference=names[1],
        keys=keys,
        of=of,
        mean=mean_interval(both["own"])[0],
        reference_mean=mean_interval(both["other"])[0],
        difference=mean,
        low=low,
        high=high,
        n=n,
        median=float(np.median(apart)) if n else math.nan,
        above=int((apart > 0).sum()),
        reference_cell=cells[1],
    )


def _default(cells: pd.DataFrame) -> str:
    names = [str(name) for name in cells["baseline"].dropna().unique()]
    return "local" if "local" in names else names[0] if names else str(cells.index[0])


def _reference(study: Study, cells: pd.DataFrame, values: Any, to: str) -> str | None:
    """The cell that a cell is compared with; None where there is none for it."""
    if to in cells.index:
        return to
    own, baseline = cells[cells["baseline"].isna()], cells[cells["baseline"] == to]
    key, equals, value = to.partition("=")
    if equals:
        key = study.column(key, study.varied)
        found = own[[format_value(one) == value or _same_number(one, value) for one in own[key]]]
        if found.empty:
            some = ", ".join(dict.fromkeys(quote(format_value(one), 40) for one in own[key].dropna()))
            raise TraceError(f"--to {quote(key)}={quote(value)}: no cell has it; it is one of {some}")
        if not pd.isna(values["baseline"]):
            return None
        for one in study.varied:
            if one != key:
                found = found[(found[one] == values[one]) | (found[one].isna() & pd.isna(values[one]))]
    elif len(baseline):
        if values["baseline"] == to:
            return None
        found = baseline
        for one in study.varied:
            found = found[found[one].isna() | (found[one] == values[one])]
    else:
        named = found = own[own["name"] == to]
        if named.empty:
            known = {*map(str, cells["baseline"].dropna()), *map(str, cells["name"].dropna()), *map(str, cells.index)}
            raise TraceError(f"--to is {quote(to)}; no such baseline, cell or name{nearest(to, known)}; or KEY=VALUE")
        for one in study.varied:
            if named[one].nunique(dropna=False) > 1:
                found = found[found[one] == values[one]]
    return str(found.index[0]) if len(found) else None


def _same_number(one: Any, text: str) -> bool:
    try:
        return float(one) == float(text)
    except (TypeError, ValueError):
        return False


def cell_name(cell: Any, values: Any, varied: Sequence[str]) -> str:
    """A cell in a table: baseline or name, and the short keys that it varies."""
    parts = [quote(values[word], 60) for word in ("baseline", "name") if not pd.isna(values[word])][:1]
    if not parts or not pd.isna(values["baseline"]):
        own = (key for key in varied if not pd.isna(values[key]))
        parts += [f"{key.rpartition('.')[2]} {quote(format_value(values[key]), 40)}" for key in own]
    return ", ".join(parts) or str(cell)


def format_difference(of: str, value: float, *, signed: bool = False) -> str:
    """A figure of a table as text: accuracies in percent, their differences in percentage points."""
    if pd.isna(value):
        return ""
    sign = "+" if signed else ""
    if of.startswith("accuracy"):
        return f"{100 * value:{sign}.1f}{' points' if signed else '%'}"
    return f"{value:{sign}.3g}"


def figure_label(of: str) -> str:
    """A figure's name in a table."""
    return FIGURES[of][0] if of in FIGURES else quote(of, 60)


COLUMNS = {
    "accuracy_mean": "test accuracy",
    "accuracy_min": "test accuracy, worst node",
    "accuracy_max": "test accuracy, best node",
    "loss_mean": "mini-batch loss (no epsilon covers it)",
    "time_s": "simulated time in s",
    "airtime_s": "time on air in s",
    "energy_j": "energy used by all nodes in J",
    "energy_nominal_j": "energy of all nodes at the power budget in J",
    "wall_s": "wall clock in s",
    "epsilon_link_total": "link sum of ε (unproven)",
    "epsilon_own_total": "total ε against all other nodes",
    "epsilon_coalition_total": "total ε against the coalition",
    "sinr_db": "SINR in dB",
    "round": "round",
}
_EPSILONS = ("epsilon", "epsilon_total", "epsilon_declared")  # totals as promised: the adversary belongs to them


@dataclass(frozen=True)
class Labels:
    """Texts that a user chose: of columns and baselines, and of single values (`key:value`)."""

    texts: dict[str, str] = field(default_factory=dict)

    def column(self, name: str) -> str:
        """A column in a legend: its own name without the section."""
        return self.texts.get(name, escape_math(COLUMNS.get(name, name.rpartition(".")[2])))

    def value(self, key: str, value: Any) -> str:
        """One value of a key in a legend; a number has its key's name, a text says by itself what it is."""
        text = format_value(value)
        chosen = self.texts.get(f"{key}:{text}")
        if chosen is not None:
            return chosen
        named = key in self.texts or not isinstance(value, str) or value[:1].isdecimal()  # beside "auto"
        return f"{self.column(key)} {escape_math(text)}" if named else escape_math(text)

    def axis(self, name: str, family: Family) -> str:
        """A column along an axis."""
        if name in self.texts:
            return self.texts[name]
        if name in _EPSILONS:
            every = set(family.adversaries.values())
            total = f"total ε against {every.pop()}" if len(every) == 1 else "guaranteed total ε"
            return f"{total} ({family.adjacency}, worst node)"
        return escape_math(COLUMNS.get(name, name))

    def baseline(self, name: str) -> str:
        """A baseline, or the scenario itself beside it."""
        return self.texts.get(name, escape_math(name))

    def series(self, value: Any, family: Family) -> str:
        """One series in the legend, with its adversary where those of the series differ."""
        text = self.value(family.roles.series or "", value)
        if family.roles.x in _EPSILONS and len(set(family.adversaries.values())) > 1:
            text += f", against {family.adversaries.get(value, 'several')}"
        return text


def labels_of(given: Sequence[str], study: Study) -> Labels:
    """`NAME=TEXT` or `NAME:VALUE=TEXT`; NAME is a column (short names too), a baseline or the scenario."""
    baselines = [*(str(name) for name in study.index["baseline"].dropna().unique()), scenario_name(study)]
    columns = [*map(str, study.index.columns), *TABLES["rounds"].names]
    texts = {}
    for entry in given:
        name, equals, text = entry.partition("=")
        if not equals or not text:
            raise TraceError(
                f"--label is {quote(entry)!r}; must be NAME=TEXT or NAME:VALUE=TEXT, such as network.nodes=K"
            )
        key, colon, value = name.partition(":")
        if key not in baselines or colon:
            key = resolved(key, [*columns, *baselines], f"--label {quote(entry)}: no column or baseline")
        texts[f"{key}:{value}" if colon else key] = _drawable(text)
    return Labels(texts)


def _drawable(text: str) -> str:
    """A user's own text, which may hold mathematics between dollar signs."""
    from matplotlib.mathtext import MathTextParser

    if text.count("$") - text.count(r"\$") < 2:
        return escape_math(text)
    try:
        MathTextParser("path").parse(text)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise TraceError(f"--label text {quote(text)!r} cannot be set as mathematics: {quote(reason)}") from None
    return text


def escape_math(text: str) -> str:
    """A text as it is: no dollar sign begins mathematics."""
    return quote(text, 60).replace("$", r"\$")
