"""The ledger: the release of every slot, kept as running totals and counts per sender and per link.

Two views:
- `own`, status `proven`: each sender masked by its own noise only, against all other nodes together. Hardened
  protocol: amplified by subsampling, `pld` (running totals: Theorem 9, a looser bound that is cheap to compute), or
  `gdp` for full batches and shuffled epochs, which give no amplification. Paper protocol: `gdp`, no amplification,
  since the gradient is computed at a model without noise.
- `link`, status `unproven`: the paper's sum over rounds of what one receiver hears in each. It is valid for a single
  slot; over several slots a gradient reaches the receiver again through the network, so the sum is no guarantee.

Releases are counted by noise (`wirelessdl.privacy.counts`), so that totals can be composed at the end, whatever
fading, outage or changing plans did to them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
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
from wirelessdl.privacy.combinations import Adjacency, Clipping, Sampler, profile_of
from wirelessdl.privacy.counts import GRID, ReleaseCounts
from wirelessdl.privacy.exposure import Unit
from wirelessdl.privacy.pld import BEYOND, compose
from wirelessdl.privacy.rdp import SPARSE_ORDERS, convert, rdp_table
from wirelessdl.privacy.release import FrameRelease

_AGREE = 1e-9  # of the same sums in another order
_AFFORDABLE = 24  # compositions, of about 10 ms each, at an evaluation
_MOST = 10**7  # releases beyond which a budget is no limit


@dataclass(frozen=True)
class Terms:
    """The assumptions of the totals; the same for every row of the privacy table."""

    protocol: Literal["hardened", "paper"]
    sampler: Sampler
    clipping: Clipping
    delta: float
    unit: Unit = "sample"
    adjacency: Adjacency = "replace-one"
    epoch_rounds: tuple[int, ...] = ()  # of every sender, where batches are shuffled
    evaluated: Literal["mixed", "own"] = "mixed"  # whether accuracy is of what was received, or of the last update too

    @property
    def amplified(self) -> bool:
        """Whether subsampling amplifies privacy."""
        drawn = self.sampler in ("without-replacement", "poisson")
        return self.protocol == "hardened" and self.unit == "sample" and drawn

    @property
    def by_epoch(self) -> bool:
        """Whether shuffled epochs are charged, not rounds: a sample takes part once in each."""
        return self.protocol == "hardened" and self.unit == "sample" and bool(self.epoch_rounds)

    @property
    def protects(self) -> str:
        """What the totals protect, in a word or two."""
        return "one sample" if self.unit == "sample" else "all data of one node"

    @property
    def conditions(self) -> list[str]:
        """What the proven total assumes; the engine guarantees all of it except for the learner's memory."""
        kept = [
            "one sample of one node is protected: replaced by another, everything else the same"
            if self.unit == "sample"
            else "all data of one node are protected: replaced by as many others, everything else the same",
            "clients and their sizes are fixed and public",
            "gains, mixing, plan, faults and compute times do not depend on data",
            "the own term holds the noise that was sent",
            "a learner remembers nothing but its weights (a class of your own is tried before the run, not proven)",
            "batches are drawn anew each round, keyed by node and round"
            if self.sampler != "shuffled"
            else f"batches follow an order drawn anew each epoch; {'epochs' if self.by_epoch else 'rounds'} count",
            "the test set is public: accuracy is read from it, and where it decides anything nothing covers that",
            "x_1 comes from no data: the first transmission is not charged",
            "noise stays secret: the run directory, with its seed, is not a private release",
        ]
        if self.protocol == "hardened":
            return [
                *kept,
                "noise is aligned with the learning rate of the gradient that is sent",
                "accuracy and final model are those of what was received; the last update is never shown",
            ]
        return [
            *kept,
            "no amplification by sampling: gradients are taken at a noiseless point",
            "accuracy is of what was received"
            if self.evaluated == "mixed"
            else "reported accuracy is of the last update, which the total does not cover",
        ]


@dataclass(frozen=True, eq=False)
class Statement:
    """Totals of one view, arrays over its streams: tx, rx (-1 for any listener), charged rounds and epsilon."""

    view: Literal["own", "link"]
    status: Literal["proven", "unproven"]
    accountant: str
    tx: IntArray
    rx: IntArray
    rounds: IntArray
    epsilon_total: FloatArray


