"""Pairs whose shared noise is chosen over the graph: `privacy.pairs = "optimised"`, the idea of CorN-DSGD.

    n_j = a u_j + sum_k b_jk v_jk over links jk,    b_jk = r_jk a,    q_jk = r_jk^2 / (1 + r_jk^2)
    a^2 = 1 / min_j (1 + S_j),    S_j = sum of q_jk over partners k of j, without the c largest
    error = a^2 (tr D + sum_jk r_jk^2 d_jk),    D = sum_t (W^t)' W^t, t = 1 .. 50,    d_jk = (e_j - e_k)' D (e_j - e_k)

a is the least own noise that hides each node as much as noise of variance 1 would, against any c that collude, by the
one-hop bound (`privacy/coalition.py`). The error is what n leaves in all models of 50 averagings with Metropolis
weights W of the graph: a stand-in for the plan's weights, which needs no gains. Over q it is convex over concave, so a
local minimum is the least (SLSQP). r = 0 is own noise alone, so the predicted error is never more than that.

**What is proven**: the total, whatever r is, since each frame is charged by the one-hop bound of the pairs that formed.
**What is not**: that the error of a run is the predicted one (receiver noise, gains, power and steps are left out), or
that the bound is tight. CorN-DSGD itself optimises a covariance and mixing weights under an accounting of its own.
"""

from functools import lru_cache

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.errors import ScenarioError

MAX_PAIRS = 300  # whose ratios are worth a search: some seconds
_MAX_SHARE = 0.99  # of q: a ratio of 10
_AVERAGINGS = 50
_NONE = 1e-4  # of q, below which a pair shares nothing


def predicted_error(nodes: int, low: IntArray, high: IntArray) -> tuple[float, FloatArray]:
    """tr D, and d of every pair, `[pairs]`."""
    degree = np.bincount(low, minlength=nodes) + np.bincount(high, minlength=nodes)
    mixing = np.zeros((nodes, nodes))
    mixing[low, high] = mixing[high, low] = 1.0 / (1.0 + np.maximum(degree[low], degree[high]))
    mixing[np.diag_indices(nodes)] = 1.0 - mixing.sum(axis=1)
    total, power = np.zeros((nodes, nodes)), np.eye(nodes)
    for _ in range(_AVERAGINGS):
        power = mixing @ power
        total += power.T @ power
    return float(np.trace(total)), total[low, low] + total[high, high] - 2.0 * total[low, high]


def ratios(nodes: int, low: IntArray, high: IntArray, coalition: int) -> FloatArray:
    """r of every pair low < high, `[pairs]`; 0 where it shares nothing. Raises ScenarioError for too many pairs."""
    return _searched(nodes, tuple(low.tolist()), tuple(high.tolist()), coalition)


@lru_cache(maxsize=64)
def _searched(nodes: int, low: tuple[int, ...], high: tuple[int, ...], coalition: int) -> FloatArray:
    from scipy.optimize import LinearConstraint, minimize

    one, other, pairs = np.array(low, dtype=np.int64), np.array(high, dtype=np.int64), len(low)
    if pairs > MAX_PAIRS:
        raise ScenarioError(
            f'privacy.pairs is "optimised" on a graph of {pairs} pairs; must be at most {MAX_PAIRS}: use "neighbours", '
            "or a graph of fewer links"
        )
    own, shared = predicted_error(nodes, one, other)
    end, pair = np.concatenate([one, other]), np.tile(np.arange(pairs), 2)
    kept = np.bincount(end, minlength=nodes) - coalition
    if not pairs or kept.min() <= 0:  # a node all of whose partners may collude needs noise of its own
        return np.zeros(pairs)
    # variables q, slack s of every end, threshold t of every node, 1 / a^2: S_j is the largest (kept t - sum s) with
    # s >= t - q and s >= 0
    first, middle, last = pairs, 3 * pairs, 3 * pairs + nodes
    enough, slack = np.zeros((nodes, last + 1)), np.zeros((2 * pairs, last + 1))
    enough[end, first + np.arange(2 * pairs)] = -1.0
    enough[np.arange(nodes), middle + np.arange(nodes)] = kept
    enough[:, last] = -1.0
    rows = np.arange(2 * pairs)
    slack[rows, first + rows], slack[rows, pair], slack[rows, middle + end] = 1.0, 1.0, -1.0

    def error(x: FloatArray) -> tuple[float, FloatArray]:
        q, inverse = x[:pairs], x[last]
        value = (own + float(shared @ (q / (1.0 - q)))) / inverse
        slope = np.zeros(len(x))
        slope[:pairs], slope[last] = shared / (1.0 - q) ** 2 / inverse, -value / inverse
        return value / own, slope / own

    start = np.concatenate([np.full(pairs, 0.5), np.zeros(2 * pairs), np.full(nodes, 0.5), [1.0 + 0.5 * kept.min()]])
    bounds = [(0.0, _MAX_SHARE)] * pairs + [(0.0, 1.0)] * (2 * pairs) + [(0.0, 1.0)] * nodes + [(1.0, None)]
    rules = [LinearConstraint(enough, -1.0, np.inf), LinearConstraint(slack, 0.0, np.inf)]
    found = minimize(error, start, jac=True, bounds=bounds, constraints=rules, method="SLSQP", options={"maxiter": 300})
    q = np.clip(found.x[:pairs], 0.0, _MAX_SHARE)
    q[q < _NONE] = 0.0
    return np.asarray(np.sqrt(q / (1.0 - q)))
