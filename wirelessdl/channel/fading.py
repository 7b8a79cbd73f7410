"""Small-scale fading, and the paper's static draw.

    rayleigh   h ~ CN(0, 1):                             E|h|^2 = 1, E|h| = sqrt(pi)/2
    rician     h = sqrt(K/(K+1)) + CN(0, 1/(K+1)):       E|h|^2 = 1
    nakagami   |h|^2 ~ Gamma(m, 1/m):                    E|h|^2 = 1, variance of the power 1/m
    uniform    |h| ~ U[low, high], drawn once per directed pair of the full graph (the paper's channel)

    h   complex amplitude gain, dimensionless; the models give |h|
    K   power of the line of sight over that of the scatter, linear; k_db in dB
    m   shape of the Nakagami distribution, dimensionless

In time, `process = "block"`: a draw is held for coherence_s seconds, by default for one frame. Or `"clarke"`
(rayleigh, rician): the phases of the scatter follow the Doppler of both ends, see clarke.py, and the phase of the line
of sight follows its length. A draw depends on the pair of nodes only, so adding or removing a link changes no other
link's draws. Reciprocal: both directions share a draw.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal, TypeAlias

import numpy as np
import scipy
from annotated_types import Gt, Interval
from numpy.typing import NDArray

from wirelessdl import counter_rng
from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.channel.clarke import Clarke
from wirelessdl.channel.los import ChannelCondition, always_in_sight
from wirelessdl.channel.model import Composable, RngOf
from wirelessdl.links import Instants, Links
from wirelessdl.units import SPEED_OF_LIGHT_MPS, from_db

ComplexArray: TypeAlias = NDArray[np.complex128]
Process: TypeAlias = Literal["block", "clarke"]
Coherence: TypeAlias = Annotated[float, Interval(ge=1e-9, le=1e9)] | None
Paths: TypeAlias = Annotated[int, Interval(ge=4, le=1024)]
Speed: TypeAlias = Annotated[float, Interval(ge=0, le=1e5)] | None


class Blocks:
    """Blocks of coherence_s seconds, and the seed of each block's draws; None: a new block at every call."""

    def __init__(self, coherence_s: float | None):
        self.coherence_s = coherence_s
        self._block: int | None = None
        self._word = 0

    def word(self, time_s: float, rng: Callable[[], np.random.Generator]) -> int:
        """Seed of the block that time_s lies in, 64 bits; drawn from rng where a block begins."""
        block = None if self.coherence_s is None else int(time_s / self.coherence_s)
        if block is None or block != self._block:
            self._block, self._word = block, counter_rng.key(rng())
        return self._word


class Scattered(Composable):
    """A line of sight of power share K/(K+1), which may be 0, plus scatter; mean power 1 in total."""

    small_scale = True

    def __init__(
        self,
        frequency_hz: Annotated[float, Gt(0)] = 3.5e9,
        process: Process = "block",
        coherence_s: Coherence = None,
        reciprocal: bool = True,
        paths: Paths | None = None,
        speed_mps: Speed = None,
    ):
        if process == "clarke" and coherence_s is not None:
            raise ValueError('coherence_s goes with process = "block"; under "clarke" it follows from Doppler')
        for name, value in (("paths", paths), ("speed_mps", speed_mps)):
            if process == "block" and value is not None:
                raise ValueError(f'{name} is {value:g}; goes with process = "clarke"')
        self.frequency_hz, self.reciprocal = frequency_hz, reciprocal
        self.blocks, self.redrawn = Blocks(coherence_s), process == "block" and coherence_s is None
        self.clarke = Clarke(frequency_hz, paths or 16, speed_mps, reciprocal) if process == "clarke" else None

    @property
    def coherence_s(self) -> float | None:
        """How long a draw is held, s; None where the Doppler of the nodes says."""
        return self.blocks.coherence_s

    @property
    def doppler_speed_mps(self) -> float | None:
        """Speed of both ends that the Doppler comes from, m/s; None: the nodes' own."""
        return None if self.clarke is None else self.clarke.speed_mps

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        return np.asarray(self.gains(Instants((links,), (time_s,)), lambda _: rng)[0])

    def gains(self, instants: Instants, rng_of: RngOf) -> FloatArray:
        """|h| at several instants, `[instants, links]`."""
        return np.abs(self.amplitudes(instants, rng_of))

    def amplitudes(self, instants: Instants, rng_of: RngOf) -> ComplexArray:
        """h at several instants, `[instants, links]`."""
        scatter, share = self._scatter(instants, rng_of), instants.by_place(self.sight_share)
        if not share.any():
            return scatter
        return np.asarray(np.sqrt(share) * self._sight(instants) + np.sqrt(1.0 - share) * scatter)

    def sight_share(self, links: Links) -> FloatArray:
        """Share of the power in line of sight, per link: K / (K + 1)."""
        return np.zeros(len(links))

    def _scatter(self, instants: Instants, rng_of: RngOf) -> ComplexArray:
        if self.clarke is not None:
            return self.clarke.scatters(instants, lambda: rng_of(0))
        rows = []
        for place, (links, time_s) in enumerate(zip(instants.links, instants.time_s)):
            number, of_link = processes(links, self.reciprocal)
            word = self.blocks.word(time_s, partial(rng_of, place))
            rows.append(counter_rng.complex_normal(word, number)[of_link])
        return np.stack(rows)

    def _sight(self, instants: Instants) -> ComplexArray:
        """Phase factor of the line of sight, `[instants, links]`: one cycle per wavelength of length."""
        if self.clarke is None or self.clarke.speed_mps is not None:
            return np.ones(1, np.complex128)
        cycles = instants.distance_m * (self.frequency_hz / SPEED_OF_LIGHT_MPS)
        return np.asarray(np.exp(-2j * np.pi * (cycles - np.rint(cycles))))


