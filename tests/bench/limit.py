"""How near bundled scenarios are to the work that they cannot avoid, by processor time in one process.

    normals      one number per weight for every node's noise, and for each receiver of every payload
    gradients    gathering and normalising batches that change; two products and a softmax
    mixing       the products of every payload, of real numbers
    passes       noise added, step and norm of all models, receiver noise scaled and added in every payload
    evaluation   one product of all models with the test samples, in the rounds that evaluate
    modules      all products of the forward and backward passes, as one matrix product of the same number of operations

All of it is in float32, with torch's own generator and one thread. Receivers, payloads and evaluations are those of the
run it is compared with. Ours is the whole run, from its first frame to its last: events, channel, plan, ledger,
evaluation and tables. Building it is not part of it.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from bench.engine import engine, network, pictures, plain_module, rounds
from bench.suites import Contest, traced_run
from wirelessdl.learning.batch import sample_shape
from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.records import RoundInput
from wirelessdl.learning.runtime import one_thread
from wirelessdl.round.engine import Engine
from wirelessdl.run.build import build
from wirelessdl.run.recorder import Recorder
from wirelessdl.scenario.loader import load_scenario

_SCENARIOS = Path(__file__).parents[2] / "scenarios"
_SIDE = 1024  # of the matrices that show what the processor can do
STAGES = ("events", "channel", "plan", "ledger", "traces", "learning")
_LARGER = ("network.nodes=100", "network.topology={kind='erdos-renyi',p=0.1}", "learning.batch_size=64")


def contests() -> Iterator[Contest]:
    for label, name, overrides, target in (
        ("urban_er_k20", "urban_er_k20", (), 3.5),
        ("urban_er_k20_ideal", "urban_er_k20_ideal", (), 4.0),
        ("quickstart, K=20", "quickstart", ("network.nodes=20",), 2.8),
        ("quickstart, K=100, mean degree 10", "quickstart", _LARGER, 1.8),
    ):
        run = Measured(name, overrides)
        yield Contest(
            f"{label}: a round of the whole run against the work it cannot avoid",
            ours=run.ours,
            other=run.unavoidable,
            at_most=target,
            reported=True,
            repeats=5,
        )
        run.show(label)
    for model, nodes, shape, least in (("cnn", 20, (28, 28), 0.6), ("resnet20", 4, (3, 32, 32), 0.8)):
        data = pictures(nodes, shape)
        operations = nodes * operations_of(plain_module(model, data), torch.randn(32, *sample_shape(data)))
        yield Contest(
            f"{model}, K={nodes} B=32: a round against its products at the processor's peak",
            ours=processor_time(rounds(engine(model, data, nodes, 32), network(nodes, 0.4 * nodes))),
            other=processor_time(product_of(operations)),
            at_least=least,
            repeats=9,
            reported=True,
        )


class Measured:
    """A bundled scenario: seconds per round of a whole run, by stage, and of the work that it could not avoid."""

    def __init__(self, name: str, overrides: tuple[str, ...]):
        self._scenario = load_scenario(_SCENARIOS / f"{name}.toml", overrides=list(overrides))
        self._stages: list[dict[str, float]] = []
        self._least: dict[str, float] = {}
        self._work = Work()

    def ours(self) -> float:
        with one_thread():
            world = build(self._scenario, device="cpu")
            self._work = Work(world.learning)
            watch = Watch()
            seconds = traced_run(world, lambda made, recorder: watch.attach(made, recorder, self._work))
        count = self._scenario.scenario.rounds
        self._stages.append(watch.shares(seconds) | {"whole": seconds})
        return seconds / count

    def unavoidable(self) -> float:
        if not self._work.rounds:  # the run says what has to be done
            self.ours()
            self._stages.clear()
        with one_thread():
            self._least = self._work.seconds()
        return sum(self._least.values())

    def show(self, label: str) -> None:
        """Prints where a round's time went: medians over the runs, ms."""
        count, table = self._scenario.scenario.rounds, Table(title=f"{label}: ms of a round", box=None)
        rows = {name: statistics.median(run[name] for run in self._stages) / count for name in (*STAGES, "whole")}
        for name in ("stage", *rows, "", *self._least):
            table.add_column(name, justify="right")
        table.add_row(
            "", *(f"{1e3 * s:.2f}" for s in rows.values()), "", *(f"{1e3 * s:.2f}" for s in self._least.values())
        )
        Console(highlight=False, stderr=True, width=150).print(table)


