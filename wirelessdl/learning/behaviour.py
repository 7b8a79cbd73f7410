"""Trials of a user's model before the run: epsilon assumes things of it that its author may have overlooked.

    what it is given stays        models and test samples are the simulator's, and later rounds use them
    same samples, same scores     it draws no random numbers and remembers nothing from one call to the next
    buffers stay as they are      a node's only memory is its weight vector
    a sample's score is its own   where others of the batch enter it, clipping every sample alone bounds nothing
    gradients are autograd's      where layers are differentiated by book-keeping (`learning/gradients/threads.py`)
    so is its gradient            also where the score is not, but what flows back is, or a class differentiates itself;
                                  under batch clipping the same of whole nodes

Samples are those of the common test set, then some of them replaced, also by very large ones. A trial finds what was
overlooked, not what was hidden: a model that changes its behaviour in the hundredth round passes. Built-in models are
not tried, tests do that.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import FloatArray
from wirelessdl.contract import Guard, capability
from wirelessdl.errors import ContractError
from wirelessdl.learning.batch import Batch, sample_shape
from wirelessdl.learning.clipping import Clipping
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.gradients.batched import WRITES, Strategy, UserGradients, asked_scores, sample_losses
from wirelessdl.learning.gradients.threads import Ghost, Threads
from wirelessdl.learning.models import layers
from wirelessdl.learning.models.module import ModuleLearner, name_of

_MAX_TRIED_SAMPLES = 16  # that are tried together at most
_REPLACED_DEVIATION = 1e3  # deviation of a replaced sample; inputs are normalised
_WEIGHT_DEVIATION = 0.05  # deviation of what is added to initial weights: a last layer of zeros would hide everything
UNCLIPPED = 1e9  # clip norm of a trial, in which nothing may hide a change
_SAMPLES_PER_NODE = 3  # samples of a node in a trial of gradients
_TOLERANCE = 1e-5  # of scores and gradients, relative; the same shapes give the same sums


class LearnerTrials:
    """Samples and weights to try a learner with. Raises ContractError where the user's code does not run."""

    def __init__(self, learner: Any, data: Dataset, batch: int, device: torch.device, dtype: torch.dtype):
        self._learner, self._name = learner, name_of(learner)
        self._random = np.random.default_rng(0)
        self._device, self._dtype = device, dtype
        count = min(max(batch, 3), _MAX_TRIED_SAMPLES)
        place = np.arange(2 * count) % len(data.test_y)
        shown = data.normalised(data.test_x[place]).reshape(2 * count, *sample_shape(data))
        samples = self._tensor(shown)
        self._sample_ndim = samples.ndim - 1
        self.samples, self.others = samples[:count], samples[count:]
        self._labels = torch.as_tensor(data.test_y[place[: 2 * _SAMPLES_PER_NODE]]).to(device)
        self._outputs = max(1, data.classes)
        self._classes = data.classes if data.task == "classification" else None

    def weights(self, count: int) -> Tensor:
        """Weight vectors near the initial one, `[count, m]`."""
        with Guard(f"learning.model: {self._name}.initial"):
            start = np.asarray(self._learner.initial(np.random.default_rng(0)), dtype=np.float64)
        return self._tensor(start + _WEIGHT_DEVIATION * self._random.standard_normal((count, len(start))))

    def large(self, like: Tensor) -> Tensor:
        """Samples that are far from all others."""
        return self._tensor(_REPLACED_DEVIATION * self._random.standard_normal(like.shape))

    def _tensor(self, values: FloatArray) -> Tensor:
        return torch.as_tensor(values).to(device=self._device, dtype=self._dtype)

    def try_scores(self) -> None:
        """Find out whether a module's score of a sample depends on others. Raises ValueError where on more.

        Scores of a class with a gradient of its own enter no gradient: that they have the right shape is enough.
        """
        if isinstance(self._learner, ModuleLearner):
            self._learner.sees_batch = self._sees_batch() and self._learner.batch_norm is None
        elif capability(self._learner, "gradient") is not None:
            with torch.no_grad():
                asked_scores(self._learner, self.weights(2), self._shown(self.samples), self._outputs)

    def _shown(self, features: Tensor) -> Tensor:
        """Samples `[..., samples, *shape]` as the learner takes them."""
        if not capability(self._learner, "bias_column"):
            return features
        flat = features.flatten(features.ndim - self._sample_ndim)
        return torch.cat([flat, torch.ones_like(flat[..., :1])], dim=-1)

    def _unlike(self, what: str) -> str:
        return (
            f"learning.model is {self._name}, whose {what} of the same samples differ from call to call; it draws "
            "random numbers, such as dropout, or remembers: leave that out"
        )

    def _sees_batch(self) -> bool:
        x = self.weights(1)
        parameters, before = [part[0] for part in layers(self._learner, x)], x.clone()

        @torch.no_grad()
        def scores(samples: Tensor) -> Tensor:
            found: Tensor = self._learner.forward(parameters, samples)
            return found.detach().clone()

        buffers = {name: part.clone() for name, part in self._learner.module.named_buffers()}
        with Guard(f"learning.model: {self._name}.forward"):
            first = scores(self.samples)
            scores(self.others)
            again = scores(self.samples)
        for name, part in self._learner.module.named_buffers():
            if name not in buffers or part.shape != buffers[name].shape or moved(part, buffers[name]):
                raise ValueError(
                    f'learning.model is {self._name}, whose buffer "{name}" changes in forward(); it would carry data '
                    "between nodes and rounds, which no epsilon counts: make it a constant, or leave it out"
                )
        if moved(again, first):
            raise ValueError(self._unlike("scores"))
        if not torch.equal(x, before):
            raise ContractError(f"learning.model: {self._name}.forward {WRITES}")
        return any(self._spreads(scores, first, place) for place in {0, len(first) // 2, len(first) - 1})

    def _spreads(self, scores: Callable[[Tensor], Tensor], first: Tensor, place: int) -> bool:
        """Whether another sample at one place moves the scores of the rest."""
        rest = torch.arange(len(first), device=first.device) != place
        for replaced in (self.others[place], self.large(self.samples[place])):
            samples = self.samples.clone()
            samples[place] = replaced
            try:
                with Guard(f"learning.model: {self._name}.forward"):
                    found = scores(samples)
            except ContractError:  # a model may not take just any numbers
                continue
            if moved(found[rest], first[rest]):
                return True
        return False

    def try_gradients(self, strategy: Strategy, clipping: Clipping) -> None:
        """Raise ValueError where gradients are wrong, differ from call to call, or hold samples that they should not.

        strategy: that of the run, with a clip norm of `UNCLIPPED`.
        """
        module = isinstance(self._learner, ModuleLearner)
        if module and clipping == "batch":  # runs node by node, or vectorised over nodes: they cannot meet
            return
        nodes, count = 1 if module else 2, min(_SAMPLES_PER_NODE, len(self.samples))
        x, out = self.weights(nodes), self.weights(nodes)
        features = torch.stack([self.samples[:count], self.others[:count]])[:nodes]
        labels = self._labels[: nodes * count].view(nodes, count)
        labels = labels if self._classes else labels.to(self._dtype)

        @torch.no_grad()
        def gradient(features: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
            with Guard(f"learning.model: {self._name}.forward", is_user_class=not isinstance(strategy, UserGradients)):
                strategy.gradient(0, x, Batch(self._shown(features), labels, weight), out)
            return out.clone()

        others = (labels + 1) % self._classes if self._classes else labels + 1.0
        for place in {0, count - 1} if clipping == "per-sample" else {0}:
            kept = torch.zeros(nodes, count, dtype=torch.bool, device=self._device)
            kept[0, place if clipping == "per-sample" else slice(None)] = True
            # only the kept sample of node 0 is in its sum
            weight = kept.to(self._dtype) if clipping == "per-sample" else None
            wide = kept.view(nodes, count, *[1] * (features.ndim - 2))
            first, spread = gradient(features, labels, weight), False
            for replaced in (self.large(features), features.flip(0, 1)):
                try:
                    found = gradient(torch.where(wide, features, replaced), torch.where(kept, labels, others), weight)
                except ContractError:  # it may not take just any numbers
                    continue
                spread = moved(found[0], first[0])
                break
            if moved(gradient(features, labels, weight), first):
                raise ValueError(self._unlike("gradients"))
            if spread and clipping == "per-sample":
                raise ValueError(
                    f"learning.model is {self._name}, whose gradient of a sample changes with other samples; "
                    "per-sample clipping bounds each sample alone: compute each from its own, or use "
                    'privacy.clipping = "batch"'
                )
            if spread:
                raise ValueError(
                    f"learning.model is {self._name}, whose gradient of a node changes with the samples of another "
                    "node; epsilon is counted for each node alone: compute each row from its own"
                )
        if isinstance(strategy, Threads) and strategy.ghosts is not None:
            self._try_book_keeping(features[0], labels[0])

    @torch.no_grad()
    def _try_book_keeping(self, features: Tensor, labels: Tensor) -> None:
        """Compare the gradient of the first of some samples with autograd's.

        In float64: in float32, cancellation may leave nothing of a gradient but rounding.
        """
        module = copy.deepcopy(self._learner.module).to("cpu", torch.float64)
        samples = features.to("cpu", torch.float64)
        labels = labels.to("cpu", torch.float64) if self._classes is None else labels.cpu()
        parameters = list(module.parameters())
        for parameter, part in zip(parameters, layers(self._learner, self.weights(1).to("cpu", torch.float64))):
            parameter.copy_(part[0])
        found = [torch.empty_like(parameter) for parameter in parameters]
        first = torch.zeros(len(samples), dtype=torch.float64)
        first[0] = 1.0
        guard = Guard(f"learning.model: {self._name}.forward")
        try:
            with guard:
                module(samples)
        except ContractError:  # it may not take this type of numbers
            return
        with guard:
            Ghost(module).clip(samples, labels, first, UNCLIPPED, list(zip(parameters, found)))
            module.requires_grad_(True)
            with torch.enable_grad():
                loss = sample_losses(module(samples), labels)[0]
                expected = torch.autograd.grad(loss, parameters, materialize_grads=True)
        flat, right = (torch.cat([part.reshape(-1) for part in parts]) for parts in (found, expected))
        if moved(flat, right):
            raise ValueError(
                f'learning.model is {self._name}, whose gradient under learning.strategy "threads" differs from '
                f"autograd's by {float((flat - right).norm() / right.norm()):.0%}; it uses a weight beside the layer "
                'that holds it, or changes what a layer computes: set learning.strategy to "vmap" or "loop"'
            )


def moved(found: Tensor, before: Tensor) -> bool:
    """Whether values differ by more than rounding; what is no number in both is alike."""
    if found.shape != before.shape:
        return True
    found, before = (values.detach().cpu().double() for values in (found, before))  # a run has not begun
    finite = before[torch.isfinite(before)].abs()
    size = float(finite.max()) if finite.numel() else 0.0
    return not torch.allclose(found, before, rtol=0.0, atol=_TOLERANCE * size, equal_nan=True)


def refuse_autocast(learner: Any, device: torch.device) -> None:
    """Raise where a learner has left autocast on: clipping, which comes after it, would be of lower precision."""
    if torch.is_autocast_enabled(device.type):
        torch.set_autocast_enabled(device.type, False)
        raise ContractError(
            f"learning.model: {name_of(learner)} turns autocast on and leaves it on; gradients would be clipped in "
            "lower precision, to more than the clip norm: use it as a context, with torch.autocast(...):"
        )


def refuse_mixing(learner: Any, clipping: Clipping, padded: bool) -> None:
    """Raise ValueError where samples of a batch see each other and the settings do not allow it.

    padded: whether batches may be empty.
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
