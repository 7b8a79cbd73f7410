"""What the learning engine costs: against loops as people write them, one shared model, Opacus, and itself."""

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from bench.naive import CarefulLoop, NaiveLoop
from bench.peers import fluke_round, gossipy_round
from bench.suites import Contest
from wirelessdl.learning.batch import Batch, sample_shape
from wirelessdl.learning.clipping import Clipping
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.gradients import GradientJob, choose
from wirelessdl.learning.models import MODELS
from wirelessdl.learning.models.module import adapt, seeded
from wirelessdl.learning.partition import Iid
from wirelessdl.learning.records import ModelUpdate, RoundInput, Settings, StepInput
from wirelessdl.learning.runtime import Workers
from wirelessdl.learning.superposition import one_slot
from wirelessdl.links import Links
from wirelessdl.mixing import Mixing, mix, uniform_air
from wirelessdl.streams import Streams

_NOISE, _STEP = 0.05, 0.02
_HIDDEN = 128
_COLOUR = (3, 32, 32)
_IN_A_ROW = 10  # rounds of either side in a turn, where ours go on while others are prepared


def contests() -> Iterator[Contest]:
    yield from _rounds()
    yield from _gradients()
    yield from _per_sample()
    yield from _growth()
    yield _noise(20)
    yield from peers()


def _rounds() -> Iterator[Contest]:
    """Full rounds against loops over nodes, batch clipping on both sides."""
    for model, nodes, batch, shape, target, careful, repeats in (
        ("softmax", 20, 64, (28, 28), {"at_least": 7.0}, {"at_least": 5.0}, 15),
        ("softmax", 100, 64, (28, 28), {"at_least": 18.0}, {"at_least": 7.0}, 9),
        ("cnn", 20, 32, (28, 28), {"at_least": 1.8}, {}, 9),
        ("resnet20", 4, 32, _COLOUR, {"at_most": 1.05}, {}, 7),
    ):
        data, mixing = pictures(nodes, shape), network(nodes, 0.4 * nodes)
        count = _IN_A_ROW if model == "softmax" else 1
        run = rounds(engine(model, data, nodes, batch), mixing, count)
        client_indices = Iid().split(data.train_y, nodes, np.random.default_rng(2))
        for kind, limits in ((NaiveLoop, target), (CarefulLoop, careful)):
            loop = kind(partial(plain_module, model, data), data, client_indices, mixing.dense, batch)
            words = "a loop over nodes" if kind is NaiveLoop else "a careful loop"
            yield Contest(
                f"{model}, K={nodes} B={batch}: full round against {words}",
                ours=run,
                other=at_its_best(in_a_row(partial(loop.round, _NOISE, _STEP), count)),
                repeats=repeats,
                **limits,  # type: ignore[arg-type]
            )


def _gradients() -> Iterator[Contest]:
    """Gradients of K models against one shared model on all their samples: what there is to lose."""
    for model, target in (("softmax", 1.0), ("mlp", 1.5)):
        nodes, batch = 20, 64
        ours, shared = gradient(model, nodes, batch, "batch"), shared_model(model, nodes * batch)
        yield Contest(
            f"{model}, K={nodes} B={batch}: gradients against one shared model on K*B samples",
            ours=ours,
            other=at_its_best(shared),
            at_most=target,
            repeats=31,
        )


def _per_sample() -> Iterator[Contest]:
    """Per-sample clipping against Opacus node by node, and against our own batch clipping."""
    for model, nodes, target in (("softmax", 100, 8.0), ("mlp", 20, 15.0)):
        name = f"{model}, K={nodes} B=64: per-sample clipped gradients against Opacus node by node"
        try:
            other = at_its_best(opacus_gradients(model, nodes, 64))
        except ImportError as error:
            yield Contest(name, ours=_nothing, other=_nothing, at_least=target, skipped=_missing(error))
            continue
        yield Contest(name, gradient(model, nodes, 64, "per-sample"), other, at_least=target, repeats=7)
    for model, nodes, shape, target, repeats in (
        ("softmax", 20, (28, 28), 1.5, 31),
        ("mlp", 20, (28, 28), 1.5, 31),
        ("resnet20", 4, (3, 32, 32), 2.0, 5),
    ):
        data, mixing = pictures(nodes, shape), network(nodes, 0.4 * nodes)
        yield Contest(
            f"{model}, K={nodes} B=64: full round, per-sample clipping against batch clipping",
            ours=rounds(engine(model, data, nodes, 64, "per-sample"), mixing),
            other=rounds(engine(model, data, nodes, 64), mixing),
            at_most=target,
            repeats=repeats,
        )


