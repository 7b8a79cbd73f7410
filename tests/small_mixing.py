"""Mixing matrices of small networks, from dense gains."""

import numpy as np

from wirelessdl.links import Links
from wirelessdl.mixing import balanced_air, mix, uniform_air


def mixing_matrix(gain, alpha, power_w, *, balanced=False):
    """Weights of over-the-air averaging (below paper eq. 13), or balanced at receivers: A[rx, tx].

    gain: [rx, tx] |h|. alpha: [K] share of power for the model. power_w: one number or [K], W.
    """
    links = Links.from_gain(gain)
    vector, amplitude = links.vector(gain), np.sqrt(alpha * np.broadcast_to(power_w, len(gain)))
    air = balanced_air(links, vector, amplitude) if balanced else uniform_air(links)
    return mix(links, vector, amplitude, air=air).dense


def balanced_mixing(gain, alpha, power_w):
    return mixing_matrix(gain, alpha, power_w, balanced=True)
