"""Reading the parts of a table, and finding what is wrong with them.

Every part says which rounds it covers, so a part that was cut short, deleted or put there by somebody
else is noticed and named.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wirelessdl.trace.schema import TABLES, covered_rounds

_NAME = re.compile(r"part-\d{6,}\.parquet")


@dataclass(frozen=True)
class Parts:
    """Readable parts in order, and one line for everything that is not as it should be."""

    paths: list[Path]
    problems: list[str]
    last_round: int


def find_parts(run: Path, name: str) -> Parts:
    """The parts of one table of a run."""
    paths, problems, damaged = [], [], False
    expected = 1
    folder = run / name
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name.startswith("."):
            continue  # being written
        if not _NAME.fullmatch(path.name):
            problems.append(f"{path}: foreign file; move it out of the table's folder")
            continue
        try:
            schema = pq.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            problems.append(f"{path}: cannot be read: {reason}")
            damaged = True
            continue
        if not schema.equals(TABLES[name]):
            problems.append(f"{path}: has other columns than the {name} table of this version")
            continue
        first, last = covered_rounds(schema)
        if first > expected and not damaged:
            problems.append(f"{folder}: rounds {expected} to {first - 1} are missing; a part was deleted")
        expected, damaged = last + 1, False
        paths.append(path)
    return Parts(paths, problems, expected - 1)


def read_parts(paths: list[Path], schema: pa.Schema) -> pa.Table:
    """The given columns of all parts, in order."""
    if not paths:
        return schema.empty_table()
    tables = [pq.ParquetFile(path).read(columns=schema.names).cast(schema) for path in paths]
    return pa.concat_tables(tables).unify_dictionaries()
