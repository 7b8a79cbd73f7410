"""Where ridge regression should end: closed-form minima of weighted sums of the nodes' losses.

    argmin sum_i w_i f_i = (sum_i w_i H_i)^-1 sum_i w_i b_i,   H_i = A_i'A_i / n_i + penalty I,  b_i = A_i'y_i / n_i

w = 1: what the network is to minimise; w = pi, the Perron vector of its mixing: where it ends without multipliers.
"""

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.errors import ScenarioError
from wirelessdl.run.build import build
from wirelessdl.scenario.schema import Scenario


def ridge_minima(scenario: Scenario, weights: FloatArray) -> FloatArray:
    """The minimum for each row of weights `[N, K]`; returns `[N, m]`."""
    if scenario.learning.model.name != "ridge":
        raise ScenarioError(f'{scenario.origin}: learning.model is not "ridge"; closed-form minima are known for it')
    world = build(scenario, device="cpu")
    data, penalty = world.data, float(world.learning.learner.penalty)
    matrices, vectors = [], []
    for client in world.client_indices:
        a = np.hstack([data.normalised(data.train_x[client]), np.ones((len(client), 1))]).astype(float)
        matrices.append(a.T @ a / len(client) + penalty * np.eye(a.shape[1]))
        vectors.append(a.T @ data.train_y[client] / len(client))
    return np.stack(
        [
            np.linalg.solve(np.tensordot(row, np.stack(matrices), 1), np.tensordot(row, np.stack(vectors), 1))
            for row in np.atleast_2d(weights)
        ]
    )
