"""Superposition and update on the batch: the paper's eq. 5-11 as a few calls on [K, m].

w = x + sqrt(beta/alpha) eta        what each node sends, in units of its model
s = A w + thermal / (c (d + 1))     what each node holds after the slot
x <- Proj(s - gamma mult g)
"""

import warnings

import torch
from scipy.sparse import csr_array
from torch import Tensor

from wirelessdl.arrays import FloatArray
from wirelessdl.learning.clipping import clip_factor


def mixing_tensor(weights: FloatArray | csr_array, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A[rx, tx] on the device, sparse where it came sparse and the device can."""
    if not isinstance(weights, csr_array):
        return torch.as_tensor(weights).to(device=device, dtype=dtype, non_blocking=True)
    if device.type == "mps":
        return mixing_tensor(weights.toarray(), device, dtype)
    with warnings.catch_warnings():  # "in beta state": the one operation used here is tested
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(weights.indptr),
            torch.from_numpy(weights.indices),
            torch.from_numpy(weights.data),
            weights.shape,
        ).to(device=device, dtype=dtype)


def superpose(weights: Tensor, sent: Tensor, out: Tensor) -> Tensor:
    """s = A w, written to `out`, which may hold receiver noise already."""
    return torch.addmm(out, weights, sent, out=out)


def project_(x: Tensor, radius: float) -> Tensor:
    """Each row onto the ball of a radius about 0, in place."""
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x.mul_(clip_factor(norm, radius))


def consensus_distance(x: Tensor, scratch: Tensor | None = None) -> Tensor:
    """Root mean square distance of the rows from their mean; `scratch` is overwritten."""
    apart: Tensor = torch.linalg.vector_norm(torch.sub(x, x.mean(dim=0), out=scratch), dim=1)
    return apart.square_().mean().sqrt_()
