"""Built-in learners by the name scenarios use, loaded on first use: torch takes seconds, and names need none of it."""

import math
from typing import TYPE_CHECKING, Any

from wirelessdl.families import LazyClasses

if TYPE_CHECKING:
    from torch import Tensor


MODELS = LazyClasses(
    {
        "softmax": ("wirelessdl.learning.models.closed_form", "Softmax"),
        "logistic": ("wirelessdl.learning.models.closed_form", "Logistic"),
        "ridge": ("wirelessdl.learning.models.closed_form", "Ridge"),
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
    parts = x.split_with_sizes([math.prod(shape) for shape in learner.shapes], dim=1)
    return [part.view(x.shape[0], *shape) for part, shape in zip(parts, learner.shapes)]
