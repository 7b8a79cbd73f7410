"""Where nodes start. Each placement gives positions `[K, 3]` in metres; the third is the antenna's height, above 0."""

import math
from typing import Annotated

import numpy as np
import scipy
from annotated_types import Interval

from wirelessdl.arrays import FloatArray
from wirelessdl.contract import checked_array, of_node
from wirelessdl.network.parameters import Circle, FindFile, Length, Span, low_high, read_table
from wirelessdl.network.streets import StreetMap, grid_of


class Disc:
    """Uniform on a disc; heights uniform in a range [low, high]."""

    def __init__(self, radius_m: Length = 150.0, height_m: Span = 1.5):
        self.radius_m, self.height_m = radius_m, height_m

    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray:
        radius = self.radius_m * np.sqrt(rng.random(nodes))  # sqrt: equal area, not equal radius
        angle = 2 * np.pi * rng.random(nodes)
        return _at_height(radius * np.cos(angle), radius * np.sin(angle), self.height_m, rng)


class Block:
    """Uniform on a square city block; heights uniform in a range [low, high]."""

    def __init__(self, side_m: Length = 250.0, height_m: Span = 1.5):
        self.side_m, self.height_m = side_m, height_m

    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray:
        x, y = self.side_m * (rng.random((2, nodes)) - 0.5)
        return _at_height(x, y, self.height_m, rng)


class SquareGrid:
    """Square grid, row by row."""

    def __init__(self, spacing_m: Length = 30.0, height_m: Length = 1.5):
        self.spacing_m, self.height_m = spacing_m, height_m

    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray:
        columns = math.ceil(math.sqrt(nodes))
        row, column = np.divmod(np.arange(nodes, dtype=np.float64), columns)
        return _at_height(self.spacing_m * column, self.spacing_m * row, self.height_m, rng)


class Line:
    """Along the x axis."""

    def __init__(self, spacing_m: Length = 30.0, height_m: Length = 1.5):
        self.spacing_m, self.height_m = spacing_m, height_m

    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray:
        return _at_height(self.spacing_m * np.arange(nodes, dtype=np.float64), np.zeros(nodes), self.height_m, rng)


class PoissonDisc:
    """Uniform on a disc, one after another, each at least `min_distance_m` from all before it."""

    def __init__(
        self,
        radius_m: Length = 150.0,
        min_distance_m: Length = 10.0,
        height_m: Length = 1.5,
        tries: Annotated[int, Interval(ge=1, le=10**6)] = 300,
    ):
        self.radius_m, self.min_distance_m, self.height_m, self.tries = radius_m, min_distance_m, height_m, tries

    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray:
        """Darts thrown in volleys of K, so that a volley costs one tree search and not K of them."""
        disc = Circle(np.zeros(2), self.radius_m)
        placed = np.zeros((0, 2))
        for _ in range(self.tries):
            darts = disc.spread(rng.random((nodes, 2)))
            if len(placed):
                away, _ = scipy.spatial.cKDTree(placed).query(darts)
                darts = darts[away >= self.min_distance_m]
            placed = np.concatenate([placed, darts[self._apart(darts)]])[:nodes]
            if len(placed) == nodes:
                return _at_height(placed[:, 0], placed[:, 1], self.height_m, rng)
        # darts cover about half a disc with discs of their own before none fits
        share = math.sqrt(0.4 / nodes)
        raise ValueError(
            f"min_distance_m is {self.min_distance_m:g}; {len(placed)} of {nodes} nodes fitted a disc of radius "
            f"{self.radius_m:g} m after {self.tries} volleys: lower it to about "
            f"{2 * self.radius_m * share / (1 - share):.3g}, or raise radius_m"
        )

    def _apart(self, darts: FloatArray) -> list[int]:
        """Those of a volley that hit no earlier one that stays."""
        close: list[list[int]] = [[] for _ in darts]
        for first, second in scipy.spatial.cKDTree(darts).query_pairs(self.min_distance_m) if len(darts) else ():
            if np.linalg.norm(darts[first] - darts[second]) < self.min_distance_m:
                close[max(first, second)].append(min(first, second))
        stays: list[bool] = []
        for earlier in close:
            stays.append(not any(stays[other] for other in earlier))
        return [dart for dart, stay in enumerate(stays) if stay]


