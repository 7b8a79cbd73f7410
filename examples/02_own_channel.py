"""A channel of your own: a class with one method, which gives |h| of every link.

python examples/02_own_channel.py
"""

import numpy as np

import wirelessdl


class Tunnel:
    """Loss that grows linearly with distance, 60 + a d dB, and waves that half of the time cancel."""

    def __init__(self, db_per_m: float = 0.05):
        self.db_per_m = db_per_m

    def gain(self, links, time_s, rng):
        loss_db = 60 + self.db_per_m * links.distance_m
        return 10 ** (-loss_db / 20) * rng.choice([0.5, 1.3], size=len(links))


for db_per_m in (0.05, 0.2):
    run = wirelessdl.simulate(
        "quickstart", channel=Tunnel(db_per_m), overrides={"scenario.rounds": 30, "radio.thermal_noise": True}
    )
    loss_db = -20 * np.log10(run.links["gain"]).mean()
    print(f"{db_per_m:.2f} dB/m: mean loss {loss_db:.1f} dB, accuracy {run.summary['accuracy_mean']:.1%}")
