"""A stochastic uniform quantiser, unbiased whatever it is given.

    w in a block, |w| <= c        c = max |w| of the block, rounded up to single precision, which is what is sent
    step = 2 c / (2^b - 1)        2^b levels from -c to c
    Q(w) = step floor((w + c) / step + u) - c,   u uniform on [0, 1)

    E[Q(w)] = w                   floor(v + u) is v on average
    |Q(w) - w| <= step            variance step^2 f (1 - f), f the fractional part: at most step^2 / 4

Nothing is ever clipped, since c is the largest of the block. c depends on data, so it must come from the model *with
its noise*. Then levels and scales are functions of the noisy model and of u alone, and epsilon is that of the noisy
model (post-processing). A scale from the model without noise would tell its largest coordinate.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Quantizer:
    """b bits per coordinate, one scale per block of coordinates."""

    bits: int
    block: int

    def apply_(self, w: Tensor, dither: Tensor) -> None:
        """Q(w) in place of w, `[n, m]`. dither: u, `[n, m]` in double precision."""
        size = w.shape[1]
        whole = size - size % self.block
        for start, stop, width in ((0, whole, self.block), (whole, size, size - whole)):
            if start < stop:
                self._apply_blocks(w[:, start:stop], dither[:, start:stop], width)

    def _apply_blocks(self, w: Tensor, dither: Tensor, width: int) -> None:
        """The same for blocks of one width."""
        top = float(2**self.bits - 1)
        value = w.to(torch.float64).reshape(len(w), -1, width)
        scale = single_above(value.abs().amax(dim=2, keepdim=True))
        step = (2.0 / top) * scale
        level = torch.where(step > 0, (value + scale) / step, 0.0).add_(dither.reshape(value.shape))
        w.copy_(level.floor_().clamp_(0.0, top).mul_(step).sub_(scale).reshape(w.shape))


def single_above(values: Tensor) -> Tensor:
    """The least single-precision numbers that are not below these, in double precision."""
    single = values.to(torch.float32)
    below = single.to(torch.float64) < values
    up = torch.nextafter(single, torch.full_like(single, torch.inf))
    return torch.where(below, up, single).to(torch.float64)
