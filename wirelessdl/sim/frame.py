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
class Reception:
    """The air of one slot, per link that is heard: |h|, the receivers' estimate, and the error of the phase."""

    gain: FloatArray
    gain_est: FloatArray
    phase_rad: FloatArray | None = None

    def where(self, keep: BoolArray) -> "Reception":
        phase = None if self.phase_rad is None else self.phase_rad[keep]
        return Reception(self.gain[keep], self.gain_est[keep], phase)


@dataclass(frozen=True, eq=False)
class Seen:
    """The air of a frame.

    `links` are the graph's, `heard` all that reach a receiver: the same, unless interference is physical;
    then `inside` says which of them are links. `mean` is |h| over small-scale fading, per link that is heard.
    """

    links: Links
    heard: Links
    inside: BoolArray | None
    mean: FloatArray
    slots: tuple[Reception, ...]

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

    def among(self, on_air: BoolArray) -> "Seen":
        """Only what is heard of the senders on air."""
        if on_air.all():
            return self
        keep = on_air[self.heard.tx]
        return replace(
            self,
            links=self.links.where(on_air[self.links.tx]),
            heard=self.heard.where(keep),
            inside=None if self.inside is None else self.inside[keep],
            mean=self.mean[keep],
            slots=tuple(slot.where(keep) for slot in self.slots),
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
