"""Built-in learners by the name scenarios use, loaded on first use: torch takes seconds, and names need none of it."""

import math
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class Learners(Mapping[str, Any]):
    """Classes by name, each imported when it is asked for. homes: module and class of each name."""

    def __init__(self, homes: Mapping[str, tuple[str, str]]):
        self.homes = homes

    def __getitem__(self, name: str) -> Any:
        module, title = self.homes[name]
        return getattr(import_module(module), title)

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)


MODELS = Learners(
    {
        "softmax": ("wirelessdl.learning.models.closed_form", "Softmax"),
        "logistic": ("wirelessdl.learning.models.convex", "Logistic"),
        "ridge": ("wirelessdl.learning.models.convex", "Ridge"),
        "mlp": ("wirelessdl.learning.models.closed_form", "Mlp"),
        "cnn": ("wirelessdl.learning.models.nets", "Cnn"),
        "resnet20": ("wirelessdl.learning.models.nets", "ResNet20"),
    }
)


def is_built_in(learner: Any) -> bool:
    """Whether a learner is one of wirelessdl's own, exactly: a subclass may have changed anything."""
    from wirelessdl.learning.models.module import ModuleLearner

    return type(learner.module if isinstance(learner, ModuleLearner) else learner) in MODELS.values()


def layers(learner: Any, x: "Tensor") -> "list[Tensor]":
    """Parameters of k models, `[k, *shape]` each, as views of their vectors `[k, m]`."""
    parts = x.split([math.prod(shape) for shape in learner.shapes], dim=1)  # type: ignore[no-untyped-call]
    return [part.view(len(x), *shape) for part, shape in zip(parts, learner.shapes)]
