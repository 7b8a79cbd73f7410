"""Receive antennas: h of every antenna, and what a receiver that divides by its estimates makes of them.

    h_ij in C^M     M antennas at receiver i; sender j has one, its first. Antenna 0 is that of a single-antenna network

Losses, shadowing and line of sight are common to all antennas of a receiver. Small-scale fading and the phase of a pair
are drawn for each antenna, with E|h_a|^2 the same for all and

    E[h_a h_b*] = r^|a - b| E|h|^2,     h_a = r h_(a-1) + sqrt(1 - r^2) e_a       r: radio.antenna_correlation

which is exact for Rayleigh fading. For other fading r is that of the second moments; their mixture is closer to
Rayleigh. Between the first antennas the channel is as reciprocal as its model; the way from j's first to i's antenna a
is another than that from i's first to j's antenna a.

Maximum-ratio combining (`combined`), with g the estimate of h:

    g^H y / |g|^2 = (g^H h / |g|^2) w + noise of variance N0 / |g|^2         |g|^2 = sum over antennas

so a link has gain |g^H h| / |g|, estimate |g|, and the phase of g^H h. A node that is not to be heard comes in with the
power of one antenna: a combiner of unit norm that is matched to somebody else passes so much on average.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray, IntArray, read_only
from wirelessdl.links import Instants, Links, Motion, MovingLinks, Pairs

Complex = NDArray[np.complex128]


@dataclass(eq=False)
class Antennas:
    """Links as M antennas of their receivers hear them. count: M; correlation: r, from 0 to below 1."""

    count: int = 1
    correlation: float = 0.0
    _base: Links | None = None
    _spread: Links | None = None
    _same: dict[int, tuple[Links, Links]] = field(default_factory=dict)

    def over(self, instants: Instants) -> Instants:
        """Every link once per antenna, antenna by antenna, `[M * links]`; what follows places agrees among them."""
        places, motion, some = instants.places or instants, instants.motion, instants.chosen
        # the same objects while places hold: conditions of links are worked out once
        self._same = {
            id(links): self._same.get(id(links), (links, _copies(links, self.count))) for links in places.links
        }
        same = tuple(self._same[id(links)][1] for links in places.links)
        again = Motion(*(np.tile(of, (1, self.count, 1)) for of in (motion.position_m, motion.velocity_mps)))
        own = MovingLinks(self._numbered(instants.links[0], kept=some is None).at(again.at(0)), again)
        some = None if some is None else self.copies(some, len(places.links[0]))
        return Instants(own, instants.time_s, Instants(same, places.time_s), instants.place, chosen=some)

    def copies(self, chosen: IntArray, links: int) -> IntArray:
        """Places of some of so many links among all antennas' copies, `[M * n]`."""
        return np.asarray((chosen + links * np.arange(self.count)[:, None]).reshape(-1))

    def correlated(self, h: Complex) -> Complex:
        """h of correlated antennas from independent ones, `[..., M, links]`."""
        if self.correlation == 0:
            return h
        found, fresh = h.copy(), np.sqrt(1.0 - self.correlation**2)
        for antenna in range(1, self.count):
            found[..., antenna, :] = self.correlation * found[..., antenna - 1, :] + fresh * h[..., antenna, :]
        return found

    def _numbered(self, links: Links, *, kept: bool) -> Links:
        """Copies of a receiver, one per antenna, with numbers of their own, which select draws.

        kept: whether the same links will be asked about again.
        """
        if self._base is not None and self._spread is not None and self._base.rx is links.rx:
            return self._spread
        spread = _spread(links, self.count)
        if kept:
            self._base, self._spread = links, spread
        return spread


def _copies(links: Links, count: int) -> Links:
    return Instants((links,) * count, (0.0,) * count).stacked


