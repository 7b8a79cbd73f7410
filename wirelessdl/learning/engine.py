"""The learning engine: all nodes' models as one [K, m] tensor, one call per round.

The simulator hands over a `RoundInput`, what channel and plan decided for this frame; the engine
answers with a `RoundResult`, tensors that stay on the device until they are traced.

State is three such tensors: what each node holds after the slot, s; its gradient g since; and one that is in turn what
is sent and the next gradient. A model is x = Proj(s - step g), worked out in float64 when it is sent, a few nodes at a
time: until its noise is added, x is never rounded to less (`learning/clipping.py` says what that is for). Nodes are cut
into pieces that threads take (`Workers`); only the mixing looks at all of them. Nothing is allocated that grows with
rounds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.contract import Guard, capability
from wirelessdl.families import UpdateKind
from wirelessdl.learning.batch import Batch, Buffer, Store, apply_changes, draw_changes, require_range, sample_shape
from wirelessdl.learning.behaviour import UNCLIPPED, LearnerTrials, refuse_autocast, refuse_mixing
from wirelessdl.learning.byzantine import RunningAttack
from wirelessdl.learning.clipping import (
    Clipping,
    charged_share,
    clip_rows_,
    sensitivity,
    step_rounding,
    sum_rounding,
    wide,
)
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.exchange import Exchange
from wirelessdl.learning.gradients import GradientJob, choose
from wirelessdl.learning.gradients.batched import ClosedForm, UserGradients, unwritten
from wirelessdl.learning.gradients.threads import Threads
from wirelessdl.learning.gram import Gram
from wirelessdl.learning.models import is_built_in
from wirelessdl.learning.models.closed_form import known_objective
from wirelessdl.learning.models.module import ModuleLearner, name_of, require_fit
from wirelessdl.learning.records import RoundInput, RoundResult, Settings
from wirelessdl.learning.runtime import Need, Workers, memory_need, one_thread, pick_device, require_memory
from wirelessdl.learning.sampling import Sampler
from wirelessdl.learning.superposition import consensus_distance, project_
from wirelessdl.learning.updates.running import RunningUpdate, try_declaration
from wirelessdl.streams import Streams

_DTYPES = {"float32": torch.float32, "float64": torch.float64}
_MAX_SCORES = 2**25  # bytes of common samples' scores that are held at once
_MAX_KEPT = 2**27  # bytes of full batches that are kept from round to round
_MIN_NUMBERS = 2**19  # numbers in all models, below which waking a second thread costs more than it does


class LearningEngine:
    """State and update of K models. Raises ValueError, before it allocates, for what cannot be run."""

    def __init__(
        self, learner: Any, data: Dataset, client_indices: list[IntArray], streams: Streams, settings: Settings
    ):
        self.learner, self.data, self.settings, self.client_indices = learner, data, settings, client_indices
        self.nodes = len(client_indices)
        self.device = pick_device(settings.device)
        self.dtype = _DTYPES[settings.dtype]
        self.radius = settings.projection_radius * math.sqrt(learner.size)
        sizes = [len(client) for client in client_indices]
        self.sampler = Sampler(settings.sampling, settings.batch_size, sizes, fraction=settings.batch_fraction)
        require_fit(learner, data, settings.gradient_at == "own", settings.augment)
        require_range(data, settings.dtype)
        if isinstance(learner, ModuleLearner):
            learner.prepare(self.device, self.dtype)
        trials = None
        if not is_built_in(learner):
            trials = LearnerTrials(learner, data, self.sampler.width, self.device, self.dtype)
            trials.try_scores()
        refuse_mixing(learner, settings.clipping, settings.sampling == "poisson")
        if isinstance(learner, ModuleLearner):
            if settings.gradient_at == "own":  # the paper's protocol, whose proof asks for nothing here
                learner.keep_statistics()
            learner.prepare(self.device, self.dtype)
        regression = data.task == "regression"
        job = GradientJob(
            learner, settings.clipping, settings.clip_norm, self.device, self.dtype, regression, max(1, data.classes)
        )
        shape: dict[str, Any] = {"nodes": self.nodes, "batch": self.sampler.width, "input_shape": sample_shape(data)}
        self.strategy = choose(settings.strategy, job, **shape, threads=torch.get_num_threads())
        if self.sampler.uneven and not self.strategy.accepts_weights:
            key = f'sampling is "{settings.sampling}"'
            if settings.sampling not in ("poisson", "full"):
                key = f"batch_fraction is {settings.batch_fraction:g}"
            raise ValueError(
                f"learning.{key}; its batches are padded, and gradient(...) of {type(learner).__name__} takes no "
                'weight: add it, use "without-replacement" with batch_size, or per-sample clipping'
            )
        # a user's forward, which every strategy but `UserGradients` calls without a guard
        self._guards = not (is_built_in(learner) or isinstance(self.strategy, UserGradients))
        # batches that are the same in every round, and that nothing of the user's gets hold of
        full = settings.sampling == "full" and settings.augment == "none" and isinstance(self.strategy, ClosedForm)
        numbers = sum(sizes) * (data.features + 1)
        self.keeps_batches = full and numbers * self.dtype.itemsize <= _MAX_KEPT
        self._kept_batches: dict[range, Batch] = {}
        require_memory(self)
        if trials is not None:
            tried = choose(settings.strategy, replace(job, clip_norm=UNCLIPPED), **shape, threads=1)
            trials.try_gradients(tried, settings.clipping)
        if isinstance(self.strategy, Threads) and isinstance(learner, ModuleLearner) and learner.remembered > 0:
            self.strategy.remember(self.nodes)

        # a worker of its own buffer, generators and module: nothing is shared but the state
        self._small = self.device.type == "cpu" and self.nodes * learner.size < _MIN_NUMBERS
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
        self._tests = self._store.tests(settings.eval_samples, streams)
        self._divisor = self.sampler.divisor
        # what one sample moves a model per gamma mult: by one gradient, by a change clipped as a whole, or as declared
        name, update, kind = settings.update or ("sgd", None, "base")
        self.kind: UpdateKind = kind
        self.moves: float = capability(update, "moves") if kind == "step" else 1.0
        clipping: Clipping = "batch" if kind == "change" else settings.clipping
        self.sensitivity = self.moves * sensitivity(clipping, settings.clip_norm, self._divisor, settings.adjacency)
        self._penalty: float = capability(learner, "penalty") or 0.0
        # where x is computed: in float64, which not every accelerator has
        self._home = self.device if wide(self.device) == torch.float64 else torch.device("cpu")

        self._stored, self.gram = self._store.train_x, None
        if settings.gram:
            if not self._store.flat:
                raise ValueError(
                    f"privacy.gram_share needs samples that are rows of features; {data.name} has none: set "
                    "learning.features, or leave it at 0"
                )
            self.gram = Gram(self.nodes, data.features, learner.size, self.dtype)
        self._mixed = self._initial(streams)
        self._gradient, self._spare = torch.zeros_like(self._mixed), torch.zeros_like(self._mixed)
        self._step = torch.zeros(self.nodes, 1, dtype=torch.float64, device=self._home)
        self._third: Tensor | None = None  # where further steps need it
        self._streams = streams
        self._update = self._running_update()
        if self._update is not None and self._update.mixed and settings.passes:
            raise ValueError(
                f'learning.update is "{name}", whose {self._update.mixed} is mixed in one slot; leave out '
                'radio.mixing_passes and learning.closing_passes, and set radio.alignment = "all"'
            )
        if kind == "step":
            replaced = 1.0 if settings.clipping == "batch" else float(self._divisor.max())
            try_declaration(name, update, self.moves, learner.size, batch=replaced)
        # an audit listens in its place
        self.exchange = Exchange(self.nodes, learner.size, self.device, self.dtype, self._workers)
        self._set_attack(streams)
        self.exchange.robust, self.exchange.radius = settings.robust, settings.projection_radius
        self._objective = known_objective(learner, self._store, client_indices) if settings.regret else None

    def _set_attack(self, streams: Streams) -> None:
        """Attackers, at their first payload."""
        if self.settings.attackers is not None:
            self.exchange.attack = RunningAttack(self.settings.attackers, self.learner.size, streams)

    def _running_update(self) -> RunningUpdate | None:
        """None for plain SGD, which steps from what was received."""
        if self.settings.update is None:
            return None
        name, given, kind = self.settings.update
        return RunningUpdate(name, given, kind, self._mixed, self._streams, is_user_class=":" in name)

    def _initial(self, streams: Streams) -> Tensor:
        with Guard(f"learning.model: {name_of(self.learner)}.initial", is_user_class=not is_built_in(self.learner)):
            start = torch.as_tensor(self.learner.initial(streams.world("learning.initial")), dtype=self.dtype)
        # within the ball from the start: power is counted on it
        return project_(start.to(self.device).repeat(self.nodes, 1), self.radius)

    @property
    def x(self) -> Tensor:
        """The models, `[K, m]`, worked out anew in float64."""
        models = torch.empty(self._mixed.shape, dtype=torch.float64, device=self._home)
        for first in range(0, self.nodes, self.exchange.rows):
            part = slice(first, first + self.exchange.rows)
            models[part] = self._models(part)
        return models

    def stepped(self, held: Tensor, gradient: Tensor, step: Tensor | float) -> Tensor:
        """Proj(s - step (g + penalty s)) in float64, `[n, m]`. step: gamma * multiplier, of all or `[n, 1]`."""
        held, gradient, step = (
            torch.as_tensor(part, dtype=torch.float64, device=self._home) for part in (held, gradient, step)
        )
        if self.kind == "step":  # x = Proj(Proj(s) - step d): d, in the engine's numbers, is no longer than 2 R / step
            held = project_(held.clone(), self.radius)
        base = held * (1.0 - step * self._penalty) if self._penalty else held
        return project_(torch.addcmul(base, gradient, step, value=-1.0), self.radius)

    def _models(self, part: slice) -> Tensor:
        return self.stepped(self.base[part], self._gradient[part], self._step[part])

    @property
    def base(self) -> Tensor:
        """Where each node's step starts, `[K, m]`; not a copy."""
        return self._mixed if self._update is None or self._update.base is None else self._update.base

    @property
    def point(self) -> Tensor:
        """Where the one gradient is taken, `[K, m]`; not a copy."""
        return self._mixed if self._update is None or self._update.point is None else self._update.point

    @property
    def rounding(self) -> FloatArray:
        """What rounding before the noise adds to the sensitivity at most, `[K]`: see `learning/clipping.py`."""
        settings, sampler = self.settings, self.sampler
        most = sampler.batch_sizes if settings.sampling in ("without-replacement", "shuffled") else sampler.sizes
        summed = self.moves * sum_rounding(
            "batch" if self.kind == "change" else settings.clipping,
            settings.clip_norm,
            np.asarray(most, dtype=np.int64),
            self._divisor,
            dtype=self.dtype,
            device=self.device,
        )
        apart = step_rounding(self.radius, self.learner.size)
        if self.kind == "step":  # Proj(s) - Proj(x), up to 2 R, is kept in the engine's numbers
            apart += 4.0 * self.radius * torch.finfo(self.dtype).eps
        share = apart / settings.least_step / self.sensitivity.min()
        return np.asarray(summed + self.sensitivity.min() * charged_share(share))

    def zero_out(self, sample: int) -> None:
        """A training sample becomes a null record: it is drawn as before, and its gradient is zero."""
        if not self.strategy.accepts_weights:
            raise ValueError(f"gradient(...) of {type(self.learner).__name__} takes no weight, so no sample has none")
        self._store.null = sample

    def restart(self, streams: Streams) -> None:
        """Back to x_1, as an engine just built with these streams: other batches and noise, the same data."""
        self._draws = [NodeDraws(streams, self.nodes, self.device, self.settings.passes) for _ in self._draws]
        self.draws = self._draws[0]
        self.sampler.restart()
        if self.gram is not None:
            self.gram.restart()
            self._precondition()
        self._mixed.copy_(self._initial(streams))
        self._step.zero_()
        self._streams = streams
        self._update = self._running_update()
        self._set_attack(streams)
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
                with self._guard():
                    self.strategy.gradient(0, points[part], batch.part(part), found[part])
        return found

    @torch.no_grad()
    def round(self, given: RoundInput) -> RoundResult:
        """One slot: send, superpose, differentiate, step."""
        with one_thread(self._small):
            result = self._round(given)
        if not given.evaluate:
            return result
        return replace(result, accuracy=self.accuracy(self._evaluated_models(), whole=given.whole))

    def _round(self, given: RoundInput) -> RoundResult:
        update = given.update
        if update.withdraw.any():
            self._step[torch.from_numpy(update.withdraw)] = 0.0
        kept = None
        if update.keep.any():
            away = torch.as_tensor(update.keep.nonzero()[0], device=self.device)
            kept = [held.index_select(0, away) for held in (self._gradient, self._mixed)]
        hardened = self.settings.gradient_at == "mixed"
        sent_power = torch.empty(self.nodes, dtype=self.dtype, device=self.device)

        start = None if given.gram is None else self._mixed.clone()

        def model(part: slice) -> Tensor:
            x = self._models(part) if given.gram is None else self.triangles(given, part)
            sent_power[part] = torch.linalg.vector_norm(x, dim=1).square_().div_(self.learner.size)
            if not hardened:  # the next gradient is taken there; the last one is in x now
                self._gradient[part] = x
            return x

        mixed, self_interference_power, held_power, attack_square = self._on_air(given, model)
        radiated = noise = None
        if given.announced:
            radiated, noise = self.exchange.announced_steps(
                given.announced, given.round, self.draws, mixed, given.attack, given.noise_scale
            )
        if start is not None and self.gram is not None:  # models stay where they begin
            self.gram.take(given.round, mixed, update.keep)
            mixed.copy_(start)
            if given.round == self.gram.frames:
                self._precondition()
        if kept is not None:
            mixed.index_copy_(0, away, kept[1])
        point_of_all = mixed if hardened else self._gradient
        if self._update is not None and self.kind == "base":
            weights = given.segments[0].weights if self._update.mixed else None
            point_of_all = self._update.apply(mixed, None if kept is None else away, given.round, weights)
        stood = None
        if self.remembered is not None and not update.step.all():  # statistics stand still with the model
            still = torch.as_tensor((update.step == 0).nonzero()[0], device=self.device)
            stood = self.remembered.index_select(0, still)
        loss, grad_norm, nonfinite = (torch.empty_like(sent_power) for _ in range(3))

        def learn(worker: int, piece: int) -> None:
            nodes = self._piece(piece, self.strategy.chunk)
            part = slice(nodes.start, nodes.stop)
            loss[part], nonfinite[part] = self._take(worker, nodes, given.round, point_of_all[part], self._spare[part])
            torch.linalg.vector_norm(self._spare[part], dim=1, out=grad_norm[part])

        if given.round < self.frames_of_stage:  # training has not begun
            self._spare.zero_(), loss.fill_(torch.nan), grad_norm.zero_(), nonfinite.zero_()
        elif self._update is None or self.kind == "base":
            self._gradients.each(self.gradient_calls, learn)
        else:
            self._direct(self._update, given, None if kept is None else away, loss, nonfinite)
            torch.linalg.vector_norm(self._spare, dim=1, out=grad_norm)
        self._gradient, self._spare = self._spare, self._gradient
        if kept is not None:
            self._gradient.index_copy_(0, away, kept[0])
        stays = torch.from_numpy(update.keep).unsqueeze(1).to(self._home)
        self._step = torch.where(stays, self._step, torch.from_numpy(update.step).unsqueeze(1).to(self._home))
        if stood is not None and self.remembered is not None:
            self.remembered.index_copy_(0, still, stood)
        evaluated = self._evaluated_models()
        return RoundResult(
            sent_power,
            self_interference_power,
            grad_norm,
            loss,
            nonfinite,
            consensus_distance(evaluated, self._spare),
            held_power,
            None if self._objective is None else self._objective.excess(evaluated),
            radiated,
            noise,
            attack_square,
        )

    def _take(
        self, worker: int, nodes: range, round: int, point: Tensor, out: Tensor, call: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Clipped gradients of some nodes at points, into `out[k, m]`; losses, and how many counted as zero, `[k]`."""
        batch = self._batch(worker, nodes, round, call)
        with self._guard():
            found = self.strategy.gradient(worker, point, batch, out)
        refuse_autocast(self.learner, self.device)
        return found

    def _direct(
        self, update: RunningUpdate, given: RoundInput, away: Tensor | None, loss: Tensor, nonfinite: Tensor
    ) -> None:
        """Directions d of nodes that use gradients as they like, `[K, m]`, in place of gradients: x = Proj(s - step d).

        change   d = -clip_C(change)
        step     d = (Proj(s) - Proj(x)) / step; 0 where no step is taken
        """
        nonfinite.zero_()

        def take(points: Tensor, nodes: range, call: int) -> Tensor:
            out, first, chunk = torch.empty_like(points), nodes.start, self.strategy.chunk

            def learn(worker: int, piece: int) -> None:
                some = range(first + piece * chunk, min(first + (piece + 1) * chunk, nodes.stop))
                part, mine = slice(some.start, some.stop), slice(some.start - first, some.stop - first)
                found = self._take(worker, some, given.round, points[mine], out[mine], call)
                loss[part] = loss[part] if call else found[0]
                nonfinite[part] += found[1]

            self._gradients.each(-(-len(nodes) // chunk), learn)
            return out

        held = self._mixed
        step = torch.from_numpy(given.update.step).unsqueeze(1).to(self._home)
        answer = update.answer(held, away, given.round, take, step.to(held))
        if self.kind == "change":
            torch.neg(answer, out=self._spare)
            nonfinite += clip_rows_(self._spare, self.settings.clip_norm)
            return
        start, end = (project_(models.to(step, copy=True), self.radius) for models in (held, answer))
        moved = start * (1.0 - step * self._penalty) - end
        self._spare.copy_(torch.where(step > 0, moved / step, 0.0))

    def triangles(self, given: RoundInput, part: slice) -> Tensor:
        """What nodes send of their triangles in a frame of the Gram stage, without noise, `[n, m]` in float64."""
        assert self.gram is not None
        assert given.gram is not None
        rows = self.gram.sent(given.round, part, self._stored, self.client_indices, self._store.null)
        return rows.mul_(torch.from_numpy(given.gram[part]).unsqueeze(1)).to(self._home)

    @property
    def frames_of_stage(self) -> int:
        """Rounds of the Gram stage; 0 without one."""
        return 0 if self.gram is None else self.gram.frames

    def adopt_gram(self, other: "LearningEngine") -> None:
        """Go on in the coordinates that another engine's Gram stage gave."""
        if self.gram is not None and other.gram is not None and other is not self:
            self.gram.adopt(other.gram)
            self._precondition()

    def _precondition(self) -> None:
        """Every node's samples as they are after the Gram stage; as they were stored, before."""
        assert self.gram is not None
        rows = self._stored
        if self.gram.matrices:
            rows = rows.clone()
            for node, client in enumerate(self.client_indices):
                place = torch.from_numpy(client).to(rows.device)
                rows[place] = self.gram.rows(node, rows[place])
        self._store.replace_rows(rows)
        self._kept_batches.clear()

    def _evaluated_models(self) -> Tensor:
        """What accuracy is of, `[K, m]`."""
        if self._update is not None and self._update.shows_point:
            return self.point
        return self._mixed if self.settings.evaluated == "mixed" else self.x.to(self._mixed)

    @property
    def held(self) -> Tensor:
        """What each node held after the last slot and its passes, before its step, `[K, m]`; not a copy."""
        return self._mixed

    @property
    def remembered(self) -> Tensor | None:
        """What nodes' batch normalisation remembers, `[K, numbers]`, where it does."""
        return self.strategy.remembered if isinstance(self.strategy, Threads) else None

    def state(self) -> dict[str, np.ndarray]:
        """All that the models follow from, and what nodes remember beside them; all else is keyed by node and round."""
        found = {"gradient": self._gradient, "mixed": self._mixed, "step": self._step}
        if self.remembered is not None:
            found["remembered"] = self.remembered
        kept = {name: values.cpu().numpy().copy() for name, values in found.items()}
        if self.exchange.attack is not None:
            kept |= {
                "attack_first": self.exchange.attack.first.copy(),
                "attack_began": self.exchange.attack.began.copy(),
            }
        if self.gram is not None:
            kept |= {"gram_heard": self.gram.heard.numpy().copy(), "gram_got": self.gram.got.copy()}
            kept["gram_done"] = np.array([len(self.gram.matrices) > 0])
        return kept if self._update is None else kept | self._update.kept()

    def mixed(self) -> np.ndarray:
        """What each node held after the last slot, before its step, `[K, m]`."""
        return self.held.cpu().numpy().copy()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from what `state` returned."""
        for name, values in (("gradient", self._gradient), ("mixed", self._mixed), ("step", self._step)):
            values.copy_(torch.as_tensor(state[name]))
        if self.remembered is not None:
            self.remembered.copy_(torch.as_tensor(state["remembered"]))
        if self._update is not None:
            self._update.restore(state)
        if self.exchange.attack is not None:
            self.exchange.attack.first[:] = state["attack_first"]
            self.exchange.attack.began[:] = state["attack_began"]
        if self.gram is not None:
            self.gram.heard.copy_(torch.as_tensor(state["gram_heard"]))
            self.gram.got[:] = state["gram_got"]
            if state["gram_done"][0]:
                self.gram.finish()
            self._precondition()

    def ready(self, stored: np.ndarray) -> Tensor:
        """Samples, as the data set stores them, as this learner takes them."""
        return self._store.ready(stored)

    @torch.no_grad()
    def scores(self, worker: int, x: Tensor, features: Tensor, **given: range) -> Tensor:
        """Scores of samples by models, `[k, N, classes]`; given: numbers of the nodes, where they remember."""
        guard = self._guard()
        with unwritten(guard.name, x), guard:
            found = self.strategy.scores(worker, x, features, **given)
        refuse_autocast(self.learner, self.device)
        return found

    def _guard(self) -> Guard:
        """Around a call of the strategy; one for each, since two threads may call at the same time."""
        return Guard(f"learning.model: {name_of(self.learner)}.forward", is_user_class=self._guards)

    @torch.no_grad()
    def accuracy(self, x: Tensor, *, whole: bool = True) -> Tensor:
        """Share of the common test set each model gets right; of a regression, the share of variance explained.

        whole: of all test samples, not only those of an evaluation on the way.
        """
        right = torch.empty(len(x), dtype=self.dtype, device=self.device)
        features, labels = (self._store.test_x, self._store.test_y) if whole else self._tests
        chunk = self.evaluated_at_once

        def evaluate(worker: int, piece: int) -> None:
            part = slice(piece * chunk, min((piece + 1) * chunk, len(x)))
            given = {"nodes": range(part.start, part.stop)} if self.remembered is not None else {}
            rows = features
            if self.gram is not None and self.gram.matrices:  # one node at a time: each in its own coordinates
                rows = features.clone()
                rows[:, : self.gram.features] = self.gram.rows(part.start, features[:, : self.gram.features])
            scores = self.scores(worker, x[part].to(right), rows, **given)
            if self.data.task == "regression":
                right[part] = 1.0 - (scores.squeeze(2) - labels).square().mean(dim=1) / labels.var(correction=0)
            else:
                right[part] = share_right(scores, labels)

        self._gradients.each(-(-len(x) // chunk), evaluate)
        return right

    def close(self) -> None:
        """End the threads, until they are needed again."""
        self._workers.close()
        self._gradients.close()

    def need(self) -> Need:
        """Memory that the run takes."""
        return memory_need(self, self.nodes)

    @property
    def optimum(self) -> FloatArray | None:
        """Where all nodes' losses together are least, where that is known and wanted."""
        return None if self._objective is None else self._objective.optimum

    def _on_air(
        self, given: RoundInput, model: Callable[[slice], Tensor]
    ) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
        """What every node holds after all steps; ||w||^2 / m, that of what was held and sent, and that of attackers,
        where they matter.
        """
        power, attacks = self.exchange.payload(given, self._draws, model, self._spare, self._mixed), None
        if given.attack is not None and not given.announced:
            rows = torch.as_tensor(given.attack.nodes, device=self.device)
            squares = (
                torch.linalg.vector_norm(self._spare.index_select(0, rows), dim=1).square_().div_(self.learner.size)
            )
            attacks = self._spare.new_full((self.nodes,), torch.nan).index_copy_(0, rows, squares)
        if len(given.steps) == 1 and given.steps[0].plain:
            return self._mixed, power, None, attacks
        if self._third is None:
            self._third = torch.empty_like(self._mixed)
        y, self._spare, self._third, passed = self.exchange.held_steps(
            given.steps, given.round, self._draws, self._spare, self._mixed, self._third, given.attack
        )
        self._mixed = y
        return y, power, passed, attacks

    def _batch(self, worker: int, nodes: range, round: int, call: int = 0) -> Batch:
        if nodes in self._kept_batches:
            return self._kept_batches[nodes]
        draws = self._draws[worker]
        draws.call = call
        part = slice(nodes.start, nodes.stop)
        drawn = self.sampler.batches(draws, nodes, round)
        chosen = [self.client_indices[node][positions] for node, positions in zip(nodes, drawn)]
        buffer = Buffer(self._store) if self.keeps_batches else self._buffers[worker]
        batch = replace(buffer.batch(chosen, self._divisor[part]), nodes=nodes)
        if self.keeps_batches:
            self._kept_batches[nodes] = batch
        if self.settings.augment == "none":
            return batch
        changes = draw_changes(draws.of_samples(nodes, round, batch.labels.shape[1]))
        images = apply_changes(batch.features.flatten(0, 1), changes)
        return replace(batch, features=images.view(batch.features.shape))

    def _piece(self, piece: int, size: int) -> range:
        return range(piece * size, min((piece + 1) * size, self.nodes))

    @property
    def gradient_calls(self) -> int:
        """Calls of the strategy in a round; all else takes as many operations for many nodes as for few."""
        return -(-self.nodes // self.strategy.chunk)

    @property
    def evaluated_at_once(self) -> int:
        """Nodes that are evaluated at once."""
        if self.strategy.name == "threads" or self.settings.gram:
            return 1
        return max(1, _MAX_SCORES // (len(self.data.test_y) * max(1, self.data.classes) * 8))


def share_right(scores: Tensor, labels: Tensor) -> Tensor:
    """Share of samples whose first largest score is that of their label, `[k]`; scores `[k, samples, classes]`."""
    top = scores.amax(dim=2)
    # an accelerator is not asked, it would wait; else ties, or scores that are no numbers
    if scores.device.type != "cpu" or int(torch.count_nonzero(scores == top.unsqueeze(2))) != top.numel():
        return (scores.argmax(dim=2) == labels).to(scores.dtype).mean(dim=1)
    of_label = scores.gather(2, labels.view(1, -1, 1).expand(len(scores), -1, 1)).squeeze(2)
    return (of_label == top).to(scores.dtype).mean(dim=1)  # argmax takes forty times as long as amax
