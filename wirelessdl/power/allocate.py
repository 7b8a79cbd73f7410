"""Solving the power problem.

    sum         maximise sum alpha (the paper's linear program)
    max-min     maximise the smallest alpha, then the sum
    min-noise   minimise sum 1/alpha, the noise that reaches the models, by tangent cuts
    own-noise   each sender's own noise by itself meets epsilon_max, also against colluding receivers:
                beta_j/alpha_j >= (sens_j theta nu / rho)^2. Closed form, no program to solve

Symbols are those of problem.py. The programs are lifted: one variable s_i per receiver holds the masking that all its
links share, so there are two nonzeros per link instead of d. What the solver returns is clipped, repaired (all
constraints increase in alpha, so a smaller alpha satisfies them) and verified.

Without balancing theta is circular: epsilon needs theta, theta the mixing, mixing alpha. `solve`
iterates to the fixed point, and monotonically where that does not settle.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import scipy

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.errors import InfeasiblePowerError
from wirelessdl.links import Geometry, Links
from wirelessdl.mixing import balancing_amplitudes
from wirelessdl.power.aligned import Aligned
from wirelessdl.power.problem import TOLERANCE, Balance, PowerPlan, PowerProblem

Objective: TypeAlias = Literal["sum", "max-min", "min-noise", "own-noise"]
THETA_TOLERANCE = 1e-9
FIXED_POINT_STEPS = 50
_INTERIOR_POINT_NODES = 300  # nodes from which the interior-point method wins


class PowerAllocator(Protocol):
    """Solves power problems."""

    def allocate(self, problem: PowerProblem, theta: float | None = None) -> PowerPlan:
        """A plan. theta: bound of the multiplier; None in the first call, afterwards that of the first plan."""


class LinearProgram:
    """Linear program (or closed form) of `power.objective`."""

    keeps_epsilon_max = True

    def __init__(self, objective: Objective = "sum"):
        self.objective: Objective = objective

    def allocate(self, problem: PowerProblem, theta: float | None = None) -> PowerPlan:
        return solve(problem, objective=self.objective, theta=theta)


ALLOCATORS = {"lp": LinearProgram, "aligned": Aligned}


def plan_power(
    gain: FloatArray,
    *,
    links: Links | BoolArray | None = None,
    power_w: FloatArray | float = 1.0,
    rho: float,
    sensitivity: FloatArray | float,
    delta: float,
    epsilon_max: float,
    objective: Objective = "sum",
    balance: Balance = False,
    thermal_w: float = 0.0,
    alpha_min: float = 1e-3,
    beta_min: float = 1e-6,
    theta: float | None = None,
) -> PowerPlan:
    """Split every node's power so that no link leaks more than epsilon_max in a slot.

    gain: |h|, dense [rx, tx] or [links]. links: a Links or a dense mask [rx, tx]; by default all positive gains.
    power_w: budget in W, one number or [K]. sensitivity: per unit gamma * multiplier, one number or [K]; 2G for batch
    clipping, 2C/B for per-sample. thermal_w: credited thermal noise over max gamma^2, W. theta: bound of the
    multiplier; by default found by fixed-point iteration.
    """
    gain = np.asarray(gain, dtype=np.float64)
    _require_known("objective", objective, tuple(_OBJECTIVES))
    _require_known("balance", balance, ("receiver", "power", False))
    if not isinstance(links, Links):
        mask = gain > 0 if links is None else np.asarray(links, dtype=bool)
        if gain.ndim != 2 or gain.shape[0] != gain.shape[1] or mask.shape != gain.shape:
            raise ValueError(f"gain has shape {gain.shape}; must be square, [rx, tx], as must a mask of links")
        links = Links.from_mask(mask, Geometry.at_rest(np.zeros((len(mask), 3))))
    vector = links.vector(gain) if gain.ndim == 2 else gain
    if vector.shape != (len(links),) or not np.isfinite(vector).all() or (vector < 0).any():
        raise ValueError(f"gain must be a finite |h| >= 0 for each of {len(links)} links, or dense [rx, tx]")
    _require_positive(rho=rho, epsilon_max=epsilon_max, alpha_min=alpha_min, beta_min=beta_min)
    _require_positive(theta=1.0 if theta is None else theta, power_w=float(np.min(power_w)))
    _require_positive(sensitivity=float(np.min(sensitivity)))
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; must be in (0, 1)")
    if not (thermal_w >= 0 and math.isfinite(thermal_w)):
        raise ValueError(f"thermal_w is {thermal_w}; must be finite and >= 0")
    problem = PowerProblem(
        links=links,
        gain=vector,
        power_w=np.array(np.broadcast_to(np.asarray(power_w, dtype=np.float64), links.nodes)),
        rho=rho,
        sensitivity=sensitivity,
        delta=delta,
        epsilon_max=epsilon_max,
        balance=balance,
        thermal_w=thermal_w,
        alpha_min=alpha_min,
        beta_min=beta_min,
    )
    return solve(problem, objective=objective, theta=theta)


def solve(problem: PowerProblem, *, objective: Objective = "sum", theta: float | None = None) -> PowerPlan:
    """Verified plan of a problem; see `plan_power`."""
    if problem.alpha_min >= 1.0 - problem.beta_min:
        raise InfeasiblePowerError(
            f"alpha_min={problem.alpha_min:g} and beta_min={problem.beta_min:g} leave no room for any split; lower them"
        )
    if not problem.balance and theta is None:
        _require_connected(problem)
    if problem.balance == "power":
        return _power_balanced(problem, objective, theta)
    if not problem.private:
        alpha = np.ones(problem.links.nodes)
        return PowerPlan(problem, alpha, problem.power_w, problem.theta(alpha) if theta is None else theta, 0)
    allocate = _OBJECTIVES[objective]
    if theta is not None or problem.balance:
        bound = float(problem.links.nodes) if theta is None else theta
        return _verified(PowerPlan(problem, allocate(problem, bound), problem.power_w, bound, 1), objective)
    return _verified(_fixed_point(problem, objective), objective)


def hide_unheard(problem: PowerProblem, alpha: FloatArray, theta: float) -> FloatArray:
    """alpha with senders that no receiver hears held to the own-noise bound: no link constrains them. alpha: [K]."""
    if not problem.private:
        return alpha
    unheard = np.bincount(problem.audible.tx, minlength=problem.links.nodes) == 0
    own = np.maximum(1.0 / (1.0 + _own_ratio(problem, theta)), problem.alpha_min)
    return np.where(unheard, np.minimum(alpha, own), alpha)


def _fixed_point(problem: PowerProblem, objective: Objective) -> PowerPlan:
    """theta <- theta(A(alpha(theta))) from K, until it settles or theta covers what its plan needs.

    A step may overshoot to a theta that no split can meet, while a smaller one serves: then halfway back.
    After FIXED_POINT_STEPS theta may only grow.
    """
    allocate = _OBJECTIVES[objective]
    theta, least, ceiling = float(problem.links.nodes), 0.0, math.inf
    for step in range(1, 4 * FIXED_POINT_STEPS + 1):
        try:
            alpha = allocate(problem, theta)
        except InfeasiblePowerError:
            if least == 0.0 or theta - least <= THETA_TOLERANCE * theta:
                raise
            ceiling, theta = theta, (least + theta) / 2
            continue
        found, least = problem.theta(alpha), theta
        covered = found <= theta and (step > FIXED_POINT_STEPS or math.isfinite(ceiling))
        if covered or abs(found - theta) <= THETA_TOLERANCE * theta:
            # shrink onto the larger of the two bounds, so that the target holds at both
            theta = max(theta, found)
            alpha = _repaired(problem, alpha, theta)
            if objective == "own-noise":
                alpha = np.minimum(alpha, allocate(problem, theta))
            return PowerPlan(problem, alpha, problem.power_w, theta, step)
        further = max(theta, found) if step > FIXED_POINT_STEPS or math.isfinite(ceiling) else found
        theta = further if further < ceiling else (theta + ceiling) / 2
    raise InfeasiblePowerError(
        f"no theta settles at epsilon_max={problem.epsilon_max:g} ({theta:.3g} after {step} steps); "
        'use balance = "receiver", or raise epsilon_max'
    )


class _Program:
    """The lifted constraints over [alpha, s], ready for an objective and further variables."""

    def __init__(self, problem: PowerProblem, theta: float, floor: float | None = None):
        problem.require_feasible(theta)
        links, nodes = problem.audible, problem.links.nodes
        own, share = problem.rows(theta)
        samples, count = own.shape
        self.nodes, self.lifted = nodes, samples * nodes
        row = np.arange(samples * count)
        receiver = (np.arange(samples)[:, None] * nodes + links.rx).ravel()
        sender = np.tile(links.tx, samples)
        self.upper = scipy.sparse.hstack(
            [
                scipy.sparse.csr_array((own.ravel(), (row, sender)), shape=(len(row), nodes)),
                scipy.sparse.csr_array((np.ones(len(row)), (row, receiver)), shape=(len(row), self.lifted)),
            ]
        )
        self.equal = scipy.sparse.hstack(
            [
                scipy.sparse.csr_array((share.ravel(), (receiver, sender)), shape=(self.lifted, nodes)),
                -scipy.sparse.eye_array(self.lifted, format="csr"),
            ]
        )
        least = problem.alpha_min if floor is None else floor
        self.bounds: list[tuple[float, float | None]] = [(least, 1.0 - problem.beta_min)] * nodes
        self.bounds += [(0.0, None)] * self.lifted
        self.method = "highs-ipm" if nodes > _INTERIOR_POINT_NODES else "highs"

    def minimise(
        self, cost: FloatArray, extra: int = 0, rows: Any = None, most: FloatArray | None = None
    ) -> FloatArray:
        """Optimal [alpha, s, extra variables]; `rows x <= most` are further constraints."""
        upper, equal = self.upper, self.equal
        limit = np.ones(upper.shape[0])
        if extra:
            upper = scipy.sparse.hstack([upper, scipy.sparse.csr_array((upper.shape[0], extra))])
            equal = scipy.sparse.hstack([equal, scipy.sparse.csr_array((equal.shape[0], extra))])
        if rows is not None and most is not None:
            upper, limit = scipy.sparse.vstack([upper, rows]), np.concatenate([limit, most])
        result = scipy.optimize.linprog(  # type: ignore[call-overload]  # the stubs know no sparse constraints
            cost,
            A_ub=upper,
            b_ub=limit,
            A_eq=equal,
            b_eq=np.zeros(equal.shape[0]),
            bounds=self.bounds + [(0.0, None)] * extra,
            method=self.method,
        )
        if result.x is None:
            raise InfeasiblePowerError(f"the power program has no answer: {result.message}; report this with the gains")
        return np.asarray(result.x)


def allocate_sum(problem: PowerProblem, theta: float, floor: float | None = None) -> FloatArray:
    """The paper's linear program (eq. 9)."""
    program = _Program(problem, theta, floor)
    cost = np.concatenate([-np.ones(program.nodes), np.zeros(program.lifted)])
    return _repaired(problem, program.minimise(cost)[: program.nodes], theta)


