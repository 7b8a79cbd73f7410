"""3GPP TR 37.885 sidelink: device to device, both antennas low.

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
from typing import Literal

import numpy as np

from wirelessdl.arrays import FloatArray

VehicleLaw = Literal["normal", "log-normal"]


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
    "sidelink-urban": _urban_probability,
    "sidelink-highway": _highway_probability,
}
