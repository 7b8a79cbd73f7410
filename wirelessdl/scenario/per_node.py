"""Numbers of nodes: one for all, one for each, or drawn from a distribution.

power_dbm = 23
power_dbm = [23, 23, 10]
power_dbm = { kind = "uniform", low = 10, high = 23 }
power_dbm = { kind = "choice", values = [10, 23] }
"""

from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from wirelessdl.arrays import FloatArray

RULE = 'one number, a list with one per node, { kind = "uniform", low, high } or { kind = "choice", values }'


class _Spread(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Uniform(_Spread):
    """Equally likely between two ends."""

    kind: Literal["uniform"]
    low: FiniteFloat
    high: FiniteFloat


class Choice(_Spread):
    """One of several values, equally likely."""

    kind: Literal["choice"]
    values: Annotated[list[FiniteFloat], Field(min_length=1)]


PerNode: TypeAlias = FiniteFloat | Annotated[list[FiniteFloat], Field(min_length=1)] | Uniform | Choice


def values_of(key: str, value: PerNode, nodes: int, rng: np.random.Generator, *, low: float, high: float) -> FloatArray:
    """The number of every node, `[K]`. Raises ValueError unless there are K of them, all from low to high."""
    if isinstance(value, list) and len(value) != nodes:
        raise ValueError(f"{key} has {len(value)} entries; must be {RULE}: there are {nodes} nodes")
    if isinstance(value, Uniform):
        if value.low > value.high:
            raise ValueError(f"{key}.low is {value.low:g}; must not be above high, {value.high:g}")
        ends, found = [value.low, value.high], rng.uniform(value.low, value.high, nodes)
    elif isinstance(value, Choice):
        ends, found = value.values, rng.choice(np.asarray(value.values, dtype=np.float64), nodes)
    else:
        found = np.broadcast_to(np.asarray(value, dtype=np.float64), nodes).copy()
        ends = found.tolist()
    wrong = next((end for end in ends if not low <= end <= high), None)
    if wrong is not None:
        raise ValueError(f"{key} is {wrong:g}; must be from {low:g} to {high:g}")
    return np.asarray(found, dtype=np.float64)
