"""Arrays of a kept state: whether an engine can go on from them, and the part of each stage."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.errors import shown

# arrays that grow with what was met, and sums that may be without bound
_GROWING = (
    *("ledger_own_counts", "ledger_coalition_counts", "ledger_link_number", "ledger_link_counts"),
    "multiplier_weights",
)
_SIGNED = ("gradient", "mixed", "remembered")
_MAY_BE_INFINITE = ("ledger_own_total", "ledger_coalition_total", "multiplier_sum")


def unsound_arrays(fresh: Mapping[str, NDArray[Any]], arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """What is wrong with kept arrays, in words; None where they are as those of a fresh engine."""
    for name in sorted({*fresh, *arrays}):
        if name not in arrays or name not in fresh:
            return f"{shown(name, 40)} is {'missing' if name in fresh else 'unknown'}"
        here, kept = fresh[name], arrays[name]
        shape = (*here.shape[:-1], *kept.shape[-1:]) if name in _GROWING else here.shape
        if kept.dtype != here.dtype or kept.shape != shape:
            return f"{name} is {kept.dtype} of shape {kept.shape}, expected {here.dtype} of shape {here.shape}"
        if kept.dtype.kind == "f" and np.isnan(kept).any():
            return f"{name} holds NaN"
        if kept.dtype.kind == "f" and name not in _MAY_BE_INFINITE and not np.isfinite(kept).all():
            return f"{name} holds infinities"
        if name not in _SIGNED and not name.startswith("update_") and (kept < 0).any():
            return f"{name} holds negative numbers"
    return None


def part_of(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays of one stage, by their names there."""
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
