"""Models that would make an epsilon untrue: each is refused before the run, in one line that says what to do."""

import dataclasses

import numpy as np
import pytest
import torch
from made_engines import bytes_data, make
from torch import nn

from wirelessdl.errors import ContractError
from wirelessdl.learning.models.module import ModuleLearner, seeded

CLASSES = 3


class Net(nn.Module):
    """Fit for per-sample clipping; others below are not."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(36, 7), nn.Linear(7, CLASSES)

    def forward(self, images):
        return self.last(torch.tanh(self.first(images.flatten(1))))


class Standardised(Net):
    def forward(self, images):
        hidden = self.first(images.flatten(1))
        return self.last((hidden - hidden.mean(0)) / hidden.std(0))


class LastSampleOnly(Net):
    """Coupled in one place only, and through a last layer that starts at zero."""

    def __init__(self):
        super().__init__()
        nn.init.zeros_(self.last.weight)

    def forward(self, images):
        hidden = torch.tanh(self.first(images.flatten(1)))
        return self.last(torch.cat([hidden[:1] + 0.01 * hidden[-1:], hidden[1:]]))


class Counting(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, images):
        self.seen = self.seen + images.mean()
        return super().forward(images)


class Momentum(Net):
    """Remembers without a buffer."""

    last_mean = 0.0

    def forward(self, images):
        scores = super().forward(images) - self.last_mean
        self.last_mean = images.mean().detach()
        return scores


class FunctionalDropout(Net):
    def forward(self, images):
        return nn.functional.dropout(super().forward(images), 0.5, training=self.training)


class NormAndDropout(Net):
    """A layer that is known does not keep the others from being tried."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(36)

    def forward(self, images):
        return nn.functional.dropout(super().forward(self.norm(images.flatten(1))), 0.5)


class Indexing(Net):
    """Takes pixels as numbers of rows: not just any sample will do."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(9, 36)

    def forward(self, images):
        row = (images.flatten(1)[:, 0] * 0.5 + 4).long()
        return super().forward(self.rows(row) + images.flatten(1))


def learner(build):
    with seeded(np.random.default_rng(0)):
        return ModuleLearner(build(), (1, 6, 6), CLASSES)


@pytest.mark.parametrize("strategy", ["threads", "vmap"])
@pytest.mark.parametrize("build", [Standardised, LastSampleOnly])
def test_samples_that_see_each_other_are_refused_under_per_sample_clipping(build, strategy):
    with pytest.raises(ValueError, match=r"whose score of a sample changes with the other samples .* per-sample"):
        make(bytes_data(), learner=learner(build), strategy=strategy)
    with pytest.raises(ValueError, match="poisson batches may be empty"):
        make(bytes_data(), learner=learner(build), strategy=strategy, clipping="batch", sampling="poisson")
    make(bytes_data(), learner=learner(build), strategy=strategy, clipping="batch")


@pytest.mark.parametrize("clipping", ["batch", "per-sample"])
@pytest.mark.parametrize(
    ("build", "words"),
    [
        (Counting, 'whose buffer "seen" changes in forward'),
        (Momentum, "whose scores of the same samples differ from call to call"),
        (FunctionalDropout, "whose scores of the same samples differ from call to call; it draws random numbers"),
        (NormAndDropout, "whose scores of the same samples differ"),
    ],
)
def test_modules_that_remember_or_draw_are_refused(build, words, clipping):
    with pytest.raises(ValueError, match=words):
        make(bytes_data(), learner=learner(build), clipping=clipping)


@pytest.mark.parametrize("build", [Net, Indexing, lambda: nn.Sequential(Net(), nn.Dropout(0.0))])
def test_modules_whose_samples_stand_alone_are_accepted(build):
    engine = make(bytes_data(), learner=learner(build), strategy="threads")
    assert not engine.learner.sees_batch


class BackwardOnly(Net):
    """Scores stand alone; what flows back does not."""

    def forward(self, images):
        hidden = self.first(images.flatten(1))
        mean = hidden.mean(0)
        return self.last(torch.tanh(hidden - mean + mean.detach()))


def test_samples_that_see_each_other_on_the_way_back_only_are_refused():
    with pytest.raises(ValueError, match="whose gradient of a sample changes with other samples; per-sample"):
        make(bytes_data(), learner=learner(BackwardOnly), strategy="threads")
    make(bytes_data(), learner=learner(BackwardOnly), strategy="vmap")  # sees one sample at a time
    make(bytes_data(), learner=learner(BackwardOnly), strategy="threads", clipping="batch")


# --- gradients of the user's own --------------------------------------------------------------------------


class Unclipped:
    """Pulls a mean per class towards its samples; leaves clipping to others."""

    def __init__(self):
        self.shape, self.size = (CLASSES, 37), CLASSES * 37

    def initial(self, rng):
        return rng.normal(size=self.size) * 0.01

    def gradient(self, x, features, labels, clipping, clip_norm):
        hot = nn.functional.one_hot(labels, CLASSES).to(x.dtype)
        pull = hot.sum(1).unsqueeze(2) * x.view(len(x), *self.shape) - torch.bmm(hot.mT, features)
        flat = pull.reshape(len(x), -1) / features.shape[1]
        return flat, flat.norm(dim=1)

    def scores(self, x, features):
        return features @ x.view(len(x), *self.shape).mT


class Penalised(Unclipped):
    penalty = 0.5

    def gradient(self, x, *given):
        gradient, loss = super().gradient(x, *given)
        return gradient + 0.5 * x, loss


class NodesTogether(Unclipped):
    def gradient(self, x, *given):
        gradient, loss = super().gradient(x, *given)
        return gradient - gradient.mean(0), loss


class Drawing(Unclipped):
    def gradient(self, x, *given):
        gradient, loss = super().gradient(x, *given)
        return gradient * torch.rand(()), loss


class Remembering(Unclipped):
    last = 0.0

    def gradient(self, x, *given):
        gradient, loss = super().gradient(x, *given)
        before, self.last = self.last, gradient[:1].mean()
        return gradient + before, loss


class Misshapen(Unclipped):
    def gradient(self, x, *given):
        return super().gradient(x, *given)[0].sum(0)


def data_gradients(data, model, **settings):
    """Clipped gradients of round 1 by the engine's strategy, penalty taken off, `[K, m]`."""
    engine = make(data, learner=model, **settings)
    out, point = torch.empty_like(engine.x), engine.x.clone()
    engine.strategy.gradient(0, point, engine._batch(0, range(engine.nodes), 1), out)
    return out - getattr(model, "penalty", 0.0) * point, engine.sensitivity


