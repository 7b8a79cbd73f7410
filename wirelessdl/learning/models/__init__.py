"""Built-in learners by the name scenarios use."""

from typing import Any

from wirelessdl.learning.models.closed_form import Mlp, Softmax
from wirelessdl.learning.models.convex import Logistic, Ridge
from wirelessdl.learning.models.nets import Cnn, ResNet20

MODELS: dict[str, Any] = {
    "softmax": Softmax,
    "logistic": Logistic,
    "ridge": Ridge,
    "mlp": Mlp,
    "cnn": Cnn,
    "resnet20": ResNet20,
}
