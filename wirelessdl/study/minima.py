"""Distances of final models from both minima: of sum f_i, and of sum pi_i f_i, to which mixing without 1/z_ii leads.

A study varies scenario.rounds: a run of T rounds is the beginning of a longer one with the same seed, so its final
models are those of round T. Distance: root mean square over nodes of |x_i - minimum|.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wirelessdl.mixing import perron_vector
from wirelessdl.run.minima import ridge_minima
from wirelessdl.study.plan import Plan
from wirelessdl.trace.checkpoint import load_checkpoint
from wirelessdl.trace.study import mean_interval, open_study

if TYPE_CHECKING:
    import pandas as pd


def minima_table(folder: Path, plan: Plan) -> "pd.DataFrame":
    """By cell: rounds, the distance to each minimum with its 95% interval, and how far these lie apart."""
    import pandas as pd

    study, rows = open_study(folder), []
    finished = set(study.finished["path"])
    for cell in plan.cells:
        found = []
        for planned in plan.planned():
            if planned.cell != cell.cell or planned.path not in finished:
                continue
            run = study.run(planned.path)
            last = int(run.rounds["round"].iloc[-1])
            nodes = run.frame("nodes", rounds=(last, last)).sort_values("node")
            mixing = run.matrix("weight", last)
            np.fill_diagonal(
                mixing, nodes["row_sum"].to_numpy(float) - np.nansum(mixing * ~np.eye(len(nodes), dtype=bool), 1)
            )
            weights = np.stack([np.ones(len(nodes)), perron_vector(np.nan_to_num(mixing))])
            optimum, biased = ridge_minima(plan.scenario(cell, planned.seed, planned.run), weights)
            checkpoint = load_checkpoint(run.path)
            assert checkpoint is not None  # a finished run has one
            models = checkpoint.arrays["x"]
            away = [float(np.sqrt(np.mean(np.sum((models - place) ** 2, axis=1)))) for place in (optimum, biased)]
            found.append((*away, float(np.linalg.norm(optimum - biased))))
        row: dict[str, Any] = {
            "cell": cell.cell,
            "name": cell.name,
            "rounds": plan.scenario(cell, 0, 1).scenario.rounds,
        }
        for number, what in enumerate(("to_optimum", "to_weighted", "apart")):
            mean, low, high, n = mean_interval([one[number] for one in found])
            row |= {what: mean, f"{what}_low": low, f"{what}_high": high, "n": n}
        rows.append(row)
    return pd.DataFrame(rows)
