"""Symbols under carrier and timing offsets: two coordinates are one complex symbol, `[K, 2 N]`.

    y_i(n) = e^(-j theta_i(n)) sum_j e^(j theta_j(n)) sum_k A_ij(k) w_j(n - k)
    theta_j(n) = ramp_j (n - (N - 1)/2)

    A_ij(k)   complex weight of the symbol itself (k = 0), the one before (1) and the one after (-1); cos + j sin
    ramp_j    phase that node j's carrier gains from symbol to symbol

Phases are those at the receiver's time, whatever symbol is heard then, so only differences of carriers matter. A
carrier's phase is a property of its node, so what would be a weight per symbol and link is a mixing of turned symbols.
"""

from dataclasses import dataclass

import torch
from scipy.sparse import csr_array
from torch import Tensor

from wirelessdl.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Shifted:
    """Weights A[rx, tx] of a neighbouring symbol, and the same by the sine of phases; None without any."""

    weights: FloatArray | csr_array
    crosstalk: FloatArray | csr_array | None


@dataclass(frozen=True, eq=False)
class SymbolOffsets:
    """Of one slot. ramp_rad: [K] rad per symbol, None without; late, early: the symbol before, and after, if heard."""

    ramp_rad: FloatArray | None
    symbols: int
    late: Shifted | None
    early: Shifted | None


def whole_symbols(w: Tensor) -> Tensor:
    """The same, with a zero for the missing half of a last symbol."""
    return w if w.shape[1] % 2 == 0 else torch.nn.functional.pad(w, (0, 1))


def turned(w: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Each symbol turned by its angle, of which cosine and sine are given, `[K, N]`."""
    a, b = w[:, 0::2], w[:, 1::2]
    out = torch.empty_like(w)
    torch.sub(a * cos, b * sin, out=out[:, 0::2])
    torch.add(a * sin, b * cos, out=out[:, 1::2])
    return out


def delayed(w: Tensor, symbols: int) -> Tensor:
    """Each symbol in the place of a later one, or of an earlier one where negative; zero from outside the slot."""
    out = torch.zeros_like(w)
    by = 2 * abs(symbols)
    if symbols > 0:
        out[:, by:] = w[:, :-by]
    else:
        out[:, :-by] = w[:, by:]
    return out
