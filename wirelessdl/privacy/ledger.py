"""The ledger: the release of every slot, kept as running totals and counts per sender and per link.

Three views:
- `own`, status `proven`: each sender masked by its own noise only, against all other nodes together. Hardened
  protocol: amplified by subsampling, `pld` (running totals: Theorem 9, a looser bound that is cheap to compute), or
  `gdp` for full batches and shuffled epochs, which give no amplification. Paper protocol: `gdp`, no amplification,
  since the gradient is computed at a model without noise.
- `coalition`, status `proven`, where pairs of nodes share noise (`wirelessdl.privacy.coalition`): each sender masked by
  what no coalition of c nodes knows. The same accountants; only the noise multiplier differs.
- `link`, status `unproven`: the paper's sum over rounds of what one receiver hears in each. It is valid for a single
  slot; over several slots a gradient reaches the receiver again through the network, so the sum is no guarantee. There
  is none where pairs share noise, which does not add up there, or where passes send on what was received.

Releases are counted by noise (`wirelessdl.privacy.counts`), so that totals can be composed at the end, whatever
fading, outage or changing plans did to them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.privacy.accountant import (
    Accountant,
    AmplifiedAccountant,
    EpochAccountant,
    GaussianAccountant,
    LinkAccountant,
)
from wirelessdl.privacy.counts import GRID, ReleaseCounts
from wirelessdl.privacy.pld import BEYOND, SPARSE_ORDERS, compose, convert, rdp_table
from wirelessdl.privacy.terms import PrivacyAssumptions, View, profile_of


@dataclass(frozen=True, eq=False)
class FrameRelease:
    """All transmissions of one slot.

    on_air: [K] which nodes send. gamma, multiplier: [K] learning rate and multiplier of the gradient that each sender's
    model holds, 0 for none. own_mu: [K] mu masked by the sender's own noise only. link_rx, link_tx: [links] receiver
    and sender. link_mu: [links] mu masked by all noise that the receiver hears; NaN where that means nothing.
    coalition_mu: [K] mu masked by what the coalition does not know, where pairs share noise. counts_links: whether what
    a receiver hears is accounted for at all. block_mu: [blocks, links] link_mu block by block, of which it is the
    largest. stage: whether it is a frame of a Gram stage, which nothing amplifies.
    """

    round: int
    on_air: BoolArray
    gamma: FloatArray
    multiplier: FloatArray
    own_mu: FloatArray
    link_rx: IntArray
    link_tx: IntArray
    link_mu: FloatArray
    coalition_mu: FloatArray | None = None
    counts_links: bool = True
    block_mu: FloatArray | None = None
    stage: bool = False

    @property
    def link_number(self) -> IntArray:
        """Number rx * K + tx of each link."""
        return self.link_rx * len(self.on_air) + self.link_tx


def add_to_stage(charged: FloatArray, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
    """mu that a stage is charged with after one more frame, and what that adds, `[K]` each.

    A little more than mu is charged, so that the last bits of later frames add nothing.
    """
    most = np.where(mu > charged, mu * (1.0 + 1e-9), charged)
    return most, np.sqrt(np.maximum(most - charged, 0.0) * (most + charged))


_SUM_TOLERANCE = 1e-9  # of the same sums in another order
_MAX_COMPOSITIONS = 24  # compositions, of about 10 ms each, at an evaluation
_MAX_RELEASES = 10**7  # releases beyond which a budget is no limit
_REMEMBERED_TOTALS = 64  # compositions that are remembered, beside one for each sender: every evaluation brings others


class SenderTotals:
    """All releases of K senders so far, as one adversary sees them. q: [K] sampling rate of each sender.

    mu is given by the sensitivity of the terms' adjacency. Where sampling amplifies, releases are counted by noise over
    replace-one sensitivity, which the table of accountants goes by.
    """

    def __init__(self, terms: PrivacyAssumptions, q: FloatArray):
        self.terms, self._replaced = terms, terms.replaced
        self.nodes, self._q = len(q), q
        self.accountant: Accountant
        if terms.amplified:
            self.accountant = AmplifiedAccountant(q, terms.factor("rdp-wang19"))
        elif terms.by_epoch:
            self.accountant = EpochAccountant(np.array(terms.epoch_rounds))
        else:
            self.accountant = GaussianAccountant(self.nodes)
        self.counts = ReleaseCounts()
        self.whole = np.zeros(self.nodes)  # mu^2 of releases that sampling does not amplify, where it does others
        self._room: dict[tuple[float, int, float], int] = {}
        self._exact: dict[bytes, float] = {}  # by digest: releases of a long run are in hundreds of cells

    def record(self, round: int, sender: IntArray, mu: FloatArray, *, whole: bool = False) -> None:
        """Releases of one slot: mu of each of these senders. whole: nothing amplifies them."""
        if not (mu >= 0).all():  # a NaN would count as nothing
            raise ValueError(f"mu of a release is {mu[~(mu >= 0)][0]}; must be >= 0, or inf without noise")
        if isinstance(self.accountant, EpochAccountant):
            self.accountant.round = round
        if whole and self.terms.amplified:
            self.whole[sender] += mu**2
            self.accountant.total[sender] += 0.5 * mu[:, None] ** 2 * SPARSE_ORDERS
            return
        mu = mu * self._replaced
        if whole and isinstance(self.accountant, EpochAccountant):
            self.accountant.record_whole(sender, mu)
        else:
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

    def total_of(self, node: int) -> float:
        """Proven total of one sender so far, exact."""
        bound = float(self.bound()[node])
        return self._composed(node, self.cells[node], bound) if self.terms.amplified else bound

    def known(self) -> FloatArray:
        """Proven totals so far of those who may be the worst sender, `[K]`, exact; NaN elsewhere.

        Of those with the same releases it is who has the largest sampling rate. All are NaN where composing them takes
        too long for an evaluation. Depends on releases alone: not on what was composed before a run was interrupted.
        """
        bound = self.bound()
        if not self.terms.amplified:
            return bound
        total = np.full(self.nodes, np.nan)
        if self.counts.most_cells() > _MAX_COMPOSITIONS:
            return total
        every = self.cells
        kinds = [(whole, *sorted(cells.items())) for whole, cells in zip(self.whole.tolist(), every)]
        largest: dict[tuple[Any, ...], float] = {}
        for kind, q in zip(kinds, self._q.tolist()):
            largest[kind] = max(q, largest.get(kind, 0.0))
        if sum(len(kind) - 1 for kind in largest) > _MAX_COMPOSITIONS:
            return total
        for node, (kind, cells) in enumerate(zip(kinds, every)):
            if self._q[node] == largest[kind] or not cells or -1 in cells:  # the last two compose nothing
                total[node] = self._composed(node, cells, bound[node])
        return total

    def exhausted(self, mu: FloatArray, budget: float) -> BoolArray:
        """Which senders would exceed the total budget by one more release, `[K]`. mu: [K] of that release."""
        mu = mu * self._replaced
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
            while high < _MAX_RELEASES and self._composed(node, {cell: high}) <= budget:
                low, high = high, 2 * high
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self._composed(node, {cell: middle}) <= budget else (low, middle)
            self._room[key] = low
        return held.get(cell, 0) + 1 <= self._room[key]

    def _composed(self, node: int, cells: Mapping[int, int], bound: float = math.inf) -> float:
        """Exact composition of one sender's releases; the bound where composing them is not possible."""
        whole = float(self.whole[node])
        if not cells or -1 in cells:
            return bound if cells else min(bound, analytic_epsilon(math.sqrt(whole), self.terms.delta))
        rate, key = float(self._q[node]), self._key(node, cells)
        if key not in self._exact:
            cells = dict(sorted(cells.items()))  # the order of sums decides the last bit, and a resumed run has its own
            nu = GRID.nu(np.array(list(cells)))
            terms = self.terms
            counts = {(rate, float(value)): count for value, count in zip(nu * terms.factor("pld"), cells.values())}
            plain = zip(nu * terms.factor("gdp"), cells.values())
            gdp = math.sqrt(whole + sum(count / value**2 for value, count in plain))
            rows = rdp_table(tuple(SPARSE_ORDERS.tolist()), np.full(len(nu), rate), nu * terms.factor("rdp-wang19"))
            renyi = np.array(list(cells.values())) @ rows + 0.5 * whole * SPARSE_ORDERS
            amplified = convert(renyi[None], self.terms.delta)[0]
            least = min(analytic_epsilon(gdp, self.terms.delta), float(amplified))
            if least <= BEYOND:
                if whole:
                    counts[1.0, 1.0 / math.sqrt(whole)] = 1
                sampler = profile_of(terms.sampler, terms.clipping, terms.adjacency)
                least = min(least, compose(counts, self.terms.delta, sampler=sampler))
            if len(self._exact) >= _REMEMBERED_TOTALS + self.nodes:
                del self._exact[next(iter(self._exact))]
            self._exact[key] = least
        return min(bound, self._exact[key])

    def _key(self, node: int, cells: Mapping[int, int]) -> bytes:
        """What tells a sender's releases, by cell, its sampling rate and what is not amplified from all others."""
        kept = np.array([self._q[node], self.whole[node]])
        return sha256(kept.tobytes() + np.array(sorted(cells.items())).tobytes()).digest()

    def charges_at_least(self, other: "SenderTotals") -> BoolArray:
        """Which senders are charged with at least what another charges them, `[K]`."""
        bound = self.bound() >= other.bound() * (1.0 - _SUM_TOLERANCE)
        return np.asarray(bound & ~np.isin(np.arange(self.nodes), self.counts.fewer_than(other.counts)))

    def state(self) -> dict[str, NDArray[Any]]:
        kept = {"total": self.accountant.total, "counts": self.counts.state()}
        return {**kept, "whole": self.whole} if self.terms.gram else kept

    def fits(self, state: Mapping[str, NDArray[Any]]) -> bool:
        """Whether a kept state is about these senders."""
        return self.counts.fits(state["counts"], self.nodes)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a state that `state` returned."""
        self.accountant.total[:] = state["total"]
        self.whole[:] = state.get("whole", 0.0)
        self.counts.restore(state["counts"])


@dataclass(frozen=True, eq=False)
class Statement:
    """Totals of one view, arrays over its streams: tx, rx (-1 for any listener), charged rounds and epsilon."""

    view: View
    status: Literal["proven", "declared", "unproven"]
    accountant: str
    tx: IntArray
    rx: IntArray
    rounds: IntArray
    epsilon_total: FloatArray


class Ledger:
    """All releases so far. q: [K] sampling rate of each sender."""

    def __init__(self, terms: PrivacyAssumptions, q: FloatArray):
        self.terms = terms
        self.nodes, self._q = len(q), q
        self.own = SenderTotals(terms, q)
        self.coalition = SenderTotals(terms, q) if terms.shares_noise else None
        # links may appear later: one becomes a stream when it is first heard
        self.link = LinkAccountant()
        self.link_number = np.zeros(0, dtype=np.int64)  # rx * K + tx of each stream
        self._known: tuple[IntArray, IntArray] = (self.link_number, self.link_number)  # numbers that rise, streams
        self._last: tuple[IntArray, IntArray] = self._known  # numbers of the slot before, and their streams

    @property
    def promised(self) -> SenderTotals:
        """The view that is promised: budgets and stopping act on it."""
        return self.coalition if self.coalition is not None and self.terms.promised == "coalition" else self.own

    def record(self, release: FrameRelease) -> None:
        """Record one slot; called before anything is sent."""
        sender = np.flatnonzero(release.on_air)
        self.own.record(release.round, sender, release.own_mu[sender], whole=release.stage)
        if self.coalition is not None:
            assert release.coalition_mu is not None
            self.coalition.record(release.round, sender, release.coalition_mu[sender], whole=release.stage)
        if self.terms.counts_links:
            self.link.record(self._streams(release.link_number), release.link_mu * self.terms.link_scale)

    def state(self) -> dict[str, NDArray[Any]]:
        """The state of the ledger, as arrays."""
        return {
            **{f"{view}_{name}": values for view, totals in self.views() for name, values in totals.state().items()},
            "link_number": self.link_number,
            "link_counts": self.link.counts.state(),
        }

    def fits(self, state: Mapping[str, NDArray[Any]]) -> bool:
        """Whether a kept state is about the senders and links of this network."""
        link = state["link_number"]
        known = bool(((link >= 0) & (link < self.nodes**2)).all()) and len(np.unique(link)) == len(link)
        return (
            known
            and all(totals.fits(_of_view(state, view)) for view, totals in self.views())
            and self.link.counts.fits(state["link_counts"], len(link))
        )

    def link_counts(self) -> ReleaseCounts:
        """Releases on links so far; the stream of a link is its number rx * K + tx."""
        return self.link.counts.renumbered(self.link_number)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a state that `state` returned."""
        for view, totals in self.views():
            totals.restore(_of_view(state, view))
        self._streams(state["link_number"])
        self.link.counts.restore(state["link_counts"])

    def statements(self, *, exact: bool = True) -> list[Statement]:
        """The privacy table: one row per sender and proven view, then one per link that was ever heard.

        exact=False, while a run goes on: running bounds of the senders only, since totals of links take long.
        """
        amplified = self.terms.amplified
        name = "gdp" if not amplified else "pld" if exact else "rdp-wang19"
        found = [
            Statement(
                view=view,
                status=self.terms.status,
                accountant=name,
                tx=np.arange(self.nodes),
                rx=np.full(self.nodes, -1),
                rounds=totals.rounds,
                epsilon_total=totals.total() if exact else totals.bound(),
            )
            for view, totals in self.views()
        ]
        if not exact or not self.terms.counts_links:
            return found
        order = np.argsort(self.link_number)
        rx, tx = np.divmod(self.link_number[order], self.nodes)
        total = self.link.totals(self._q[self.link_number % self.nodes], self.terms.delta)[order]
        rounds = self.link.counts.rounds(len(order))[order]
        return [*found, Statement("link", "unproven", self.link.name, tx, rx, rounds, total)]

    def views(self) -> list[tuple[View, SenderTotals]]:
        """The proven views."""
        own: tuple[View, SenderTotals] = ("own", self.own)
        return [own] if self.coalition is None else [own, ("coalition", self.coalition)]

    def _streams(self, number: IntArray) -> IntArray:
        """Stream of each link by its number, new ones added. Memory is that of the links, not of all K^2 pairs."""
        if np.array_equal(number, self._last[0]):
            return self._last[1]
        known, stream = self._known
        place = np.minimum(np.searchsorted(known, number), max(len(known) - 1, 0))
        new = number[known[place] != number] if len(known) else number
        if len(new):
            self.link_number = np.concatenate([self.link_number, new])
            order = np.argsort(self.link_number)
            known, stream = self._known = self.link_number[order], order
            place = np.searchsorted(known, number)
        self._last = (number.copy(), stream[place])
        return self._last[1]


def _of_view(state: Mapping[str, NDArray[Any]], view: str) -> dict[str, NDArray[Any]]:
    return {name: state[f"{view}_{name}"] for name in ("total", "counts", "whole") if f"{view}_{name}" in state}
