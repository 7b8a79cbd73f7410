"""Models as state dicts: a node's vector cut into named parameters, and back.

A torch module has the names of its own `state_dict`. Built-in learners in closed form hold a layer as `[out, in + 1]`,
the bias being the last column; they become `weight` and `bias` as in `torch.nn.Linear`, those of a perceptron
`0.weight`, `0.bias`, `2.weight`, ... as in a `torch.nn.Sequential` with activations between the layers. A learner of
the user's is cut by its `shapes`, named by number, or left whole as `x`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from wirelessdl.contract import capability
from wirelessdl.learning.models import is_built_in
from wirelessdl.learning.models.module import ModuleLearner
from wirelessdl.learning.runtime import own_settings

# of each block of a vector: name, shape, and whether its last column is a bias; as JSON holds it
Layout: TypeAlias = Sequence[Sequence[Any]]
StateDict: TypeAlias = dict[str, Tensor]


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


def vectors_of(models: Sequence[Mapping[str, Any]], layout: Layout) -> Tensor:
    """Vectors `[n, m]` of n state dicts; raises ValueError where one has other names or shapes."""
    return torch.stack([_vector(model, layout) for model in models])


def _vector(model: Mapping[str, Any], layout: Layout) -> Tensor:
    expected = _state_dict(torch.zeros(sum(int(np.prod(shape)) for _, shape, _ in layout)), layout)
    for name, values in expected.items():
        if name not in model:
            raise ValueError(f"a model has no {name}; its names must be {', '.join(expected)}")
        shape = tuple(np.shape(model[name]))
        if shape != tuple(values.shape):
            raise ValueError(f"{name} of a model has shape {shape}, expected {tuple(values.shape)}")
    parts = []
    for name, shape, has_bias in layout:
        if has_bias:
            weight, bias = (torch.as_tensor(model[f"{name}{kind}"]) for kind in ("weight", "bias"))
            parts.append(torch.cat([weight, bias.reshape(-1, 1)], dim=1).reshape(-1))
        else:
            parts.append(torch.as_tensor(model[name]).reshape(-1))
        assert parts[-1].numel() == int(np.prod(shape))
    return torch.cat(parts)
