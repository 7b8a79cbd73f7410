"""Frequency-selective fading: a tapped delay line.

    h(f, t) = sum_l sqrt(p_l) a_l(t) exp(-2 pi j f tau_l),   sum_l p_l = 1

    f         frequency from the carrier, Hz
    tau_l     delay of tap l, s; p_l: its share of the power
    a_l       CN(0, 1), independent from tap to tap; in time a block, or Clarke's process (clarke.py), as in rayleigh

Every h(f, t) is CN(0, 1), so one subband by itself is Rayleigh fading. Over frequency

    R(F) = E[h(f + F) h*(f)] = sum_l p_l exp(-2 pi j F tau_l)

    tdl-a, tdl-c   TR 38.901 tables 7.7.2-1 and 7.7.2-3, delays times delay_spread_s
    two-ray        two taps; tap 2 second_db against tap 1:     R = p_1 + p_2 exp(-2 pi j F D),  D = S / sqrt(p_1 p_2)
    exponential    L taps at (l + 1/2) D, powers q^l, q = exp(-8 / L):
                   R = sqrt(z) (1 - q) (1 - (q z)^L) / ((1 - q^L) (1 - q z)),  z = exp(-2 pi j F D)
                   close to 1 / (1 + 2 pi j F S), that of exponentially falling power at all delays

    S         root mean square delay spread, sqrt(sum p tau^2 - (sum p tau)^2), delay_spread_s

Valid where a subband is narrow against 1 / S, since its response is taken at its centre, and its symbols are long
against the delays, since none runs into the next. TDL profiles of the standard have no line of sight; those that do (D
and E) are not here.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import numpy as np
from annotated_types import Gt, Interval

from wirelessdl import counter_rng
from wirelessdl.arrays import FloatArray
from wirelessdl.channel.fading import Coherence, ComplexArray, Paths, Process, Scattered, Speed, processes
from wirelessdl.channel.model import RngOf
from wirelessdl.links import Instants, Links

ProfileName: TypeAlias = Literal["tdl-a", "tdl-c", "two-ray", "exponential"]
_PATHS = 8  # of Clarke's process, in every tap: 20 taps of 8 paths are as Gaussian as 160 paths
_TAPS = 20
_SPAN = 8.0  # delays of the exponential profile reach this far, in units of its decay: 35 dB down

# normalised delays and powers in dB
_TDL_A = """
    0.0000 -13.4  0.3819 0  0.4025 -2.2  0.5868 -4  0.4610 -6  0.5375 -8.2  0.6708 -9.9  0.5750 -10.5  0.7618 -7.5
    1.5375 -15.9  1.8978 -6.6  2.2242 -16.7  2.1718 -12.4  2.4942 -15.2  2.5119 -10.8  3.0582 -11.3  4.0810 -12.7
    4.4579 -16.2  4.5695 -18.3  4.7966 -18.9  5.0066 -16.6  5.3043 -19.9  9.6586 -29.7
"""
_TDL_C = """
    0.0000 -4.4  0.2099 -1.2  0.2219 -3.5  0.2329 -5.2  0.2176 -2.5  0.6366 0  0.6448 -2.2  0.6560 -3.9  0.6584 -7.4
    0.7935 -7.1  0.8213 -10.7  0.9336 -11.1  1.2285 -5.1  1.3083 -6.8  2.1704 -8.7  2.7105 -13.2  4.2589 -13.9
    4.6003 -13.9  5.4902 -15.8  5.6077 -17.1  6.3065 -16  6.6374 -15.7  7.0427 -21.6  8.6523 -22.8
