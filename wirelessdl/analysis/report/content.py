"""The content of a report page for one run, as plain values that JSON can hold.

Links are read in one pass, part by part. Large runs are down-sampled, and every such choice adds a note to the page.
Large arrays are base64 of what a browser can read in place.
"""

import base64
import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from wirelessdl.analysis.families import curve_frame
from wirelessdl.analysis.releases import promised_totals, terms_of
from wirelessdl.analysis.runs import node_means
from wirelessdl.analysis.timeline import KINDS, Bars, hub_turns, timeline_of
from wirelessdl.arrays import IntArray
from wirelessdl.mixing import perron_vector
from wirelessdl.trace.run import Run
from wirelessdl.units import to_db

_MAX_POINTS = 600  # of a curve
# of all runs on a page
_MAX_ACCURACIES = 100_000  # evaluations times nodes
_MAX_BARS = 300_000  # of the timeline
_MAX_CELLS = 700_000  # frames times links
_MAX_PLACES = 400_000  # frames times nodes
_MAX_LINKS, _MAX_FRAMES = 2000, 300  # drawn on the map
_MAX_BINS = 200  # rows of a heat map
_LINK_COLUMNS = ["round", "tx", "rx", "neighbour", "gain", "weight", "epsilon"]
_NO_GAIN, _NO_LEVEL, _NO_TURN = -32768, 65535, 65535  # codes that stand for no value

_ACCOUNTANTS = {
    "pld": "Privacy loss distributions of all releases, composed. Uses amplification by subsampling. This is the total "
    "that the summary reports.",
    "rdp": "Rényi divergences of all releases, added by dp-accounting. Uses amplification by subsampling. Looser than "
    "pld.",
    "rdp-wang19": "Theorem 9 (Wang et al. 2019) as the paper prints it, added over releases. Uses amplification by "
    "subsampling. The loosest of the three.",
    "gdp": "Gaussian differential privacy: the squares of mu are added, exactly. No amplification, so it also holds "
    "against an observer who knows every batch.",
}
_SAMPLERS = {
    "without-replacement": "batches are drawn each round without replacement",
    "poisson": "each sample is in a batch with the same probability, independently (Poisson sampling)",
    "full-batch": "every batch is all samples of the node",
    "shuffled": "batches follow a new random order every epoch, and every epoch is one release",
}
_ADJACENCY = {
    ("replace-one", "sample"): "adjacent data sets differ in one sample that is replaced",
    ("replace-one", "node"): "adjacent data sets differ in all data of one node, replaced by as many other samples",
    ("zero-out", "sample"): "adjacent data sets differ in one sample that is replaced by a null record",
    ("zero-out", "node"): "adjacent data sets differ in all data of one node, replaced by as many null records",
}
_CLIPPING = {
    "per-sample": "the gradient of every sample is clipped",
    "batch": "the gradient of the batch is clipped as a whole",
}


def content_of(run: Run, runs: int, *, accountants: bool = False) -> dict[str, Any]:
    """Content of one run; `runs` runs share the page, and its size limits."""
    notes: list[str] = []
    return {
        "nodes": run.scenario["network"]["nodes"],
        "learning": _learning(run),
        "learned": _learned(run, runs),
        "tradeoff": _tradeoff(run),
        "totals": _totals(run, accountants),
        "power": _power(run),
        "energy": numbers(run.frame("nodes", ["node", "energy_j"]).groupby("node")["energy_j"].sum()),
        **_network(run, runs, notes),
        "timeline": _timeline(run, runs, notes),
        "notes": notes,
    }


def thinned(count: int, most: int) -> IntArray:
    """Places of at most `most` out of `count`, evenly spread, first and last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, max(most, 1))).round().astype(np.int64))


def numbers(values: Any) -> list[float | int | None]:
    """A short list of numbers for JSON: six digits, null for what is not finite."""
    found = []
    for value in np.asarray(values).ravel().tolist():
        known = value is not None and math.isfinite(value)
        found.append((value if isinstance(value, int) else float(f"{value:.6g}")) if known else None)
    return found


def packed(values: NDArray[Any], kind: str) -> dict[str, Any]:
    """An array as text: `kind` names the browser's typed array."""
    types = {"Float32Array": "<f4", "Int16Array": "<i2", "Uint16Array": "<u2", "Uint8Array": "u1"}
    raw = np.ascontiguousarray(values, dtype=types[kind]).tobytes()
    return {"kind": kind, "shape": list(values.shape), "base64": base64.b64encode(raw).decode("ascii")}


