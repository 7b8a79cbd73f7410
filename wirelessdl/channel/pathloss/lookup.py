"""Loss and line-of-sight probability by name. Numbers give a number, arrays an array of their common shape.

path_loss_db("umi-street-canyon", 100.0, frequency_hz=3.5e9, tx_height_m=10.0, rx_height_m=1.5, condition="nlos")
"""

from typing import Any, Literal

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.los import ChannelCondition
from wirelessdl.channel.pathloss.distance import Friis, LogDistance, PathLoss, Range, ThreeLogDistance, TwoRay
from wirelessdl.channel.pathloss.formulas import LOS_PROBABILITY
from wirelessdl.channel.pathloss.standard import STANDARD
from wirelessdl.errors import nearest
from wirelessdl.links import Geometry, Links
from wirelessdl.streams import Streams

_WITH_FREQUENCY = {"friis": Friis, "log-distance": LogDistance, "two-ray": TwoRay}
_WITHOUT = {"three-log-distance": ThreeLogDistance, "range": Range}
NAMES = (*_WITH_FREQUENCY, *_WITHOUT, *STANDARD)


def path_loss_db(
    name: str,
    distance_2d_m: float | FloatArray,
    *,
    frequency_hz: float,
    tx_height_m: float | FloatArray,
    rx_height_m: float | FloatArray,
    condition: Literal["los", "nlos"] = "los",
    **parameters: Any,
) -> float | FloatArray:
    """Path loss, dB, of the common shape of distance and heights.

    distance_2d_m: distance on the ground. condition: with or without a line of sight; models that do not depend on it
    ignore it. parameters: further arguments of the model's class.
    """
    if name not in NAMES:
        raise ValueError(f"no loss model {name!r}{nearest(name, NAMES)}")
    if condition not in ("los", "nlos"):
        raise ValueError(f'condition is {condition!r}; must be "los" or "nlos"')
    if not frequency_hz > 0:
        raise ValueError(f"frequency_hz is {frequency_hz}; must be > 0")
    arrays = (np.asarray(value, dtype=np.float64) for value in (distance_2d_m, tx_height_m, rx_height_m))
    ground, tx_height, rx_height = np.broadcast_arrays(*arrays)
    for what, value in (("distance_2d_m", ground), ("tx_height_m", tx_height), ("rx_height_m", rx_height)):
        floor = 0.0 if what == "distance_2d_m" else 1e-9
        if not np.all(np.isfinite(value) & (value >= floor)):
            raise ValueError(f"{what} is {value.ravel()[np.argmin(value)]:g}; must be a finite length > 0")
    model: PathLoss
    if name in STANDARD:
        model = STANDARD[name](frequency_hz, ChannelCondition(condition, "", Streams(0)), **parameters)
    elif name in _WITH_FREQUENCY:
        model = _WITH_FREQUENCY[name](frequency_hz, **parameters)
    else:
        model = _WITHOUT[name](**parameters)
    loss = model.loss_db(_side_by_side(ground.ravel(), tx_height.ravel(), rx_height.ravel())).reshape(ground.shape)
    return float(loss) if np.ndim(loss) == 0 else loss


def los_probability(name: str, distance_2d_m: float | FloatArray) -> float | FloatArray:
    """Probability of a line of sight, of the shape of distance_2d_m, the distance on the ground."""
    if name not in LOS_PROBABILITY:
        raise ValueError(f"{name!r} has no line-of-sight probability{nearest(name, LOS_PROBABILITY)}")
    distance = np.asarray(distance_2d_m, dtype=np.float64)
    if not np.all(distance >= 0):
        raise ValueError("distance_2d_m must be >= 0")
    probability = LOS_PROBABILITY[name](distance)
    return float(probability) if np.ndim(probability) == 0 else probability


def _side_by_side(ground: FloatArray, tx_height: FloatArray, rx_height: FloatArray) -> Links:
    """One link per pair of nodes, 2n -> 2n + 1, each with its distance and heights."""
    count = len(ground)
    position = np.zeros((2 * count, 3))
    position[0::2, 2], position[1::2, 2], position[1::2, 0] = tx_height, rx_height, ground
    tx = 2 * np.arange(count)
    return Links(tx + 1, tx, Geometry.at_rest(position))
