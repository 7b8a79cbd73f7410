"""Energy detection: receivers add up energies, and nobody knows a channel (an access, not a channel model).

    sent       node j puts P_j (1 + w_j / A) / 2 on one resource and P_j (1 - w_j / A) / 2 on another, per coordinate,
               with random phases
    heard      r+, r-: energies on both; on average q_i / 2 + N0 each and A (r+ - r-) = sum_j |h_ij|^2 P_j w_j
    mixed      s_i = w_i + (1 / c_i) sum_j q_ij (w_j - w_i) + N(0, 2 A^2 (q_i / 2 + N0)^2 / c_i^2)
    c_i        max(c, q_i / most): c is the same for all; who hears more turns its receiver down

    q_ij       |h_ij|^2 P_j, W, with P_j the power of the model; q_i: their sum over the neighbours on air
    A          `full_scale`: a public bound on a coordinate of what is sent; c: `reference_dbm` in W
    most       weight that a node gives to its neighbours at most
    N0         `noise_dbm` in W: the thermal noise that `wirelessdl check` prints

After N. Michelusi, Non-Coherent Over-the-Air Decentralized Gradient Descent (NCOTA-DGD), 2024, with one pair of
resources per coordinate in place of its codebook.

It needs no CSI, no pilots, no phase and no power control. Where no receiver is turned down, gains are reciprocal and
powers equal, weights are symmetric, so the network's mean is kept.

Scope and limitations: weights follow |h|^2, so near neighbours count for nearly everything, and far ones for nothing.
The noise is that of random phases between senders: it grows with what is heard and does not vanish with more power;
only a small step (a large c) averages it out, over more rounds. The variance is exact for many senders and coordinates
well below A; nothing is clipped at A. With radio.thermal_noise = false there is no noise at all. A payload is counted
as for other access, two coordinates per complex symbol; here a coordinate takes two symbols, so multiply the payload's
airtime by four. Receivers that are turned down do not keep the network's mean, so noise that pairs share does not
cancel in it. The decreasing steps of the paper are left out: `mix` keeps nothing between calls.

    access = { kind = "channel_models/energy_detection.py:EnergyDetection", reference_dbm = -70, full_scale = 0.1 }
"""

import numpy as np


class EnergyDetection:
    def __init__(
        self, reference_dbm: float = -70.0, full_scale: float = 1.0, noise_dbm: float = -107.0, most: float = 0.5
    ):
        self.reference_w, self.noise_w = (10 ** (dbm / 10 - 3) for dbm in (reference_dbm, noise_dbm))
        self.full_scale, self.most = full_scale, most

    def mix(self, links, gain, amplitude, on_air):
        heard_w = (gain * amplitude[links.tx]) ** 2 * on_air[links.tx]
        total_w = np.bincount(links.rx, heard_w, minlength=links.nodes)
        scale_w = np.maximum(self.reference_w, total_w / self.most)
        deviation = np.sqrt(2.0) * self.full_scale * (total_w / 2 + self.noise_w) / scale_w
        return heard_w / scale_w[links.rx], 1.0 - total_w / scale_w, deviation / np.sqrt(self.noise_w)
