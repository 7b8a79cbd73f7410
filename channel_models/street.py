"""A street canyon: power-law loss with an exponent of your own.

    L(d) = 40 + 10 n lg d   [dB], d in metres, never closer than 1 m

Scope and limitations: one exponent for all links, no shadowing, no fading; chain `rayleigh` or
`rician` after it. Frequency is in the 40 dB (about 2.4 GHz).

    models = [{ model = "channel_models/street.py:Street", exponent = 3.2 }, { model = "rayleigh" }]
"""

import numpy as np


class Street:
    def __init__(self, exponent: float = 3.0):
        self.exponent = exponent

    def gain(self, links, time_s, rng):
        loss_db = 40 + 10 * self.exponent * np.log10(np.maximum(links.distance_m, 1.0))
        return 10 ** (-loss_db / 20)
