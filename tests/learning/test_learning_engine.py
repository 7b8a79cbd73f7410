"""The engine around the gradients: sampling, padding, mixing, threads, memory, and what it refuses."""

import dataclasses

import numpy as np
import pytest
import tomli_w
import torch
from conftest import refusal, tiny, tiny_table

import wirelessdl
from wirelessdl.errors import ScenarioError, TrainingError
from wirelessdl.learning.batch import Buffer, Store, sample_shape
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.engine import LearningEngine, ModelUpdate, RoundInput, Settings
from wirelessdl.learning.models.closed_form import Softmax
from wirelessdl.learning.models.module import ModuleLearner
from wirelessdl.learning.models.nets import Cnn
from wirelessdl.learning.runtime import Need, Workers, most_nodes
from wirelessdl.learning.sampling import Sampler
from wirelessdl.learning.superposition import Air, one_slot
from wirelessdl.links import Geometry, Links
from wirelessdl.memory import format_size
from wirelessdl.mixing import mix, uniform_air
from wirelessdl.preview.describe import describe
from wirelessdl.privacy import FrameRelease, Ledger, Terms, total_epsilon
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.streams import Streams

CPU = torch.device("cpu")


def bytes_data(samples=200, shape=(6, 6), classes=3, **changes):
    rng = np.random.default_rng(5)
    kept = {"scale": 255.0, "mean": 0.4, "deviation": 0.2, **changes}
    return Dataset(
        "bytes",
        rng.integers(0, 256, (samples, *shape), dtype=np.uint8),
        rng.integers(0, classes, samples),
        rng.integers(0, 256, (40, *shape), dtype=np.uint8),
        rng.integers(0, classes, 40),
        classes,
        **kept,
    )


def make(data, nodes=5, learner=None, **settings):
    client_indices = np.array_split(np.arange(len(data.train_y)), nodes)
    chosen = Settings(
        **{
            "batch_size": 8,
            "clipping": "per-sample",
            "clip_norm": 1.0,
            "projection_radius": 0.5,
            "gradient_at": "mixed",
            "dtype": "float64",
            **settings,
        }
    )
    return LearningEngine(learner or Softmax(data.features, data.classes), data, client_indices, Streams(3), chosen)


def order(nodes, round=1, weights=None, evaluate=False, thermal=0.01):
    mixing = np.full((nodes, nodes), 1 / nodes) if weights is None else weights
    return RoundInput(
        round=round,
        segments=one_slot(10**9, mixing, np.full(nodes, thermal)),
        noise_scale=np.full(nodes, 0.1),
        update=ModelUpdate.everyone(np.full(nodes, 0.3)),
        evaluate=evaluate,
    )


# --- sampling ---------------------------------------------------------------------------------------------


def test_poisson_batches_have_binomial_sizes_and_even_chances():
    sampler, draws = Sampler("poisson", 5, [20, 20]), NodeDraws(Streams(1), 2, CPU)
    counts, sizes = np.zeros(20), []
    for round in range(4000):
        batch = sampler.batch(draws, 1, round)
        assert len(set(batch.tolist())) == len(batch)
        counts[batch] += 1
        sizes.append(len(batch))
    # each sample takes part on its own with probability 1/4: binomial(20, 1/4), mean 5, variance 3.75
    assert np.abs(counts - 1000).max() < 4.5 * np.sqrt(4000 * 0.25 * 0.75)
    assert np.mean(sizes) == pytest.approx(5, abs=4.5 * np.sqrt(3.75 / 4000))
    # variance of a sample variance: about 2 var^2 / n, plus little for the kurtosis
    assert np.var(sizes) == pytest.approx(3.75, abs=5 * 3.75 * np.sqrt(2 / 4000))
    assert max(sizes) > 10  # never truncated


