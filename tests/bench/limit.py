"""How near a round is to the work that it cannot avoid, side by side in one process.

    softmax   a normal number per weight for noise and one for the receiver, gathering and normalising the batch's
              bytes, the two products of the gradient, the mixing product, and four passes over the models (noise
              added, receiver noise scaled, step, projection); each with the number of torch threads that suits it best
    modules   all products of the forward and backward passes, as one matrix product of the same number of operations

Ours is a whole run, from its first frame to its last: events, channel, power plan, ledger, evaluation and tables.
Building it is not part of it.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from bench.engine import at_its_best, engine, network, pictures, plain_module, rounds
from bench.suites import FLAGSHIP, Contest, traced_run
from wirelessdl.learning.batch import sample_shape
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import load_scenario

_FEATURES, _CLASSES, _BATCH = 784, 10, 64
_SIDE = 1024  # of the matrices that show what the processor can do
_STATIC = (
    "network.mobility=static",
    "channel.models=[{model='sidelink-urban'},{model='shadowing'}]",
    "power.schedule=static",
)
_LARGER = (
    "network.nodes=100",
    "network.topology.p=0.1",
    "network.placement={kind='block',side_m=500}",
    "learning.partition=iid",
)


def contests() -> Iterator[Contest]:
    for name, nodes, count, overrides, target in (
        ("bench_er_k20", 20, 300, (), 3.0),
        ("softmax, K=20, static", 20, 300, _STATIC, 2.5),
        ("softmax, K=100, mean degree 10, static", 100, 100, (*_STATIC, *_LARGER), 1.6),
    ):
        floor = Unavoidable(nodes)
        yield Contest(
            f"{name}: a run of {count} rounds against the work it cannot avoid",
            ours=whole_run(count, overrides),
            other=partial(floor.rounds, count),
            at_most=target,
            reported=True,
        )
    for model, nodes, shape, least in (("cnn", 20, (28, 28), 0.6), ("resnet20", 4, (3, 32, 32), 0.8)):
        data = pictures(nodes, shape)
        module = plain_module(model, data)
        operations = nodes * operations_of(module, torch.randn(32, *sample_shape(data)))
        yield Contest(
            f"{model}, K={nodes} B=32: full round against its products at the processor's peak",
            ours=rounds(engine(model, data, nodes, 32), network(nodes, 0.4 * nodes)),
            other=at_its_best(product_of(operations)),
            at_least=least,
            repeats=9,
        )


def whole_run(count: int, overrides: tuple[str, ...] = ()) -> Callable[[], float]:
    """Seconds of the frozen main example, or of what overrides make of it, from its first frame to its last."""
    scenario = load_scenario(FLAGSHIP, overrides=[f"scenario.rounds={count}", *overrides])

    return lambda: traced_run(build(scenario, device="cpu"))


class Unavoidable:
    """The least that a round of softmax on K nodes takes, if nothing else were done."""

    def __init__(self, nodes: int):
        size = _CLASSES * (_FEATURES + 1)
        models, out, noise = (torch.randn(nodes, size) for _ in range(3))
        stored = torch.randint(0, 256, (12_000, _FEATURES), dtype=torch.uint8)
        place = torch.randint(0, len(stored), (nodes * _BATCH,))
        raw = torch.empty(nodes * _BATCH, _FEATURES, dtype=torch.uint8)
        features = torch.ones(nodes, _BATCH, _FEATURES + 1)
        body = features.view(-1, _FEATURES + 1)[:, :-1]
        shift = torch.tensor(-0.5)
        error = torch.randn(nodes, _CLASSES, _BATCH)
        mixing, column = torch.rand(nodes, nodes) / nodes, torch.rand(nodes, 1)

        def draw() -> None:
            noise.normal_()
            out.normal_()

        def gather() -> None:
            torch.index_select(stored, 0, place, out=raw)
            body.copy_(raw)
            torch.add(shift, body, alpha=0.01, out=body)

        def products() -> None:
            weights = models.view(nodes, _CLASSES, -1)
            torch.bmm(weights, features.mT)
            torch.bmm(error, features, out=noise.view(weights.shape))

        def mix() -> None:
            torch.addmm(out, mixing, models, out=noise)

        def passes() -> None:
            torch.addcmul(models, noise, column, out=out)
            noise.mul_(column)
            torch.addcmul(models, out, column, out=noise)
            torch.linalg.vector_norm(noise, dim=1)

        self._parts = [at_its_best(part) for part in (draw, gather, products, mix, passes)]

    def rounds(self, count: int) -> float:
        """Seconds of so many rounds, part by part: switching threads back and forth is not unavoidable."""
        started = time.perf_counter()
        for part in self._parts:
            for _ in range(count):
                part()
        return time.perf_counter() - started


def operations_of(module: nn.Module, images: torch.Tensor) -> int:
    """Floating-point operations of the products in one gradient of a module."""
    labels = torch.zeros(len(images), dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(module(images), labels).backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


def product_of(operations: int) -> Callable[[], Any]:
    """One matrix product of so many operations, in a shape that suits the processor."""
    columns = max(1, round(operations / (2 * _SIDE**2)))
    left, right = torch.randn(_SIDE, _SIDE), torch.randn(_SIDE, columns)
    out = torch.empty(_SIDE, columns)
    return lambda: torch.mm(left, right, out=out)
