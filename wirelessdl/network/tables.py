"""Tables and texts from the user's files; every error names file and line."""

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.errors import nearest

FindFile: TypeAlias = Callable[[str], Path]  # a file of the user's by the name the scenario gives it


def read_text(file: str, find_file: FindFile) -> str:
    try:
        return find_file(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f'file is "{file}"; must be a text in UTF-8') from None
    except OSError as error:
        raise ValueError(f'file is "{file}"; cannot be read: {error.strerror}') from None


def fault(file: str, line: int, problem: str) -> ValueError:
    """One mistake in a file."""
    return ValueError(f'file is "{file}"; line {line}: {problem}')


def content_lines(text: str) -> list[tuple[int, str]]:
    """Lines that are not empty, with their numbers; `#` begins a comment."""
    stripped = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), start=1))
    return [(number, line) for number, line in stripped if line]


@dataclass(frozen=True)
class Table:
    """Columns of numbers, and the line of the file each row came from."""

    file: str
    line: IntArray
    columns: dict[str, FloatArray]

    def nodes(self, count: int) -> IntArray:
        """The `node` column: whole numbers from 0 to count - 1, every one there."""
        value = self.columns["node"]
        bad = (value != np.floor(value)) | (value < 0) | (value >= count)
        if bad.any():
            row = int(np.argmax(bad))
            raise fault(
                self.file,
                int(self.line[row]),
                f"node is {value[row]:g}; network.nodes is {count}: nodes are numbered from 0 to {count - 1}",
            )
        node = value.astype(np.int64)
        missing = np.setdiff1d(np.arange(count), node)
        if len(missing):
            shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
            raise ValueError(
                f'file is "{self.file}"; it says nothing of node {shown}; network.nodes is {count}: '
                "give every node a row, or lower network.nodes"
            )
        return node


def read_table(file: str, find_file: FindFile, needed: tuple[str, ...], optional: tuple[str, ...]) -> Table:
    """A CSV file with a header; columns in any order."""
    lines = content_lines(read_text(file, find_file))
    example = ",".join(needed) + "".join(f"[,{name}]" for name in optional)
    if not lines:
        raise ValueError(f'file is "{file}"; it is empty: begin with a header {example}')
    header = _cells(lines[0][1])
    for name in header:
        if name not in needed + optional:
            hint = nearest(name, needed + optional)
            raise fault(file, lines[0][0], f'no such column "{name}"{hint}; the header is {example}')
    for name in needed:
        if name not in header:
            raise fault(file, lines[0][0], f"column {name} is missing; the header is {example}")
    if len(set(header)) < len(header):
        raise fault(file, lines[0][0], f"a column is there twice; the header is {example}")
    rows = [_row(file, number, _cells(line), header) for number, line in lines[1:]]
    if not rows:
        raise ValueError(f'file is "{file}"; it has a header and no rows')
    values = np.array(rows, dtype=np.float64)
    line = np.array([number for number, _ in lines[1:]], dtype=np.int64)
    return Table(file, line, {name: values[:, column] for column, name in enumerate(header)})


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line]))]


def _row(file: str, line: int, cells: list[str], header: list[str]) -> list[float]:
    if len(cells) != len(header):
        raise fault(file, line, f"{len(cells)} values; the header has {len(header)} columns")
    return [number(file, line, name, cell) for name, cell in zip(header, cells)]


def number(file: str, line: int, name: str, cell: str) -> float:
    """A finite number, or what is wrong with it."""
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and abs(value) <= 1e9):
        raise fault(file, line, f'{name} is "{cell}"; must be a finite number')
    return value
