"""Map, heat maps and mixing of a report page: one pass over the links table, part by part.

Large runs are down-sampled, and every such choice adds a note to the page.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import connected_components

from wirelessdl.analysis.releases import terms_of
from wirelessdl.analysis.report.packing import numbers, packed, packed_levels, thinned
from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.mixing import perron_vector
from wirelessdl.trace.run import Run
from wirelessdl.units import to_db

MOST_LINKS, MOST_FRAMES = 2000, 300  # drawn on the map
_MOST_CELLS = 700_000  # frames times links, of all runs on a page
_MOST_PLACES = 400_000  # frames times nodes
_MOST_BINS = 200  # rows of a heat map
_COLUMNS = ["round", "tx", "rx", "neighbour", "gain", "weight", "epsilon"]


@dataclass(eq=False)
class Network:
    """The parts of a page that come from links and positions, and notes on what was left out of them."""

    map: dict[str, Any] | None = None
    heat: dict[str, Any] | None = None
    mixing: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)


class _Sums:
    """Running sums of every pair of nodes, or of blocks of pairs in large networks."""

    def __init__(self, nodes: int):
        self.width = -(-nodes // _MOST_BINS)
        self.bins = -(-nodes // self.width)
        size = self.bins**2
        self.count, self.epsilon_sum, self.weight = np.zeros(size), np.zeros(size), np.zeros(size)
        self.epsilon_max = np.full(size, np.nan)
        self.last = np.full(size, np.nan)
        self.last_round = 0

    def add(self, part: pd.DataFrame) -> None:
        key = (part["rx"].to_numpy() // self.width) * self.bins + part["tx"].to_numpy() // self.width
        epsilon, size = part["epsilon"].to_numpy(), len(self.count)
        self.count += np.bincount(key, minlength=size)
        self.epsilon_sum += np.bincount(key, weights=epsilon, minlength=size)
        graph = part["neighbour"].to_numpy().astype(bool)
        self.weight += np.bincount(key[graph], weights=part["weight"].to_numpy()[graph], minlength=size)
        self._raise(self.epsilon_max, key, epsilon)
        newest = int(part["round"].iloc[-1])
        self.last = np.full(size, np.nan)
        final = part["round"].to_numpy() == newest
        self._raise(self.last, key[final], epsilon[final])
        self.last_round = newest

    @staticmethod
    def _raise(most: FloatArray, key: IntArray, value: FloatArray) -> None:
        order = np.lexsort((value, key))
        key, value = key[order], value[order]
        ends = np.flatnonzero(np.append(key[1:] != key[:-1], True)) if len(key) else key
        most[key[ends]] = np.fmax(most[key[ends]], value[ends])


def network_of(run: Run, runs: int) -> Network:
    """Everything that takes the links, for one of `runs` runs on a page."""
    found, scenario = Network(), run.scenario
    nodes, rounds = scenario["network"]["nodes"], run.rounds["round"].to_numpy()
    frames = rounds[thinned(len(rounds), min(MOST_FRAMES, max(2, _MOST_PLACES // (nodes * runs))))]
    sums, kept, traced = _Sums(nodes), [], set()
    for part in run.frames("links", _COLUMNS) if scenario["trace"]["links"] != "none" else ():
        part = part[part["round"] <= rounds[-1]]  # a run being written: links may be ahead
        if part.empty:
            continue
        sums.add(part)
        traced.update(part["round"].unique().tolist())
        kept.append(part[part["round"].isin(frames) & part["neighbour"]])
    if traced:
        frames = frames[np.isin(frames, list(traced))] if not traced.issuperset(frames.tolist()) else frames
        frames = frames if len(frames) else np.array([max(traced)])
    links = pd.concat(kept) if kept else pd.DataFrame({name: [] for name in _COLUMNS}).astype({"tx": int, "rx": int})
    found.map = _map(run, links, frames, runs, found.notes)
    if traced:
        found.heat = _heat(sums, found.notes)
        found.mixing = _mixing(run, sums, len(rounds) if scenario["trace"]["links"] == "all" else len(traced))
    else:
        why = "no links were traced" if terms_of(run).sends else "nothing was sent"
        found.notes.append(f"{why}, so the page has no links, heat maps and weights")
    return found


def _map(run: Run, links: pd.DataFrame, frames: IntArray, runs: int, notes: list[str]) -> dict[str, Any]:
    nodes = run.scenario["network"]["nodes"]
    key = links["rx"].to_numpy(dtype=np.int64) * nodes + links["tx"].to_numpy(dtype=np.int64)
    pairs, link = np.unique(key, return_inverse=True)
    if len(pairs) > MOST_LINKS:
        mean = np.bincount(link, weights=links["gain"]) / np.bincount(link)
        strongest = np.sort(np.argsort(-mean, kind="stable")[:MOST_LINKS])
        notes.append(f"the map and the channel hold the {MOST_LINKS:,} strongest of {len(pairs):,} links")
        place = np.full(len(pairs), -1)
        place[strongest] = np.arange(MOST_LINKS)
        link, pairs = place[link], pairs[strongest]
    most = max(2, _MOST_CELLS // max(1, len(pairs) * runs))
    chosen = frames[thinned(len(frames), most)]
    total = int(run.rounds["round"].iloc[-1])
    if len(chosen) < total:
        notes.append(f"the map and the channel hold {len(chosen)} of {total:,} rounds")
    row = np.searchsorted(chosen, links["round"])
    inside = (link >= 0) & (row < len(chosen))
    inside[inside] = chosen[row[inside]] == links["round"].to_numpy()[inside]
    gain = np.full((len(chosen), len(pairs)), np.nan)
    epsilon = gain.copy()
    gain[row[inside], link[inside]] = links["gain"].to_numpy()[inside]
    epsilon[row[inside], link[inside]] = links["epsilon"].to_numpy()[inside]
    with np.errstate(divide="ignore", invalid="ignore"):
        gain_db = to_db(gain**2)
    rx, tx = np.divmod(pairs, nodes)
    return {
        "rounds": numbers(chosen),
        "time": numbers(run.rounds.set_index("round")["time_s"].loc[chosen.tolist()]),
        "tx": tx.tolist(),
        "rx": rx.tolist(),
        # hundredths of a dB; the lowest code is no link
        "gain": {**packed(_centi(gain_db), "Int16Array"), "scale": 0.01, "none": -32768},
        "epsilon": packed_levels(epsilon),
        **_places(run, chosen),
    }


def _centi(values_db: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values_db), np.round(100 * np.clip(values_db, -327, 327)), -32768)


def _places(run: Run, frames: IntArray) -> dict[str, Any]:
    """Positions and states of nodes in the frames: 0 down, 1 silent, 2 transmitting."""
    nodes = run.frame("nodes", ["round", "x_m", "y_m", "height_m", "up", "transmitted"])
    nodes = nodes[nodes["round"].isin(frames)]
    shape = (len(frames), -1)
    state = nodes["up"].to_numpy().astype(int) + (nodes["up"] & nodes["transmitted"]).to_numpy().astype(int)
    place = {name: nodes[f"{name}_m"].to_numpy().reshape(shape) for name in ("x", "y", "height")}
    if np.ptp(place["height"]) < 1e-9:
        del place["height"]  # nothing to tell them apart by
    still = all(np.array_equal(values, np.broadcast_to(values[0], values.shape)) for values in place.values())
    return {
        **{name: packed(values[:1] if still else values, "Float32Array") for name, values in place.items()},
        "state": packed(state.reshape(shape), "Uint8Array"),
    }


def _heat(sums: _Sums, notes: list[str]) -> dict[str, Any]:
    shape = (sums.bins, sums.bins)
    if sums.width > 1:
        notes.append(
            f"heat maps show blocks of {sums.width} by {sums.width} nodes, each with its largest or mean value"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = sums.epsilon_sum / sums.count
    finite = np.isfinite(sums.epsilon_max[sums.count > 0]).all()
    return {
        "accounted": not np.isnan(sums.epsilon_max[sums.count > 0]).any(),
        "private": bool(finite),
        "width": sums.width,
        "last_round": sums.last_round,
        **{
            name: packed(values.reshape(shape), "Float32Array")
            for name, values in (("largest", sums.epsilon_max), ("mean", mean), ("last", sums.last))
        },
    }


def _mixing(run: Run, sums: _Sums, rounds: int) -> dict[str, Any]:
    """Mean weights over rounds, the weight of each node in the network average, and the spectral gap."""
    weight = sums.weight.reshape(sums.bins, sums.bins) / max(rounds, 1)
    gap = run.rounds[["round", "spectral_gap"]].dropna()
    shown = thinned(len(gap), 600) if len(gap) else np.zeros(0, dtype=np.int64)
    found = {
        "gap": {"round": numbers(gap["round"].iloc[shown]), "value": numbers(gap["spectral_gap"].iloc[shown])},
        "width": sums.width,
    }
    if sums.width == 1:
        own = run.frame("nodes", ["node", "row_sum"]).groupby("node")["row_sum"].mean().to_numpy()
        np.fill_diagonal(weight, own - weight.sum(axis=1))
        found["pi"] = _network_weight(np.maximum(weight, 0.0))
    else:
        weight /= sums.width  # a block's rows share its weight
    return {**found, "weight": packed(np.where(weight != 0, weight, np.nan), "Float32Array")}


def _network_weight(weight: FloatArray) -> list[float | int | None] | None:
    """The left Perron vector; None where the mean weights are not strongly connected, so that it is not unique."""
    parts, _ = connected_components((weight > 0).astype(np.int8), connection="strong")
    return numbers(perron_vector(weight)) if parts == 1 else None
