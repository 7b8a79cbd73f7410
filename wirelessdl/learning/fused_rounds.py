"""Which rounds can go in the few calls of `fused.py`, and the calls."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import IntArray
from wirelessdl.learning import fused
from wirelessdl.learning.airing import Airing
from wirelessdl.learning.batch import Store
from wirelessdl.learning.clipping import LARGEST
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.models.closed_form import Softmax
from wirelessdl.learning.pair_noise import GroupNoise
from wirelessdl.learning.pipeline import Pipeline
from wirelessdl.learning.records import RoundInput, RoundValues, Settings
from wirelessdl.learning.sampling import Sampler
from wirelessdl.learning.superposition import Air

_SHARED = 2**19  # weights of all models from which two threads share a round: below, a round is one call
_WARM_UP = 3  # rounds that go call by call: preparing the few calls takes as long as several rounds


def can_be_fused(learner: Any, store: Store, sampler: Sampler, settings: Settings) -> bool:
    """Whether rounds of a run can go in a few calls, as far as its settings say."""
    return (
        type(learner) is Softmax
        and store.one_scale
        and not sampler.uneven
        and settings.augment == "none"
        and not settings.passes
        and not settings.regret
    )


class FusedRounds:
    """Rounds of K softmax models in a few calls. chunk: nodes whose batches are gathered at once, at most."""

    def __init__(
        self,
        store: Store,
        sampler: Sampler,
        settings: Settings,
        airing: Airing,
        pipeline: Pipeline,
        *,
        radius: float,
        chunk: int,
    ):
        self._store, self._settings, self._airing, self._pipeline = store, settings, airing, pipeline
        self._radius, self._left = radius, _WARM_UP
        self._nodes = range(airing.nodes)
        self._alone = airing.nodes * airing.size <= _SHARED
        self._piece = min(chunk, -(-airing.nodes // 2))  # a half at most: two threads may share a round
        count = self._piece * sampler.width
        self._raw = [store.train_x.new_empty(count, store.width) for _ in range(2)]
        self._rows = [torch.ones(count, store.width + 1, dtype=store.dtype) for _ in range(2)]
        self._rng = torch.Generator()
        self._nothing = torch.empty(0, dtype=store.dtype)
        self._empty = torch.empty(0, dtype=torch.int64)
        self._norms = self._nothing if store.norms is None else store.norms

    def take(self, given: RoundInput) -> bool:
        """Whether this round goes in a few calls."""
        if self._left:
            self._left -= 1
            return False
        pairs = given.pairs
        return (
            fused.scripted() is not None
            and type(self._airing.air) is Air
            and not given.update.withdraw.any()
            and not given.passes
            and given.messages is None
            and (pairs is None or (pairs.group is not None and GroupNoise.is_dense(pairs.group)))
            and not any(
                segment.offsets is not None or segment.crosstalk is not None or segment.self_interference_scale.any()
                for segment in given.segments
            )
        )

    def wanted(self, given: RoundInput) -> tuple[str, ...]:
        """What the round takes noise for."""
        heard = any(segment.receiver_noise for segment in given.segments)
        return (("noise",) if given.noise_scale.any() else ()) + (("thermal",) if heard else ())

    def call(
        self, given: RoundInput, draws: NodeDraws, samples: Sequence[IntArray], x: Tensor, spare: Tensor, mixed: Tensor
    ) -> Callable[[], RoundValues]:
        """The round, to be called in any thread: the next x into `spare`, what is held into `mixed`."""
        scripted, store, settings, airing = fused.scripted(), self._store, self._settings, self._airing
        assert scripted is not None
        wanted, pairs, update, round = self.wanted(given), given.pairs, given.update, given.round
        group: list[Tensor] = []
        if pairs is not None and pairs.group is not None and "noise" in wanted:
            made = GroupNoise.make(pairs.own, pairs.pair, pairs.group, pairs.on_air, device=x.device, dtype=store.dtype)
            group = [made.deviation, made.onto, made.back]
        seeds = {purpose: draws.seeds(round, purpose, self._nodes) for purpose in wanted}
        scale, step = airing.column(given.noise_scale), -airing.column(update.step)
        deviation = airing.tensor(np.stack([segment.thermal_scale for segment in given.segments], axis=1))
        edges = [0, *(segment.coordinates.stop for segment in given.segments)]
        weights = [airing.air.weights(number, segment) for number, segment in enumerate(given.segments)]
        place = torch.from_numpy(np.stack(samples))
        away = torch.from_numpy(update.keep.nonzero()[0]) if update.keep.any() else self._empty
        point = mixed if settings.gradient_at == "mixed" else x
        results = x.new_empty(3, len(x))

        noisy, heard = "noise" in wanted, "thermal" in wanted
        steps = (  # of `_learn`, which two threads may call at once
            (point, mixed, spare, results, place, store.train_x, store.train_y, self._norms),
            (
                *store.scale,
                settings.clipping == "per-sample",
                settings.clip_norm,
                LARGEST[store.dtype],
                self._radius,
                step,
            ),
        )

        def learn(thread: int, piece: int) -> None:
            first, last = piece * self._piece, min((piece + 1) * self._piece, len(x))
            with torch.no_grad():
                scripted["_learn"](first, last, *steps[0], self._raw[thread], self._rows[thread], *steps[1])

        def work() -> RoundValues:
            drawn = {purpose: self._pipeline.normal(round, purpose) for purpose in wanted}
            noise, thermal = (
                self._nothing if (found := drawn.get(purpose)) is None else found for purpose in ("noise", "thermal")
            )
            air = (
                *(x, spare, mixed, self._rng, noisy, noise, seeds.get("noise", []), scale, group),
                *(heard, thermal, seeds.get("thermal", []), deviation, edges, weights, away),
            )
            evaluates_mixed = settings.evaluated == "mixed"
            with torch.no_grad():
                if self._alone:
                    learning = (*steps[0][:1], *steps[0][3:], self._raw[0], self._rows[0], *steps[1])
                    sent_power, apart = scripted["_round"](self._piece, *air, *learning, evaluates_mixed)
                else:
                    sent_power = scripted["_air"](*air)
                    self._pipeline.share(-(-len(x) // self._piece), learn)
                    apart = scripted["_end"](x, spare, mixed, away, evaluates_mixed)
            for found in drawn.values():
                if found is not None:
                    self._pipeline.give_back(found)
            grad_norm, loss, nonfinite = results.unbind()
            return RoundValues(sent_power, None, grad_norm, loss, nonfinite, apart)

        return work

    def accuracy(self, models: Tensor, classes: int, tests: tuple[Tensor, Tensor], chunk: int) -> Callable[[], Tensor]:
        """Share of test samples that each model gets right, to be called before the next round."""
        scripted = fused.scripted()
        assert scripted is not None

        right = torch.empty(len(models), dtype=models.dtype)
        piece = max(1, min(chunk, -(-len(models) // 4)))

        def evaluate(_: int, number: int) -> None:
            some = slice(number * piece, (number + 1) * piece)
            with torch.no_grad():
                right[some] = scripted["_accuracy"](models[some], *tests, classes)

        def work() -> Tensor:
            self._pipeline.share(-(-len(models) // piece), evaluate)
            return right

        return work
