"""Reading a run: typed pandas frames.

    run = wirelessdl.open_run("outputs/quickstart-s7-r1")
    run.rounds.dropna(subset="accuracy_mean").plot(x="time_s", y="accuracy_mean")

Works while the run goes on: it shows what has been written so far.
"""

import json
import tomllib
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from wirelessdl.errors import TraceError
from wirelessdl.trace.parts import Parts, find_parts, read_parts
from wirelessdl.trace.schema import TABLES


def open_run(path: str | Path, *, strict: bool = True) -> "Run":
    """The run in a directory. `strict=False` reads what can be read of a damaged one, with warnings."""
    folder = Path(path)
    if not (folder / "scenario.toml").is_file():
        what = "not a run directory (no scenario.toml)" if folder.is_dir() else "no such folder"
        raise TraceError(f"{path}: {what}; name a folder that `wirelessdl run` made")
    return Run(folder, strict=strict)


class Run:
    """One run directory. Frames are read when asked for, and then kept."""

    def __init__(self, path: Path, *, strict: bool = True):
        self.path, self._strict = path, strict

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

    def regret(self) -> pd.DataFrame:
        """R_j(T) of Theorem 2: rounds by nodes, running sums of F(x_j) - F(x*)."""
        excess = self.table("nodes", ["round", "node", "excess_loss"]).to_pandas()
        if excess["excess_loss"].isna().all():
            raise TraceError(f"{self.path}: the optimum was not traced; set learning.regret = true (ridge, logistic)")
        wide: pd.DataFrame = excess.pivot(index="round", columns="node", values="excess_loss").cumsum()
        return wide

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
        path = self.path / "scenario.toml"
        try:
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise TraceError(f"{path}: cannot be read: {error}") from None

    def table(self, name: str, columns: list[str] | None = None) -> pa.Table:
        """One table as Arrow, its field metadata with unit and meaning."""
        schema = TABLES[name]
        if columns is not None:
            schema = pa.schema([schema.field(column) for column in columns])
        parts = find_parts(self.path, name)
        problems = [*parts.problems, *self._cut_short(name, parts)]
        table, damaged = read_parts(parts.paths, schema)
        problems += damaged
        if problems and self._strict:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise TraceError(f"{problems[0]}{more}; open_run(path, strict=False) reads the rest")
        for problem in problems:
            warnings.warn(problem, stacklevel=2)
        return table

    def _cut_short(self, name: str, parts: Parts) -> list[str]:
        """Whether a table ends before the run did; `rounds` is written last, so others are never behind it."""
        if parts.problems or (name == "links" and self.scenario["trace"]["links"] == "none"):
            return []
        done = self.summary.get("rounds", 0)
        if name == "privacy":
            return [f"{self.path / name}: is missing; it was deleted"] if done and not parts.paths else []
        end = done if name == "rounds" else max(done, find_parts(self.path, "rounds").last_round)
        if parts.last_round >= end:
            return []
        return [f"{self.path / name}: rounds {parts.last_round + 1} to {end} are missing; a part was deleted"]

    def _frame(self, name: str) -> pd.DataFrame:
        frame: pd.DataFrame = self.table(name).to_pandas()
        return frame

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        if not path.is_file():
            return {}
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise TraceError(f"{path}: cannot be read: {error}") from None
        if not isinstance(content, dict):
            raise TraceError(f"{path}: holds no JSON object")
        return content
