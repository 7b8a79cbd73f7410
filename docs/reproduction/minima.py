"""Distances of final models from both minima: of sum f_i, and of sum pi_i f_i, to which mixing without 1/z_ii leads.

A study varies scenario.rounds: a run of T rounds is the beginning of a longer one with the same seed, so its final
models are those of round T. Distance: root mean square over nodes of |x_i - minimum|. pi is that of the mean of all A
that were traced.

    argmin sum_i w_i f_i = (sum_i w_i H_i)^-1 sum_i w_i b_i,   H_i = A_i'A_i / n_i + penalty I,  b_i = A_i'y_i / n_i
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from wirelessdl.analysis.study_tables import escape_math
from wirelessdl.analysis.style import COLUMN, look, save, styled
from wirelessdl.arrays import FloatArray
from wirelessdl.errors import ScenarioError
from wirelessdl.mixing import perron_vector
from wirelessdl.run.build import build
from wirelessdl.scenario.schema import Scenario
from wirelessdl.study.plan import Plan
from wirelessdl.trace.checkpoint import load_checkpoint
from wirelessdl.trace.study import mean_interval, open_study

_LINES = (("to_optimum", "-", "to the minimum of sum f"), ("to_weighted", "--", "to that of sum pi f"))


def minima_table(folder: Path, plan: Plan) -> pd.DataFrame:
    """By cell: rounds, the distance to each minimum with its 95% interval, and how far these lie apart."""
    study, rows = open_study(folder), []
    finished = set(study.finished["path"])
    for cell in plan.cells:
        found = []
        for planned in plan.planned():
            if planned.cell != cell.cell or planned.path not in finished:
                continue
            run = study.run(planned.path)
            links, nodes = run.frame("links"), int(run.scenario["network"]["nodes"])
            mixing = np.zeros((nodes, nodes))
            np.add.at(mixing, (links["rx"], links["tx"]), links["weight"] / links["round"].nunique())
            np.fill_diagonal(mixing, 1.0 - mixing.sum(axis=1))  # rows sum to 1 with perfect CSI
            weights = np.stack([np.ones(nodes), perron_vector(mixing)])
            checkpoint = load_checkpoint(run.path)
            assert checkpoint is not None  # a finished run has one
            given = plan.scenario(cell, planned.seed, planned.run)
            (optimum, biased), models = ridge_minima(given, weights, checkpoint.arrays)
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


def ridge_minima(scenario: Scenario, weights: FloatArray, state: Mapping[str, Any]) -> tuple[FloatArray, FloatArray]:
    """The minimum for each row of weights `[N, K]`, `[N, m]`; and models of an engine's state, `[K, m]`."""
    if scenario.learning.model.name != "ridge":
        raise ScenarioError(f'{scenario.origin}: learning.model is not "ridge"; closed-form minima are known for it')
    world = build(scenario, device="cpu")
    world.learning.restore(state)
    data, penalty = world.data, float(world.learning.learner.penalty)
    matrices, vectors = [], []
    for client in world.client_indices:
        a = np.hstack([data.normalised(data.train_x[client]), np.ones((len(client), 1))]).astype(float)
        matrices.append(a.T @ a / len(client) + penalty * np.eye(a.shape[1]))
        vectors.append(a.T @ data.train_y[client] / len(client))
    minima = [
        np.linalg.solve(np.tensordot(row, np.stack(matrices), 1), np.tensordot(row, np.stack(vectors), 1))
        for row in np.atleast_2d(weights)
    ]
    return np.stack(minima), world.learning.x.numpy()


def draw_minima(table: pd.DataFrame, path: Path) -> None:
    """By name of cell: the distance to each minimum over rounds; both axes logarithmic."""
    with styled():
        figure, axis = plt.subplots(figsize=(COLUMN, 2.6), layout="constrained")
        for number, (name, part) in enumerate(table.groupby("name", sort=False)):
            colour, marker = look(number)
            for column, dash, words in _LINES:
                label = f"{escape_math(str(name))}, {words}"
                axis.plot(part["rounds"], part[column], color=colour, linestyle=dash, marker=marker, label=label)
        axis.set(xscale="log", yscale="log", xlabel="round", ylabel="distance of the models")
        axis.legend(fontsize=6.5)
        save(figure, path)
