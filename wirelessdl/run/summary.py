"""Final figures of a run: what summary.json holds."""

from typing import Any

import numpy as np

from wirelessdl.families import columns as access_columns
from wirelessdl.mechanism.own import Member as OwnNoise
from wirelessdl.round.engine import Engine
from wirelessdl.run.warnings import receiver_noise_warnings
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.run import Run
from wirelessdl.units import to_s


def summarise(scenario: Scenario, engine: Engine, run: Run, wall_s: float, warnings: list[str]) -> dict[str, Any]:
    """Final figures of a run."""
    # through lists: frames, and even Arrow's own arrays, would import pandas, which nothing else here needs
    columns = ["round", "accuracy_mean", "accuracy_min", "accuracy_max", "epsilon_link_max", "airtime_s"]
    columns += ["energy_j", "energy_nominal_j", "privacy_noise_std", "receiver_noise_std"]
    of_access = [name for name, *_ in access_columns("rounds")]
    columns += of_access
    rounds = {name: np.array(values, float) for name, values in run.table("rounds", columns).to_pydict().items()}
    noise = (float(np.sum(rounds[name] ** 2)) for name in ("privacy_noise_std", "receiver_noise_std"))
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
        "epsilon_status": "unproven" if ledger.terms.declared else "proven",
        "adversary": ledger.terms.adversary,
        "coalition": ledger.terms.coalition or None,
        **engine.stages.planner.mechanism.figures(),
        "epsilon_own_total": total["own"],
        "epsilon_coalition_total": total.get("coalition"),
        "epsilon_link_total": total.get("link"),
        "delta_total": privacy.delta_total,
        "rounding_share": ledger.terms.rounding,
        "time_s": to_s(engine.time_ns),
        "airtime_s": float(rounds["airtime_s"].sum()),
        "energy_j": float(rounds["energy_j"].sum()),
        "energy_nominal_j": float(rounds["energy_nominal_j"].sum()),
        **{name: float(np.nanmean(rounds[name])) for name in of_access if np.isfinite(rounds[name]).any()},
        "wall_s": wall_s,
        "connectivity": engine.stages.observer.connectivity.formatted(),
        "warnings": [*warnings, *_mechanism_warnings(engine, run), *receiver_noise_warnings(scenario, *noise)],
        "epsilon_own_conditions": ledger.terms.conditions,
    }


def _mechanism_warnings(engine: Engine, run: Run) -> list[str]:
    """What the mechanism says of the notes of all frames."""
    mechanism = engine.stages.planner.mechanism
    if isinstance(mechanism, OwnNoise):
        return []
    return list(mechanism.warnings(run.table("events", ["detail"])["detail"].to_pylist()))
