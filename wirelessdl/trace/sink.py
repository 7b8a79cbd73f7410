"""The writer of a run directory: Parquet parts, whole or absent, one per table and flush.

A part is named by the last round it holds, so parts written after a round can be found by name.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from wirelessdl.errors import TraceError, shown
from wirelessdl.scenario.part import MODELS, UserFile
from wirelessdl.trace.arrow_arrays import arrow_array
from wirelessdl.trace.checksums import Checksums
from wirelessdl.trace.files import (
    StablePath,
    own_folder,
    remove_asides,
    remove_left_report,
    sync_folder,
    write_bytes,
    write_figures,
    write_json,
    write_text,
    write_whole,
)
from wirelessdl.trace.schema import TABLES, part_schema

_DOCUMENTS = r"scenario\.toml|provenance\.json|summary\.json|checksums\.txt"


def create_run_folder(parent: Path, name: str, prepare: Callable[[Path], None]) -> Path:
    """A new folder `name`, or `name-2`, `name-3`, ... where that exists; nothing is ever overwritten.

    `prepare` fills it under a hidden name first: under its own name a run is there with its scenario, or not at all.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=parent))
        try:
            aside.chmod(0o777 & ~_umask())
            prepare(aside)
            sync_folder(aside)
            number = 1
            while True:
                folder = parent / (name if number == 1 else f"{name}-{number}")
                if not folder.exists() and not folder.is_symlink():
                    try:
                        aside.rename(folder)
                    except OSError as error:
                        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                            raise
                    else:
                        sync_folder(parent)
                        return folder
                number += 1
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    except OSError as error:
        raise TraceError(
            f"--out is {shown(parent)}; cannot be written to: {error.strerror}: choose another folder"
        ) from None


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


class RunWriter:
    """Everything that goes into one run directory."""

    def __init__(self, folder: Path):
        self._folder = StablePath(folder)

    @property
    def folder(self) -> Path:
        return self._folder.path

    @property
    def _sums(self) -> Checksums:
        return Checksums(self.folder)

    def scenario(self, table: Mapping[str, Any]) -> None:
        write_text(self.folder / "scenario.toml", tomli_w.dumps(dict(table)))
        self._sums.wrote(self.folder / "scenario.toml")

    def provenance(self, content: Mapping[str, Any]) -> None:
        write_json(self.folder / "provenance.json", dict(content))
        self._sums.wrote(self.folder / "provenance.json")

    def summary(self, content: Mapping[str, Any]) -> None:
        write_figures(self.folder / "summary.json", dict(content))
        self._sums.wrote(self.folder / "summary.json")

    def user_file(self, file: UserFile) -> None:
        """Keep a copy of a file of the user's that the run loaded, under a flat name."""
        try:
            content = file.path.read_bytes() if file.content is None else file.content
        except OSError as error:
            raise TraceError(f"{shown(file.path)}: cannot be read any more: {error.strerror}") from error
        path = own_folder(self.folder / MODELS) / file.stored_name
        write_bytes(path, content)
        self._sums.wrote(path)

    def adopt(self, *paths: Path) -> None:
        """List files that a killed process wrote, and did not come to list."""
        self._sums.adopt(*paths)

    def finish(self) -> None:
        """Nothing more will be written: the list of checksums becomes one line per file."""
        remove_asides(self.folder, _DOCUMENTS)
        self._sums.compact()

    def part(self, name: str, columns: Mapping[str, Any], first_round: int, last_round: int) -> None:
        """One part of a table; columns that are masked arrays become null where masked."""
        self._write(name, columns, first_round, last_round)

    def snapshot(self, name: str, columns: Mapping[str, Any]) -> None:
        """The whole of a table, in place of what was there."""
        self._write(name, columns, 0, 0)

    def discard_after(self, round: int) -> None:
        """Remove the parts that hold rounds after this one, and what a killed process left half-written."""
        gone = []
        for name in TABLES:
            if (self.folder / name).is_symlink():
                continue  # refused where it is written to
            for path in (self.folder / name).glob("part-*.parquet"):
                number = path.stem.removeprefix("part-")
                if number.isdecimal() and int(number) > round:
                    gone.append(path)
        gone += [path for path in (self.folder / "summary.json",) if path.is_file()]
        for path in gone:
            path.unlink()
        self._sums.removed(*gone)
        remove_asides(self.folder, _DOCUMENTS)
        remove_left_report(self.folder)
        remove_asides(self.folder / MODELS, r"[0-9a-f]{12}-.+")
        for name in TABLES:
            remove_asides(self.folder / name, r"part-\d+\.parquet")

    def _write(self, name: str, columns: Mapping[str, Any], first_round: int, last_round: int) -> None:
        schema = part_schema(name, first_round, last_round)
        table = pa.table([arrow_array(columns[field.name], field.type) for field in schema], schema=schema)
        texts = [field.name for field in schema if pa.types.is_dictionary(field.type)] or False  # numbers seldom repeat
        options: dict[str, Any] = {"row_group_size": 1 << 20, "use_dictionary": texts, "write_page_checksum": True}
        folder = self._folder.absolute  # parts are written while code of the user's runs
        try:
            path = own_folder(folder / name) / f"part-{last_round:06d}.parquet"
            write_whole(path, lambda handle: pq.write_table(table, handle, **options))
            Checksums(folder).wrote(path)
        except TraceError as error:
            raise TraceError(str(error).replace(str(folder), str(self.folder))) from error
