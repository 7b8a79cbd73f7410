"""Every release of a run, worked out again from its traces: a second witness of what the ledger wrote down.

    mu[t, j] = sens gamma mult / (sqrt(beta/alpha) sigma),   gamma and mult of the gradient that was sent

Hardened: sigma = rho gamma, so gamma cancels. Paper protocol: sigma = rho gamma_t, the rate of the round itself.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from wirelessdl.analysis.data_split import DataSplit
from wirelessdl.arrays import BoolArray
from wirelessdl.errors import TraceError, shown
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.privacy.release import FrameRelease
from wirelessdl.trace.run import Run

_COLUMNS = ("round", "transmitted", "alpha", "beta", "sent_multiplier", "sent_learning_rate")


def recounted_ledger(run: Run, split: DataSplit, *, least: bool = False) -> Ledger:
    """A fresh ledger taken through the run's own releases.

    least: every release a billionth smaller than worked out again, so that a last bit never puts it into a cell of less
    noise than the run itself counted; a ledger of the run must charge at least this.
    """
    ledger = Ledger(split.terms, split.rate)
    for release in releases_of(run, split):
        ledger.record(replace(release, own_mu=release.own_mu * (1.0 - 1e-9)) if least else release)
    return ledger


def releases_of(run: Run, split: DataSplit) -> Iterator[FrameRelease]:
    """Every round as the ledger recorded it, without links."""
    count = len(split.rate)
    rate: dict[int, float] = dict(run.frame("rounds", ["round", "learning_rate"]).itertuples(index=False))
    nodes = run.frame("nodes", _COLUMNS)
    nodes = nodes[nodes["round"].isin([*rate])]  # of a run that goes on, rounds are written last
    shape = (len(rate), count)
    if len(nodes) != len(rate) * count or nodes["round"].tolist() != np.repeat([*rate], count).tolist():
        raise TraceError(f"{shown(run.path)}: the nodes table does not hold {count} rows for every round")
    on_air: BoolArray = nodes["transmitted"].to_numpy().astype(bool).reshape(shape)
    alpha, beta, sent, gamma = (nodes[name].to_numpy().reshape(shape) for name in _COLUMNS[2:])
    rho, aligned = run.scenario["privacy"]["rho"], split.terms.protocol == "hardened"
    no_links = np.zeros(0, dtype=np.int64)
    for row, (number, learning_rate) in enumerate(rate.items()):
        lag = 1.0 if aligned else gamma[row] / learning_rate
        with np.errstate(divide="ignore", invalid="ignore"):
            mu = split.sensitivity * sent[row] * lag * np.sqrt(alpha[row] / beta[row]) / rho
        yield FrameRelease(
            round=int(number),
            on_air=on_air[row],
            gamma=gamma[row],
            multiplier=sent[row],
            own_mu=np.where(on_air[row] & (sent[row] > 0), mu, 0.0),
            link_rx=no_links,
            link_tx=no_links,
            link_mu=np.zeros(0),
        )
