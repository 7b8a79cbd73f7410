"""Models that would make an epsilon untrue: each is refused before the run, in one line that says what to do."""

import dataclasses

import numpy as np
import pytest
import torch
from made_engines import bytes_data, make, order
from torch import nn

from wirelessdl.contract import format_error
from wirelessdl.errors import ContractError, WirelessdlError
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


class Hooked(Net):
    """A hook changes what a layer returns, and with it the gradient of what the layer computed."""

    def __init__(self):
        super().__init__()
        self.first.register_forward_hook(lambda _layer, _given, out: 3.0 * out)


def test_a_module_that_book_keeping_would_get_wrong_is_vectorised():
    engine = make(bytes_data(), learner=learner(Hooked), strategy="threads")
    assert engine.strategy.ghosts is None


class Overwriting(Net):
    """Writes over what a layer was given, which autograd needs for its gradient and refuses to do without."""

    def __init__(self):
        super().__init__()
        self.middle = nn.Linear(self.first.out_features, self.first.out_features)

    def forward(self, images):
        hidden = torch.tanh(self.first(images.flatten(1)))
        hidden += self.middle(hidden)
        return self.last(hidden)


def test_what_autograd_refuses_is_refused_by_book_keeping_too():
    with pytest.raises((ValueError, ContractError), match="modified by an inplace operation"):
        make(bytes_data(), learner=learner(Overwriting), strategy="threads")


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
    """Clipped gradients of round 1 by the engine's strategy, without a penalty, `[K, m]`."""
    engine = make(data, learner=model, **settings)
    out = torch.empty_like(engine.x)
    engine.strategy.gradient(0, engine.x, engine._batch(0, range(engine.nodes), 1), out)
    return out, engine.sensitivity


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


# --- scores of the user's own, and what a forward must not do ------------------------------------------------


class Scoring(Unclipped):
    """After some calls its scores are what `how` makes of them."""

    def __init__(self, how, after=0):
        super().__init__()
        self.how, self.after = how, after

    def scores(self, x, features):
        self.after -= 1
        found = super().scores(x, features)
        return found if self.after >= 0 else self.how(x, features, found)


def writes_features(_x, features, found):
    features[:, 3:9] += 0.3
    return found


def writes_models(x, _features, found):
    x[:, ::2] *= 0.5
    return found


def ends(_x, _features, _found):
    raise SystemExit


BAD_SCORES = [
    (writes_features, "Scoring.scores writes into what it is given"),
    (writes_models, "Scoring.scores writes into what it is given"),
    (ends, r"Scoring.scores raised SystemExit \(test_behaviour.py line"),
    (lambda *_: torch.zeros(3), r"Scoring.scores returned \(3,\), expected a tensor of real numbers \(\d, \d+, 3\)"),
    (lambda *_: [1.0], r"Scoring.scores returned list, expected a tensor of real numbers \(\d, \d+, 3\)"),
    (
        lambda _x, _f, found: found > 0,
        r"Scoring.scores returned \(\d, \d+, 3\) of torch.bool, expected a tensor of real",
    ),
    (
        lambda _x, _f, found: found * np.nan,
        r"Scoring.scores returned nan for model 0 and sample 0 \((\d+) of \1 scores",
    ),
]


@pytest.mark.parametrize(("how", "words"), BAD_SCORES)
def test_scores_that_no_evaluation_can_use_are_refused_before_the_run_and_in_it(how, words):
    with pytest.raises((ValueError, WirelessdlError), match=words):
        make(bytes_data(), learner=Scoring(how))
    engine = make(bytes_data(), learner=Scoring(how, after=1))  # one call before the run
    with pytest.raises(WirelessdlError, match=words):
        engine.accuracy(engine.x)


def test_scores_may_be_infinite():
    engine = make(bytes_data(), learner=Scoring(lambda _x, _f, found: torch.where(found > 0, found, -torch.inf)))
    assert torch.isfinite(engine.accuracy(engine.x)).all()


class WritesBatch(Unclipped):
    """The last column of a batch, ones, is made once."""

    def gradient(self, x, features, *given):
        features.mul_(2.0)
        return super().gradient(x, features, *given)


class WritesModels(Unclipped):
    def gradient(self, x, *given):
        return super().gradient(x.clamp_(-0.1, 0.1), *given)


@pytest.mark.parametrize("clipping", ["batch", "per-sample"])
@pytest.mark.parametrize("build", [WritesBatch, WritesModels])
def test_gradients_that_write_into_what_they_are_given_are_refused(build, clipping):
    with pytest.raises(ContractError, match=rf"{build.__name__}.gradient writes into what it is given"):
        make(bytes_data(), learner=build(), clipping=clipping)


class ClampsWeights(Net):
    """The second call changes nothing any more; after some calls, where told so."""

    after = 0

    def forward(self, images):
        self.after -= 1
        if self.after < 0:
            with torch.no_grad():
                self.last.weight.clamp_(-0.01, 0.01)
        return super().forward(images)


def test_a_module_that_writes_into_its_weights_is_refused():
    with pytest.raises(ContractError, match=r"ClampsWeights.forward writes into what it is given"):
        make(bytes_data(), learner=learner(ClampsWeights), clipping="batch")
    engine = make(bytes_data(), learner=learner(Net), clipping="batch", strategy="vmap")
    engine.learner.module.__class__ = ClampsWeights
    with pytest.raises(ContractError, match=r"Net.forward writes into what it is given"):
        engine.accuracy(engine.x)


class Ends(Net):
    after = 0

    def forward(self, images):
        type(self).after -= 1
        if type(self).after < 0:
            raise self.error
        return super().forward(images)


@pytest.mark.parametrize("error", [SystemExit(), KeyError("lost")], ids=["exit", "error"])
@pytest.mark.parametrize("strategy", ["threads", "vmap", "loop"])
@pytest.mark.parametrize("clipping", ["batch", "per-sample"])
def test_a_forward_that_fails_at_any_call_is_one_line(strategy, clipping, error):
    Ends.error = error
    calls, words = 0, set()
    while True:
        Ends.after = 10**9
        module = learner(Ends)
        Ends.after = calls
        try:
            engine = make(bytes_data(), learner=module, strategy=strategy, clipping=clipping)
            engine.round(order(engine.nodes, evaluate=True))
        except ContractError as raised:
            words.add(str(raised).partition(" (")[0])
            calls += 1
        else:
            break
    assert calls > 10
    assert words == {f"learning.model: Ends.forward raised {format_error(error)}"}