def _growth() -> Iterator[Contest]:
    small = rounds(engine("softmax", pictures(20, (28, 28)), 20, 64, "per-sample"), network(20, 10.0))
    large = rounds(engine("softmax", pictures(1000, (28, 28)), 1000, 64, "per-sample"), network(1000, 10.0))
    yield Contest(
        "softmax, mean degree 10: a round of K=1000 against K=20", ours=large, other=small, at_most=60.0, repeats=7
    )
    yield Contest(
        "softmax, mean degree 10, K=1000: memory of the process against 2 GB",
        ours=peak_memory,
        other=lambda: 2.0,
        at_most=1.0,
        unit="GB",
        reported=True,
        repeats=1,
    )


def _noise(nodes: int) -> Contest:
    size = MODELS["softmax"](784, 10).size
    learning = engine("softmax", pictures(nodes, (28, 28)), nodes, 64)
    out = torch.empty(nodes, size)
    number = itertools.count(1)
    return Contest(
        f"keyed noise of K={nodes} softmax models against one torch.randn of the size",
        ours=lambda: learning.draws.fill_normal(out, next(number), "noise"),
        other=at_its_best(lambda: torch.randn(nodes, size)),
        at_most=2.0,
        repeats=31,
    )


def peers() -> Iterator[Contest]:
    """Simulators of decentralized learning that install: a round of softmax without noise or radio."""
    data, mixing = pictures(20, (28, 28)), network(20, 8.0)
    ours = rounds(engine("softmax", data, 20, 64), mixing, _IN_A_ROW)
    for name, prepare, target in (("gossipy", gossipy_round, 10.0), ("fluke", fluke_round, 7.0)):
        title = f"softmax, K=20 B=64: full round against {name}"
        try:
            other = at_its_best(in_a_row(prepare(data, 20, 64), _IN_A_ROW))
        except ImportError as error:
            yield Contest(title, ours=_nothing, other=_nothing, skipped=_missing(error))
            continue
        yield Contest(title, ours=ours, other=other, at_least=target, repeats=7)


def pictures(nodes: int, shape: tuple[int, ...]) -> Dataset:
    """Random bytes: what they show does not matter to the clock. At least 128 for every node."""
    rng = np.random.default_rng(0)
    count = max(12_000, 128 * nodes) if len(shape) == 2 else 128 * nodes

    def draw(samples: int) -> tuple[Any, Any]:
        return rng.integers(0, 256, (samples, *shape), dtype=np.uint8), rng.integers(0, 10, samples)

    return Dataset("bytes", *draw(count), *draw(100), classes=10, scale=255.0, mean=0.5, deviation=0.3)


def network(nodes: int, degree: float) -> Mixing:
    """Averaging over a random graph."""
    rng = np.random.default_rng(1)
    mask = rng.random((nodes, nodes)) < degree / nodes
    mask |= np.roll(np.eye(nodes, dtype=bool), 1, axis=1)
    np.fill_diagonal(mask, False)
    links = Links.from_gain(mask.astype(np.float64))
    return mix(links, np.ones(len(links)), np.ones(nodes), air=uniform_air(links))


def engine(model: str, data: Dataset, nodes: int, batch: int, clipping: Clipping = "batch") -> LearningEngine:
    client_indices = Iid().split(data.train_y, nodes, np.random.default_rng(2))
    return LearningEngine(
        learner(model, data), data, client_indices, Streams(0), Settings(batch, clipping, 1.0, 0.5, gradient_at="mixed")
    )


def learner(model: str, data: Dataset) -> Any:
    shape = sample_shape(data)
    if model == "softmax":
        return MODELS[model](data.features, data.classes)
    if model == "mlp":
        return MODELS[model](data.features, data.classes, [_HIDDEN])
    with seeded(np.random.default_rng(3)):
        return adapt(MODELS[model](shape, data.classes), shape, data.classes)


def in_a_row(run: Callable[[], Any], count: int) -> Callable[[], None]:
    """So many calls as one."""

    def call() -> None:
        for _ in range(count):
            run()

    return call