def allocate_max_min(problem: PowerProblem, theta: float) -> FloatArray:
    """Maximise the smallest alpha, then the sum of all."""
    program = _Program(problem, theta)
    nodes, width = program.nodes, program.nodes + program.lifted
    cost = np.concatenate([np.zeros(width), [-1.0]])
    below = scipy.sparse.hstack([-scipy.sparse.eye_array(nodes, width), scipy.sparse.csr_array(np.ones((nodes, 1)))])
    worst = float(program.minimise(cost, extra=1, rows=below, most=np.zeros(nodes))[-1])
    return allocate_sum(problem, theta, floor=max(worst * (1 - 1e-9), problem.alpha_min))


def allocate_min_noise(problem: PowerProblem, theta: float) -> FloatArray:
    """min sum u, u_j >= 1/alpha_j by tangents: start from a grid of them, add one at each solution."""
    program = _Program(problem, theta)
    nodes, width = program.nodes, program.nodes + program.lifted
    cost = np.concatenate([np.zeros(width), np.ones(nodes)])
    points = [np.full(nodes, at) for at in np.geomspace(problem.alpha_min, 1.0, 12)]
    for _ in range(60):
        # u >= 2/a - alpha/a^2, divided by 2/a: rows of order one at any a
        node, at = np.tile(np.arange(nodes), len(points)), np.concatenate(points)
        row = np.arange(len(at))
        shape = (len(at), width + nodes)
        rows = -scipy.sparse.csr_array((0.5 / at, (row, node)), shape=shape) - scipy.sparse.csr_array(
            (at / 2, (row, width + node)), shape=shape
        )
        answer = program.minimise(cost, extra=nodes, rows=rows, most=-np.ones(len(at)))
        alpha, lower = answer[:nodes], answer[width:].sum()
        if np.sum(1.0 / alpha) - lower <= 1e-7 * lower:  # the solver's own tolerance
            break
        points.append(alpha)
    return _repaired(problem, alpha, theta)


