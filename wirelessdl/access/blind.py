"""Blind reception: nobody aligns, and receivers tell senders apart by several antennas (`radio.alignment = "none"`).

    y_i = sum_j h_ij sqrt(P_j) w_j + noise,   h_ij in C^M        every sender at once, at the power of its plan
    v_i = (D sum_j g_ij g_ij^H + N0 I)^-1 D sum_j g_ij / d       g_ij = h_ij sqrt(P_j), as i estimates it; d senders
    u_ij = v_i^H g_ij / sum_k v_i^H g_ik                         sums to 1: real parts to 1, imaginary parts to 0
    s_i = (1 - a_i) w_i + a_i sum_j (Re u_ij w_j + Im u_ij J w_j) + a_i |v_i| / |sum_k v_i^H g_ik| noise
    a_i = min(1/2, 1 / (1 + S_i)),   S_i = sum_j |u_ij|^2 + |v_i|^2 N0 / (D |sum_k v_i^H g_ik|^2)

    D    mean square by which what nodes send differs, per coordinate as N0 is; J: a coordinate for its pair's other one

v is linear reception of least error for the sum of what differs, and u leaves what all have in common as it is. With M
of at least d antennas and without noise u = 1/d. a is the share of least disagreement, by S_i.

**D is public**: noise variance that the plan gives senders, and the square of a whole step of the schedule; in a mixing
pass what S and a leave of it on average. It is never measured on models, so weights are data-free, and what nodes hold
is post-processing: own and coalition totals hold as they are. Several antennas do separate senders, so nobody else's
noise hides one: links are not accounted for.

**Weights are row-stochastic, not doubly.** Columns sum to 1 on average over fading alone, so noise that pairs share
does not cancel in the network's mean: a share `MeanErrors.alignment` of it stays, which `plan` reports and the
automatic pair ratio counts. Every gradient counts by its column, which is 1 on average too.

Pilots of all nodes open a frame, in every part of the payload; receivers estimate h of every antenna. Nobody needs
to know a channel to send. What arrives late by less than a cyclic prefix is part of h: flight time is a phase, timing
errors are none. Non-neighbours that are heard (`radio.interference = "physical"`) come in with what v makes of them.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wirelessdl.access import AirSettings, Carried, CarryPreview, MeanErrors, Sending, Step, halves
from wirelessdl.access.passes import Emission
from wirelessdl.access.weights import FrameWeights, SlotWeights, Weigher, under_offsets
from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.channel.antennas import Complex, towards_sum
from wirelessdl.links import Geometry, Links
from wirelessdl.mixing import Mixing
from wirelessdl.power.problem import PowerPlan
from wirelessdl.radio.frame_channel import FrameChannel, SlotChannel

if TYPE_CHECKING:
    from wirelessdl.radio.frame import Turns

_PREVIEWED = 12  # frames of fading, over which what a frame does to the mean is averaged


@dataclass(frozen=True, eq=False)
class Received:
    """What receivers make of one block. known, actual: a u of the graph's links and of all that is heard, by estimates
    and as they are. share: a of each, `[K]`; scale: of its noise, `[K]`; left: mean of what is left of D, as a share.
    """

    known: NDArray[np.complex128]
    actual: NDArray[np.complex128]
    share: FloatArray
    scale: FloatArray
    left: float


def receive(
    links: Links, heard: Links, h_est: Complex, h: Complex, noise: FloatArray, listening: BoolArray
) -> Received:
    """Weights of all receivers. h_est: [M, links]; h: [M, heard], both times amplitudes; noise: [K] N0 / D."""
    known, actual = np.zeros(len(links), np.complex128), np.zeros(len(heard), np.complex128)
    share, scale, left = np.zeros(links.nodes), np.zeros(links.nodes), np.ones(links.nodes)
    ends, all_ends = (np.searchsorted(of.rx, np.arange(of.nodes + 1)) for of in (links, heard))
    for node in np.flatnonzero(np.diff(ends)).tolist():
        own = slice(ends[node], ends[node + 1])
        v = towards_sum(h_est[:, own], float(noise[node]))
        whole = np.vdot(v, h_est[:, own].sum(axis=1)).real
        if not whole > 0:  # nobody is heard, or all estimates cancel
            continue
        known[own] = v.conj() @ h_est[:, own] / whole
        every = slice(all_ends[node], all_ends[node + 1])
        actual[every] = v.conj() @ h[:, every] / whole
        noisy = np.linalg.norm(v) / whole
        apart = float(np.sum(np.abs(known[own]) ** 2) + noisy**2 * noise[node])
        a = 1.0 if listening[node] else min(0.5, 1.0 / (1.0 + apart))
        share[node], scale[node], left[node] = a, a * noisy, (1.0 - a) ** 2 + a**2 * apart
    return Received(known * share[links.rx], actual * share[heard.rx], share, scale, float(left.mean()))


class BlindCarrier(Weigher):
    """Weights of every payload and pass from its own gains; passes average plainly."""

    def __init__(self, given: AirSettings):
        super().__init__(replace(given, mixing="plain"))
        self._given = given
        self._apart, self._noise_w = 1.0, np.full(len(given.power_w), given.thermal_w)

    def expect(self, channel: FrameChannel, plan: PowerPlan, schedule: "Turns") -> None:
        """Passes follow nothing but their own gains."""

    def carry(self, given: Sending) -> Carried:
        jammer_w = given.channel.jammer_w
        self._apart = given.apart_square
        self._noise_w = np.full(len(given.on_air), self._given.thermal_w) + (0.0 if jammer_w is None else jammer_w)
        carried = super().carry(given)
        missed = np.abs(_columns(carried.steps, given.on_air) - 1.0)
        return replace(carried, rounds={"column_error": float(np.sqrt(np.mean(missed**2))) if missed.size else np.nan})

    def weigh(self, of: Emission) -> FrameWeights:
        """Of a step; each that follows finds less disagreement."""
        channel = of.channel
        found = [self._received(of, slot) for slot in channel.slots]
        self._apart *= float(np.mean([one.left for one in found]))
        return FrameWeights(tuple(self._weights(channel, slot, one) for slot, one in zip(channel.slots, found)))

    def _received(self, of: Emission, slot: SlotChannel) -> Received:
        channel, amplitude = of.channel, of.amplitude
        links, heard = channel.links, channel.heard
        assert slot.antennas is not None
        assert slot.antennas_est is not None
        h = slot.antennas * amplitude[heard.tx]
        if slot.phase_rad is not None:  # what carriers turn after the pilots
            h = h * np.exp(1j * slot.phase_rad)
        estimate = slot.antennas_est if channel.neighbour is None else slot.antennas_est[:, channel.neighbour]
        return receive(links, heard, estimate * amplitude[links.tx], h, self._noise_w / self._apart, of.listening)

    def _weights(self, channel: FrameChannel, slot: SlotChannel, found: Received) -> SlotWeights:
        links, heard, own = channel.links, channel.heard, 1.0 - found.share
        known = Mixing(links, found.known.real, own, found.scale)
        if self._offsets is not None:
            turned = replace(slot, phase_rad=np.angle(found.actual))
            return under_offsets(known, heard, np.abs(found.actual), turned, self._offsets)
        actual = Mixing(heard, found.actual.real, own, found.scale)
        return SlotWeights(known, actual, Mixing(heard, found.actual.imag, np.zeros_like(own), found.scale))

    def errors(self, size: FloatArray, server: FloatArray | None = None) -> MeanErrors:
        """Means over realisations of Rayleigh fading, with everyone on air at full power. size: [K, K] combined |h|.

        alignment: mean square by which columns miss 1: what stays of noise that pairs share, and what own noise gains.
        """
        given, nodes, rng = self._given, len(size), np.random.default_rng(0)  # the same every time
        middle = np.full((nodes, nodes), 1.0 / nodes)
        receiver, missed, apart = 0.0, 0.0, 0.0
        for _ in range(_PREVIEWED):
            product, noise = np.eye(nodes, dtype=np.complex128), np.zeros(nodes)
            left = 1.0
            for _ in range(1 + given.passes):
                links, found = self._sampled(size, rng, left)
                weights = np.diag(1.0 - found.share).astype(np.complex128)
                weights[links.rx, links.tx] = found.actual
                product = weights @ product
                noise = np.abs(weights) ** 2 @ noise + found.scale**2 * given.thermal_w
                left *= found.left
            columns = product.sum(axis=0)
            receiver += float(noise.sum()) / nodes / _PREVIEWED
            missed += float(np.mean(np.abs(columns - 1.0) ** 2)) / _PREVIEWED
            apart += float(np.linalg.norm(product - middle, 2)) / _PREVIEWED
        return MeanErrors(receiver, missed, min(1.0, apart) ** (1 + given.closing))

    def _sampled(self, size: FloatArray, rng: np.random.Generator, left: float) -> tuple[Links, Received]:
        """A step with gains of this size. left: of disagreement, as a share of what one node sends."""
        given, array, nodes = self._given, self._given.array, len(size)
        hears = size > 0
        if given.half_duplex:
            first = halves(nodes, rng)
            hears = hears & (first[:, None] != first)
        links = Links.from_mask(hears, Geometry.at_rest(np.zeros((nodes, 3))))
        real, imaginary = rng.normal(size=(2, array.count, len(links)))
        h = array.correlated(real + 1j * imaginary) * np.sqrt(0.5 * given.power_w[links.tx] / array.count)
        h = h * links.vector(size)
        noise = np.full(nodes, given.thermal_w / left)
        return links, receive(links, links, h, h, noise, np.zeros(nodes, dtype=bool))

    def preview(self, channel: FrameChannel, schedule: "Turns", pool: FloatArray) -> CarryPreview | None:
        given, nodes = self._given, channel.heard.nodes
        found = self.errors(channel.links.matrix(channel.mean_gain))
        heard, antennas = len(channel.links) / nodes, given.array.count
        return CarryPreview(
            {
                "antennas": antennas,
                "heard": heard,
                "disagreement": found.apart,
                "mean_noise_share": found.alignment,
            },
            f"{antennas} antennas for {heard:.3g} senders; {found.apart:.2g} of disagreement left a round; "
            f"{found.alignment:.2g} of the variance that a node sends, noise of pairs included, stays in the mean",
            float(np.sqrt(found.receiver / nodes)),
            title="blind",
        )


def _columns(steps: tuple[Step, ...], on_air: BoolArray) -> Complex:
    """By what each sender counts in the sum of all models on air after these steps, `[slots, senders]`."""
    found = []
    for slot in range(len(steps[0].weights.slots)):
        column = on_air.astype(np.complex128)
        for block in (step.weights.slots[slot] for step in reversed(steps)):
            turned = block.crosstalk if block.symbols is None else block.symbols.crosstalk
            straight = np.asarray(block.actual.compact.T @ column)
            column = straight if turned is None else straight + 1j * np.asarray(turned.compact.T @ column)
        found.append(column[on_air])
    return np.stack(found)
