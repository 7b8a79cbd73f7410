"""The learning engine: all nodes' models as one [K, m] tensor, one call per round.

The simulator hands over a `RoundInput`, what channel and plan decided for this frame; the engine
answers with a `RoundResult`, tensors that nobody waits for until they are traced.

State is three such tensors: the models x, what each node holds after the slot, and one that is in turn
what is sent, the gradient, and the next x. Nodes are cut into pieces that threads take (`Workers`); only
the mixing looks at all of them. Nothing is allocated that grows with rounds.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.contract import capability
from wirelessdl.learning.ahead import MOST_NUMBERS, Ahead
from wirelessdl.learning.airing import Airing
from wirelessdl.learning.batch import Batch, Buffer, Changes, Store, apply_changes, require_range, sample_shape
from wirelessdl.learning.behaviour import UNCLIPPED, Trials, refuse_mixing
from wirelessdl.learning.clipping import sensitivity
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.gradients import Job, choose
from wirelessdl.learning.gradients.batched import ClosedForm
from wirelessdl.learning.gradients.threads import Threads
from wirelessdl.learning.models import is_built_in
from wirelessdl.learning.models.convex import Objective
from wirelessdl.learning.models.module import ModuleLearner, require_fit
from wirelessdl.learning.records import RoundInput, RoundResult, Settings
from wirelessdl.learning.runtime import Need, Workers, available, most_nodes, one_thread, pick_device
from wirelessdl.learning.sampling import Sampler
from wirelessdl.learning.superposition import Air, consensus_distance, project_
from wirelessdl.memory import format_size
from wirelessdl.mixing import is_sparse
from wirelessdl.streams import Streams

_DTYPES = {"float32": torch.float32, "float64": torch.float64}
_EVALUATED = 2**25  # scores of common samples that are held at once
_SMALL = 2**19  # numbers in all models, below which waking a second thread costs more than it does


class LearningEngine:
    """State and update of K models. Raises ValueError, before it allocates, for what cannot be run."""

    def __init__(
        self, learner: Any, data: Dataset, client_indices: list[IntArray], streams: Streams, settings: Settings
    ):
        self.learner, self.settings, self.client_indices = learner, settings, client_indices
        self.nodes = len(client_indices)
        self.device = pick_device(settings.device)
        self.dtype = _DTYPES[settings.dtype]
        self.radius = settings.projection_radius * math.sqrt(learner.size)
        sizes = [len(client) for client in client_indices]
        self.sampler = Sampler(settings.sampling, settings.batch_size, sizes, fraction=settings.batch_fraction)
        self._regression = data.task == "regression"
        require_fit(learner, data, settings.gradient_at == "own", settings.augment)
        require_range(data, settings.dtype)
        if isinstance(learner, ModuleLearner):
            learner.prepare(self.device, self.dtype)
        trials = None
        if not is_built_in(learner):
            trials = Trials(learner, data, self.sampler.width, self.device, self.dtype)
            trials.try_scores()
        fewest = int(self.sampler.divisor.min())
        refuse_mixing(learner, settings.clipping, settings.sampling == "poisson", fewest)
        if isinstance(learner, ModuleLearner):
            if settings.gradient_at == "own":  # the paper's protocol, whose proof asks for nothing here
                learner.keep_statistics()
            learner.prepare(self.device, self.dtype)
        self._shape = sample_shape(data)
        self._classes = max(1, data.classes)
        self._stored = (data.train_x.nbytes, len(data.test_y))
        job = Job(learner, settings.clipping, settings.clip_norm, self.device, self.dtype, self._regression)
        shape: dict[str, Any] = {"nodes": self.nodes, "batch": self.sampler.width, "input_shape": self._shape}
        self.strategy = choose(settings.strategy, job, **shape, threads=torch.get_num_threads())
        if self.sampler.uneven and not self.strategy.accepts_weights:
            key = f'sampling is "{settings.sampling}"'
            if settings.sampling not in ("poisson", "full"):
                key = f"batch_fraction is {settings.batch_fraction:g}"
            raise ValueError(
                f"learning.{key}; its batches are padded, and gradient(...) of {type(learner).__name__} takes no "
                'weight: add it, use "without-replacement" with batch_size, or per-sample clipping'
            )
        self._require_room()
        if trials is not None:
            tried = choose(settings.strategy, replace(job, clip_norm=UNCLIPPED), **shape, threads=1)
            trials.try_gradients(tried, settings.clipping)
        if isinstance(self.strategy, Threads) and isinstance(learner, ModuleLearner) and learner.remembered > 0:
            self.strategy.remember(self.nodes)

        # a worker of its own buffer, generators and module: nothing is shared but the state
        self._small = self.device.type == "cpu" and self.nodes * learner.size < _SMALL
        self._workers = Workers(1 if self._small or self.device.type != "cpu" else torch.get_num_threads())
        self._gradients = Workers(self.strategy.workers)
        count = max(self._workers.count, self._gradients.count)
        self._draws = [NodeDraws(streams, self.nodes, self.device, settings.passes) for _ in range(count)]
        self.draws = self._draws[0]
        bias_column = capability(learner, "bias_column")
        clips_samples = isinstance(self.strategy, ClosedForm) and settings.clipping == "per-sample"
        keeps_norms = clips_samples and bias_column and settings.augment == "none"
        self._store = Store(data, self.device, self.dtype, bias_column=bias_column, keeps_norms=keeps_norms)
        self._buffers = [Buffer(self._store) for _ in range(self._gradients.count)]
        self._tests = self._evaluation_samples(streams)
        self._divisor = self.sampler.divisor
        self.sensitivity = sensitivity(settings.clipping, settings.clip_norm, self._divisor)

        self.x = self._initial(streams)
        self._spare, self._mixed = torch.zeros_like(self.x), self.x.clone()
        self._third: Tensor | None = None  # where mixing passes need it
        self._ahead = self._second_thread(streams)
        self._airing = Airing(self.nodes, learner.size, self.device, self.dtype, self._workers, self._ahead)
        self._objective = self._known_optimum() if settings.regret else None

    def _initial(self, streams: Streams) -> Tensor:
        start = torch.as_tensor(self.learner.initial(streams.world("learning.initial")), dtype=self.dtype)
        # within the ball from the start: power is counted on it
        return project_(start.to(self.device).repeat(self.nodes, 1), self.radius)

    def _evaluation_samples(self, streams: Streams) -> tuple[Tensor, Tensor]:
        """Features and labels of evaluations on the way."""
        features, labels = self._store.test_x, self._store.test_y
        if not 0 < self.settings.eval_samples < len(labels):
            return features, labels
        chosen = streams.world("learning.eval_samples").choice(len(labels), self.settings.eval_samples, replace=False)
        place = torch.from_numpy(np.sort(chosen)).to(self.device)
        return features.index_select(0, place), labels.index_select(0, place)

    def _second_thread(self, streams: Streams) -> Ahead | None:
        """Where it pays: gradients are short, and a core is free meanwhile."""
        free = self.device.type == "cpu" and torch.get_num_threads() > 1
        if not free or not isinstance(self.strategy, ClosedForm) or self.x.numel() > MOST_NUMBERS:
            return None
        return Ahead(NodeDraws(streams, self.nodes, self.device, self.settings.passes), self.x)

    def restart(self, streams: Streams) -> None:
        """Back to x_1, as an engine just built with these streams: other batches and noise, the same data."""
        self._draws = [NodeDraws(streams, self.nodes, self.device, self.settings.passes) for _ in self._draws]
        self.draws = self._draws[0]
        if self._ahead is not None:
            self._ahead.restart(NodeDraws(streams, self.nodes, self.device, self.settings.passes))
        self.sampler.restart()
        self.x.copy_(self._initial(streams))
        self._mixed.copy_(self.x)
        if isinstance(self.strategy, Threads) and self.remembered is not None:
            self.strategy.remember(self.nodes)

    @torch.no_grad()
    def gradients(self, node: int, samples: Sequence[IntArray], points: Tensor) -> Tensor:
        """Gradients, `[n, m]`, that a node would take at points, `[n, m]`. samples: n times positions among its own."""
        chosen = [self.client_indices[node][positions] for positions in samples]
        batch = self._buffers[0].batch(chosen, self._divisor[node].repeat(len(chosen)))
        found, chunk = torch.empty_like(points), self.strategy.chunk
        with one_thread(self._small):
            for part in (slice(start, start + chunk) for start in range(0, len(points), chunk)):
                self.strategy.gradient(0, points[part], batch.part(part), found[part])
        return found

    @torch.no_grad()
    def round(self, given: RoundInput) -> RoundResult:
        """One slot: send, superpose, differentiate, step."""
        with one_thread(self._small):
            result = self._round(given)
        if not given.evaluate:
            return result
        evaluated = self._mixed if self.settings.evaluated == "mixed" else self.x
        if self._ahead is None:
            return replace(result, evaluation=self.accuracy(evaluated, whole=given.whole))
        alone = partial(self.accuracy, whole=given.whole, workers=Workers(1))
        return replace(result, evaluation=self._ahead.evaluate(alone, evaluated))

    def _round(self, given: RoundInput) -> RoundResult:
        update = given.update
        if update.withdraw.any():
            back = torch.as_tensor(update.withdraw.nonzero()[0], device=self.device)
            self.x.index_copy_(0, back, project_(self._mixed.index_select(0, back), self.radius))
        kept = None
        if update.keep.any():
            away = torch.as_tensor(update.keep.nonzero()[0], device=self.device)
            kept = [held.index_select(0, away) for held in (self.x, self._mixed)]
        hardened = self.settings.gradient_at == "mixed"
        sent_power = torch.linalg.vector_norm(self.x, dim=1).square_().div_(self.learner.size)
        mixed, self_interference_power, pass_power = self._on_air(given)
        if self._ahead is not None:
            self._ahead.expect(given.round + 1)
        if kept is not None:
            mixed.index_copy_(0, away, kept[1])
        step = -self._airing.column(update.step)
        stood = None
        if self.remembered is not None and not update.step.all():  # statistics stand still with the model
            still = torch.as_tensor((update.step == 0).nonzero()[0], device=self.device)
            stood = self.remembered.index_select(0, still)
        loss, grad_norm, nonfinite = (torch.empty_like(sent_power) for _ in range(3))

        def learn(worker: int, piece: int) -> None:
            nodes = self._piece(piece, self.strategy.chunk)
            part = slice(nodes.start, nodes.stop)
            batch = self._batch(worker, nodes, given.round)
            point, gradient = (mixed if hardened else self.x)[part], self._spare[part]
            loss[part], nonfinite[part] = self.strategy.gradient(worker, point, batch, gradient)
            torch.linalg.vector_norm(gradient, dim=1, out=grad_norm[part])
            project_(torch.addcmul(mixed[part], gradient, step[part], out=gradient), self.radius)

        self._gradients.each(-(-self.nodes // self.strategy.chunk), learn)
        self.x, self._spare = self._spare, self.x
        if kept is not None:
            self.x.index_copy_(0, away, kept[0])
        if stood is not None and self.remembered is not None:
            self.remembered.index_copy_(0, still, stood)
        evaluated = mixed if self.settings.evaluated == "mixed" else self.x
        return RoundResult(
            sent_power,
            self_interference_power,
            grad_norm,
            loss,
            nonfinite,
            consensus_distance(evaluated, self._spare),
            None,
            pass_power,
            None if self._objective is None else self._objective.excess(evaluated),
        )

    @property
    def air(self) -> Air:
        """What superposes payloads; an audit listens in its place."""
        return self._airing.air

    @air.setter
    def air(self, air: Air) -> None:
        self._airing.air = air

    @property
    def held(self) -> Tensor:
        """What each node held after the last slot and its passes, before its step, `[K, m]`; not a copy."""
        return self._mixed

    @property
    def remembered(self) -> Tensor | None:
        """What nodes' batch normalisation remembers, `[K, numbers]`, where it does."""
        return self.strategy.remembered if isinstance(self.strategy, Threads) else None

    def state(self) -> np.ndarray:
        """The models, `[K, m]`, and what nodes remember beside them; all else is keyed by node and round."""
        kept = self.x if self.remembered is None else torch.cat([self.x, self.remembered], dim=1)
        return kept.cpu().numpy().copy()

    def mixed(self) -> np.ndarray:
        """What each node held after the last slot, before its step, `[K, m]`."""
        return self._mixed.cpu().numpy().copy()

    def restore(self, models: np.ndarray, mixed: np.ndarray | None = None) -> None:
        """Go on from remembered models."""
        self.x.copy_(torch.as_tensor(models[:, : self.learner.size]))
        if self.remembered is not None:
            self.remembered.copy_(torch.as_tensor(models[:, self.learner.size :]))
        if mixed is not None:
            self._mixed.copy_(torch.as_tensor(mixed))

    def ready(self, stored: np.ndarray) -> Tensor:
        """Samples, as the data set stores them, as this learner takes them."""
        return self._store.ready(stored)

    @torch.no_grad()
    def accuracy(self, x: Tensor, *, whole: bool = True, workers: Workers | None = None) -> Tensor:
        """Share of the common test set each model gets right; of a regression, the share of variance explained.

        whole: of all test samples, not only those of an evaluation on the way.
        """
        right = torch.empty(len(x), dtype=self.dtype, device=self.device)
        features, labels = (self._store.test_x, self._store.test_y) if whole else self._tests
        chunk = self._evaluated()

        def evaluate(worker: int, piece: int) -> None:
            part = slice(piece * chunk, min((piece + 1) * chunk, len(x)))
            given = {"nodes": range(part.start, part.stop)} if self.remembered is not None else {}
            scores = self.strategy.scores(worker, x[part], features, **given)
            if self._regression:
                right[part] = 1.0 - (scores.squeeze(2) - labels).square().mean(dim=1) / labels.var(correction=0)
            else:
                right[part] = (scores.argmax(dim=2) == labels).to(self.dtype).mean(dim=1)

        (workers or self._gradients).each(-(-len(x) // chunk), evaluate)
        return right

    def need(self, nodes: int | None = None) -> Need:
        """Memory that the run takes, for this network or another size of it."""
        nodes = self.nodes if nodes is None else nodes
        size, width = self.learner.size, self.dtype.itemsize
        stored, tests = self._stored
        features = math.prod(self._shape) + 1
        strategy, batch = self.strategy, self.sampler.width
        at_once = min(nodes, strategy.chunk) * strategy.workers
        numbers = capability(self.learner, "activations") or sum(
            shape[0] for shape in capability(self.learner, "shapes") or [(self._classes,)]
        )
        module = isinstance(self.learner, ModuleLearner)
        evaluated = min(tests, 500) * numbers * strategy.workers if module else 0
        return Need(
            models=(4 if self.settings.passes else 3) * nodes * size * width,
            data=stored + tests * features * width,
            batches=at_once * batch * features * (width + 1),
            layers=at_once * (3 * batch * numbers + (2 * size if module else 0)) * width,
            evaluation=(min(nodes, self._evaluated()) * strategy.workers * tests * self._classes * 2 + evaluated)
            * width,
            mixing=self._mixing_need(nodes),
        )

    def _mixing_need(self, nodes: int) -> int:
        """Weights of a slot, as they come and as they are multiplied: all pairs, or links and where they are."""
        links = None if self.settings.links is None else math.ceil(self.settings.links / self.nodes * nodes)
        if links is None or not is_sparse(nodes, links):
            return 2 * nodes * nodes * 8
        return 2 * (links + nodes) * 16

    def _require_room(self) -> None:
        need, free = self.need(), available(self.device)
        if need.total > free:
            fits = most_nodes(self.need, self.nodes, free)
            remedy = f"{fits} nodes would fit" if fits else "use a smaller model or batch_size"
            raise ValueError(
                f"learning needs {need.formatted()}; {format_size(free)} are free on {self.device}: {remedy}"
            )

    @property
    def optimum(self) -> FloatArray | None:
        """Where all nodes' losses together are least, where that is known and wanted."""
        return None if self._objective is None else self._objective.optimum

    def _on_air(self, given: RoundInput) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """What every node holds after payload and passes; ||w||^2 / m and the passes' likewise, where they matter."""
        sent, power = self._airing.payload(given, self._draws, self.x, self._spare, self._mixed)
        if not given.passes:
            return self._mixed, power, None
        if sent is self.x:
            sent = self._spare.copy_(self.x)
        if self._third is None:
            self._third = torch.empty_like(self.x)
        y, self._spare, self._third, passed = self._airing.passes(
            given.passes, given.round, self._draws, sent, self._mixed, self._third
        )
        self._mixed = y
        return y, power, passed

    def _known_optimum(self) -> Objective:
        learner, store = self.learner, self._store
        if capability(learner, "objective") is None:
            raise ValueError(
                f"learning.regret is true; the optimum of {type(learner).__name__} is not known: use ridge or logistic"
            )
        features = Buffer(store).normalise(store.train_x)
        weight = torch.zeros(len(features), dtype=self.dtype, device=self.device)
        for client in self.client_indices:  # each node's mean counts alike
            weight[torch.as_tensor(client, device=self.device)] = 1.0 / len(client)
        with torch.no_grad():
            objective: Objective = learner.objective(features, store.train_y, weight, self.nodes)
        return objective

    def _batch(self, worker: int, nodes: range, round: int) -> Batch:
        draws = self._draws[worker]
        part = slice(nodes.start, nodes.stop)
        drawn = self.sampler.batches(draws, nodes, round)
        chosen = [self.client_indices[node][positions] for node, positions in zip(nodes, drawn)]
        batch = replace(self._buffers[worker].batch(chosen, self._divisor[part]), nodes=nodes)
        if self.settings.augment == "none":
            return batch
        width = batch.labels.shape[1]
        counted = zip(nodes, (len(samples) for samples in chosen))
        changes = Changes.joined([draws.changes(node, round, count).padded(width) for node, count in counted])
        images = apply_changes(batch.features.flatten(0, 1), changes)
        return replace(batch, features=images.view(batch.features.shape))

    def _piece(self, piece: int, size: int) -> range:
        return range(piece * size, min((piece + 1) * size, self.nodes))

    def _evaluated(self) -> int:
        """Nodes that are evaluated at once."""
        if self.strategy.name == "threads":
            return 1
        return max(1, _EVALUATED // (self._stored[1] * self._classes * 8))
