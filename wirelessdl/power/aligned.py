"""Aligned power control: every sender arrives with the same amplitude (PED2FL, to which the paper compares itself).

    alpha_j = (c / h_j)^2 / P_j,   beta_j = 1 - alpha_j,   c = kappa min_j h_j sqrt(P_j)

so that h_j sqrt(alpha_j P_j) = c for all j, and a receiver of d senders averages with 1 / (d + 1): 1/K if all hear all.

    h_j     amplitude gain |h| from sender j, the same at all of its receivers; P_j: its power budget, W
    kappa   1: the weakest sender spends all its power on its model, and sends no noise of its own

With a number for kappa, links leak what the channel makes of it, whatever epsilon_max is. With "auto", mu of a link is

    mu_ij = sens_j theta c / (rho sqrt(S_i - d_i c^2)),   S_i = sum of h_k^2 P_k over the senders that i hears

(credited thermal noise adds to the root) and c is the largest with which no link exceeds epsilon_max. Where that is
more than kappa = 1 allows, c stays there and rho is lowered, until the largest mu is the target again. A plan cannot
change rho, which is the scenario's; it radiates less noise, and that is the same on air: noise of power
(P_j - m_j) (rho'/rho)^2 beside a model of power m_j = alpha_j P_j. PowerPlan.power_w is then below the budget.

Left open by the paper, and decided here: c comes from the weakest sender at full power, for all receivers alike; there
is no multiplier unless the scenario sets one. On graphs that are neither full nor regular the average is not doubly
stochastic, and models agree on a mean in which nodes do not count alike.
S. Chen et al., Privacy-Enhanced Decentralized Federated Learning at Dynamic Edge, IEEE Trans. Computers 72 (8), 2023.
"""

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Interval

from wirelessdl.arrays import FloatArray
from wirelessdl.errors import InfeasiblePowerError
from wirelessdl.power.problem import PowerPlan, PowerProblem

_GAIN_TOLERANCE = 1e-9  # relative difference up to which gains of one sender are the same


class Aligned:
    """Every sender arrives with the same amplitude, kappa times the most that the weakest can; auto: by epsilon_max."""

    def __init__(self, kappa: Literal["auto"] | Annotated[float, Interval(gt=0, le=1)] = 1.0):
        self.kappa = kappa

    @property
    def keeps_epsilon_max(self) -> bool:
        return self.kappa == "auto"

    def allocate(self, problem: PowerProblem, theta: float | None = None) -> PowerPlan:
        arriving = sender_gain(problem) * np.sqrt(problem.power_w)  # amplitude of each sender at full power, [K]
        most = float(arriving.min())
        bound = problem.theta((most / arriving) ** 2) if theta is None else theta
        notes: tuple[str, ...] = ()
        if not problem.private:
            level, noise = most, 0.0
        elif self.kappa == "auto":
            level = min(most, _largest_level(problem, bound))
            noise = 1.0 if level < most else min(1.0, _least_noise(problem, bound, level))
            if noise < 1.0:
                notes = (f"kappa is 1 and noise as for rho = {problem.rho * np.sqrt(noise):.4g}: more is not needed",)
        else:
            level, noise = self.kappa * most, 1.0
        model_w = np.minimum((level / arriving) ** 2, 1.0) * problem.power_w
        total_w = model_w + noise * (problem.power_w - model_w)
        plan = PowerPlan(problem, np.minimum(model_w / total_w, 1.0), total_w, bound, 1, notes)
        if not problem.private:
            return plan
        if self.kappa == "auto":
            problem.require_shares(plan.alpha, "aligned senders")
            plan.require_target()
            return plan
        leak = float(plan.link_epsilon.max())
        note = f'kappa = {self.kappa:g} leaks {leak:.4g} on the worst link, whatever epsilon_max is; "auto" meets it'
        return replace(plan, notes=(note,))


def sender_gain(problem: PowerProblem) -> FloatArray:
    """|h| of every sender, `[K]`, the same at all receivers and in all realisations; refuses gains that differ."""
    links = problem.audible
    low, high = np.full(links.nodes, np.inf), np.zeros(links.nodes)
    for gain in problem.gains:
        np.minimum.at(low, links.tx, gain)
        np.maximum.at(high, links.tx, gain)
    if not (heard := high > 0).all():
        raise InfeasiblePowerError(
            f"node {int(np.argmin(heard))} is heard by nobody; aligned senders need a gain each: give it links, or use "
            'allocator = "lp"'
        )
    apart = high - low > _GAIN_TOLERANCE * high
    if apart.any():
        node = int(np.argmax(apart))
        raise InfeasiblePowerError(
            f"node {node} is heard with gains from {low[node]:.4g} to {high[node]:.4g}; aligned senders have one gain "
            'at all receivers, as the channel { model = "uniform", per = "sender" } has: use that, or allocator = "lp"'
        )
    return high


def _largest_level(problem: PowerProblem, theta: float) -> float:
    """Largest c with which every link meets the target, whether senders can reach it or not."""
    links, rho = problem.audible, problem.rho
    masking = problem.masking(problem.power_w)[:, links.rx] + problem.thermal_w / rho**2
    step = (problem.step(theta) / (problem.target_mu * rho))[links.tx]
    return float(np.sqrt(np.min(masking / (step**2 + links.degree[links.rx]))))


def _least_noise(problem: PowerProblem, theta: float, level: float) -> float:
    """Smallest (rho' / rho)^2 with which every link meets the target at c = level."""
    links, rho = problem.audible, problem.rho
    left = problem.masking(problem.power_w)[:, links.rx] - links.degree[links.rx] * level**2
    needed = (problem.step(theta) * level / problem.target_mu)[links.tx] ** 2 - problem.thermal_w
    return float(np.max(np.maximum(needed, 0.0) / (rho**2 * left)))
