"""Data of your own from a file: write it once, name it in a scenario, look at it, run it."""

import tempfile
from pathlib import Path

import numpy as np

import wirelessdl
from wirelessdl.learning.partition import class_histogram
from wirelessdl.run.build import build

# two kinds of vibration, 64 readings each; in real life this is your measurement campaign
rng = np.random.default_rng(0)
y = np.arange(2000) % 2
phase = rng.uniform(0, 2 * np.pi, (2000, 1))
x = np.sin(np.linspace(0, 6, 64) * (1 + y[:, None]) + phase) + 0.3 * rng.standard_normal((2000, 64))

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "vibration.npz"
    np.savez(file, x=np.abs(np.fft.rfft(x))[:, :16], y=np.array(["idle", "load"])[y])

    scenario = wirelessdl.load_scenario(
        "quickstart",
        overrides=[
            f"learning.dataset={{kind='file', path='{file}', scale=10, test_share=0.25}}",
            "learning.partition={kind='dirichlet', form='client', concentration=0.5}",
            "learning.batch_size=32",
            "privacy.epsilon_max=inf",
            "scenario.rounds=60",
        ],
    )
    world = build(scenario)
    print(f"{world.data.name}: {len(world.data.train_y)} to train on, {len(world.data.test_y)} to test on")
    print("samples of each class at each node:")
    print(class_histogram(world.data.train_y, world.client_indices, world.data.classes))
    run = wirelessdl.simulate(scenario, out=Path(folder) / "outputs")
    print(f"accuracy {run.summary['accuracy_mean']:.1%} after {len(run.rounds)} rounds")