def rounds(learning: LearningEngine, mixing: Mixing, count: int = 1) -> Callable[[], None]:
    """So many more rounds of an engine with every call, from the first to the end of the last."""
    nodes = learning.nodes
    number = itertools.count(1)
    same: dict[str, Any] = {
        "steps": (StepInput.release(one_slot(learning.learner.size, mixing.compact, np.zeros(nodes)), nodes),),
        "noise_scale": np.full(nodes, _NOISE),
        "update": ModelUpdate.everyone(np.full(nodes, _STEP)),
        "evaluate": False,
    }
    return in_a_row(lambda: learning.round(RoundInput(round=next(number), **same)), count)


def plain_module(model: str, data: Dataset) -> nn.Module:
    """The same model as people write it."""
    if model == "softmax":
        return nn.Sequential(nn.Flatten(), nn.Linear(data.features, data.classes))
    if model == "mlp":
        first, last = nn.Linear(data.features, _HIDDEN), nn.Linear(_HIDDEN, data.classes)
        return nn.Sequential(nn.Flatten(), first, nn.ReLU(), last)
    module: nn.Module = MODELS[model](sample_shape(data), data.classes)
    return module


def gradient(model: str, nodes: int, batch: int, clipping: Clipping) -> Callable[[], None]:
    """Clipped gradients of K models on batches that lie ready."""
    data = pictures(1, (28, 28))
    built = learner(model, data)
    job = GradientJob(built, clipping, 1.0, torch.device("cpu"), torch.float32)
    strategy = choose("auto", job, nodes=nodes, batch=batch, input_shape=(1, 28, 28), threads=torch.get_num_threads())
    x, out = 0.01 * torch.randn(nodes, built.size), torch.empty(nodes, built.size)
    features = torch.randn(nodes, batch, data.features + 1)
    features[:, :, -1] = 1.0
    whole = Batch(features, torch.randint(10, (nodes, batch)))
    pieces = [slice(start, start + strategy.chunk) for start in range(0, nodes, strategy.chunk)]
    workers = Workers(strategy.workers)

    def work(worker: int, piece: int) -> None:
        part = pieces[piece]
        strategy.gradient(worker, x[part], whole.part(part), out[part])

    return lambda: workers.each(len(pieces), work)


def shared_model(model: str, samples: int) -> Callable[[], None]:
    data = pictures(1, (28, 28))
    module = plain_module(model, data)
    features, labels = torch.randn(samples, 784), torch.randint(10, (samples,))

    def run() -> None:
        module.zero_grad()
        F.cross_entropy(module(features), labels).backward()  # type: ignore[no-untyped-call]

    return run


def opacus_gradients(model: str, nodes: int, batch: int) -> Callable[[], None]:
    """Clipped, summed gradients of K modules that Opacus wraps, as its optimizer makes them."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    data = pictures(1, (28, 28))
    modules = [GradSampleModule(plain_module(model, data)) for _ in range(nodes)]
    optimizers = [
        DPOptimizer(
            torch.optim.SGD(module.parameters(), lr=0.1),
            noise_multiplier=0.0,
            max_grad_norm=1.0,
            expected_batch_size=batch,
        )
        for module in modules
    ]
    features, labels = torch.randn(nodes, batch, 784), torch.randint(10, (nodes, batch))

    def run() -> None:
        for node, (module, optimizer) in enumerate(zip(modules, optimizers)):
            optimizer.zero_grad()
            F.cross_entropy(module(features[node]), labels[node]).backward()  # type: ignore[no-untyped-call]
            optimizer.clip_and_accumulate()

    return run


def at_its_best(run: Callable[[], Any]) -> Callable[[], Any]:
    """A contender with the number of torch threads that suits it best, one or all; tried out first."""
    every = torch.get_num_threads()

    def with_threads(count: int) -> None:
        torch.set_num_threads(count)
        try:
            run()
        finally:
            torch.set_num_threads(every)

    def took(count: int) -> float:
        started = time.perf_counter()
        with_threads(count)
        return time.perf_counter() - started

    run()
    tries = [{count: took(count) for count in (1, every)} for _ in range(5)]
    best = min((1, every), key=lambda count: min(seconds[count] for seconds in tries))
    return lambda: with_threads(best)


def peak_memory() -> float:
    """GB that a process of its own held at most while it learned with 1,000 nodes."""
    code = (
        "from bench.engine import engine, network, pictures, rounds\n"
        "from bench.scale import peak_bytes\n"
        "run = rounds(engine('softmax', pictures(1000, (28, 28)), 1000, 64, 'per-sample'), network(1000, 10.0))\n"
        "for _ in range(3): run()\n"
        "print(peak_bytes())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout) / 1e9


def _nothing() -> None:
    return None


def _missing(error: ImportError) -> str:
    return f"not installed: {error.name or error}"
