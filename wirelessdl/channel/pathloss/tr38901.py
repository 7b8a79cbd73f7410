"""3GPP TR 38.901 path loss and line-of-sight probability: base station to terminal.

    UMi   LOS   32.4 + 21 lg D + 20 lg f, beyond the breakpoint 32.4 + 40 lg D + 20 lg f - 9.5 lg(b^2 + dh^2)
          NLOS  max(LOS, 22.4 + 35.3 lg D + 21.3 lg f - 0.3 (hUT - 1.5))
    UMa   LOS   28 + 22 lg D + 20 lg f, beyond 28 + 40 lg D + 20 lg f - 9 lg(b^2 + dh^2)
          NLOS  max(LOS, 13.54 + 39.08 lg D + 20 lg f - 0.6 (hUT - 1.5))
    InH   LOS   32.4 + 17.3 lg D + 20 lg f;  NLOS max(LOS, 17.3 + 38.3 lg D + 24.9 lg f)
    RMa   LOS   20 lg(40 pi D f / 3) + a lg D - b' + 0.002 lg(h) D, beyond 2 pi hBS hUT f / c: + 40 lg(D / dBP)
          NLOS  max(LOS, 161.04 - 7.1 lg W + 7.5 lg h - (24.37 - 3.7 (h/hBS)^2) lg hBS
                + (43.42 - 3.1 lg hBS)(lg D - 3) + 20 lg f - (3.2 lg^2(11.75 hUT) - 4.97))

    d, D      ground distance and slant range, m; D^2 = d^2 + dh^2
    f         carrier frequency, GHz in the losses, Hz in the breakpoints
    hBS, hUT  heights of the higher antenna (base station) and the lower one (terminal), m; dh = hBS - hUT
    b         breakpoint distance of UMi and UMa, m: 4 (hBS - 1)(hUT - 1) f / c, for an environment height of 1 m
    dBP       breakpoint distance of RMa, m: 2 pi hBS hUT f / c
    h, W      RMa: mean building height, 5 m, and street width, 20 m
    a, b'     RMa: min(0.03 h^1.72, 10) and min(0.044 h^1.72, 14.77), dB
    c         speed of light, m/s; lg: logarithm to base 10

Ranges of validity are in formulas.py. With both antennas at 1.5 m the formulas lose their meaning (the UMi breakpoint
is 11.7 m at 3.5 GHz): from device to device use sidelink or log-distance.
"""

import math
from collections.abc import Callable

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.units import SPEED_OF_LIGHT_MPS

_BUILDING_M, _STREET_M = 5.0, 20.0  # RMa: mean building height and street width


def _slant(d: FloatArray, base_m: FloatArray, user_m: FloatArray) -> FloatArray:
    return np.sqrt(d**2 + (base_m - user_m) ** 2)


def _breakpoint(base_m: FloatArray, user_m: FloatArray, frequency_hz: float) -> FloatArray:
    """Effective breakpoint distance with an environment height of 1 m."""
    return 4.0 * (base_m - 1.0) * (user_m - 1.0) * frequency_hz / SPEED_OF_LIGHT_MPS


def rural_breakpoint_m(base_m: FloatArray, user_m: FloatArray, frequency_hz: float) -> FloatArray:
    """Breakpoint of RMa, m, `[links]`: its loss changes slope there, and its line-of-sight shadowing grows."""
    return 2.0 * np.pi * base_m * user_m * frequency_hz / SPEED_OF_LIGHT_MPS


def _two_slopes(
    d: FloatArray,
    base_m: FloatArray,
    user_m: FloatArray,
    frequency_hz: float,
    *,
    near: tuple[float, float],
    fall: float,
) -> FloatArray:
    """LOS loss of UMi and UMa: one slope to the breakpoint, 40 lg D beyond."""
    constant, slope = near
    slant, ghz = np.log10(_slant(d, base_m, user_m)), 20 * math.log10(frequency_hz / 1e9)
    edge = _breakpoint(base_m, user_m, frequency_hz)
    far = constant + 40 * slant + ghz - fall * np.log10(edge**2 + (base_m - user_m) ** 2)
    return np.where(d <= edge, constant + slope * slant + ghz, far)


