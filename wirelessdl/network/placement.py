"""Where nodes start. Each placement gives positions `[K, 3]` in metres."""

import math
from typing import Annotated, Protocol

import numpy as np
from annotated_types import Gt

from wirelessdl.arrays import FloatArray

Length = Annotated[float, Gt(0)]


class Placement(Protocol):
    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray: ...


class Disc:
    """Uniform on a disc."""

    def __init__(self, radius_m: Length = 150.0, height_m: Length = 1.5):
        self.radius_m, self.height_m = radius_m, height_m

    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray:
        radius = self.radius_m * np.sqrt(rng.random(nodes))  # sqrt: equal area, not equal radius
        angle = 2 * np.pi * rng.random(nodes)
        return _at_height(radius * np.cos(angle), radius * np.sin(angle), self.height_m)


class Block:
    """Uniform on a square city block."""

    def __init__(self, side_m: Length = 250.0, height_m: Length = 1.5):
        self.side_m, self.height_m = side_m, height_m

    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray:
        x, y = self.side_m * (rng.random((2, nodes)) - 0.5)
        return _at_height(x, y, self.height_m)


class Grid:
    """Square grid, row by row."""

    def __init__(self, spacing_m: Length = 30.0, height_m: Length = 1.5):
        self.spacing_m, self.height_m = spacing_m, height_m

    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        columns = math.ceil(math.sqrt(nodes))
        row, column = np.divmod(np.arange(nodes, dtype=np.float64), columns)
        return _at_height(self.spacing_m * column, self.spacing_m * row, self.height_m)


class Line:
    """Along the x axis."""

    def __init__(self, spacing_m: Length = 30.0, height_m: Length = 1.5):
        self.spacing_m, self.height_m = spacing_m, height_m

    def positions(self, nodes: int, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        return _at_height(self.spacing_m * np.arange(nodes, dtype=np.float64), np.zeros(nodes), self.height_m)


def _at_height(x: FloatArray, y: FloatArray, height_m: float) -> FloatArray:
    return np.column_stack([x, y, np.full(len(x), height_m)]).astype(np.float64)


PLACEMENTS = {"disc": Disc, "block": Block, "grid": Grid, "line": Line}