class Clusters:
    """Groups: centres uniform on a disc, each node normal about a centre chosen at random (Thomas)."""

    def __init__(
        self,
        clusters: Annotated[int, Interval(ge=1, le=20_000)] = 4,
        radius_m: Length = 150.0,
        spread_m: Length = 15.0,
        height_m: Length = 1.5,
    ):
        self.clusters, self.radius_m, self.spread_m, self.height_m = clusters, radius_m, spread_m, height_m

    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray:
        centre = Circle(np.zeros(2), self.radius_m).spread(rng.random((self.clusters, 2)))
        own = centre[rng.integers(self.clusters, size=nodes)]
        x, y = (own + self.spread_m * rng.standard_normal((nodes, 2))).T
        return _at_height(x, y, self.height_m, rng)


class AlongStreets:
    """Uniform over the streets of network.map, along them and across."""

    def __init__(self, streets: StreetMap | None, height_m: Span = 1.5):
        self._axes, self.height_m = grid_of(streets).axes, height_m

    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray:
        x, y = self._axes
        unit = rng.random((nodes, 4))
        total_y = (x.blocks + 1) * y.length  # of all streets along y
        along_y = unit[:, 0] < total_y / (total_y + (y.blocks + 1) * x.length)
        crossed, ground = np.where(along_y, 0, 1), np.zeros((nodes, 2))
        for axis, this in enumerate(self._axes):
            street = np.minimum((unit[:, 1] * (this.blocks + 1)).astype(np.int64), this.blocks)
            middle = this.first + street * this.pitch + (unit[:, 2] - 0.5) * this.width
            ground[:, axis] = np.where(crossed == axis, middle, this.first + unit[:, 3] * this.length)
        return _at_height(ground[:, 0], ground[:, 1], self.height_m, rng)


class PlacementFile:
    """From a CSV file: x_m, y_m, and where given node and height_m."""

    def __init__(self, find_file: FindFile, file: str, height_m: Length = 1.5):
        self._table = read_table(file, find_file, ("x_m", "y_m"), ("node", "height_m"))
        self.file, self.height_m = file, height_m

    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        columns, rows = self._table.columns, len(self._table.line)
        if rows != nodes:
            raise ValueError(f'file is "{self.file}"; it has {rows} rows; network.nodes is {nodes}: make them equal')
        height = columns.get("height_m", np.full(nodes, self.height_m))
        if np.any(height <= 0):
            row = int(np.argmax(height <= 0))
            raise ValueError(
                f'file is "{self.file}"; line {self._table.line[row]}: height_m is {height[row]:g}; must be > 0'
            )
        placed = np.column_stack([columns["x_m"], columns["y_m"], height])
        if "node" in columns:
            placed[self._table.nodes(nodes)] = placed.copy()
        return placed


def _at_height(x: FloatArray, y: FloatArray, height_m: Span, rng: np.random.Generator) -> FloatArray:
    low, high = low_high("height_m", height_m)
    # drawn last and only for a range, so that a range changes no position on the ground
    height = np.full(len(x), low) if low == high else low + (high - low) * rng.random(len(x))
    return np.column_stack([x, y, height]).astype(np.float64)


def require_positions(position_m: object, nodes: int, name: str) -> FloatArray:
    """What a placement of this name answered, checked: finite metres `[K, 3]`, no two nodes at one place."""
    where = f"network.placement: {name}: positions()"
    start_m = checked_array(where, position_m, (nodes, 3), "finite metres", place=of_node)  # mobility may write to it
    require_apart(start_m)
    return start_m


def require_apart(position_m: FloatArray) -> None:
    """Raise where two nodes are at one point, or an antenna is not above the ground."""
    if np.any(position_m[:, 2] <= 0):
        node = int(np.argmin(position_m[:, 2]))
        raise ValueError(f"height of node {node} is {position_m[node, 2]:g} m; antennas must be above 0")
    order = np.lexsort(position_m.T)
    same = np.flatnonzero((np.diff(position_m[order], axis=0) == 0).all(axis=1))
    if len(same):
        first, second = sorted(int(node) for node in order[same[0] : same[0] + 2])
        where = ", ".join(f"{value:g}" for value in position_m[first])
        raise ValueError(
            f"positions of nodes {first} and {second} are both ({where}) m; a link needs a length: move one"
        )


PLACEMENTS = {
    "disc": Disc,
    "block": Block,
    "grid": SquareGrid,
    "line": Line,
    "poisson-disc": PoissonDisc,
    "cluster": Clusters,
    "streets": AlongStreets,
    "file": PlacementFile,
}