def test_shuffled_epochs_deal_every_sample_once_and_anew():
    sampler, draws = Sampler("shuffled", 5, [20, 23]), NodeDraws(Streams(1), 2, CPU)
    epochs = [np.concatenate([sampler.batch(draws, 0, 4 * e + r) for r in range(1, 5)]) for e in range(3)]
    for epoch in epochs:
        assert sorted(epoch.tolist()) == list(range(20))
    assert (epochs[0] != epochs[1]).any()
    rest = np.concatenate([sampler.batch(draws, 1, r) for r in range(1, 5)])
    assert len(set(rest.tolist())) == 20  # the last three wait for another order
    assert sampler.epoch_rounds.tolist() == [4, 4]
    again = Sampler("shuffled", 5, [20, 23])
    np.testing.assert_array_equal(again.batch(draws, 0, 7), epochs[1][10:15])  # whatever came before


@pytest.mark.parametrize(
    ("sampling", "rate", "divisor"),
    [
        ("without-replacement", [0.25, 0.2], [5, 5]),
        ("poisson", [0.25, 0.2], [5, 5]),
        ("full", [1, 1], [20, 25]),
        ("shuffled", [1, 1], [5, 5]),
    ],
)
def test_rates_and_divisors_do_not_depend_on_draws(sampling, rate, divisor):
    sampler = Sampler(sampling, 5, [20, 25])
    assert sampler.rate.tolist() == pytest.approx(rate)
    assert sampler.divisor.tolist() == divisor


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson", "full", "shuffled"])
@pytest.mark.parametrize("clipping", ["per-sample", "batch"])
def test_every_sampler_gives_the_gradient_of_its_definition(sampling, clipping):
    """Against a plain sum over the samples each node drew, divided by the fixed divisor."""
    data = bytes_data(123)
    engine = make(data, nodes=4, sampling=sampling, clipping=clipping, clip_norm=2.0)
    start = engine.x.clone()
    quiet = dataclasses.replace(
        order(4, weights=np.eye(4), thermal=0.0), noise_scale=np.zeros(4), update=ModelUpdate.everyone(np.ones(4))
    )
    engine.round(quiet)
    for node, client in enumerate(engine.client_indices):
        samples = client[engine.sampler.batch(engine.draws, node, 1)]
        weights = start[node].view(3, 37).numpy()
        total = np.zeros((3, 37))
        for sample in samples:
            pixels = data.train_x[sample].reshape(-1) / data.scale
            a = np.append((pixels - data.mean) / data.deviation, 1.0)
            p = np.exp(weights @ a)
            error = p / p.sum()
            error[data.train_y[sample]] -= 1.0
            g = np.outer(error, a)
            total += g * min(1.0, 2.0 / np.linalg.norm(g)) if clipping == "per-sample" else g
        total /= len(client) if sampling == "full" else 8
        if clipping == "batch":
            total *= min(1.0, 2.0 / np.linalg.norm(total))
        np.testing.assert_allclose(engine.x[node].numpy(), start[node].numpy() - total.reshape(-1), atol=1e-12)
    smallest = 30 if sampling == "full" else 8
    assert engine.sensitivity == (4.0 if clipping == "batch" else pytest.approx(4.0 / smallest))


def test_an_empty_poisson_batch_is_a_step_of_nothing():
    engine = make(bytes_data(), nodes=5, sampling="poisson", batch_size=1)
    empty = [(n, r) for r in range(1, 50) for n in range(5) if not len(engine.sampler.batch(engine.draws, n, r))]
    node, round = empty[0]
    outcome = engine.round(order(5, round=round))
    assert outcome.loss[node] == 0
    assert outcome.grad_norm[node] == 0
    assert torch.isfinite(engine.x).all()


