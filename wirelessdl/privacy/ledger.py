"""The ledger: every slot's release, kept as running totals per sender and per link.

Two views, two words:
- `own`, status `proven`: each sender behind its own noise alone, against everyone together. Hardened:
  amplified by subsampling (`paper` accountant, a valid bound); paper protocol: `gdp`, no amplification,
  since the gradient is taken at a point without noise.
- `link`, status `claim`: the paper's sum over slots of what one receiver hears in each. It is right for
  a single slot; over slots a gradient is heard again through the network, so the sum is no guarantee.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.privacy.accountant import Accountant, AmplifiedAccountant, GaussianAccountant
from wirelessdl.privacy.release import SlotRelease


@dataclass(frozen=True)
class Terms:
    """What the totals are stated under; the same for every row of the privacy table."""

    protocol: Literal["hardened", "paper"]
    sampler: str
    clipping: str
    delta: float
    adjacency: str = "replace-one"


@dataclass(frozen=True, eq=False)
class Statement:
    """Totals of one view: `tx` and `rx` per stream (rx is -1 for whoever listens)."""

    view: Literal["own", "link"]
    status: Literal["proven", "claim"]
    accountant: str
    tx: IntArray
    rx: IntArray
    rounds: IntArray
    epsilon_total: FloatArray


class Ledger:
    """Releases so far. `q[K]` is each sender's sampling rate."""

    def __init__(self, terms: Terms, q: FloatArray):
        self.terms = terms
        self.nodes = len(q)
        self.own: Accountant
        if terms.protocol == "hardened":
            self.own = AmplifiedAccountant(q)
        else:
            self.own = GaussianAccountant(self.nodes)
        self.own_rounds = np.zeros(self.nodes, dtype=np.int64)
        # links come and go: a pair becomes a stream when it is first heard
        self.link = AmplifiedAccountant(q[:0], rates=q)
        self.link_pair = np.zeros(0, dtype=np.int64)
        self.link_rounds = np.zeros(0, dtype=np.int64)
        self._q = q
        self._stream = np.full(self.nodes**2, -1, dtype=np.int32)

    def record(self, release: SlotRelease) -> None:
        """Write one slot down; called before anything is sent."""
        sender = np.flatnonzero(release.on_air)
        self._charge(self.own, self.own_rounds, sender, release.own_mu[sender])
        stream = self._streams(release.link_rx * self.nodes + release.link_tx)
        self._charge(self.link, self.link_rounds, stream, release.link_mu)

    def own_total(self) -> FloatArray:
        """Proven total of every sender so far, `[K]`."""
        return self.own.epsilon(self.terms.delta)

    def state(self) -> dict[str, NDArray[Any]]:
        """All the ledger remembers, as arrays."""
        return {
            "own_total": self.own.total,
            "own_rounds": self.own_rounds,
            "link_pair": self.link_pair,
            "link_total": self.link.total,
            "link_rounds": self.link_rounds,
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to a remembered state."""
        self.own.total[:] = state["own_total"]
        self.own_rounds[:] = state["own_rounds"]
        self._streams(state["link_pair"])
        self.link.total[:] = state["link_total"]
        self.link_rounds[:] = state["link_rounds"]

    def statements(self) -> list[Statement]:
        """The privacy table: one row per sender, then one per link that was ever heard."""
        everyone = np.arange(self.nodes)
        own = Statement(
            "own",
            "proven",
            self.own.name,
            everyone,
            np.full(self.nodes, -1),
            self.own_rounds,
            self.own_total(),
        )
        order = np.argsort(self.link_pair)
        pair, total = self.link_pair[order], self.link.epsilon(self.terms.delta)[order]
        tx, rx = pair % self.nodes, pair // self.nodes
        return [own, Statement("link", "claim", self.link.name, tx, rx, self.link_rounds[order], total)]

    def _streams(self, pair: IntArray) -> IntArray:
        """Stream of each ordered pair, new ones added."""
        new = pair[self._stream[pair] < 0]
        if len(new):
            self._stream[new] = len(self.link_pair) + np.arange(len(new))
            self.link_pair = np.concatenate([self.link_pair, new])
            self.link_rounds = np.concatenate([self.link_rounds, np.zeros_like(new)])
            self.link.extend(self._q[new % self.nodes])
        return self._stream[pair].astype(np.int64)

    @staticmethod
    def _charge(accountant: Accountant, rounds: IntArray, stream: IntArray, mu: FloatArray) -> None:
        accountant.record(stream, mu)
        rounds[stream] += mu > 0
