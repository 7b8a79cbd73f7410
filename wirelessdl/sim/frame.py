"""What a frame sees, what models carry from one to the next, and a state to go on from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Links


@dataclass(frozen=True, eq=False)
class Seen:
    """The air as a frame opens: per link, |h|, its mean over fading, and the receivers' estimate."""

    links: Links
    gain: FloatArray
    mean_gain: FloatArray
    gain_est: FloatArray

    def among(self, on_air: BoolArray) -> "Seen":
        """Only what is heard of the senders on air."""
        if on_air.all():
            return self
        keep = on_air[self.links.tx]
        return Seen(self.links.where(keep), self.gain[keep], self.mean_gain[keep], self.gain_est[keep])


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
