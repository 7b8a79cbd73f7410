"""torchvision under any torch.

The torchvision of the package registry is built against CUDA. Beside a CPU-only torch its compiled
operators do not load, and its import dies registering shape rules for operators that do not exist.
Declaring the two schemas it looks for is enough for its data sets and transforms to work.
"""

from functools import cache
from types import ModuleType
from typing import Any

import torch

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_libraries: list[Any] = []  # a schema lives as long as its library object


@cache
def import_torchvision() -> ModuleType:
    """The torchvision package, its missing operators declared first."""
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                library.define(name + _SCHEMA)
        _libraries.append(library)
        import torchvision
    return torchvision  # type: ignore[no-any-return]