# --- what the accountants make of it ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sampling", "sampler", "accountant"),
    [
        ("without-replacement", "without-replacement", "pld"),
        ("poisson", "poisson", "pld"),
        ("full", "full-batch", "gdp"),
        ("shuffled", "shuffled", "gdp"),
    ],
)
def test_the_sampler_reaches_the_privacy_table(sampling, sampler, accountant, tmp_path):
    run = wirelessdl.simulate(tiny(learning={"batch_size": 8, "sampling": sampling, "eval_every": 2}), out=tmp_path)
    own = run.privacy[run.privacy["view"] == "own"]
    assert set(own["sampler"]) == {sampler}
    assert set(own["accountant"]) == {accountant}
    assert run.provenance["strategy"] == "closed-form"


def slots(count, mu, nodes=2):
    return [
        FrameRelease(
            round=round,
            on_air=np.ones(nodes, dtype=bool),
            gamma=np.ones(nodes),
            multiplier=np.ones(nodes),
            own_mu=np.full(nodes, 0.0 if round == 1 else mu),
            link_rx=np.array([0]),
            link_tx=np.array([1]),
            link_mu=np.array([0.0]),
        )
        for round in range(1, count + 1)
    ]


def test_totals_of_samplers_are_those_of_the_table():
    mu, delta = 1 / 1.01**40, 1e-4  # on the ledger's grid, so that rounding down costs nothing much
    cases = {
        "poisson": {"q": 0.1, "rounds": 20},
        "full-batch": {"q": 1.0, "rounds": 20},
        "shuffled": {"q": 1.0, "rounds": 5},  # 20 releases are five epochs of four
    }
    for sampler, case in cases.items():
        terms = Terms("hardened", sampler, "per-sample", delta, epoch_rounds=(4, 4) if sampler == "shuffled" else ())
        ledger = Ledger(terms, np.full(2, case["q"]))
        for slot in slots(21, mu):
            ledger.record(slot)
        name = "pld" if sampler == "poisson" else "gdp"
        expected = total_epsilon(1 / mu, case["q"], case["rounds"], delta=delta, accountant=name, sampler=sampler)
        # nu is rounded down to a grid of 1%, so the total is above, by no more than 3%
        assert ledger.own_total()[0] >= expected * (1 - 1e-9)
        assert ledger.own_total()[0] == pytest.approx(expected, rel=0.03)


def test_epochs_go_by_the_round_of_the_gradient_and_survive_a_checkpoint():
    terms = Terms("hardened", "shuffled", "per-sample", 1e-4, epoch_rounds=(4, 4))
    whole, first, second = (Ledger(terms, np.ones(2)) for _ in range(3))
    everything = slots(14, 0.5)
    everything[6] = dataclasses.replace(everything[6], own_mu=np.array([0.9, 0.5]))
    for slot in everything:
        whole.record(slot)
    for slot in everything[:7]:
        first.record(slot)
    second.restore(first.state())
    for slot in everything[7:]:
        second.record(slot)
    np.testing.assert_array_equal(second.own_bound(), whole.own_bound())
    # gradients of rounds 1-4, 5-8, 9-12 and 13: four epochs, the second with a louder release of node 0
    squares = [3 * 0.25 + 0.81, 4 * 0.25]
    expected = [total_epsilon(1 / np.sqrt(s), 1.0, 1, delta=1e-4, accountant="gdp") for s in squares]
    np.testing.assert_allclose(whole.own_bound(), expected, rtol=1e-9)
    ahead = whole.own.after(np.array([0.5, 0.5]), 1e-4)
    np.testing.assert_allclose(ahead, expected)  # one more of the same epoch costs nothing


def test_many_kinds_of_poisson_releases_round_their_noise_down():
    terms = Terms("hardened", "poisson", "per-sample", 1e-4)
    ledger, even = Ledger(terms, np.full(2, 0.1)), Ledger(terms, np.full(2, 0.1))
    for number, slot in enumerate(slots(13, 0.4)):
        ledger.record(dataclasses.replace(slot, own_mu=slot.own_mu * (1 - 0.02 * number)))
        even.record(slot)
    assert 0 < ledger.own_total()[0] <= even.own_total()[0]


