"""Models of a run, used after it: accuracy on the test set, scores of samples, a torch module with their weights.

The test set is public and the same for all nodes. Nothing here touches training samples.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from wirelessdl.arrays import FloatArray
from wirelessdl.errors import TraceError
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.models.module import ModuleLearner
from wirelessdl.learning.runtime import own_settings
from wirelessdl.learning.state import layout_of, vectors_of

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
        if self._engine.remembered is not None:
            raise TraceError(
                "models of this run are evaluated with running statistics of batch normalisation, which were never "
                "sent: no epsilon covers them, and no model of the run holds them"
            )
        found = self._engine.accuracy(self._vectors(models)).cpu().numpy().astype(float)
        self._engine.close()
        return found

    @own_settings()
    def scores(self, models: Models, samples: Any) -> FloatArray:
        """Scores of samples `[N, ...]`, as the data set stores them: `[n, N, classes]`."""
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

    def _vectors(self, models: Models) -> torch.Tensor:
        given = [models] if isinstance(models, Mapping) else list(models)
        try:
            vectors = vectors_of(given, self._layout)
        except (ValueError, TypeError) as error:
            raise TraceError(f"models do not fit the run: {error}") from None
        return vectors.to(self._engine.device, self._engine.dtype)