def allocate_own_noise(problem: PowerProblem, theta: float) -> FloatArray:
    """Closed form: each sender is masked by its own noise, so collusion of receivers gains nothing."""
    alpha = 1.0 / (1.0 + _own_ratio(problem, theta))
    problem.require_shares(alpha, f"own noise at theta={theta:.3g}")
    return np.minimum(alpha, 1.0 - problem.beta_min)


def _own_ratio(problem: PowerProblem, theta: float) -> FloatArray:
    """beta / alpha at which each sender's own noise meets the target, `[K]`."""
    return np.asarray((problem.step(theta) / (problem.rho * problem.target_mu)) ** 2)


_OBJECTIVES: dict[Objective, Callable[[PowerProblem, float], FloatArray]] = {
    "sum": allocate_sum,
    "max-min": allocate_max_min,
    "min-noise": allocate_min_noise,
    "own-noise": allocate_own_noise,
}


def _power_balanced(problem: PowerProblem, objective: Objective, theta: float | None) -> PowerPlan:
    """Amplitudes from balancing plus the least noise that meets the target; where none balance, receiver balancing."""
    amplitude, reason = balancing_amplitudes(problem.links, problem.gain)
    if amplitude is None:
        plan = solve(replace(problem, balance="receiver"), objective=objective, theta=theta)
        return replace(plan, notes=(f"balance by receivers instead of power: {reason}",))
    theta, model_w = float(problem.links.nodes) if theta is None else theta, amplitude**2
    noise_w = np.zeros(len(model_w)) if not problem.private else _least_noise(problem, objective, model_w, theta)
    total_w = model_w + noise_w
    total_w *= (problem.power_w / total_w).min()
    alpha = model_w / (model_w + noise_w)
    plan = PowerPlan(problem, alpha, total_w, theta, 1)
    if not problem.private:
        return plan
    problem.require_shares(alpha, "power balancing")
    return _verified(plan, objective)