# --- state, mixing, threads --------------------------------------------------------------------------------


def test_sparse_mixing_equals_dense_and_is_taken_where_few_hear_each_other():
    rng = np.random.default_rng(0)
    nodes = 300
    mask = rng.random((nodes, nodes)) < 10 / nodes
    links = Links.from_mask(mask, Geometry.at_rest(np.zeros((nodes, 3))))
    mixing = mix(links, rng.random(len(links)) + 0.1, np.ones(nodes), air=uniform_air(links))
    assert mixing.compact is not mixing.dense
    sent, start = torch.randn(nodes, 40, dtype=torch.float64), torch.randn(nodes, 40, dtype=torch.float64)
    found = [start.clone(), start.clone()]
    for out, weights in zip(found, (mixing.compact, mixing.dense)):
        Air(CPU, torch.float64).superpose(one_slot(40, weights, np.zeros(nodes)), sent, out)
    torch.testing.assert_close(*found)
    full = Links.from_mask(np.ones((nodes, nodes), dtype=bool), links.geometry)
    crowded = mix(full, np.ones(len(full)), np.ones(nodes), air=uniform_air(full))
    assert crowded.compact is crowded.dense


@pytest.mark.parametrize("kind", ["softmax", "cnn"])
def test_threads_and_pieces_change_nothing(kind):
    """One thread or three, in float32, to the last bit."""
    data, threads = bytes_data(), torch.get_num_threads()

    def learner():
        if kind == "softmax":
            return Softmax(data.features, data.classes)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return ModuleLearner(Cnn((1, 6, 6), 3, channels=4, hidden=6), (1, 6, 6), 3)

    found = []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            engine = make(data, nodes=7, learner=learner(), dtype="float32")
            if kind == "softmax":
                engine.strategy.chunk = 2
            outcomes = [engine.round(order(7, round=r, evaluate=r == 3)) for r in (1, 2, 3)]
            found.append((engine.state(), outcomes[-1].accuracy.numpy(), outcomes[-1].loss.numpy()))
    finally:
        torch.set_num_threads(threads)
    for one, three in zip(*found):
        np.testing.assert_array_equal(one, three)


def test_state_that_was_handed_out_stays_as_it_was():
    engine = make(bytes_data())
    engine.round(order(5))
    state, mixed = engine.state(), engine.mixed()
    kept = state.copy(), mixed.copy()
    engine.round(order(5, round=2))
    np.testing.assert_array_equal(state, kept[0])
    np.testing.assert_array_equal(mixed, kept[1])
    assert (engine.state() != state).any()


def test_a_restored_engine_goes_on_as_before():
    data = bytes_data()
    for sampling in ("shuffled", "poisson"):
        first = make(data, sampling=sampling)
        for round in (1, 2):
            first.round(order(5, round=round))
        second = make(data, sampling=sampling)
        second.restore(first.state(), first.mixed())
        first.round(order(5, round=3))
        second.round(order(5, round=3))
        np.testing.assert_array_equal(first.state(), second.state())


def test_steps_taken_back_leave_what_was_received():
    engine = make(bytes_data())
    engine.round(order(5))
    mixed = engine.mixed()
    silent = dataclasses.replace(
        order(5, round=2, weights=np.eye(5), thermal=0.0),
        update=ModelUpdate(np.arange(5) == 0, np.zeros(5, dtype=bool), np.zeros(5)),
        noise_scale=np.zeros(5),
    )
    kept = engine.state()
    engine.round(silent)
    np.testing.assert_allclose(engine.x[0], mixed[0])
    np.testing.assert_allclose(engine.x[1:], kept[1:])


