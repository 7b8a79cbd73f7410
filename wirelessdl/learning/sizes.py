"""How much memory a run of learning takes, known before any of it is allocated."""

import math
from dataclasses import dataclass
from typing import Any

import torch

from wirelessdl.contract import capability
from wirelessdl.learning.models.module import ModuleLearner
from wirelessdl.learning.records import Settings
from wirelessdl.learning.runtime import Need, available, most_nodes
from wirelessdl.memory import format_size
from wirelessdl.mixing import is_sparse


@dataclass(frozen=True, eq=False)
class Sizes:
    """What memory follows from. tests: samples to test; evaluated: nodes at a time; width: bytes of a number."""

    learner: Any
    strategy: Any
    settings: Settings
    nodes: int
    batch: int
    stored_bytes: int
    tests: int
    features: int
    classes: int
    evaluated: int
    width: int

    def need(self, nodes: int) -> Need:
        """Of a network of this size with the same mean degree."""
        strategy, size, width = self.strategy, self.learner.size, self.width
        at_once = min(nodes, strategy.chunk) * strategy.workers
        numbers = capability(self.learner, "activations") or sum(
            shape[0] for shape in capability(self.learner, "shapes") or [(self.classes,)]
        )
        module = isinstance(self.learner, ModuleLearner)
        in_layers = min(self.tests, 500) * numbers * strategy.workers if module else 0
        scores = min(nodes, self.evaluated) * strategy.workers * self.tests * self.classes * 2
        return Need(
            models=(4 if self.settings.passes else 3) * nodes * size * width
            + (8 * nodes * size if self.settings.evaluated == "own" else 0),
            data=self.stored_bytes + self.tests * self.features * width,
            batches=at_once * self.batch * self.features * (width + 9),  # once more in float64, to be summed
            layers=at_once * (3 * self.batch * numbers + (2 * size if module else 0)) * width,
            evaluation=(scores + in_layers) * width,
            mixing=self._mixing(nodes),
        )

    def _mixing(self, nodes: int) -> int:
        """Weights of a slot, as they come and as they are multiplied: all pairs, or links and where they are."""
        links = None if self.settings.links is None else math.ceil(self.settings.links / self.nodes * nodes)
        if links is None or not is_sparse(nodes, links):
            return 2 * nodes * nodes * 8
        return 2 * (links + nodes) * 16

    def require_room(self, device: torch.device) -> None:
        """Raise ValueError where it does not fit."""
        need, free = self.need(self.nodes), available(device)
        if need.total > free:
            fits = most_nodes(self.need, self.nodes, free)
            remedy = f"{fits} nodes would fit" if fits else "use a smaller model or batch_size"
            raise ValueError(f"learning needs {need.formatted()}; {format_size(free)} are free on {device}: {remedy}")
