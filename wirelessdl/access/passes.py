"""Mixing passes: steps after the release, in which nodes send on what they hold, without noise, and average again.

Who sends: the nodes on air in the payload, and nobody else. What they hold by then is made of what was sent with its
noise, so sending it on is post-processing. A late node, or a listener that heard nobody, holds a step that was never
sent; it stays out. A receiver that did not send in the payload averages plainly: its model from before that must not
come in again by the weight of the y before.

Coefficients follow from the spectrum of the frame's own mixing; in large networks from that of the mean gains of all
nodes, once. Both are public, and neither depends on where a run was resumed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wirelessdl.access import Sending, Step
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.chebyshev import Passes, fitted, plain
from wirelessdl.mixing import Mixing, expected_spectrum
from wirelessdl.power.problem import PowerPlan
from wirelessdl.radio.frame_channel import FrameChannel, SlotChannel

_MAX_NODES_EVERY_FRAME = 64  # up to which the spectrum of every frame is worth computing


@dataclass(frozen=True, eq=False)
class Emission:
    """What the weights of a step rest on: its gains, and who sends how.

    source: "w", or what nodes hold; amplitude: [K] square root of the power that each sender's v has; listening: [K]
    nodes that take the mean of what they hear; turn: [K] in which each node sends.
    """

    source: Literal["w", "held"]
    channel: FrameChannel
    plan: PowerPlan
    amplitude: FloatArray
    listening: BoolArray
    turn: IntArray


class MixingPasses:
    """Decides on passes; keeps the spectrum of large networks. weigh: `Weigher.weigh`."""

    def __init__(self, kind: str, weigh: Callable[[Emission], Any]):
        self._kind, self._weigh = kind, weigh
        self._expected: NDArray[Any] | None = None
        self._kept: dict[int, Passes] = {}

    def expect(self, channel: FrameChannel, plan: PowerPlan, turn: IntArray) -> None:
        """Learn the mean gains of a large network from its first frame."""
        nodes = channel.links.nodes
        if self._kind == "plain" or nodes <= _MAX_NODES_EVERY_FRAME or not channel.further:
            return
        mean = replace(channel, slots=(SlotChannel(channel.mean, channel.mean),), further=(), subbands=1)
        amplitude = np.sqrt(plan.alpha * plan.power_w)
        weights = self._weigh(Emission("held", mean, plan, amplitude, np.zeros(nodes, dtype=bool), turn))
        self._expected = expected_spectrum(weights.known)

    def steps(self, given: Sending, release: Step) -> tuple[Step, ...]:
        """The steps of a frame that begins with `release`: as many passes follow as its channel has gains for."""
        channels = given.channel.further_steps()
        if not channels:
            return (release,)
        on_air, power_w = given.on_air, given.plan.power_w / given.held_square
        amplitude, nobody = np.sqrt(power_w), np.zeros(len(on_air), dtype=bool)
        limit = np.where(on_air, given.held_square, np.inf)
        passes = self._coefficients(1 + len(channels), release.weights.known, on_air)
        each = zip(
            *(
                np.where(on_air, value[:, None], plainly)
                for value, plainly in ((passes.heard, 1.0), (passes.before, 0.0))
            )
        )
        first, *rest = ({"heard": heard, "before": before} for heard, before in each)
        sent = given.plan, amplitude, nobody, given.turns.turn
        weights = [self._weigh(Emission("held", one, *sent)) for one in channels]
        held = (Step("held", of, power_w, **taken, limit=limit) for of, taken in zip(weights, rest))
        return (replace(release, **first), *held)

    def _coefficients(self, count: int, mixing: Mixing, on_air: BoolArray) -> Passes:
        if self._kind == "plain":
            return plain(count)
        if self._expected is not None:
            if count not in self._kept:
                self._kept[count] = fitted(count, self._expected)
            return self._kept[count]
        senders = np.flatnonzero(on_air)
        return fitted(count, np.linalg.eigvals(mixing.dense[np.ix_(senders, senders)]))


def noise_of_mean(
    steps: Sequence[Step], on_air: BoolArray, sent: FloatArray, receiver_w: FloatArray
) -> tuple[float, float]:
    """Variance per coordinate that senders and receivers add to the mean model of those on air, in one frame.

    sent: [K] variance of the noise that each sends and no partner takes away, in units of models; receiver_w: [K] noise
    of each receiver, W. Blocks carry disjoint coordinates: their mean counts. Passes keep the senders' part of the mean
    as it is, and add receiver noise of their own.
    """
    count = max(int(on_air.sum()), 1)
    actual = steps[0].weights.actual
    share = np.where(on_air, actual.own, 0.0)
    np.add.at(share, actual.links.tx, actual.link * on_air[actual.links.rx])
    privacy = float(np.sum(np.where(on_air, share**2 * sent, 0.0))) / count**2

    def received(step: Step) -> float:
        square = np.mean([slot.actual.scale**2 for slot in step.weights.slots], axis=0)
        return float(np.sum(np.where(on_air, square * receiver_w, 0.0))) / count**2

    sender = int(np.argmax(on_air))
    taken = (np.array([getattr(step, name)[sender] for step in steps]) for name in ("heard", "before"))
    return privacy, float(Passes(*taken).to_mean() ** 2 @ [received(step) for step in steps])
