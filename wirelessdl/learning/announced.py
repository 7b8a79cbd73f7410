"""Payloads sent at full power by the announced size of what senders hold: one receiver aligned at a time.

    rho_j        root mean square of what sender j holds, rounded up to 1/16 of an octave; announced before the payload
    need_ij      W_ij rho_j / (|g_ij| sqrt(P_j))     amplitude that weight W_ij takes of j, g: estimated h
    1 / eta_i    max_j need_ij                       in units of models: receiver i scales the sum by it
    collected    y_i = own_i v_i + sum_j W_ij c_ij (h_ij / g_ij) v_j + N(0, N0_i) / eta_i
    broadcast    the same with one sender per receiver, which sends at full power; the receiver divides by g

    h / g   true gain over its estimate, complex, in every sub-slot: what ageing and estimation leave of alignment
    c_ij    at most 1: in a sub-slot whose estimate has faded, a sender limits itself to its power

Two coordinates share a symbol, so a complex factor (a + i b) is a w + b J w. Symbols that arrive late by a share of a
symbol hold as much of the symbol before, early ones of the one after. Senders scramble symbols by a public sequence of
signs, new in every payload: what leaks from a neighbouring symbol has mean zero and does not add up over payloads.

rho is that of the holding, which is w or a function of what was received: announcing it is post-processing. It is never
that of x. A sender's power over a payload is at most P_j: c and rho see to that, and `radiated` is what it was.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wirelessdl.arrays import FloatArray, IntArray

_LEAST = float(np.finfo(np.float64).tiny)  # divides zero by itself
_PARTS_OF_OCTAVE = 16  # to which an announced rms is rounded up: 8 bits cover 96 dB


@dataclass(frozen=True)
class GroupValue:
    """What a hub collects of one group is a value of its own, and the last of them are combined (`learning/robust`).

    own: share of what the hub holds in the result.
    """

    opens: bool
    closes: bool
    own: float


@dataclass(frozen=True, eq=False)
class AnnouncedStep:
    """One payload: arrays over its links, `[links]`, and sub-slots.

    rx, tx: ends of each link. aim: the receiver that its sender is aligned to, which is rx but for what is overheard.
    weight: W of the link to `aim`. ratio: [subslots, links] h of the link over the estimate of the link to `aim`.
    announced: [subslots or 1, links] 1 / (|g| sqrt(P)) by which the sum is scaled. needed: [subslots, links] the same
    by which senders divide; None where receivers do. own: [K] weight of what a node holds. noise_w: [K] receiver noise.
    power_w: [K]. late: [links] in symbols, None for none. reaches: nodes that will hold what a receiver made of it.
    together: whether it sends what nodes held before the last step that `opens`, not what they hold by now. signs:
    [subslots, symbols] sign of each symbol in the scrambling times that of the one before; None: not scrambled. value:
    that its one receiver keeps apart; None: it holds what it made of it.
    """

    rx: IntArray
    tx: IntArray
    aim: IntArray
    weight: FloatArray
    ratio: NDArray[np.complex128]
    announced: FloatArray
    needed: FloatArray | None
    own: FloatArray
    noise_w: FloatArray
    power_w: FloatArray
    late: FloatArray | None = None
    reaches: float = 1.0
    together: bool = False
    opens: bool = True
    signs: FloatArray | None = None
    value: GroupValue | None = None

    @property
    def senders(self) -> IntArray:
        """Nodes that send, rising."""
        return self._places[2]

    @property
    def receivers(self) -> IntArray:
        """Nodes that receive, rising."""
        return self._places[0]

    @property
    def subslots(self) -> int:
        return len(self.ratio)

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Receivers and senders, rising, and the place of each link's ends among them."""
        return *_distinct(self.rx), *_distinct(self.tx)


def _distinct(node: IntArray) -> tuple[IntArray, IntArray]:
    """Nodes, rising, and the place of each entry among them; at a hub one end is the hub, the others rise."""
    if (node == node[:1]).all():
        return node[:1], np.zeros(len(node), np.int64)
    if (node[1:] > node[:-1]).all():
        return node, np.arange(len(node))
    return np.unique(node, return_inverse=True)


def announced_rms(held: Tensor) -> Tensor:
    """Root mean square of each row, rounded up to a part of an octave, `[n]`; 0 for a row of zeros."""
    rms = torch.linalg.vector_norm(held, dim=1, dtype=torch.float64) / held.shape[1] ** 0.5
    up = torch.exp2(torch.ceil(torch.log2(rms) * _PARTS_OF_OCTAVE - 1e-9) / _PARTS_OF_OCTAVE)
    return torch.where(up < rms, up * 2.0 ** (1.0 / _PARTS_OF_OCTAVE), up)  # rms that rounding found on the grid


