"""Accountants compose releases. Each keeps many streams at once (senders, or links).

`AmplifiedAccountant` (name `rdp-wang19`): Theorem 9 over a sparse set of orders, as running totals. A valid bound for
the own-noise view of the hardened protocol.
`LinkAccountant` (name `rdp-wang19`): the same theorem over counted releases, added up when asked for. On the paper's
link view it is the paper's claim, not a proof.
`GaussianAccountant` (name `gdp`): no amplification, mu adds in squares, exact for Gaussian releases.
`EpochAccountant` (name `gdp`): no amplification, shuffled epochs.
"""

from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.privacy.counts import GRID, ReleaseCounts
from wirelessdl.privacy.pld import SPARSE_ORDERS, convert, rdp_table


class Accountant(Protocol):
    """Composes releases of parallel streams. mu: sensitivity over noise deviation; 0 costs nothing."""

    name: str
    total: FloatArray  # its state, streams first

    def record(self, stream: IntArray, mu: FloatArray) -> None:
        """Charge one release to each of the streams. stream, mu: [releases]."""

    def after(self, mu: FloatArray, delta: float) -> FloatArray:
        """Total epsilon of every stream, `[streams]`, if it made one more release. mu: [streams]."""

    def epsilon(self, delta: float) -> FloatArray:
        """Total epsilon of every stream so far, `[streams]`."""


class ReleaseCosts:
    """Renyi parameters of one release by sampling rate and cell of `GRID`, each computed once."""

    def __init__(self) -> None:
        self._rows: dict[tuple[float, int], FloatArray] = {}

    def look_up(self, q: FloatArray, cell: IntArray) -> FloatArray:
        """Rows of `rdp_table`, `[pairs, orders]`; new pairs are computed together. q, cell: [pairs]."""
        pairs = list(zip(q.tolist(), cell.tolist()))
        missing = list(dict.fromkeys(pair for pair in pairs if pair not in self._rows))
        if missing:
            rate, number = (np.array(values) for values in zip(*missing))
            rows = rdp_table(tuple(SPARSE_ORDERS.tolist()), rate, GRID.nu(number))
            self._rows.update(zip(missing, rows))
        return np.array([self._rows[pair] for pair in pairs]).reshape(len(pairs), len(SPARSE_ORDERS))


class AmplifiedAccountant:
    """Theorem 9 with running totals. factor: by which nu is multiplied first (`privacy.terms`)."""

    name = "rdp-wang19"

    def __init__(self, q: FloatArray, factor: float = 1.0):
        self._rate, self._costs, self._factor = q, ReleaseCosts(), factor
        self.total = np.zeros((len(q), len(SPARSE_ORDERS)))

    def record(self, stream: IntArray, mu: FloatArray) -> None:
        charged = mu > 0
        stream, mu = stream[charged], mu[charged]
        self.total[stream] += self._costs.look_up(self._rate[stream], GRID.cell(self._factor / mu))

    def after(self, mu: FloatArray, delta: float) -> FloatArray:
        total = self.total.copy()
        charged = mu > 0
        total[charged] += self._costs.look_up(self._rate[charged], GRID.cell(self._factor / mu[charged]))
        return convert(total, delta)

    def epsilon(self, delta: float) -> FloatArray:
        return convert(self.total, delta)


class EpochAccountant:
    """Shuffled epochs without amplification: a sample takes part once in an epoch, so the epoch's largest mu^2 counts.

    A transmission holds the gradient of the round in which its sender last transmitted. total: [streams, 4], the sum
    of mu^2 over finished epochs, the largest mu^2 of the current epoch, its number from 1 on, and the round of the
    gradient that is sent next, 0 for none. epoch_rounds: [streams] rounds of an epoch.
    """

    name = "gdp"

    def __init__(self, epoch_rounds: IntArray):
        self._rounds = epoch_rounds
        self.total = np.zeros((len(epoch_rounds), 4))
        self.round = 0  # of the slot that is being recorded

    def record(self, stream: IntArray, mu: FloatArray) -> None:
        self.total[stream] = self._charged(stream, mu)
        self.total[stream, 3] = self.round

    def record_whole(self, stream: IntArray, mu: FloatArray) -> None:
        """Charge one release of all samples, which is of no epoch."""
        self.total[stream, 0] += mu**2
        self.total[stream, 3] = self.round

    def after(self, mu: FloatArray, delta: float) -> FloatArray:
        return self._epsilon(self._charged(np.arange(len(mu)), mu), delta)

    def epsilon(self, delta: float) -> FloatArray:
        return self._epsilon(self.total, delta)

    def _charged(self, stream: IntArray, mu: FloatArray) -> FloatArray:
        finished, largest, epoch, gradient_round = self.total[stream].T
        now = np.ceil(gradient_round / self._rounds[stream])
        fresh = now != epoch
        return np.stack(
            [
                finished + np.where(fresh, largest, 0.0),
                np.maximum(np.where(fresh, 0.0, largest), mu**2),
                now,
                gradient_round,
            ],
            axis=1,
        )

    @staticmethod
    def _epsilon(total: FloatArray, delta: float) -> FloatArray:
        return analytic_epsilon(np.sqrt(total[:, 0] + total[:, 1]), delta)


class GaussianAccountant:
    """Composition of Gaussian releases without subsampling: mu^2 adds (Dong, Roth and Su)."""

    name = "gdp"

    def __init__(self, streams: int):
        self.total = np.zeros(streams)

    def record(self, stream: IntArray, mu: FloatArray) -> None:
        self.total[stream] += mu**2

    def after(self, mu: FloatArray, delta: float) -> FloatArray:
        return analytic_epsilon(np.sqrt(self.total + mu**2), delta)

    def epsilon(self, delta: float) -> FloatArray:
        return analytic_epsilon(np.sqrt(self.total), delta)


class LinkAccountant:
    """Theorem 9 for streams whose sampling rates are given when totals are asked for.

    There is one stream per link, each fading by itself. Looking Renyi parameters up in every slot would cost more
    than the learning; counting costs a few array operations.
    """

    name = "rdp-wang19"

    def __init__(self) -> None:
        self.counts, self._costs = ReleaseCounts(), ReleaseCosts()

    def record(self, stream: IntArray, mu: FloatArray) -> None:
        self.counts.record(stream, mu)

    def totals(self, q: FloatArray, delta: float) -> FloatArray:
        """Epsilon of every stream so far, `[streams]`; q: `[streams]`."""
        stream, cell, count = self.counts.entries()
        rates, rate = np.unique(q, return_inverse=True)
        # many streams share a (rate, cell): look each up once, then one sparse product
        width = GRID.cells + 1
        pair, place = np.unique(rate[stream] * width + cell + 1, return_inverse=True)
        table = self._costs.look_up(rates[pair // width], pair % width - 1)
        counts = csr_array((count.astype(np.float64), (stream, place)), shape=(len(q), len(pair)))
        with np.errstate(invalid="ignore"):
            total = np.asarray(counts @ table)
        return convert(total, delta)
