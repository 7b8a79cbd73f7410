"""What to spend a total on: rounds, batch, clip norm and learning rate at one proven epsilon.

Every run below has the same proven total. `calibrate` gives the noise multiplier that so many releases need, and with
the objective `own-noise` the per-slot target that gives this multiplier is its one-slot epsilon.

    python examples/fixed_total.py [TOTAL]
"""

import sys
import tempfile

import numpy as np

from wirelessdl import load_scenario, simulate
from wirelessdl.gaussian import slot_epsilon
from wirelessdl.privacy import calibrate

DELTA, SEEDS = 1e-4, (1, 2, 3)
BASE = {"rounds": 200, "batch": 128, "clip": 1.0, "rate": 0.5}
VARIED = {
    "rounds": (25, 50, 100, 400, 800),
    "batch": (32, 64, 256, 512),
    "clip": (0.1, 0.3, 3.0, 10.0),
    "rate": (0.05, 0.15, 1.5),
}


def accuracy(total: float, rounds: int, batch: int, clip: float, rate: float) -> tuple[float, float, float]:
    """Mean accuracy over seeds, the per-slot target, and the largest proven total."""
    samples = 3000  # of every node of quickstart: 12,000 split evenly among four
    nu = calibrate(total, q=batch / samples, delta=DELTA, accountant="pld", rounds=rounds - 1)
    target = float(slot_epsilon(np.array([1 / nu]), DELTA)[0])
    found, proven = [], []
    for seed in SEEDS:
        settings = {
            "scenario.seed": seed,
            "scenario.rounds": rounds,
            "privacy.epsilon_max": target,
            "privacy.clip_norm": clip,
            "power.objective": "own-noise",
            "power.alpha_min": 1e-6,
            "learning.batch_size": batch,
            "learning.learning_rate.initial": rate,
            "privacy.rho": 1 / rate,  # as much noise as the power budget lets be heard
            "learning.eval_every": rounds,
            "trace.links": "none",
        }
        overrides = [f"{key}={value}" for key, value in settings.items()]
        with tempfile.TemporaryDirectory() as folder:
            run = simulate(load_scenario("quickstart", overrides=overrides), out=folder, device="cpu")
            found.append(run.summary["accuracy_mean"])
            proven.append(run.summary["epsilon_total"])
    return float(np.mean(found)), target, max(proven)


def main(total: float) -> None:
    print(f"quickstart, proven total {total:g} at delta {DELTA:g}, mean of seeds {SEEDS}")
    print(f"{'rounds':>8}{'batch':>8}{'clip':>8}{'rate':>8}{'epsilon_max':>14}{'proven':>9}{'accuracy':>11}")
    rows = [BASE] + [{**BASE, key: value} for key, values in VARIED.items() for value in values]
    for row in rows:
        mean, target, proven = accuracy(total, **row)
        numbers = f"{row['rounds']:>8}{row['batch']:>8}{row['clip']:>8g}{row['rate']:>8g}"
        print(f"{numbers}{target:>14.3g}{proven:>9.3g}{mean:>11.1%}", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