def send_announced(
    step: AnnouncedStep, held: Tensor, noise: Tensor, sent: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What receivers make of `sent`, `[K, m]`, in place of what they held, `[K, m]`; None: what is held is sent.

    noise: [receivers, m] standard normal numbers. Returns W radiated per node on average over the payload, `[K]`, and
    the variance per coordinate that receivers add to the sum of all nodes.
    """
    sent = held if sent is None else sent
    rows, row, columns, column = step._places
    device, size = held.device, held.shape[1]

    def tensor(values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(values).to(device=device, non_blocking=True)

    senders, receivers, of_column = (tensor(part) for part in (columns, rows, column))
    v = sent.index_select(0, senders)
    rho = announced_rms(v)
    # of links whose sender is aligned to their receiver: what the sum is scaled by, [subslots or 1, receivers]
    demand = np.zeros((len(step.announced), len(rows), len(columns)))
    demand[:, row, column] = np.where(step.aim == step.rx, step.weight * step.announced, 0.0)
    scale = (tensor(demand) * rho).amax(dim=2)
    beside = bool((step.aim != step.rx).any())  # heard beside those whom a receiver has aligned
    aimed = tensor(np.searchsorted(rows, step.aim) if beside else row)
    share = factor = None  # of its amplitude that a sender uses; what weights are multiplied by
    if step.needed is not None:
        need = rho[of_column] * tensor(step.weight * step.needed) / scale[:, aimed].clamp_min(_LEAST)
        share, factor = need.clamp_max(1.0), need.clamp_min(1.0).reciprocal_()
    if beside:
        here = scale[:, tensor(row)] / scale[:, aimed].clamp_min(_LEAST)
        factor = here if factor is None else factor * here
    symbols = _symbols(v, step.subslots)
    out = _mixed(step, factor, symbols)[:, :size].to(held.dtype)
    deviation = scale * tensor(np.sqrt(step.noise_w[rows]))
    spread = deviation.T.to(noise.dtype)
    if len(deviation) > 1:
        spread = spread.repeat_interleave(symbols.shape[2] * 2, dim=1)[:, :size]
    own = tensor(step.own[rows, None]).to(held.dtype)
    held.index_copy_(0, receivers, out.addcmul_(noise, spread).addcmul_(sent.index_select(0, receivers), own))
    # W over the payload: of every sub-slot, by the power of the symbols that it carries, [senders, subslots]
    used = torch.linalg.vector_norm(torch.view_as_real(symbols), dim=(2, 3))
    used = used / (rho.clamp_min(_LEAST) * size**0.5)[:, None]
    if share is not None:
        each = np.empty(len(columns), np.int64)
        each[column] = np.arange(len(column))  # a sender has one amplitude, whoever hears it
        used = used * share[:, tensor(each)].T
    power = torch.zeros(len(held), dtype=rho.dtype, device=device)
    power.index_copy_(0, senders, used.square().sum(dim=1) * tensor(step.power_w[columns]))
    return power, (deviation.square().mean(dim=0).sum() * step.reaches**2)


def _symbols(v: Tensor, subslots: int) -> Tensor:
    """Complex symbols of models, `[n, subslots, symbols]`: two coordinates each, zeros where a model has ended."""
    count = -(-v.shape[1] // (2 * subslots))
    padded = torch.nn.functional.pad(v, (0, 2 * subslots * count - v.shape[1]))
    return torch.view_as_complex(padded.view(len(v), subslots, count, 2))


def _mixed(step: AnnouncedStep, factor: Tensor | None, symbols: Tensor) -> Tensor:
    """Sum over senders, `[receivers, coordinates]`; factor: [subslots, links] of weights, None for 1."""
    rows, row, _, column = step._places
    senders, subslots, count = symbols.shape
    late = np.zeros(0) if step.late is None else step.late
    # of what is sent: itself, and where it is late or early, the symbol before and the one after
    shares: tuple[Any, ...] = (
        (1.0 - np.abs(late), np.maximum(late, 0.0), np.maximum(-late, 0.0)) if len(late) else (1.0,)
    )
    dense = np.zeros((subslots, len(rows), len(shares), senders), np.complex128)
    for number, part in enumerate(shares):
        dense[:, row, number, column] = step.weight * step.ratio * part
    weights = torch.from_numpy(dense).to(device=symbols.device, dtype=symbols.dtype)
    if factor is not None:
        every = factor.new_ones(subslots, len(rows), 1, senders)
        every[:, torch.from_numpy(row).to(factor.device), 0, torch.from_numpy(column).to(factor.device)] = factor
        weights = weights * every.to(symbols.real.dtype)
    moved = symbols.transpose(0, 1)
    sent = symbols.new_zeros(subslots, len(shares), senders, count)
    sent[:, 0] = moved
    if len(late):
        sent[:, 1, :, 1:], sent[:, 2, :, :-1] = moved[..., :-1], moved[..., 1:]
        if step.signs is not None:
            signs = torch.from_numpy(step.signs[:, None]).to(device=symbols.device, dtype=symbols.real.dtype)
            sent[:, 1].mul_(signs)
            sent[:, 2, :, :-1].mul_(signs[..., 1:])
    total = torch.bmm(weights.view(subslots, len(rows), -1), sent.view(subslots, -1, count))
    return torch.view_as_real(total.transpose(0, 1).contiguous()).reshape(len(rows), -1)
