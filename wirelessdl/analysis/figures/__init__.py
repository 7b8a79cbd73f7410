"""Figures for papers: one IEEE column wide, embedded fonts, legible in grey.

Curves take any number of runs: those of one scenario become a mean with a 95% band. Other figures show one run: the
map, link gains over time, the timeline, and samples per class.

`leakage` is how much one node leaks over the rounds: to all other nodes together, and to one receiver in single slots.

    own, promised   totals so far over all that the node sent, by composition: exact at evaluations, bounds between
    link            epsilon of one slot towards one receiver (Theorem 1), which does not add up over slots: what a
                    receiver hears of a gradient comes again through the network

A total holds against its adversary as a whole, so against any one receiver of it too: no smaller one is proven for a
link. Link epsilons are null where no receiver's share of a slot is known: where pairs share noise, where nodes send on
what they received (passes, hubs, turns), and where it did not hear the sender.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from wirelessdl.analysis.families import Request, run_curves
from wirelessdl.analysis.figures.study import draw_family
from wirelessdl.analysis.releases import data_split, releases_of, terms_of
from wirelessdl.analysis.runs import Group, grouped, mean_band, node_means
from wirelessdl.analysis.study_tables import Labels
from wirelessdl.analysis.style import BLUE, COLUMN, GREY, HEAT, ORANGE, dashed, save, styled
from wirelessdl.analysis.timeline import KINDS, timeline_of
from wirelessdl.arrays import IntArray
from wirelessdl.errors import TraceError, quote
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.privacy.terms import adversary_in_short
from wirelessdl.trace.run import Run
from wirelessdl.units import to_db

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
    terms = split.terms
    found.attrs = {"tx": int(tx), "rx": rx, "adversary": terms.adversary, "status": terms.status}
    found.attrs["against"] = adversary_in_short(terms.coalition if terms.promised == "coalition" else None)
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
    status, against = frame.attrs["status"], frame.attrs["against"]
    total.set(ylabel="epsilon so far", title=f"node {tx}, {status}, against {against}")
    total.legend(loc="best")
    for axis in slot:
        axis.plot(frame["round"], frame["epsilon_link"], ".", color=ORANGE, markersize=3)
        axis.set(ylabel="epsilon of a slot", title=f"to node {rx} alone (slots do not add up)")
        if frame["epsilon_link"].isna().all():
            axis.set_yticks([])
            links = run.frame("links", ["tx", "rx"])
            heard = ((links["tx"] == tx) & (links["rx"] == rx)).any()
            reason = "one slot has no epsilon under these settings"
            reason = reason if heard else f"no link from {tx} to {rx} in the tables"
            axis.text(0.5, 0.5, reason, transform=axis.transAxes, ha="center")
    (slot or [total])[-1].set(xlabel="round")
    return figure


_MAX_NAMED_NODES = 40  # of a map
_MAX_DISC_NODES, _MAX_DISC_CLASSES = 40, 20  # more discs would touch or vanish
# face, hatch, edge: distinct in grey too; pilots take microseconds, and their edge keeps them visible
_BAR_STYLES = {
    "compute": ("#c9d6e2", "", "none"),
    "down": (ORANGE, "////", "white"),
    "pilot": ("#222222", "", "#222222"),
    "payload": (BLUE, "", "none"),
    "broadcast": ("#3a8a6b", "....", "white"),
    "pass": ("#7fa8cc", "", "none"),
}


@dataclass(frozen=True)
class FigureOptions:
    """Options of a figure; None leaves the choice to the figure."""

    against: Literal["round", "time", "energy", "nominal-energy"] = "round"
    round: int | None = None
    rounds: int = 4
    links: Sequence[tuple[int, int]] = ()
    template: str = "plain"


def draw_map(run: Run, round: int | None) -> Any:
    """Nodes and links of one round, by default the last traced; silent nodes are hollow."""
    traced, last = run.scenario["trace"]["links"], int(run.rounds["round"].iloc[-1])
    if round is None:
        evaluated = run.evaluated["round"].tolist() if traced == "evaluated" else []
        round = evaluated[-1] if evaluated else last
    links = _links(run, (round, round))
    if links.empty:
        raise TraceError(
            f"{run.path}: no links of round {round}; rounds are 1 to {last}, and trace.links is "
            f'"{traced}": name a traced round'
        )
    nodes = run.frame("nodes", ["round", "node", "x_m", "y_m", "transmitted"], rounds=(round, round))
    place = nodes[["x_m", "y_m"]].to_numpy()
    silent = ~nodes["transmitted"].to_numpy().astype(bool)
    heard = ~(silent[links["tx"]])
    links = links[heard].sort_values("gain")  # the strongest on top
    gain_db = _gain_db(links["gain"])
    figure, axis = plt.subplots(figsize=(COLUMN, 2.9), layout="constrained")
    lines = np.stack([place[links["tx"]], place[links["rx"]]], axis=1)
    drawn = LineCollection(list(lines), array=gain_db, cmap=HEAT, linewidths=0.9)
    axis.add_collection(drawn)
    axis.plot(*place[~silent].T, "o", color="black", markersize=3.5, zorder=3)
    axis.plot(*place[silent].T, "o", color=GREY, markerfacecolor="white", markersize=4.5, zorder=3, label="silent")
    if silent.any():
        axis.legend(loc="best")
    if len(place) <= _MAX_NAMED_NODES:
        for node, (x_m, y_m) in enumerate(place.tolist()):
            name = axis.annotate(str(node), (x_m, y_m), (3, 3), textcoords="offset points", fontsize=6, zorder=4)
            name.set_path_effects([withStroke(linewidth=1.5, foreground="white")])  # legible on lines
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.07)
    axis.set(xlabel="x in m", ylabel="y in m")
    figure.colorbar(drawn, ax=axis, label="gain in dB", shrink=0.9)
    return figure


def _links(run: Run, rounds: tuple[int, int] | None = None) -> pd.DataFrame:
    """Links of the graph, in some rounds or in all that were traced."""
    if not terms_of(run).sends:
        raise TraceError(f"{run.path}: has no links, for nothing was sent; name a run whose nodes talk to each other")
    found = run.frame("links", ["round", "tx", "rx", "gain", "neighbour"], rounds)
    return found[found["neighbour"]]


def draw_channel(run: Run, chosen: Sequence[tuple[int, int]]) -> Any:
    """Gain of links over simulated time: those named, or the strongest, the middle and the weakest."""
    links = _links(run)
    if links.empty:
        raise TraceError(f'{run.path}: no links were traced; run with trace.links = "all"')
    time_s = run.rounds.set_index("round")["time_s"]
    figure, axis = plt.subplots(figsize=(COLUMN, 2.3), layout="constrained")
    for number, (tx, rx) in enumerate(chosen or typical_links(links)):
        of_link = links[(links["tx"] == tx) & (links["rx"] == rx)]
        if of_link.empty:
            raise TraceError(f"--link is {tx}-{rx}; {run.path} has no such link: name sender and receiver of one")
        colour, dash, _ = dashed(number)
        when = time_s.loc[of_link["round"]].to_numpy()
        gain_db = _gain_db(of_link["gain"])
        alone = "." if len(when) < 3 else None
        axis.plot(when, gain_db, marker=alone, color=colour, linestyle=dash, linewidth=0.9, label=f"{tx} to {rx}")
    axis.set(xlabel="simulated time in s", ylabel="gain in dB")
    axis.margins(x=0.02, y=0.2)
    axis.legend(loc="upper right", ncols=3, columnspacing=1.0)
    return figure


def typical_links(links: pd.DataFrame) -> list[tuple[int, int]]:
    """The strongest link by its mean gain, the middle one and the weakest."""
    mean = links.groupby(["tx", "rx"])["gain"].mean().sort_values()
    places = dict.fromkeys((len(mean) - 1, len(mean) // 2, 0))
    return [(int(tx), int(rx)) for tx, rx in (mean.index[place] for place in places)]


def _gain_db(gain: Any) -> Any:
    """Amplitude to dB; a gain of zero has none."""
    power = np.asarray(gain, dtype=np.float64) ** 2
    return to_db(np.where(power > 0, power, np.nan))


def draw_timeline(run: Run, first: int | None, rounds: int) -> Any:
    """`rounds` rounds from `first` on: a container of bars per kind, in ms after the first frame shown opened."""
    timeline = timeline_of(run)
    start = 1 if first is None else first
    rows = np.flatnonzero((timeline.round >= start) & (timeline.round < start + rounds))
    if not len(rows):
        raise TraceError(f"--round is {start}; {run.path} has rounds 1 to {timeline.round[-1]}: name one of them")
    bars, begin_s = timeline.bars.in_rows(rows), timeline.opened_s[rows[0]]
    figure, axis = plt.subplots(figsize=(COLUMN, min(5.0, 1.0 + 0.11 * timeline.nodes)), layout="constrained")
    for number, kind in enumerate(KINDS):
        shown = bars[bars.kind == number]
        face, hatch, edge = _BAR_STYLES[kind]
        if len(shown.row):
            axis.barh(
                shown.node,
                1e3 * shown.length_s,
                left=1e3 * (shown.start_s - begin_s),
                height=0.72,
                color=face,
                hatch=hatch,
                edgecolor=edge,
                linewidth=0.7 if kind == "pilot" else 0,
                label=kind,
            )
    for opened_s in timeline.opened_s[rows]:
        axis.axvline(1e3 * (opened_s - begin_s), color="#bbbbbb", linewidth=0.6, zorder=0)
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    opened = f"ms after round {timeline.round[rows[0]]} opened"
    axis.set(xlabel=opened, ylabel="node", ylim=(timeline.nodes - 0.4, -0.6))
    if axis.get_legend_handles_labels()[0]:
        figure.legend(loc="outside upper left", ncols=4, columnspacing=1.2, handlelength=1.4)
    return figure


def draw_power(groups: list[Group]) -> Any:
    """Shares of power for model and noise, and radiated power: means over rounds with a transmission, and over runs."""
    if len(groups) > 1:
        raise TraceError(
            "--figure is power; it shows one scenario, and runs of several are named: name runs of one scenario"
        )
    (group,) = groups
    runs = np.array([node_means(run, ("alpha", "beta", "power_w")) for run in group.runs])  # [runs, columns, K]
    alpha, half = mean_band(runs[:, 0])
    beta, power_w = runs[:, 1].mean(axis=0), runs[:, 2].mean(axis=0)
    node = np.arange(len(alpha))
    figure, (split, power) = plt.subplots(
        2, 1, figsize=(COLUMN, 3.0), sharex=True, layout="constrained", gridspec_kw={"height_ratios": [1.4, 1]}
    )
    bars = half if len(group.runs) > 1 else None
    split.bar(node, alpha, color=BLUE, label="model, α", yerr=bars, error_kw={"linewidth": 0.8})
    split.bar(node, beta, bottom=alpha, color=ORANGE, hatch="////", edgecolor="white", linewidth=0, label="noise, β")
    split.set(ylim=(0, 1.3), yticks=[0, 0.5, 1], ylabel="share of power")
    split.legend(loc="upper left", ncols=2)
    power.bar(node, 1e3 * power_w, color=BLUE)
    power.set(xlabel="node", ylabel="radiated in mW", xlim=(-0.7, len(node) - 0.3))
    power.xaxis.set_major_locator(MaxNLocator(integer=True))
    power.yaxis.set_major_locator(MaxNLocator(4))
    return figure


def draw_partition(counts: IntArray) -> Any:
    """Samples of each class at each node, `counts[nodes, classes]`.

    Up to a screenful the area of a disc is the number of samples: legible in grey, and a missing class is a gap. Beyond
    that it is drawn in shades.
    """
    nodes, classes = counts.shape
    figure, (sizes, table) = plt.subplots(
        2,
        1,
        figsize=(COLUMN, 1.6 + min(0.22 * classes, 4.4)),
        sharex=True,
        layout="constrained",
        gridspec_kw={"height_ratios": [1.0, max(1.2, min(0.22 * classes, 4.4))]},
    )
    sizes.bar(np.arange(nodes), counts.sum(axis=1), color=BLUE)
    sizes.set(ylabel="samples", title="Samples of each node")
    if nodes <= _MAX_DISC_NODES and classes <= _MAX_DISC_CLASSES:
        node, label = np.nonzero(counts)
        across = min((COLUMN - 0.86) * 72 / nodes, 0.22 * 72) * 0.92  # points: the widest disc that touches no other
        table.scatter(node, label, s=counts[node, label] / counts.max() * across**2, color=BLUE, linewidths=0)
        table.set_title(f"Samples of each class (largest disc: {counts.max():,})")
    else:
        image = table.imshow(counts.T, cmap=HEAT, aspect="auto", origin="lower", interpolation="nearest", vmin=0)
        figure.colorbar(image, ax=table, label="samples")
        table.set_title("Samples of each class")
    table.set(xlabel="node", ylabel="class", xlim=(-0.6, nodes - 0.4), ylim=(-0.6, classes - 0.4))
    table.xaxis.set_major_locator(MaxNLocator(integer=True))
    table.yaxis.set_major_locator(MaxNLocator(nbins=10, integer=True, min_n_ticks=1))
    return figure


def draw_curves(groups: list[Group], against: str, y: str) -> Any:
    """Accuracy, or the promised total so far, along rounds, time, energy or epsilon: a curve for each scenario."""
    family, exact = run_curves(groups, against, y)
    labels, alone = Labels(), len(groups) == len(groups[0].runs) == 1
    if alone and y == "accuracy_mean" and against != "epsilon":
        labels = Labels({y: "test accuracy, worst to best node"})
    if not exact and "epsilon" in (against, y):
        labels = Labels({"epsilon": f"{labels.axis('epsilon', family)}, running bound"})
    return draw_family(family, Request(curves=against), labels)


CURVES: dict[str, Callable[[list[Group], FigureOptions], Any]] = {
    "accuracy": lambda groups, choice: draw_curves(groups, choice.against, "accuracy_mean"),
    "privacy": lambda groups, choice: draw_curves(groups, choice.against, "epsilon"),
    "tradeoff": lambda groups, _: draw_curves(groups, "epsilon", "accuracy_mean"),
    "power": lambda groups, _: draw_power(groups),
}
SINGLE: dict[str, Callable[[Run, FigureOptions], Any]] = {
    "map": lambda run, choice: draw_map(run, choice.round),
    "timeline": lambda run, choice: draw_timeline(run, choice.round, choice.rounds),
    "channel": lambda run, choice: draw_channel(run, choice.links),
    "leakage": lambda run, choice: draw_leakage(run, *(*choice.links, (0, None))[0]),
    "partition": lambda run, _: draw_partition(data_split(run).counts),
}


def draw(name: str, runs: Sequence[Run], choice: FigureOptions, path: Path | None) -> Any:
    """One figure, into a file whose suffix says the format; without one it is returned open."""
    with styled(choice.template):
        if name in CURVES:
            return save(CURVES[name](grouped(runs), choice), path)
        if len(runs) > 1:
            raise TraceError(f"--figure is {name}; it shows one run, and {len(runs)} are named: name one of them")
        return save(SINGLE[name](runs[0], choice), path)