def umi(d: FloatArray, base_m: FloatArray, user_m: FloatArray, frequency_hz: float, los: bool) -> FloatArray:
    """Loss of the urban micro cell in a street canyon, `[links]` dB; d: ground distance, base_m, user_m: heights."""
    clear = _two_slopes(d, base_m, user_m, frequency_hz, near=(32.4, 21.0), fall=9.5)
    if los:
        return clear
    blocked = 22.4 + 35.3 * np.log10(_slant(d, base_m, user_m)) + 21.3 * math.log10(frequency_hz / 1e9)
    return np.maximum(clear, blocked - 0.3 * (user_m - 1.5))


def uma(d: FloatArray, base_m: FloatArray, user_m: FloatArray, frequency_hz: float, los: bool) -> FloatArray:
    """Loss of the urban macro cell, `[links]` dB; arguments as in `umi`."""
    clear = _two_slopes(d, base_m, user_m, frequency_hz, near=(28.0, 22.0), fall=9.0)
    if los:
        return clear
    blocked = 13.54 + 39.08 * np.log10(_slant(d, base_m, user_m)) + 20 * math.log10(frequency_hz / 1e9)
    return np.maximum(clear, blocked - 0.6 * (user_m - 1.5))


def inh(d: FloatArray, base_m: FloatArray, user_m: FloatArray, frequency_hz: float, los: bool) -> FloatArray:
    """Loss of the indoor office, `[links]` dB; arguments as in `umi`."""
    # defined from 1 m on: closer is clamped to it
    slant, ghz = np.log10(np.maximum(_slant(d, base_m, user_m), 1.0)), math.log10(frequency_hz / 1e9)
    clear: FloatArray = 32.4 + 17.3 * slant + 20 * ghz
    return clear if los else np.maximum(clear, 17.3 + 38.3 * slant + 24.9 * ghz)


def rma(d: FloatArray, base_m: FloatArray, user_m: FloatArray, frequency_hz: float, los: bool) -> FloatArray:
    """Loss of the rural macro cell with 5 m buildings and 20 m streets, `[links]` dB; arguments as in `umi`."""
    ghz, h = frequency_hz / 1e9, _BUILDING_M
    slope, offset = min(0.03 * h**1.72, 10.0), min(0.044 * h**1.72, 14.77)

    def free(slant: FloatArray) -> FloatArray:
        wave: FloatArray = 20 * np.log10(40 * np.pi * slant * ghz / 3)
        return np.asarray(wave + slope * np.log10(slant) - offset + 0.002 * math.log10(h) * slant)

    slant = _slant(d, base_m, user_m)
    edge = rural_breakpoint_m(base_m, user_m, frequency_hz)
    clear = np.where(d <= edge, free(slant), free(edge) + 40 * np.log10(slant / edge))
    if los:
        return np.asarray(clear)
    blocked = (
        161.04
        - 7.1 * math.log10(_STREET_M)
        + 7.5 * math.log10(h)
        - (24.37 - 3.7 * (h / base_m) ** 2) * np.log10(base_m)
        + (43.42 - 3.1 * np.log10(base_m)) * (np.log10(slant) - 3)
        + 20 * math.log10(ghz)
        - (3.2 * np.log10(11.75 * user_m) ** 2 - 4.97)
    )
    return np.asarray(np.maximum(clear, blocked))


def _exponential(edge_m: float, decay_m: float) -> Callable[[FloatArray], FloatArray]:
    """LOS probability of UMi and (terminals up to 13 m) UMa: 1 near, then edge/d + exp(-d/decay)(1 - edge/d)."""

    def probability(d: FloatArray) -> FloatArray:
        near = edge_m / np.maximum(d, edge_m)
        return near + np.exp(-np.maximum(d, edge_m) / decay_m) * (1 - near)

    def bounded(d: FloatArray) -> FloatArray:
        return np.where(d <= edge_m, 1.0, probability(d))

    return bounded


def _open_office(d: FloatArray) -> FloatArray:
    far = 0.54 * np.exp(-(d - 49) / 211.7)
    return np.where(d <= 5, 1.0, np.where(d <= 49, np.exp(-(d - 5) / 70.8), far))


def _rural(d: FloatArray) -> FloatArray:
    return np.where(d <= 10, 1.0, np.exp(-(d - 10) / 1000))


LOS_PROBABILITY: dict[str, Callable[[FloatArray], FloatArray]] = {
    "umi-street-canyon": _exponential(18.0, 36.0),
    "uma": _exponential(18.0, 63.0),
    "inh-office": _open_office,
    "rma": _rural,
}
