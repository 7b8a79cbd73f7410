"""How gains depend on frequency, before a run: the first frame's, and the correlation of fading beside theory."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.model import compose
from wirelessdl.channel.tdl import coherence_bandwidth_hz
from wirelessdl.contract import capability, checked_array, guard_of
from wirelessdl.preview.channel import ChannelPreview
from wirelessdl.radio.frame import subband_offset_hz
from wirelessdl.run.build import World

Complex = NDArray[np.complex128]
_LAGS, _REALISATIONS = 129, 64
_REACH = 2.0  # lags go this far, in units of 1 / delay spread: tdl-a falls to 0.5 at 1.5


@dataclass(frozen=True, eq=False)
class FrequencyPreview:
    """The band of a run. gain: [subbands, links] |h| in the first slot of the first frame, by offset_hz.

    delay_spread_s: of the fading models with taps, None without any. lag_hz, drawn, theory: correlation of fading over
    frequency, `[lags]` complex; None where nothing fades by frequency, or theory is not known.
    """

    offset_hz: FloatArray
    gain: FloatArray
    bandwidth_hz: float
    delay_spread_s: float | None
    lag_hz: FloatArray | None
    drawn: Complex | None
    theory: Complex | None

    @property
    def subband_hz(self) -> float:
        return self.bandwidth_hz / len(self.offset_hz)

    @property
    def coherence_hz(self) -> float | None:
        """Lag at which |R| of what was drawn falls to 0.5, Hz; None where nothing fades by frequency."""
        return None if self.drawn is None or self.lag_hz is None else coherence_bandwidth_hz(self.lag_hz, self.drawn)

    @property
    def coherence_theory_hz(self) -> float | None:
        """The same by theory."""
        return None if self.theory is None or self.lag_hz is None else coherence_bandwidth_hz(self.lag_hz, self.theory)

    @property
    def weakest_db(self) -> FloatArray:
        """Power of each link's weakest subband against its mean over subbands, `[links]` dB."""
        power = self.gain**2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(10.0 * np.log10(power.min(axis=0) / power.mean(axis=0)))


def preview_frequency(world: World, found: ChannelPreview) -> FrequencyPreview | None:
    """None where no channel model depends on frequency and the band is not divided."""
    radio, frame = world.scenario.radio, found.frames[0]
    fading = [model for _, model in world.fading.models if capability(model, "response") is not None]
    if radio.subbands == 1 and not fading:
        return None
    spreads = [s for model in fading if (s := capability(model, "delay_spread_s")) is not None]
    spread_s = float(np.sqrt(np.sum(np.square(spreads)))) if spreads else None
    lag_hz = drawn = theory = None
    if fading and len(found.links):
        lag_hz = np.linspace(0.0, _REACH / spread_s if spread_s else radio.bandwidth_hz, _LAGS)
        drawn, theory = _drawn(world, found, lag_hz), _theory(fading, lag_hz)
    return FrequencyPreview(
        subband_offset_hz(radio.bandwidth_hz, radio.subbands),
        np.stack([frame.of_links(block.gain) for block in frame.slots[: radio.subbands]]),
        radio.bandwidth_hz,
        spread_s,
        lag_hz,
        drawn,
        theory,
    )


def _drawn(world: World, found: ChannelPreview, lag_hz: FloatArray) -> Complex:
    """Correlation of fading over all links, realisations and pairs of frequencies that are a lag apart."""
    grid_hz = np.concatenate([lag_hz, lag_hz[-1] + lag_hz[1:]])
    total, power = np.zeros(len(lag_hz), np.complex128), 0.0
    for number in range(_REALISATIONS):
        models = [named.model for named in world.fading.chain(f"probe.frequency.{number}").models]
        rng = world.streams.draws("probe.frequency", number)
        h = compose(*models).response(found.links, 0.0, grid_hz, rng)
        start = h[: len(lag_hz)]
        power += float(np.mean(np.abs(start) ** 2))
        total += [np.mean(h[n : n + len(lag_hz)] * np.conj(start)) for n in range(len(lag_hz))]
    return total / power


def _theory(fading: list[Any], lag_hz: FloatArray) -> Complex | None:
    """Factors that fade independently multiply their correlations."""
    product = np.ones(len(lag_hz), np.complex128)
    for model in fading:
        correlation = capability(model, "frequency_correlation")
        if correlation is None:
            return None
        with (guard := guard_of("channel.models", model, "frequency_correlation")):
            answer = correlation(lag_hz)
        product = product * checked_array(guard.name, answer, (len(lag_hz),), "lags", dtype=np.complex128)
    return product
