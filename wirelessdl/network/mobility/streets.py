"""Motion along the streets of a map: straight on or a turn at every crossing."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from annotated_types import Interval

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.links import Geometry, Motion
from wirelessdl.network.mobility.paths import Paths
from wirelessdl.network.parameters import KeyedDraws, Span, checked_time, low_high
from wirelessdl.network.streets import StreetMap, grid_of

_STEP = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])  # headings, anticlockwise


class Streets:
    """Along the streets of network.map at a speed of one's own, drawn once: pedestrians or cars.

    speed_mps: [low, high] or one number. turn: probability of leaving the street at a crossing, half to each side;
    where the street ends, nodes turn. A node keeps its distance to the middle of the street. Where a street meets the
    border of the map, half of those who come along the border turn into it, whatever `turn` is: as many as come out of
    it, so that nodes spread evenly over the streets stay so. Nodes that start beyond the map go to it first.
    """

    def __init__(
        self,
        start_m: FloatArray,
        rng: np.random.Generator,
        streets: StreetMap | None,
        speed_mps: Span = (0.5, 1.5),
        turn: Annotated[float, Interval(ge=0, le=1)] = 0.5,
    ):
        low, high = low_high("speed_mps", speed_mps)
        self._axes, self._turn, self._draws, self._legs = grid_of(streets).axes, turn, KeyedDraws(rng), 0
        shortest = min(axis.pitch for axis in self._axes)
        if shortest / high < 1e-3:
            raise ValueError(f"speed_mps is up to {high:g}; a block would take less than 1 ms: lower it")
        first, pitch, last, width, reach = np.array(
            [(axis.first, axis.pitch, axis.blocks, axis.width, axis.reach) for axis in self._axes]
        ).T
        away = start_m[:, :2] - first
        line = np.clip(np.rint(away / pitch), 0, last)
        offset = away - line * pitch
        inside = np.abs(offset) <= reach
        if not inside.any(axis=1).all():
            lost = int(np.argmin(inside.any(axis=1)))
            x, y = start_m[lost, :2]
            raise ValueError(
                f'kind is "streets"; node {lost} starts at ({x:g}, {y:g}) m, which is in no street of network.map: '
                'use placement = { kind = "streets" }'
            )
        unit = self._draws.rng(0).random((len(start_m), 3))
        self._speed = low + unit[:, 0] * (high - low)
        self._pitch, self._last, self._crossing = pitch, last, line.astype(np.int64)
        node = np.arange(len(start_m))
        across = np.where(inside, np.abs(offset), np.inf).argmin(axis=1)  # on a crossing: the nearer middle
        along = 1 - across
        # the distance to the middle of a street is a node's own for every street: in those across, drawn here
        place = (away[node, along] - (unit[:, 1] - 0.5) * width[along]) / pitch[along]
        ahead, behind = np.floor(place) + 1, np.ceil(place) - 1
        forward = np.where(ahead > last[along], False, (behind < 0) | (unit[:, 2] < 0.5))
        target = np.clip(np.where(forward, ahead, behind), 0, last[along])
        self._crossing[node, along] = target
        self._heading = along + np.where(forward, 0, 2)
        self._paths = Paths.from_places(start_m)
        self._leg(np.abs(target - place) * pitch[along])

    def geometry(self, time_s: float) -> Geometry:
        return self.motion((time_s,)).at(0)

    def motion(self, times_s: Sequence[float]) -> Motion:
        times = [checked_time(time_s) for time_s in times_s]
        self._paths.extend(max(times), self._next, f"speed_mps is up to {self._speed.max():g}")
        return self._paths.motion(np.array(times))

    def _leg(self, length_m: FloatArray) -> None:
        direction = np.zeros((len(self._speed), 3))
        direction[:, :2] = _STEP[self._heading]
        self._paths.add(length_m / self._speed, direction * self._speed[:, None])

    def _next(self) -> None:
        """Every node chooses a heading at its crossing and goes on to the next one."""
        self._legs += 1
        unit = self._draws.rng(self._legs).random((len(self._speed), 2))
        side = np.where(unit[:, 1] < 0.5, 1, 3)
        on, left, right = (self._leads_on((self._heading + quarter) % 4) for quarter in (0, 1, 3))
        chance = np.where(on & (left != right), 0.5, self._turn)
        heading = np.where(unit[:, 0] < chance, (self._heading + side) % 4, self._heading)
        for other in ((self._heading + side) % 4, (self._heading + side + 2) % 4, self._heading, self._heading + 2):
            heading = np.where(self._leads_on(heading), heading, other % 4)
        self._heading = heading
        axis = heading % 2
        self._crossing[np.arange(len(axis)), axis] += _STEP[heading].sum(axis=1)
        self._leg(self._pitch[axis])

    def _leads_on(self, heading: IntArray) -> BoolArray:
        ahead = self._crossing + _STEP[heading]
        return np.asarray(((ahead >= 0) & (ahead <= self._last)).all(axis=1))
