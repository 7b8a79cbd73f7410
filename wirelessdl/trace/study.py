"""Reading a study: many runs of one scenario, indexed in one table.

    study = wirelessdl.open_study("outputs/tradeoff")
    study.index[["network.nodes", "seed", "status", "accuracy_mean", "epsilon_total"]]
    study.mean(by=["network.nodes", "privacy.epsilon_max"], of="accuracy_mean")

The interval of a mean is Student's, mean +- t s / sqrt(n) with n - 1 degrees of freedom: the uncertainty of the mean
over runs of one cell, not their spread.

A study directory may come from a stranger. Its manifest and index are checked before anything is read by them, and a
path in the index that leads out of the directory is refused. Works while the study goes on.

The manifest holds a digest of its other entries, the index one of its columns' names and types: Parquet checks its
pages, not what it says about them.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wirelessdl.errors import TraceError, nearest, require_name, shown
from wirelessdl.trace.files import open_regular, plain, read_object
from wirelessdl.trace.run import Run, is_count, open_run

if TYPE_CHECKING:
    import pandas as pd

MANIFEST, INDEX = "study.json", "index.parquet"
SCHEMA = 1
STATES = ("planned", "running", "interrupted", "finished", "failed")
_TEXTS = ("cell", "name", "baseline", "status", "error", "path")
_MOST_BYTES = 1 << 28  # of the manifest
_MOST_COLUMNS = 2000
_DIGEST = "sha256"  # entry of the manifest
_COLUMNS = b"wirelessdl.columns"  # entry of the index's metadata
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
        return _index(self.path / INDEX, self.manifest, self.path)

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
        return resolved(name, columns, f"{shown(self.path)}: the study has no column")

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
            raise TraceError(f"{shown(self.path)}: column {shown(column)} holds texts; name one that holds numbers")
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
        raise TraceError(f"{complaint} {shown(name)!r}; it may be {' or '.join(map(shown, last))}: write it in full")
    raise TraceError(f"{complaint} {shown(name)!r}{shown(nearest(name, columns), 2000)}")


def inside(study: Path, path: str) -> Path:
    """A path of the index within the study; raises where it leads out of it, also by a link."""
    pure = PurePosixPath(path)
    if not path or "\0" in path or pure.is_absolute() or ".." in pure.parts:
        raise TraceError(f"{shown(study / INDEX)}: path {shown(path, 80)} leads out of the study; it was edited")
    folder = study / path
    if not folder.resolve().is_relative_to(study.resolve()):
        raise TraceError(f"{shown(study / INDEX)}: path {shown(path, 80)} is a link out of the study; it was edited")
    return folder


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest with a digest of its entries, as JSON holds them."""
    return {**content, _DIGEST: _digest_of(content)}


def require_sealed(content: Mapping[str, Any], path: Path) -> None:
    """Raise where a manifest has a digest that its entries do not have."""
    if content.get(_DIGEST, (digest := _digest_of(content))) != digest:
        raise TraceError(f"{shown(path)}: was edited: its entries do not have its sha256; restore it")


def _digest_of(content: Mapping[str, Any]) -> str:
    entries = {key: value for key, value in content.items() if key != _DIGEST}
    return hashlib.sha256(json.dumps(plain(entries), sort_keys=True).encode()).hexdigest()


def with_digest(table: pa.Table) -> pa.Table:
    """An index that says which columns it has."""
    return table.replace_schema_metadata({_COLUMNS: _columns_digest(table.schema)})


def _columns_digest(schema: pa.Schema) -> bytes:
    text = schema.to_string(show_schema_metadata=False, show_field_metadata=False)
    return hashlib.sha256(text.encode()).hexdigest().encode()


