"""Reading a run: typed pandas frames.

    run = wirelessdl.open_run("outputs/quickstart-s7-r1")
    run.rounds.dropna(subset="accuracy_mean").plot(x="time_s", y="accuracy_mean")

Works while the run goes on: it shows what has been written so far.
"""

import json
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from wirelessdl.errors import TraceError
from wirelessdl.trace.schema import TABLES


def open_run(path: str | Path) -> "Run":
    """The run in a directory."""
    folder = Path(path)
    if not (folder / "scenario.toml").is_file():
        what = "not a run directory (no scenario.toml)" if folder.is_dir() else "no such folder"
        raise TraceError(f"{path}: {what}; name a folder that `wirelessdl run` made")
    return Run(folder)


class Run:
    """One run directory. Frames are read when asked for, and then kept."""

    def __init__(self, path: Path):
        self.path = path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per round."""
        return self._frame("rounds")

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """One row per node and round."""
        return self._frame("nodes")

    @cached_property
    def links(self) -> pd.DataFrame:
        """One row per link and round."""
        return self._frame("links")

    @cached_property
    def events(self) -> pd.DataFrame:
        """What happened when."""
        return self._frame("events")

    @cached_property
    def privacy(self) -> pd.DataFrame:
        """Totals per sender (proven) and per link (the paper's claim)."""
        return self._frame("privacy")

    @property
    def summary(self) -> dict[str, Any]:
        """Final figures; empty while the run goes on."""
        return self._json("summary.json")

    @property
    def provenance(self) -> dict[str, Any]:
        """Versions, machine, command, code."""
        return self._json("provenance.json")

    @property
    def scenario(self) -> dict[str, Any]:
        """The resolved scenario as nested tables."""
        return tomllib.loads((self.path / "scenario.toml").read_text(encoding="utf-8"))

    def table(self, name: str, columns: list[str] | None = None) -> pa.Table:
        """One table as Arrow, its field metadata with unit and meaning."""
        schema = TABLES[name]
        if columns is not None:
            schema = pa.schema([schema.field(column) for column in columns])
        parts = sorted((self.path / name).glob("part-*.parquet"))
        if not parts:
            return schema.empty_table()
        # a file at a time: parts agree by construction, and one that does not is named
        tables = [_read(part, columns, schema) for part in parts]
        return pa.concat_tables(tables).unify_dictionaries()

    def _frame(self, name: str) -> pd.DataFrame:
        frame: pd.DataFrame = self.table(name).to_pandas()
        return frame

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        if not path.is_file():
            return {}
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content


def _read(part: Path, columns: list[str] | None, schema: pa.Schema) -> pa.Table:
    try:
        table = pq.ParquetFile(part).read(columns=columns)
        return table.cast(schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise TraceError(f"{part}: cannot be read: {reason}") from error
