"""What a frame sees, what models carry from one to the next, and a state to go on from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Links


@dataclass(frozen=True, eq=False)
class SlotChannel:
    """The air of one slot, per link that is heard: |h|, the receivers' estimate, and the error of the phase."""

    gain: FloatArray
    gain_est: FloatArray
    phase_rad: FloatArray | None = None

    def where(self, keep: BoolArray) -> "SlotChannel":
        gain, phase = self.gain[keep], None if self.phase_rad is None else self.phase_rad[keep]
        return SlotChannel(gain, gain if self.gain_est is self.gain else self.gain_est[keep], phase)


@dataclass(frozen=True, eq=False)
class FrameChannel:
    """The air of a frame.

    `links` are the graph's, `heard` all that reach a receiver: the same, unless interference is physical;
    then `inside` says which of them are links. `mean` is |h| over small-scale fading, per link that is heard.
    `jam_w[K]` is what a jammer adds at receivers, None where nobody does.
    """

    links: Links
    heard: Links
    inside: BoolArray | None
    mean: FloatArray
    slots: tuple[SlotChannel, ...]
    jam_w: FloatArray | None = None
    blocked: BoolArray | None = None  # of all that is heard, what faults take away; None: nothing

    def of_links(self, values: FloatArray) -> FloatArray:
        """Only the graph's links of values for all that is heard."""
        return values if self.inside is None else values[self.inside]

    @cached_property
    def gain(self) -> FloatArray:
        """|h| of the graph's links in the first slot."""
        return self.of_links(self.slots[0].gain)

    @cached_property
    def gain_est(self) -> FloatArray:
        """Its estimate."""
        perfect = self.slots[0].gain_est is self.slots[0].gain
        return self.gain if perfect else self.of_links(self.slots[0].gain_est)

    @cached_property
    def mean_gain(self) -> FloatArray:
        """|h| of the graph's links over small-scale fading."""
        return self.of_links(self.mean)

    def among(self, on_air: BoolArray, present: BoolArray | None = None) -> "FrameChannel":
        """Only what is heard of the senders on air, by receivers who are there."""
        keep = on_air[self.heard.tx]
        if present is not None:
            keep = keep & present[self.heard.rx]
        return self.only(keep)

    def across(self, classes: BoolArray) -> "FrameChannel":
        """Only links from one class of nodes to the other."""
        return self.only(classes[self.heard.rx] != classes[self.heard.tx])

    def unblocked(self, *, silent: bool) -> "FrameChannel":
        """Without blocked links: nothing of them is heard, or, unless `silent`, they are only no neighbours'."""
        if self.blocked is None or not self.blocked.any():
            return self
        if silent or self.inside is None:
            return self.only(~self.blocked)
        inside = self.inside & ~self.blocked
        return replace(self, links=self.heard.where(inside), inside=inside)

    def only(self, keep: BoolArray) -> "FrameChannel":
        """Only some of what is heard."""
        if keep.all():
            return self
        heard = self.heard.where(keep)
        return replace(
            self,
            links=heard if self.inside is None else self.links.where(keep[self.inside]),
            heard=heard,
            inside=None if self.inside is None else self.inside[keep],
            mean=self.mean[keep],
            slots=tuple(slot.where(keep) for slot in self.slots),
            blocked=None if self.blocked is None else self.blocked[keep],
        )


def root_mean_square(slots: list[FloatArray]) -> FloatArray:
    """Over the slots of a frame; of one, itself."""
    return slots[0] if len(slots) == 1 else np.sqrt(np.mean(np.square(slots), axis=0))


@dataclass
class Carried:
    """The gradient each node's model carries but has not sent: its rate and multiplier, 0 for none."""

    gamma: FloatArray
    multiplier: FloatArray


@dataclass(frozen=True, eq=False)
class Replay:
    """A state to go on from: what `Engine.state` and `Engine.checksums` gave after a round."""

    round: int
    arrays: Mapping[str, NDArray[Any]]
    checksums: Mapping[str, int]
