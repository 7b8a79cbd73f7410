"""The 3GPP loss models under their names: which end is the base station, and the ranges of validity.

The higher antenna is taken as the base station; in a street canyon, whose base stations stand at 10 m while users may
be at 22.5 m, the lower one is where both are that high. Outside a model's range of distance, height or frequency the
standard defines no loss; `check_range` names the first value outside.
"""

from dataclasses import dataclass

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.pathloss import tr37885, tr38901
from wirelessdl.links import Links


@dataclass(frozen=True)
class Validity:
    """Closed ranges: ground distance, height of the base station and of the terminal in m, carrier frequency in Hz."""

    distance_m: tuple[float, float]
    base_m: tuple[float, float]
    user_m: tuple[float, float]
    frequency_hz: tuple[float, float] = (0.5e9, 100e9)


CELLULAR = {
    "umi-street-canyon": (tr38901.umi, Validity((10.0, 5000.0), (1.5, 25.0), (1.5, 22.5))),
    "uma": (tr38901.uma, Validity((10.0, 5000.0), (1.5, 60.0), (1.5, 13.0))),  # higher users: not modelled here
    "inh-office": (tr38901.inh, Validity((0.0, 150.0), (1.0, 5.0), (0.5, 5.0))),
    "rma": (tr38901.rma, Validity((10.0, 10_000.0), (10.0, 150.0), (1.0, 10.0), (0.5e9, 30e9))),
}
_UMI_BASE_M = 10.0
SIDELINK = {"sidelink-urban": tr37885.urban, "sidelink-highway": tr37885.highway}
LOS_PROBABILITY = {**tr38901.LOS_PROBABILITY, **tr37885.LOS_PROBABILITY}


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
