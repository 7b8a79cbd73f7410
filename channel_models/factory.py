"""An indoor factory with a rotating machine: fading that comes and goes with every turn.

    h_ij(t) = sqrt(1 - s_ij) + sqrt(s_ij) sum_n b_n exp(j (phi_ijn + 2 pi n r t)),   n = 1 .. harmonics

A machine at machine_m turns r times a second; the blades scatter a share s_ij of the link's power, which
falls with how far the machine is off the line from tx to rx: s_ij = share exp(-detour / decay_m), detour the
extra way over the machine. b_n are fixed and sum to unit power, phases are drawn once per pair. Mean power is
one, so this is small-scale fading: chain it after a loss such as `inh-office`.

Scope and limitations: a periodic channel (period 1/r), no wear or load on the machine, reciprocal, ends at
rest. Power is one on average over the phases; a single pair may be off by the phase between its direct and
scattered parts only when r = 0.

    models = [
      { model = "inh-office" },
      { model = "channel_models/factory.py:RotatingMachine", turns_per_s = 5 },
    ]
"""

import numpy as np


class RotatingMachine:
    small_scale = True  # unit mean power: a static power plan may look past it

    def __init__(
        self,
        turns_per_s: float = 5.0,
        share: float = 0.5,
        decay_m: float = 10.0,
        machine_m: tuple[float, float] = (0.0, 0.0),
        harmonics: int = 4,
    ):
        if not 0 <= share < 1:
            raise ValueError(f"share is {share:g}; must be from 0 to below 1")
        self.turns_per_s, self.share, self.decay_m = turns_per_s, share, decay_m
        self.machine_m, self.harmonics = np.array(machine_m), harmonics
        self._phase = None

    def gain(self, links, time_s, rng):
        if self._phase is None:  # every pair of the full graph: links that come later find theirs
            self._phase = rng.uniform(0, 2 * np.pi, (self.harmonics, links.nodes**2))
        place = links.geometry.position_m[:, :2]
        way = np.linalg.norm(place - self.machine_m, axis=1)
        detour = way[links.tx] + way[links.rx] - links.distance_2d_m
        share = self.share * np.exp(-np.maximum(detour, 0) / self.decay_m)
        number = np.arange(1, self.harmonics + 1)
        weight = (1 / number) / np.linalg.norm(1 / number)
        phase = self._phase[:, links.pair] + 2 * np.pi * number[:, None] * self.turns_per_s * time_s
        return np.abs(np.sqrt(1 - share) + np.sqrt(share) * (weight[:, None] * np.exp(1j * phase)).sum(axis=0))
