"""3GPP path loss and line-of-sight probability, with ranges of validity.

**TR 38.901 path loss and line-of-sight probability: base station to terminal**

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

With both antennas at 1.5 m the formulas lose their meaning (the UMi breakpoint
is 11.7 m at 3.5 GHz): from device to device use sidelink or log-distance.

The higher antenna is taken as the base station; in a street canyon, whose base stations stand at 10 m while users may
be at 22.5 m, the lower one is where both are that high. Outside a model's range of distance, height or frequency the
standard defines no loss; `check_range` names the first value outside.

**TR 37.885 sidelink: device to device, both antennas low**

    urban    LOS   38.77 + 16.7 lg d + 18.2 lg f        P_LOS = min(1, 1.05 exp(-0.0114 d))
    highway  LOS   32.4 + 20 lg d + 20 lg f             P_LOS = min(1, 2.1013e-6 d^2 - 0.002 d + 1.0193) to 475 m,
                                                                max(0, 0.54 - 0.001 (d - 475)) beyond
    both     NLOS  36.85 + 30 lg d + 18.9 lg f          around a corner or behind a building
             NLOSv LOS + max(0, V) dB                   a vehicle in the way; P_LOS tells it apart from LOS, not NLOS
                   both antennas below the vehicle's roof   mu = 9 + max(0, 15 lg d - 41), s = 4.5
                   both above it                            nothing added
                   otherwise                                mu = 5 + max(0, 15 lg d - 41), s = 4

    V       what the vehicle adds, dB, with mean mu and standard deviation s, by one of two laws:
            normal        V = mu + s N(0, 1)
            log-normal    V = exp(a + b N(0, 1)),  b^2 = ln(1 + (s / mu)^2),  a = ln mu - b^2 / 2
    d       slant range, m, in the losses; ground distance, m, in P_LOS
    f       carrier frequency, GHz
    P_LOS   probability that no vehicle is in the way
    lg      logarithm to base 10

The report calls the loss "max {0 dB, a log-normal random variable}" with mean and deviation in dB. A quantity that is
log-normal is normal in dB, which is the law "normal"; ns-3 draws the decibels themselves from a log-normal variable
(ThreeGppV2vUrbanPropagationLossModel), which is the law "log-normal". The log-normal law is never below 0, has the mean
mu exactly, and a longer tail; the cut at 0 raises the mean of the normal law to 9.04 and 5.20 dB where mu is 9 and 5.

Validity: no upper distance is given; d below 1 m is taken as 1 m.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Links
from wirelessdl.units import SPEED_OF_LIGHT_MPS

VehicleLaw = Literal["normal", "log-normal"]
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


def urban(distance_m: FloatArray, frequency_hz: float, los: bool) -> FloatArray:
    """Loss in a street grid, dB, of the shape of distance_m (slant range)."""
    if not los:
        return _blocked(distance_m, frequency_hz)
    return 38.77 + 16.7 * _lg(distance_m) + 18.2 * math.log10(frequency_hz / 1e9)


def highway(distance_m: FloatArray, frequency_hz: float, los: bool) -> FloatArray:
    """Loss on a highway, dB, of the shape of distance_m (slant range)."""
    if not los:
        return _blocked(distance_m, frequency_hz)
    return 32.4 + 20 * _lg(distance_m) + 20 * math.log10(frequency_hz / 1e9)


def _blocked(distance_m: FloatArray, frequency_hz: float) -> FloatArray:
    return 36.85 + 30 * _lg(distance_m) + 18.9 * math.log10(frequency_hz / 1e9)


def vehicle_loss_db(
    distance_m: FloatArray,
    lower_m: FloatArray,
    higher_m: FloatArray,
    roof_m: FloatArray,
    level: FloatArray,
    law: VehicleLaw = "normal",
) -> FloatArray:
    """What a vehicle in the way adds, dB, of the shape of distance_m (slant range).

    lower_m, higher_m: heights of the two antennas; roof_m: height of the vehicle; level: N(0, 1).
    """
    further = np.maximum(0.0, 15 * _lg(distance_m) - 41)
    hidden = higher_m < roof_m
    mean, deviation = np.where(hidden, 9.0, 5.0) + further, np.where(hidden, 4.5, 4.0)
    if law == "normal":
        added = np.maximum(0.0, mean + deviation * level)
    else:
        variance = np.log1p((deviation / mean) ** 2)
        added = np.exp(np.log(mean) - variance / 2 + np.sqrt(variance) * level)
    return np.where(lower_m > roof_m, 0.0, added)


def _lg(distance_m: FloatArray) -> FloatArray:
    return np.log10(np.maximum(distance_m, 1.0))


def _urban_probability(d: FloatArray) -> FloatArray:
    return np.minimum(1.0, 1.05 * np.exp(-0.0114 * d))


def _highway_probability(d: FloatArray) -> FloatArray:
    near = np.minimum(1.0, 2.1013e-6 * d**2 - 0.002 * d + 1.0193)
    return np.where(d <= 475, near, np.maximum(0.0, 0.54 - 0.001 * (d - 475)))


LOS_PROBABILITY: dict[str, Callable[[FloatArray], FloatArray]] = {
    "umi-street-canyon": _exponential(18.0, 36.0),
    "uma": _exponential(18.0, 63.0),
    "inh-office": _open_office,
    "rma": _rural,
    "sidelink-urban": _urban_probability,
    "sidelink-highway": _highway_probability,
}


@dataclass(frozen=True)
class Validity:
    """Closed ranges: ground distance, height of the base station and of the terminal in m, carrier frequency in Hz."""

    distance_m: tuple[float, float]
    base_m: tuple[float, float]
    user_m: tuple[float, float]
    frequency_hz: tuple[float, float] = (0.5e9, 100e9)


CELLULAR = {
    "umi-street-canyon": (umi, Validity((10.0, 5000.0), (1.5, 25.0), (1.5, 22.5))),
    "uma": (uma, Validity((10.0, 5000.0), (1.5, 60.0), (1.5, 13.0))),  # higher users: not modelled here
    "inh-office": (inh, Validity((0.0, 150.0), (1.0, 5.0), (0.5, 5.0))),
    "rma": (rma, Validity((10.0, 10_000.0), (10.0, 150.0), (1.0, 10.0), (0.5e9, 30e9))),
}
_UMI_BASE_M = 10.0
SIDELINK = {"sidelink-urban": urban, "sidelink-highway": highway}


def standard_loss_db(name: str, links: Links, frequency_hz: float, los: bool) -> FloatArray:
    """Loss of a 3GPP model by name, `[links]` dB. los: with or without a line of sight, for all links."""
    ground_m, ends_m = links.distance_2d_m, (links.tx_height_m, links.rx_height_m)
    if name in SIDELINK:
        slant_m = np.sqrt(ground_m**2 + (ends_m[0] - ends_m[1]) ** 2)
        return np.asarray(SIDELINK[name](slant_m, frequency_hz, los))
    base, user = np.maximum(*ends_m), np.minimum(*ends_m)
    if name == "umi-street-canyon":
        upstairs = user >= _UMI_BASE_M
        base, user = np.where(upstairs, user, base), np.where(upstairs, base, user)
    return np.asarray(CELLULAR[name][0](ground_m, base, user, frequency_hz, los))


def check_range(name: str, links: Links, frequency_hz: float) -> None:
    """Raise a ValueError with the first value outside the model's range; sidelink models have no range."""
    if name not in CELLULAR:
        return
    valid, ends_m = CELLULAR[name][1], (links.tx_height_m, links.rx_height_m)
    _within(name, "distance_2d_m", links.distance_2d_m, valid.distance_m)
    _within(name, "the higher antenna", np.maximum(*ends_m), valid.base_m)
    _within(name, "the lower antenna", np.minimum(*ends_m), valid.user_m)
    _within(name, "frequency_hz", np.array(frequency_hz), valid.frequency_hz)


def _within(name: str, what: str, values: FloatArray, limits: tuple[float, float]) -> None:
    outside = (values < limits[0]) | (values > limits[1])
    if np.any(outside):
        first = float(np.ravel(values)[np.argmax(np.ravel(outside))])
        raise ValueError(
            f"{what} is {first:g}; {name} holds from {limits[0]:g} to {limits[1]:g}: "
            "use sidelink-urban or log-distance, or set enforce_range = false"
        )
