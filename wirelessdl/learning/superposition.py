"""Superposition and update on the batch: the paper's eq. 7-13 as a few calls on [K, m].

w = x + sqrt(beta/alpha) eta        what each node sends, in units of its model
s = A w + thermal / (c (d + 1))     what each node holds after the slot
x <- Proj(s - gamma mult g)

A payload too long for the channel to hold still is sent in several slots, each with weights of its own;
each carries a segment of the coordinates. Two coordinates share a complex symbol, so a phase error turns
one into the other: s = (A cos) w + (A sin) Jw, J (a, b) = (-b, a).

Under carrier and timing offsets, with symbols n = 0 .. N - 1:

    y_i(n) = e^(-j theta_i(n)) sum_j e^(j theta_j(n)) sum_k A_ij(k) w_j(n - k)
    theta_j(n) = ramp_j (n - (N - 1)/2)

    A_ij(k)   complex weight of the symbol itself (k = 0) and of those k earlier (k > 0) or later; cos + j sin
    ramp_j    phase that node j's carrier gains from symbol to symbol

Phases are those at the receiver's time, whatever symbol is heard then, so only differences of carriers matter. A
carrier's phase is a property of its node, so what would be a weight per symbol and link is a mixing of turned symbols.

Messages are not superposed: what is sent in one is Q(w), see `Quantizer`.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.learning.clipping import clip_factor, wide


def mixing_tensor(weights: FloatArray | csr_array, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A[rx, tx] on the device, sparse where it came sparse and the device can."""
    if not isinstance(weights, csr_array):
        return torch.as_tensor(weights).to(device=device, dtype=dtype, non_blocking=True)
    if device.type == "mps":
        return mixing_tensor(weights.toarray(), device, dtype)
    with warnings.catch_warnings():  # "in beta state": the one operation used here is tested
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(weights.indptr),
            torch.from_numpy(weights.indices),
            torch.from_numpy(weights.data),
            weights.shape,
        ).to(device=device, dtype=dtype)


@dataclass(frozen=True, eq=False)
class Shifted:
    """Weights A[rx, tx] of symbols sent `delay` symbols earlier, and the same by the sine of phases; None without."""

    delay: int
    weights: FloatArray | csr_array
    crosstalk: FloatArray | csr_array | None


@dataclass(frozen=True, eq=False)
class SymbolOffsets:
    """Of one slot. ramp_rad: [K] rad per symbol, None without; shifted: all symbols heard but the one itself."""

    ramp_rad: FloatArray | None
    symbols: int
    shifted: tuple[Shifted, ...]


@dataclass(frozen=True, eq=False)
class Values:
    """What each receiver gets apart, value by value (`learning/robust`): v = mixing w + crosstalk J w + noise.

    receiver: [P] rising. weight: [P] share in the plain mean. mixing, crosstalk: [P, K], rows of mixing sum to 1 but
    for errors of estimation. deviation: [P] of receiver noise. own: [K] weight of a node's own w.
    """

    receiver: IntArray
    weight: FloatArray
    mixing: FloatArray
    crosstalk: FloatArray | None
    deviation: FloatArray
    own: FloatArray

    @property
    def rank(self) -> IntArray:
        """Number of each value among those of its receiver, `[P]`."""
        count = np.bincount(self.receiver, minlength=1)
        return np.arange(len(self.receiver)) - (np.cumsum(count) - count)[self.receiver]


@dataclass(frozen=True, eq=False)
class Segment:
    """Coordinates that one slot carries, and what it makes of them; scales are per node, weights are A[rx, tx]."""

    coordinates: slice
    weights: FloatArray | csr_array
    crosstalk: FloatArray | csr_array | None  # the same by the sine of phase errors; None without any
    thermal_scale: FloatArray  # tau / (c (d + 1))
    self_interference_scale: FloatArray  # of own emission at the own receiver, likewise, per unit of ||w|| / sqrt(m)
    offsets: SymbolOffsets | None = None
    values: Values | None = None  # where receivers keep values apart, in place of weights

    @property
    def receiver_noise(self) -> bool:
        """Whether receivers add anything."""
        return bool(self.thermal_scale.any() or self.self_interference_scale.any())


def one_slot(parameters: int, weights: FloatArray | csr_array, thermal_scale: FloatArray) -> tuple[Segment, ...]:
    """A payload that goes in one slot, between receivers who hear neither phase errors nor themselves."""
    return (Segment(slice(0, parameters), weights, None, thermal_scale, np.zeros_like(thermal_scale)),)