def packed_levels(values: NDArray[Any]) -> dict[str, Any]:
    """Numbers from 0 up in 65,534 even levels; what is not finite becomes the last code."""
    finite = np.isfinite(values)
    top = float(values[finite].max()) if finite.any() else 1.0
    scale = (top or 1.0) / (_NO_LEVEL - 1)
    code = np.where(finite, np.round(np.where(finite, values, 0.0) / scale), _NO_LEVEL)
    return {**packed(code, "Uint16Array"), "scale": scale, "none": _NO_LEVEL}


def _learning(run: Run) -> dict[str, Any]:
    """Curves over rounds, simulated time and energy."""
    rounds = run.rounds.assign(energy=run.rounds["energy_j"].cumsum())
    evaluated = rounds.dropna(subset="accuracy_mean")
    evaluated = evaluated.iloc[thinned(len(evaluated), _MAX_POINTS)]
    every = rounds.iloc[thinned(len(rounds), _MAX_POINTS)]
    axes = {"round": "round", "time": "time_s", "energy": "energy"}
    accuracy = {**axes, **{name: f"accuracy_{name}" for name in ("mean", "min", "max")}}
    return {
        "accuracy": {name: numbers(evaluated[column]) for name, column in accuracy.items()},
        "loss": {name: numbers(every[column]) for name, column in {**axes, "mean": "loss_mean"}.items()},
    }


