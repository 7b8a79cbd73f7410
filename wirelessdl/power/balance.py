"""Balancing by transmit power: senders back off until the columns of A sum to one, as its rows do.

With A[i, i] = 1/(d_i + 1) the rest of column j must sum to d_j/(d_j + 1), like the rest of row j:

    M_ij = r_i g_ij w_j,   row sums = column sums = d/(d + 1),   w_j = sqrt(alpha_j P_j)

    g_ij  amplitude gain |h| of the link j -> i; d_j: degree of node j; r_i: receiver scaling; P_j: budget, W

(Sinkhorn scaling.) It exists if and only if the marginals can be met with a positive weight on every link, which a
star, a path of odd length or a node with two leaves cannot: `support_margin` tests that by a linear program before
anything is scaled, up to 2,000 nodes. Receivers are unchanged; the cost is received power.

Partial balancing goes part of the way: amplitude_j = sqrt(P_j) (w_j/sqrt(P_j))^e, up to a common factor, e from 0
(full power) to 1 (balanced by power). Receivers balance what is left (`mixing.balanced_air`). Weak nodes are then
heard beside strong ones, so the spectral gap is wider than by receivers alone, for less received power than at e = 1.
"""

import numpy as np
import scipy

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Links
from wirelessdl.mixing import uniform_air

_MAX_SCALINGS = 20_000
_MAX_TESTED_NODES = 2000  # nodes up to which support is tested by a linear program
_BALANCED_WITHIN = 1e-13


def support_margin(links: Links) -> float:
    """Largest t with x_ij >= t on every link while the marginals are met; 0 or less: no scaling exists."""
    count, nodes = len(links), links.nodes
    marginal = uniform_air(links)
    one, row = np.ones(count), np.arange(count)
    zero = scipy.sparse.csr_array((nodes, 1))
    equal = scipy.sparse.vstack(
        [
            scipy.sparse.hstack([scipy.sparse.csr_array((one, (links.rx, row)), shape=(nodes, count)), zero]),
            scipy.sparse.hstack([scipy.sparse.csr_array((one, (links.tx, row)), shape=(nodes, count)), zero]),
        ]
    )
    above = scipy.sparse.hstack(
        [-scipy.sparse.csr_array((one, (row, row)), shape=(count, count)), scipy.sparse.csr_array(np.ones((count, 1)))]
    )
    result = scipy.optimize.linprog(  # type: ignore[call-overload]  # the stubs know no sparse constraints
        np.concatenate([np.zeros(count), [-1.0]]),
        A_ub=above,
        b_ub=np.zeros(count),
        A_eq=equal,
        b_eq=np.concatenate([marginal, marginal]),
        bounds=[(None, None)] * count + [(None, 1.0)],
        method="highs",
    )
    return float(result.x[-1]) if result.x is not None else -np.inf


def balancing_amplitudes(links: Links, gain: FloatArray) -> tuple[FloatArray | None, str]:
    """w, `[K]`, up to a common factor, and an empty text; or None and the reason. gain: [links] |h|."""
    if not gain.all():
        return None, "a link has no gain"
    if not links.degree.all() or not np.bincount(links.tx, minlength=links.nodes).all():
        return None, "a node hears nobody or is heard by nobody"
    # the program takes longer than the scaling in large networks; without support that does not settle, which is said
    if links.nodes <= _MAX_TESTED_NODES and support_margin(links) <= 1e-9:
        return None, "no transmit powers can balance this graph (its marginals need an unused link)"
    marginal = uniform_air(links)
    weight, receive = np.ones(links.nodes), np.ones(links.nodes)
    for _ in range(_MAX_SCALINGS):
        receive = marginal / links.sum_per_receiver(gain * weight[links.tx])
        column = np.bincount(links.tx, weights=gain * receive[links.rx], minlength=links.nodes)
        if np.max(np.abs(column * weight - marginal)) < _BALANCED_WITHIN:
            return weight / weight.max(), ""
        weight = marginal / column
        weight /= weight.max()
    return None, f"scaling did not settle in {_MAX_SCALINGS} steps (gains too uneven)"


def part_of_the_way(weight: FloatArray, most: FloatArray, exponent: float) -> FloatArray:
    """Amplitudes of an exponent over the largest ones, `[K]`. weight: [K] those that balance; most: [K] the largest."""
    share = weight / most
    return np.asarray((share / share.max()) ** exponent)
