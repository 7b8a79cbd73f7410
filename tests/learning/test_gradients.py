"""Every gradient strategy equals the plain loop, in float64, whatever the clipping, padding or layer."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from wirelessdl.learning.batch import Batch
from wirelessdl.learning.gradients import GradientJob, choose, threads
from wirelessdl.learning.gradients.batched import Loop
from wirelessdl.learning.gradients.threads import supported
from wirelessdl.learning.models.closed_form import Mlp, Softmax
from wirelessdl.learning.models.module import ModuleLearner, seeded
from wirelessdl.learning.models.nets import Cnn, ResNet20

CPU = torch.device("cpu")
SHAPE, CLASSES = (2, 8, 8), 3


class Everything(nn.Module):
    """A net with every layer that clipping knows, in-place activations, and positions in a linear layer."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Conv2d(2, 6, 3, padding=1)
        self.norm = nn.GroupNorm(2, 6)
        self.strided = nn.Conv2d(6, 4, 3, stride=2, dilation=2, padding=2, bias=False)
        self.point = nn.Conv2d(4, 4, 1, stride=2)
        self.along = nn.Linear(4, 5)  # over four positions
        self.last = nn.Linear(20, CLASSES, bias=False)
        self.act = nn.ReLU(inplace=True)

    def forward(self, images):
        images = self.act(self.norm(self.wide(images)))
        images = self.act(self.point(self.act(self.strided(images))))
        return self.last(torch.tanh(self.along(images.flatten(2).mT)).flatten(1))


class Shared(nn.Module):
    """One layer used twice, and a bare parameter: book-keeping does not hold."""

    def __init__(self):
        super().__init__()
        self.first, self.inner, self.scale = nn.Linear(128, 6), nn.Linear(6, 6), nn.Parameter(torch.ones(()))
        self.last = nn.Linear(6, CLASSES)

    def forward(self, images):
        inner = torch.tanh(self.inner(torch.tanh(self.inner(self.first(images.flatten(1))))))
        return self.last(inner) * self.scale


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(128, 7), nn.Tanh(), nn.Linear(7, CLASSES))

    def forward(self, images):
        return self.net(images)


def module(build):
    with seeded(np.random.default_rng(0)):
        return ModuleLearner(build().double(), SHAPE, CLASSES)


LEARNERS = {
    "softmax": lambda: Softmax(128, CLASSES),
    "mlp relu": lambda: Mlp(128, CLASSES, [9, 6]),
    "mlp tanh": lambda: Mlp(128, CLASSES, [9], "tanh"),
    "everything": lambda: module(Everything),
    "shared": lambda: module(Shared),
    "dense": lambda: module(Dense),
    "cnn": lambda: module(lambda: Cnn(SHAPE, CLASSES, channels=4, hidden=6, norm="group")),
    "resnet20": lambda: module(lambda: ResNet20(SHAPE, CLASSES)),
    "resnet20 pad": lambda: module(lambda: ResNet20(SHAPE, CLASSES, norm="none", shortcut="pad")),
    "batch norm": lambda: module(lambda: Cnn(SHAPE, CLASSES, channels=4, hidden=6, norm="batch")),
}
CASES = [
    *[(name, "closed-form") for name in ("softmax", "mlp relu", "mlp tanh")],
    *[(name, "vmap") for name in LEARNERS],
    *[(name, "threads") for name in list(LEARNERS)[3:]],
]


def problem(learner, nodes=3, batch=5, padded=False):
    generator = torch.Generator().manual_seed(1)
    kind = {"generator": generator, "dtype": torch.float64}
    x = torch.as_tensor(learner.initial(np.random.default_rng(2))).repeat(nodes, 1)
    x += 0.1 * torch.randn(x.shape, **kind)
    features = torch.randn(nodes, batch, 128, **kind)
    if learner.bias_column:
        features = torch.cat([features, torch.ones(nodes, batch, 1, dtype=torch.float64)], dim=2)
    else:
        features = features.view(nodes, batch, *SHAPE)
    labels = torch.randint(CLASSES, (nodes, batch), generator=generator)
    weight = None
    if padded:  # one node full, one with two samples, one with none
        weight = torch.zeros(nodes, batch, dtype=torch.float64)
        weight[0], weight[1, :2] = 0.25, 0.25
    return x, Batch(features, labels, weight)


def biting(learner, x, batch):
    """The median norm of single gradients: a clip that shortens half of them."""
    if getattr(learner, "batch_norm", None):
        return 1.0  # has no single gradients
    norms, out = [], torch.empty_like(x)
    for b in range(batch.labels.shape[1]):
        single = Batch(batch.features[:, b : b + 1], batch.labels[:, b : b + 1])
        Loop(GradientJob(learner, "batch", 1e9, CPU, torch.float64)).gradient(0, x, single, out)
        norms.append(out.norm(dim=1).clone())
    return float(torch.stack(norms).median())


