"""The writer of a run directory: Parquet parts, whole or absent, one per table and flush.

A part is named by the last round it holds, so parts written after a round can be found by name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from wirelessdl.errors import TraceError
from wirelessdl.trace.files import write_json, write_text, write_whole
from wirelessdl.trace.schema import TABLES, part_schema

MODELS = "models"  # copies of the user's files, in the run directory


def create_run_folder(parent: Path, name: str) -> Path:
    """A new folder `name`, or `name-2`, `name-3`, ... where that exists; nothing is ever overwritten."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            folder = parent / (name if number == 1 else f"{name}-{number}")
            try:
                folder.mkdir()
                return folder
            except FileExistsError:
                number += 1
    except OSError as error:
        raise TraceError(f"--out is {parent}; cannot be written to: {error.strerror}: choose another folder") from None


class RunWriter:
    """Everything that goes into one run directory."""

    def __init__(self, folder: Path):
        self.folder = folder

    def scenario(self, table: Mapping[str, Any]) -> None:
        write_text(self.folder / "scenario.toml", tomli_w.dumps(dict(table)))

    def provenance(self, content: Mapping[str, Any]) -> None:
        write_json(self.folder / "provenance.json", dict(content))

    def summary(self, content: Mapping[str, Any]) -> None:
        write_json(self.folder / "summary.json", dict(content))

    def user_file(self, name: str, content: bytes) -> None:
        """Keep a copy of a file of the user's that the run loaded, under the name the scenario gives it."""
        path = self.folder / MODELS / name
        if not path.resolve().is_relative_to(self.folder.resolve()):
            path = self.folder / MODELS / Path(name).name  # an absolute name, or one that climbs out
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda aside: _dump(aside, content))

    def part(self, name: str, columns: Mapping[str, Any], first_round: int, last_round: int) -> None:
        """One part of a table; columns that are masked arrays become null where masked."""
        self._write(name, columns, first_round, last_round)

    def snapshot(self, name: str, columns: Mapping[str, Any]) -> None:
        """The whole of a table, in place of what was there."""
        self._write(name, columns, 0, 0)

    def discard_after(self, round: int) -> None:
        """Remove the parts that hold rounds after this one, and what a killed process left half-written."""
        for name in TABLES:
            for path in (self.folder / name).glob("part-*.parquet"):
                number = path.stem.removeprefix("part-")
                if number.isdecimal() and int(number) > round:
                    path.unlink()
        for aside in (*self.folder.glob(".*"), *self.folder.glob("*/.*")):
            if aside.is_file():
                aside.unlink()
        (self.folder / "summary.json").unlink(missing_ok=True)

    def _write(self, name: str, columns: Mapping[str, Any], first_round: int, last_round: int) -> None:
        schema = part_schema(name, first_round, last_round)
        table = pa.table([_array(columns[field.name], field.type) for field in schema], schema=schema)
        file = f"part-{last_round:06d}.parquet"
        folder = self.folder / name
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise TraceError(f"{folder}: cannot be written: {error.strerror}") from error
        texts = [field.name for field in schema if pa.types.is_dictionary(field.type)] or False  # numbers seldom repeat
        write_whole(
            folder / file, lambda aside: pq.write_table(table, aside, row_group_size=1 << 20, use_dictionary=texts)
        )


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    mask = getattr(values, "mask", None)
    if mask is not None:
        return pa.array(values.data, type=kind, mask=mask)
    if pa.types.is_dictionary(kind):
        return pa.array(values, type=kind.value_type).dictionary_encode()
    return pa.array(values, type=kind)


def _dump(path: Path, content: bytes) -> None:
    path.write_bytes(content)
