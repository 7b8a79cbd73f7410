"""Built-in learners by the name scenarios use; which classes are wirelessdl's own."""

from typing import Any

from wirelessdl.learning.models.closed_form import Mlp, Softmax
from wirelessdl.learning.models.convex import Logistic, Ridge
from wirelessdl.learning.models.module import ModuleLearner
from wirelessdl.learning.models.nets import Cnn, ResNet20

MODELS: dict[str, Any] = {
    "softmax": Softmax,
    "logistic": Logistic,
    "ridge": Ridge,
    "mlp": Mlp,
    "cnn": Cnn,
    "resnet20": ResNet20,
}


def is_built_in(learner: Any) -> bool:
    """Whether a learner is one of wirelessdl's own, exactly: a subclass may have changed anything."""
    return type(learner.module if isinstance(learner, ModuleLearner) else learner) in MODELS.values()