class Superposer:
    """Computes s = A w segment by segment; weights that did not change stay on the device."""

    def __init__(self, device: torch.device, dtype: torch.dtype):
        self._device, self._dtype = device, dtype
        self._turns: tuple[FloatArray, Tensor, Tensor] | None = None  # of carriers, the same in every slot
        self._kept: dict[tuple[int, str], tuple[Any, Tensor]] = {}

    def superpose(self, segments: tuple[Segment, ...], sent: Tensor, out: Tensor) -> None:
        """s = A w, added to `out`, which may hold receiver noise already."""
        for number, segment in enumerate(segments):
            part = segment.coordinates
            whole = (
                len(segments) == 1 or segment.offsets is None
            )  # products take columns of a larger matrix as they lie
            here, heard = out[:, part], sent[:, part]
            if not whole:
                here, heard = here.contiguous(), heard.contiguous()
            if segment.offsets is None:
                self._add(number, "", segment.weights, segment.crosstalk, heard, here)
            else:
                self._add_under_offsets(number, segment, segment.offsets, heard, here)
            if not whole:
                out[:, part] = here

    def weights(self, number: int, segment: Segment) -> Tensor:
        """A of a slot, on the device; number: of the slot in its frame."""
        return self._weights((number, ""), segment.weights)

    def _add(
        self,
        number: int,
        path: str,
        weights: FloatArray | csr_array,
        crosstalk: FloatArray | csr_array | None,
        heard: Tensor,
        out: Tensor,
    ) -> None:
        out.addmm_(self._weights((number, path), weights), heard)
        if crosstalk is not None:
            out.addmm_(self._weights((number, f"{path} crosstalk"), crosstalk), quadrature(heard))

    def _add_under_offsets(
        self, number: int, segment: Segment, offsets: SymbolOffsets, sent: Tensor, out: Tensor
    ) -> None:
        """Symbols are shifted, turned by their senders' carriers, mixed, and turned back by the receivers' carriers.

        A node's own term is turned there and back. Receiver noise, already in `out`, is circular: it stays as it is.
        """
        # with a zero for the missing half of a last symbol
        symbols = sent if sent.shape[1] % 2 == 0 else torch.nn.functional.pad(sent, (0, 1))
        ramp = None
        if offsets.ramp_rad is not None:
            ramp = self._ramp(offsets.ramp_rad, offsets.symbols, symbols.shape[1] // 2)
        got = torch.zeros_like(symbols)
        for part in (Shifted(0, segment.weights, segment.crosstalk), *offsets.shifted):
            moved = delayed(symbols, part.delay) if part.delay else symbols
            heard = moved if ramp is None else turned(moved, *ramp)
            self._add(number, f"{part.delay:+d}" if part.delay else "", part.weights, part.crosstalk, heard, got)
        if ramp is not None:
            got = turned(got, ramp[0], -ramp[1])
        out.add_(got[:, : out.shape[1]])

    def _ramp(self, ramp_rad: FloatArray, symbols: int, count: int) -> tuple[Tensor, Tensor]:
        """Cosine and sine of the first `count` of a slot's symbols, `[K, count]` each."""
        if self._turns is None or self._turns[0] is not ramp_rad:
            angle = ramp_rad[:, None] * (np.arange(symbols) - 0.5 * (symbols - 1))
            cos, sin = (
                torch.as_tensor(part).to(device=self._device, dtype=self._dtype)
                for part in (np.cos(angle), np.sin(angle))
            )
            self._turns = (ramp_rad, cos, sin)
        return self._turns[1][:, :count], self._turns[2][:, :count]

    def _weights(self, place: tuple[int, str], weights: FloatArray | csr_array) -> Tensor:
        kept = self._kept.get(place)
        if kept is None or kept[0] is not weights:
            kept = self._kept[place] = (weights, mixing_tensor(weights, self._device, self._dtype))
        return kept[1]


def turned(w: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Each symbol turned by its angle, of which cosine and sine are given, `[K, N]`."""
    a, b = w[:, 0::2], w[:, 1::2]
    out = torch.empty_like(w)
    torch.sub(a * cos, b * sin, out=out[:, 0::2])
    torch.add(a * sin, b * cos, out=out[:, 1::2])
    return out


def delayed(w: Tensor, symbols: int) -> Tensor:
    """Each symbol in the place of a later one, or of an earlier one where negative; zero from outside the slot."""
    out = torch.zeros_like(w)
    by = 2 * abs(symbols)
    if symbols > 0:
        out[:, by:] = w[:, :-by]
    else:
        out[:, :-by] = w[:, by:]
    return out


def quadrature(w: Tensor) -> Tensor:
    """Jw: pairs (a, b) become (-b, a); a last one without a partner has none to trade with."""
    turned = torch.zeros_like(w)
    pairs = w.shape[1] // 2
    torch.neg(w[:, 1::2], out=turned[:, 0 : 2 * pairs : 2])
    turned[:, 1::2] = w[:, 0 : 2 * pairs : 2]
    return turned


def receiver_deviation(thermal: Tensor, interference: Tensor, power: Tensor | None) -> Tensor:
    """Deviation of what receivers add: thermal noise, and what remains of their own emission.

    The latter follows what was really sent, noise included, so it tells no more than the release itself.
    """
    return thermal if power is None else (thermal.square() + interference.square() * power.unsqueeze(1)).sqrt()


def project_(x: Tensor, radius: float) -> Tensor:
    """Each row onto the ball of a radius about 0, in place; scaled right to (sqrt(m) + 6) u, u the unit roundoff."""
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    # nothing to do, where asking is free; this norm may be off by m u
    if norm.device.type == "cpu" and bool((norm <= (1.0 - 1e-6) * radius).all()):
        return x
    step = min(x.shape[1], math.isqrt(x.shape[1]) + 1)
    parts, rest = x.unfold(1, step, step), x[:, x.shape[1] // step * step :]
    norms = [torch.linalg.vector_norm(parts, dim=2)]
    if rest.shape[1]:
        norms.append(torch.linalg.vector_norm(rest, dim=1, keepdim=True))
    norm = torch.linalg.vector_norm(torch.cat(norms, dim=1), dim=1, keepdim=True)
    return x.mul_(clip_factor(norm, radius))


def consensus_distance(x: Tensor, scratch: Tensor | None = None) -> Tensor:
    """Root mean square distance of the rows from their mean; `scratch` is overwritten."""
    apart: Tensor = torch.linalg.vector_norm(torch.sub(x, x.mean(dim=0), out=scratch), dim=1)
    return apart.square_().mean().sqrt_()


@dataclass(frozen=True)
class Quantizer:
    """A stochastic uniform quantiser, unbiased whatever it is given. b bits per coordinate, one scale per block.

        w in a block, |w| <= c        c = max |w| of the block, rounded up to single precision, which is what is sent
        step = 2 c / (2^b - 1)        2^b levels from -c to c
        Q(w) = step floor((w + c) / step + u) - c,   u uniform on [0, 1)

        E[Q(w)] = w                   floor(v + u) is v on average
        |Q(w) - w| <= step            variance step^2 f (1 - f), f the fractional part: at most step^2 / 4

    Nothing is ever clipped, since c is the largest of the block. c depends on data, so it must come from the model
    *with its noise*. Then levels and scales are functions of the noisy model and of u alone, and epsilon is that of the
    noisy model (post-processing). A scale from the model without noise would tell its largest coordinate.
    """

    bits: int
    block: int

    def apply_(self, w: Tensor, dither: Tensor) -> None:
        """Q(w) in place of w, `[n, m]`. dither: u, `[n, m]` in the widest numbers."""
        size = w.shape[1]
        whole = size - size % self.block
        for start, stop, width in ((0, whole, self.block), (whole, size, size - whole)):
            if start < stop:
                self._apply_blocks(w[:, start:stop], dither[:, start:stop], width)

    def _apply_blocks(self, w: Tensor, dither: Tensor, width: int) -> None:
        """The same for blocks of one width."""
        top = float(2**self.bits - 1)
        value = w.to(wide(w.device)).reshape(len(w), -1, width)
        scale = single_above(value.abs().amax(dim=2, keepdim=True))
        step = (2.0 / top) * scale
        level = torch.where(step > 0, (value + scale) / step, 0.0).add_(dither.reshape(value.shape))
        w.copy_(level.floor_().clamp_(0.0, top).mul_(step).sub_(scale).reshape(w.shape))


def single_above(values: Tensor) -> Tensor:
    """The least single-precision numbers that are not below these, in their own precision."""
    single = values.to(torch.float32)
    below = single.to(values.dtype) < values
    up = torch.nextafter(single, torch.full_like(single, torch.inf))
    return torch.where(below, up, single).to(values.dtype)
