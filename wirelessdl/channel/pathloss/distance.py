"""Path loss as a function of distance, in dB. Shadowing and fading are separate models: chain them.

    friis                20 lg(4 pi d / lambda)
    log-distance         L0 + 10 n lg(d / d0), L0 the free-space loss at d0 unless given
    three-log-distance   log-distance with other exponents beyond d1 and d2
    two-ray              friis to the crossover 4 pi ht hr / lambda, then 40 lg d - 20 lg(ht hr)
    range                0 within range_m, infinite beyond
    matrix               as given, [rx][tx]
    umi-street-canyon, uma, inh-office, rma      TR 38.901: see formulas.py
    sidelink-urban, sidelink-highway             TR 37.885: see formulas.py

    d       length of the link in three dimensions, m
    lambda  wavelength c / f, m; f: carrier frequency, Hz; c: speed of light, m/s
    ht, hr  antenna heights of transmitter and receiver, m
    lg      logarithm to base 10

Valid in the far field; distances below the reference distance (friis, two-ray: one wavelength) are clamped
to it. The 3GPP models have ranges of distance, height and frequency; outside them is an error.
"""

from typing import Annotated

import numpy as np
from annotated_types import Gt

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.model import Composable, RngOf
from wirelessdl.links import Instants, Links
from wirelessdl.units import SPEED_OF_LIGHT_MPS, loss_db_to_gain

Positive = Annotated[float, Gt(0)]


def friis_loss_db(distance_m: FloatArray, frequency_hz: float) -> FloatArray:
    """Free-space loss between isotropic antennas, dB, of the shape of distance_m."""
    wavelength_m = SPEED_OF_LIGHT_MPS / frequency_hz
    return 20.0 * np.log10(4.0 * np.pi * np.maximum(distance_m, wavelength_m) / wavelength_m)


def two_ray_loss_db(
    distance_m: FloatArray, tx_height_m: FloatArray, rx_height_m: FloatArray, frequency_hz: float
) -> FloatArray:
    """Free space to the crossover distance, a ground reflection beyond: dB; three arrays of one shape, m."""
    wavelength_m = SPEED_OF_LIGHT_MPS / frequency_hz
    crossover_m = 4.0 * np.pi * tx_height_m * rx_height_m / wavelength_m
    far = 40.0 * np.log10(np.maximum(distance_m, wavelength_m)) - 20.0 * np.log10(tx_height_m * rx_height_m)
    return np.where(distance_m <= crossover_m, friis_loss_db(distance_m, frequency_hz), far)


class PathLoss(Composable):
    """Base of models that are a loss in dB; the gain follows from it: |h| = 10^(-loss / 20)."""

    placed = True

    def loss_db(self, links: Links) -> FloatArray:
        """Loss of every link, `[links]` dB."""
        raise AssertionError("a loss model has a loss")

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        return loss_db_to_gain(self.loss_db(links))

    def gains(self, instants: Instants, rng_of: RngOf) -> FloatArray:
        """|h| at several instants, `[instants, links]`: a loss depends on where nodes are and on nothing else."""
        return np.asarray(loss_db_to_gain(self.loss_db(instants.stacked))).reshape(len(instants), -1)


class Friis(PathLoss):
    """Free space.

        L = 20 lg(4 pi d / lambda)   [dB]

    d: link length, m. lambda = c / f: wavelength, m. f: carrier frequency, Hz.
    Valid in the far field with isotropic antennas; d below lambda is taken as lambda, so L is never below 22 dB.
    """

    def __init__(self, frequency_hz: Positive):
        self.frequency_hz = frequency_hz

    def loss_db(self, links: Links) -> FloatArray:
        return friis_loss_db(links.distance_m, self.frequency_hz)


