"""No sample enters a sum with more than the clip norm, in float32, whatever its data: measured in float64."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from wirelessdl.learning.batch import Batch
from wirelessdl.learning.clipping import clip_rows_, norm_bound
from wirelessdl.learning.gradients import GradientJob, choose, threads
from wirelessdl.learning.models.closed_form import Logistic, Mlp, Ridge, Softmax
from wirelessdl.learning.models.module import ModuleLearner, seeded
from wirelessdl.learning.models.nets import Cnn

CPU = torch.device("cpu")
SHAPE, CLASSES, SAMPLES = (1, 28, 28), 10, 6
OFFSETS = (0.0, 1e3, 1e4, 1e5, 1e6, 1e7)


class Raw(nn.Module):
    """Positions of the convolution cancel: normalisation takes off what images have in common."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(1, 64, 7, stride=7), nn.GroupNorm(64, 64), nn.Linear(64, CLASSES)
        with torch.no_grad():
            self.last.weight.mul_(10.0)

    def forward(self, images):
        return self.last(torch.relu(self.norm(self.conv(images))).amax((2, 3)))


class Patches(nn.Module):
    """The same of a linear layer over 16 positions."""

    def __init__(self):
        super().__init__()
        self.along, self.last = nn.Linear(49, 64), nn.Linear(64, CLASSES)
        with torch.no_grad():
            self.last.weight.mul_(10.0)

    def forward(self, images):
        hidden = self.along(images.unfold(2, 7, 7).unfold(3, 7, 7).reshape(len(images), 16, 49))
        return self.last(torch.relu(hidden - hidden.mean(1, keepdim=True)).amax(1))


