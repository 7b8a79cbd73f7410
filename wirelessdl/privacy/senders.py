"""Running totals of every sender in one view of the ledger: releases counted by noise, composed when asked for."""

import math
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.privacy.accountant import Accountant, AmplifiedAccountant, EpochAccountant, GaussianAccountant
from wirelessdl.privacy.combinations import profile_of
from wirelessdl.privacy.counts import GRID, ReleaseCounts
from wirelessdl.privacy.pld import BEYOND, compose
from wirelessdl.privacy.rdp import SPARSE_ORDERS, convert, rdp_table
from wirelessdl.privacy.terms import Terms

_AGREE = 1e-9  # of the same sums in another order
_AFFORDABLE = 24  # compositions, of about 10 ms each, at an evaluation
_MOST = 10**7  # releases beyond which a budget is no limit
_KEPT = 64  # compositions that are remembered, beside one for each sender: every evaluation brings others


class SenderTotals:
    """All releases of K senders so far, as one adversary sees them. q: [K] sampling rate of each sender."""

    def __init__(self, terms: Terms, q: FloatArray):
        self.terms = terms
        self.nodes, self._q = len(q), q
        self.accountant: Accountant
        if terms.amplified:
            self.accountant = AmplifiedAccountant(q)
        elif terms.by_epoch:
            self.accountant = EpochAccountant(np.array(terms.epoch_rounds))
        else:
            self.accountant = GaussianAccountant(self.nodes)
        self.counts = ReleaseCounts()
        self._room: dict[tuple[float, int, float], int] = {}
        self._exact: dict[bytes, float] = {}  # by digest: releases of a long run are in hundreds of cells

    def record(self, round: int, sender: IntArray, mu: FloatArray) -> None:
        """Releases of one slot: mu of each of these senders."""
        if not (mu >= 0).all():  # a NaN would count as nothing
            raise ValueError(f"mu of a release is {mu[~(mu >= 0)][0]}; must be >= 0, or inf without noise")
        if isinstance(self.accountant, EpochAccountant):
            self.accountant.round = round
        self.accountant.record(sender, mu)
        self.counts.record(sender, mu)

    @property
    def cells(self) -> list[dict[int, int]]:
        """Releases of each sender so far, by cell of `GRID`."""
        return self.counts.by_stream(self.nodes)

    @property
    def rounds(self) -> IntArray:
        """Slots in which each sender was charged, `[K]`."""
        return self.counts.rounds(self.nodes)

    def bound(self) -> FloatArray:
        """Proven total of every sender so far, `[K]`: cheap to compute; loose where amplified."""
        return self.accountant.epsilon(self.terms.delta)

    def total(self) -> FloatArray:
        """Proven total of every sender so far, `[K]`, by the tightest accountant available."""
        bound = self.bound()
        if not self.terms.amplified:
            return bound
        return np.array([self._composed(node, self.cells[node], bound[node]) for node in range(self.nodes)])

    def worst(self) -> float:
        """Proven total of the worst sender so far, exact; NaN where composing it takes too long for an evaluation.

        Few senders can be the worst: of those with the same releases it is the one with the largest sampling rate.
        """
        if not self.terms.amplified:
            return float(self.bound().max(initial=0.0))
        if self.counts.most_cells() > _AFFORDABLE:
            return math.nan
        kinds: dict[tuple[tuple[int, int], ...], int] = {}
        for node, cells in enumerate(self.cells):
            kind = tuple(sorted(cells.items()))
            if kind not in kinds or self._q[node] > self._q[kinds[kind]]:
                kinds[kind] = node
        if sum(len(kind) for kind in kinds) > _AFFORDABLE:
            return math.nan
        rough = self.bound()
        return max(self._composed(node, self.cells[node], rough[node]) for node in kinds.values())

    def exhausted(self, mu: FloatArray, budget: float) -> BoolArray:
        """Which senders would exceed the total budget by one more release, `[K]`. mu: [K] of that release."""
        # without a gradient a release costs nothing, however loose the running bound is
        over = (mu > 0) & (self.accountant.after(mu, self.terms.delta) > budget)
        if self.terms.amplified:
            for node in np.flatnonzero(over & np.isfinite(mu)).tolist():
                cell = int(GRID.cell(1.0 / mu[node : node + 1])[0])
                over[node] = not self._fits(node, cell, budget)
        return np.asarray(over)

    def _fits(self, node: int, cell: int, budget: float) -> bool:
        """Whether a sender's exact total stays within the budget with one more release in a cell."""
        held = self.cells[node]
        if cell < 0:
            return False
        if set(held) - {cell}:
            return self._composed(node, {**held, cell: held.get(cell, 0) + 1}) <= budget
        # all releases in one cell: the number that fits is computed once
        key = (float(self._q[node]), cell, budget)
        if key not in self._room:
            low, high = 0, 1
            while high < _MOST and self._composed(node, {cell: high}) <= budget:
                low, high = high, 2 * high
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self._composed(node, {cell: middle}) <= budget else (low, middle)
            self._room[key] = low
        return held.get(cell, 0) + 1 <= self._room[key]

    def _composed(self, node: int, cells: Mapping[int, int], bound: float = math.inf) -> float:
        """Exact composition of one sender's releases; the bound where composing them is not possible."""
        if not cells or -1 in cells:
            return bound
        rate = float(self._q[node])
        key = _digest(rate, cells)
        if key not in self._exact:
            nu = GRID.nu(np.array(list(cells)))
            counts = {(rate, float(value)): count for value, count in zip(nu, cells.values())}
            gdp = math.sqrt(sum(count / value**2 for (_, value), count in counts.items()))
            rows = rdp_table(tuple(SPARSE_ORDERS.tolist()), np.full(len(nu), rate), nu)
            amplified = convert((np.array(list(cells.values())) @ rows)[None], self.terms.delta)[0]
            least = min(analytic_epsilon(gdp, self.terms.delta), float(amplified))
            if least <= BEYOND:
                sampler = profile_of(self.terms.sampler, self.terms.clipping)
                least = min(least, compose(counts, self.terms.delta, sampler=sampler))
            if len(self._exact) >= _KEPT + self.nodes:
                del self._exact[next(iter(self._exact))]
            self._exact[key] = least
        return min(bound, self._exact[key])

    def charges_at_least(self, other: "SenderTotals") -> BoolArray:
        """Which senders are charged with at least what another charges them, `[K]`."""
        bound = self.bound() >= other.bound() * (1.0 - _AGREE)
        return np.asarray(bound & ~np.isin(np.arange(self.nodes), self.counts.fewer_than(other.counts)))

    def state(self) -> dict[str, NDArray[Any]]:
        return {"total": self.accountant.total, "counts": self.counts.state()}

    def fits(self, state: Mapping[str, NDArray[Any]]) -> bool:
        """Whether a kept state is about these senders."""
        return self.counts.fits(state["counts"], self.nodes)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a state that `state` returned."""
        self.accountant.total[:] = state["total"]
        self.counts.restore(state["counts"])


def _digest(rate: float, cells: Mapping[int, int]) -> bytes:
    """What tells releases of one sampling rate, by cell, from all others."""
    return sha256(np.array([rate]).tobytes() + np.array(sorted(cells.items()), dtype=np.int64).tobytes()).digest()
