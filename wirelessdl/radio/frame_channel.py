"""The channel of one frame: gains, estimates and phase errors of everything that a receiver hears; its SINR.

    SINR[i, j] = |h_ij|^2 P_j / (thermal + jammer_i + own residual_i + sum of non-neighbours |h_ik|^2 P_k)

Neighbours do not interfere with each other: their sum is what the receiver wants. SNR counts thermal noise alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.links import Links
from wirelessdl.units import to_db


@dataclass(frozen=True, eq=False)
class SlotChannel:
    """The channel of one resource block, a subband of a payload slot: arrays over the links that are heard.

    gain: [links] |h|, of several antennas combined; gain_est: [links] the receivers' estimate of it; phase_rad: [links]
    phase error, None without any; late: [links] by how many symbols what is sent arrives late, None where all is in
    step. antennas, antennas_est: [M, links] complex h of every antenna and its estimate; None where it does not matter.
    """

    gain: FloatArray
    gain_est: FloatArray
    phase_rad: FloatArray | None = None
    late: FloatArray | None = None
    antennas: NDArray[np.complex128] | None = None
    antennas_est: NDArray[np.complex128] | None = None

    def where(self, keep: BoolArray) -> "SlotChannel":
        phase, late, h, h_est = (
            None if values is None else values[..., keep]
            for values in (self.phase_rad, self.late, self.antennas, self.antennas_est)
        )
        gain = self.gain[keep]
        estimate = gain if self.gain_est is self.gain else self.gain_est[keep]
        return SlotChannel(gain, estimate, phase, late, h, h_est)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class ServerSight:
    """What a server and nodes know of each other as a frame opens.

    uplink: [M, K] estimated h of every antenna of the server; downlink: [K] estimated |h| from it, all antennas of a
    node combined; mean: [K] |h| of one antenna, root mean square over small-scale fading.
    """

    uplink: NDArray[np.complex128]
    downlink: FloatArray
    mean: FloatArray


@dataclass(frozen=True, eq=False)
class FrameChannel:
    """The channel of a frame, block by block: slot by slot, and in each slot subband by subband.

    links: the graph's; heard: every link that reaches a receiver, the same unless interference is physical.
    neighbour: [heard] which of them are the graph's, None where all are. mean: [heard] |h|, root mean square over
    small-scale fading. jammer_w: [K] jamming power at receivers in W, None without a jammer. blocked: [heard] links
    that a blockage takes away, None where nothing is. further: blocks of every step after the payload, likewise.
    server: None without one that works.
    """

    links: Links
    heard: Links
    neighbour: BoolArray | None
    mean: FloatArray
    slots: tuple[SlotChannel, ...]
    jammer_w: FloatArray | None = None
    blocked: BoolArray | None = None
    further: tuple[tuple[SlotChannel, ...], ...] = ()
    subbands: int = 1
    server: ServerSight | None = None

    def of_links(self, values: FloatArray) -> FloatArray:
        """Values of the graph's links, out of values for everything that is heard."""
        return values if self.neighbour is None else values[self.neighbour]

    @cached_property
    def heard_gain(self) -> FloatArray:
        """|h| in the first slot, `[heard]`, root mean square over its subbands."""
        return root_mean_square([block.gain for block in self.slots[: self.subbands]])

    @cached_property
    def heard_gain_est(self) -> FloatArray:
        """Its estimate, likewise."""
        first = self.slots[: self.subbands]
        if all(block.gain_est is block.gain for block in first):
            return self.heard_gain
        return root_mean_square([block.gain_est for block in first])

    @cached_property
    def gain(self) -> FloatArray:
        """|h| of the graph's links in the first slot, root mean square over its subbands."""
        return self.of_links(self.heard_gain)

    @cached_property
    def gain_est(self) -> FloatArray:
        """Its estimate."""
        return self.gain if self.heard_gain_est is self.heard_gain else self.of_links(self.heard_gain_est)

    @cached_property
    def mean_gain(self) -> FloatArray:
        """|h| of the graph's links, root mean square over small-scale fading."""
        return self.of_links(self.mean)

    @property
    def is_neighbour(self) -> BoolArray:
        """[heard] whether each link that is heard is one of the graph's."""
        return np.ones(len(self.heard), dtype=bool) if self.neighbour is None else self.neighbour

    def further_steps(self) -> "tuple[FrameChannel, ...]":
        """The channel of every step after the payload, as if it were a payload's."""
        return tuple(replace(self, slots=slots, further=()) for slots in self.further)

    def all_heard(self, gain: FloatArray) -> tuple[Links, FloatArray] | None:
        """Everything that is heard, with its gains, where that is more than the graph's links."""
        return None if self.neighbour is None else (self.heard, gain)

    def among(self, senders: BoolArray, receivers: BoolArray) -> "FrameChannel":
        """Only links from these senders to these receivers, both `[K]`."""
        return self.only(senders[self.heard.tx] & receivers[self.heard.rx])

    def unblocked(self, *, still_heard: bool) -> "FrameChannel":
        """Without blocked links. still_heard: under physical interference they are heard on as interference."""
        if self.blocked is None or not self.blocked.any():
            return self
        if not still_heard or self.neighbour is None:
            return self.only(~self.blocked)
        neighbour = self.neighbour & ~self.blocked
        return replace(self, links=self.heard.where(neighbour), neighbour=neighbour)

    def only(self, keep: BoolArray) -> "FrameChannel":
        """Only some of what is heard, `[heard]`."""
        if keep.all():
            return self
        heard = self.heard.where(keep)
        return replace(
            self,
            links=heard if self.neighbour is None else self.links.where(keep[self.neighbour]),
            heard=heard,
            neighbour=None if self.neighbour is None else self.neighbour[keep],
            mean=self.mean[keep],
            slots=tuple(slot.where(keep) for slot in self.slots),
            further=tuple(tuple(slot.where(keep) for slot in slots) for slots in self.further),
            blocked=None if self.blocked is None else self.blocked[keep],
        )


def root_mean_square(slots: Sequence[FloatArray]) -> FloatArray:
    """Over blocks of a frame; of one block, itself."""
    return slots[0] if len(slots) == 1 else np.sqrt(np.mean(np.square(slots), axis=0))


def sinr_db(
    heard: Links, neighbour: BoolArray, gain: FloatArray, *, power_w: FloatArray, noise_w: FloatArray, turn: IntArray
) -> FloatArray:
    """SINR of all that is heard, `[links]` dB; inf where nothing disturbs, -inf where nothing is sent."""
    return np.asarray(to_db(sinr(heard, neighbour, gain, power_w=power_w, noise_w=noise_w, turn=turn)))


def sinr(
    heard: Links, neighbour: BoolArray, gain: FloatArray, *, power_w: FloatArray, noise_w: FloatArray, turn: IntArray
) -> FloatArray:
    """The same as a ratio, `[links]`.

    neighbour: [links] which of them are wanted. power_w: [K] radiated. noise_w: [K] thermal noise, jammers and residual
    self-interference at each receiver. turn: [K] in which each node sends; only who sends in the same turn disturbs.
    """
    received_w = gain**2 * power_w[heard.tx]
    strange_w = np.where(neighbour, 0.0, received_w)
    # a non-neighbour does not disturb itself
    turns = int(turn.max(initial=0)) + 1
    place = heard.rx * turns + turn[heard.tx]
    together_w = np.bincount(place, weights=strange_w, minlength=heard.nodes * turns)
    disturbing_w = noise_w[heard.rx] + together_w[place] - strange_w
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(received_w > 0, received_w / np.maximum(disturbing_w, 0.0), 0.0)
