"""Signal to interference and noise: what a receiver hears of one sender over all that nobody meant for it.

    SINR[i, j] = |h_ij|^2 P_j / (thermal + jammer_i + own residual_i + sum of strangers |h_ik|^2 P_k)

Neighbours do not interfere with each other: their sum is what the receiver wants. SNR counts thermal noise alone.
"""

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.links import Links
from wirelessdl.units import to_db


def sinr_db(
    heard: Links, neighbour: BoolArray, gain: FloatArray, *, power_w: FloatArray, noise_w: FloatArray, turn: IntArray
) -> FloatArray:
    """SINR of all that is heard, `[links]` dB; inf where nothing disturbs, -inf where nothing is sent."""
    return np.asarray(to_db(sinr(heard, neighbour, gain, power_w=power_w, noise_w=noise_w, turn=turn)))


def sinr(
    heard: Links, neighbour: BoolArray, gain: FloatArray, *, power_w: FloatArray, noise_w: FloatArray, turn: IntArray
) -> FloatArray:
    """The same as a ratio, `[links]`.

    neighbour: [links] which of them are wanted. power_w: [K] radiated. noise_w: [K] thermal noise, jammers and residual
    self-interference at each receiver. turn: [K] in which each node sends; only who sends in the same turn disturbs.
    """
    received_w = gain**2 * power_w[heard.tx]
    strange_w = np.where(neighbour, 0.0, received_w)
    # a stranger does not disturb itself
    turns = int(turn.max(initial=0)) + 1
    place = heard.rx * turns + turn[heard.tx]
    together_w = np.bincount(place, weights=strange_w, minlength=heard.nodes * turns)
    disturbing_w = noise_w[heard.rx] + together_w[place] - strange_w
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(received_w > 0, received_w / np.maximum(disturbing_w, 0.0), 0.0)