class Ledger:
    """All releases so far. q: [K] sampling rate of each sender."""

    def __init__(self, terms: Terms, q: FloatArray):
        self.terms = terms
        self.nodes, self._q = len(q), q
        self.own: Accountant
        if terms.amplified:
            self.own = AmplifiedAccountant(q)
        elif terms.by_epoch:
            self.own = EpochAccountant(np.array(terms.epoch_rounds))
        else:
            self.own = GaussianAccountant(self.nodes)
        self._own_counts = ReleaseCounts()
        self._room: dict[tuple[float, int, float], int] = {}
        self._exact: dict[tuple[float, tuple[tuple[int, int], ...]], float] = {}
        # links may appear later: one becomes a stream when it is first heard
        self.link = LinkAccountant()
        self.link_number = np.zeros(0, dtype=np.int64)  # rx * K + tx of each stream
        self._stream = np.full(self.nodes**2, -1, dtype=np.int32)

    def record(self, release: FrameRelease) -> None:
        """Record one slot; called before anything is sent."""
        sender = np.flatnonzero(release.on_air)
        if isinstance(self.own, EpochAccountant):
            self.own.round = release.round
        self.own.record(sender, release.own_mu[sender])
        self._own_counts.record(sender, release.own_mu[sender])
        self.link.record(self._streams(release.link_number), release.link_mu)

    @property
    def cells(self) -> list[dict[int, int]]:
        """Releases of each sender so far, by cell of `GRID`."""
        return self._own_counts.by_stream(self.nodes)

    @property
    def own_rounds(self) -> IntArray:
        """Slots in which each sender was charged, `[K]`."""
        return self._own_counts.rounds(self.nodes)

    def own_bound(self) -> FloatArray:
        """Proven total of every sender so far, `[K]`: cheap to compute; loose where amplified."""
        return self.own.epsilon(self.terms.delta)

    def own_total(self) -> FloatArray:
        """Proven total of every sender so far, `[K]`, by the tightest accountant available."""
        bound = self.own_bound()
        if not self.terms.amplified:
            return bound
        return np.array([self._composed(node, self.cells[node], bound[node]) for node in range(self.nodes)])

    def own_worst(self) -> float:
        """Proven total of the worst sender so far, exact; NaN where composing it takes too long for an evaluation.

        Few senders can be the worst: of those with the same releases it is the one with the largest sampling rate.
        """
        if not self.terms.amplified:
            return float(self.own_bound().max(initial=0.0))
        kinds: dict[tuple[tuple[int, int], ...], int] = {}
        for node, cells in enumerate(self.cells):
            kind = tuple(sorted(cells.items()))
            if kind not in kinds or self._q[node] > self._q[kinds[kind]]:
                kinds[kind] = node
        if sum(len(kind) for kind in kinds) > _AFFORDABLE:
            return math.nan
        rough = self.own_bound()
        return max(self._composed(node, self.cells[node], rough[node]) for node in kinds.values())

    def exhausted(self, own_mu: FloatArray, budget: float) -> BoolArray:
        """Which senders would exceed the total budget by one more release, `[K]`. own_mu: [K] mu of that release."""
        # without a gradient a release costs nothing, however loose the running bound is
        over = (own_mu > 0) & (self.own.after(own_mu, self.terms.delta) > budget)
        if self.terms.amplified:
            for node in np.flatnonzero(over & np.isfinite(own_mu)).tolist():
                cell = int(GRID.cell(1.0 / own_mu[node : node + 1])[0])
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
        key = (float(self._q[node]), tuple(sorted(cells.items())))
        if key not in self._exact:
            nu = GRID.nu(np.array(list(cells)))
            counts = {(key[0], float(value)): count for value, count in zip(nu, cells.values())}
            gdp = math.sqrt(sum(count / value**2 for (_, value), count in counts.items()))
            rows = rdp_table(tuple(SPARSE_ORDERS.tolist()), np.full(len(nu), key[0]), nu)
            amplified = convert((np.array(list(cells.values())) @ rows)[None], self.terms.delta)[0]
            least = min(analytic_epsilon(gdp, self.terms.delta), float(amplified))
            if least <= BEYOND:
                sampler = profile_of(self.terms.sampler, self.terms.clipping)
                least = min(least, compose(counts, self.terms.delta, sampler=sampler))
            self._exact[key] = least
        return min(bound, self._exact[key])

    def state(self) -> dict[str, NDArray[Any]]:
        """The state of the ledger, as arrays."""
        return {
            "own_total": self.own.total,
            "own_counts": self._own_counts.state(),
            "link_number": self.link_number,
            "link_counts": self.link.counts.state(),
        }

    def fits(self, state: Mapping[str, NDArray[Any]]) -> bool:
        """Whether a kept state is about the senders and links of this network."""
        link = state["link_number"]
        known = bool(((link >= 0) & (link < self.nodes**2)).all()) and len(np.unique(link)) == len(link)
        return (
            known
            and self._own_counts.fits(state["own_counts"], self.nodes)
            and self.link.counts.fits(state["link_counts"], len(link))
        )

    def charges_at_least(self, other: "Ledger") -> BoolArray:
        """Which senders are charged with at least what another ledger charges them, `[K]`."""
        bound = self.own_bound() >= other.own_bound() * (1.0 - _AGREE)
        return np.asarray(bound & ~np.isin(np.arange(self.nodes), self._own_counts.fewer_than(other._own_counts)))

    def link_counts(self) -> ReleaseCounts:
        """Releases on links so far; the stream of a link is its number rx * K + tx."""
        return self.link.counts.renumbered(self.link_number)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a state that `state` returned."""
        self.own.total[:] = state["own_total"]
        self._own_counts.restore(state["own_counts"])
        self._streams(state["link_number"])
        self.link.counts.restore(state["link_counts"])

    def statements(self, *, exact: bool = True) -> list[Statement]:
        """The privacy table: one row per sender, then one per link that was ever heard.

        exact=False, while a run goes on: running bounds of the senders only, since totals of links take long.
        """
        amplified = self.terms.amplified
        name = "gdp" if not amplified else "pld" if exact else "rdp-wang19"
        own = Statement(
            view="own",
            status="proven",
            accountant=name,
            tx=np.arange(self.nodes),
            rx=np.full(self.nodes, -1),
            rounds=self.own_rounds,
            epsilon_total=self.own_total() if exact else self.own_bound(),
        )
        if not exact:
            return [own]
        order = np.argsort(self.link_number)
        rx, tx = np.divmod(self.link_number[order], self.nodes)
        total = self.link.totals(self._q[self.link_number % self.nodes], self.terms.delta)[order]
        rounds = self.link.counts.rounds(len(order))[order]
        link = Statement("link", "unproven", self.link.name, tx, rx, rounds, total)
        return [own, link]

    def _streams(self, number: IntArray) -> IntArray:
        """Stream of each link by its number, new ones added."""
        new = number[self._stream[number] < 0]
        if len(new):
            self._stream[new] = len(self.link_number) + np.arange(len(new))
            self.link_number = np.concatenate([self.link_number, new])
        return self._stream[number].astype(np.int64)
