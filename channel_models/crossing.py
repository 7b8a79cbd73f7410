"""A street crossing with a moving blocker: a bus that drives back and forth between the nodes.

    L(d) = 20 lg(4 pi f / c) + 10 n lg d + B [dB], d in metres, never closer than 1 m
    B    = blocked_db while the line from tx to rx passes within half_width_m of the bus, falling off with the
           distance r from it as blocked_db exp(-(r - half_width_m) / edge_m)

The bus goes along the x axis from -reach_m to reach_m and back at speed_mps: where it is follows from the
time alone, so the model keeps no state and draws nothing.

Scope and limitations: one blocker, straight lines on the ground (heights are ignored), no reflection that
would fill the shadow, the same loss in both directions. The soft edge stands for diffraction; it is a
shape, not a computation. No small-scale fading: chain `rician` or `rayleigh` after it.

    models = [
      { model = "channel_models/crossing.py:Crossing", speed_mps = 8, blocked_db = 20 },
      { model = "rician", k_db = 9 },
    ]
"""

import numpy as np


class Crossing:
    def __init__(
        self,
        frequency_hz: float,  # the scenario's, handed over because it is asked for
        exponent: float = 2.2,
        speed_mps: float = 8.0,
        reach_m: float = 60.0,
        half_width_m: float = 3.0,
        edge_m: float = 2.0,
        blocked_db: float = 20.0,
    ):
        self.reference_db = 20 * np.log10(4 * np.pi * frequency_hz / 299_792_458)
        self.exponent, self.speed_mps, self.reach_m = exponent, speed_mps, reach_m
        self.half_width_m, self.edge_m, self.blocked_db = half_width_m, edge_m, blocked_db

    def bus(self, time_s):
        """Where the blocker is: a triangle wave along x."""
        phase = (self.speed_mps * time_s / (4 * self.reach_m)) % 1.0
        return np.array([self.reach_m * (4 * abs(phase - 0.5) - 1), 0.0])

    def gain(self, links, time_s, rng):
        place = links.geometry.position_m[:, :2]
        start, along = place[links.tx], place[links.rx] - place[links.tx]
        # the point of each link that comes closest to the bus
        share = np.sum((self.bus(time_s) - start) * along, axis=1) / np.maximum(np.sum(along**2, axis=1), 1e-9)
        closest = start + np.clip(share, 0, 1)[:, None] * along
        apart = np.linalg.norm(closest - self.bus(time_s), axis=1)
        shadow_db = self.blocked_db * np.exp(-np.maximum(apart - self.half_width_m, 0) / self.edge_m)
        loss_db = self.reference_db + 10 * self.exponent * np.log10(np.maximum(links.distance_m, 1.0))
        return 10 ** (-(loss_db + shadow_db) / 20)