class Rayleigh(Scattered):
    """Rayleigh fading: no line of sight.

        h ~ CN(0, 1)

    frequency_hz: carrier, Hz (Doppler). coherence_s: length of a block, s. paths: scattered paths N of the Clarke
    process. speed_mps: speed of both ends, m/s; by default the nodes' own. Valid for narrowband links with many
    scatterers.
    """


class Rician(Scattered):
    """Rician fading: a line of sight k_db above the scatter; by_condition: Rayleigh on links without a line of sight.

        h = sqrt(K/(K+1)) exp(-j 2 pi d f / c) + sqrt(1/(K+1)) CN(0, 1)

    K: line-of-sight over scatter power, linear, from k_db in dB. d: link length, m. f: carrier frequency, Hz. c: speed
    of light, m/s. The phase of the line of sight is 0 under process "block" and where speed_mps is given.
    Other parameters as in `Rayleigh`. Valid for narrowband links, K from -100 to 100 dB.
    """

    def __init__(
        self,
        condition: ChannelCondition | None = None,
        k_db: Annotated[float, Interval(ge=-100, le=100)] = 6.0,
        frequency_hz: Annotated[float, Gt(0)] = 3.5e9,
        process: Process = "block",
        coherence_s: Coherence = None,
        reciprocal: bool = True,
        by_condition: bool = False,
        paths: Paths | None = None,
        speed_mps: Speed = None,
    ):
        super().__init__(frequency_hz, process, coherence_s, reciprocal, paths, speed_mps)
        k = from_db(k_db)
        self._share = k / (k + 1.0)
        self._condition = (condition or always_in_sight()) if by_condition else None

    def sight_share(self, links: Links) -> FloatArray:
        sight = np.ones(len(links), dtype=bool) if self._condition is None else self._condition.los(links)
        return np.where(sight, self._share, 0.0)


class Nakagami(Composable):
    """Power ~ Gamma(m, 1/m): milder than Rayleigh above m = 1, rougher below. Block fading only.

        |h|^2 ~ Gamma(m, 1/m)

    m: shape, dimensionless, from 0.5 to 1000; m = 1 is Rayleigh. coherence_s: length of a block, s.
    """

    small_scale = True

    def __init__(
        self,
        m: Annotated[float, Interval(ge=0.5, le=1000)] = 2.0,
        coherence_s: Coherence = None,
        reciprocal: bool = True,
    ):
        self.m, self.reciprocal = m, reciprocal
        self.coherence_s, self.blocks, self.redrawn = coherence_s, Blocks(coherence_s), coherence_s is None

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        number, of_link = processes(links, self.reciprocal)
        level = counter_rng.uniform(self.blocks.word(time_s, lambda: rng), number)[0]
        return np.asarray(np.sqrt(scipy.special.gammaincinv(self.m, level) / self.m)[of_link])


class Uniform(Composable):
    """The paper's channel: static |h| ~ U[low, high], each direction its own; per sender: the same at all receivers.

    low, high: bounds of the amplitude |h|, dimensionless, > 0. It replaces a loss; it does not depend on distance.
    """

    placed, reciprocal = True, False

    def __init__(
        self,
        low: Annotated[float, Gt(0)] = 0.3,
        high: Annotated[float, Gt(0)] = 1.0,
        per: Literal["link", "sender"] = "link",
    ):
        if high < low:
            raise ValueError(f"high is {high:g}; must be >= low, which is {low:g}")
        self.low, self.high, self.per = low, high, per
        self._word: int | None = None

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        if self._word is None:
            self._word = counter_rng.key(rng)
        level = counter_rng.uniform(self._word, links.number if self.per == "link" else links.tx)[0]
        return np.asarray(self.low + (self.high - self.low) * level)


def processes(links: Links, reciprocal: bool) -> tuple[IntArray, IntArray | slice]:
    """Numbers of the random processes, `[processes]`, and which one each link follows, `[links]`."""
    if reciprocal:
        return links.pairs.number, links.pairs.of_link
    return links.number, slice(None)
