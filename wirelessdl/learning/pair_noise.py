"""Noise that pairs of nodes share and that cancels in the network.

    n_j = a_j u_j + sum_k b_jk v_jk,    v_jk = -v_kj,    covariance over nodes: diag(a^2) + Laplacian(b^2)

    a_j    deviation of j's own noise; b_jk: of what j and k share; u, v: standard normal, fresh every round

Pairs are formed from a roster, before the frame. A partner that falls silent afterwards sends nothing, but what it
shares stays in the noise of the others.

Groups in which everyone is paired with everyone and b is common need no v: the covariance of those on air is diagonal
minus rank one, whatever their a, and has a root of that form. One draw per node gives exactly the same law:

    n_j = d_j (u_j - kappa q_j sum_k q_k u_k)        sums and the size h over those on air, g over the roster
    d_j^2 = a_j^2 + g b^2,   q_j = (1 / d_j) / sqrt(sum_k 1 / d_k^2),   kappa = 1 - sqrt(1 - b^2 sum_k 1 / d_k^2)

With equal a = b / r and all on air this is a sqrt(1 + g r^2) (u_j - kappa mean(u)), kappa = 1 - 1 / sqrt(1 + g r^2).
Any other pairs (`neighbours`) draw every v, keyed by pair and round. Real nodes always draw the v.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import BoolArray, FloatArray, IntArray

_DENSE = 2**20  # numbers of a map of groups onto nodes, up to which it is a matrix
_AT_ONCE = 2**22  # numbers that pairs share, drawn at a time
# fills rows with what pairs share in this round, low, high: [pairs]
DrawPairs = Callable[[Tensor, IntArray, IntArray], None]


@dataclass(frozen=True, eq=False)
class GroupNoise:
    """The map from one draw per node to noise of groups of pairs. deviation: [K, 1] d; onto, back: [G, K], [K, G].

    Many groups: direction [K, 1] q, label [K] and kappa [G, 1] instead, in as much memory as there are nodes.
    """

    deviation: Tensor
    onto: Tensor
    back: Tensor
    direction: Tensor | None = None
    label: Tensor | None = None
    kappa: Tensor | None = None

    @staticmethod
    def is_dense(group: IntArray) -> bool:
        """Whether the map of these groups is a matrix."""
        return (int(group.max(initial=-1)) + 1) * len(group) <= _DENSE

    @staticmethod
    def make(
        own: FloatArray,
        pair: FloatArray,
        group: IntArray,
        on_air: BoolArray,
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> "GroupNoise":
        """The map of one round, worked out in float64.

        own: [K] a. pair: [K] b, equal within a group. group: [K] number of each node's group from 0, -1 for nodes that
        are not on the roster: those have their own noise only. on_air: [K]; who is not on air sends no noise.
        """
        own, group = np.asarray(own, dtype=np.float64), np.asarray(group, dtype=np.int64)
        paired = group >= 0
        pair = np.where(paired, pair, 0.0)
        label, groups = np.where(paired, group, 0), int(group.max(initial=-1)) + 1
        listed = np.bincount(label[paired], minlength=groups + 1)
        common = np.zeros(groups + 1)
        common[label[paired]] = pair[paired]
        if not np.array_equal(common[label[paired]], pair[paired]):
            raise ValueError("pair differs within a group; must be one deviation per group, or draw every pair")
        square = own**2 + listed[label] * pair**2
        counted = paired & on_air & (square > 0)
        inverse = np.divide(1.0, square, out=np.zeros_like(square), where=counted)
        total = np.bincount(label, weights=inverse, minlength=groups + 1)
        # 1 - b^2 sum 1/d^2, term by term: the difference itself would cancel where b is much larger than a
        sent = np.bincount(label[counted], minlength=groups + 1)
        spare = own**2 + (listed - sent)[label] * pair**2
        heads = np.maximum(sent, 1)[label]
        left = np.bincount(label, weights=spare * inverse / heads, minlength=groups + 1)
        kappa = 1.0 - np.sqrt(left)
        direction = np.sqrt(inverse / np.where(total > 0, total, 1.0)[label])
        if not GroupNoise.is_dense(group):
            given = np.sqrt(np.where(on_air, square, 0.0)), np.where(counted, direction, 0.0), kappa[: max(groups, 1)]
            columns = [torch.as_tensor(part).to(device=device, dtype=dtype).unsqueeze(1) for part in given]
            nothing = torch.zeros(0, 0, device=device, dtype=dtype)
            return GroupNoise(
                columns[0], nothing, nothing, columns[1], torch.as_tensor(label).to(device=device), columns[2]
            )
        onto = np.zeros((groups, len(own)))
        onto[label[counted], np.flatnonzero(counted)] = direction[counted]
        deviation = np.where(on_air, np.sqrt(square), 0.0)
        parts = (deviation[:, None], onto, onto.T * kappa[:groups])
        return GroupNoise(*(torch.as_tensor(part).to(device=device, dtype=dtype) for part in parts))

    def apply(self, draws: Tensor) -> None:
        """Turn standard normal numbers, `[K, m]`, one row per node, into noise, in place."""
        if self.direction is not None and self.label is not None and self.kappa is not None:
            sums = torch.zeros(len(self.kappa), draws.shape[1], dtype=draws.dtype, device=draws.device)
            sums.index_add_(0, self.label, draws * self.direction)
            draws.addcmul_(sums.mul_(self.kappa).index_select(0, self.label), self.direction, value=-1.0)
        elif len(self.onto):
            draws.addmm_(self.back, self.onto @ draws, alpha=-1.0)
        draws.mul_(self.deviation)


@dataclass(frozen=True, eq=False)
class EdgeNoise:
    """Noise of any pairs, each drawn by itself. own: [K] a; low < high: [pairs] ends, in rising order; pair: [pairs] b.

    on_air: [K]; who is not on air sends no noise.
    """

    own: FloatArray
    low: IntArray
    high: IntArray
    pair: FloatArray
    on_air: BoolArray

    @staticmethod
    def make(own: FloatArray, one: IntArray, other: IntArray, pair: FloatArray, on_air: BoolArray) -> "EdgeNoise":
        """From pairs in any order, each named once: the order of sums, and so the last bit, is always the same."""
        low, high = np.minimum(one, other), np.maximum(one, other)
        order = np.lexsort((high, low))
        low, high = low[order], high[order]
        if (low == high).any() or ((np.diff(low) == 0) & (np.diff(high) == 0)).any():
            raise ValueError("a pair is named twice, or joins a node with itself")
        return EdgeNoise(own, low, high, np.asarray(pair, dtype=np.float64)[order], on_air)

    def apply(self, draws: Tensor, draw_pairs: DrawPairs) -> None:
        """Turn standard normal numbers, `[K, m]`, into noise, in place; as many pairs at a time as fit into memory."""
        scale = torch.as_tensor(np.where(self.on_air, self.own, 0.0))
        draws.mul_(scale.to(device=draws.device, dtype=draws.dtype)[:, None])
        heard = np.flatnonzero(self.on_air[self.low] | self.on_air[self.high])
        at_once = max(1, _AT_ONCE // max(1, draws.shape[1]))
        for some in (heard[start : start + at_once] for start in range(0, len(heard), at_once)):
            shared = draws.new_empty(len(some), draws.shape[1])
            draw_pairs(shared, self.low[some], self.high[some])
            for end, sign in ((self.low[some], 1.0), (self.high[some], -1.0)):
                weight = np.where(self.on_air[end], sign * self.pair[some], 0.0)
                column = torch.as_tensor(weight).to(device=draws.device, dtype=draws.dtype)[:, None]
                draws.index_add_(0, torch.as_tensor(end, device=draws.device), shared * column)
