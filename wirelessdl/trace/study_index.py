"""The index of a study: one row per planned run, in one Parquet file that is replaced as the study goes on.

What a row says is read from the run's own directory: its lock, its provenance, its summary. Only the error of a run
that never had a directory comes from elsewhere. Numbers are numbers here: the text "inf" of a summary becomes inf.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from wirelessdl.errors import TraceError, shown
from wirelessdl.trace.catalog import state_of
from wirelessdl.trace.checksums import changed_documents
from wirelessdl.trace.files import open_regular, read_figures, read_object_if_whole, write_whole
from wirelessdl.trace.lock import is_locked
from wirelessdl.trace.study import INDEX, MANIFEST, with_digest

SCENARIO, RUNS, STOP = "scenario.toml", "runs", "stop"
Status = Literal["planned", "running", "interrupted", "finished", "failed"]
STATUSES: tuple[Status, ...] = ("finished", "running", "interrupted", "failed", "planned")
_OWN = {"cell", "name", "baseline", "seed", "run", "status", "error", "path"}  # not overwritten by a summary


@dataclass(frozen=True)
class PlannedRun:
    """A run of a study: its place among cells, seeds and runs, and its directory within the study."""

    cell: str
    name: str | None
    baseline: str | None
    values: Mapping[str, Any]
    seed: int
    run: int

    @property
    def folder_name(self) -> str:
        return f"{self.cell}-s{self.seed}-r{self.run}"

    @property
    def path(self) -> str:
        return f"{RUNS}/{self.folder_name}"


@dataclass
class Row:
    """What is known of a planned run."""

    planned: PlannedRun
    status: Status = "planned"
    error: str | None = None
    figures: dict[str, Any] = field(default_factory=dict)


def task_lock(name: str) -> str:
    """Name of the lock, beside the run directories, that is held while a run is made or gone on with."""
    return f".{name}.lock"


def planned_in(manifest: Mapping[str, Any]) -> list[PlannedRun]:
    """The runs that a manifest plans."""
    try:
        return [
            PlannedRun(cell["cell"], cell["name"], cell["baseline"], dict(cell["values"]), seed, run)
            for cell in manifest["cells"]
            for seed in manifest["seeds"]
            for run in manifest["runs"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{MANIFEST}: was edited: {shown(repr(error), 80)}; restore it") from None


def status_of(study: Path, planned: PlannedRun) -> tuple[Status, str | None]:
    """How a run stands by its directory, and its error where it failed."""
    folder = study / planned.path
    if not (folder / "scenario.toml").is_file():
        return ("running" if is_locked(study / RUNS, task_lock(planned.folder_name)) else "planned"), None
    state = state_of(folder)
    if state == "done":
        edited = [line for line in changed_documents(folder) if line.startswith("summary.json")]
        if edited or not read_object_if_whole(folder / "summary.json"):
            problem = edited[0] if edited else "summary.json cannot be read"
            return "failed", f"{problem}; restore it, or remove the run's folder to run it again"
        return "finished", None
    if state == "failed":
        return "failed", _one_line(read_object_if_whole(folder / "provenance.json").get("error"))
    return ("running" if state == "running" else "interrupted"), None


def figures_of(study: Path, planned: PlannedRun) -> dict[str, Any]:
    """Every scalar of a run's summary; empty while there is none."""
    summary = read_figures(read_object_if_whole(study / planned.path / "summary.json"))
    # one copy of texts that all runs share: a driver keeps the figures of many
    return {
        sys.intern(key): sys.intern(value) if isinstance(value, str) else value
        for key, value in summary.items()
        if key not in _OWN and not isinstance(value, dict | list)
    }


def write_index(study: Path, varied: Sequence[str], rows: Iterable[Row]) -> None:
    """Replace the index; a reader sees the one before or this one."""
    table = with_digest(index_table(varied, rows))
    write_whole(study / INDEX, lambda handle: pq.write_table(table, handle, write_page_checksum=True))


def index_table(varied: Sequence[str], rows: Iterable[Row]) -> pa.Table:
    """One row per planned run."""
    rows = list(rows)
    columns: dict[str, pa.Array] = {}
    for name in ("cell", "name", "baseline"):
        columns[name] = pa.array([getattr(row.planned, name) for row in rows], pa.string())
    for key in varied:
        columns[key] = column([read_figures(row.planned.values).get(key) for row in rows])
    for name in ("seed", "run"):
        columns[name] = pa.array([getattr(row.planned, name) for row in rows], pa.int64())
    for name in ("status", "error"):
        columns[name] = pa.array([getattr(row, name) for row in rows], pa.string())
    columns["path"] = pa.array([row.planned.path for row in rows], pa.string())
    columns["wall_s"] = pa.array([row.figures.get("wall_s") for row in rows], pa.float64())
    for key in dict.fromkeys(key for row in rows for key in row.figures):
        if key not in columns:
            columns[key] = column([row.figures.get(key) for row in rows])
    return pa.table(columns)


def read_errors(study: Path) -> dict[str, str]:
    """Errors that the index tells of, by path: also those of runs that never had a directory."""
    try:
        with open_regular(study / INDEX) as handle:
            table = pq.ParquetFile(handle).read(columns=["path", "status", "error"]).to_pylist()
        return {str(row["path"]): str(row["error"]) for row in table if row["status"] == "failed" and row["error"]}
    except (OSError, pa.ArrowException, ValueError, KeyError):  # no columns of these names: another table in its place
        return {}


def column(values: Sequence[Any]) -> pa.Array:
    """Values as one Arrow column: truths, whole numbers, numbers, or else texts."""
    there = [value for value in values if value is not None]
    if not there:
        return pa.nulls(len(values))
    if all(isinstance(value, bool) for value in there):
        return pa.array(values, pa.bool_())
    if all(isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 for value in there):
        return pa.array(values, pa.int64())
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _text(value: Any) -> str:
    """A value among texts; a part in short, `dirichlet concentration=0.1`; a chain of them joined by `+`."""
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        return " + ".join(_text(item) for item in value)
    name = value.get("kind", value.get("model")) if isinstance(value, Mapping) else None
    if isinstance(name, str):
        return " ".join([name, *(f"{key}={item}" for key, item in value.items() if key not in ("kind", "model"))])
    return value if isinstance(value, str) else json.dumps(value)


def _one_line(error: Any) -> str:
    return shown(" ".join(str(error or "the run failed").split()), 1000)
