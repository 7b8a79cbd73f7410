"""Path loss: what distance takes away, in dB. Shadowing and fading are separate models: chain them.

    friis          20 lg(4 pi d / lambda)
    log-distance   L0 + 10 n lg(d / d0), L0 the free-space loss at d0 unless given

Valid in the far field; closer than d0 (friis: one wavelength) is clamped there.
"""

from typing import Annotated

import numpy as np
from annotated_types import Gt

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Links
from wirelessdl.units import SPEED_OF_LIGHT_MPS, loss_db_to_gain

Positive = Annotated[float, Gt(0)]


def friis_loss_db(distance_m: FloatArray, frequency_hz: float) -> FloatArray:
    """Free-space loss between isotropic antennas."""
    wavelength_m = SPEED_OF_LIGHT_MPS / frequency_hz
    return 20.0 * np.log10(4.0 * np.pi * np.maximum(distance_m, wavelength_m) / wavelength_m)


class Friis:
    """Free space."""

    def __init__(self, frequency_hz: Positive):
        self.frequency_hz = frequency_hz

    def loss_db(self, links: Links) -> FloatArray:
        return friis_loss_db(links.distance_m, self.frequency_hz)

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        return loss_db_to_gain(self.loss_db(links))


class LogDistance:
    """Power law beyond a reference distance."""

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

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        return loss_db_to_gain(self.loss_db(links))