@pytest.mark.parametrize("padded", [False, True], ids=["equal batches", "padded batches"])
@pytest.mark.parametrize("clipping", ["batch", "per-sample"])
@pytest.mark.parametrize(("name", "strategy"), CASES)
def test_strategies_equal_the_loop(name, strategy, clipping, padded):
    if name == "batch norm" and (clipping == "per-sample" or padded):
        pytest.skip("refused: samples see each other")
    learner = LEARNERS[name]()
    x, batch = problem(learner, padded=padded)
    clip_norm = biting(learner, x, batch) / (1 if clipping == "per-sample" else 10)
    job = GradientJob(learner, clipping, clip_norm, CPU, torch.float64)
    chosen = choose(strategy, job, nodes=3, batch=5, input_shape=SHAPE, threads=2)
    assert chosen.name == strategy
    found, expected = torch.full_like(x, torch.nan), torch.full_like(x, torch.nan)
    loss, nonfinite = chosen.gradient(chosen.workers - 1, x, batch, found)
    expected_loss, _ = Loop(job).gradient(0, x, batch, expected)
    assert expected.norm() > 0
    assert (nonfinite == 0).all()
    if clipping == "batch" and not padded:
        torch.testing.assert_close(expected.norm(dim=1), torch.full((3,), clip_norm, dtype=torch.float64))
    # 1e-10: sums of a few hundred products in another order, relative to a gradient of norm one
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(loss, expected_loss, rtol=1e-10, atol=1e-12)
    features = batch.features[0]
    torch.testing.assert_close(chosen.scores(0, x, features), Loop(job).scores(0, x, features))


