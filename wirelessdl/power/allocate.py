"""Solving the power problem: the paper's linear program and a collusion-proof closed form.

`sum`: maximise sum alpha. One variable s_i per receiver carries the masking all its links share, so
the program has two nonzeros per link instead of d. Whatever the solver returns is clipped, repaired
(all constraints are increasing in alpha, so shrinking alpha repairs them) and verified.

`own-noise`: each sender's own noise alone meets epsilon_max, whoever listens or colludes:
beta/alpha >= (sens theta nu / rho)^2 with the slot's nu. No program to solve.

Without balancing theta is circular: epsilon needs theta, theta the mixing, mixing alpha. `plan_power`
iterates to the fixed point, and monotonically where that does not settle.
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack

from wirelessdl.arrays import FloatArray
from wirelessdl.errors import InfeasiblePowerError
from wirelessdl.gaussian import slot_epsilon, slot_mu
from wirelessdl.links import Links
from wirelessdl.power.problem import TOLERANCE, PowerPlan, PowerProblem

Objective = Literal["sum", "own-noise"]
SETTLED = 1e-9
STEPS = 50


def plan_power(
    gain: FloatArray,
    *,
    links: Links | None = None,
    power_w: FloatArray | float = 1.0,
    rho: float,
    sensitivity: float,
    delta: float,
    epsilon_max: float,
    objective: Objective = "sum",
    balance: Literal["receiver", False] = False,
    thermal_w: float = 0.0,
    alpha_min: float = 1e-3,
    beta_min: float = 1e-6,
    theta: float | None = None,
) -> PowerPlan:
    """Split every node's power so that no link leaks more than epsilon_max in a slot.

    gain: |h| as dense [rx, tx], or one value per link of `links`. sensitivity: per unit
    gamma * multiplier, 2G for batch clipping, 2C/B for per-sample. thermal_w: credited thermal noise
    over max gamma^2. theta: bound of the multiplier; found by fixed point unless given.
    """
    gain = np.asarray(gain, dtype=np.float64)
    if links is None:
        links = Links.from_gain(gain)
    problem = PowerProblem(
        links=links,
        gain=links.vector(gain) if gain.ndim == 2 else gain,
        power_w=np.array(np.broadcast_to(np.asarray(power_w, dtype=np.float64), links.nodes)),
        rho=rho,
        sensitivity=sensitivity,
        delta=delta,
        epsilon_max=epsilon_max,
        balance=balance == "receiver",
        thermal_w=thermal_w,
        alpha_min=alpha_min,
        beta_min=beta_min,
    )
    return solve(problem, objective=objective, theta=theta)


class LinearProgram:
    """Linear program (or closed form) of `power.objective`."""

    def __init__(self, objective: Objective = "sum"):
        self.objective: Objective = objective

    def allocate(self, problem: PowerProblem, theta: float | None = None) -> PowerPlan:
        return solve(problem, objective=self.objective, theta=theta)


ALLOCATORS = {"lp": LinearProgram}


def solve(problem: PowerProblem, *, objective: Objective = "sum", theta: float | None = None) -> PowerPlan:
    """Verified plan of a problem; see `plan_power`."""
    if not problem.private:
        alpha = np.ones(problem.links.nodes)
        return PowerPlan(problem, alpha, problem.theta(alpha) if theta is None else theta, iterations=0)
    allocate = _ALLOCATORS[objective]
    if theta is not None or problem.balance:
        bound = float(problem.links.nodes) if theta is None else theta
        return _verified(PowerPlan(problem, allocate(problem, bound), bound, iterations=1))
    return _verified(_fixed_point(problem, allocate))


def _fixed_point(problem: PowerProblem, allocate: Callable[[PowerProblem, float], FloatArray]) -> PowerPlan:
    """theta <- theta(A(alpha(theta))) from K; after STEPS unsettled steps theta may only grow."""
    theta = float(problem.links.nodes)
    for step in range(1, 4 * STEPS + 1):
        alpha = allocate(problem, theta)
        found = problem.theta(alpha)
        if abs(found - theta) <= SETTLED * theta or (step > STEPS and found <= theta):
            break
        theta = max(theta, found) if step > STEPS else found
    # shrink onto the larger of the two bounds, so that the promise covers both
    theta = max(theta, found)
    return PowerPlan(problem, _repaired(problem, alpha, theta), theta, iterations=step)


def allocate_sum(problem: PowerProblem, theta: float) -> FloatArray:
    """The paper's LP (eq. 8), maximising sum alpha, in lifted sparse form."""
    problem.require_feasible(theta)
    links, nodes = problem.links, problem.links.nodes
    own, share = problem.rows(theta)
    row = np.arange(len(links))
    per_link = hstack(
        [
            csr_array((own, (row, links.tx)), shape=(len(links), nodes)),
            csr_array((np.ones(len(links)), (row, links.rx)), shape=(len(links), nodes)),
        ]
    )
    per_receiver = hstack([csr_array((share, (links.rx, links.tx)), shape=(nodes, nodes)), -csr_array(np.eye(nodes))])
    result = linprog(  # type: ignore[call-overload]  # the stubs know no sparse constraints
        np.concatenate([-np.ones(nodes), np.zeros(nodes)]),
        A_ub=per_link,
        b_ub=np.ones(len(links)),
        A_eq=per_receiver,
        b_eq=np.zeros(nodes),
        bounds=[(problem.alpha_min, 1.0 - problem.beta_min)] * nodes + [(0.0, None)] * nodes,
        method="highs",
    )
    if result.x is None:
        raise InfeasiblePowerError(
            f"the power program has no answer at epsilon_max={problem.epsilon_max:g}: {result.message}"
        )
    return _repaired(problem, result.x[:nodes], theta)