def test_errors_in_threads_come_out_and_nobody_is_left_at_work():
    workers, done = Workers(3), []

    def work(_worker, piece):
        if piece == 2:
            raise ValueError("piece 2")
        done.append(piece)

    with pytest.raises(ValueError, match="piece 2"):
        workers.each(6, work)
    workers.each(4, lambda worker, piece: done.append((worker, piece)))
    assert sorted(piece for entry in done if isinstance(entry, tuple) for piece in entry[1:]) == [0, 1, 2, 3]


@pytest.mark.parametrize("bias_column", [True, False])
@pytest.mark.parametrize("kind", ["grey bytes", "colour bytes", "features"])
def test_samples_are_normalised_as_their_data_set_says(kind, bias_column):
    rng = np.random.default_rng(0)
    if kind == "colour bytes":
        data = bytes_data(30, (3, 4, 4), mean=(0.1, 0.2, 0.3), deviation=(0.5, 0.6, 0.7))
        mean, deviation = (np.array(v).reshape(3, 1, 1) for v in (data.mean, data.deviation))
    else:
        data = bytes_data(30, (4, 4))
        mean, deviation = data.mean, data.deviation
    if kind == "features":
        data = dataclasses.replace(
            data, train_x=rng.normal(size=(30, 5)), test_x=rng.normal(size=(40, 5)), scale=1.0, mean=0.0, deviation=1.0
        )
        mean, deviation = 0.0, 1.0
    store = Store(data, CPU, torch.float64, bias_column=bias_column)
    buffer = Buffer(store)
    buffer.batch([np.array([5, 5, 5])], np.array([3.0]))  # what was there before does not show
    batch = buffer.batch([np.array([3, 1]), np.array([2])], np.array([2.0, 2.0]))
    expected = ((data.train_x / data.scale - mean) / deviation)[[3, 1, 2]]
    found = batch.features.reshape(4, *batch.features.shape[2:])[:3]
    if bias_column:
        assert (found[:, -1] == 1).all()
        np.testing.assert_allclose(found[:, :-1], expected.reshape(3, -1), atol=1e-14)
    else:
        np.testing.assert_allclose(found, expected.reshape(3, *sample_shape(data)), atol=1e-14)
    assert batch.weight.tolist() == [[0.5, 0.5], [0.5, 0.0]]
    assert batch.labels[0].tolist() == data.train_y[[3, 1]].tolist()


# --- what is refused ---------------------------------------------------------------------------------------


def test_too_large_is_refused_before_anything_is_allocated_with_what_would_fit(monkeypatch):
    monkeypatch.setattr("wirelessdl.learning.engine.available", lambda _device: 3_000_000)
    with pytest.raises(ScenarioError, match=r"learning needs .* are free on cpu") as caught:
        build(tiny(), device="cpu")
    assert "use a smaller model or batch_size" in str(caught.value)
    monkeypatch.setattr("wirelessdl.learning.engine.available", lambda _device: 60_000_000)
    table = tiny_table(network={"nodes": 400}, learning={"batch_size": 8})
    with pytest.raises(ScenarioError, match=r"60 MB are free on cpu: \d+ nodes would fit"):
        build(parse_scenario(table), device="cpu")


def test_need_grows_with_nodes_and_says_what_holds_it():
    engine = make(bytes_data())
    assert engine.need(1000).total > engine.need(10).total
    limit = engine.need(700).total
    fits = most_nodes(engine.need, 1000, limit)
    assert engine.need(fits).total <= limit < engine.need(fits + 1).total
    assert Need(3_000_000, 0, 1_000_000, 0, 0, 0).formatted() == "4 MB (models 3 MB, batches 1 MB)"
    assert format_size(2_340_000_000) == "2.34 GB"


def test_need_is_what_a_large_network_takes():
    """The [K, m] tensors are three, and they are most of it."""
    engine = make(bytes_data(2000, (28, 28), 10), nodes=100, dtype="float32")
    held = sum(t.nbytes for t in (engine.x, engine._spare, engine._mixed))
    assert engine.need().models == held


