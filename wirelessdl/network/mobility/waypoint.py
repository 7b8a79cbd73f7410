"""Random waypoint: go straight to a point drawn uniformly, at a speed drawn uniformly, pause, again.

Nodes are often on their way and seldom at the border, and slow trips last long: in the long run

    speed     f(v) = 1 / (v ln(v_high / v_low)),   E[v] = (v_high - v_low) / ln(v_high / v_low)
    position  on a uniform part of a trip whose ends have density proportional to their distance
    pausing   with probability E[pause] / (E[pause] + E[distance] E[1 / v])

A run is short beside the time this takes to settle, so by default nodes start in it, drawn exactly
(Palm inversion; Le Boudec 2004). The slowest speed must be above 0: else the long run is a standstill.
"""

import math
from collections.abc import Sequence

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Geometry, Motion
from wirelessdl.network.mobility.paths import Paths
from wirelessdl.network.parameters import (
    KeyedDraws,
    Length,
    Point,
    Sides,
    Span,
    area_for,
    checked_time,
    low_high,
)


class RandomWaypoint:
    """Straight to a random point, pause, repeat; `steady` starts in the stationary state, not at the placement."""

    def __init__(
        self,
        start_m: FloatArray,
        rng: np.random.Generator,
        speed_mps: Span = (0.5, 1.5),
        pause_s: Span = 0.0,
        area_m: Sides | None = None,
        radius_m: Length | None = None,
        centre_m: Point | None = None,
        steady: bool = True,
    ):
        self._speed = low_high("speed_mps", speed_mps)
        self._pause = low_high("pause_s", pause_s, zero=True)
        self._area = area_for(start_m, area_m, centre_m, radius_m, holds_starts=not steady)
        leg_s = self._area.mean_distance_m / self._speed[1]
        if leg_s < 1e-6:
            raise ValueError(
                f"speed_mps is up to {self._speed[1]:g}; a leg would last {leg_s:.2g} s, must be at least 1e-6 s: "
                "lower it, or widen the area"
            )
        self._draws = KeyedDraws(rng)
        self._trips = 0
        self._height = start_m[:, 2]
        self._paths = self._in_the_long_run() if steady else Paths.from_places(start_m)

    def geometry(self, time_s: float) -> Geometry:
        return self.motion((time_s,)).at(0)

    def motion(self, times_s: Sequence[float]) -> Motion:
        times = [checked_time(time_s) for time_s in times_s]
        self._paths.extend(max(times), self._add_trip, f"speed_mps is up to {self._speed[1]:g}")
        return self._paths.motion(np.array(times))

    def _add_trip(self) -> None:
        """One more trip and pause of every node."""
        self._trips += 1
        unit = self._draws.rng(self._trips).random((len(self._height), 4))
        low, high = self._speed
        target = np.column_stack([self._area.spread(unit[:, :2]), self._height])
        self._go(target, low + unit[:, 2] * (high - low))
        self._rest(unit[:, 3])

    def _go(self, target: FloatArray, speed: FloatArray) -> None:
        way = target - self._paths.end_m
        duration = np.linalg.norm(way, axis=1) / speed
        moving = duration > 0
        self._paths.add(duration, np.where(moving[:, None], way / np.where(moving, duration, 1.0)[:, None], 0.0))

    def _rest(self, unit: FloatArray, where: BoolArray | bool = True) -> None:
        low, high = self._pause
        if high > 0:
            self._paths.add((low + unit * (high - low)) * where, np.zeros((len(unit), 3)))

    def _in_the_long_run(self) -> Paths:
        """Stationary starts: a pause under way, or a trip under way towards a given point at a given speed."""
        nodes = len(self._height)
        unit = self._draws.rng(0).random((nodes, 7))
        begin, target = self._long_trip_ends()
        (low, high), (shortest, longest) = self._speed, self._pause
        speed = low * (high / low) ** unit[:, 0]
        mean_slowness = 1 / low if low == high else math.log(high / low) / (high - low)
        mean_pause = (shortest + longest) / 2
        pausing = unit[:, 1] < mean_pause / (mean_pause + self._area.mean_distance_m * mean_slowness)
        # the pause one falls into is long more often than not: density proportional to its length
        pause = np.sqrt(shortest**2 + unit[:, 2] * (longest**2 - shortest**2))
        ground = np.where(pausing[:, None], self._area.spread(unit[:, 3:5]), begin + unit[:, 5:6] * (target - begin))
        self._paths = Paths.from_places(np.column_stack([ground, self._height]))
        left = np.linalg.norm(target - ground, axis=1)
        duration = np.where(pausing, unit[:, 5] * pause, left / speed)
        direction = np.column_stack([target - ground, np.zeros(nodes)]) / np.maximum(left, 1e-300)[:, None]
        self._paths.add(duration, np.where(pausing[:, None], 0.0, direction * speed[:, None]))
        self._rest(unit[:, 6], where=~pausing)
        return self._paths

    def _long_trip_ends(self) -> tuple[FloatArray, FloatArray]:
        """Ends of a trip met at a random time: uniform points kept with probability distance / diameter."""
        nodes = len(self._height)
        begin, target = np.zeros((2, nodes, 2))
        missing, attempt = np.ones(nodes, dtype=bool), 0
        while missing.any():
            attempt += 1
            unit = self._draws.rng(0, attempt).random((nodes, 5))
            one, other = self._area.spread(unit[:, :2]), self._area.spread(unit[:, 2:4])
            kept = missing & (unit[:, 4] * self._area.diameter_m < np.linalg.norm(one - other, axis=1))
            begin[kept], target[kept] = one[kept], other[kept]
            missing &= ~kept
        return begin, target
