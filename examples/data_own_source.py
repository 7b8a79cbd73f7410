"""Data of your own from a class with one method, `load()`, and a partition with one method, `split()`."""

import tempfile

import numpy as np

import wirelessdl
from wirelessdl.learning.data import Dataset


class Rings:
    """Points on two rings; features are squares, so that a linear model can tell them apart."""

    def __init__(self, samples: int = 4000, noise: float = 0.1):
        self.samples, self.noise = samples, noise

    def load(self):
        rng = np.random.default_rng(0)
        y = np.arange(self.samples) % 2
        angle = rng.uniform(0, 2 * np.pi, self.samples)
        radius = 1 + y + self.noise * rng.standard_normal(self.samples)
        x = np.column_stack([np.cos(angle), np.sin(angle)]) * radius[:, None]
        x = np.column_stack([x, x**2]).astype(np.float32)
        cut = self.samples * 3 // 4
        return Dataset("rings", x[:cut], y[:cut], x[cut:], y[cut:], classes=2, mean=1.0, deviation=1.5)


class EverySoMany:
    """Sample n goes to node n modulo the number of nodes."""

    def split(self, labels, nodes, rng):
        return [np.arange(node, len(labels), nodes) for node in range(nodes)]


if __name__ == "__main__":
    print("a scenario names them by file and class:")
    print('  dataset = { kind = "data_own_source.py:Rings", samples = 4000 }')
    print('  partition = "data_own_source.py:EverySoMany"')
    scenario = wirelessdl.load_scenario(
        "quickstart",
        overrides=[
            f"learning.dataset={{kind='{__file__}:Rings', noise=0.2}}",
            f"learning.partition={__file__}:EverySoMany",
            "scenario.rounds=100",
        ],
    )
    with tempfile.TemporaryDirectory() as folder:
        run = wirelessdl.simulate(scenario, out=folder)
        print(f"accuracy {run.summary['accuracy_mean']:.1%}, proven epsilon {run.summary['epsilon_total']:.3g}")
