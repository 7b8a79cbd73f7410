"""How much arithmetic a gradient takes: three times the forward pass of one sample, multiply and add apart."""

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from wirelessdl.learning.models.module import ModuleLearner


def gradient_flops(learner: Any) -> float:
    """FLOPs of one sample's gradient: counted through a module, else 2 for each weight, as dense layers take."""
    if not isinstance(learner, ModuleLearner):
        return 6.0 * float(learner.size)
    parameter = next(learner.module.parameters())
    samples = torch.zeros(2, *learner.input_shape, dtype=parameter.dtype, device=parameter.device)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        learner.module(samples)
    return 3.0 * counter.get_total_flops() / 2
