"""Step 6 of a round: the steps of a frame as inputs of the learning engine.

A payload is divided into resource blocks, each with some coordinates of the models. A `Segment` is one block: its
coordinates, its weights A, and by which factors receiver noise and self-interference come in.
"""

from dataclasses import replace

import numpy as np

from wirelessdl.access import Step
from wirelessdl.access.weights import SlotWeights
from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.learning.records import StepInput
from wirelessdl.learning.superposition import Segment, Shifted, SymbolOffsets, Values
from wirelessdl.mixing import Mixing
from wirelessdl.radio.frame import Frame
from wirelessdl.radio.offsets import Offsets
from wirelessdl.round.records import FrameDecision


class Segments:
    """Makes the segments of every frame.

    size: coordinates of a model. thermal_w: receiver noise in W; self_interference: share of its own emission that a
    node hears; offsets: of carriers and timing, None without any. coded: models go in messages, which arrive whole and
    without noise, or not at all. robust: receivers keep values apart (`learning/robust`).
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
        robust: bool = False,
    ):
        self._coordinates, self._symbols = (slice(0, size),) if coded else frame.coordinates(size), frame.block_symbols
        self._coded, self._robust = coded, robust
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
        found = tuple(self._slot(part, slot, noise, own) for part, slot in zip(self._coordinates, step.weights.slots))
        if not self._robust or step.source != "w" or decision.carried.announced:
            return found
        noise_w = np.broadcast_to(np.square(noise), own.shape)
        apart = (values_of(decision, slot, number, noise_w) for number, slot in enumerate(step.weights.slots))
        return tuple(replace(segment, values=values) for segment, values in zip(found, apart))

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


def values_of(decision: FrameDecision, slot: SlotWeights, number: int, noise_w: FloatArray) -> Values:
    """What each receiver gets apart in a block: one value of every turn in which it hears anybody that it weighs.

        v_p = sum_l reaching_l w_l / W_p + noise,   W_p = sum of known weights of the turn

    Receiver noise comes in with the scale of the mean under superposition; where one sender is heard alone (TDMA) the
    value is divided by its gain and amplitude, and so is the noise. noise_w: [K], 0 of messages.
    """
    known, actual, turn = slot.known, slot.actual, decision.turn
    nodes, turns = len(turn), int(turn.max(initial=0)) + 1
    place = known.links.rx * turns + turn[known.links.tx]
    weight = np.asarray(np.bincount(place, known.link, minlength=nodes * turns), dtype=np.float64)
    chosen: IntArray = np.flatnonzero(weight > 0)
    receiver = np.asarray(chosen // turns)
    scale = known.scale[receiver]
    if decision.orthogonal:
        amplitude = np.sqrt(decision.plan.alpha * decision.budget_w)[known.links.tx]
        gain = decision.channel.of_links(
            decision.channel.slots[number if len(decision.channel.slots) > 1 else 0].gain_est
        )
        divided = np.divide(known.link, gain * amplitude, out=np.zeros_like(gain), where=known.link > 0)
        scale = np.asarray(np.bincount(place, divided, minlength=nodes * turns)[chosen], dtype=np.float64)
    row: IntArray = np.full(nodes * turns, -1)
    row[chosen] = np.arange(len(chosen))

    def rows(mixing: Mixing) -> FloatArray:
        found = np.zeros((len(chosen), nodes))
        at = row[mixing.links.rx * turns + turn[mixing.links.tx]]
        np.add.at(found, (at[at >= 0], mixing.links.tx[at >= 0]), mixing.link[at >= 0])
        return found / weight[chosen][:, None]

    deviation = np.sqrt(noise_w[receiver]) * scale / weight[chosen]
    crosstalk = None if slot.crosstalk is None else rows(slot.crosstalk)
    return Values(receiver, weight[chosen], rows(actual), crosstalk, deviation, known.own)


def _ratio(power_w: FloatArray, reference_w: FloatArray) -> FloatArray:
    return np.divide(power_w, reference_w, out=np.ones_like(power_w), where=reference_w > 0)
