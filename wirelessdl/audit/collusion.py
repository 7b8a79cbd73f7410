"""What a coalition that hears every transmission is left with of one node, where pairs of nodes share noise.

The coalition C knows its own noise and every v that touches a member. It takes them away from what the honest nodes H
sent, and the others' models with them, since the proof gives those away. What is left is one Gaussian about x_j:

    z = r_j - E[m_j | m_k of the other honest nodes] = sum over k in H of g_k r_k
    g = Sigma_H^-1 e_j / [Sigma_H^-1]_jj
    r_k = w_k - sum over l in C of b_kl v_kl  (- x_k for k other than j),    r_k = m_k, and x_j + m_j for j
    z ~ N(x_j, 1 / [Sigma_H^-1]_jj),    Sigma_H = diag(a^2) + Laplacian(b^2) over H

    w_k    what k really sent; v: the numbers that the engine really drew, keyed by pair and round
    m_k    noise of k that no member of C knows: of its own, and shared with nodes outside C, silent ones too

If all others collude, H is j alone: the own view. Groups in closed form have no v to know. Their pairs are listed and
every v is drawn instead: noise of the same law, to which `wirelessdl.audit.checks` holds the closed form.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.exchange import group_noise_
from wirelessdl.learning.records import PairInput


def listed(pairs: PairInput) -> PairInput:
    """The same pairs with every one listed, so that each v is drawn."""
    if pairs.group is None:
        return replace(pairs, low=np.minimum(pairs.low, pairs.high), high=np.maximum(pairs.low, pairs.high))
    low, high = np.triu_indices(len(pairs.own), 1)
    both = (pairs.group[low] == pairs.group[high]) & (pairs.group[low] >= 0)
    low, high = low[both], high[both]
    return replace(pairs, pair=pairs.pair[low], group=None, low=low, high=high)


def closed_form_error(pairs: PairInput) -> float:
    """How far the covariance of groups in closed form is from that of their pairs, in largest variances."""
    assert pairs.group is not None
    root = torch.eye(len(pairs.own), dtype=torch.float64)
    group_noise_(root, pairs)
    declared = noise_covariance(pairs)
    return float(np.abs((root @ root.T).numpy() - declared).max() / max(declared.max(), np.finfo(np.float64).tiny))


def noise_covariance(pairs: PairInput) -> FloatArray:
    """Of the noise that nodes send, as declared, `[K, K]`: diag(a^2) + Laplacian(b^2); 0 for who does not send."""
    whole = _covariance(listed(pairs), np.zeros(0, dtype=np.int64))
    return np.asarray(whole * np.outer(pairs.on_air, pairs.on_air))


def partner_terms(pairs: PairInput, node: int) -> FloatArray:
    """How much each node adds at most to what hides another, `[K]`, in units of that one's own variance."""
    shared = _shared_variance(listed(pairs))[node]
    own = pairs.own**2
    both = np.divide(own * shared, own + shared, out=np.zeros_like(own), where=shared > 0)
    return np.asarray(np.where(pairs.on_air, both, shared) / own[node])


@dataclass(frozen=True, eq=False)
class Leftover:
    """One round of one node as a coalition sees it.

    honest: [H] nodes on air outside the coalition, gain: [H] g. low, high: [known] pairs between an honest node and a
    member, weight: [known] what v counts in z. deviation: of z.
    """

    node: int
    honest: IntArray
    gain: FloatArray
    low: IntArray
    high: IntArray
    weight: FloatArray
    deviation: float

    @staticmethod
    def make(pairs: PairInput, node: int, members: Sequence[int]) -> "Leftover | None":
        """None for a node that does not send. pairs: listed. members: of the coalition, without the node."""
        if not pairs.on_air[node]:
            return None
        inside = np.zeros(len(pairs.own), dtype=bool)
        inside[list(members)] = True
        honest = np.flatnonzero(pairs.on_air & ~inside)
        place = int(np.searchsorted(honest, node))
        hidden = _covariance(pairs, np.flatnonzero(inside))[np.ix_(honest, honest)]
        column = np.linalg.solve(hidden, np.eye(len(honest))[place])
        gain = np.zeros(len(pairs.own))
        gain[honest] = column / column[place]
        known = inside[pairs.low] != inside[pairs.high]
        low, high = pairs.low[known], pairs.high[known]
        weight = pairs.pair[known] * (gain[low] - gain[high])  # members have no gain
        counts = weight != 0
        return Leftover(
            node, honest, gain[honest], low[counts], high[counts], weight[counts], float(column[place]) ** -0.5
        )

    def seen(self, draws: NodeDraws, round: int, sent: Tensor, models: Tensor) -> Tensor:
        """z, `[m]`. sent: [K, m] w; models: [K, m] x without noise."""
        found = torch.zeros(sent.shape[1], dtype=torch.float64, device=sent.device)
        for node, gain in zip(self.honest.tolist(), self.gain.tolist()):
            heard = sent[node].double()
            found += gain * (heard if node == self.node else heard - models[node].double())
        shared = sent.new_empty(len(self.low), sent.shape[1])
        draws.fill_pairs(shared, round, self.low, self.high)
        return found - torch.as_tensor(self.weight, device=sent.device) @ shared.double()


def _shared_variance(pairs: PairInput) -> FloatArray:
    """b^2 of every two nodes, `[K, K]`."""
    square = np.zeros((len(pairs.own), len(pairs.own)))
    square[pairs.low, pairs.high] = square[pairs.high, pairs.low] = pairs.pair**2
    return square


def _covariance(pairs: PairInput, members: IntArray) -> FloatArray:
    """Of the noise that no member knows, `[K, K]`; only rows of honest nodes mean anything."""
    square = _shared_variance(pairs)
    square[:, members] = 0.0
    return np.asarray(np.diag(pairs.own**2 + square.sum(axis=1)) - square)
