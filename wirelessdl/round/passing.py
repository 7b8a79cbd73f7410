"""Mixing passes of a frame: nodes send on what they hold, without noise, and average again.

Who sends: the nodes on air in the payload, and nobody else. What they hold by then is made of what was sent with its
noise, so sending it on is post-processing. A late node, or a listener that heard nobody, holds a step that was never
sent; it stays out. A receiver that did not send in the payload averages plainly: its model from before that must not
come in again by the weight of the y before.

Coefficients follow from the spectrum of the frame's own mixing; in large networks from that of the mean gains of all
nodes, once. Both are public, and neither depends on where a run was resumed.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wirelessdl.access import Carrier
from wirelessdl.access.weights import FrameWeights
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.chebyshev import Passes, fitted, plain
from wirelessdl.mixing import Mixing, expected_spectrum
from wirelessdl.power.problem import PowerPlan
from wirelessdl.radio.frame_channel import FrameChannel, SlotChannel

_EVERY_FRAME = 64  # nodes up to which the spectrum of every frame is worth computing


@dataclass(frozen=True, eq=False)
class PassWeights:
    """The passes of a frame. weights: of each; power_w: [K] W that amplitudes refer to.

    limit: [K] mean square of a coordinate that takes all power a node has; infinite for those that send nothing.
    heard, kept, before: `[1 + passes, K]` coefficients, of the payload first.
    """

    weights: tuple[FrameWeights, ...]
    heard: FloatArray
    kept: FloatArray
    before: FloatArray
    power_w: FloatArray
    limit: FloatArray


def noise_of_mean(
    payload: FrameWeights, passes: PassWeights | None, on_air: BoolArray, sent: FloatArray, receiver_w: FloatArray
) -> tuple[float, float]:
    """Variance per coordinate that senders and receivers add to the mean model of those on air, in one frame.

    sent: [K] variance of the noise that each sends and no partner takes away, in units of models; receiver_w: [K] noise
    of each receiver, W. Blocks carry disjoint coordinates: their mean counts. Passes keep the senders' part of the mean
    as it is, and add receiver noise of their own.
    """
    count = max(int(on_air.sum()), 1)
    actual = payload.actual
    share = np.where(on_air, actual.own, 0.0)
    np.add.at(share, actual.links.tx, actual.link * on_air[actual.links.rx])
    privacy = float(np.sum(np.where(on_air, share**2 * sent, 0.0))) / count**2

    def received(weights: FrameWeights) -> float:
        square = np.mean([slot.actual.scale**2 for slot in weights.slots], axis=0)
        return float(np.sum(np.where(on_air, square * receiver_w, 0.0))) / count**2

    if passes is None or not on_air.any():
        return privacy, received(payload)
    sender = int(np.argmax(on_air))
    by_pass = Passes(passes.heard[:, sender], passes.kept[:, sender], passes.before[:, sender]).to_mean() ** 2
    return privacy, float(by_pass @ [received(one) for one in (payload, *passes.weights)])


class Passing:
    """Decides on passes; keeps the spectrum of large networks."""

    def __init__(self, kind: Literal["chebyshev", "plain"], carrier: Carrier):
        self._kind, self._carrier = kind, carrier
        self._expected: NDArray[Any] | None = None
        self._kept: dict[int, Passes] = {}

    def expect(self, channel: FrameChannel, plan: PowerPlan, turn: IntArray) -> None:
        """Learn the mean gains of a large network from its first frame, whether or not that is replayed."""
        nodes = channel.links.nodes
        if self._kind == "plain" or nodes <= _EVERY_FRAME or not channel.passes:
            return
        mean = replace(channel, slots=(SlotChannel(channel.mean, channel.mean),), passes=(), subbands=1)
        amplitude = np.sqrt(plan.alpha * plan.power_w)
        weights = self._carrier.weigh(mean, plan, amplitude, np.zeros(nodes, dtype=bool), turn)
        self._expected = expected_spectrum(weights.known)

    def decide(
        self,
        channel: FrameChannel,
        plan: PowerPlan,
        payload: FrameWeights,
        peak: float,
        on_air: BoolArray,
        turn: IntArray,
    ) -> PassWeights | None:
        """The passes of a frame whose payload was mixed by `payload`; peak: mean square that takes all power."""
        channels = channel.in_passes()
        if not channels:
            return None
        nobody = np.zeros(len(on_air), dtype=bool)
        power_w = plan.power_w / peak
        amplitude = np.sqrt(power_w)
        weights = tuple(self._carrier.weigh(one, plan, amplitude, nobody, turn) for one in channels)
        passes = self._coefficients(1 + len(channels), payload.known, on_air)
        heard, kept, before = (
            np.where(on_air, value[:, None], plainly)
            for value, plainly in ((passes.heard, 1.0), (passes.kept, 0.0), (passes.before, 0.0))
        )
        return PassWeights(weights, heard, kept, before, power_w, limit=np.where(on_air, peak, np.inf))

    def _coefficients(self, count: int, mixing: Mixing, on_air: BoolArray) -> Passes:
        if self._kind == "plain":
            return plain(count)
        if self._expected is not None:
            if count not in self._kept:
                self._kept[count] = fitted(count, self._expected)
            return self._kept[count]
        senders = np.flatnonzero(on_air)
        return fitted(count, np.linalg.eigvals(mixing.dense[np.ix_(senders, senders)]))