@pytest.mark.parametrize("bytes_kept", [0, 3000], ids=["none", "the first layers'"])
def test_clipped_sums_do_not_depend_on_which_gradients_are_kept(monkeypatch, bytes_kept):
    learner = LEARNERS["everything"]()
    x, batch = problem(learner)
    x[1, 0] = torch.inf  # node 1 has nothing but gradients that count as zero
    job = GradientJob(
        learner, "per-sample", biting(learner, x[:1], Batch(batch.features[:1], batch.labels[:1])), CPU, x.dtype
    )
    chosen = choose("threads", job, nodes=3, batch=5, input_shape=SHAPE, threads=1)
    kept, again = torch.full_like(x, torch.nan), torch.full_like(x, torch.nan)
    chosen.gradient(0, x, batch, kept)
    monkeypatch.setattr(threads, "_MAX_KEPT_BYTES", bytes_kept)
    monkeypatch.setattr(threads, "_MAX_CACHED_BYTES", 1)  # one sample at a time
    chosen.gradient(0, x, batch, again)
    assert kept[0].norm() > 0
    assert not kept[1].any()
    torch.testing.assert_close(kept, again, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("share", [1e-3, 0.9], ids=["overflowing norms", "overflowing scores"])
@pytest.mark.parametrize("clipping", ["batch", "per-sample"])
@pytest.mark.parametrize(("name", "strategy"), [case for case in CASES if case[0] != "batch norm"])
def test_gradients_that_are_not_finite_count_as_zero(name, strategy, clipping, share):
    """A huge sample of node 0: as if it were not in the sum, whose divisor stays; other samples and nodes go on."""
    learner = LEARNERS[name]()
    if isinstance(learner, ModuleLearner):
        learner.prepare(CPU, torch.float32)
    x, batch = problem(learner)
    x, features = x.float(), batch.features.float()
    pixels = features[..., :-1] if learner.bias_column else features
    pixels[0, 3] = share * torch.finfo(torch.float32).max
    weight = torch.full((3, 5), 0.25)
    weight[1:, 4], weight[0, 2], pixels[0, 2] = 0.0, 0.0, 0.0
    job = GradientJob(learner, clipping, 0.5, CPU, torch.float32)
    scores = Loop(job).scores(0, x[:1], features[0, 3:4]).flatten()
    batch.labels[0, 3] = scores.argmin()  # where the model is sure, and wrong
    chosen = choose(strategy, job, nodes=3, batch=5, input_shape=SHAPE, threads=1)
    found, expected = torch.full_like(x, torch.nan), torch.full_like(x, torch.nan)
    loss, nonfinite = chosen.gradient(0, x, Batch(features, batch.labels, weight), found)
    assert found.isfinite().all()
    assert loss.isfinite().all()
    assert nonfinite[1:].tolist() == [0, 0]
    if share == 1e-3:  # beyond, whether a score overflows depends on the order of sums
        _, counted = Loop(job).gradient(0, x, Batch(features, batch.labels, weight), expected)
        assert nonfinite.tolist() == counted.tolist()
        # 1e-4: float32 sums of a few hundred products, of gradients of norm one half
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert nonfinite[0] == 1 or name in ("mlp tanh", "shared", "dense")  # a layer that saturates passes nothing back
    if nonfinite[0] and clipping == "batch":
        assert (found[0] == 0).all()
    if nonfinite[0] and clipping == "per-sample":
        weight[0, 3], pixels[0, 3] = 0.0, 0.0
        Loop(job).gradient(0, x, Batch(features, batch.labels, weight), expected)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_book_keeping_is_used_where_it_holds():
    assert supported(LEARNERS["everything"]().module, SHAPE)
    assert supported(LEARNERS["resnet20"]().module, SHAPE)
    assert not supported(LEARNERS["shared"]().module, SHAPE)


class Doubling(nn.Linear):
    def forward(self, given):
        return super().forward(given) * 2.0


class Subclassed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = Doubling(128, 6), nn.Linear(6, CLASSES)

    def forward(self, images):
        return self.last(torch.tanh(self.first(images.flatten(1))))


class Tied(nn.Module):
    """A weight that a function takes beside its layer."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(128, 6), nn.Linear(6, CLASSES)

    def forward(self, images):
        hidden = torch.tanh(self.first(images.flatten(1)))
        again = F.linear(hidden, self.first.weight.T)  # as an autoencoder's
        return self.last(hidden + torch.tanh(again[:, :6]))


class Flattened(nn.Module):
    """Positions and samples in one dimension."""

    def __init__(self):
        super().__init__()
        self.along, self.last = nn.Linear(8, 6), nn.Linear(96, CLASSES)

    def forward(self, images):
        hidden = torch.tanh(self.along(images.reshape(-1, 8)))
        return self.last(hidden.reshape(len(images), -1))


@pytest.mark.parametrize("build", [Subclassed, Tied, Flattened])
def test_gradients_are_right_where_book_keeping_does_not_hold(build):
    learner = module(build)
    assert not supported(learner.module, SHAPE)
    x, batch = problem(learner)
    job = GradientJob(learner, "per-sample", biting(learner, x, batch), CPU, torch.float64)
    found, expected = torch.empty_like(x), torch.empty_like(x)
    choose("threads", job, nodes=3, batch=5, input_shape=SHAPE, threads=1).gradient(0, x, batch, found)
    Loop(job).gradient(0, x, batch, expected)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "nodes", "expected"),
    [
        ("softmax", 2, "closed-form"),
        ("mlp relu", 100, "closed-form"),
        ("resnet20", 4, "threads"),
        ("cnn", 100, "threads"),
        ("dense", 20, "vmap"),
        ("dense", 2, "threads"),
    ],
)
def test_auto_is_a_rule_of_model_and_nodes(name, nodes, expected):
    job = GradientJob(LEARNERS[name](), "batch", 1.0, CPU, torch.float64)
    assert choose("auto", job, nodes=nodes, batch=5, input_shape=SHAPE, threads=1).name == expected


class Counting(nn.Module):
    """A buffer that changes with every batch: what vmap refuses."""

    def __init__(self):
        super().__init__()
        self.net = Dense()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, images):
        self.seen.add_(images.mean())
        return self.net(images)


def test_what_torch_cannot_vectorise_is_said_and_auto_goes_round_it():
    learner = module(Counting)
    job = GradientJob(learner, "batch", 1.0, CPU, torch.float64)
    with pytest.raises(ValueError, match=r'strategy is "vmap"; torch cannot vectorise Counting \(.*\): use threads'):
        choose("vmap", job, nodes=9, batch=5, input_shape=SHAPE, threads=1)
    assert choose("auto", job, nodes=9, batch=5, input_shape=SHAPE, threads=1).name == "threads"


@pytest.mark.parametrize(
    ("name", "strategy", "words"),
    [
        ("cnn", "closed-form", "Cnn has none: use threads, vmap or loop"),
        ("softmax", "threads", "it runs torch modules, softmax is none: use closed-form"),
    ],
)
def test_strategies_that_do_not_fit_are_refused(name, strategy, words):
    job = GradientJob(LEARNERS[name](), "batch", 1.0, CPU, torch.float64)
    with pytest.raises(ValueError, match=words):
        choose(strategy, job, nodes=9, batch=5, input_shape=SHAPE, threads=1)


def test_resnet20_has_the_published_size_and_shapes():
    """He et al. 2016, table 6: 0.27 M. Counted by hand below: convolutions, two numbers per normalised channel."""
    convolutions = 3 * 16 * 9 + 6 * 16 * 16 * 9 + 16 * 32 * 9 + 5 * 32 * 32 * 9 + 32 * 64 * 9 + 5 * 64 * 64 * 9
    norms = 2 * (7 * 16 + 6 * 32 + 6 * 64)
    last = 64 * 10 + 10
    projections = 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64
    assert convolutions + norms + last == 269_722
    for norm in ("group", "batch"):
        pad = ResNet20((3, 32, 32), 10, norm=norm, shortcut="pad")
        assert sum(p.numel() for p in pad.parameters()) == 269_722
        project = ResNet20((3, 32, 32), 10, norm=norm)
        assert sum(p.numel() for p in project.parameters()) == 269_722 + projections == 272_474
    out = ResNet20((3, 32, 32), 10).blocks(torch.zeros(1, 16, 32, 32))
    assert tuple(out.shape) == (1, 64, 8, 8)


def test_modules_start_from_the_seed_and_leave_torch_as_it_was():
    before = torch.get_rng_state()
    first, again = (module(Everything).initial(None) for _ in range(2))
    with seeded(np.random.default_rng(1)):
        other = ModuleLearner(Everything().double(), SHAPE, CLASSES).initial(None)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert torch.equal(torch.get_rng_state(), before)
