"""Constant speed along a track: a ring road, a closed polyline, or a road that wraps.

Node k drives in lane k mod `lanes`, counted from the left; with `both_ways` the lanes left of the middle
run against the track. Lanes lie side by side, mitred at corners, so each is a track of its own length. On
an open road a node that reaches the end goes on from the beginning, as if another had come for it.
"""

import math
from typing import Annotated, Literal, TypeAlias

import numpy as np
from annotated_types import Interval, MinLen

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Geometry
from wirelessdl.network.parameters import KeyedDraws, Length, Point, Span, checked_time, low_high


class _Circle:
    """A circle, driven counterclockwise. A lane by arc length, which wraps at `length_m`."""

    def __init__(self, centre_m: FloatArray, radius_m: float):
        self._centre, self._radius, self.length_m = centre_m, radius_m, 2 * math.pi * radius_m

    def at(self, along_m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Places and unit tangents, `[n, 2]` each."""
        angle = along_m / self._radius
        out = np.column_stack([np.cos(angle), np.sin(angle)])
        return self._centre + self._radius * out, np.column_stack([-out[:, 1], out[:, 0]])

    def nearest(self, ground_m: FloatArray) -> FloatArray:
        """Arc length of the point nearest to each place, `[n]` m."""
        way = ground_m - self._centre
        return np.asarray(np.mod(np.arctan2(way[:, 1], way[:, 0]), 2 * math.pi) * self._radius)


class _Polyline:
    """Straight pieces between corners `[n, 2]`; a closed one repeats its first corner."""

    def __init__(self, corner_m: FloatArray):
        self._corner = corner_m
        piece = np.diff(corner_m, axis=0)
        self._long = np.linalg.norm(piece, axis=1)
        self._tangent = piece / self._long[:, None]
        self._begin = np.concatenate([[0.0], np.cumsum(self._long)])
        self.length_m = float(self._begin[-1])

    def at(self, along_m: FloatArray) -> tuple[FloatArray, FloatArray]:
        wrapped = np.mod(along_m, self.length_m)
        piece = np.clip(np.searchsorted(self._begin, wrapped, side="right") - 1, 0, len(self._long) - 1)
        tangent = self._tangent[piece]
        return self._corner[piece] + tangent * (wrapped - self._begin[piece])[:, None], tangent

    def nearest(self, ground_m: FloatArray) -> FloatArray:
        way = ground_m[:, None] - self._corner[:-1]
        along = np.clip(np.einsum("nsi,si->ns", way, self._tangent), 0.0, self._long)
        away = np.linalg.norm(way - along[..., None] * self._tangent, axis=-1)
        node, piece = np.arange(len(ground_m)), np.argmin(away, axis=1)
        return np.asarray(self._begin[piece] + along[node, piece])


_Lane: TypeAlias = _Circle | _Polyline


class Track:
    """Constant speed around a ring road of `radius_m`, or along the corners `path_m`."""

    def __init__(
        self,
        start_m: FloatArray,
        rng: np.random.Generator,
        speed_mps: Span = 14.0,
        radius_m: Length = 100.0,
        centre_m: Point = (0.0, 0.0),
        path_m: Annotated[list[Point], MinLen(2)] | None = None,
        closed: bool = True,
        start: Literal["even", "random", "placed"] = "even",
        lanes: Annotated[int, Interval(ge=1, le=100)] = 1,
        lane_width_m: Length = 3.5,
        both_ways: bool = False,
    ):
        nodes = len(start_m)
        low, high = low_high("speed_mps", speed_mps)
        if both_ways and lanes == 1:
            raise ValueError("both_ways is true; one lane has one direction: set lanes = 2 or more")
        offset = (np.arange(lanes, dtype=np.float64) - (lanes - 1) / 2) * lane_width_m
        self._lanes = _lanes(offset, radius_m, np.asarray(centre_m, dtype=np.float64), path_m, closed)
        self._lane = np.arange(nodes) % lanes
        self._length = np.array([lane.length_m for lane in self._lanes])[self._lane]
        unit = KeyedDraws(rng).rng(0).random((nodes, 2))
        sense = np.where(both_ways & (offset[self._lane] < 0), -1.0, 1.0)
        self._speed = sense * (low + unit[:, 0] * (high - low))
        if start == "even":
            self._start = np.arange(nodes) / nodes * self._length
        elif start == "random":
            self._start = unit[:, 1] * self._length
        else:
            self._start = np.zeros(nodes)
            for number, lane in enumerate(self._lanes):
                mine = self._lane == number
                self._start[mine] = lane.nearest(start_m[mine, :2])
        self._height = start_m[:, 2]

    def geometry(self, time_s: float) -> Geometry:
        along = np.mod(self._start + self._speed * checked_time(time_s), self._length)
        position = np.column_stack([np.zeros((len(along), 2)), self._height])
        velocity = np.zeros_like(position)
        for number, lane in enumerate(self._lanes):
            mine = self._lane == number
            position[mine, :2], tangent = lane.at(along[mine])
            velocity[mine, :2] = tangent * self._speed[mine, None]
        return Geometry(position, velocity)


def _lanes(
    offset_m: FloatArray,
    radius_m: float,
    centre_m: FloatArray,
    path_m: list[tuple[float, ...]] | None,
    closed: bool,
) -> list[_Lane]:
    """A curve for every offset to the right of the track."""
    if path_m is None:
        if radius_m + offset_m.min() <= 0:
            raise ValueError(
                f"radius_m is {radius_m:g}; the innermost lane has none left: widen it, or use fewer lanes"
            )
        return [_Circle(centre_m, radius_m + offset) for offset in offset_m]
    corner, given = np.asarray(path_m, dtype=np.float64), f"path_m is {[list(corner) for corner in path_m]}"
    if closed and len(corner) < 3:
        raise ValueError(f"{given}; a closed track has three corners or more: or set closed = false")
    if closed and np.array_equal(corner[0], corner[-1]):
        corner = corner[:-1]
    if closed:
        corner = np.concatenate([corner, corner[:1]])
    piece = np.diff(corner, axis=0)
    length = np.linalg.norm(piece, axis=1)
    if not length.all():
        raise ValueError(f"{given}; corner {int(np.argmin(length)) + 1} repeats the one before: drop it")
    mitre = _mitres(piece / length[:, None], closed)
    lanes = [corner + offset * mitre for offset in offset_m]
    for lane in lanes:
        if np.any(np.einsum("si,si->s", np.diff(lane, axis=0), piece) <= 0):
            raise ValueError(
                f"{given}; lanes {float(np.ptp(offset_m)):g} m apart cross at its corners: "
                "use fewer or narrower lanes, or longer pieces"
            )
    return [_Polyline(lane) for lane in lanes]


def _mitres(tangent: FloatArray, closed: bool) -> FloatArray:
    """How a corner moves when both its pieces move right by one metre, `[corners, 2]`."""
    right = np.column_stack([tangent[:, 1], -tangent[:, 0]])
    before, after = (
        np.concatenate([right[-1:] if closed else right[:1], right]),
        np.concatenate([right, right[:1] if closed else right[-1:]]),
    )
    middle = before + after
    cosine = np.einsum("ni,ni->n", middle, before)
    if np.any(cosine < 1e-3):
        raise ValueError(f"path_m turns back on itself at corner {int(np.argmin(cosine))}: add corners around the turn")
    return np.asarray(middle / cosine[:, None])
