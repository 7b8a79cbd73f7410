"""How long the channel holds still, and in how many slots a payload must therefore go.

A gain may be taken for constant over a tenth of the coherence time, 0.423 over the largest Doppler shift. A
payload that takes longer is cut into slots, each with pilots and gains of its own.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from wirelessdl.contract import capability
from wirelessdl.links import Geometry
from wirelessdl.units import SPEED_OF_LIGHT_MPS

GeometryAt = Callable[[float], Geometry]

COHERENCE = 0.423  # of the largest Doppler shift's period
STILL = 0.1  # of a coherence time over which a gain may be taken for constant
FLAT = 0.1  # subband times delay spread up to which a gain is taken for the whole subband: |R| is 0.95 at its edges
MOST_SLOTS = 64
_INSTANTS = 100


def coherence_s(models: Iterable[Any], geometry: GeometryAt, frequency_hz: float, horizon_s: float) -> float | None:
    """Shortest coherence time of the fading; None where nothing fades or moves."""
    fading = [model for model in models if capability(model, "small_scale")]
    return min(_coherence_times(fading, geometry, frequency_hz, horizon_s), default=None)


def payload_slots(payload_s: float, coherence: float | None) -> int:
    """Slots in which the channel holds still."""
    if coherence is None or payload_s <= STILL * coherence:
        return 1
    slots = math.ceil(payload_s / (STILL * coherence))
    if slots > MOST_SLOTS:
        raise ValueError(
            f"bandwidth_hz is too small; a payload of {payload_s:.3g} s lasts {payload_s / coherence:.3g} times the "
            f"coherence of {coherence:.3g} s and would go in {slots} slots, more than {MOST_SLOTS}: raise it, slow "
            "nodes down, or set payload_slots"
        )
    return slots


def _coherence_times(fading: list[Any], geometry: GeometryAt, frequency_hz: float, horizon_s: float) -> Iterator[float]:
    for model in fading:
        block_s, fixed = capability(model, "coherence_s"), capability(model, "doppler_speed_mps")
        if block_s is not None:
            yield block_s
            continue
        both_mps = fastest_pair_mps(geometry, horizon_s) if fixed is None else 2.0 * fixed
        if both_mps > 0:
            yield COHERENCE * SPEED_OF_LIGHT_MPS / (both_mps * frequency_hz)


def fastest_pair_mps(geometry: GeometryAt, horizon_s: float) -> float:
    """Largest sum of two nodes' speeds over instants of a run."""
    fastest = 0.0
    for time_s in np.linspace(0.0, horizon_s, _INSTANTS).tolist():
        speed = np.linalg.norm(geometry(time_s).velocity_mps, axis=1)
        fastest = max(fastest, float(np.sort(speed)[-2:].sum()))
    return fastest
