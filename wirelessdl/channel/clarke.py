"""Time-correlated scatter: Clarke's model with a ring of scatterers around each end.

    h(t) = 1/sqrt(N) sum_n exp(2 pi j (cos a_n F_a(t) + cos b_n F_b(t) + u_n)),   F(t) = integral of v f_c / c dt

    N         number of scattered paths
    a_n, b_n  angles of departure and arrival, rad, independent and uniform on [0, 2 pi)
    u_n       phases, cycles, independent and uniform on [0, 1)
    F_a, F_b  Doppler phases of the two ends, cycles; v: speed, m/s; f_c: carrier frequency, Hz; c: speed of light, m/s
    f_a, f_b  largest Doppler frequencies of the two ends, v f_c / c, Hz; tau: lag, s; J0: Bessel function

Over realisations the autocorrelation rho of h is exactly J0(2 pi f_a tau) J0(2 pi f_b tau) at constant speeds, that of
the power rho^2, E|h|^2 = 1 and E|h|^4 = 2 - 1/N; over time every realisation has mean power 1. An end at rest adds no
Doppler. Angles at equal steps would give each realisation less variance, but bias the correlation of powers by -1/N.

Valid for narrowband links and isotropic scattering in the plane at both ends. Phases are float64 cycles, reduced to
their fraction before they become float32 for sine and cosine: an hour at 1 kHz keeps nine digits.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wirelessdl import counter_rng
from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.links import Instants, Links
from wirelessdl.units import SPEED_OF_LIGHT_MPS

Rings: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
PHASES_AT_ONCE = 1 << 15  # what a core's cache holds


class Clarke:
    """CN(0, 1) scatter of every pair, correlated in time; of every directed link where it is not reciprocal."""

    def __init__(self, frequency_hz: float, paths: int, speed_mps: float | None, reciprocal: bool):
        self.frequency_hz, self.paths, self.speed_mps, self.reciprocal = frequency_hz, paths, speed_mps, reciprocal
        self._word: int | None = None
        self._time_s = 0.0
        self._speed: FloatArray = np.zeros(0)
        self._cycles: FloatArray = np.zeros(0)  # F of every node
        self._of: IntArray | None = None
        self._rings: Rings = (np.zeros(0), np.zeros(0), np.zeros(0))

    def scatters(self, instants: Instants, rng: Callable[[], np.random.Generator]) -> NDArray[np.complex128]:
        """h of every link at several instants, `[instants, links]` complex; time must not decrease between calls."""
        if self._word is None:
            self._word = counter_rng.key(rng())
        cycles = self._advance(instants.motion.velocity_mps, np.array(instants.time_s))
        links = instants.links[0]
        if self.reciprocal:
            pairs = links.pairs
            return np.asarray(self._sum(cycles, pairs.number, pairs.low, pairs.high)[:, pairs.of_link])
        return self._sum(cycles, links.number, links.tx, links.rx)

    def taps(self, links: Links, time_s: float, count: int, rng: np.random.Generator) -> NDArray[np.complex128]:
        """Independent h of every link, `[count, links]` complex, all under the same Doppler."""
        if self._word is None:
            self._word = counter_rng.key(rng)
        pairs = links.pairs
        number, one, other = (
            (pairs.number, pairs.low, pairs.high) if self.reciprocal else (links.number, links.tx, links.rx)
        )
        # tap l of process n has the number count n + l: which taps others have changes nothing
        every = (number * count + np.arange(count)[:, None]).reshape(-1)
        ends = np.tile(one, count), np.tile(other, count)
        velocity_mps = links.geometry.velocity_mps[None]
        found = self._sum(self._advance(velocity_mps, np.array([time_s])), every, *ends).reshape(count, -1)
        return np.asarray(found[:, pairs.of_link]) if self.reciprocal else found

    def _speeds(self, velocity_mps: FloatArray) -> FloatArray:
        if self.speed_mps is not None:
            return np.full(velocity_mps.shape[:-1], self.speed_mps)
        return np.asarray(np.linalg.norm(velocity_mps, axis=-1))

    def _advance(self, velocity_mps: FloatArray, time_s: FloatArray) -> FloatArray:
        """F of every node at these instants, `[instants, K]`. velocity_mps: [instants, K, 3]."""
        speed = self._speeds(velocity_mps)
        if not len(self._cycles):
            self._cycles, self._speed, self._time_s = np.zeros(speed.shape[1]), speed[0], float(time_s[0])
        mean_mps = 0.5 * (np.concatenate([self._speed[None], speed[:-1]]) + speed)
        way_m = mean_mps * (time_s - np.append(self._time_s, time_s[:-1]))[:, None]
        turned = way_m * (self.frequency_hz / SPEED_OF_LIGHT_MPS)
        cycles = np.cumsum(np.concatenate([self._cycles[None], turned]), axis=0)[1:]
        self._cycles, self._speed, self._time_s = cycles[-1], speed[-1], float(time_s[-1])
        return np.asarray(cycles)

    def _sum(self, node_cycles: FloatArray, number: IntArray, one: IntArray, other: IntArray) -> NDArray[np.complex128]:
        """h of every process, `[instants, processes]`. node_cycles: [instants, K] F; one, other: ends of each."""
        rings = self._rings_of(number)
        assert self._of is not None
        # paths at a time: as of all processes, so that some of them are summed in the same order
        rows = min(self.paths, max(1, PHASES_AT_ONCE // max(1, len(self._of))))
        at_once = max(1, PHASES_AT_ONCE // max(1, rows * len(number)))  # instants; sums keep their order
        parts = [
            self._sum_some(rings, node_cycles[n : n + at_once], one, other, rows)
            for n in range(0, len(node_cycles), at_once)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _sum_some(
        self, rings: Rings, node_cycles: FloatArray, one: IntArray, other: IntArray, rows: int
    ) -> NDArray[np.complex128]:
        """The same of a few instants; rows: paths at a time."""
        cos_a, cos_b, start = rings
        shape = (len(node_cycles), len(one))
        turn_a, turn_b = node_cycles[:, None, one], node_cycles[:, None, other]
        real, imaginary = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        cycles, second = (np.empty((shape[0], rows, shape[1])) for _ in range(2))
        for first in range(0, self.paths, rows):
            chunk = slice(first, min(first + rows, self.paths))
            here, there = cycles[:, : chunk.stop - first], second[:, : chunk.stop - first]
            np.multiply(cos_a[chunk], turn_a, out=here)
            np.multiply(cos_b[chunk], turn_b, out=there)
            here += there
            here += start[chunk]
            np.rint(here, out=there)
            here -= there
            here *= 2.0 * np.pi
            angle = here.astype(np.float32)
            real += np.cos(angle).sum(axis=1)
            imaginary += np.sin(angle).sum(axis=1)
        return np.asarray((real + 1j * imaginary.astype(np.float64)) / math.sqrt(self.paths))

    def _rings_of(self, number: IntArray) -> Rings:
        """As `_draw`; kept, and taken from what is kept where these are some of it."""
        if self._of is number:
            return self._rings
        if self._of is not None and len(number) <= len(self._of):
            place = np.minimum(np.searchsorted(self._of, number), len(self._of) - 1)
            if np.array_equal(self._of[place], number):
                return tuple(ring[:, place] for ring in self._rings)  # type: ignore[return-value]
        self._of, self._rings = number, self._draw(number)
        return self._rings

    def _draw(self, number: IntArray) -> Rings:
        """Cosines of the angles at either end and first phases in cycles, each `[paths, processes]`."""
        assert self._word is not None
        lanes = counter_rng.uniform(self._word, number, 3 * self.paths)
        cos_a, cos_b = (np.cos(2 * np.pi * lanes[n : n + self.paths]) for n in (0, self.paths))
        return cos_a, cos_b, lanes[2 * self.paths :]
