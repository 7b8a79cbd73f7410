"""Positions and link gains: the map of one round, and gains over time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection

from wirelessdl.analysis.releases import terms_of
from wirelessdl.analysis.style import COLUMN, GREY, HEAT, dashed, save, styled
from wirelessdl.errors import TraceError
from wirelessdl.trace.run import Run
from wirelessdl.units import to_db

_MOST_NAMES = 40


def draw_map(run: Run, round: int | None, path: Path | None) -> Any:
    """Nodes and links of one round, by default the last traced; silent nodes are hollow."""
    links = _links(run, round)
    number = int(links["round"].iloc[0])
    nodes = run.frame("nodes", ["round", "node", "x_m", "y_m", "transmitted"], rounds=(number, number))
    place = nodes[["x_m", "y_m"]].to_numpy()
    silent = ~nodes["transmitted"].to_numpy().astype(bool)
    heard = ~(silent[links["tx"]])
    links = links[heard].sort_values("gain")  # the strongest on top
    gain_db = _gain_db(links["gain"])
    with styled():
        figure, axis = plt.subplots(figsize=(COLUMN, 2.9), layout="constrained")
        lines = np.stack([place[links["tx"]], place[links["rx"]]], axis=1)
        drawn = LineCollection(list(lines), array=gain_db, cmap=HEAT, linewidths=0.9)
        axis.add_collection(drawn)
        axis.plot(*place[~silent].T, "o", color="black", markersize=3.5, zorder=3)
        axis.plot(*place[silent].T, "o", color=GREY, markerfacecolor="white", markersize=4.5, zorder=3, label="silent")
        if silent.any():
            axis.legend(loc="best")
        if len(place) <= _MOST_NAMES:
            for node, (x_m, y_m) in enumerate(place.tolist()):
                axis.annotate(str(node), (x_m, y_m), (3, 3), textcoords="offset points", fontsize=6)
        axis.set_aspect("equal", adjustable="datalim")
        axis.margins(0.07)
        axis.set_xlabel("x in m")
        axis.set_ylabel("y in m")
        figure.colorbar(drawn, ax=axis, label="gain in dB", shrink=0.9)
        return save(figure, path)


def _links(run: Run, round: int | None) -> pd.DataFrame:
    """The links of one round that are of the graph."""
    columns = ["round", "tx", "rx", "gain", "neighbour"]
    if round is None:
        rounds = run.rounds["round"]
        round = int(rounds.iloc[-1])
        traced = run.scenario["trace"]["links"]
        if traced == "evaluated":
            evaluated = run.evaluated["round"]
            round = int(evaluated.iloc[-1]) if len(evaluated) else round
    _require_sends(run)
    found = run.frame("links", columns, rounds=(round, round))
    if found.empty:
        last = int(run.rounds["round"].iloc[-1])
        raise TraceError(
            f"{run.path}: no links of round {round}; rounds are 1 to {last}, and trace.links is "
            f'"{run.scenario["trace"]["links"]}": name a traced round'
        )
    return found[found["neighbour"]]


def _require_sends(run: Run) -> None:
    if not terms_of(run).sends:
        raise TraceError(f"{run.path}: has no links, for nothing was sent; name a run whose nodes talk to each other")


def draw_channel_of_run(run: Run, chosen: Sequence[tuple[int, int]], path: Path | None) -> Any:
    """Gain of links over simulated time: those named, or the strongest, the middle and the weakest."""
    _require_sends(run)
    links = run.frame("links", ["round", "tx", "rx", "gain", "neighbour"])
    links = links[links["neighbour"]]
    if links.empty:
        raise TraceError(f'{run.path}: no links were traced; run with trace.links = "all"')
    time_s = run.rounds.set_index("round")["time_s"]
    with styled():
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
        axis.set_xlabel("simulated time in s")
        axis.set_ylabel("gain in dB")
        axis.margins(x=0.02, y=0.2)
        axis.legend(loc="upper right", ncols=3, columnspacing=1.0)
        return save(figure, path)


def typical_links(links: pd.DataFrame) -> list[tuple[int, int]]:
    """The strongest link by its mean gain, the middle one and the weakest."""
    mean = links.groupby(["tx", "rx"])["gain"].mean().sort_values()
    places = dict.fromkeys((len(mean) - 1, len(mean) // 2, 0))
    return [(int(tx), int(rx)) for tx, rx in (mean.index[place] for place in places)]


def _gain_db(gain: Any) -> Any:
    """Amplitude to dB; a gain of zero has none."""
    power = np.asarray(gain, dtype=np.float64) ** 2
    return to_db(np.where(power > 0, power, np.nan))
