"""Whether a learner, a data set and what is asked of them go together; raised before anything is allocated."""

from typing import Any

import numpy as np

from wirelessdl.contract import capability
from wirelessdl.learning.batch import sample_shape
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.models.module import ModuleLearner


def require_fit(learner: Any, data: Dataset, at_own_model: bool, augment: str) -> None:
    """Raise a ValueError with what does not fit. at_own_model: gradients as the paper's protocol takes them."""
    _require_labels(data)
    _require_task(learner, data)
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


def _require_task(learner: Any, data: Dataset) -> None:
    """A learner with a closed form has one kind of labels; a module takes what its outputs fit."""
    if isinstance(learner, ModuleLearner):
        return
    wanted = capability(learner, "task")
    if wanted != data.task:
        other = "ridge, or a module with one output" if data.task == "regression" else "softmax or another classifier"
        raise ValueError(
            f"learning.model is {type(learner).__name__.lower()}, made for {wanted}; the data set {data.name} is a "
            f"{data.task}: use {other}"
        )


def _require_labels(data: Dataset) -> None:
    """Labels are class numbers, 0 to classes - 1."""
    if data.task != "classification":
        return
    for name, labels in (("train", data.train_y), ("test", data.test_y)):
        wrong = np.flatnonzero((labels < 0) | (labels >= data.classes))
        if len(wrong):
            raise ValueError(
                f"learning.dataset {data.name}: label of {name} sample {wrong[0]} is {labels[wrong[0]]}; must be "
                f"0 to {data.classes - 1}, one number per class"
            )
