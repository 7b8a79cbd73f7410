"""Motion in steps of equal length: the random walk and Gauss-Markov.

Both are drawn on an unbounded plane and folded back into the area by mirrors at its borders, which is
what reflecting the path (and, for Gauss-Markov, its mean heading) at every border comes to.

Steps are drawn in blocks, each from a stream of its own and from the state in which the one before
ended; only those states are kept, so a long run costs little memory and a query may jump back.
"""

from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Interval

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Geometry
from wirelessdl.network.parameters import (
    Circle,
    Duration,
    KeyedDraws,
    Point,
    Rectangle,
    Sides,
    Span,
    Speed,
    area_for,
    checked_time,
    fold,
    low_high,
)

_STEPS_PER_BLOCK = 256
_MAX_STEPS_PER_QUERY = 2_000_000  # steps from one query to the next: seconds of drawing
Angle: TypeAlias = Annotated[float, Interval(ge=0, le=100)]


class _Steps:
    """The unfolded path of K nodes: constant velocity within each step."""

    def __init__(self, start_m: FloatArray, step_s: float, gait: "RandomWalk | GaussMarkov", draws: KeyedDraws):
        self._step_s, self._gait, self._draws = step_s, gait, draws
        # where and in which state each block begins; block numbers count from 0
        self._begins = [(start_m, gait.initial(draws.rng(0)))]
        self._held = (-1, start_m[None], start_m[None])

    def at(self, time_s: float) -> tuple[FloatArray, FloatArray]:
        """Unfolded position and velocity, both `[K, 3]`."""
        step = int(time_s / self._step_s)
        number, within = divmod(step, _STEPS_PER_BLOCK)
        if self._held[0] != number:
            ahead = step - (len(self._begins) - 1) * _STEPS_PER_BLOCK
            if ahead > _MAX_STEPS_PER_QUERY:
                raise ValueError(
                    f"step_s is {self._step_s:g}; the time from one frame to the next takes {ahead} steps, must be at "
                    f"most {_MAX_STEPS_PER_QUERY}: raise it"
                )
            while len(self._begins) <= number:
                self._draw(len(self._begins) - 1)
            self._draw(number)
        _, position, velocity = self._held
        return position[within] + velocity[within] * (time_s - step * self._step_s), velocity[within]

    def _draw(self, number: int) -> None:
        start, state = self._begins[number]
        velocity, state = self._gait.velocities(state, self._draws.rng(0, number))
        travelled = np.cumsum(velocity * self._step_s, axis=0)
        self._held = (number, np.concatenate([start[None], start + travelled[:-1]]), velocity)
        if number + 1 == len(self._begins):
            self._begins.append((start + travelled[-1], state))


