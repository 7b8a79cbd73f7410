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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.privacy.accountant import LinkAccountant
from wirelessdl.privacy.counts import ReleaseCounts
from wirelessdl.privacy.release import FrameRelease
from wirelessdl.privacy.senders import SenderTotals
from wirelessdl.privacy.terms import Terms, View


@dataclass(frozen=True, eq=False)
class Statement:
    """Totals of one view, arrays over its streams: tx, rx (-1 for any listener), charged rounds and epsilon."""

    view: View
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
        self.own.record(release.round, sender, release.own_mu[sender])
        if self.coalition is not None:
            assert release.coalition_mu is not None
            self.coalition.record(release.round, sender, release.coalition_mu[sender])
        if self.terms.counts_links:
            self.link.record(self._streams(release.link_number), release.link_mu)

    def own_bound(self) -> FloatArray:
        """Proven total of every sender so far against everyone, `[K]`: cheap to compute; loose where amplified."""
        return self.own.bound()

    def own_total(self) -> FloatArray:
        """The same by the tightest accountant available."""
        return self.own.total()

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
                status="unproven" if self.terms.declared else "proven",
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
    return {name: state[f"{view}_{name}"] for name in ("total", "counts")}
