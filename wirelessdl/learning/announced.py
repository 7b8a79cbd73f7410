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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wirelessdl.arrays import FloatArray, IntArray

_PARTS_OF_OCTAVE = 16  # to which an announced rms is rounded up: 8 bits cover 96 dB


@dataclass(frozen=True, eq=False)
class AnnouncedStep:
    """One payload: arrays over its links, `[links]`, and sub-slots.

    rx, tx: ends of each link. aim: the receiver that its sender is aligned to, which is rx but for what is overheard.
    weight: W of the link to `aim`. ratio: [subslots, links] h of the link over the estimate of the link to `aim`.
    announced: [subslots or 1, links] 1 / (|g| sqrt(P)) by which the sum is scaled. needed: [subslots, links] the same
    by which senders divide; None where receivers do. own: [K] weight of what a node holds. noise_w: [K] receiver noise.
    power_w: [K]. late: [links] in symbols, None for none. reaches: nodes that will hold what a receiver made of it.
    together: whether it sends what nodes held before the last step that `opens`, not what they hold by now. signs:
    [subslots, symbols] sign of each symbol in the scrambling times that of the one before; None: not scrambled.
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

    @property
    def senders(self) -> IntArray:
        """Nodes that send, rising."""
        return np.unique(self.tx)

    @property
    def subslots(self) -> int:
        return len(self.ratio)

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Receivers and senders, rising, and the place of each link's ends among them."""
        rows, row = np.unique(self.rx, return_inverse=True)
        columns, column = np.unique(self.tx, return_inverse=True)
        return rows, row, columns, column


def announced_rms(held: Tensor) -> Tensor:
    """Root mean square of each row, rounded up to a part of an octave, `[n]`; 0 for a row of zeros."""
    rms = torch.linalg.vector_norm(held.to(torch.float64), dim=1) / held.shape[1] ** 0.5
    up = torch.exp2(torch.ceil(torch.log2(rms) * _PARTS_OF_OCTAVE - 1e-9) / _PARTS_OF_OCTAVE)
    up = torch.where(up < rms, up * 2.0 ** (1.0 / _PARTS_OF_OCTAVE), up)  # rms that rounding found on the grid
    return torch.where(rms > 0, up, 0.0)


def send_announced(
    step: AnnouncedStep, held: Tensor, noise: Tensor, sent: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What receivers make of `sent`, `[K, m]`, in place of what they held, `[K, m]`; None: what is held is sent.

    noise: [receivers, m] standard normal numbers. Returns W radiated per node on average over the payload, `[K]`, and
    the variance per coordinate that receivers add to the sum of all nodes.
    """
    sent = held if sent is None else sent
    rows, row, columns, column = step._places
    device, size, wide = held.device, held.shape[1], torch.float64

    def tensor(values: NDArray[np.generic]) -> Tensor:
        return torch.as_tensor(values).to(device=device, non_blocking=True)

    senders, receivers = tensor(columns), tensor(rows)
    v = sent.index_select(0, senders)
    rho = announced_rms(v)
    of_link = rho[tensor(column)] * tensor(step.weight)
    aimed = tensor(np.searchsorted(rows, step.aim))
    # of links whose sender is aligned to their receiver: what the sum is scaled by, [subslots or 1, receivers]
    demand = of_link * tensor(np.where(step.aim == step.rx, step.announced, 0.0))
    every = torch.zeros(len(demand), len(rows), len(columns), dtype=wide, device=device)
    every[:, tensor(row), tensor(column)] = demand
    scale = every.amax(dim=2)
    factor = of_link.new_ones(step.subslots, len(step.rx))
    share = factor  # of its amplitude that a sender uses
    if step.needed is not None:
        need, allowed = of_link * tensor(step.needed), scale[:, aimed]
        share = torch.where(allowed > 0, need / torch.where(allowed > 0, allowed, 1.0), 0.0)
        factor = torch.where(share > 1.0, 1.0 / share.clamp_min(1.0), factor)
        share = share.clamp_max(1.0)
    if (step.aim != step.rx).any():  # heard beside those whom a receiver has aligned
        here, there = scale[:, tensor(row)], scale[:, aimed]
        factor = factor * torch.where(there > 0, here / torch.where(there > 0, there, 1.0), 0.0)
    weights = factor * tensor(step.weight) * tensor(step.ratio)
    symbols = _symbols(v, step.subslots)
    out = _mixed(step, weights, symbols, (row, column), len(rows))[:, :size]
    deviation = scale * torch.sqrt(tensor(step.noise_w[rows]))
    spread = deviation.T.expand(len(rows), step.subslots) if len(deviation) == 1 else deviation.T
    length = symbols.shape[2] * 2
    added = noise * spread.repeat_interleave(length, dim=1)[:, :size].to(noise.dtype)
    own = tensor(step.own[rows]).unsqueeze(1).to(held.dtype)
    held.index_copy_(0, receivers, sent.index_select(0, receivers) * own + out.to(held.dtype) + added)
    # W over the payload: of every sub-slot, by the power of the symbols that it carries
    carried = symbols.abs().square().sum(dim=2).to(wide).T / size  # [subslots, senders]
    first = tensor(np.unique(column, return_index=True)[1])  # a sender has one amplitude, whoever hears it
    used = share[:, first] ** 2 * carried / torch.where(rho > 0, rho, 1.0).square()
    power = torch.zeros(len(held), dtype=wide, device=device)
    power.index_copy_(0, senders, used.sum(dim=0) * tensor(step.power_w[columns]))
    return power, (deviation.square().mean(dim=0).sum() * step.reaches**2)


def _symbols(v: Tensor, subslots: int) -> Tensor:
    """Complex symbols of models, `[n, subslots, symbols]`: two coordinates each, zeros where a model has ended."""
    count = -(-v.shape[1] // (2 * subslots))
    padded = torch.nn.functional.pad(v, (0, 2 * subslots * count - v.shape[1]))
    return torch.view_as_complex(padded.view(len(v), subslots, count, 2))


def _mixed(
    step: AnnouncedStep, weights: Tensor, symbols: Tensor, place: tuple[IntArray, IntArray], rows: int
) -> Tensor:
    """Sum over senders, `[receivers, coordinates]`; weights: [subslots, links] complex."""
    row, column = (torch.as_tensor(part, device=symbols.device) for part in place)
    moved = symbols.transpose(0, 1)  # [subslots, senders, symbols]

    def received(of: Tensor, sent: Tensor) -> Tensor:
        dense = torch.zeros(step.subslots, rows, symbols.shape[0], dtype=symbols.dtype, device=symbols.device)
        dense[:, row, column] = of.to(symbols.dtype)
        return torch.bmm(dense, sent)

    if step.late is None:
        total = received(weights, moved)
    else:
        late = torch.as_tensor(step.late, device=symbols.device)
        total = received(weights * (1.0 - late.abs()), moved)
        before, after = torch.zeros_like(moved), torch.zeros_like(moved)
        before[..., 1:], after[..., :-1] = moved[..., :-1], moved[..., 1:]
        if step.signs is not None:
            signs = torch.as_tensor(step.signs, device=symbols.device).to(before.real.dtype).unsqueeze(1)
            before, after[..., :-1] = before * signs, after[..., :-1] * signs[..., 1:]
        total = total + received(weights * late.clamp_min(0.0), before)
        total = total + received(weights * (-late).clamp_min(0.0), after)
    return torch.view_as_real(total.transpose(0, 1).contiguous()).reshape(rows, -1)
