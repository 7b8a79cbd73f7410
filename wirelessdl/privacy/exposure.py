"""How far, and how often, what epsilon protects enters the gradients of each node.

unit     what is replaced                              sensitivity      sampling
sample   one sample of one node                        2C/B_j, or 2G    amplifies
node     all samples of one node, by as many others    2C, or 2G        amplifies nothing: some are always there

C is the clip norm of each sample and B_j the divisor of node j's sum; G is the clip norm of a mini-batch. A mean of B_j
clipped samples is no longer than C, whatever the samples are. A Poisson batch may hold more samples than its divisor,
so with per-sample clipping nothing bounds what a node contributes. What rounding before the noise may add to a
sensitivity (`learning/clipping.py`) is in it.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from wirelessdl.arrays import FloatArray, IntArray

Unit: TypeAlias = Literal["sample", "node"]


@dataclass(frozen=True, eq=False)
class Exposure:
    """Of each node, `[K]`: sensitivity of its gradient, sampling rate q (1: no amplification), rounds of an epoch."""

    sensitivity: FloatArray
    sampling_rate: FloatArray
    epoch_rounds: IntArray
