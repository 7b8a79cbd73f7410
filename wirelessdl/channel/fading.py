"""Small-scale fading, and the paper's static draw.

    rayleigh   h ~ CN(0, 1):                             E|h|^2 = 1, E|h| = sqrt(pi)/2
    rician     h = sqrt(K/(K+1)) + CN(0, 1/(K+1)):       E|h|^2 = 1, K the line-of-sight to scatter power
    uniform    |h| ~ U[low, high], drawn once per directed pair of the full graph (the paper's channel)

Block fading: one draw holds for a coherence time, by default for one frame. Draws are made for every
pair, so a link that comes or goes moves nobody else's. Reciprocal: both directions share a draw.
"""

from typing import Annotated

import numpy as np
from annotated_types import Gt

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Links
from wirelessdl.units import from_db


class BlockFading:
    """Complex Gaussian scatter beside a constant line of sight, redrawn every block."""

    small_scale = True

    def __init__(self, line_of_sight: float, coherence_s: float | None, reciprocal: bool):
        self._mean, self._spread = np.sqrt(line_of_sight), np.sqrt((1.0 - line_of_sight) / 2)
        self.coherence_s, self.reciprocal = coherence_s, reciprocal
        self._block: int | None = None
        self._amplitude = np.zeros(0)

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        block = None if self.coherence_s is None else int(time_s / self.coherence_s)
        if block is None or block != self._block or not len(self._amplitude):
            self._block, self._amplitude = block, self._draw(links.nodes, rng)
        if self.reciprocal:
            low, high = np.minimum(links.rx, links.tx), np.maximum(links.rx, links.tx)
            # row-major rank of (low, high) in the upper triangle
            pair = low * (2 * links.nodes - low - 1) // 2 + high - low - 1
            return np.asarray(self._amplitude[pair])
        return np.asarray(self._amplitude[links.rx * links.nodes + links.tx])

    def _draw(self, nodes: int, rng: np.random.Generator) -> FloatArray:
        pairs = nodes * (nodes - 1) // 2 if self.reciprocal else nodes * nodes
        real, imaginary = rng.standard_normal((2, pairs))
        return np.asarray(np.hypot(self._mean + self._spread * real, self._spread * imaginary))


class Rayleigh(BlockFading):
    """No line of sight."""

    def __init__(self, coherence_s: Annotated[float, Gt(0)] | None = None, reciprocal: bool = True):
        super().__init__(0.0, coherence_s, reciprocal)


class Rician(BlockFading):
    """A line of sight k_db above the scatter."""

    def __init__(self, k_db: float = 6.0, coherence_s: Annotated[float, Gt(0)] | None = None, reciprocal: bool = True):
        k = from_db(k_db)
        super().__init__(k / (k + 1.0), coherence_s, reciprocal)


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
