"""Step 6 of a round: the steps of a frame as inputs of the learning engine.

A payload is divided into resource blocks, each with some coordinates of the models. A `Segment` is one block: its
coordinates, its weights A, and by which factors receiver noise and self-interference come in.
"""

import numpy as np

from wirelessdl.access import Step
from wirelessdl.access.weights import SlotWeights
from wirelessdl.arrays import FloatArray
from wirelessdl.learning.records import StepInput
from wirelessdl.learning.superposition import Segment, Shifted, SymbolOffsets
from wirelessdl.radio.frame import Frame
from wirelessdl.radio.offsets import Offsets
from wirelessdl.round.records import FrameDecision


class Segments:
    """Makes the segments of every frame.

    size: coordinates of a model. thermal_w: receiver noise in W; self_interference: share of its own emission that a
    node hears; offsets: of carriers and timing, None without any. coded: models go in messages, which arrive whole and
    without noise, or not at all.
    """

    def __init__(
        self,
        frame: Frame,
        size: int,
        thermal_w: float,
        self_interference: float,
        offsets: Offsets | None,
        *,
        coded: bool = False,
    ):
        self._coordinates, self._symbols = (slice(0, size),) if coded else frame.coordinates(size), frame.block_symbols
        self._coded = coded
        self._thermal_w, self._self_interference, self._offsets = thermal_w, self_interference, offsets

    def steps(self, decision: FrameDecision) -> tuple[StepInput, ...]:
        """Of w, and of what is sent on after it."""
        steps = decision.carried.steps
        first_held = steps[min(1, len(steps) - 1)]
        return tuple(
            StepInput(
                self._segments_of(decision, step),
                step.heard,
                step.before,
                step.limit,
                power_ratio=_ratio(step.power_w, first_held.power_w),
            )
            for step in steps
        )

    def _segments_of(self, decision: FrameDecision, step: Step) -> tuple[Segment, ...]:
        jammer_w = decision.channel.jammer_w
        own = np.asarray(decision.on_air * np.sqrt(self._self_interference * step.power_w), np.float64)
        noise = 0.0 if self._coded else np.sqrt(self._thermal_w if jammer_w is None else self._thermal_w + jammer_w)
        return tuple(self._slot(part, slot, noise, own) for part, slot in zip(self._coordinates, step.weights.slots))

    def _slot(self, coordinates: slice, weights: SlotWeights, noise: float | FloatArray, own: FloatArray) -> Segment:
        """What one slot makes of its coordinates. noise, own: amplitudes of receiver noise and own emission, `[K]`."""
        symbols, offsets = weights.symbols, self._offsets
        crosstalk = weights.crosstalk if symbols is None else symbols.crosstalk
        symbol_offsets = None
        if symbols is not None and offsets is not None:
            symbol_offsets = SymbolOffsets(
                ramp_rad=offsets.ramp_rad,
                symbols=self._symbols,
                shifted=tuple(
                    Shifted(delay, direct.compact, None if turned is None else turned.compact)
                    for delay, direct, turned in symbols.shifted
                ),
            )
        return Segment(
            coordinates=coordinates,
            weights=(weights.actual if symbols is None else symbols.itself).compact,
            crosstalk=None if crosstalk is None else crosstalk.compact,
            thermal_scale=noise * weights.actual.scale,
            self_interference_scale=own * weights.actual.scale,
            offsets=symbol_offsets,
        )


def _ratio(power_w: FloatArray, reference_w: FloatArray) -> FloatArray:
    return np.divide(power_w, reference_w, out=np.ones_like(power_w), where=reference_w > 0)
