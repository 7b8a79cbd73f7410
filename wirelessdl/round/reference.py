"""Algorithm 1 of the paper in plain loops: the default round, to be read before `round/engine.py`.

One round of K nodes under the default settings: hardened protocol, own noise, everyone on air, one payload slot, no
phase errors. Node by node, link by link:

    1. j adds noise aligned with the gradient that its model carries    w_j = x_j + sqrt(beta_j / alpha_j) eta_j
    2. the ledger is charged: by how much noise hides that gradient     mu_j = sens_j gamma mult / deviation of noise
    3. i hears all neighbours at once                                   y_i = sum_j |h_ij| sqrt(alpha_j P_j) w_j + noise
    4. i divides by the sum of amplitudes that it estimated, and adds its own model with the noise that it sent
       s_i = a_i y_i / sum_j |h_ij| sqrt(alpha_j P_j) + (1 - a_i) w_i
    5. i takes one clipped gradient at s_i, steps, and projects         x_i <- Proj(s_i - gamma mult_i g_i(s_i))

    x_j      model of node j, m numbers; s_j: what it held after the last payload; eta_j ~ N(0, sigma_j^2 I)
    alpha_j  share of its power budget P_j for the model; beta_j = 1 - alpha_j for noise
    gamma    learning rate; mult_i: multiplier of the gradient of node i (theta bounds it)
    sigma_j  rho times the learning rate of the gradient that x_j carries
    sens_j   how far replacing one sample moves a clipped gradient
    mu_j     1 / noise multiplier of the release: what accountants compose to epsilon

Receiver balancing chooses a_i such that the mixing matrix is doubly stochastic, whatever the gains; then mult_i is K.
The engine does the same on arrays of all nodes and links, with everything that a run can have besides: other access,
other mechanisms, faults, offsets, interference, several slots. `tests/round/test_reference.py` holds both equal.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from wirelessdl.arrays import FloatArray

# the clipped gradient of a node's batch in a round: gradient(node, round, point)
Gradient = Callable[[int, int, FloatArray], FloatArray]


@dataclass
class Node:
    """What a node has: its model x, what it held after the last slot s, and the step that x carries and s does not."""

    x: FloatArray
    s: FloatArray
    pending_gamma: float = 0.0  # learning rate of the gradient that was not sent yet; 0 for none
    pending_multiplier: float = 0.0
    mu: list[float] = field(default_factory=list)  # of every release: what the ledger is charged


@dataclass(frozen=True)
class Radio:
    """What plan and channel give to a round: gain, gain_est: [rx][tx] |h| and its estimate, 0 where there is no
    link."""

    gain: FloatArray
    gain_est: FloatArray
    alpha: Sequence[float]
    power_w: Sequence[float]
    thermal_w: float


def reference_round(
    nodes: list[Node],
    radio: Radio,
    round: int,
    *,
    gamma: float,
    rho: float,
    sensitivity: Sequence[float],
    radius: float,
    gradient: Gradient,
    eta: FloatArray,
    thermal: FloatArray,
) -> None:
    """Take all nodes through one round. eta, thermal: [K, m] standard normal draws of senders and receivers."""
    count = len(nodes)
    noise_of = [math.sqrt((1 - alpha) / alpha) for alpha in radio.alpha]
    sent = []
    for j, node in enumerate(nodes):
        sigma = rho * (node.pending_gamma or gamma)  # x_1 carries no gradient: noise as for this round's
        sent.append(node.x + noise_of[j] * sigma * eta[j])
        if node.pending_gamma:  # x_1 comes from no data: nothing is charged before the first gradient
            shift = sensitivity[j] * node.pending_gamma * node.pending_multiplier
            node.mu.append(shift / (noise_of[j] * sigma))
    amplitude = [math.sqrt(alpha * power) for alpha, power in zip(radio.alpha, radio.power_w)]
    air = balanced_air_weights(radio.gain_est, amplitude)
    for i, node in enumerate(nodes):
        neighbours = [j for j in range(count) if radio.gain_est[i][j] > 0]
        heard = np.zeros_like(node.x)
        for j in neighbours:
            heard = heard + radio.gain[i][j] * amplitude[j] * sent[j]
        heard = heard + math.sqrt(radio.thermal_w) * thermal[i]
        scale = sum(radio.gain_est[i][j] * amplitude[j] for j in neighbours)
        node.s = air[i] * heard / scale + (1 - air[i]) * sent[i]
    for i, node in enumerate(nodes):
        multiplier = float(count)
        node.x = project(node.s - gamma * multiplier * gradient(i, round, node.s), radius)
        node.pending_gamma, node.pending_multiplier = gamma, multiplier


def balanced_air_weights(gain: FloatArray, amplitude: Sequence[float]) -> list[float]:
    """a_i = kappa p_i, p the stationary distribution of "hear a neighbour by its amplitude", `[K]`.

    Rows of the mixing matrix sum to 1 by construction; with these a_i columns do, too. kappa is as large as leaves
    every node at least 1 / (d_i + 1) of its own. `mixing.balanced_air` is the same on arrays.
    """
    count = len(amplitude)
    share = [[gain[i][j] * amplitude[j] for j in range(count)] for i in range(count)]
    share = [[value / sum(row) for value in row] for row in share]
    p = [1.0 / count] * count
    for _ in range(20_000):  # a lazy walk: it converges on periodic graphs too
        p = [0.5 * p[j] + 0.5 * sum(p[i] * share[i][j] for i in range(count)) for j in range(count)]
    degree = [sum(value > 0 for value in row) for row in share]
    kappa = min(degree[i] / (degree[i] + 1) / p[i] for i in range(count))
    return [kappa * one for one in p]


def project(x: FloatArray, radius: float) -> FloatArray:
    """The nearest point of a ball about 0."""
    length = math.sqrt(sum(value * value for value in x.tolist()))
    return x if length <= radius else x * (radius / length)
