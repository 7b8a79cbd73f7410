"""A study as one table for a CSV file: a row per cell, with means over its runs and their 95% intervals.

Beyond the final figures of runs, from their traces:

    rounds             rounds run: fewer than asked for where learning.stop_after ended the run
    sum_alpha          sum over nodes of alpha, the paper's objective
    multiplier_max     largest gradient multiplier of the last round, at most theta
    noise_over_update  norm of a round's noise over that of its largest update, both of the network's model:
                       rho sqrt(m sum_k pi_k^2 beta_k / alpha_k) / (C sum_k pi_k mult_k) in the last round, pi the
                       left Perron vector of its mixing matrix, m the coordinates sent (two per symbol). Empty where
                       pairs share noise.
    power_over_budget  largest power that a node radiated in a round, over its budget
    z_minus_pi         largest |1 / mult_i - pi_i| over nodes in the last round: how well 1/z_ii estimates 1/pi_i

NAME_most is the largest of a cell's runs, for figures that a claim bounds in every run. Numbers are written with ten
digits: the same runs give the same bytes.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import connected_components

from wirelessdl.analysis.paired import Difference, study_differences
from wirelessdl.mixing import perron_vector
from wirelessdl.trace.run import Run
from wirelessdl.trace.soundness import require_sound
from wirelessdl.trace.study import Study, mean_interval

FIGURES = (
    "rounds",
    "accuracy_mean",
    "accuracy_min",
    "epsilon_link_max",
    "epsilon_link_total",
    "epsilon_total",
    "sum_alpha",
    "multiplier_max",
    "noise_over_update",
    "power_over_budget",
    "z_minus_pi",
)
_MOST = ("rounds", "epsilon_link_max", "epsilon_total", "power_over_budget", "z_minus_pi")
_DIGITS = "%.10g"


def run_figures(study: Study) -> pd.DataFrame:
    """The index of a study's finished runs, with what is worked out from their traces."""
    rows = study.finished.reset_index(drop=True)
    extra = pd.DataFrame([_from_traces(require_sound(study.run(path))) for path in rows["path"]], index=rows.index)
    return pd.concat([rows.drop(columns=[name for name in extra if name in rows]), extra], axis=1)


def run_table(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """One row per run: its cell, seed and run number, and every figure; rows: of `run_figures`."""
    rows = rows.sort_values(["cell", "seed", "run"])
    return rows[["cell", "name", "baseline", *study.varied, "seed", "run", *(one for one in FIGURES if one in rows)]]


def cell_means(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: its values, n, of every figure the mean, low and high, and of some the largest."""
    found = []
    for cell, part in rows.groupby("cell", sort=True):
        first = part.iloc[0]
        row: dict[str, Any] = {"cell": cell, "name": first["name"], "baseline": first["baseline"]}
        row |= {key: first[key] for key in study.varied}
        row["n"] = len(part)
        for figure in FIGURES:
            values = pd.to_numeric(part[figure], errors="coerce") if figure in part else pd.Series([math.nan])
            mean, low, high, _ = mean_interval(values.dropna())
            row |= {figure: mean, f"{figure}_low": low, f"{figure}_high": high}
            if figure in _MOST:
                row[f"{figure}_most"] = values.max()
        found.append(row)
    return pd.DataFrame(found)


def cell_differences(study: Study, references: tuple[str, ...], of: str = "accuracy_mean") -> pd.DataFrame:
    """Every cell beside each reference at the same seeds: mean difference with its interval."""
    found = [one for to in references for one in study_differences(study, of, to)]
    return pd.DataFrame([_row(one, study.varied) for one in found])


def csv_text(frame: pd.DataFrame) -> str:
    return frame.to_csv(index=False, float_format=_DIGITS, lineterminator="\n")


def _row(one: Difference, varied: list[str]) -> dict[str, Any]:
    return {
        "cell": one.cell,
        "name": one.name,
        "reference": one.reference,
        "reference_cell": one.reference_cell,
        **{key: one.keys.get(key) for key in varied},
        "of": one.of,
        "mean": one.mean,
        "reference_mean": one.reference_mean,
        "difference": one.difference,
        "low": one.low,
        "high": one.high,
        "n": one.n,
        "median": one.median,
        "above": one.above,
    }


def _from_traces(run: Run) -> dict[str, float]:
    last = run.rounds.iloc[-1]
    nodes = run.frame("nodes", rounds=(int(last["round"]),) * 2).sort_values("node")
    links = run.frame("links", rounds=(int(last["round"]),) * 2)
    multiplier = nodes["multiplier"].to_numpy(float)
    found = dict.fromkeys(FIGURES[-5:], math.nan) | {
        "rounds": float(last["round"]),
        "multiplier_max": float(multiplier.max()),
    }
    if links.empty:  # nothing is sent
        return found
    alpha, beta = (nodes[name].to_numpy(float) for name in ("alpha", "beta"))
    found["sum_alpha"] = float(alpha.sum())
    radiated = run.frame("nodes", ["node", "power_w"]).groupby("node")["power_w"].max().to_numpy(float)
    budget = run.clients.sort_values("node")["budget_w"].to_numpy(float)
    found["power_over_budget"] = float(np.max(radiated / budget))
    privacy, radio = run.scenario["privacy"], run.scenario["radio"]
    if privacy["noise"] != "independent" or nodes["attempts"].notna().any():  # how long messages take says no size
        return found
    links = links[links["neighbour"]]
    mixing = np.zeros((len(nodes), len(nodes)))
    mixing[links["rx"], links["tx"]] = links["weight"]
    np.fill_diagonal(mixing, nodes["row_sum"].to_numpy(float) - mixing.sum(axis=1))
    if connected_components(mixing > 0, connection="strong")[0] > 1:  # pi of a frame in parts is not unique
        return found
    pi = perron_vector(mixing)
    found["z_minus_pi"] = float(np.max(np.abs(1.0 / multiplier - pi)))
    parameters = 2 * round(float(last["payload_s"]) * int(last["payload_slots"]) * radio["bandwidth_hz"])
    noise = privacy["rho"] * math.sqrt(parameters * float(np.sum(pi**2 * beta / alpha)))
    found["noise_over_update"] = noise / (privacy["clip_norm"] * float(np.sum(pi * multiplier)))
    return found
