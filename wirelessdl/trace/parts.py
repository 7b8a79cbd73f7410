"""Reading the parts of a table, and finding what is wrong with them.

Every part states which rounds it covers, so a part that is damaged, missing or not of this run is noticed and named.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wirelessdl.trace.files import open_regular
from wirelessdl.trace.schema import TABLES, covered_rounds

_NAME = re.compile(r"part-\d{6,}\.parquet")


@dataclass(frozen=True)
class Parts:
    """Readable parts in order, and one line for every problem."""

    paths: list[Path]
    problems: list[str]
    last_round: int
    covered: list[tuple[int, int]]  # first and last round of each path

    def within(self, rounds: tuple[int, int] | None) -> list[Path]:
        """The parts that hold any of the rounds from first to last."""
        if rounds is None:
            return self.paths
        first, last = rounds
        return [path for path, (start, end) in zip(self.paths, self.covered) if start <= last and end >= first]


def find_parts(run: Path, name: str, last_round: int | None = None) -> Parts:
    """The parts of one table of a run, up to a round."""
    paths, covered, problems, damaged = [], [], [], False
    expected = 1
    folder = run / name
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name.startswith("."):
            continue  # being written
        if not _NAME.fullmatch(path.name):
            problems.append(f"{path}: foreign file; move it out of the table's folder")
            continue
        if last_round is not None and int(path.stem.removeprefix("part-")) > last_round:
            continue
        try:
            schema = _schema(path)
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            problems.append(f"{path}: cannot be read: {reason}")
            damaged = True
            continue
        if not schema.equals(TABLES[name]):
            problems.append(f"{path}: has other columns than the {name} table of this version")
            continue
        try:
            first, last = covered_rounds(schema)
        except (KeyError, TypeError, ValueError):
            problems.append(f"{path}: was not written by wirelessdl")
            continue
        if last and first < expected:
            problems.append(f"{path}: covers rounds {first} to {last} again; a part was copied")
            continue
        if first > expected and not damaged:
            problems.append(f"{folder}: rounds {expected} to {first - 1} are missing; a part was deleted")
        expected, damaged = last + 1, False
        paths.append(path)
        covered.append((first, last))
    return Parts(paths, problems, expected - 1, covered)


def read_parts(paths: list[Path], schema: pa.Schema) -> tuple[pa.Table, list[str]]:
    """The given columns of all parts, in order, and a line for each part whose data cannot be read."""
    tables, problems = [], []
    for path in paths:
        try:
            with open_regular(path) as handle:
                stored = pq.ParquetFile(handle, page_checksum_verification=True)
                tables.append(stored.read(columns=schema.names).cast(schema))
        except (pa.ArrowException, OSError, ValueError) as error:
            problems.append(f"{path}: cannot be read: {' '.join(str(error).split())}")
    return pa.concat_tables(tables).unify_dictionaries() if tables else schema.empty_table(), problems


def _schema(path: Path) -> pa.Schema:
    with open_regular(path) as handle:
        return pq.ParquetFile(handle).schema_arrow
