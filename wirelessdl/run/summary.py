"""Final figures of a run: what summary.json holds."""

from typing import Any

import numpy as np

from wirelessdl.round.engine import Engine
from wirelessdl.round.pairing import UNPAIRED
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.run import Run
from wirelessdl.units import to_s


def summarise(scenario: Scenario, engine: Engine, run: Run, wall_s: float, warnings: list[str]) -> dict[str, Any]:
    """Final figures of a run."""
    # through lists: frames, and even Arrow's own arrays, would import pandas, which nothing else here needs
    columns = ["round", "accuracy_mean", "accuracy_min", "accuracy_max", "epsilon_link_max", "airtime_s", "energy_j"]
    messages = ["attempts_mean", "outage_rate"] if engine.stages.delivering is not None else []
    columns += messages
    rounds = {name: np.array(values, float) for name, values in run.table("rounds", columns).to_pydict().items()}
    ledger = engine.stages.ledger
    section, privacy = scenario.scenario, scenario.privacy
    total = {one.view: float(one.epsilon_total.max(initial=0.0)) for one in ledger.statements()}
    return {
        "scenario": section.name,
        "seed": section.seed,
        "run": section.run,
        "rounds": int(rounds["round"][-1]),
        "nodes": scenario.network.nodes,
        "accuracy_mean": float(rounds["accuracy_mean"][-1]),
        "accuracy_min": float(rounds["accuracy_min"][-1]),
        "accuracy_max": float(rounds["accuracy_max"][-1]),
        "protocol": privacy.protocol,
        "epsilon_max": privacy.epsilon_max,
        "delta": privacy.delta,
        "epsilon_link_max": float(np.nanmax(rounds["epsilon_link_max"])) if ledger.terms.counts_links else None,
        "violations": engine.violations,
        "unit": privacy.unit,
        "adjacency": ledger.terms.adjacency,
        "amplified": ledger.terms.amplified,
        "epsilon_total": total.get(ledger.terms.promised, total["own"]),
        "promised": ledger.terms.promised,
        "adversary": ledger.terms.adversary,
        "coalition": ledger.terms.coalition or None,
        "pair_ratio": None if engine.stages.planner.pairs is None else engine.stages.planner.pairs.ratio,
        "epsilon_own_total": total["own"],
        "epsilon_coalition_total": total.get("coalition"),
        "epsilon_link_total": total.get("link"),
        "delta_total": privacy.delta_total,
        "rounding_share": ledger.terms.rounding,
        "time_s": to_s(engine.time_ns),
        "airtime_s": float(rounds["airtime_s"].sum()),
        "energy_j": float(rounds["energy_j"].sum()),
        **{name: float(np.nanmean(rounds[name])) for name in messages if np.isfinite(rounds[name]).any()},
        "wall_s": wall_s,
        "connectivity": engine.stages.observer.connectivity.formatted(),
        "warnings": [*warnings, *_unpaired(engine, run)],
        "epsilon_own_conditions": ledger.terms.conditions,
    }


def _unpaired(engine: Engine, run: Run) -> list[str]:
    """A line where frames had own noise alone, though pairs were wanted."""
    if engine.stages.planner.pairs is None:
        return []
    count = sum(detail.endswith(UNPAIRED) for detail in run.table("events", ["detail"])["detail"].to_pylist())
    if not count:
        return []
    return [
        f"pairs of nodes shared no noise in {count} frames, where it would have left models less than power.alpha_min "
        "of the power: own noise alone hid them, which does not cancel; lower power.alpha_min, privacy.pair_ratio or "
        "privacy.coalition"
    ]
