"""A model of your own: any torch module that maps samples to one score per class.

    [learning]
    model = { model = "examples/my_models.py:Patches", width = 32 }

The simulator hands `classes` and `input_shape` (channels, height, width) to `__init__` where it asks for them;
everything else is a parameter of the scenario. All nodes start from the weights the module is built with.
Linear, convolution and GroupNorm layers are clipped per sample without holding per-sample gradients.
BatchNorm lets samples see each other and is refused with per-sample clipping; so is dropout, always.
"""

import torch
from torch import nn


class Patches(nn.Module):
    """Cuts an image into patches, looks at each with the same small network, and adds up what it saw."""

    def __init__(self, input_shape: tuple[int, ...], classes: int, width: int = 32, patch: int = 7):
        super().__init__()
        channels, height, side = input_shape
        if height % patch or side % patch:
            raise ValueError(f"patch is {patch}; must divide {height} and {side}")
        self.cut = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)
        self.norm = nn.GroupNorm(4, width)
        self.mix = nn.Conv2d(width, width, kernel_size=1)
        self.last = nn.Linear(width * (height // patch) * (side // patch), classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        seen = torch.relu(self.norm(self.cut(images)))
        seen = torch.relu(self.mix(seen))
        return self.last(seen.flatten(1))


if __name__ == "__main__":
    module = Patches((1, 28, 28), classes=10, width=16)
    for name, parameter in module.named_parameters():
        print(f"{name:12} {tuple(parameter.shape)}")
    scores = module(torch.zeros(2, 1, 28, 28))
    print(
        f"{sum(part.numel() for part in module.parameters()):,} parameters, scores of two images {tuple(scores.shape)}"
    )