"""


@dataclass(frozen=True, eq=False)
class Profile:
    """A power delay profile. delay_s: [taps] s; power: [taps] shares, which sum to 1."""

    delay_s: FloatArray
    power: FloatArray

    @property
    def spread_s(self) -> float:
        """Root mean square delay spread, s."""
        mean_s = self.power @ self.delay_s
        return float(np.sqrt(self.power @ (self.delay_s - mean_s) ** 2))

    def correlation(self, lag_hz: FloatArray) -> ComplexArray:
        """R at every lag, `[lags]` complex."""
        return np.asarray(np.exp(-2j * np.pi * np.multiply.outer(lag_hz, self.delay_s)) @ self.power)


def delay_profile(
    name: ProfileName, delay_spread_s: float, taps: int | None = None, second_db: float | None = None
) -> Profile:
    """The profile of a name. taps: of the exponential one, 20 unless said; second_db: of the two-ray one, 0 dB."""
    if name == "two-ray":
        first = 1.0 / (1.0 + 10.0 ** ((second_db or 0.0) / 10.0))
        delay, power = np.array([0.0, 1.0 / np.sqrt(first * (1.0 - first))]), np.array([first, 1.0 - first])
    elif name == "exponential":
        place = np.arange(taps or _TAPS, dtype=np.float64)
        power = np.exp(-_SPAN / len(place) * place)
        power = power / power.sum()
        delay = (place + 0.5) / Profile(place, power).spread_s  # middles of what they stand for
    else:
        table = np.array((_TDL_A if name == "tdl-a" else _TDL_C).split(), dtype=np.float64).reshape(-1, 2)
        delay, power = table[:, 0], 10.0 ** (table[:, 1] / 10.0)
        power = power / power.sum()
    return Profile(delay_spread_s * delay, power)


class Tdl(Scattered):
    """A tapped delay line: Rayleigh fading whose gain depends on frequency.

        h(f) = sum_l sqrt(p_l) a_l exp(-2 pi j f tau_l)

    profile: delays and powers of the taps: tdl-a, tdl-c (TR 38.901), two-ray or exponential. delay_spread_s: root mean
    square delay spread, s, from 0 to 1e-3. taps: of the exponential profile. second_db: power of the second ray against
    the first, dB (two-ray). Others as in `Rayleigh`; paths: of each tap. Needs radio.subbands above 1 to show: at one
    subband it is Rayleigh fading.
    """

    def __init__(
        self,
        profile: ProfileName = "tdl-c",
        delay_spread_s: Annotated[float, Interval(ge=0, le=1e-3)] = 1e-7,
        taps: Annotated[int, Interval(ge=2, le=256)] | None = None,
        second_db: Annotated[float, Interval(ge=-60, le=60)] | None = None,
        frequency_hz: Annotated[float, Gt(0)] = 3.5e9,
        process: Process = "block",
        coherence_s: Coherence = None,
        reciprocal: bool = True,
        paths: Paths | None = None,
        speed_mps: Speed = None,
    ):
        for name, value, only in (("taps", taps, "exponential"), ("second_db", second_db, "two-ray")):
            if value is not None and profile != only:
                raise ValueError(f'{name} is {value:g}; goes with profile = "{only}", not "{profile}"')
        if process == "clarke" and paths is None:
            paths = _PATHS
        super().__init__(frequency_hz, process, coherence_s, reciprocal, paths, speed_mps)
        self.profile = delay_profile(profile, delay_spread_s, taps, second_db)

    @property
    def delay_spread_s(self) -> float:
        """Root mean square delay spread, s."""
        return self.profile.spread_s

    def amplitudes(self, instants: Instants, rng_of: RngOf) -> ComplexArray:
        """h at the carrier, one instant after the other: there are taps enough to fill a core."""
        rows = zip(instants.links, instants.time_s, map(rng_of, range(len(instants))))
        return np.stack([self.response(links, time_s, np.zeros(1), rng)[0] for links, time_s, rng in rows])

    def response(self, links: Links, time_s: float, offset_hz: FloatArray, rng: np.random.Generator) -> ComplexArray:
        """h at every frequency, `[subbands, links]` complex. offset_hz: [subbands] from the carrier."""
        found, taps = self.profile, len(self.profile.power)
        if self.clarke is not None:
            scatter = self.clarke.taps(links, time_s, taps, rng)
        else:
            number, of_link = processes(links, self.reciprocal)
            every = (number * taps + np.arange(taps)[:, None]).reshape(-1)
            word = self.blocks.word(time_s, lambda: rng)
            scatter = counter_rng.complex_normal(word, every).reshape(taps, -1)[:, of_link]
        turn = np.exp(-2j * np.pi * np.multiply.outer(offset_hz, found.delay_s))
        return np.asarray((turn * np.sqrt(found.power)) @ scatter)

    def frequency_correlation(self, lag_hz: FloatArray) -> ComplexArray:
        """R at every lag, `[lags]` complex."""
        return self.profile.correlation(lag_hz)


def coherence_bandwidth_hz(lag_hz: FloatArray, correlation: ComplexArray) -> float:
    """First lag at which |R| falls to a half, Hz, interpolated; inf where it does not. lag_hz: rising, from 0."""
    height = np.abs(correlation)
    below = np.flatnonzero(height <= 0.5)
    if not len(below) or below[0] == 0:
        return float("inf")
    after = int(below[0])
    share = (height[after - 1] - 0.5) / (height[after - 1] - height[after])
    return float(lag_hz[after - 1] + share * (lag_hz[after] - lag_hz[after - 1]))
