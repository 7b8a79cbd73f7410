"""A Gaussian field over the places of both ends of a link, as a sum of sinusoids: nearby links have nearby values.

    G(p, q) = sqrt(2 / N) sum_n cos(k_n p + l_n q + phi_n)
    S(p, q) = (G(p, q) + G(q, p)) / sqrt(2 (1 + exp(-2 |p - q| / d)))

    p, q      places of the two ends, m, three coordinates
    d         correlation distance, m
    k_n, l_n  wave vectors, independent, each a multivariate Cauchy vector of scale 1 / d
    phi_n     phases, uniform on the circle

Its characteristic function makes the Cauchy vector the one whose field has the correlation exp(-|dp| / d) of Gudmundson
at each end. S is N(0, 1), the same in both directions, and the correlation of links (p, q) and (p', q') that are long
against d is

    exp(-(|p - p'| + |q - q'|) / d) + exp(-(|p - q'| + |q - p'|) / d)

of which one term counts unless the ends of both lie together. A value depends on places and the seed alone: not on the
path taken, the nodes' numbers or which other links exist. Cost: N terms per link.

A field of exponential correlation is rough: it crosses a level again and again on its way. What is decided by a level,
the line of sight, takes a smooth one, whose wave vectors are normal (of deviation 1 / d).
"""

import numpy as np
import scipy

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Geometry, Links, Pairs

_TERMS = 64
PAIRS_AT_ONCE = 8192  # so that many links need little memory


class Field:
    """S of every pair of nodes, at any correlation distance; `word` is its seed of 64 bits."""

    def __init__(self, word: int, *, smooth: bool = False):
        """smooth: correlation exp(-(|dp|^2 + |dq|^2) / (2 d^2)) instead, which crosses a level a few times only."""
        rng = np.random.default_rng(word)
        self._smooth = smooth
        direction = rng.standard_normal((2, _TERMS, 3))
        direction /= np.linalg.norm(direction, axis=2, keepdims=True)
        # lengths by stratum of their distribution, so that one field alone has the correlation of all of them
        strata = (rng.permuted(np.tile(np.arange(_TERMS), (2, 1)), axis=1) + rng.random((2, _TERMS))) / _TERMS
        if smooth:
            square = 2.0 * scipy.special.gammaincinv(1.5, strata)
        else:
            share = scipy.special.betaincinv(1.5, 0.5, strata)
            square = share / (1.0 - share)
        self._waves = direction * np.sqrt(square)[:, :, None]
        self._phase = 2.0 * np.pi * rng.random(_TERMS)
        self._turned: dict[float, tuple[Geometry, FloatArray, FloatArray]] = {}

    def pairs(self, links: Links, distance_m: float) -> FloatArray:
        """S of the pairs of these links at a correlation distance, `[pairs]`."""
        pairs = links.pairs
        first, second = self._turns(links.geometry, distance_m)
        apart = np.zeros(len(pairs))
        apart[pairs.of_link] = links.distance_m / distance_m
        swapped = np.exp(-(apart**2)) if self._smooth else np.exp(-2.0 * apart)  # correlation with the ends swapped
        return np.asarray(_products(first, second, pairs, links.instants) / np.sqrt(_TERMS * (1.0 + swapped)))

    def _turns(self, geometry: Geometry, distance_m: float) -> tuple[FloatArray, FloatArray]:
        """(cos, sin) of k_n p, and (cos, -sin) of l_n p + phi_n, of every node, `[K, 2 N]` each."""
        kept = self._turned.get(distance_m)
        if kept is None or kept[0] is not geometry:
            here = geometry.position_m / distance_m
            one, other = here @ self._waves[0].T, here @ self._waves[1].T + self._phase
            first = np.concatenate([np.cos(one), np.sin(one)], axis=1)
            kept = self._turned[distance_m] = (geometry, first, np.concatenate([np.cos(other), -np.sin(other)], axis=1))
        return kept[1], kept[2]


def _products(first: FloatArray, second: FloatArray, pairs: Pairs, instants: int) -> FloatArray:
    """Both orders of the inner product of each pair's rows, `[pairs]`; in one product where pairs are many."""
    nodes = len(first) // instants
    if nodes**2 * instants <= 8 * len(pairs):
        # instant by instant: nodes of different instants do not meet
        every = (first.reshape(instants, nodes, -1) @ second.reshape(instants, nodes, -1).mT).reshape(-1)
        low, high = pairs.low % nodes, pairs.high % nodes
        row = pairs.low - low  # nodes of the instants before
        return np.asarray(every[(row + low) * nodes + high] + every[(row + high) * nodes + low])
    level = np.empty(len(pairs))
    for begin in range(0, len(pairs), PAIRS_AT_ONCE):
        low, high = pairs.low[begin : begin + PAIRS_AT_ONCE], pairs.high[begin : begin + PAIRS_AT_ONCE]
        there = np.einsum("pn,pn->p", first[low], second[high])
        level[begin : begin + PAIRS_AT_ONCE] = there + np.einsum("pn,pn->p", first[high], second[low])
    return level
