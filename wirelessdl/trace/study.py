"""Reading a study: many runs of one scenario, indexed in one table.

    study = wirelessdl.open_study("outputs/tradeoff")
    study.index[["network.nodes", "seed", "status", "accuracy_mean", "epsilon_total"]]
    study.mean(by=["network.nodes", "privacy.epsilon_max"], of="accuracy_mean")

The interval of a mean is Student's, mean +- t s / sqrt(n) with n - 1 degrees of freedom: the uncertainty of the mean
over runs of one cell, not their spread.

A study directory may come from an untrusted source. Its manifest and index are checked before anything is read by
them, and a path in the index that leads out of the directory is refused. Works while the study goes on.

The index is one Parquet file, one row per planned run, that is replaced as the study goes on. What a row says is read
from the run's own directory: its lock, its provenance, its summary. Only the error of a run that never had a directory
comes from elsewhere. The manifest holds a digest of its other entries.
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wirelessdl.errors import TraceError, nearest, quote, require_name
from wirelessdl.trace.files import is_locked, open_regular, plain, read_object, read_object_if_whole, write_whole
from wirelessdl.trace.run import Run, open_run, state_of
from wirelessdl.trace.sink import changed_documents
from wirelessdl.trace.soundness import is_count

if TYPE_CHECKING:
    import pandas as pd

MANIFEST, INDEX, SCENARIO, RUNS, STOP = "study.json", "index.parquet", "scenario.toml", "runs", "stop"
SCHEMA = 1
Status = Literal["planned", "running", "interrupted", "finished", "failed"]
STATUSES: tuple[Status, ...] = ("finished", "running", "interrupted", "failed", "planned")
_TEXTS = ("cell", "name", "baseline", "status", "error", "path")
_FILLED = ("cell", "status", "path", "seed", "run")  # columns without empty fields
_OWN_COLUMNS = {*_TEXTS, "seed", "run"}  # not overwritten by a summary
_MAX_MANIFEST_BYTES = 1 << 28
_MAX_COLUMNS = 2000
_DIGEST = "sha256"  # entry of the manifest
_INFINITE = {"inf": math.inf, "-inf": -math.inf}  # as the manifest has them
# endings that a name may leave out: accuracy is accuracy_mean, epsilon the promised total, energy energy_j
_ENDINGS = ("", "_mean", "_total", "_j", "_s", "_db")


def is_study(path: str | Path) -> bool:
    """Whether a folder says that it is a study."""
    return (Path(path) / MANIFEST).is_file()


def open_study(path: str | Path) -> "Study":
    """The study in a directory; one clear line where its manifest or index is not what `wirelessdl sweep` writes."""
    require_name(path, TraceError)
    study = Study(Path(path), read_manifest(Path(path)))
    study.index  # noqa: B018  checked once, here
    return study


class Study:
    """One study directory: `manifest`, the keys `varied`, and `index`, one row per planned run."""

    def __init__(self, path: Path, manifest: dict[str, Any]):
        self.path, self.manifest = path, manifest

    def __repr__(self) -> str:
        return f"Study({str(self.path)!r})"

    @property
    def varied(self) -> list[str]:
        """The dotted keys in which cells differ, in the order in which they were given."""
        return list(self.manifest["varied"])

    @cached_property
    def index(self) -> "pd.DataFrame":
        """One row per planned run: cell, varied keys, seed, run, status, path, and every figure of its summary.

        `epsilon` is added: the promised total of a run, at the declared number of rounds where a rule may have
        stopped it before, as `wirelessdl compare` shows it.
        """
        path = self.path / INDEX
        table = _read_index(self.path, self.manifest)
        for problem in _index_problems(table, self.manifest):
            raise TraceError(f"{quote(path)}: {problem}; it was damaged or edited")
        try:
            frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
        except (pa.ArrowException, ValueError) as error:
            raise TraceError(f"{quote(path)}: cannot be read: {quote(error)}") from None
        for name in frame["path"]:
            inside(self.path, name)
        return with_epsilon(frame)

    @property
    def finished(self) -> "pd.DataFrame":
        """The rows of runs that are done."""
        return self.index[self.index["status"] == "finished"]

    def runs(self) -> list[Run]:
        """The finished runs, opened, in the order of the index."""
        return [self.run(path) for path in self.finished["path"]]

    def run(self, path: str) -> Run:
        """The run at a path of the index."""
        return open_run(inside(self.path, path))

    def column(self, name: str, known: Sequence[str] | None = None) -> str:
        """A column of the index by its name, or a short one: accuracy is accuracy_mean, nodes network.nodes."""
        columns = [str(column) for column in self.index.columns] if known is None else list(known)
        return resolved(name, columns, f"{quote(self.path)}: the study has no column")

    def mean(self, by: Sequence[str], of: str = "accuracy_mean") -> "pd.DataFrame":
        """Mean of a column over the finished runs of each group: by..., mean, low, high (95%, Student's t), n.

        Baselines are left out unless `baseline` is one of `by`. One run alone has no interval: low and high are null.
        """
        import pandas as pd

        keys, column = [self.column(name) for name in by], self.column(of)
        rows = self.finished
        if "baseline" not in keys:
            rows = rows[rows["baseline"].isna()]
        if not pd.api.types.is_numeric_dtype(rows[column]):
            raise TraceError(f"{quote(self.path)}: column {quote(column)} holds texts; name one that holds numbers")
        rows = rows.dropna(subset=[column])
        groups: Any = rows.groupby(keys, dropna=False, sort=True) if keys else [((), rows)]
        found = [(*group, *mean_interval(part[column].to_numpy(dtype=float))) for group, part in groups]
        return pd.DataFrame(found, columns=[*keys, "mean", "low", "high", "n"])


def mean_interval(values: Any) -> tuple[float, float, float, int]:
    """Mean, lower and upper end of its 95% interval, and n; NaN ends for one value, or where one is infinite."""
    from scipy.special import stdtrit  # Student's quantile; scipy.stats takes half a second to load

    values = np.asarray(values, dtype=float)
    count = len(values)
    if not count:
        return math.nan, math.nan, math.nan, 0
    if not np.isfinite(values).all():
        return float(values.sum()), math.nan, math.nan, count  # inf, or NaN where both infinities meet
    mean = float(values.mean())
    if count < 2:
        return mean, math.nan, math.nan, count
    half = float(stdtrit(count - 1, 0.975) * values.std(ddof=1) / math.sqrt(count))
    return mean, mean - half, mean + half, count


def resolved(name: str, columns: Sequence[str], complaint: str) -> str:
    """The column that a name stands for: itself, with an ending left out, or the last part of a dotted key."""
    for ending in _ENDINGS:
        if name + ending in columns:
            return name + ending
    last = [column for column in columns if "." in column and column.rpartition(".")[2] == name]
    if len(last) == 1:
        return last[0]
    if last:
        raise TraceError(f"{complaint} {quote(name)!r}; it may be {' or '.join(map(quote, last))}: write it in full")
    raise TraceError(f"{complaint} {quote(name)!r}{quote(nearest(name, columns), 2000)}")


def inside(study: Path, path: str) -> Path:
    """A path of the index within the study; raises where it leads out of it, also by a link."""
    pure = PurePosixPath(path)
    if not path or "\0" in path or pure.is_absolute() or ".." in pure.parts:
        raise TraceError(f"{quote(study / INDEX)}: path {quote(path, 80)} leads out of the study; it was edited")
    folder = study / path
    if not folder.resolve().is_relative_to(study.resolve()):
        raise TraceError(f"{quote(study / INDEX)}: path {quote(path, 80)} is a link out of the study; it was edited")
    return folder


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest with a digest of its entries, as JSON holds them."""
    return {**content, _DIGEST: _digest_of(content)}


def _digest_of(content: Mapping[str, Any]) -> str:
    entries = {key: value for key, value in content.items() if key != _DIGEST}
    return hashlib.sha256(json.dumps(plain(entries), sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """study.json of a study, its entries checked."""
    path = folder / MANIFEST
    if not is_study(folder):
        what = f"not a study (no {MANIFEST})" if folder.is_dir() else "no such folder"
        raise TraceError(f"{quote(folder)}: {what}; name a folder that `wirelessdl sweep` made")
    if path.stat().st_size > _MAX_MANIFEST_BYTES:
        raise TraceError(f"{quote(path)}: cannot be read: is larger than {_MAX_MANIFEST_BYTES >> 20} MB")
    content = read_object(path)
    if content.get("schema") != SCHEMA:
        raise TraceError(
            f"{quote(path)}: schema is {quote(content.get('schema'), 40)}, this version reads {SCHEMA}; use the "
            "wirelessdl that wrote it"
        )
    if content.get(_DIGEST, (digest := _digest_of(content))) != digest:
        raise TraceError(f"{quote(path)}: was edited: its entries do not have its sha256; restore it")

    def is_cell(value: Any) -> bool:
        return isinstance(value, dict) and _is_text(value.get("cell"))

    rules: dict[str, tuple[Callable[[Any], bool], str]] = {
        "name": (_is_text, "a text"),
        "varied": (lambda v: _is_list(v, _is_text) and len(set(v)) == len(v), "a list of different keys"),
        "cells": (lambda v: _is_list(v, is_cell), "a list of cells, each an object with a text 'cell'"),
        "seeds": (lambda v: _is_list(v, is_count), "a list of whole numbers"),
        "runs": (lambda v: _is_list(v, is_count), "a list of whole numbers"),
    }
    for key, (rule, words) in rules.items():
        if not rule(content.get(key)):
            raise TraceError(f"{quote(path)}: {key} is {quote(content.get(key), 60)}; must be {words}: it was edited")
    return content


def _read_index(study: Path, manifest: dict[str, Any], columns: list[str] | None = None) -> pa.Table:
    """The index, or columns of it; nothing is read by a number of rows that the manifest does not bear out."""
    path, most = study / INDEX, len(manifest["cells"]) * len(manifest["seeds"]) * len(manifest["runs"])
    try:
        with open_regular(path) as handle:
            stored = pq.ParquetFile(handle, page_checksum_verification=True)
            if stored.metadata.num_rows > most or stored.metadata.num_columns > _MAX_COLUMNS:
                raise ValueError(f"has {stored.metadata.num_rows} rows, {MANIFEST} plans {most} runs")
            return stored.read(columns=columns)
    except FileNotFoundError:
        raise TraceError(
            f"{quote(path)}: is missing; resume the study, which writes it: wirelessdl sweep --resume {quote(study)}"
        ) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TraceError(f"{quote(path)}: cannot be read: {quote(' '.join(str(error).split()))}") from None


def study_counts(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Manifest of a study, and how many runs have each status; without pandas."""
    manifest = read_manifest(path)
    table = _read_index(path, manifest, ["status"])
    if not table.num_columns:
        raise TraceError(f"{quote(path / INDEX)}: has no column status; it was damaged or edited")
    found = table["status"].to_pylist()
    return manifest, {state: found.count(state) for state in STATUSES}


def _index_problems(table: pa.Table, manifest: dict[str, Any]) -> Iterator[str]:
    names = table.column_names
    if len(set(names)) != len(names):
        yield "names a column twice"
        return
    for name in (*_TEXTS, "seed", "run", *manifest["varied"]):
        if name not in names:
            yield f"column {quote(name, 60)} is missing"
            return
    for given in table.schema:
        kind = given.type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        fine = text if given.name in _TEXTS else number if given.name in ("seed", "run") else text or number
        if not fine and not (pa.types.is_null(kind) and given.name not in _FILLED):
            yield f"column {quote(given.name, 60)} holds {quote(kind, 60)}"
            return
    for name in _FILLED:
        if table[name].null_count:
            yield f"column {name} has empty fields"
            return
    cells = {cell["cell"] for cell in manifest["cells"]}
    for name, allowed in (("status", set(STATUSES)), ("cell", cells)):
        strange = set(table[name].unique().to_pylist()) - allowed
        if strange:
            yield f"{name} {quote(min(strange), 40)} is unknown"


def with_epsilon(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The frame with the promised total of every run, at the declared number of rounds where there is one."""
    import pandas as pd

    if "epsilon" in frame or "epsilon_total" not in frame:
        return frame
    total = pd.to_numeric(frame["epsilon_total"], errors="coerce")
    if "epsilon_declared" in frame:
        total = pd.to_numeric(frame["epsilon_declared"], errors="coerce").fillna(total)
    return frame.assign(epsilon=total)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 4096 and "\0" not in value


def _is_list(value: Any, rule: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(rule, value))


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
        error = read_object_if_whole(folder / "provenance.json").get("error")
        return "failed", quote(" ".join(str(error or "the run failed").split()), 1000)
    return ("running" if state == "running" else "interrupted"), None


def figures_of(study: Path, planned: PlannedRun) -> dict[str, Any]:
    """Every scalar of a run's summary; empty while there is none."""
    summary = read_object_if_whole(study / planned.path / "summary.json")
    scalars = {key: value for key, value in summary.items() if not isinstance(value, dict | list)}
    return interned({key: value for key, value in scalars.items() if key not in _OWN_COLUMNS})


def interned(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The same with one copy of names and texts that all runs share: a driver keeps the figures of many."""
    return {sys.intern(key): sys.intern(value) if isinstance(value, str) else value for key, value in figures.items()}


def write_index(study: Path, varied: Sequence[str], rows: Iterable[Row]) -> None:
    """Replace the index; a reader sees the one before or this one."""
    table = index_table(varied, rows)
    write_whole(study / INDEX, lambda handle: pq.write_table(table, handle, write_page_checksum=True))


def index_table(varied: Sequence[str], rows: Iterable[Row]) -> pa.Table:
    """One row per planned run."""
    rows = list(rows)
    columns: dict[str, pa.Array] = {}
    for name in ("cell", "name", "baseline"):
        columns[name] = pa.array([getattr(row.planned, name) for row in rows], pa.string())
    for key in varied:
        given = [row.planned.values.get(key) for row in rows]
        columns[key] = column([_INFINITE.get(value, value) if isinstance(value, str) else value for value in given])
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
