"""Any torch module as a learner: its parameters, one after the other, are a node's vector.

The module computes scores from samples; its initial weights are those it was built with. A node's only state is its
vector, since the privacy proof assumes that: batch normalisation uses the statistics of the present batch, in
evaluation too. The paper protocol has no such proof, and there every node keeps running statistics of its own, which
are never sent. Modules that draw random numbers are refused, since draws would depend on the order of threads;
`learning/behaviour.py` tries a user's module before the run.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from wirelessdl.contract import Guard, capability
from wirelessdl.learning.batch import sample_shape
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.models import layers

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_SAMPLES_AT_ONCE = 500  # samples that go through a module at once when it is evaluated


class ModuleLearner:
    """A torch module whose weights are given with every call."""

    bias_column = False

    def __init__(self, module: nn.Module, input_shape: tuple[int, ...], classes: int):
        self.module, self.input_shape, self.classes = module, input_shape, classes
        self.name = type(module).__name__
        self.sees_batch = False  # whether samples of a batch see each other without a layer of torch's: see `behaviour`
        for layer in module.modules():
            if isinstance(layer, _DropoutNd) and layer.p > 0:
                raise ValueError(
                    f"model is {self.name}, which has {type(layer).__name__}; what it drops would depend on which "
                    "thread comes first: leave it out, noise regularises already"
                )
            if isinstance(layer, _BatchNorm):
                layer.track_running_stats = False
                layer.running_mean = layer.running_var = layer.num_batches_tracked = None
        named = dict(module.named_parameters())
        if not named:
            raise ValueError(f"model is {self.name}, which has no parameters: there is nothing to learn")
        self.names, self.shapes = list(named), [tuple(parameter.shape) for parameter in named.values()]
        self.size = sum(parameter.numel() for parameter in named.values())
        self._start = torch.cat([p.detach().reshape(-1).double() for p in named.values()]).numpy()
        module.train()
        module.requires_grad_(False)
        self.activations = self._try()

    @property
    def convolutional(self) -> bool:
        return any(isinstance(layer, _CONVOLUTIONS) for layer in self.module.modules())

    @property
    def batch_norm(self) -> str | None:
        """Name of a layer that mixes the samples of a batch, if there is one; forward where the module itself does."""
        found = (name for name, layer in self.module.named_modules() if isinstance(layer, _BatchNorm))
        return next(found, "forward" if self.sees_batch else None)

    def keep_statistics(self) -> None:
        """Let batch normalisation keep running statistics; `Threads` keeps them separately for every node."""
        for layer in self.module.modules():
            if isinstance(layer, _BatchNorm):
                layer.track_running_stats = True
                layer.running_mean = torch.zeros(layer.num_features)
                layer.running_var = torch.ones(layer.num_features)

    @property
    def remembered(self) -> int:
        """Numbers that a node keeps besides its vector."""
        return sum(part.numel() for part in statistics(self.module))

    def initial(self, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG002
        """The weights the module was built with: see `seeded`."""
        return self._start

    def forward(self, parameters: Sequence[Tensor], features: Tensor) -> Tensor:
        return functional_call(self.module, dict(zip(self.names, parameters)), (features,))  # type: ignore[no-any-return]

    def scores(self, x: Tensor, features: Tensor) -> Tensor:
        models = zip(*layers(self, x))  # parameters of each
        return torch.stack([scores_in_chunks(partial(self.forward, model), features) for model in models])

    def copies(self, count: int, device: torch.device, dtype: torch.dtype) -> list[nn.Module]:
        """Copies for threads that run at the same time: one module in two threads crashes."""
        return [copy.deepcopy(self.module).to(device=device, dtype=dtype) for _ in range(count)]

    def prepare(self, device: torch.device, dtype: torch.dtype) -> None:
        """Move the module's buffers and constants, which are no weights."""
        self.module.to(device=device, dtype=dtype)

    def _try(self) -> int:
        """Numbers that one sample leaves in the layers, from a forward pass that also checks the shape."""
        count = 0

        def note(_layer: nn.Module, _given: Any, out: Any) -> None:
            nonlocal count
            count += out.numel() if isinstance(out, Tensor) else 0

        leaves = [layer for layer in self.module.modules() if next(layer.children(), None) is None]
        hooks = [layer.register_forward_hook(note) for layer in leaves]
        parameter = next(self.module.parameters())
        samples = torch.zeros(2, *self.input_shape, dtype=parameter.dtype, device=parameter.device)
        try:
            with torch.no_grad():
                out = self.module(samples)
        finally:
            for hook in hooks:
                hook.remove()
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        if shape != (2, self.classes):
            raise TypeError(
                f"forward() of 2 samples of shape {self.input_shape} returned {shape}, expected {(2, self.classes)}, "
                "one score per class"
            )
        return count // 2


