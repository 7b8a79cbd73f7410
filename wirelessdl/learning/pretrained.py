"""Features by a torch module with public weights: public pre-training.

    features of an image    module(image) in evaluation mode, as one row, scaled to `norm`

The weights come with the module: in its file, beside it, or from a package that it imports. They are public, and so is
whatever they were trained on. A total covers the data set of the scenario and nothing else: it is another claim than
that of features which no data was used to find, and reads "public pre-training" wherever a run lists what is public.
Weights that have seen a sample of the data set, or one that is much like it, void it.

The module gets images [n, C, H, W] as float32, bytes over 255, and resizes and normalises them itself. It must map each
image by itself, which is tried, and keep its features of an image from call to call.
"""

import hashlib
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Gt
from numpy.typing import NDArray

from wirelessdl.contract import Guard
from wirelessdl.learning.data.images import as_images

_BLOCK = 100  # images at a time


class PublicModule:
    """Outputs of a torch module with public weights, `file = "net.py:Backbone"`: public pre-training."""

    def __init__(self, find_class: Callable[[str], tuple[Any, str]], file: str, norm: Annotated[float, Gt(0)] = 10.0):
        if ":" not in file:
            raise ValueError(f'file is "{file}"; must name a file and a class in it: "net.py:Backbone"')
        self.file, self.norm = file, norm
        made, sources = find_class(file)
        self._guard = Guard(f"learning.features: {file}", is_user_class=True)
        with self._guard:
            self._module = made()
        if not isinstance(self._module, torch.nn.Module):
            raise ValueError(f'file is "{file}"; {type(self._module).__name__} is not a torch.nn.Module: derive it')
        self._module.eval().requires_grad_(False)
        digest = hashlib.sha256(sources.encode())
        for name, value in self._module.state_dict().items():
            digest.update(name.encode() + value.cpu().contiguous().numpy().tobytes())
        self.sha256 = digest.hexdigest()

    @property
    def public(self) -> str:
        return f"public pre-training: {self.file} with its weights (sha256 {self.sha256[:12]})"

    def transform(self, samples: NDArray[Any]) -> NDArray[np.float32]:
        """`[n, features]` of norm `norm`; an image without a response gives zeros."""
        images = as_images(samples)
        scale = 255.0 if images.dtype == np.uint8 else 1.0
        rows = []
        with self._guard, torch.inference_mode():
            for start in range(0, len(images), _BLOCK):
                pixels = torch.from_numpy(np.ascontiguousarray(images[start : start + _BLOCK], dtype=np.float32))
                row = self._module(pixels / scale).flatten(1).double()
                row *= self.norm / torch.linalg.vector_norm(row, dim=1, keepdim=True).clamp_min(1e-30)
                rows.append(row.float().numpy())
        return np.concatenate(rows)
