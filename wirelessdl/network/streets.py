"""A map of streets and buildings that placement, motion and line of sight share.

Manhattan: `blocks` building blocks in a grid, a street of width `street_m` around each. Streets are straight and run
the whole length of the map; the map is centred on the origin.

    centre lines   x = low_x + i (block_x + street), i = 0 ... columns;   y likewise
    buildings      what lies between the streets

A link crosses a building where the straight line between its ends, seen from above, has points inside one. A wall is
not inside: an antenna on a wall sees its street. Heights do not count: buildings are higher than every antenna.

Polygons: buildings as SUMO's polyconvert makes them of a map, or drawn by hand beside a net.

    <additional>
      <poly id="hall" type="building" shape="10,10 40,10 40,30 10,30"/>

`types` names the polygons that are buildings, by their `type` or what precedes a dot in it ("building.yes"); others,
as parks, are left out.
"""

from dataclasses import dataclass
from typing import Annotated, Protocol
from xml.etree import ElementTree

import numpy as np
from annotated_types import Interval, Len, MinLen

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.contract import FLAGS, Guard, capability, checked_array
from wirelessdl.errors import ContractError
from wirelessdl.links import Links
from wirelessdl.network.parameters import FindFile, Length, Sides, read_text

_WALL_M = 1e-6  # how far a point must be from every wall to be inside


class SumoPolygons:
    """Buildings from an additional file of SUMO."""

    def __init__(self, find_file: FindFile, file: str, types: Annotated[list[str], MinLen(1)] = ["building"]):  # noqa: B006
        self._corners = _read(file, read_text(file, find_file), types)

    def outlines(self) -> list[FloatArray]:
        """Corners of every building, `[corners, 2]` m each."""
        return self._corners

    def indoors(self, ground_m: FloatArray) -> BoolArray:
        """Which points, `[n, 2]` m, lie in a building."""
        found = np.zeros(len(ground_m), dtype=bool)
        for corners in self._corners:
            found |= _inside(ground_m, corners)
        return found

    def obstructed(self, links: Links) -> BoolArray:
        """Which links cross a building, `[links]`."""
        pairs, ground = links.pairs, links.geometry.position_m[:, :2]
        start, end = ground[pairs.low], ground[pairs.high]
        crossed = np.zeros(len(start), dtype=bool)
        for corners in self._corners:
            low, high = np.minimum(start, end), np.maximum(start, end)
            near = np.flatnonzero(((low < corners.max(axis=0)) & (high > corners.min(axis=0))).all(axis=1) & ~crossed)
            crossed[near] = _crosses(start[near], end[near], corners)
        return np.asarray(crossed[pairs.of_link])


def _crosses(start: FloatArray, end: FloatArray, corners: FloatArray) -> BoolArray:
    """Which lines, `[n, 2]` m at either end, have points inside: one of their parts between two walls does."""
    way, wall = end - start, np.roll(corners, -1, axis=0) - corners
    across = way[:, None, 0] * wall[:, 1] - way[:, None, 1] * wall[:, 0]
    apart = corners - start[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        along = (apart[..., 0] * wall[:, 1] - apart[..., 1] * wall[:, 0]) / across  # of the line, 0 to 1
    cut = np.where((across != 0) & (along > 0) & (along < 1), along, 1.0)
    edges = np.sort(np.column_stack([np.zeros(len(start)), cut, np.ones(len(start))]), axis=1)
    middle = 0.5 * (edges[:, 1:] + edges[:, :-1])
    points = start[:, None] + middle[..., None] * way[:, None]
    return np.asarray(_inside(points.reshape(-1, 2), corners).reshape(middle.shape).any(axis=1))


def _inside(points: FloatArray, corners: FloatArray) -> BoolArray:
    """Which points, `[n, 2]`, lie inside, by the walls that a ray along x meets; on a wall is outside."""
    (x, y), (left, low) = points.T[..., None], corners.T
    right, high = np.roll(corners, -1, axis=0).T
    wall = np.stack([right - left, high - low])
    with np.errstate(divide="ignore", invalid="ignore"):
        meets = ((low > y) != (high > y)) & (x < left + (y - low) * wall[0] / wall[1])
        share = np.clip(((x - left) * wall[0] + (y - low) * wall[1]) / np.sum(wall**2, axis=0), 0.0, 1.0)
    away = np.hypot(x - left - share * wall[0], y - low - share * wall[1]).min(axis=1)
    return np.asarray((meets.sum(axis=1) % 2 == 1) & (away > _WALL_M))


def _read(file: str, text: str, types: list[str]) -> list[FloatArray]:
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise ValueError(f'file is "{file}"; no XML: {error}') from None
    found = []
    for poly in root.iter("poly"):
        kind, name = poly.get("type", ""), poly.get("id", "")
        if kind not in types and kind.partition(".")[0] not in types:
            continue
        try:
            corners = np.array([corner.split(",")[:2] for corner in poly.get("shape", "").split()], dtype=np.float64)
        except ValueError:
            corners = np.zeros((0, 2))
        if len(corners) and np.array_equal(corners[0], corners[-1]):
            corners = corners[:-1]
        if corners.ndim != 2 or len(corners) < 3 or not np.isfinite(corners).all():
            raise ValueError(f'file is "{file}"; shape of poly "{name}" must be three or more corners x,y in m')
        found.append(corners)
    if not found:
        others = ", ".join(sorted({poly.get("type", "") for poly in root.iter("poly")})) or "none"
        raise ValueError(f'file is "{file}"; has no poly of type {", ".join(types)}; types there: {others}')
    return found


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
