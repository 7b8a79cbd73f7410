"""Models of a run, used after it: accuracy on the test set, scores of samples, a torch module with their weights.

The test set is public and the same for all nodes. Nothing here touches training samples.

Models are state dicts: a node's vector cut into named parameters. A torch module has the names of its own
`state_dict`. Built-in learners in closed form hold a layer as `[out, in + 1]`, the bias being the last column; they
become `weight` and `bias` as in `torch.nn.Linear`, those of a perceptron `0.weight`, `0.bias`, `2.weight`, ... as in a
`torch.nn.Sequential` with activations between the layers. A user's learner is cut by its `shapes`, named by
number, or left whole as `x`.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from wirelessdl.arrays import FloatArray
from wirelessdl.contract import capability
from wirelessdl.errors import TraceError
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.models import is_built_in
from wirelessdl.learning.models.module import ModuleLearner
from wirelessdl.learning.runtime import own_settings

# of each block of a vector: name, shape, and whether its last column is a bias; as JSON holds it
Layout: TypeAlias = Sequence[Sequence[Any]]
StateDict: TypeAlias = dict[str, Tensor]
Models = Sequence[Mapping[str, Any]] | Mapping[str, Any]


class RunLearner:
    """What a run trained, with its data set as `data`. Models are state dicts: one, or a list of them."""

    def __init__(self, engine: LearningEngine, data: Dataset):
        self.data, self._engine = data, engine
        self._layout = layout_of(engine.learner)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}{list(shape)}" for name, shape, _ in self._layout)
        return f"RunLearner({type(self._engine.learner).__name__} on {self.data.name}: {shapes})"

    @own_settings()
    def accuracy(self, models: Models) -> FloatArray:
        """Share of the test set that each model gets right, `[n]`; of a regression, the share of variance explained."""
        self._require_whole_models()
        found = self._engine.accuracy(self._vectors(models)).cpu().numpy().astype(float)
        self._engine.close()
        return found

    @own_settings()
    def scores(self, models: Models, samples: Any) -> FloatArray:
        """Scores of samples `[N, ...]`, as the data set stores them: `[n, N, classes]`."""
        self._require_whole_models()
        shape = self.data.train_x.shape[1:]
        stored = np.asarray(samples, dtype=self.data.train_x.dtype)
        if stored.shape[1:] != shape:
            raise TraceError(f"samples have shape {stored.shape}; must be [N, {', '.join(map(str, shape))}]")
        found = self._engine.scores(0, self._vectors(models), self._engine.ready(stored))
        return found.cpu().numpy().astype(float)

    @own_settings()
    def module(self, model: Mapping[str, Any]) -> nn.Module:
        """The torch module of the run with the weights of a model; a copy, for use without wirelessdl."""
        learner = self._engine.learner
        if not isinstance(learner, ModuleLearner):
            raise TraceError(
                f"learning.model is {type(learner).__name__.lower()}, which is no torch module; its state dict fits "
                "torch.nn.Linear, or a torch.nn.Sequential of them"
            )
        module = copy.deepcopy(learner.module).to(device="cpu", dtype=self._engine.dtype)
        module.load_state_dict({name: torch.as_tensor(values) for name, values in model.items()}, strict=False)
        return module.eval()

    def _require_whole_models(self) -> None:
        if self._engine.gram is not None:
            raise TraceError(
                "models of this run stand in coordinates of their nodes, which a Gram stage made (privacy.gram_share); "
                "the checkpoint has what nodes received: resume the run to evaluate them"
            )
        if self._engine.remembered is not None:
            raise TraceError(
                "models of this run are evaluated with running statistics of batch normalisation, which were never "
                "sent: no epsilon covers them, and no model of the run holds them"
            )

    def _vectors(self, models: Models) -> Tensor:
        given = [models] if isinstance(models, Mapping) else list(models)
        try:
            vectors = torch.stack([_vector(model, self._layout) for model in given])
        except (ValueError, TypeError) as error:
            raise TraceError(f"models do not fit the run: {error}") from None
        return vectors.to(self._engine.device, self._engine.dtype)


def layout_of(learner: Any) -> list[list[Any]]:
    """How a learner's vector is cut."""
    if isinstance(learner, ModuleLearner):
        return [[name, list(shape), False] for name, shape in zip(learner.names, learner.shapes)]
    shapes = capability(learner, "shapes")
    if not shapes or sum(int(np.prod(shape)) for shape in shapes) != learner.size:
        return [["x", [int(learner.size)], False]]
    layers = is_built_in(learner) and bool(capability(learner, "bias_column"))
    if layers and len(shapes) == 1:
        return [["", list(shapes[0]), True]]
    return [[f"{2 * n}." if layers else str(n), list(shape), layers] for n, shape in enumerate(shapes)]


@own_settings()
def state_dicts(vectors: Any, layout: Layout) -> list[StateDict]:
    """One state dict for each model, of vectors `[K, m]`."""
    return [_state_dict(vector, layout) for vector in torch.as_tensor(vectors)]


def _state_dict(vector: Tensor, layout: Layout) -> StateDict:
    found: StateDict = {}
    blocks = torch.split(vector, [int(np.prod(shape)) for _, shape, _ in layout])
    for block, (name, shape, has_bias) in zip(blocks, layout):
        values = block.reshape(tuple(shape)).clone()
        if has_bias:
            found[f"{name}weight"], found[f"{name}bias"] = values[:, :-1].clone(), values[:, -1].clone()
        else:
            found[name] = values
    return found


def _vector(model: Mapping[str, Any], layout: Layout) -> Tensor:
    """A state dict as a vector; raises ValueError where it has other names or shapes."""
    expected = _state_dict(torch.zeros(sum(int(np.prod(shape)) for _, shape, _ in layout)), layout)
    for name, values in expected.items():
        if name not in model:
            raise ValueError(f"a model has no {name}; its names must be {', '.join(expected)}")
        shape = tuple(np.shape(model[name]))
        if shape != tuple(values.shape):
            raise ValueError(f"{name} of a model has shape {shape}, expected {tuple(values.shape)}")
    parts = []
    for name, _, has_bias in layout:
        if has_bias:
            weight, bias = (torch.as_tensor(model[f"{name}{kind}"]) for kind in ("weight", "bias"))
            parts.append(torch.cat([weight, bias.reshape(-1, 1)], dim=1).reshape(-1))
        else:
            parts.append(torch.as_tensor(model[name]).reshape(-1))
    return torch.cat(parts)
