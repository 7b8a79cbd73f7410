"""How much one node leaks over the rounds: to everyone together, and to one receiver in single slots.

    own, promised   totals so far over all that the node sent, by composition: exact at evaluations, bounds between
    link            epsilon of one slot towards one receiver (Theorem 1), which does not add up over slots: what a
                    receiver hears of a gradient comes again through the network

The totals hold against everyone who hears anything, so against any one receiver too: no smaller one is proven for a
link. Link epsilons are null where no receiver's share of a slot is known: where pairs share noise, where nodes send on
what they received (passes, hubs, turns), and where it did not hear the sender.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from wirelessdl.analysis.releases import data_split, releases_of
from wirelessdl.analysis.style import BLUE, COLUMN, GREY, ORANGE
from wirelessdl.errors import TraceError, quote
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.trace.run import Run

_TOTALS = ("epsilon_own", "epsilon_promised")


def leakage(run: Run, tx: int, rx: int | None = None) -> pd.DataFrame:
    """One row per round: round, time_s, sent, `*_bound` and `*_total` of both views; with rx, `epsilon_link`.

    Totals at evaluations that the run left out are composed again from its traces. attrs: against whom they hold.
    """
    count = run.scenario["network"]["nodes"]
    for key, node in (("tx", tx), *([] if rx is None else [("rx", rx)])):
        if isinstance(node, bool) or not isinstance(node, int | np.integer) or not 0 <= node < count:
            raise TraceError(f"{key} is {quote(node, 40)}; must be a node of {quote(run.path)}, from 0 to {count - 1}")
    names = [f"{view}_{kind}" for view in _TOTALS for kind in ("bound", "total")]
    nodes = run.frame("nodes", ["round", "node", "time_s", "transmitted", *names])
    found = nodes[nodes["node"] == tx].drop(columns="node").rename(columns={"transmitted": "sent"})
    found = found.set_index("round")
    split, rounds = data_split(run), run.rounds
    evaluated = set(rounds["round"][rounds["accuracy_mean"].notna()])
    missing = {number for number in evaluated if found.loc[number, list(names)].isna().any()}
    if missing:
        ledger = Ledger(split.terms, split.rate)
        for release in releases_of(run, split):
            ledger.record(release)
            if release.round in missing:
                for view, totals in zip(_TOTALS, (ledger.own, ledger.promised)):
                    found.loc[release.round, f"{view}_total"] = totals.total_of(tx)
    if rx is not None:
        links = run.frame("links", ["round", "tx", "rx", "epsilon"])
        heard = links[(links["tx"] == tx) & (links["rx"] == rx)].set_index("round")["epsilon"]
        found["epsilon_link"] = heard.reindex(found.index)
    found.attrs = {"tx": int(tx), "rx": rx, "adversary": split.terms.adversary, "status": split.terms.status}
    return found.reset_index()


def draw_leakage(run: Run, tx: int, rx: int | None) -> Any:
    """Total of a sender over rounds in the promised view, bound and exact; below, what one slot tells one receiver."""
    frame = leakage(run, tx, rx)
    panels = 1 + (rx is not None)
    figure, axes = plt.subplots(panels, 1, figsize=(COLUMN, 1.5 + 0.8 * panels), sharex=True, layout="constrained")
    total, *slot = np.atleast_1d(axes)
    total.plot(frame["round"], frame["epsilon_promised_bound"], color=GREY, linewidth=1.0, label="bound")
    exact = frame.dropna(subset="epsilon_promised_total")
    total.plot(exact["round"], exact["epsilon_promised_total"], "o-", color=BLUE, markersize=3, label="exact")
    total.set(ylabel="epsilon so far", title=f"node {tx}, {frame.attrs['status']}, any eavesdropper")
    total.legend(loc="best")
    for axis in slot:
        axis.plot(frame["round"], frame["epsilon_link"], ".", color=ORANGE, markersize=3)
        axis.set(ylabel="epsilon of a slot", title=f"to node {rx} alone (slots do not add up)")
        if frame["epsilon_link"].isna().all():
            axis.set_yticks([])
            axis.text(0.5, 0.5, "null: no receiver's share of a slot is known", transform=axis.transAxes, ha="center")
    (slot or [total])[-1].set(xlabel="round")
    return figure
