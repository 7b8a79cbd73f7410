"""How much noise hides a node from a coalition, where pairs of nodes share noise that cancels in the network.

Node j sends its model plus n_j = a_j u_j + sum_k b_jk v_jk with v_jk = -v_kj, all standard normal and fresh. Given
all that is sent and all that a coalition C knows, its seeds included, what is left about an honest j is one Gaussian
of variance 1 / [Sigma_H^-1]_jj, Sigma_H = diag(a^2) + Laplacian(b^2) over the honest nodes H on air.

    one hop     1 / [Sigma_H^-1]_jj >= a_j^2 + sum over honest partners k of a_k^2 b_jk^2 / (a_k^2 + b_jk^2)
                for every graph and all a, b: the adversary is given every v that does not touch j. The worst
                coalition of c holds the c largest terms. A partner that fell silent after pairs were formed sent
                nothing that contains v_jk: its term is b_jk^2, and it may be in the coalition as well.
    complete    g nodes with equal a and b = r a: a^2 (1 + (g - 1 - c) r^2 / (1 + r^2)), with equality

    a_j     deviation of j's own noise; b_jk: of the noise that j and k share; r: pair ratio b / a
    c       most nodes that collude, j not among them

Variances are those of one coordinate; noise multipliers follow as deviation / (sensitivity of the step). Not here: the
exact inverse, which holds only where every pair, also a remote one, is known to have formed.
"""

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray, IntArray


def coalition_variance_of_pairs(
    own: FloatArray,
    low: IntArray,
    high: IntArray,
    pair: FloatArray,
    coalition: int,
    on_air: BoolArray | None = None,
) -> FloatArray:
    """The one-hop bound of each node, `[K]`. own: [K] a; low, high: [pairs] ends of each pair, named once; pair: b."""
    own, pair = np.asarray(own, dtype=np.float64), np.asarray(pair, dtype=np.float64)
    _require_deviations(own, pair, coalition)
    low, high = np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)
    number = np.minimum(low, high) * len(own) + np.maximum(low, high)
    if (low == high).any() or len(np.unique(number)) != len(number):
        raise ValueError("a pair is named twice, or joins a node with itself; its noise would be counted too often")
    node, partner = np.concatenate([low, high]), np.concatenate([high, low])
    sent = np.ones(len(own), dtype=bool) if on_air is None else on_air
    term = _terms(own[partner], np.concatenate([pair, pair]), sent[partner])
    order = np.lexsort((-term, node))  # by node, the largest first
    node, term = node[order], term[order]
    partners = np.bincount(node, minlength=len(own))
    rank = np.arange(len(node)) - np.repeat(np.cumsum(partners) - partners, partners)
    kept = rank >= coalition
    return np.asarray(own**2 + np.bincount(node[kept], weights=term[kept], minlength=len(own)))


def group_variance(
    own: FloatArray | float, ratio: FloatArray | float, size: IntArray | int, coalition: int
) -> FloatArray:
    """Variance that hides each of `size` nodes on air, all in pairs, from any `coalition` of them; arrays broadcast.

    own: a, equal within a group; ratio: r = b / a. Exact.
    """
    square = np.square(np.asarray(ratio, dtype=np.float64))
    honest = np.maximum(np.asarray(size) - 1 - coalition, 0)
    return np.asarray(np.asarray(own, dtype=np.float64) ** 2 * (1.0 + honest * square / (1.0 + square)))


def _terms(partner: FloatArray, pair: FloatArray, sent: BoolArray) -> FloatArray:
    """What each partner adds; partner: its own deviation a_k; sent: whether it did."""
    either = np.hypot(partner, pair)
    both = np.divide(partner * pair, either, out=np.zeros_like(either), where=either > 0)
    return np.where(sent, both, pair) ** 2


def _require_deviations(own: FloatArray, pair: FloatArray, coalition: int) -> None:
    for values in (own, pair):
        if not np.isfinite(values).all() or (values < 0).any():
            raise ValueError("deviations of noise must be finite and >= 0")
    if coalition < 0:
        raise ValueError(f"coalition is {coalition}; must be >= 0 nodes")
