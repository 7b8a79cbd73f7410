"""A study to one HTML file: its cells as a table, families, learning curves in small multiples, the way to each run.

Means and intervals are computed here; the page's script only groups and draws them. All texts of a study are data: they
stand in JSON that cannot end its element, and the script writes them as text.
"""

import math
import os
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote as quote_url

import numpy as np
import pandas as pd

from wirelessdl.analysis.families import CURVE_COLUMNS, adversary_of_rows, curve_frame, scenario_name
from wirelessdl.analysis.report import made_page, one_line, require_writable
from wirelessdl.analysis.report.content import numbers, thinned
from wirelessdl.analysis.runs import adjacency_of, common_rounds, format_value, mean_band
from wirelessdl.analysis.study_tables import COLUMNS, cell_name, study_differences
from wirelessdl.errors import TraceError, quote
from wirelessdl.trace.files import read_regular, write_text
from wirelessdl.trace.soundness import require_sound
from wirelessdl.trace.study import Study, inside, mean_interval, open_study

_MAX_POINTS = 60_000  # of all learning curves on a page
_MAX_RUNS = 2_000  # whose tables are read for curves
_MAX_CELLS = 5_000  # rows of the table
_FACTS = ("scenario_sha256", "created", "seeds", "runs")  # of the manifest, in text
# results that axes can show, where runs have them
_FIGURES = ("accuracy_mean", "accuracy_min", "epsilon", "time_s", "airtime_s", "energy_j", "epsilon_link_total")


def write_study_report(path: str | Path, out: Path) -> Path:
    """A page of a study, whole or absent."""
    require_writable(out)
    write_text(out, render_study(open_study(path), out))
    return out


def render_study(study: Study, out: Path) -> str:
    """The page as text; links to reports of runs are relative to `out`."""
    content = study_content(study, out)
    index, manifest = study.index, study.manifest
    counts = index["status"].value_counts().to_dict()
    failed = index[index["status"] == "failed"]
    packages = manifest.get("versions")
    versions = {f"version of {key}": one for key, one in packages.items()} if isinstance(packages, dict) else {}
    return made_page(
        "study.html",
        ("base.js", "save.js", "study.js"),
        content,
        title=quote(manifest["name"]),
        scenario=quote(manifest.get("scenario", "")),
        counts={state: counts.get(state, 0) for state in ("finished", "running", "interrupted", "planned", "failed")},
        runs=len(index),
        cells=len(content["cells"]),
        seeds=len(manifest["seeds"]),
        adjacency=adjacency_of(study),
        varied={key: ", ".join(_distinct(index, key)) for key in study.varied},
        baselines=[quote(name) for name in index["baseline"].dropna().unique()],
        failures=[
            (quote(row["path"]), quote("" if pd.isna(row["error"]) else row["error"]))
            for _, row in failed.head(20).iterrows()
        ],
        more_failures=max(0, len(failed) - 20),
        notes=content["notes"],
        path=quote(shlex.quote(str(study.path))),
        toml=_scenario_text(study),
        facts={
            key: quote(one_line(value), 400)
            for key, value in {**{key: manifest.get(key) for key in _FACTS}, **versions}.items()
            if value is not None
        },
    )


def study_content(study: Study, out: Path) -> dict[str, Any]:
    """What the page's script draws, as plain values."""
    index = study.index
    figures = [
        name
        for name in _FIGURES
        if name in index and pd.api.types.is_numeric_dtype(index[name]) and index[name].notna().any()
    ]
    notes: list[str] = []
    groups = list(index.groupby("cell", sort=False))
    if len(groups) > _MAX_CELLS:
        notes.append(f"the page holds the first {_MAX_CELLS:,} of {len(groups):,} cells")
    differences = _differences(study)
    switches = [key for key in study.varied if pd.api.types.is_bool_dtype(index[key])]
    cells = []
    for cell, rows in groups[:_MAX_CELLS]:
        first, done = rows.iloc[0], rows[rows["status"] == "finished"]
        cells.append(
            {
                "cell": str(cell),
                "label": cell_name(cell, first, study.varied),
                "baseline": None if pd.isna(first["baseline"]) else str(first["baseline"]),
                "name": None if pd.isna(first["name"]) else str(first["name"]),
                "values": {
                    key: v if isinstance(v := first[key], str) else bool(v) if key in switches else _number(v)
                    for key in study.varied
                },
                "planned": len(rows),
                "finished": len(done),
                "stats": {name: _stats(done[name]) for name in figures},
                "adversary": adversary_of_rows(done) if _promises(done) else None,
                "difference": differences.get(str(cell)),
                "runs": [_run(study, row, out) for _, row in rows.iterrows()],
            }
        )
    return {
        "runs": [],  # the other kind of page has these
        "keys": [key for key in study.varied if index.loc[index["baseline"].isna(), key].nunique(dropna=False) > 1],
        "varied": study.varied,
        "scenario": quote(scenario_name(study), 60),
        "numeric": [key for key in study.varied if key not in switches and pd.api.types.is_numeric_dtype(index[key])],
        "figures": [{"name": name, "words": _words(name)} for name in figures],
        "against": [{"name": name, "words": _words(column)} for name, column in CURVE_COLUMNS.items()],
        "cells": cells,
        "reference": next((one["reference"] for one in differences.values()), None),
        "curves": _curves(study, notes),
        "notes": notes,
    }