def test_check_tells_strategy_and_memory():
    facts = describe(build(tiny(), device="cpu"))
    assert facts["engine"].startswith("closed-form gradients on cpu, needs ")
    assert "MB" in facts["engine"]


def test_labels_out_of_range_are_said():
    data = bytes_data()
    data.train_y[7] = 3
    with pytest.raises(ValueError, match=r"label of train sample 7 is 3; must be 0 to 2"):
        make(data)


USERS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes: int, width: int = 12):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, classes))
    def forward(self, images):
        return self.net(images)

class Conv(nn.Module):
    def __init__(self, classes: int):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(1, 4, 5, stride=4), nn.BatchNorm2d(4), nn.Linear(144, classes)
    def forward(self, images):
        return self.last(torch.relu(self.norm(self.conv(images))).flatten(1))

class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(784, 7)
    def forward(self, images):
        return self.last(images.flatten(1))

class Dropping(Net):
    def __init__(self, classes: int):
        super().__init__(classes)
        self.net.append(nn.Dropout())

class Bare(nn.Module):
    def forward(self, images):
        return images

class Exploding(Net):
    def forward(self, images):
        scores = super().forward(images)
        return scores / (scores.detach() * 0) if images.shape[0] == 8 else scores
"""


USERS += """
class Nearest:
    '''Pulls a mean per class towards its samples; gradients of its own, no autograd.'''
    def __init__(self, features: int, classes: int):
        self.shape, self.size = (classes, features + 1), classes * (features + 1)
    def initial(self, rng):
        return rng.normal(size=self.size) * 0.01
    def gradient(self, x, features, labels, clipping, clip_norm):
        hot = torch.nn.functional.one_hot(labels, self.shape[0]).to(x.dtype)
        pull = hot.sum(1).unsqueeze(2) * x.view(len(x), *self.shape) - torch.bmm(hot.mT, features)
        flat = pull.reshape(len(x), -1) / features.shape[1]
        return flat * (clip_norm / flat.norm(dim=1, keepdim=True)).clamp_max(1.0), flat.norm(dim=1)
    def scores(self, x, features):
        return features @ x.view(len(x), *self.shape).mT
