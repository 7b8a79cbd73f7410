"""A map of streets and buildings that placement, motion and line of sight share.

Manhattan: `blocks` building blocks in a grid, a street of width `street_m` around each. Streets are straight and run
the whole length of the map; the map is centred on the origin.

    centre lines   x = low_x + i (block_x + street), i = 0 ... columns;   y likewise
    buildings      what lies between the streets

A link crosses a building where the straight line between its ends, seen from above, has points inside one. A wall is
not inside: an antenna on a wall sees its street. Heights do not count: buildings are higher than every antenna.
"""

from dataclasses import dataclass
from typing import Annotated, Protocol

import numpy as np
from annotated_types import Interval, Len

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.contract import FLAGS, Guard, capability, checked_array
from wirelessdl.errors import ContractError
from wirelessdl.links import Links
from wirelessdl.network.parameters import Length, Sides
from wirelessdl.network.polygons import SumoPolygons

Blocks = Annotated[tuple[Annotated[int, Interval(ge=1, le=200)], ...], Len(2, 2)]


class StreetMap(Protocol):
    """What a map answers: who stands in a building, and which links cross one."""

    def indoors(self, ground_m: FloatArray) -> BoolArray: ...

    def obstructed(self, links: Links) -> BoolArray: ...


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis of the grid: streets at `first + i pitch`, i from 0 to `blocks`, each `width` wide; all in m."""

    first: float
    pitch: float
    width: float
    blocks: int

    @property
    def length(self) -> float:
        """From the first centre line to the last."""
        return self.pitch * self.blocks

    @property
    def reach(self) -> float:
        """From the middle of a street to its walls, and what rounding may add to a place on a wall."""
        return self.width / 2 + 1e-9 * (1.0 + self.length)

    def street(self, value: FloatArray) -> IntArray:
        """Number of the street that each coordinate lies in; -1 between streets."""
        nearest = np.clip(np.rint((value - self.first) / self.pitch), 0, self.blocks)
        away = np.abs(value - self.first - nearest * self.pitch)
        beyond = (value < self.first) | (value > self.first + self.length)
        # beyond the map there are no buildings: its border streets go on outward
        return np.where((away <= self.reach) | beyond, nearest, -1).astype(np.int64)


class OpenGround:
    """No streets and no buildings."""

    def indoors(self, ground_m: FloatArray) -> BoolArray:
        return np.zeros(len(ground_m), dtype=bool)

    def obstructed(self, links: Links) -> BoolArray:
        return np.zeros(len(links), dtype=bool)


class Manhattan:
    """Streets in a grid.

    blocks: building blocks [columns, rows]. block_m: sides of a block, m. street_m: width of a street, m.
    """

    def __init__(self, blocks: Blocks = (3, 3), block_m: Sides = (60.0, 60.0), street_m: Length = 20.0):
        self.axes = tuple(
            Axis(-0.5 * count * (side + street_m), side + street_m, street_m, count)
            for count, side in zip(blocks, block_m)
        )

    def buildings(self) -> FloatArray:
        """Left, bottom, width and depth of every building, `[n, 4]` m."""
        low = [axis.first + axis.pitch * np.arange(axis.blocks) + axis.width / 2 for axis in self.axes]
        corner = np.stack(np.meshgrid(*low, indexing="ij"), axis=-1).reshape(-1, 2)
        sides = [axis.pitch - axis.width for axis in self.axes]
        return np.concatenate([corner, np.broadcast_to(sides, corner.shape)], axis=1)

    def indoors(self, ground_m: FloatArray) -> BoolArray:
        """Which points, `[n, 2]` m, lie in a building."""
        x, y = self.axes
        return np.asarray((x.street(ground_m[:, 0]) < 0) & (y.street(ground_m[:, 1]) < 0))

    def obstructed(self, links: Links) -> BoolArray:
        """Which links cross a building, `[links]`."""
        pairs, ground = links.pairs, links.geometry.position_m[:, :2]
        return np.asarray(self._crosses(ground[pairs.low], ground[pairs.high])[pairs.of_link])

    def _crosses(self, start: FloatArray, end: FloatArray) -> BoolArray:
        """Strip by strip between two streets along y: there the line must keep to one street along x."""
        x, y = self.axes
        flip = start[:, 0] > end[:, 0]
        left, right = np.where(flip[:, None], end, start), np.where(flip[:, None], start, end)
        run = right[:, 0] - left[:, 0]
        slope = np.divide(right[:, 1] - left[:, 1], run, out=np.zeros_like(run), where=run > 0)
        crossed = np.zeros(len(start), dtype=bool)
        for column in range(x.blocks):
            low = x.first + column * x.pitch + x.reach
            high = low + x.pitch - 2 * x.reach
            enter, leave = np.maximum(left[:, 0], low), np.minimum(right[:, 0], high)
            # a line along y enters and leaves at once, and one that only touches a wall stays outside
            inside = np.where(run > 0, enter < leave, (low < left[:, 0]) & (left[:, 0] < high))
            one = np.where(run > 0, left[:, 1] + slope * (enter - left[:, 0]), left[:, 1])
            other = np.where(run > 0, left[:, 1] + slope * (leave - left[:, 0]), right[:, 1])
            street = y.street(one)
            crossed |= inside & ((street < 0) | (street != y.street(other)))
        return crossed


MAPS = {"none": OpenGround, "manhattan": Manhattan, "sumo-polygons": SumoPolygons}


def outlines(streets: StreetMap | None) -> tuple[FloatArray, ...]:
    """Corners of every building, `[corners, 2]` m each; none where the map does not say."""
    if isinstance(streets, SumoPolygons):
        return tuple(streets.outlines())
    ask = None if streets is None else capability(streets, "buildings")
    if ask is None:
        return ()
    left, bottom, width, depth = ask().T
    right, top = left + width, bottom + depth
    return tuple(np.stack([left, bottom, right, bottom, right, top, left, top], axis=1).reshape(-1, 4, 2))


@dataclass(frozen=True, eq=False)
class CheckedMap:
    """A map of the user's whose answers are held to the contract; `name` is what messages call it."""

    streets: StreetMap
    name: str

    def indoors(self, ground_m: FloatArray) -> BoolArray:
        with Guard(f"{self.name}.indoors"):
            answer = self.streets.indoors(ground_m)
        return self._flags("indoors", answer, len(ground_m), "point")

    def obstructed(self, links: Links) -> BoolArray:
        with Guard(f"{self.name}.obstructed"):
            answer = self.streets.obstructed(links)
        crossed = self._flags("obstructed", answer, len(links), "link")
        either = np.zeros(len(links.pairs), dtype=bool)
        either[links.pairs.of_link[crossed]] = True
        one_way = either[links.pairs.of_link] != crossed
        if one_way.any():
            first = int(np.argmax(one_way))
            raise ContractError(
                f"{self.name}.obstructed returned False for link {links.tx[first]} -> {links.rx[first]} and True for "
                "the way back; a building is in the way of both: use links.pairs"
            )
        return crossed

    def buildings(self) -> FloatArray:
        """Left, bottom, width and depth of every building, `[n, 4]` m; none where the map does not say."""
        ask = capability(self.streets, "buildings")
        if ask is None:
            return np.zeros((0, 4))
        with Guard(name := f"{self.name}.buildings"):
            answer = ask()
            empty = not np.size(answer)
        if empty:
            return np.zeros((0, 4))
        return checked_array(name, answer, (None, 4), "left, bottom, width and depth in finite metres")

    def _flags(self, method: str, answer: object, count: int, of: str) -> BoolArray:
        name, each = f"{self.name}.{method}", f"True or False per {of}"
        return checked_array(name, answer, (count,), each, FLAGS, dtype=np.bool_)


def grid_of(streets: StreetMap | None) -> Manhattan:
    """The grid that nodes are placed in and go along. Raises without one: other maps do not say where streets are."""
    if isinstance(streets, Manhattan):
        if "axes" not in vars(streets):
            raise ValueError('kind is "streets"; network.map has no axes: call super().__init__ in its __init__')
        return streets
    if streets is None:
        raise ValueError('kind is "streets"; needs network.map: add map = { kind = "manhattan" }')
    raise ValueError(
        'kind is "streets"; it follows the grid of map = { kind = "manhattan" }, and network.map is your own class: '
        "derive that from wirelessdl.network.streets.Manhattan, or use your own class here too"
    )


def require_outdoors(streets: StreetMap, position_m: FloatArray) -> None:
    """Raise where a node stands in a building of the map."""
    indoors = streets.indoors(position_m[:, :2])
    if indoors.any():
        node = int(np.argmax(indoors))
        x, y = position_m[node, :2]
        raise ValueError(
            f"positions put node {node} in a building of network.map, at ({x:g}, {y:g}) m: "
            'use placement = { kind = "streets" }, or move it'
        )