def _spread(links: Links, count: int) -> Links:
    again = _copies(links, count)
    offset = links.nodes**2 * np.arange(count)[:, None]
    # antenna 0: processes of pairs; the others: of directed links
    first, others = links.pairs, slice(len(links), None)
    number = read_only((links.number + offset).reshape(-1))

    def joined(one: IntArray, more: IntArray) -> IntArray:
        return np.concatenate([one, more])

    pairs = Pairs(
        joined(first.number, number[others]),
        joined(first.low, again.tx[others]),
        joined(first.high, again.rx[others]),
        joined(first.of_link, len(first) + np.arange(len(number) - len(links))),
    )
    spread = Links(again.rx, again.tx, again.geometry)
    spread.__dict__.update(pairs=pairs, number=number, pair=read_only(pairs.number[pairs.of_link]), _repeats={})
    return spread


def combined(h: Complex, estimate: Complex) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gain, its estimate and the phase of links, `[..., links]` each, from those of antennas, `[..., M, links]`."""
    size = np.sqrt(np.sum(np.abs(estimate) ** 2, axis=-2))
    whole = np.sum(np.conj(estimate) * h, axis=-2)
    return np.asarray(np.abs(whole) / np.where(size > 0, size, 1.0)), np.asarray(size), np.angle(whole)


def towards_sum(h: Complex, noise: float) -> Complex:
    """v whose v^H h_j are closest to 1 / d for all d senders, `[M]`; h: [M, d]; noise: N0 over what differs, D.

        v = (sum_j h_j h_j^H + (N0 / D) I)^-1 sum_j h_j / d

    Of the two forms that are equal, the one whose matrix has an inverse also without noise.
    """
    antennas, senders = h.shape
    gram = h.conj().T @ h if senders <= antennas else h @ h.conj().T
    ridge = noise + 1e-15 * float(np.trace(gram).real) / len(gram)
    gram = gram + ridge * np.eye(len(gram))
    if senders <= antennas:
        return np.asarray(h @ np.linalg.solve(gram, np.full(senders, 1.0 / senders)))
    return np.asarray(np.linalg.solve(gram, h.sum(axis=1) / senders))


_TURNS = 6  # of senders' phases, after which a beam is hardly better


def beam(h: Complex) -> Complex:
    """Unit v, `[M]`, with a large least |v^H h_j|, for senders that turn and scale to it; h: [M, d] in units of noise.

    `towards_sum` of h turned as the senders turn under the v before, from the direction of most power; the best of
    these and of single antennas.
    """
    antennas = len(h)
    if antennas == 1 or h.shape[1] == 0:
        return np.asarray(np.eye(1, antennas)[0], dtype=np.complex128)
    tried = list(np.eye(antennas, dtype=np.complex128))
    v = np.linalg.eigh(h @ h.conj().T)[1][:, -1]
    for _ in range(_TURNS):
        along = v.conj() @ h
        v = towards_sum(h * np.exp(-1j * np.angle(along)), 1.0)
        v = v / np.linalg.norm(v)
        tried.append(v)
    least = np.abs(np.stack(tried).conj() @ h).min(axis=1)
    return np.asarray(tried[int(np.argmax(least))])


def heard_through(h: Complex, back: FloatArray, least: float) -> FloatArray:
    """SNR of senders through a beam towards all that reach `least`, `[d]` linear; of others below it.

    h: [M, d] in units of noise at full power; back: [d] SNR of the way back. Senders are left out one by one, the
    weakest first, until the beam towards the rest brings each of them in with `least`.
    """
    snr = np.minimum(np.sum(np.abs(h) ** 2, axis=0), back)
    chosen = np.flatnonzero(snr >= least)
    while len(chosen):
        found = np.minimum(np.abs(beam(h[:, chosen]).conj() @ h[:, chosen]) ** 2, back[chosen])
        if found.min() >= least:
            break
        chosen = np.delete(chosen, int(np.argmin(found)))
    weak = np.asarray(np.minimum(snr, least * (1.0 - 1e-9)))
    if len(chosen):
        weak[chosen] = found
    return weak