@pytest.mark.parametrize("build", [Unclipped, Penalised])
@pytest.mark.parametrize(
    "settings",
    [
        {"clipping": "batch"},
        {"clipping": "per-sample"},
        {"clipping": "per-sample", "sampling": "full"},
        {"clipping": "per-sample", "sampling": "poisson"},
    ],
    ids=lambda settings: " ".join(settings.values()),
)
def test_a_class_that_does_not_clip_is_clipped_by_the_engine(build, settings):
    """One replaced sample moves a gradient by what is charged at most, which an unclipped one exceeds."""
    data = bytes_data()
    found, sensitivity = data_gradients(data, build(), clip_norm=0.7, **settings)
    assert (found.norm(dim=1) <= 0.7 + 1e-9).all()
    changed = dataclasses.replace(data, train_x=data.train_x.copy())
    changed.train_x[::40] = 255 - changed.train_x[::40]  # the first sample of every node
    other, _ = data_gradients(changed, build(), clip_norm=0.7, **settings)
    shift = (found - other).norm(dim=1)
    assert (shift <= torch.as_tensor(sensitivity) * (1 + 1e-9)).all()
    if settings.get("sampling") == "full":
        assert (shift > 0).all()


def test_gradients_of_single_samples_are_clipped_weighed_and_summed():
    """By hand, one sample at a time."""
    data = bytes_data()
    engine = make(data, learner=Unclipped(), sampling="poisson", clip_norm=0.7)
    batch, out = engine._batch(0, range(5), 1), torch.empty_like(engine.x)
    engine.strategy._samples = 3  # in pieces
    engine.strategy.gradient(0, engine.x, batch, out)
    for node in range(5):
        expected = torch.zeros_like(out[0])
        for features, label, weight in zip(batch.features[node], batch.labels[node], batch.weight[node]):
            row, _ = Unclipped().gradient(engine.x[node : node + 1], features.view(1, 1, -1), label.view(1, 1), "", 0)
            expected += weight * row[0] * min(1.0, 0.7 / row.norm().item())
        torch.testing.assert_close(out[node], expected)


@pytest.mark.parametrize("clipping", ["batch", "per-sample"])
@pytest.mark.parametrize(
    ("build", "words"),
    [
        (NodesTogether, r"whose gradient of a (node|sample) changes with (the samples of another node|other samples)"),
        (Drawing, "whose gradients of the same samples differ from call to call"),
        (Remembering, "whose gradients of the same samples differ from call to call"),
        (Misshapen, r"Misshapen.gradient returned \[.*\], expected gradients \(\d, 111\) and losses \(\d,\), as"),
    ],
)
def test_gradients_that_depend_on_more_than_their_samples_are_refused(build, words, clipping):
    with pytest.raises((ValueError, ContractError), match=words):
        make(bytes_data(), learner=build(), clipping=clipping)
