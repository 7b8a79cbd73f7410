"""Forecasts of the joint plan in large networks: the traces of `power.joint` by drawn vectors, linear in the links.

A trace of K x K matrices is the mean of quadratic forms of random signs g (Hutchinson 1990):

    trace(Q^t W Q^t') = E |Q^t W^(1/2) g|^2,    relative deviation about sqrt(2 / (K n)) of n vectors

Q is applied by M passes with the sparse A. What every round adds has three parts, whose size alone depends on the pair
ratio: noise of senders, receiver noise of the payload, and that of the passes. Each is followed for 200 rounds; from
there on it falls by a constant factor a round, and the rest is a geometric sum. Receiver noise of passes keeps its
covariances, of which the dense form takes the diagonal. A must be doubly stochastic.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from wirelessdl.arrays import FloatArray
from wirelessdl.chebyshev import Passes

_ROUNDS = 200
_MOST_ROUNDS = 4096  # of the dense form, at most
_NUMBERS = 8000  # of all vectors together, at least: 1.6% of deviation


@dataclass(frozen=True, eq=False)
class Traces:
    """Variance per node and coordinate, about the mean of all, that settles where every round adds a unit.

    sent: of white noise at the senders. payload, passes: of thermal noise of 1 W at the receivers, in the payload and
    in each of the passes. payload_mean, passes_mean: of the network's mean, added by every round.
    """

    sent: float
    payload: float
    passes: float
    payload_mean: float
    passes_mean: float


def traces(passes: Passes, weights: csr_array, scale: FloatArray) -> Traces:
    """Of payload and passes with one A[rx, tx]. scale: [K] by which receivers multiply what they hear."""
    nodes = weights.shape[0]
    rng = np.random.default_rng(0)  # the same every time
    columns = -(-_NUMBERS // nodes)

    def signs() -> FloatArray:
        return rng.choice([-1.0, 1.0], (nodes, columns))

    noise = [scale[:, None] * signs() for _ in range(len(passes))]
    none = [np.zeros((nodes, columns))] * len(passes)
    first = _mixed(passes, weights, none[0], [noise[0], *none[1:]])
    later = _mixed(passes, weights, none[0], [none[0], *noise[1:]])
    state = np.hstack([_mixed(passes, weights, signs(), none), first, later])
    state -= state.mean(axis=0)
    settled = _settled(passes, weights, state, columns)
    # the mean takes 1'N_k = s_k 1' of receiver noise, as columns of A sum to one
    mean = passes.to_mean() ** 2 * float(np.sum(scale**2)) / nodes**2
    return Traces(settled[0], settled[1], settled[2], float(mean[0]), float(mean[1:].sum()))


def _mixed(passes: Passes, weights: csr_array, sent: FloatArray, noise: list[FloatArray]) -> FloatArray:
    """What payload and passes make of what is sent, `[K, n]`, with receiver noise of each."""
    before, now = np.zeros_like(sent), sent
    for k in range(len(passes)):
        heard = passes.heard[k] * (weights @ now + noise[k])
        before, now = now, heard + passes.kept[k] * now + passes.before[k] * before
    return now


def _settled(passes: Passes, weights: csr_array, state: FloatArray, columns: int) -> list[float]:
    """Sum over rounds of the mean square of every group of columns, as each round mixes them again."""
    nothing = [np.zeros_like(state)] * len(passes)
    total, last = np.zeros(3), np.zeros(3)
    for _ in range(_ROUNDS):
        before, last = last, np.square(state).mean(axis=0).reshape(3, columns).mean(axis=1)
        total += last
        if (last <= 1e-6 * total).all():
            return [float(value) for value in total]
        state = _mixed(passes, weights, state, nothing)
        state -= state.mean(axis=0)
    factor = np.divide(last, before, out=np.zeros(3), where=before > 0)
    left = _MOST_ROUNDS - _ROUNDS
    rest = last * factor * np.where(factor < 1, (1 - factor**left) / np.maximum(1 - factor, 1e-12), left)
    return [float(value) for value in total + rest]