def read_manifest(folder: Path) -> dict[str, Any]:
    """study.json of a study, its entries checked."""
    path = folder / MANIFEST
    if not is_study(folder):
        what = f"not a study (no {MANIFEST})" if folder.is_dir() else "no such folder"
        raise TraceError(f"{shown(folder)}: {what}; name a folder that `wirelessdl sweep` made")
    if path.stat().st_size > _MOST_BYTES:
        raise TraceError(f"{shown(path)}: cannot be read: is larger than {_MOST_BYTES >> 20} MB")
    content = read_object(path)
    if content.get("schema") != SCHEMA:
        raise TraceError(
            f"{shown(path)}: schema is {shown(content.get('schema'), 40)}, this version reads {SCHEMA}; use the "
            "wirelessdl that wrote it"
        )
    require_sealed(content, path)
    rules: dict[str, tuple[Callable[[Any], bool], str]] = {
        "name": (_is_text, "a text"),
        "varied": (lambda v: _is_list(v, _is_text) and len(set(v)) == len(v), "a list of different keys"),
        "cells": (lambda v: _is_list(v, _is_cell), "a list of cells, each an object with a text 'cell'"),
        "seeds": (lambda v: _is_list(v, is_count), "a list of whole numbers"),
        "runs": (lambda v: _is_list(v, is_count), "a list of whole numbers"),
    }
    for key, (rule, words) in rules.items():
        if not rule(content.get(key)):
            raise TraceError(f"{shown(path)}: {key} is {shown(content.get(key), 60)}; must be {words}: it was edited")
    return content


def _index(path: Path, manifest: dict[str, Any], study: Path) -> "pd.DataFrame":
    table = _table(path, manifest, study)
    for problem in _index_problems(table, manifest):
        raise TraceError(f"{shown(path)}: {problem}; it was damaged or edited")
    try:
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    except (pa.ArrowException, ValueError) as error:
        raise TraceError(f"{shown(path)}: cannot be read: {shown(error)}") from None
    for name in frame["path"]:
        inside(study, name)
    return with_epsilon(frame)


def _table(path: Path, manifest: dict[str, Any], study: Path, columns: list[str] | None = None) -> pa.Table:
    """The index, or columns of it; nothing is read by a number of rows that the manifest does not bear out."""
    most = len(manifest["cells"]) * len(manifest["seeds"]) * len(manifest["runs"])
    try:
        with open_regular(path) as handle:
            stored = pq.ParquetFile(handle, page_checksum_verification=True)
            if stored.metadata.num_rows > most or stored.metadata.num_columns > _MOST_COLUMNS:
                raise ValueError(f"has {stored.metadata.num_rows} rows, {MANIFEST} plans {most} runs")
            said = (stored.schema_arrow.metadata or {}).get(_COLUMNS)
            if said is not None and said != _columns_digest(stored.schema_arrow):
                raise ValueError("names other columns than were written")
            return stored.read(columns=columns)
    except FileNotFoundError:
        raise TraceError(
            f"{shown(path)}: is missing; resume the study, which writes it: wirelessdl sweep --resume {shown(study)}"
        ) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TraceError(f"{shown(path)}: cannot be read: {shown(' '.join(str(error).split()))}") from None


def study_counts(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Manifest of a study, and how many runs have each status; without pandas."""
    manifest = read_manifest(path)
    table = _table(path / INDEX, manifest, path, ["status"])
    found = table["status"].to_pylist() if table.num_columns else []
    return manifest, {state: found.count(state) for state in STATES}


def _index_problems(table: pa.Table, manifest: dict[str, Any]) -> Iterator[str]:
    names = table.column_names
    if len(set(names)) != len(names):
        yield "names a column twice"
        return
    for name in (*_TEXTS, "seed", "run", *manifest["varied"]):
        if name not in names:
            yield f"column {shown(name, 60)} is missing"
            return
    for field in table.schema:
        kind = field.type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        fine = text if field.name in _TEXTS else number if field.name in ("seed", "run") else text or number
        if not fine and not (pa.types.is_null(kind) and field.name not in ("cell", "status", "path", "seed", "run")):
            yield f"column {shown(field.name, 60)} holds {shown(kind, 60)}"
            return
    for name in ("cell", "status", "path", "seed", "run"):
        if table[name].null_count:
            yield f"column {name} has empty fields"
            return
    cells = {cell["cell"] for cell in manifest["cells"]}
    for name, allowed in (("status", set(STATES)), ("cell", cells)):
        strange = set(table[name].unique().to_pylist()) - allowed
        if strange:
            yield f"{name} {shown(min(strange), 40)} is unknown"


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


def _is_cell(value: Any) -> bool:
    return isinstance(value, dict) and _is_text(value.get("cell"))


def _is_list(value: Any, rule: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(rule(item) for item in value)
