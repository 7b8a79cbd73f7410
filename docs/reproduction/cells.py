"""Figures of a study's cells that the paper's claims need, from the traces of its runs.

sum_alpha          sum over nodes of alpha, the paper's objective
multiplier_max     largest gradient multiplier of the last round, at most theta
noise_over_update  norm of a round's noise over that of its largest update, both of the network's model:
                   rho sqrt(m sum_k pi_k^2 beta_k / alpha_k) / (C sum_k pi_k mult_k) in the last round, pi the
                   left Perron vector of its mixing matrix, m the coordinates sent (two per symbol). Empty where
                   pairs share noise.
power_over_budget  largest power that a node radiated in a round, over its budget
z_minus_pi         largest |1 / mult_i - pi_i| over nodes in the last round: how well 1/z_ii estimates 1/pi_i
"""

import math

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import connected_components

from wirelessdl.analysis.study_tables import CELL_FIGURES, LARGEST, cell_means, run_table
from wirelessdl.mixing import perron_vector
from wirelessdl.trace.run import Run
from wirelessdl.trace.soundness import require_sound
from wirelessdl.trace.study import Study

_OF_TRACES = ("sum_alpha", "multiplier_max", "noise_over_update", "power_over_budget", "z_minus_pi")


def cell_tables(study: Study) -> dict[str, pd.DataFrame]:
    """What `reproduce` writes of cells and runs, with these figures."""
    rows = study.finished.reset_index(drop=True)
    extra = pd.DataFrame([from_traces(require_sound(study.run(path))) for path in rows["path"]], index=rows.index)
    rows = pd.concat([rows.drop(columns=[name for name in extra if name in rows]), extra], axis=1)
    figures = (*CELL_FIGURES, *_OF_TRACES)
    means = cell_means(study, rows, figures, (*LARGEST, "power_over_budget", "z_minus_pi"))
    return {"": means, "-runs": run_table(study, rows, figures)}


def from_traces(run: Run) -> dict[str, float]:
    """The figures of one run; NaN where it does not have one."""
    last = run.rounds.iloc[-1]
    nodes = run.frame("nodes", rounds=(int(last["round"]),) * 2).sort_values("node")
    links = run.frame("links", rounds=(int(last["round"]),) * 2)
    multiplier = nodes["multiplier"].to_numpy(float)
    found = dict.fromkeys(_OF_TRACES, math.nan) | {"multiplier_max": float(multiplier.max())}
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
