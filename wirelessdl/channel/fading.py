"""Small-scale fading, and the paper's static draw.

    rayleigh   h ~ CN(0, 1):                             E|h|^2 = 1, E|h| = sqrt(pi)/2
    rician     h = sqrt(K/(K+1)) + CN(0, 1/(K+1)):       E|h|^2 = 1, K the line-of-sight to scatter power
    nakagami   |h|^2 ~ Gamma(m, 1/m):                    E|h|^2 = 1, variance of the power 1/m
    uniform    |h| ~ U[low, high], drawn once per directed pair of the full graph (the paper's channel)

Block fading: one draw holds for a coherence time, by default for one frame. Draws are made for every
pair, so a link that comes or goes moves nobody else's. Reciprocal: both directions share a draw.
"""

from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Gt, Interval
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.condition import ChannelCondition
from wirelessdl.links import Links
from wirelessdl.units import from_db

ComplexArray: TypeAlias = NDArray[np.complex128]


class BlockFading:
    """Unit-power complex scatter beside a constant line of sight, redrawn every block."""

    small_scale = True

    def __init__(self, line_of_sight: float, coherence_s: float | None, reciprocal: bool):
        self._share, self.coherence_s, self.reciprocal = line_of_sight, coherence_s, reciprocal
        self._block: int | None = None
        self._scatter: ComplexArray = np.zeros(0, dtype=np.complex128)

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        block = None if self.coherence_s is None else int(time_s / self.coherence_s)
        if block is None or block != self._block or not len(self._scatter):
            count = links.nodes * (links.nodes - 1) // 2 if self.reciprocal else links.nodes**2
            self._block, self._scatter = block, self._draw(count, rng)
        index = links.pair_rank if self.reciprocal else links.rx * links.nodes + links.tx
        return self._combine(links, self._scatter[index])

    def _draw(self, count: int, rng: np.random.Generator) -> ComplexArray:
        real, imaginary = rng.standard_normal((2, count))
        return np.asarray((real + 1j * imaginary) / np.sqrt(2.0))

    def _combine(self, links: Links, scatter: ComplexArray) -> FloatArray:
        return np.asarray(np.abs(np.sqrt(self._share) + np.sqrt(1.0 - self._share) * scatter))


class Rayleigh(BlockFading):
    """No line of sight."""

    def __init__(self, coherence_s: Annotated[float, Gt(0)] | None = None, reciprocal: bool = True):
        super().__init__(0.0, coherence_s, reciprocal)


class Rician(BlockFading):
    """A line of sight k_db above the scatter; by_condition: Rayleigh on links that have none."""

    def __init__(
        self,
        condition: ChannelCondition,
        k_db: Annotated[float, Interval(ge=-100, le=100)] = 6.0,
        coherence_s: Annotated[float, Gt(0)] | None = None,
        reciprocal: bool = True,
        by_condition: bool = False,
    ):
        k = from_db(k_db)
        super().__init__(k / (k + 1.0), coherence_s, reciprocal)
        self._condition = condition if by_condition else None

    def _combine(self, links: Links, scatter: ComplexArray) -> FloatArray:
        sight = np.ones(len(links), dtype=bool) if self._condition is None else self._condition.los(links)
        share = np.where(sight, self._share, 0.0)
        return np.abs(np.sqrt(share) + np.sqrt(1.0 - share) * scatter)


class Nakagami(BlockFading):
    """Power ~ Gamma(m, 1/m): milder than Rayleigh above m = 1, rougher below."""

    def __init__(
        self,
        m: Annotated[float, Interval(ge=0.5, le=1000)] = 2.0,
        coherence_s: Annotated[float, Gt(0)] | None = None,
        reciprocal: bool = True,
    ):
        super().__init__(0.0, coherence_s, reciprocal)
        self.m = m

    def _draw(self, count: int, rng: np.random.Generator) -> ComplexArray:
        return np.sqrt(rng.gamma(self.m, 1.0 / self.m, count)).astype(np.complex128)


class Uniform:
    """The paper's channel: static |h| ~ U[low, high], each direction its own."""

    def __init__(self, low: Annotated[float, Gt(0)] = 0.3, high: Annotated[float, Gt(0)] = 1.0):
        if high < low:
            raise ValueError(f"high is {high:g}; must be >= low, which is {low:g}")
        self.low, self.high = low, high
        self._amplitude: FloatArray | None = None

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        if self._amplitude is None:
            self._amplitude = rng.uniform(self.low, self.high, links.nodes**2)
        return np.asarray(self._amplitude[links.rx * links.nodes + links.tx])
