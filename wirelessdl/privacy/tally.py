"""Counting now, adding up later: releases per stream and grid cell, and Theorem 9 over them when asked for.

The paper's claim has one stream per link, each fading on its own. Looking its Renyi parameters up in
every round would cost more than the learning; counting costs a few array operations.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.privacy.rdp import SPARSE_ORDERS, convert, rdp_table

_NU_MIN, _GRID, _CELLS = 1e-3, math.log(1.02), 815  # up to 1e4; nu is rounded down, so totals are never too small
_FOLD = 64  # rounds kept apart before they are counted


class Tally:
    """Releases of streams whose sampling rates are given when totals are asked for."""

    name = "rdp-wang19"

    def __init__(self) -> None:
        self._pending: list[IntArray] = []
        self._key, self._count = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._rows: dict[tuple[float, int], FloatArray] = {}

    def record(self, stream: IntArray, mu: FloatArray) -> None:
        """Count one release for each stream named; mu = 0 is none."""
        charged = mu > 0
        with np.errstate(divide="ignore"):
            cell = np.floor(-np.log(mu[charged] * _NU_MIN) / _GRID)
        known = np.clip(cell, -1, _CELLS - 1).astype(np.int64) + 1
        self._pending.append(stream[charged] * (_CELLS + 1) + known)
        if len(self._pending) >= _FOLD:
            self._fold()

    def totals(self, q: FloatArray, delta: float) -> FloatArray:
        """Epsilon of every stream so far; q per stream."""
        self._fold()
        stream, cell = np.divmod(self._key, _CELLS + 1)
        rates, rate = np.unique(q, return_inverse=True)
        # many streams share a (rate, cell): look each up once, then one sparse product
        pair, place = np.unique(rate[stream] * (_CELLS + 1) + cell, return_inverse=True)
        table = self._look_up(rates[pair // (_CELLS + 1)], pair % (_CELLS + 1) - 1)
        counts = csr_array((self._count.astype(np.float64), (stream, place)), shape=(len(q), len(pair)))
        with np.errstate(invalid="ignore"):
            total = np.asarray(counts @ table)
        return convert(total, delta)

    def state(self) -> NDArray[Any]:
        self._fold()
        return np.stack([self._key, self._count])

    def restore(self, state: NDArray[Any]) -> None:
        self._pending = []
        self._key, self._count = state

    def _fold(self) -> None:
        if self._pending:
            key, count = np.unique(np.concatenate(self._pending), return_counts=True)
            every, place = np.unique(np.concatenate([self._key, key]), return_inverse=True)
            total = np.bincount(place, weights=np.concatenate([self._count, count]), minlength=len(every))
            self._key, self._count, self._pending = every, total.astype(np.int64), []

    def _look_up(self, q: FloatArray, cell: IntArray) -> FloatArray:
        """Renyi parameters of pairs, `[pairs, orders]`; those not met before are worked out together."""
        pairs = list(zip(q.tolist(), cell.tolist()))
        missing = [pair for pair in pairs if pair not in self._rows]
        if missing:
            rate, number = (np.array(values) for values in zip(*missing))
            nu = np.where(number < 0, 0.0, _NU_MIN * np.exp(number * _GRID))
            self._rows.update(zip(missing, rdp_table(tuple(SPARSE_ORDERS.tolist()), rate, nu)))
        return np.array([self._rows[pair] for pair in pairs]).reshape(len(pairs), len(SPARSE_ORDERS))
