"""What a page shows of one run, as plain values that JSON can hold."""

import math
from typing import Any

import numpy as np

from wirelessdl.analysis.figures.nodes import node_means
from wirelessdl.analysis.privacy_curve import PrivacyCurve, privacy_curve
from wirelessdl.analysis.report.network import network_of
from wirelessdl.analysis.report.packing import numbers, packed, thinned
from wirelessdl.analysis.runs import final_figures, state
from wirelessdl.analysis.timeline import slots_of
from wirelessdl.trace.run import Run
from wirelessdl.units import to_db

_MOST_POINTS = 600  # of a curve
_MOST_LEARNED = 100_000  # evaluations times nodes, of all runs on a page
_MOST_SLOTS = 400_000  # rounds times nodes of the timeline, of all runs on a page

ACCOUNTANTS = {
    "pld": "Privacy loss distributions of all releases, composed. Counts on the sampling of batches. The headline.",
    "rdp": "Rényi divergences, added up by dp-accounting. Counts on the sampling of batches; looser.",
    "rdp-wang19": "Theorem 9 as the paper prints it. Counts on the sampling of batches; loosest of the three.",
    "gdp": "Gaussian releases, whose squares add up exactly. Counts on nothing but the noise: it holds even for "
    "someone who knows every batch.",
}
_SAMPLERS = {
    "without-replacement": "batches drawn afresh each round, without replacement",
    "poisson": "each sample in a batch by a coin of its own",
    "full-batch": "all samples in every round",
    "shuffled": "batches dealt from a fresh order every epoch; epochs are charged",
}
_ADJACENCY = {
    "replace-one": "neighbouring data sets differ in one sample replaced",
    "add-remove": "neighbouring data sets differ in one sample more or less",
}
_CLIPPING = {"per-sample": "every sample's gradient clipped", "batch": "the batch's gradient clipped as a whole"}


def content_of(run: Run, runs: int) -> dict[str, Any]:
    """One run as the page takes it; `runs` share the page, and its size."""
    network = network_of(run, runs)
    spent = privacy_curve(run)
    timeline, note = _timeline(run, runs)
    return {
        "nodes": run.scenario["network"]["nodes"],
        "state": state(run),
        "figures": _finite(final_figures(run)),
        "learning": _learning(run),
        "learned": _learned(run, runs),
        "tradeoff": _tradeoff(run, spent),
        "totals": _totals(run, spent),
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


def _tradeoff(run: Run, spent: PrivacyCurve) -> dict[str, Any]:
    """Accuracy against what was spent by then."""
    evaluated = run.rounds.dropna(subset="accuracy_mean").set_index("round")["accuracy_mean"]
    known = np.isin(spent.round, evaluated.index) & np.isfinite(spent.epsilon)
    at = spent.round[known]
    shown = thinned(len(at), _MOST_POINTS) if len(at) else np.zeros(0, dtype=np.int64)
    return {
        "round": numbers(at[shown]),
        "epsilon": numbers(spent.epsilon[known][shown]),
        "accuracy": numbers(evaluated.loc[at[shown].tolist()]),
        "accountant": spent.accountant,
    }


def _totals(run: Run, spent: PrivacyCurve) -> dict[str, Any]:
    """Own totals per node and accountant, and in words what they rest on."""
    privacy = run.privacy
    own = privacy[privacy["view"] == "own"]
    claim = privacy.loc[privacy["view"] == "link", "epsilon_total"]
    order = sorted(spent.totals, key=lambda name: list(ACCOUNTANTS).index(name) if name in ACCOUNTANTS else 9)
    terms = []
    if len(own):
        row = own.iloc[0]
        terms = [
            _ADJACENCY.get(row["adjacency"], row["adjacency"]),
            _SAMPLERS.get(row["sampler"], row["sampler"]),
            _CLIPPING.get(row["clipping"], row["clipping"]),
            f"delta {row['delta']:g}, {int(own['rounds'].max())} charged releases at most",
        ]
    return {
        "accountants": [
            {
                "name": name,
                "words": ACCOUNTANTS.get(name, ""),
                "epsilon": numbers(spent.totals[name]),
                "largest": _told(float(spent.totals[name].max())),
            }
            for name in order
        ],
        "claim": _told(float(claim.max())) if len(claim) else "",
        "terms": terms,
        "conditions": run.summary.get("epsilon_own_conditions", []),
        "note": spent.note,
    }


def _told(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.3g}"


def _power(run: Run) -> dict[str, Any]:
    """Means over the rounds on air."""
    alpha, beta, power_w = node_means(run, ("alpha", "beta", "power_w"))
    return {
        "alpha": numbers(alpha),
        "beta": numbers(beta),
        "power_dbm": numbers(to_db(np.where(power_w > 0, 1e3 * power_w, np.nan))),
        "budget_dbm": run.scenario.get("radio", {}).get("power_dbm"),
    }


def _timeline(run: Run, runs: int) -> tuple[dict[str, Any], str]:
    """Slots of as many rounds as fit, from the first on."""
    slots = slots_of(run)
    nodes = slots.sent.shape[1]
    most = min(len(slots.round), max(2, _MOST_SLOTS // (nodes * runs)))
    compute = slots.computed_s[:most] - slots.compute_from_s[:most, None]
    same = bool(np.all(np.isnan(compute) | (np.abs(compute - compute[0, 0]) < 1e-9))) if most else False
    content = {
        "rounds": numbers(slots.round[:most]),
        "opened": [None if math.isnan(value) else round(value, 9) for value in slots.opened_s[:most].tolist()],
        "closed": [round(value, 9) for value in slots.closed_s[:most].tolist()],
        "pilot": slots.pilot_s,
        "guard": slots.guard_s,
        "parallel": slots.parallel,
        # how long each gradient took; one number where all took the same
        "compute": packed(compute[:1, :1] if same else compute, "Float32Array"),
        "computed": packed(np.isfinite(compute), "Uint8Array"),
        "standing": packed(slots.up[:most].astype(int) + (slots.up & slots.sent)[:most], "Uint8Array"),
    }
    note = f"the timeline holds rounds 1 to {most:,} of {len(slots.round):,}" if most < len(slots.round) else ""
    return content, note
