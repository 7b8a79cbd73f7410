"""Accountants: how releases add up. Each keeps many streams at once (senders, or links).

`AmplifiedAccountant` (name `paper`): Theorem 9 over a sparse set of orders. A valid bound for the
own-noise view of the hardened protocol; on the paper's link view it is the paper's claim.
`GaussianAccountant` (name `gdp`): no amplification, mu adds in squares, exact for Gaussian releases.
"""

import math
from typing import Literal, Protocol

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.privacy.rdp import ALL_ORDERS, SPARSE_ORDERS, rdp_table, subsampled_rdp

# Table of rdp on a grid of nu, rounded down, so what is read is never below the truth.
_GRID = math.log(1.01)
_NU_MIN, _CELLS = 1e-3, 1621  # up to 1e4


class Accountant(Protocol):
    """Counts releases of parallel streams."""

    name: str
    total: FloatArray  # all it remembers, streams first

    def record(self, stream: IntArray, mu: FloatArray) -> None:
        """Charge one release to each stream named; mu = 0 costs nothing."""
        ...

    def epsilon(self, delta: float) -> FloatArray:
        """Total so far of every stream."""
        ...


class AmplifiedAccountant:
    """Theorem 9 with running totals from a table per sampling rate."""

    name = "paper"

    def __init__(self, q: FloatArray, rates: FloatArray | None = None):
        self.rates = np.unique(q if rates is None else rates)
        self._rate = np.searchsorted(self.rates, q)
        self.total = np.zeros((len(q), len(SPARSE_ORDERS)))
        self._row = np.full(len(self.rates) * _CELLS, -1, dtype=np.int64)
        self._table = np.empty((0, len(SPARSE_ORDERS)))

    def record(self, stream: IntArray, mu: FloatArray) -> None:
        charged = mu > 0
        stream, mu = stream[charged], mu[charged]
        self.total[stream] += self._costs(self._rate[stream], 1.0 / mu)

    def extend(self, q: FloatArray) -> None:
        """Add streams whose sampling rates are among the known ones."""
        self._rate = np.concatenate([self._rate, np.searchsorted(self.rates, q)])
        self.total = np.concatenate([self.total, np.zeros((len(q), len(SPARSE_ORDERS)))])

    def epsilon(self, delta: float) -> FloatArray:
        spent = self.total.max(axis=1) > 0
        bound = np.min(self.total + math.log(1 / delta) / (SPARSE_ORDERS - 1), axis=1)
        return np.where(spent, bound, 0.0)

    def _costs(self, rate: IntArray, nu: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            cell = np.floor(np.log(nu / _NU_MIN) / _GRID)
        known = np.clip(cell, 0, _CELLS - 1).astype(np.int64)
        key = rate * _CELLS + known
        missing = np.unique(key[self._row[key] < 0])
        if len(missing):
            grid_nu = _NU_MIN * np.exp((missing % _CELLS) * _GRID)
            rows = rdp_table(tuple(SPARSE_ORDERS.tolist()), self.rates[missing // _CELLS], grid_nu)
            self._row[missing] = len(self._table) + np.arange(len(missing))
            self._table = np.concatenate([self._table, rows])
        costs: FloatArray = self._table[self._row[key]]
        costs[cell < 0] = np.inf  # less noise than the grid holds
        return costs


class GaussianAccountant:
    """Composition of Gaussian releases without subsampling: mu^2 adds (Dong, Roth and Su)."""

    name = "gdp"

    def __init__(self, streams: int):
        self.total = np.zeros(streams)

    def record(self, stream: IntArray, mu: FloatArray) -> None:
        self.total[stream] += mu**2

    def epsilon(self, delta: float) -> FloatArray:
        return analytic_epsilon(np.sqrt(self.total), delta)


def total_epsilon(
    noise_multiplier: float,
    q: float,
    rounds: int,
    *,
    delta: float,
    accountant: Literal["paper", "gdp"],
) -> float:
    """Epsilon of `rounds` equal releases, without replacement and replace-one; all orders 2..1024."""
    if rounds < 0:
        raise ValueError(f"rounds is {rounds}; must be >= 0")
    if rounds == 0:
        return 0.0
    if accountant == "gdp":
        return analytic_epsilon(math.sqrt(rounds) / noise_multiplier, delta)
    rdp = subsampled_rdp(ALL_ORDERS, q, noise_multiplier)
    return float(np.min(rounds * rdp + math.log(1 / delta) / (ALL_ORDERS - 1)))
