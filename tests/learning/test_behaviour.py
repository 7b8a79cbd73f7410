"""Models that would make an epsilon untrue: each is refused before the run, in one line that says what to do."""

import numpy as np
import pytest
import torch
from made_engines import bytes_data, make
from torch import nn

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