def _least_noise(problem: PowerProblem, objective: Objective, model_w: FloatArray, theta: float) -> FloatArray:
    """n: min sum n_k / w_k^2 with sum_k g_ik^2 n_k >= max_j (sens_j theta nu / rho)^2 g_ij^2 w_j^2 at every i."""
    links, ratio = problem.audible, _own_ratio(problem, theta)
    floor = model_w * problem.beta_min / (1.0 - problem.beta_min)
    if objective == "own-noise":
        return np.maximum(ratio * model_w, floor)
    blocks, needs = [], []
    for gain in problem.gains:
        loudest = np.zeros(links.nodes)
        np.maximum.at(loudest, links.rx, ratio[links.tx] * (gain**2 * model_w[links.tx]))
        need = loudest - problem.thermal_w / problem.rho**2
        wanted = need > 0
        # in units of each sender's own model power, and of each receiver's need: rows of order one
        share = gain**2 * model_w[links.tx] / np.where(wanted, need, 1.0)[links.rx]
        blocks.append(scipy.sparse.csr_array((share, (links.rx, links.tx)), shape=(links.nodes, links.nodes))[wanted])
        needs.append(np.ones(int(wanted.sum())))
    result = scipy.optimize.linprog(  # type: ignore[call-overload]  # the stubs know no sparse constraints
        np.ones(links.nodes),
        A_ub=-scipy.sparse.vstack(blocks),
        b_ub=-np.concatenate(needs),
        bounds=[(low, None) for low in floor / model_w],
        method="highs-ipm" if links.nodes > _INTERIOR_POINT_NODES else "highs",
    )
    noise = np.maximum(result.x, floor / model_w)
    short = min((float((block @ noise).min(initial=math.inf)) for block in blocks), default=math.inf)
    return np.asarray(noise * model_w / min(1.0, short))


def _repaired(problem: PowerProblem, alpha: FloatArray, theta: float) -> FloatArray:
    """Clipped into its bounds and shrunk until every row holds."""
    alpha = np.clip(alpha, problem.alpha_min, 1.0 - problem.beta_min)
    excess = float(problem.load(alpha, theta).max(initial=0.0))
    return hide_unheard(problem, np.maximum(alpha / max(1.0, excess), problem.alpha_min), theta)


def _verified(plan: PowerPlan, objective: Objective) -> PowerPlan:
    """The plan, after checking that every link, or every sender by its own noise, meets the target at its theta."""
    problem = plan.problem
    plan.require_target()
    if objective == "own-noise" and not plan.epsilon_own.max() <= problem.epsilon_max * (1.0 + TOLERANCE):
        node = int(np.argmax(np.where(np.isnan(plan.epsilon_own), math.inf, plan.epsilon_own)))
        raise InfeasiblePowerError(
            f"node {node} leaks {plan.epsilon_own[node]:.6g} by its own noise alone, more than "
            f"epsilon_max={problem.epsilon_max:g}; raise epsilon_max or rho, or lower alpha_min"
        )
    return plan


def _require_connected(problem: PowerProblem) -> None:
    """Raise, naming a node, where the graph is not strongly connected: without balancing there is no theta then."""
    audible = problem.links.where(problem.gain > 0)
    label = audible.component
    if label.max() > 0:
        node = int(np.flatnonzero(label == np.argmin(np.bincount(label)))[0])
        raise InfeasiblePowerError(
            f"node {node} does not reach every other node, or is not reached: without balancing there is no theta; "
            'give it links with a gain, or use balance = "receiver"'
        )


def _require_known(name: str, value: object, known: tuple[object, ...]) -> None:
    if not any(value is one or (isinstance(value, str) and value == one) for one in known):
        raise ValueError(f"{name} is {value!r}; must be one of {', '.join(map(repr, known))}")


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}; must be > 0")
