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

from wirelessdl.arrays import FloatArray, IntArray


def group_variance(
    own: FloatArray | float, ratio: FloatArray | float, size: IntArray | int, coalition: int
) -> FloatArray:
    """Variance that hides each of `size` nodes on air, all in pairs, from any `coalition` of them; arrays broadcast.

    own: a, equal within a group; ratio: r = b / a. Exact.
    """
    return np.asarray(np.asarray(own, dtype=np.float64) ** 2 * _hidden(ratio, size, coalition))


def group_own(
    variance: FloatArray | float, ratio: FloatArray | float, size: IntArray | int, coalition: int
) -> FloatArray:
    """a at which `group_variance` is `variance`: own noise of each of `size` nodes; arrays broadcast."""
    return np.sqrt(variance / _hidden(ratio, size, coalition))


def _hidden(ratio: FloatArray | float, size: IntArray | int, coalition: int) -> FloatArray:
    """Variance that hides a node, in units of a^2."""
    square = np.square(np.asarray(ratio, dtype=np.float64))
    honest = np.maximum(np.asarray(size) - 1 - coalition, 0)
    return np.asarray(1.0 + honest * square / (1.0 + square))
