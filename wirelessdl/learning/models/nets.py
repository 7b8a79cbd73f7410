"""Convolutional networks, as torch modules.

    cnn       two 5 x 5 convolutions with pooling, one hidden layer; about 0.1 M parameters
    resnet20  He et al. 2016 (CIFAR variant, n = 3): a 3 x 3 convolution to 16 channels, three stages of
              three blocks with 16, 32, 64 channels, global mean, one linear layer. Where a stage halves the
              image, the shortcut is a 1 x 1 convolution (their option B; 272,474 parameters for ten classes
              and colours) or every other pixel with missing channels zero (option A; 269,722)

Normalisation is by groups: each sample sees only itself, which per-sample clipping needs. `batch` is the
original's; see `learning/models/module.py` for what it means here.
"""

import math
from typing import Annotated, Literal, TypeAlias

import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn import functional as F

Norm: TypeAlias = Literal["group", "batch", "none"]
Shortcut: TypeAlias = Literal["projection", "pad"]
_CHANNELS_PER_GROUP = 8  # channels that are normalised together


def _norm(kind: Norm, channels: int) -> nn.Module:
    if kind == "none":
        return nn.Identity()
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(math.gcd(channels, max(1, channels // _CHANNELS_PER_GROUP)), channels)


class Cnn(nn.Module):
    """Small convolutional network for images."""

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        channels: Annotated[int, Ge(1)] = 16,
        hidden: Annotated[int, Ge(1)] = 64,
        norm: Norm = "none",
    ):
        super().__init__()
        depth, height, width = _image(input_shape, 4)
        self.first = nn.Conv2d(depth, channels, 5, padding=2)
        self.first_norm = _norm(norm, channels)
        self.second = nn.Conv2d(channels, 2 * channels, 5, padding=2)
        self.second_norm = _norm(norm, 2 * channels)
        self.hidden = nn.Linear(2 * channels * (height // 4) * (width // 4), hidden)
        self.last = nn.Linear(hidden, classes)

    def forward(self, images: Tensor) -> Tensor:
        images = F.max_pool2d(F.relu(self.first_norm(self.first(images))), 2)
        images = F.max_pool2d(F.relu(self.second_norm(self.second(images))), 2)
        scores: Tensor = self.last(F.relu(self.hidden(images.flatten(1))))
        return scores


class _Pad(nn.Module):
    """Every other pixel, and channels of zeros."""

    def __init__(self, more: int):
        super().__init__()
        self.more = more

    def forward(self, images: Tensor) -> Tensor:
        return F.pad(images[:, :, ::2, ::2], (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))


class _Block(nn.Module):
    """Two 3 x 3 convolutions and a shortcut."""

    def __init__(self, before: int, after: int, norm: Norm, shortcut: Shortcut):
        super().__init__()
        stride = 1 if before == after else 2
        self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.first_norm = _norm(norm, after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = _norm(norm, after)
        self.shortcut: nn.Module = nn.Identity()
        if before != after:
            project = nn.Sequential(nn.Conv2d(before, after, 1, stride=2, bias=False), _norm(norm, after))
            self.shortcut = project if shortcut == "projection" else _Pad(after - before)

    def forward(self, images: Tensor) -> Tensor:
        inner = self.second_norm(self.second(F.relu(self.first_norm(self.first(images)))))
        return F.relu(inner + self.shortcut(images))


class ResNet20(nn.Module):
    """ResNet-20 for 32 x 32 images."""

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        norm: Norm = "group",
        shortcut: Shortcut = "projection",
    ):
        super().__init__()
        depth, _, _ = _image(input_shape, 4)
        self.first = nn.Conv2d(depth, 16, 3, padding=1, bias=False)
        self.first_norm = _norm(norm, 16)
        blocks, before = [], 16
        for after in (16, 16, 16, 32, 32, 32, 64, 64, 64):
            blocks.append(_Block(before, after, norm, shortcut))
            before = after
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Linear(64, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        images = self.blocks(F.relu(self.first_norm(self.first(images))))
        scores: Tensor = self.last(torch.mean(images, dim=(2, 3)))
        return scores


def _image(shape: tuple[int, ...], least: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < least:
        sides = " x ".join(map(str, shape))
        raise ValueError(f"model sees samples of shape {sides}; convolutions need images of {least} x {least} or more")
    return shape[0], shape[1], shape[2]