class Watch:
    """Processor time within each stage, without that of stages that it calls."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = defaultdict(float)
        self._open: list[float] = []  # of calls under way: what those within them took

    def attach(self, engine: Engine, recorder: Recorder, work: "Work") -> None:
        stages = engine.stages
        work.watch(stages.learning)
        for stage, owner, names in (
            ("channel", stages.observer, ("observe", "gains_at")),
            ("plan", stages.access, ("schedule", "audible")),
            ("plan", stages.planner, ("first",)),
            ("plan", stages.gate, ("admit",)),
            ("plan", stages.carrier, ("carry",)),
            ("plan", engine, ("_spectral_gap",)),
            ("ledger", stages.releases, ("release",)),
            ("ledger", stages.ledger, ("record",)),
            ("ledger", engine, ("_charged",)),
            ("learning", stages.learning, ("round",)),
            ("traces", recorder, ("flush",)),
        ):
            for name in names:
                setattr(owner, name, self._timed(stage, getattr(owner, name)))

    def shares(self, seconds: float) -> dict[str, float]:
        """Seconds of each stage; events are what no other stage is."""
        return {name: self._spent[name] for name in STAGES} | {"events": seconds - sum(self._spent.values())}

    def _timed(self, stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            started = time.process_time()
            self._open.append(0.0)
            try:
                return call(*given, **named)
            finally:
                took, within = time.process_time() - started, self._open.pop()
                self._spent[stage] += took - within
                if self._open:
                    self._open[-1] += took

        return timed


@dataclass
class Work:
    """What the rounds of a run had to do at least; counted while they pass, then done once as fast as torch can."""

    learning: LearningEngine | None = None
    rounds: int = 0
    evaluations: int = 0
    receivers: list[int] = field(default_factory=list)  # of every payload
    links: list[tuple[int, int]] = field(default_factory=list)  # receivers and senders of every payload

    def watch(self, learning: LearningEngine) -> None:
        inner = learning.round

        def counted(given: RoundInput) -> Any:
            self.count(given)
            return inner(given)

        learning.round = counted  # type: ignore[method-assign]

    def count(self, given: RoundInput) -> None:
        self.rounds += 1
        self.evaluations += given.evaluate
        nodes = len(given.noise_scale)
        for step in given.announced:
            self.links.append((len(np.unique(step.rx)), len(step.senders)))
            self.receivers.append(self.links[-1][0])
        if not given.announced:
            self.links += [(nodes, nodes)] * len(given.steps)
            self.receivers += [nodes * any(part.receiver_noise for part in step.segments) for step in given.steps]

    def seconds(self) -> dict[str, float]:
        """Processor seconds of each kind of work in a mean round."""
        learning = self.learning
        assert learning is not None
        nodes, size, sampler, data = learning.nodes, int(learning.learner.size), learning.sampler, learning.data
        classes, columns = data.classes, size // data.classes
        models, out, noise = (torch.randn(nodes, size) for _ in range(3))
        batch = sampler.width
        features, scores = torch.randn(nodes, batch, columns), torch.randn(nodes, classes, batch)
        stored = torch.randint(0, 256, (len(data.train_x), columns), dtype=torch.uint8)
        place = torch.randint(0, len(stored), (nodes * batch,))
        raw = torch.empty(nodes * batch, columns, dtype=torch.uint8)
        tests = torch.randn(len(data.test_y), columns)
        column, shift = torch.rand(nodes, 1), torch.tensor(-0.5)

        def gradients() -> None:
            if not learning.keeps_batches:
                torch.index_select(stored, 0, place, out=raw)
                rows = features.view(-1, columns)
                rows.copy_(raw)
                torch.add(shift, rows, alpha=0.01, out=rows)
            torch.bmm(models.view(nodes, classes, -1), features.mT)
            torch.log_softmax(scores, dim=1).exp_()
            torch.bmm(scores, features, out=out.view(nodes, classes, -1))

        def passes() -> None:
            torch.addcmul(models, noise, column, out=out)
            torch.addcmul(models, out, column, out=noise)
            torch.linalg.vector_norm(noise, dim=1)

        spent = {
            "normals": _least(noise.normal_) * (1 + sum(self.receivers) / nodes / self.rounds),
            "gradients": _least(gradients),
            "passes": _least(passes),
            "evaluation": _least(lambda: models.view(-1, columns) @ tests.T) * self.evaluations / self.rounds,
            "mixing": 0.0,
        }
        for (rx, tx), times in {ends: self.links.count(ends) for ends in set(self.links)}.items():
            dense, heard, share = torch.rand(rx, tx), out[:rx], times / self.rounds
            spent["mixing"] += _least(partial(torch.addmm, noise[:rx], dense, models[:tx], out=heard)) * share
            spent["passes"] += _least(partial(heard.mul_, column[:rx])) * share
        return spent


def _least(run: Callable[[], Any], repeats: int = 9) -> float:
    """Median processor seconds of a call; many in a row where it is short."""
    run()
    count = 1
    while (took := _took(run, count)) < 2e-3:
        count *= 4
    return statistics.median([took / count, *(_took(run, count) / count for _ in range(repeats - 1))])


def _took(run: Callable[[], Any], count: int) -> float:
    started = time.process_time()
    for _ in range(count):
        run()
    return time.process_time() - started


def processor_time(run: Callable[[], Any]) -> Callable[[], float]:
    """Processor seconds of a call with one thread."""

    def timed() -> float:
        with one_thread():
            return _took(run, 1)

    return timed


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
