"""Channel state information: the receivers' estimate gain_est of every link, from the pilot slot.

perfect   gain_est = |h|
pilots    least squares over L symbols: h_est = h + e, e ~ CN(0, N0 / (P L)). With the phase of h taken off,
          gain_est = max(Re h_est, 0); |h_est| would be biased upwards and shrink models. A sender that is aligned by
          h_est is off by arg h_est, of deviation 1 / sqrt(2 L SNR) at an SNR well above 1

|h|   amplitude gain; L: pilot symbols of each sender; P: pilot power, W; N0: receiver noise power, W; SNR: |h|^2 P / N0
"""

from typing import Annotated, Protocol

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from wirelessdl import counter_rng
from wirelessdl.arrays import FloatArray
from wirelessdl.links import Links


class Csi(Protocol):
    """Estimates gains. Its capability `symbols` is the number of pilot symbols of each sender, 1 by default."""

    def estimate(
        self, links: Links, gain: FloatArray, pilot_w: FloatArray, noise_w: float | FloatArray, rng: np.random.Generator
    ) -> FloatArray | NDArray[np.complex128]:
        """Estimate of |h|, `[links]`; complex: of h with its phase taken off, whose argument is the phase error.

        gain: [links] |h|; pilot_w: [K] W; noise_w: one number or [links] W.
        """


class Perfect:
    """Receivers know |h| exactly; one pilot symbol per sender is sent all the same."""

    symbols = 1

    def estimate(
        self, links: Links, gain: FloatArray, pilot_w: FloatArray, noise_w: float | FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        return gain


class Pilots:
    """Least squares over `symbols` orthogonal pilot symbols per sender."""

    def __init__(self, symbols: Annotated[int, Ge(1)] = 1):
        self.symbols = symbols

    def estimate(
        self, links: Links, gain: FloatArray, pilot_w: FloatArray, noise_w: float | FloatArray, rng: np.random.Generator
    ) -> NDArray[np.complex128]:
        deviation = np.sqrt(noise_w / (pilot_w[links.tx] * self.symbols))
        return np.asarray(gain + deviation * counter_rng.complex_normal(counter_rng.key(rng), links.number))


CSI = {"perfect": Perfect, "pilots": Pilots}