def _learned(run: Run, runs: int) -> dict[str, Any]:
    """Accuracy of every node at evaluations."""
    nodes = run.frame("nodes", ["round", "accuracy"])
    rounds = run.rounds.loc[run.rounds["accuracy_mean"].notna(), "round"].to_numpy()
    count = run.scenario["network"]["nodes"]
    rounds = rounds[thinned(len(rounds), max(2, _MAX_ACCURACIES // (count * runs)))]
    accuracy = nodes.loc[nodes["round"].isin(rounds), "accuracy"].to_numpy().reshape(len(rounds), count)
    return {"rounds": numbers(rounds), "accuracy": packed(accuracy, "Float32Array")}


def _tradeoff(run: Run) -> dict[str, Any]:
    """Accuracy against the promised total epsilon at the same round."""
    frame, exact = curve_frame(run)
    frame = frame[np.isfinite(frame["epsilon"])]
    shown = frame.iloc[thinned(len(frame), _MAX_POINTS)]
    return {
        **{name: numbers(shown[name]) for name in ("round", "epsilon")},
        "accuracy": numbers(shown["accuracy_mean"]),
        "accountant": "composed" if exact else "running bound",
        "adversary": terms_of(run).adversary,
    }


def _totals(run: Run, accountants: bool) -> dict[str, Any]:
    """Promised totals per node and accountant, and the terms they are stated under."""
    privacy, stated, found = run.privacy, terms_of(run), promised_totals(run, others=accountants)
    promised = privacy[privacy["view"] == stated.promised]
    link_sum = privacy.loc[privacy["view"] == "link", "epsilon_total"]
    order = sorted(found.epsilon, key=lambda name: list(_ACCOUNTANTS).index(name) if name in _ACCOUNTANTS else 9)
    terms = []
    if len(promised):
        row = promised.iloc[0]
        terms = [
            _ADJACENCY.get((row["adjacency"], row["unit"]), f"{row['adjacency']} of one {row['unit']}"),
            _SAMPLERS.get(row["sampler"], row["sampler"]),
            _CLIPPING.get(row["clipping"], row["clipping"]),
            f"delta is {row['delta']:g}, and no sender made more than {int(promised['rounds'].max())} releases",
        ]
    return {
        "accountants": [
            {
                "name": name,
                "basis": _ACCOUNTANTS.get(name, ""),
                "epsilon": numbers(found.epsilon[name]),
                "largest": _formatted(float(found.epsilon[name].max())),
            }
            for name in order
        ],
        "adversary": stated.adversary,
        "link_sum": _formatted(float(link_sum.max())) if len(link_sum) else "",
        "terms": terms,
        "conditions": run.summary.get("epsilon_own_conditions", []),
        "note": found.note,
    }


def _formatted(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.3g}"


def _power(run: Run) -> dict[str, Any]:
    """Means over the rounds in which each node transmitted."""
    alpha, beta, power_w = node_means(run, ("alpha", "beta", "power_w"))
    return {
        "alpha": numbers(alpha),
        "beta": numbers(beta),
        "power_dbm": numbers(to_db(np.where(power_w > 0, 1e3 * power_w, np.nan))),
        "budget_dbm": numbers(to_db(1e3 * run.clients["budget_w"].to_numpy())),
    }


def _timeline(run: Run, runs: int, notes: list[str]) -> dict[str, Any]:
    """Bars of as many rounds as fit, from the first on. Rounds with the same bars after their opening share them."""
    timeline = timeline_of(run)
    bars, count = timeline.bars, len(timeline.round)
    ends = np.searchsorted(bars.row, np.arange(count), side="right")
    kept: list[Bars] = []
    known: dict[bytes, int] = {}
    pattern: list[int] = []
    total = 0
    for row, (start, end) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist())):
        one = bars[start:end]
        after = np.rint(1e9 * np.stack([one.start_s - timeline.opened_s[row], one.length_s]))  # ns, as the clock counts
        key = b"".join(part.astype(np.int64).tobytes() for part in (one.kind, one.node, after))
        if key not in known:
            total += len(one.row)
            if total * runs > _MAX_BARS and row >= 2:
                break
            known[key] = len(kept)
            kept.append(Bars(one.row, one.kind, one.node, *(after / 1e9)))
        pattern.append(known[key])
    shown = len(pattern)
    lengths = [len(part.row) for part in kept]
    if shown < count:
        notes.append(f"the timeline holds rounds 1 to {shown:,} of {count:,}")
    return {
        "kinds": KINDS,
        "rounds": numbers(timeline.round[:shown]),
        "opened": [round(value, 9) for value in timeline.opened_s[:shown].tolist()],
        "closed": [round(value, 9) for value in timeline.closed_s[:shown].tolist()],
        # which bars a round has, where they begin, and then kind, node, seconds after the opening, and seconds long
        "pattern": pattern,
        "first": np.cumsum([0, *lengths]).tolist(),
        "kind": packed(np.concatenate([part.kind for part in kept]), "Uint8Array"),
        "node": packed(np.concatenate([part.node for part in kept]), "Uint16Array"),
        "start": packed(np.concatenate([part.start_s for part in kept]), "Float32Array"),
        "length": packed(np.concatenate([part.length_s for part in kept]), "Float32Array"),
    }


class _Sums:
    """Running sums of every pair of nodes, or of blocks of pairs in large networks."""

    def __init__(self, nodes: int):
        self.width = -(-nodes // _MAX_BINS)
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
        np.fmax.at(self.epsilon_max, key, epsilon)
        self.last_round, self.last = int(part["round"].iloc[-1]), np.full(size, np.nan)
        final = part["round"].to_numpy() == self.last_round
        np.fmax.at(self.last, key[final], epsilon[final])


def _network(run: Run, runs: int, notes: list[str]) -> dict[str, Any]:
    """Map, heat maps and mixing, for one of `runs` runs on a page."""
    scenario, rounds = run.scenario, run.rounds["round"].to_numpy()
    nodes, trace = scenario["network"]["nodes"], scenario["trace"]["links"]
    frames = rounds[thinned(len(rounds), min(_MAX_FRAMES, max(2, _MAX_PLACES // (nodes * runs))))]
    sums, kept, traced = _Sums(nodes), [], set()
    for part in run.frames("links", _LINK_COLUMNS) if trace != "none" else ():
        part = part[part["round"] <= rounds[-1]]  # a run being written: links may be ahead
        if part.empty:
            continue
        sums.add(part)
        traced.update(part["round"].unique().tolist())
        kept.append(part[part["round"].isin(frames) & part["neighbour"]])
    if traced:
        frames = frames[np.isin(frames, list(traced))]
        frames = frames if len(frames) else np.array([max(traced)])
    none = pd.DataFrame({name: [] for name in _LINK_COLUMNS}).astype({"tx": int, "rx": int})
    drawn = _map(run, pd.concat(kept) if kept else none, frames, runs, notes)
    if not traced:
        why = "no links were traced" if terms_of(run).sends else "nothing was sent"
        notes.append(f"{why}, so the page has no links, heat maps and weights")
        return {"map": drawn, "heat": None, "mixing": None}
    heat = _heat(sums, notes)
    return {"map": drawn, "heat": heat, "mixing": _mixing(run, sums, len(rounds) if trace == "all" else len(traced))}


def _map(run: Run, links: pd.DataFrame, frames: IntArray, runs: int, notes: list[str]) -> dict[str, Any]:
    nodes = run.scenario["network"]["nodes"]
    key = links["rx"].to_numpy(dtype=np.int64) * nodes + links["tx"].to_numpy(dtype=np.int64)
    pairs, link = np.unique(key, return_inverse=True)
    if len(pairs) > _MAX_LINKS:
        mean = np.bincount(link, weights=links["gain"]) / np.bincount(link)
        strongest = np.sort(np.argsort(-mean, kind="stable")[:_MAX_LINKS])
        notes.append(f"the map and the channel hold the {_MAX_LINKS:,} strongest of {len(pairs):,} links")
        place = np.full(len(pairs), -1)
        place[strongest] = np.arange(_MAX_LINKS)
        link, pairs = place[link], pairs[strongest]
    most = max(2, _MAX_CELLS // max(1, len(pairs) * runs))
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
    centi_db = np.where(np.isfinite(gain_db), np.round(100 * np.clip(gain_db, -327, 327)), _NO_GAIN)
    rx, tx = np.divmod(pairs, nodes)
    return {
        "rounds": numbers(chosen),
        "time": numbers(run.rounds.set_index("round")["time_s"].loc[chosen.tolist()]),
        "tx": tx.tolist(),
        "rx": rx.tolist(),
        # hundredths of a dB; the lowest code is no link
        "gain": {**packed(centi_db, "Int16Array"), "scale": 0.01, "none": _NO_GAIN},
        "epsilon": packed_levels(epsilon),
        **_places(run, chosen),
        "hubs": _hubs(run, chosen),
        "outlines": run.provenance.get("outlines_m", [])[:_MAX_LINKS],
    }


def _hubs(run: Run, frames: IntArray) -> list[dict[str, Any]] | None:
    """Turns of each frame, a hub and its members each, and what they left; None where nothing is collected by hubs."""
    rounds = run.rounds.set_index("round").loc[frames.tolist()]
    if rounds["hubs"].isna().all():
        return None
    place = {row: n for n, row in enumerate(np.searchsorted(run.rounds["round"], frames).tolist())}
    turns: list[list[dict[str, Any]]] = [[] for _ in frames]
    for one in hub_turns(run):
        if one.row in place:
            turns[place[one.row]].append({"hub": one.hub, "members": one.members.tolist(), "failed": one.failed})
    left = zip(turns, numbers(rounds["disagreement"]), numbers(rounds["uncollected"]))
    return [{"turns": found, "disagreement": apart, "uncollected": missed} for found, apart, missed in left]


def _places(run: Run, frames: IntArray) -> dict[str, Any]:
    """Positions, states (0 down, 1 silent, 2 transmitting) and, where some wait for others, turns of nodes."""
    nodes = run.frame("nodes", ["round", "x_m", "y_m", "height_m", "up", "transmitted", "turn"])
    nodes = nodes[nodes["round"].isin(frames)]
    shape = (len(frames), -1)
    state = nodes["up"].to_numpy().astype(int) + (nodes["up"] & nodes["transmitted"]).to_numpy().astype(int)
    place = {name: nodes[f"{name}_m"].to_numpy().reshape(shape) for name in ("x", "y", "height")}
    if np.ptp(place["height"]) < 1e-9:
        del place["height"]  # nothing to tell them apart by
    turn = nodes["turn"].fillna(_NO_TURN).to_numpy(dtype=np.int64).reshape(shape)
    turns = {"turn": packed(turn, "Uint16Array")} if (turn[turn != _NO_TURN] > 0).any() else {}
    still = all(np.array_equal(values, np.broadcast_to(values[0], values.shape)) for values in place.values())
    return {
        **{name: packed(values[:1] if still else values, "Float32Array") for name, values in place.items()},
        "state": packed(state.reshape(shape), "Uint8Array"),
        **turns,
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
        "largest": packed(sums.epsilon_max.reshape(shape), "Float32Array"),
        "mean": packed(mean.reshape(shape), "Float32Array"),
        "last": packed(sums.last.reshape(shape), "Float32Array"),
    }


def _mixing(run: Run, sums: _Sums, rounds: int) -> dict[str, Any]:
    """Mean weights over rounds, the weight of each node in the network average, and the spectral gap."""
    weight = sums.weight.reshape(sums.bins, sums.bins) / max(rounds, 1)
    gap = run.rounds[["round", "spectral_gap"]].dropna()
    shown = thinned(len(gap), _MAX_POINTS)
    found = {
        "gap": {"round": numbers(gap["round"].iloc[shown]), "value": numbers(gap["spectral_gap"].iloc[shown])},
        "width": sums.width,
    }
    if sums.width == 1:
        own = run.frame("nodes", ["node", "row_sum"]).groupby("node")["row_sum"].mean().to_numpy()
        np.fill_diagonal(weight, own - weight.sum(axis=1))
        linked = np.maximum(weight, 0.0)
        parts, _ = connected_components((linked > 0).astype(np.int8), connection="strong")
        scaled = linked / np.maximum(linked.sum(axis=1, keepdims=True), 1e-300)  # hubs: rows sum to 1 on average only
        found["pi"] = numbers(perron_vector(scaled)) if parts == 1 else None  # not unique in several parts
    else:
        weight /= sums.width  # a block's rows share its weight
    return {**found, "weight": packed(np.where(weight != 0, weight, np.nan), "Float32Array")}
