"""Decibels, watts, nanoseconds and physical constants: the only module with 10**(x/10).

Gains are amplitudes |h|, so a loss of L dB is 10**(-L/20); powers are linear watts.
The clock counts integer nanoseconds: sums of float slots drift, integers do not.
"""

import math
from typing import TypeVar

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.errors import ContractError

SPEED_OF_LIGHT_MPS = 299_792_458.0
BOLTZMANN_J_PER_K = 1.380649e-23
NS = 1_000_000_000
LONGEST_S = 1e9  # thirty years


Level = TypeVar("Level", float, FloatArray)


def from_db(value_db: Level) -> Level:
    """Power ratio of a decibel value."""
    return 10.0 ** (value_db / 10.0)  # type: ignore[no-any-return]


def to_db(ratio: Level) -> Level:
    """Decibels of a power ratio; zero gives -inf."""
    with np.errstate(divide="ignore"):
        result = 10.0 * np.log10(ratio)
    return result if isinstance(ratio, np.ndarray) else float(result)


def dbm_to_w(power_dbm: Level) -> Level:
    """Watts of a dBm value."""
    return from_db(power_dbm - 30.0)


def w_to_dbm(power_w: float) -> float:
    """dBm of a power in watts."""
    return to_db(power_w) + 30.0


def loss_db_to_gain(loss_db: FloatArray) -> FloatArray:
    """Amplitude gain |h| of a loss in dB."""
    return from_db(-loss_db / 2.0)


def thermal_noise_w(bandwidth_hz: float, noise_figure_db: float, temperature_k: float = 290.0) -> float:
    """kTBF: thermal noise power of a receiver, per complex symbol at one symbol per hertz."""
    return BOLTZMANN_J_PER_K * temperature_k * bandwidth_hz * from_db(noise_figure_db)


_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def prefixed(value: float, unit: str) -> str:
    """Three digits and a decimal prefix, for people: 0.000294 J is 294 µJ."""
    size = abs(float(f"{value:.3g}"))  # 0.9999 J is 1 J, not 1e+03 mJ
    if size == 0 or not math.isfinite(size):
        return f"{value:g} {unit}"
    factor, prefix = next((one for one in _PREFIXES if size >= one[0]), _PREFIXES[-1])
    return f"{value / factor:.3g} {prefix}{unit}"


def format_range(values: FloatArray | IntArray) -> str:
    """The least and the largest with three digits, for people; one number where both are the same."""
    least, most = f"{np.min(values):.3g}", f"{np.max(values):.3g}"
    return least if least == most else f"{least} to {most}"


def to_ns(seconds: float) -> int:
    """Nanoseconds, rounded up, so that no positive time becomes 0."""
    if not seconds <= LONGEST_S:
        raise ContractError(f"a time of {seconds:g} s is more than the clock counts, {LONGEST_S:g} s: shorten it")
    return math.ceil(round(seconds * NS, 3))


def to_s(nanoseconds: int) -> float:
    return nanoseconds / NS