"""


@pytest.fixture
def user_models(tmp_path):
    (tmp_path / "mine.py").write_text(USERS)
    return tmp_path


def with_model(folder, model, **sections):
    sections.setdefault("learning", {})["model"] = model
    table = tiny_table()
    for name, keys in sections.items():
        table[name] = {**table[name], **keys}
    (folder / "x.toml").write_text(tomli_w.dumps(table))
    return parse_scenario(table, folder=str(folder))


@pytest.mark.parametrize(
    ("model", "sections", "strategy"),
    [
        ({"model": "mine.py:Net", "width": 5}, {}, "vmap"),
        ({"model": "mine.py:Conv"}, {"privacy": {"clipping": "batch"}}, "threads"),
        ({"model": "mine.py:Nearest"}, {"privacy": {"clipping": "batch"}}, "closed-form"),
        (
            {"model": "mlp", "hidden": [9, 8], "activation": "tanh"},
            {"learning": {"sampling": "poisson"}},
            "closed-form",
        ),
        ({"model": "cnn", "channels": 4}, {"learning": {"sampling": "poisson"}}, "threads"),
    ],
)
def test_models_run_from_a_scenario(model, sections, strategy, user_models):
    run = wirelessdl.simulate(with_model(user_models, model, **sections), out=user_models / "out")
    assert run.provenance["strategy"] == strategy
    assert np.isfinite(run.nodes["loss"]).all()
    assert run.rounds["accuracy_mean"].notna().sum() == 1
    assert run.scenario["learning"]["model"]["model"] == model["model"]
    again = wirelessdl.simulate(with_model(user_models, model, **sections), out=user_models / "out")
    assert again.nodes["loss"].tolist() == run.nodes["loss"].tolist()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("mine.py:Conv", 'learning.model is Conv, whose layer "norm" normalises over the batch; per-sample clipping'),
        ("mine.py:Wide", "forward() of 2 samples of shape (1, 28, 28) returned (2, 7), expected (2, 10)"),
        ("mine.py:Dropping", "model is Dropping, which has Dropout; what it drops would depend on which thread"),
        ("mine.py:Bare", "model is Bare, which has no parameters"),
    ],
)
def test_modules_that_cannot_run_are_refused_in_one_line(model, words, user_models):
    with_model(user_models, model)
    assert words in refusal(user_models / "x.toml")


def test_a_learner_that_cannot_weigh_samples_is_refused_where_batches_are_padded(user_models):
    scenario = with_model(user_models, "mine.py:Nearest", learning={"sampling": "poisson"})
    with pytest.raises(ScenarioError, match=r'sampling is "poisson"; .* gradient\(...\) of Nearest takes no weight'):
        build(scenario, device="cpu")


def test_convolutions_on_plain_features_are_refused():
    with pytest.raises(ValueError, match="convolutions need images"):
        Cnn((5,), 3)


def test_a_loss_that_leaves_the_numbers_stops_with_node_round_and_cause(user_models):
    scenario = with_model(user_models, "mine.py:Exploding", scenario={"rounds": 3}, learning={"strategy": "threads"})
    with pytest.raises(TrainingError, match=r"loss of node 0 is nan in round 1; .* likely too large: lower"):
        wirelessdl.simulate(scenario, out=user_models / "out")
    run = wirelessdl.open_run(user_models / "out" / "tiny-s3-r1")
    assert run.rounds["round"].tolist() == [1, 2, 3]
    assert run.provenance["state"] == "failed"


def test_benchmarks_skip_what_is_not_installed_and_report_what_is_counted():
    from importlib import import_module

    from wirelessdl.bench.suites import SUITES, Contest, measure

    for target in SUITES.values():
        module, _, function = target.partition(":")
        assert callable(getattr(import_module(module), function))
    skipped = measure(Contest("peer", ours=list, other=list, at_least=8.0, skipped="not installed: peer"))
    assert (skipped.met, skipped.note, skipped.target) == (None, "not installed: peer", ">= 8x the speed")
    counted = measure(Contest("memory", ours=lambda: 0.5, other=lambda: 2.0, at_most=1.0, unit="GB", reported=True))
    assert (counted.ratio, counted.met, counted.unit) == (0.25, True, "GB")


@pytest.mark.parametrize("kind", ["NaiveLoop", "CarefulLoop"])
def test_the_loops_we_are_measured_against_learn_the_same(kind):
    """Same data, mixing and step, no noise and full batches: else the ratio would compare two different things."""
    from functools import partial

    from wirelessdl.bench import naive

    data = bytes_data(40)
    engine = make(data, nodes=4, sampling="full", clipping="batch", dtype="float32")
    weights = np.array([[0.5, 0.5, 0, 0], [0.25, 0.5, 0.25, 0], [0, 0.25, 0.5, 0.25], [0.2, 0, 0.3, 0.5]])

    def build_module():
        module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 3))
        torch.nn.init.zeros_(module[1].weight)
        torch.nn.init.zeros_(module[1].bias)
        return module

    loop = getattr(naive, kind)(build_module, data, engine.client_indices, weights, batch_size=10)
    quiet = partial(dataclasses.replace, noise_scale=np.zeros(4))
    for round in (1, 2, 3):
        engine.round(quiet(order(4, round=round, weights=weights, thermal=0.0)))
        loop.round(0.0, 0.3)
    for node, module in enumerate(loop.models):
        found = torch.cat([module[1].weight, module[1].bias.unsqueeze(1)], dim=1).detach()
        torch.testing.assert_close(engine.x[node].view(3, 37), found, atol=1e-5, rtol=1e-4)