class Reused(Patches):
    """A weight in two places, an embedding of rounded pixels, and normalised layers."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(5, 49), nn.LayerNorm(49)

    def forward(self, images):
        words = self.norm(self.table(images.flatten(1)[:, :9].fmod(5).abs().long()).mean(1))
        return super().forward(images) + self.last(nn.functional.linear(words, self.along.weight))


def module(build):
    with seeded(np.random.default_rng(0)):
        return ModuleLearner(build(), SHAPE, CLASSES)


MODULES = {
    "raw": lambda: module(Raw),
    "patches": lambda: module(Patches),
    "reused": lambda: module(Reused),
    "cnn": lambda: module(lambda: Cnn(SHAPE, CLASSES, channels=64, hidden=8, norm="group")),
}
CLOSED = {
    "softmax": lambda: Softmax(784, CLASSES),
    "mlp": lambda: Mlp(784, CLASSES, [9, 6]),
    "logistic": lambda: Logistic(784, CLASSES, 1e-9),
    "ridge": lambda: Ridge(784, 1e-9),
}
CASES = [
    *[(name, strategy) for name in MODULES for strategy in ("threads", "threads, none kept", "vmap", "loop")],
    *[(name, "closed-form") for name in CLOSED],
]


# weights that an adversary may choose, from initial ones
CHOSEN = {
    "large": lambda x: 30.0 * x,
    "alike": lambda x: torch.full_like(x, 0.1),
    "signs": lambda x: 0.5 * x.sign(),
    "mixed scales": lambda x: x * torch.logspace(-3, 3, x.shape[1]),
}


def single_sums(
    learner, strategy, clipping="per-sample", clip_norm=1.0, offsets=OFFSETS, chosen_weights=lambda x: x, deviation=1.0
):
    """What each sample alone adds to the sum of a batch, `[offsets, samples]`: all others have a weight of zero."""
    generator = torch.Generator().manual_seed(2)
    job = GradientJob(learner, clipping, clip_norm, CPU, torch.float32, isinstance(learner, Ridge))
    chosen = choose(strategy, job, nodes=1, batch=SAMPLES, input_shape=SHAPE, threads=1)
    x = torch.as_tensor(learner.initial(np.random.default_rng(1))).float().unsqueeze(0)
    x += (0.0 if isinstance(learner, ModuleLearner) else 0.1) * torch.randn(x.shape, generator=generator)
    x = chosen_weights(x)
    penalty = getattr(learner, "penalty", 0.0)
    found = []
    for offset in offsets:
        features = deviation * torch.randn(1, SAMPLES, *SHAPE, generator=generator) + offset
        if learner.bias_column:
            features = torch.cat([features.flatten(2), torch.ones(1, SAMPLES, 1)], dim=2)
        labels = torch.randint(CLASSES, (1, SAMPLES), generator=generator)
        for weight in torch.eye(SAMPLES):
            out = torch.full_like(x, torch.nan)
            given = Batch(features, labels.float() if job.regression else labels, weight.unsqueeze(0))
            chosen.gradient(0, x, given, out)
            found.append((out.double() - penalty * x.double()).norm().item())
    return torch.tensor(found).view(len(offsets), SAMPLES)


@pytest.mark.parametrize(("name", "strategy"), CASES)
def test_no_sample_exceeds_the_clip_norm(monkeypatch, name, strategy):
    if "none kept" in strategy:
        monkeypatch.setattr(threads, "_MAX_KEPT_BYTES", 0)
    offsets = (0.0, 1e4) if name == "cnn" else OFFSETS
    found = single_sums({**MODULES, **CLOSED}[name](), strategy.split(",")[0], offsets=offsets)
    assert found.max() <= 1.0 + 1e-6
    assert found.max() > 0.9998  # the bound is no tighter than it must be


@pytest.mark.parametrize("weights", CHOSEN)
@pytest.mark.parametrize(("name", "strategy"), [case for case in CASES if case[0] != "reused" and "," not in case[1]])
def test_no_chosen_weights_let_a_sample_exceed_the_clip_norm(name, weights, strategy):
    offsets = (1e4,) if name == "cnn" else OFFSETS[1:]
    learner = {**MODULES, **CLOSED}[name]()
    assert single_sums(learner, strategy, offsets=offsets, chosen_weights=CHOSEN[weights]).max() <= 1.0 + 1e-6


@pytest.mark.parametrize("strategy", ["threads", "vmap", "loop"])
def test_positions_that_cancel_hide_no_norm_however_alike_they_are(strategy):
    """Pixels that all have one value leave gradients of rounding alone."""
    assert single_sums(MODULES["raw"](), strategy, deviation=0.0, offsets=OFFSETS[1:]).max() <= 1.0 + 1e-6


@pytest.mark.parametrize("strategy", ["threads", "vmap", "loop"])
def test_no_batch_exceeds_the_clip_norm(strategy):
    assert single_sums(MODULES["raw"](), strategy, "batch").max() <= 1.0 + 1e-6


@pytest.mark.parametrize("name", ["raw", "patches"])
def test_one_replaced_sample_moves_a_sum_by_no_more_than_its_sensitivity(name):
    """Sums of 8 at offsets where rounding is most of what positions leave of a gradient; nothing replaces a sample."""
    learner, generator = MODULES[name](), torch.Generator().manual_seed(3)
    job = GradientJob(learner, "per-sample", 1.0, CPU, torch.float32)
    chosen = choose("threads", job, nodes=1, batch=8, input_shape=SHAPE, threads=1)
    x = torch.as_tensor(learner.initial(None)).float().unsqueeze(0)

    def total(features, labels, weight=None):
        out = torch.empty_like(x)
        chosen.gradient(0, x, Batch(features, labels, weight), out)
        return out.double()

    for offset in (1e3, 3e3, 1e4, 1e5):
        features = torch.randn(1, 8, *SHAPE, generator=generator) + offset
        labels = torch.randint(CLASSES, (1, 8), generator=generator)
        whole = total(features, labels)
        for left_out in 1.0 - torch.eye(8):
            part = total(features, labels, left_out.unsqueeze(0) / 8)
            assert (whole - part).norm() <= 1.0 / 8 * (1.0 + 1e-5)  # float32 sums of 8


def test_errors_whose_squares_vanish_do_not_hide_huge_features():
    """A model that is all but sure: errors of 1e-24, features of 1e17."""
    learner = Softmax(784, CLASSES)
    x = torch.zeros(1, learner.size)
    x[0, 784], x[0, 2 * 784 + 1] = 55.0, -0.5  # biases of classes 0 and 1
    features = torch.ones(1, 1, 785)
    features[0, 0, 3] = 1e17
    job = GradientJob(learner, "per-sample", 1e-9, CPU, torch.float32)
    out = torch.full_like(x, torch.nan)
    chosen = choose("closed-form", job, nodes=1, batch=1, input_shape=SHAPE, threads=1)
    chosen.gradient(0, x, Batch(features, torch.zeros(1, 1, dtype=torch.int64)), out)
    assert 0 < out.double().norm() <= 1e-9


def hidden_squares(count):
    """Numbers whose squares are lost beside the first ones: too small for the last bit of any partial sum."""
    values = torch.full((count,), math.sqrt(2.0**-24) * 0.99)
    values[:64] = 1.0
    return values


@pytest.mark.parametrize(
    "values",
    [
        hidden_squares(1_000_000),
        hidden_squares(1000),
        torch.full((3_000_001,), 0.1),
        torch.full((5000,), 1e-23),
        torch.full((4,), 1e-30),
        torch.cat([torch.full((100_000,), 2e-20), torch.full((1,), 1e-17)]),
        torch.randn(1025, generator=torch.Generator().manual_seed(0)),
    ],
)
def test_bounds_are_no_smaller_than_norms(values):
    exact = values.double().norm().item()
    assert exact <= norm_bound(values).item()
    assert exact <= norm_bound(values.unsqueeze(1), dim=0).item()
    rows = values.repeat(2, 1)
    clip_norm = exact / 3
    clip_rows_(rows, clip_norm)
    assert (rows.double().norm(dim=1) <= clip_norm).all()