class RandomWalk:
    """A new direction and speed every `step_s`; reflected at the borders."""

    def __init__(
        self,
        start_m: FloatArray,
        rng: np.random.Generator,
        speed_mps: Span = (0.5, 1.5),
        step_s: Duration = 10.0,
        area_m: Sides | None = None,
        centre_m: Point | None = None,
    ):
        self._speed = low_high("speed_mps", speed_mps)
        self._nodes = len(start_m)
        self._area = area_for(start_m, area_m, centre_m)
        self._steps = _Steps(start_m, step_s, self, KeyedDraws(rng))

    def initial(self, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        return np.zeros(0)  # no memory

    def velocities(self, state: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Those of a block of steps, `[block, K, 3]`, and the state to go on from."""
        low, high = self._speed
        unit = rng.random((_STEPS_PER_BLOCK, self._nodes, 2))
        speed, heading = low + unit[..., 0] * (high - low), 2 * np.pi * unit[..., 1]
        return np.stack([speed * np.cos(heading), speed * np.sin(heading), np.zeros_like(speed)], axis=-1), state

    def geometry(self, time_s: float) -> Geometry:
        return _folded(*self._steps.at(checked_time(time_s)), self._area, None)


class GaussMarkov:
    """Speed, heading and pitch correlated in time: each deviation is alpha times the last one plus new noise.

        d' = alpha d + sqrt(1 - alpha^2) sigma N(0, 1),   speed = max(speed_mps + d, 0)

    around a mean heading drawn for each node and level flight (Camp, Boleng, Davies 2002). Starts in the
    long run: d ~ N(0, sigma^2), autocorrelation alpha^k after k steps. `heights_m` lets nodes climb.
    """

    def __init__(
        self,
        start_m: FloatArray,
        rng: np.random.Generator,
        alpha: Annotated[float, Interval(ge=0, le=1)] = 0.85,
        speed_mps: Speed = 1.0,
        speed_std_mps: Annotated[float, Interval(ge=0, le=1e8)] | None = None,
        heading_std_rad: Angle = 0.5,
        pitch_std_rad: Angle = 0.1,
        step_s: Duration = 1.0,
        area_m: Sides | None = None,
        centre_m: Point | None = None,
        heights_m: Sides | None = None,
    ):
        self._alpha, self._speed = alpha, speed_mps
        self._std = np.array(
            [speed_mps / 5 if speed_std_mps is None else speed_std_mps, heading_std_rad, pitch_std_rad]
        )
        self._heights = None if heights_m is None else _flying(start_m, heights_m)
        self._area = area_for(start_m, area_m, centre_m)
        self._nodes = len(start_m)
        draws = KeyedDraws(rng)
        self._heading = 2 * np.pi * draws.rng(1).random(self._nodes)
        self._steps = _Steps(start_m, step_s, self, draws)

    def initial(self, rng: np.random.Generator) -> FloatArray:
        return self._std[:, None] * rng.standard_normal((3, self._nodes))

    def velocities(self, state: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        deviation = self.deviations(state, rng)
        speed = np.maximum(self._speed + deviation[:_STEPS_PER_BLOCK, 0], 0.0)
        heading = self._heading + deviation[:_STEPS_PER_BLOCK, 1]
        pitch = deviation[:_STEPS_PER_BLOCK, 2] if self._heights is not None else np.zeros_like(speed)
        level = speed * np.cos(pitch)
        velocity = np.stack([level * np.cos(heading), level * np.sin(heading), speed * np.sin(pitch)], axis=-1)
        return velocity, deviation[_STEPS_PER_BLOCK]

    def deviations(self, state: FloatArray, rng: np.random.Generator) -> FloatArray:
        """`[block + 1, 3, K]`: the deviations of each step of a block, and of the first step after it."""
        from scipy.signal import lfilter  # only here: it takes long to load

        drawn = rng.standard_normal((_STEPS_PER_BLOCK, 3, self._nodes))
        fresh = drawn * self._std[:, None] * np.sqrt(1 - self._alpha**2)
        after, _ = lfilter([1.0], [1.0, -self._alpha], fresh, axis=0, zi=self._alpha * state[None])
        return np.concatenate([state[None], after])

    def geometry(self, time_s: float) -> Geometry:
        return _folded(*self._steps.at(checked_time(time_s)), self._area, self._heights)


def _folded(
    position_m: FloatArray, velocity_mps: FloatArray, area: Rectangle | Circle, heights_m: tuple[float, float] | None
) -> Geometry:
    assert isinstance(area, Rectangle)  # no radius was given
    position, sign = position_m.copy(), np.ones_like(velocity_mps)
    position[:, :2], sign[:, :2] = fold(position_m[:, :2], area.low_m, area.high_m)
    if heights_m is not None:
        position[:, 2], sign[:, 2] = fold(position_m[:, 2], *heights_m)
    return Geometry(position, velocity_mps * sign)


def _flying(start_m: FloatArray, heights_m: tuple[float, ...]) -> tuple[float, float]:
    low, high = low_high("heights_m", heights_m)
    outside = (start_m[:, 2] < low) | (start_m[:, 2] > high)
    if low == high or outside.any():
        node = int(np.argmax(outside))
        where = f"node {node} starts at {start_m[node, 2]:g} m" if outside.any() else "that leaves no room to climb"
        raise ValueError(
            f"heights_m is [{low:g}, {high:g}]; {where}: give the placement a height_m within it, or widen it"
        )
    return low, high