def _promises(done: pd.DataFrame) -> bool:
    """Whether runs promise a finite epsilon of what they send."""
    return "epsilon" in done and bool(done["epsilon"].between(0, math.inf, inclusive="neither").any())


def _differences(study: Study) -> dict[str, dict[str, Any]]:
    """Accuracy of each cell less that of its reference, by cell; empty where there is no baseline to compare with."""
    if study.finished["baseline"].isna().all() or "accuracy_mean" not in study.finished:
        return {}
    try:
        found = study_differences(study, "accuracy_mean")
    except TraceError:
        return {}
    return {
        one.cell: {
            "reference": one.reference.partition(",")[0],
            "mean": _finite(one.difference),
            "low": _finite(one.low),
            "high": _finite(one.high),
            "n": one.n,
        }
        for one in found
    }


def _run(study: Study, row: Any, out: Path) -> dict[str, Any]:
    """A run of a cell: where its report is, or the command that makes it."""
    folder = inside(study.path, row["path"])
    report = folder / "report.html"
    link = None
    if report.is_file() and not report.is_symlink():
        # a leading ./ keeps a name with a colon from being read as a scheme
        link = "./" + quote_url(os.path.relpath(report.resolve(), out.parent.resolve()))
    return {
        "seed": int(row["seed"]),
        "run": int(row["run"]),
        "status": row["status"],
        "error": None if pd.isna(row["error"]) else quote(row["error"]),
        "accuracy": _finite(row.get("accuracy_mean")),
        "epsilon": _number(row.get("epsilon")),
        "report": link,
        "command": f"wirelessdl report {shlex.quote(str(folder))}" if row["status"] != "planned" else None,
    }


def _curves(study: Study, notes: list[str]) -> dict[str, Any]:
    """Learning curves of every cell: mean accuracy and loss with their intervals, over every axis."""
    rows = study.finished
    if len(rows) > _MAX_RUNS:
        notes.append(f"learning curves are those of the first {_MAX_RUNS:,} of {len(rows):,} finished runs")
        rows = rows.head(_MAX_RUNS)
    groups = list(rows.groupby("cell", sort=False))
    points = max(10, min(300, _MAX_POINTS // max(1, len(groups))))
    found, unreadable, bound = {}, 0, False
    for cell, part in groups:
        try:
            frames, exact = zip(*(curve_frame(require_sound(study.run(path))) for path in part["path"]))
        except TraceError:
            unreadable += 1
            continue
        bound |= not all(exact)
        kept = common_rounds(frames)
        if len(kept[0]):
            found[str(cell)] = _curve(kept, points)
    if unreadable:
        notes.append(f"{unreadable} cells have no learning curves: a run of theirs cannot be read (wirelessdl verify)")
    if bound:
        notes.append("epsilon along a curve is the running bound where totals were not composed at every evaluation")
    return found


def _curve(frames: list[pd.DataFrame], points: int) -> dict[str, Any]:
    """Means over runs of the axes, and of accuracy and loss with their intervals."""
    kept = thinned(len(frames[0]), points)
    entry: dict[str, Any] = {"n": len(frames)}
    for name, column in CURVE_COLUMNS.items():
        entry[name] = numbers(np.mean([frame[column] for frame in frames], axis=0, dtype=float)[kept])
    for name in ("accuracy", "loss"):
        mean, half = mean_band(np.array([frame[f"{name}_mean"] for frame in frames]))
        ends = {"mean": mean, "low": mean - half, "high": mean + half}
        entry[name] = {end: numbers(values[kept]) for end, values in ends.items()}
    return entry


def _stats(values: "pd.Series[float]") -> list[Any]:
    mean, low, high, n = mean_interval(values.dropna().astype(float))
    return [_number(mean), _finite(low), _finite(high), n]


def _number(value: Any) -> float | None:
    """Ten digits; None for what is not there."""
    return None if value is None or pd.isna(value) else float(f"{float(value):.10g}")


def _finite(value: Any) -> float | None:
    number = _number(value)
    return number if number is None or math.isfinite(number) else None


def _words(name: str) -> str:
    return "guaranteed total ε" if name == "epsilon" else COLUMNS.get(name, name)


def _distinct(index: pd.DataFrame, key: str) -> list[str]:
    values = index.loc[index["baseline"].isna(), key].drop_duplicates()
    texts = [quote(format_value(value), 60) for value in values if not pd.isna(value)]
    return [*texts[:30], f"and {len(texts) - 30} more"] if len(texts) > 30 else texts


def _scenario_text(study: Study) -> str:
    try:
        return read_regular(study.path / "scenario.toml").decode(errors="replace")[:200_000]
    except OSError:
        return ""