def statistics(module: nn.Module) -> list[Tensor]:
    """Running means and variances of a module, in the order of its layers."""
    layers = (layer for layer in module.modules() if isinstance(layer, _BatchNorm))
    return [part for layer in layers for part in (layer.running_mean, layer.running_var) if part is not None]


def scores_in_chunks(forward: Any, features: Tensor) -> Tensor:
    """Scores of many samples, `_SAMPLES_AT_ONCE` at a time."""
    with torch.no_grad():
        return torch.cat([forward(part) for part in torch.split(features, _SAMPLES_AT_ONCE)])


@contextmanager
def seeded(rng: np.random.Generator) -> Iterator[None]:
    """Modules built inside get initial weights from rng; torch's global generator is left unchanged."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**63)))
        yield


def name_of(learner: Any) -> str:
    """What messages call a learner."""
    return learner.name if isinstance(learner, ModuleLearner) else type(learner).__name__


def adapt(model: Any, input_shape: tuple[int, ...], classes: int) -> Any:
    """A learner: a torch module is wrapped, any other object is one already."""
    return ModuleLearner(model, input_shape, classes) if isinstance(model, nn.Module) else model


def require_fit(learner: Any, data: Dataset, at_own_model: bool, augment: str) -> None:
    """Raise a ValueError where learner, data and settings do not fit; before anything is allocated.

    at_own_model: gradients at the node's own model, as in the paper's protocol.
    """
    wanted = data.task if isinstance(learner, ModuleLearner) else capability(learner, "task")
    if wanted != data.task:  # a module takes what its outputs fit
        other = "ridge, or a module with one output" if data.task == "regression" else "softmax or another classifier"
        raise ValueError(
            f"learning.model is {type(learner).__name__.lower()}, made for {wanted}; the data set {data.name} is a "
            f"{data.task}: use {other}"
        )
    if at_own_model and capability(learner, "penalty") is not None:
        raise ValueError(
            f'learning.model is {type(learner).__name__.lower()} under privacy.protocol "paper"; its penalty is '
            'taken at the private model, which no clipping bounds: use protocol = "hardened"'
        )
    if augment != "none" and (capability(learner, "bias_column") or len(sample_shape(data)) != 3):
        raise ValueError(
            f'learning.augment is "{augment}"; it turns and shifts images: use a model that sees them, '
            'such as cnn, or augment = "none"'
        )


def gradient_flops(learner: Any) -> float:
    """FLOPs of one sample's gradient: counted through a module, else 2 for each weight, as dense layers take."""
    if not isinstance(learner, ModuleLearner):
        return 6.0 * float(learner.size)
    from torch.utils.flop_counter import FlopCounterMode  # a tenth of a second, for those who count

    parameter = next(learner.module.parameters())
    samples = torch.zeros(2, *learner.input_shape, dtype=parameter.dtype, device=parameter.device)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter, Guard(f"learning.model: {learner.name}.forward"):
        learner.module(samples)
    return 3.0 * counter.get_total_flops() / 2
