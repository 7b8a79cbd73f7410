"""What network parts share: parameters that are a number or a range, areas, random streams, and tables from files.

Every error about a file names the file and the line.
"""

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Interval, Len

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.errors import nearest

# bounds keep sums and squares of any two of them exact enough to be positions
Length = Annotated[float, Interval(gt=0, le=1e9)]
Coordinate = Annotated[float, Interval(ge=-1e9, le=1e9)]
Speed = Annotated[float, Interval(gt=0, le=1e8)]
Duration = Annotated[float, Interval(ge=1e-6, le=1e9)]
Sides = Annotated[tuple[Length, ...], Len(2, 2)]  # width and height, or lowest and highest
Point = Annotated[tuple[Coordinate, ...], Len(2, 2)]
Span: TypeAlias = Annotated[tuple[float, ...], Len(2, 2)] | float  # [low, high], or one number


def low_high(key: str, value: Span, *, zero: bool = False) -> tuple[float, float]:
    """Both ends of a range of positive numbers (`zero`: or 0); a number is a range of no width."""
    low, high = value if isinstance(value, tuple) else (value, value)
    shown = f"{key} is [{low:g}, {high:g}]" if isinstance(value, tuple) else f"{key} is {value:g}"
    for end in (low, high):
        if not (end >= 0 if zero else end > 0):
            raise ValueError(f"{shown}; must be {'>= 0' if zero else '> 0'}")
        if end > 1e9:
            raise ValueError(f"{shown}; must be <= 1e9")
    if low > high:
        raise ValueError(f"{shown}; must be [low, high]: swap them")
    return float(low), float(high)


class KeyedDraws:
    """Generators keyed by numbers: the draws of a key do not depend on other keys or on the order of calls."""

    def __init__(self, rng: np.random.Generator):
        self._entropy = int(rng.integers(2**63))

    def rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=key))


@dataclass(frozen=True, eq=False)
class Rectangle:
    """A rectangle along the axes."""

    low_m: FloatArray
    high_m: FloatArray

    def spread(self, unit: FloatArray) -> FloatArray:
        """Points uniform on the rectangle from numbers uniform on [0, 1], `[n, 2]`."""
        return self.low_m + unit * (self.high_m - self.low_m)

    def outside(self, ground_m: FloatArray) -> BoolArray:
        """Which points, `[n, 2]`, lie outside; those on the border do not."""
        slack = 1e-9 * (1 + np.abs(ground_m))
        return np.asarray(((ground_m < self.low_m - slack) | (ground_m > self.high_m + slack)).any(axis=1))

    @property
    def diameter_m(self) -> float:
        return float(np.linalg.norm(self.high_m - self.low_m))

    @property
    def mean_distance_m(self) -> float:
        """Expected distance of two uniform points (Ghosh 1951)."""
        b, a = sorted(float(side) for side in self.high_m - self.low_m)
        if a > 1e3 * b:  # the closed form cancels; a segment is within 1e-5
            return a / 3
        d = math.hypot(a, b)
        powers = a**3 / b**2 + b**3 / a**2 + d * (3 - a**2 / b**2 - b**2 / a**2)
        return powers / 15 + (b**2 / a * math.acosh(d / b) + a**2 / b * math.acosh(d / a)) / 6


@dataclass(frozen=True, eq=False)
class Circle:
    """A disc on the ground."""

    centre_m: FloatArray
    radius_m: float

    def spread(self, unit: FloatArray) -> FloatArray:
        """Points uniform on the disc from numbers uniform on [0, 1], `[n, 2]`."""
        radius = self.radius_m * np.sqrt(unit[:, 0])  # sqrt: equal area, not equal radius
        angle = 2 * np.pi * unit[:, 1]
        return self.centre_m + np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])

    def outside(self, ground_m: FloatArray) -> BoolArray:
        """Which points, `[n, 2]`, lie outside; those on the border do not."""
        return np.asarray(np.linalg.norm(ground_m - self.centre_m, axis=1) > self.radius_m * (1 + 1e-9))

    @property
    def diameter_m(self) -> float:
        return 2 * self.radius_m

    @property
    def mean_distance_m(self) -> float:
        """Expected distance of two uniform points."""
        return 128 * self.radius_m / (45 * math.pi)


def fold(
    unfolded_m: FloatArray, low_m: FloatArray | float, high_m: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Reflection at two walls, any number of times: a triangle wave of the unfolded coordinate.

    Positions between the walls, and the sign of the velocity, per axis.
    """
    width = np.asarray(high_m) - np.asarray(low_m)
    phase = np.mod(unfolded_m - low_m, 2 * width)
    back = phase > width
    return low_m + np.where(back, 2 * width - phase, phase), np.where(back, -1.0, 1.0)


def area_for(
    start_m: FloatArray,
    area_m: tuple[float, ...] | None,
    centre_m: tuple[float, ...] | None,
    radius_m: float | None = None,
    *,
    holds_starts: bool = True,
) -> Rectangle | Circle:
    """The given area, about `centre_m` or the middle of where nodes start; else the box around the starts."""
    ground = start_m[:, :2]
    low, high = ground.min(axis=0), ground.max(axis=0)
    middle = (low + high) / 2 if centre_m is None else np.asarray(centre_m, dtype=np.float64)
    area: Rectangle | Circle
    if radius_m is not None:
        if area_m is not None:
            raise ValueError(f"radius_m is {radius_m:g}; area_m is given too: keep one of them")
        area, given = Circle(middle, radius_m), f"radius_m is {radius_m:g}"
    elif area_m is not None:
        half = np.asarray(area_m, dtype=np.float64) / 2
        area, given = Rectangle(middle - half, middle + half), f"area_m is {list(area_m)}"
    elif centre_m is not None:
        raise ValueError(f"centre_m is {list(centre_m)}; it places area_m or radius_m: give one of them, or drop it")
    elif np.any(high - low <= 0):
        raise ValueError(
            "area_m is missing; nodes start on a line, so the box around them has no area: set area_m = [width, height]"
        )
    else:
        return Rectangle(low, high)
    outside = area.outside(ground)
    if holds_starts and outside.any():
        node = int(np.argmax(outside))
        raise ValueError(
            f"{given}; node {node} starts outside, at ({ground[node, 0]:g}, {ground[node, 1]:g}) m: "
            "widen it, move centre_m, or place nodes closer"
        )
    return area


def checked_time(time_s: float) -> float:
    if not 0 <= time_s < math.inf:
        raise ValueError(f"time_s is {time_s}; must be a finite number >= 0")
    return float(time_s)


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


def format_nodes(nodes: IntArray) -> str:
    """Numbers of nodes, at most eight of them."""
    return ", ".join(map(str, nodes[:8])) + (", ..." if len(nodes) > 8 else "")


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
            raise ValueError(
                f'file is "{self.file}"; it says nothing of node {format_nodes(missing)}; network.nodes is {count}: '
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
