"""Buildings as polygons: what SUMO's polyconvert makes of a map, or drawn by hand beside a net.

    <additional>
      <poly id="hall" type="building" shape="10,10 40,10 40,30 10,30"/>

A link crosses a building where the straight line between its ends, seen from above, has points inside one; a wall is
not inside. Heights do not count: buildings are higher than every antenna. `types` names the polygons that are
buildings, by their `type` or what precedes a dot in it ("building.yes"); others, as parks, are left out.
"""

from typing import Annotated
from xml.etree import ElementTree

import numpy as np
from annotated_types import MinLen

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Links
from wirelessdl.network.parameters import FindFile, read_text

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
        others = sorted({poly.get("type", "") for poly in root.iter("poly")})
        raise ValueError(f'file is "{file}"; has no poly of type {", ".join(types)}; types there: {", ".join(others)}')
    return found
