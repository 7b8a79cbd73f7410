"""How a user's model behaves, tried before the run: what epsilon assumes of it, and its author may have overlooked.

    same samples, same scores     it draws no random numbers and remembers nothing from one call to the next
    buffers stay as they are      a node's only memory is its weight vector
    a sample's score is its own   where others of the batch enter it, clipping every sample alone bounds nothing

Samples are those of the common test set, then some of them replaced, also by very large ones. A trial finds what was
overlooked, not what was hidden: a model that changes its behaviour in the hundredth round passes. Built-in models are
not tried, tests do that.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import FloatArray
from wirelessdl.contract import Guard, capability
from wirelessdl.learning.batch import sample_shape
from wirelessdl.learning.clipping import Clipping
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.gradients.strategy import layers
from wirelessdl.learning.models import MODELS
from wirelessdl.learning.models.module import ModuleLearner

_SAMPLES = 64  # that are tried together at most
_LARGE = 1e3  # deviation of a replaced sample; inputs are normalised
_SPREAD = 0.05  # deviation of what is added to initial weights: a last layer of zeros would hide everything
_TOLERANCE = 1e-5  # of scores and gradients, relative; the same shapes give the same sums


def is_built_in(learner: Any) -> bool:
    """Whether a learner is one of wirelessdl's own, exactly: a subclass may have changed anything."""
    return type(learner.module if isinstance(learner, ModuleLearner) else learner) in MODELS.values()


def name_of(learner: Any) -> str:
    """What messages call a learner."""
    return learner.name if isinstance(learner, ModuleLearner) else type(learner).__name__


class Trials:
    """Samples and weights to try a learner with. Raises ContractError where the user's code does not run."""

    def __init__(self, learner: Any, data: Dataset, batch: int, device: torch.device, dtype: torch.dtype):
        self._learner, self._name = learner, name_of(learner)
        self._random = np.random.default_rng(0)
        self._device, self._dtype = device, dtype
        count = min(max(batch, 3), _SAMPLES)
        place = np.arange(2 * count) % len(data.test_y)
        shown = data.normalised(data.test_x[place]).reshape(2 * count, *sample_shape(data))
        samples = self._tensor(shown)
        self.samples, self.others = samples[:count], samples[count:]

    def weights(self, count: int) -> Tensor:
        """Weight vectors near the initial one, `[count, m]`."""
        with Guard(f"learning.model: {self._name}.initial"):
            start = np.asarray(self._learner.initial(np.random.default_rng(0)), dtype=np.float64)
        return self._tensor(start + _SPREAD * self._random.standard_normal((count, len(start))))

    def large(self, like: Tensor) -> Tensor:
        """Samples that are far from all others."""
        return self._tensor(_LARGE * self._random.standard_normal(like.shape))

    def _tensor(self, values: FloatArray) -> Tensor:
        return torch.as_tensor(values).to(device=self._device, dtype=self._dtype)

    def sees_batch(self) -> bool:
        """Whether a sample's score depends on the other samples. Raises ValueError where it depends on more."""
        parameters = [part[0] for part in layers(self._learner, self.weights(1))]

        @torch.no_grad()
        def scores(samples: Tensor) -> Tensor:
            found: Tensor = self._learner.forward(parameters, samples)
            return found.detach().clone()

        module = self._learner.module if isinstance(self._learner, ModuleLearner) else None
        buffers = {} if module is None else {name: part.clone() for name, part in module.named_buffers()}
        with Guard(f"learning.model: {self._name}.forward"):
            first = scores(self.samples)
            scores(self.others)
            again = scores(self.samples)
        for name, part in {} if module is None else dict(module.named_buffers()).items():
            if name not in buffers or part.shape != buffers[name].shape or moved(part, buffers[name]):
                raise ValueError(
                    f'learning.model is {self._name}, whose buffer "{name}" changes in forward(); it would carry data '
                    "between nodes and rounds, which no epsilon counts: make it a constant, or leave it out"
                )
        if moved(again, first):
            raise ValueError(
                f"learning.model is {self._name}, whose scores of the same samples differ from call to call; it draws "
                "random numbers, such as dropout, or remembers: leave that out"
            )
        return any(self._spreads(scores, first, place) for place in {0, len(first) // 2, len(first) - 1})

    def _spreads(self, scores: Callable[[Tensor], Tensor], first: Tensor, place: int) -> bool:
        """Whether another sample at one place moves the scores of the rest."""
        rest = torch.arange(len(first), device=first.device) != place
        for replaced in (self.others[place], self.large(self.samples[place])):
            samples = self.samples.clone()
            samples[place] = replaced
            try:
                found = scores(samples)
            except (RuntimeError, IndexError, ValueError):  # a model may not take just any numbers
                continue
            if moved(found[rest], first[rest]):
                return True
        return False


def moved(found: Tensor, before: Tensor) -> bool:
    """Whether values differ by more than rounding; what is no number in both is alike."""
    if found.shape != before.shape:
        return True
    finite = before[torch.isfinite(before)].double().abs()
    size = float(finite.max()) if finite.numel() else 0.0
    return not torch.allclose(found.double(), before.double(), rtol=0.0, atol=_TOLERANCE * size, equal_nan=True)


def refuse_mixing(learner: Any, clipping: Clipping, padded: bool, fewest: int) -> None:
    """Raise ValueError where samples of a batch see each other and the settings do not allow it.

    padded: whether batches may be empty; fewest: samples of the smallest batch.
    """
    layer = capability(learner, "batch_norm")
    if layer is None:
        return
    how = f'whose layer "{layer}" normalises over the batch'
    if isinstance(learner, ModuleLearner) and learner.sees_batch:
        how = "whose score of a sample changes with the other samples of its batch"
    given = f"learning.model is {name_of(learner)}, {how};"
    if clipping == "per-sample":
        raise ValueError(
            f'{given} per-sample clipping bounds each sample alone: use GroupNorm, or privacy.clipping = "batch"'
        )
    if padded:
        raise ValueError(
            f'{given} poisson batches may be empty: use GroupNorm, or learning.sampling = "without-replacement"'
        )
    if fewest == 1 and isinstance(learner, ModuleLearner) and not learner.takes_one():
        raise ValueError(
            f"{given} a node has batches of one sample, which has no variance: use GroupNorm, a larger batch_size, or "
            "a more even partition"
        )