class LogDistance(PathLoss):
    """Power law beyond a reference distance.

        L = L0 + 10 n lg(d / d0)   [dB]

    d: link length, m. d0: reference_m, m. n: exponent. L0: reference_loss_db, dB; by default the free-space loss
    at d0 and the carrier frequency_hz. Valid for d >= d0; d below d0 is taken as d0.
    """

    def __init__(
        self,
        frequency_hz: Positive,
        exponent: Positive = 3.0,
        reference_m: Positive = 1.0,
        reference_loss_db: float | None = None,
    ):
        self.exponent, self.reference_m = exponent, reference_m
        self.reference_loss_db = (
            float(friis_loss_db(np.array(reference_m), frequency_hz))
            if reference_loss_db is None
            else reference_loss_db
        )

    def loss_db(self, links: Links) -> FloatArray:
        ratio = np.maximum(links.distance_m, self.reference_m) / self.reference_m
        return self.reference_loss_db + 10.0 * self.exponent * np.log10(ratio)


class ThreeLogDistance(PathLoss):
    """Three power laws; no loss closer than the first distance.

        L = L0 + 10 n0 lg(min(d, d1) / d0) + 10 n1 lg(min(d, d2) / d1) + 10 n2 lg(d / d2)   [dB]

    d: link length, m; a term counts where its logarithm is positive. d0, d1, d2: distances_m, m. n0, n1, n2:
    exponents. L0: reference_loss_db, dB, at d0. Valid for d >= d0; L = 0 below d0. The carrier frequency is in L0.
    """

    def __init__(
        self,
        distances_m: tuple[float, float, float] = (1.0, 200.0, 500.0),
        exponents: tuple[float, float, float] = (1.9, 3.8, 3.8),
        reference_loss_db: float = 46.6777,
    ):
        if not 0 < distances_m[0] < distances_m[1] < distances_m[2]:
            raise ValueError(f"distances_m is {list(distances_m)}; must be positive and increasing")
        self.distances_m, self.exponents, self.reference_loss_db = distances_m, exponents, reference_loss_db

    def loss_db(self, links: Links) -> FloatArray:
        d = links.distance_m
        total = np.where(d < self.distances_m[0], 0.0, self.reference_loss_db)
        ends = (*self.distances_m[1:], np.inf)
        for start, end, exponent in zip(self.distances_m, ends, self.exponents):
            total = total + 10.0 * exponent * np.log10(np.clip(d, start, end) / start)
        return total


class TwoRay(PathLoss):
    """Free space, then a ground reflection.

        L = 20 lg(4 pi d / lambda)     d <= 4 pi ht hr / lambda      [dB]
        L = 40 lg d - 20 lg(ht hr)     beyond

    d: link length, m. ht, hr: antenna heights, m. lambda = c / f: wavelength, m. f: carrier frequency, Hz.
    Valid over flat ground for d well above ht and hr; d below lambda is taken as lambda.
    """

    def __init__(self, frequency_hz: Positive):
        self.frequency_hz = frequency_hz

    def loss_db(self, links: Links) -> FloatArray:
        return two_ray_loss_db(links.distance_m, links.tx_height_m, links.rx_height_m, self.frequency_hz)


class Range(PathLoss):
    """No loss up to range_m (m, of the link in three dimensions), infinite loss beyond. For tests and toy networks."""

    def __init__(self, range_m: Positive = 250.0):
        self.range_m = range_m

    def loss_db(self, links: Links) -> FloatArray:
        return np.where(links.distance_m <= self.range_m, 0.0, np.inf)


class Matrix(PathLoss):
    """Losses in dB as a list of rows, one per receiver; inf where nothing is heard."""

    def __init__(self, loss_db: list[list[float]]):
        try:
            self._matrix = np.array(loss_db, dtype=np.float64)
        except ValueError:
            raise ValueError("loss_db has rows of different lengths; must be one row per receiver") from None
        if self._matrix.ndim != 2 or self._matrix.shape[0] != self._matrix.shape[1] or np.isnan(self._matrix).any():
            raise ValueError(f"loss_db has shape {self._matrix.shape}; must be square, [rx][tx], without NaN")

    def loss_db(self, links: Links) -> FloatArray:
        nodes = links.nodes // links.instants
        if nodes != len(self._matrix):
            raise ValueError(f"loss_db is for {len(self._matrix)} nodes; the network has {nodes}")
        return np.asarray(self._matrix[links.rx % nodes, links.tx % nodes])