def allocate_own_noise(problem: PowerProblem, theta: float) -> FloatArray:
    """Closed form: each sender hides behind its own noise, so collusion gains nothing."""
    ratio = (problem.sensitivity * theta / (problem.rho * slot_mu(problem.epsilon_max, problem.delta))) ** 2
    alpha = 1.0 / (1.0 + ratio)
    if alpha < problem.alpha_min:
        raise InfeasiblePowerError(
            f"own noise cannot meet epsilon_max={problem.epsilon_max:g}: alpha would be {alpha:.3g}, below "
            f"alpha_min={problem.alpha_min:g} (theta={theta:.3g}); raise epsilon_max or rho, or lower alpha_min"
        )
    return np.full(problem.links.nodes, min(alpha, 1.0 - problem.beta_min))


_ALLOCATORS: dict[Objective, Callable[[PowerProblem, float], FloatArray]] = {
    "sum": allocate_sum,
    "own-noise": allocate_own_noise,
}


def _repaired(problem: PowerProblem, alpha: FloatArray, theta: float) -> FloatArray:
    """Clipped into its bounds and shrunk until every row holds."""
    alpha = np.clip(alpha, problem.alpha_min, 1.0 - problem.beta_min)
    excess = float(problem.load(alpha, theta).max(initial=0.0))
    return np.maximum(alpha / max(1.0, excess), problem.alpha_min)


def _verified(plan: PowerPlan) -> PowerPlan:
    """The plan, once every link is seen to keep the promise at the plan's theta."""
    problem = plan.problem
    leak = slot_epsilon(problem.mu(plan.alpha, plan.theta), problem.delta)
    if len(leak) and not leak.max() <= problem.epsilon_max * (1.0 + TOLERANCE):
        worst = int(np.argmax(np.where(np.isnan(leak), math.inf, leak)))
        raise InfeasiblePowerError(
            f"node {problem.links.tx[worst]} leaks {leak[worst]:.6g} to node {problem.links.rx[worst]}, more than "
            f"epsilon_max={problem.epsilon_max:g}; raise epsilon_max or rho, or lower alpha_min"
        )
    return plan
