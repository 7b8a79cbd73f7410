"""Averaging faster than by A alone: M passes over the air that together apply a polynomial of A.

    y_0 = w,   y_{k+1} = a_k A_k y_k + c_k y_{k-1},   a_k + c_k = 1

    w      what nodes sent in the payload, noise and all, of which pass 0 is the averaging; c_0 = 0
    A_k    weights of pass k, rows summing to one; gains may be fresh in every pass

Rows of the whole map sum to one whatever the A_k, and its columns where theirs do. `plain` is a = 1: A^M. The
Chebyshev polynomial with p(1) = 1 is the smallest on an interval [-lambda, lambda] that holds the other eigenvalues:

    p_k(x) = T_k(x/lambda) / T_k(1/lambda)
    omega_0 = 1,   omega_1 = 2/(2 - lambda^2),   omega_{k+1} = 1/(1 - lambda^2 omega_k/4)
    a_k = omega_k,   c_k = 1 - omega_k

Receiver noise comes in with every pass and is passed on. As lambda nears 1, omega nears 2 and noise grows with every
pass, so 1 - lambda >= 2/M^2 is asked for: there p is 1/cosh(2) = .27 on the interval. Eigenvalues of A may be complex;
p is small within ellipses around the interval too, and `fitted` looks at the whole spectrum.

A node without power for its y_k scales y_k and y_{k-1} down alike before it sends: rows of the map sum to less then.

Every y_k must be a function of what was sent and of receiver noise: y_0 of a node that did not send is no such thing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray

ROUNDING_OF_ONE = 1e-9  # eigenvalues nearer to 1 are rounding of it
TRIED_INTERVALS = 64  # whose ends `fitted` compares


@dataclass(frozen=True, eq=False)
class Passes:
    """Coefficients of M passes, `[M]` each. heard: of A y_k; before: of y_{k-1}, 0 in the first."""

    heard: FloatArray
    before: FloatArray

    def __len__(self) -> int:
        return len(self.heard)

    def factor(self, eigenvalue: NDArray[Any]) -> NDArray[Any]:
        """p(x), of the shape of `eigenvalue`: what all passes with one A make of its eigenvectors.

        Of several polynomials, whose coefficients are `[M, n, 1]`, `[n, eigenvalues]`.
        """
        earlier, now = np.zeros_like(eigenvalue), np.ones_like(eigenvalue)
        for heard, before in zip(self.heard, self.before):
            earlier, now = now, heard * eigenvalue * now + before * earlier
        return now

    def to_mean(self) -> FloatArray:
        """What one unit of receiver noise of each pass is in the sum of all models after the last, `[M]`.

        Where columns of A sum to one, as those of a doubly stochastic A do.
        """
        found = np.zeros(len(self))
        for k in range(len(self)):
            before, now = 0.0, float(self.heard[k])
            for later in range(k + 1, len(self)):
                before, now = now, float(self.heard[later]) * now + float(self.before[later]) * before
            found[k] = now
        return found


@dataclass(frozen=True, eq=False)
class Response:
    """What comes out of M passes. mixing: [K, K] of what was sent; noise: [M, K, K] of receiver noise of each pass."""

    mixing: FloatArray
    noise: FloatArray

    def variance(self, receiver: FloatArray) -> FloatArray:
        """Variance that receiver noise leaves in each node's model, `[K]`.

        receiver: its variance as it enters A y, after normalisation, `[K]` or `[M, K]`; independent in every pass.
        """
        given = np.broadcast_to(receiver, self.noise.shape[:2])
        return np.asarray(np.einsum("kij,kj->i", self.noise**2, given))

    def mean_variance(self, receiver: FloatArray) -> float:
        """Variance that receiver noise leaves in the mean of all models; receiver as in `variance`."""
        given = np.broadcast_to(receiver, self.noise.shape[:2])
        return float(np.sum(self.noise.mean(axis=1) ** 2 * given))


def plain(passes: int) -> Passes:
    """s <- A s in every pass."""
    return Passes(np.ones(passes), np.zeros(passes))


def most_lambda(passes: int) -> float:
    """Largest lambda whose passes do not blow up noise: 1 - 2/M^2; 0 for one pass."""
    return max(1.0 - 2.0 / passes**2, 0.0)


def chebyshev(passes: int, end: FloatArray | np.float64) -> Passes:
    """Coefficients, `[M, ...]`, of the polynomial that is smallest on [-end, end], of one interval or of many."""
    assert np.all(end <= most_lambda(passes) * (1 + 1e-12))  # noise would be amplified
    omega = np.ones((passes, *np.shape(end)))
    for k in range(1, passes):
        omega[k] = 1.0 / (1.0 - end**2 * omega[k - 1] / (2.0 if k == 1 else 4.0))
    return Passes(omega, 1.0 - omega)


def fitted(passes: int, eigenvalues: NDArray[Any]) -> Passes:
    """Passes that leave least of the slowest mode, of intervals that keep lambda <= 1 - 2/M^2; plain if none is better.

    eigenvalues: those of the A that is expected, `[K]`, with its 1; complex ones count by modulus of p. One pass is
    plain.
    """
    if passes <= 1:
        return plain(passes)
    # 1 is left as it is by every p; it comes again where the graph is in parts
    others = np.asarray(eigenvalues, dtype=np.complex128)
    others = np.delete(others, np.argmin(np.abs(others - 1.0))) if len(others) else others
    others = others[np.abs(others - 1.0) > ROUNDING_OF_ONE]
    radius = float(np.abs(others).max(initial=0.0))
    ends = np.linspace(0.0, min(radius, most_lambda(passes)), TRIED_INTERVALS)[1:]
    slowest = np.abs(chebyshev(passes, ends[:, None]).factor(others)).max(axis=1, initial=0.0)
    best = int(np.argmin(slowest))
    if np.abs(plain(passes).factor(others)).max(initial=0.0) <= slowest[best]:
        return plain(passes)
    return chebyshev(passes, ends[best])


def response(passes: Passes, matrices: FloatArray | Sequence[FloatArray]) -> Response:
    """The whole map, worked out backwards from the result. matrices: A[rx, tx], or one for each pass."""
    given = [matrices] * len(passes) if isinstance(matrices, np.ndarray) and matrices.ndim == 2 else list(matrices)
    nodes = len(given[0])
    noise = np.empty((len(passes), nodes, nodes))
    # from y_{k+1} and from y_{k+2} to the result
    after, later = np.eye(nodes), np.zeros((nodes, nodes))
    beyond = 0.0  # before_{k+1}, by which y_k enters y_{k+2}
    for k in reversed(range(len(passes))):
        noise[k] = passes.heard[k] * after
        now = noise[k] @ given[k] + beyond * later
        after, later, beyond = now, after, float(passes.before[k])
    return Response(after, noise)
