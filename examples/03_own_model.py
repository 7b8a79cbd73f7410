"""A model of your own: any torch module without batch normalisation, with every sample's gradient clipped by itself.

python examples/03_own_model.py
"""

from torch import nn

import wirelessdl


class Net(nn.Module):
    """Two small layers; input_shape and classes come from the data set."""

    def __init__(self, input_shape, classes: int, hidden: int = 16):
        super().__init__()
        channels, rows, columns = input_shape
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(channels * rows * columns, hidden), nn.Tanh(), nn.Linear(hidden, classes)
        )

    def forward(self, images):
        return self.layers(images)


run = wirelessdl.simulate("quickstart", model=Net, overrides={"scenario.rounds": 20})
print(f"accuracy {run.summary['accuracy_mean']:.1%}, epsilon {run.summary['epsilon_total']:.3g}")
first = run.final_models()[0]
print("node 0 ends with", {name: tuple(values.shape) for name, values in first.items()})
