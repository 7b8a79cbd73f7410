"""The content of a report page for one run, as plain values that JSON can hold."""

import math
from typing import Any

import numpy as np

from wirelessdl.analysis.privacy_curve import PrivacyCurve, privacy_curve
from wirelessdl.analysis.releases import terms_of
from wirelessdl.analysis.report.network import network_of
from wirelessdl.analysis.report.packing import numbers, packed, thinned
from wirelessdl.analysis.runs import final_figures, node_means, state
from wirelessdl.analysis.timeline import KINDS, Bars, timeline_of
from wirelessdl.trace.run import Run
from wirelessdl.units import to_db

_MOST_POINTS = 600  # of a curve
_MOST_LEARNED = 100_000  # evaluations times nodes, of all runs on a page
_MOST_BARS = 300_000  # of the timeline, of all runs on a page

ACCOUNTANTS = {
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
}
_CLIPPING = {
    "per-sample": "the gradient of every sample is clipped",
    "batch": "the gradient of the batch is clipped as a whole",
}


def content_of(run: Run, runs: int, *, accountants: bool = False) -> dict[str, Any]:
    """Content of one run; `runs` runs share the page, and its size limits."""
    network = network_of(run, runs)
    curve = privacy_curve(run, others=accountants)
    timeline, note = _timeline(run, runs)
    return {
        "nodes": run.scenario["network"]["nodes"],
        "state": state(run),
        "figures": _finite(final_figures(run)),
        "learning": _learning(run),
        "learned": _learned(run, runs),
        "tradeoff": _tradeoff(run, curve),
        "totals": _totals(run, curve),
        "power": _power(run),
        "map": network.map,
        "heat": network.heat,
        "mixing": network.mixing,
        "timeline": timeline,
        "notes": [*network.notes, *([note] if note else [])],
    }


def _finite(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value if value is None or math.isfinite(value) else None for name, value in figures.items()}


def _learning(run: Run) -> dict[str, Any]:
    """Curves over rounds, simulated time and energy."""
    rounds = run.rounds.assign(energy=run.rounds["energy_j"].cumsum())
    evaluated = rounds.dropna(subset="accuracy_mean")
    evaluated = evaluated.iloc[thinned(len(evaluated), _MOST_POINTS)] if len(evaluated) else evaluated
    every = rounds.iloc[thinned(len(rounds), _MOST_POINTS)]
    axes = {"round": "round", "time": "time_s", "energy": "energy"}
    return {
        "accuracy": {
            **{name: numbers(evaluated[column]) for name, column in axes.items()},
            **{name: numbers(evaluated[f"accuracy_{name}"]) for name in ("mean", "min", "max")},
        },
        "loss": {
            **{name: numbers(every[column]) for name, column in axes.items()},
            "mean": numbers(every["loss_mean"]),
        },
    }


def _learned(run: Run, runs: int) -> dict[str, Any]:
    """Accuracy of every node at evaluations."""
    nodes = run.frame("nodes", ["round", "accuracy"])
    rounds = run.rounds.loc[run.rounds["accuracy_mean"].notna(), "round"].to_numpy()
    count = run.scenario["network"]["nodes"]
    rounds = rounds[thinned(len(rounds), max(2, _MOST_LEARNED // (count * runs)))] if len(rounds) else rounds
    accuracy = nodes.loc[nodes["round"].isin(rounds), "accuracy"].to_numpy().reshape(len(rounds), count)
    most = float(np.nanmax(accuracy)) if np.isfinite(accuracy).any() else 1.0
    return {"rounds": numbers(rounds), "accuracy": packed(accuracy, "Float32Array"), "most": most}


def _tradeoff(run: Run, curve: PrivacyCurve) -> dict[str, Any]:
    """Accuracy against the promised total epsilon at the same round."""
    evaluated = run.rounds.dropna(subset="accuracy_mean").set_index("round")["accuracy_mean"]
    known = np.isin(curve.round, evaluated.index) & np.isfinite(curve.epsilon)
    at = curve.round[known]
    shown = thinned(len(at), _MOST_POINTS) if len(at) else np.zeros(0, dtype=np.int64)
    return {
        "round": numbers(at[shown]),
        "epsilon": numbers(curve.epsilon[known][shown]),
        "accuracy": numbers(evaluated.loc[at[shown].tolist()]),
        "accountant": curve.accountant,
        "adversary": curve.adversary,
    }


def _totals(run: Run, curve: PrivacyCurve) -> dict[str, Any]:
    """Promised totals per node and accountant, and the terms they are stated under."""
    privacy = run.privacy
    promised = privacy[privacy["view"] == terms_of(run).promised]
    link_sum = privacy.loc[privacy["view"] == "link", "epsilon_total"]
    order = sorted(curve.totals, key=lambda name: list(ACCOUNTANTS).index(name) if name in ACCOUNTANTS else 9)
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
                "basis": ACCOUNTANTS.get(name, ""),
                "epsilon": numbers(curve.totals[name]),
                "largest": _formatted(float(curve.totals[name].max())),
            }
            for name in order
        ],
        "adversary": curve.adversary,
        "link_sum": _formatted(float(link_sum.max())) if len(link_sum) else "",
        "terms": terms,
        "conditions": run.summary.get("epsilon_own_conditions", []),
        "note": curve.note,
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


def _timeline(run: Run, runs: int) -> tuple[dict[str, Any], str]:
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
            if total * runs > _MOST_BARS and row >= 2:
                break
            known[key] = len(kept)
            kept.append(Bars(one.row, one.kind, one.node, *(after / 1e9)))
        pattern.append(known[key])
    shown = len(pattern)
    lengths = [len(part.row) for part in kept]
    content = {
        "kinds": KINDS,
        "rounds": numbers(timeline.round[:shown]),
        "opened": [round(value, 9) for value in timeline.opened_s[:shown].tolist()],
        "closed": [round(value, 9) for value in timeline.closed_s[:shown].tolist()],
        # which bars a round has, where they begin, and then kind, node, seconds after the opening, and seconds long
        "pattern": pattern,
        "first": np.cumsum([0, *lengths]).tolist(),
        **{
            name: packed(np.concatenate([getattr(part, field) for part in kept]), typed)
            for name, field, typed in (
                ("kind", "kind", "Uint8Array"),
                ("node", "node", "Uint16Array"),
                ("start", "start_s", "Float32Array"),
                ("length", "length_s", "Float32Array"),
            )
        },
    }
    return content, f"the timeline holds rounds 1 to {shown:,} of {count:,}" if shown < count else ""
