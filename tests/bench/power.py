"""What a power plan costs: the lifted program against dense rows, and plans as networks grow."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import linprog

from bench.suites import Contest
from wirelessdl.arrays import FloatArray
from wirelessdl.links import Links
from wirelessdl.power import PowerPlan, plan_power
from wirelessdl.power.problem import PowerProblem

_PROMISE: dict[str, Any] = {"rho": 10.0, "sensitivity": 2 / 64, "delta": 1e-4, "epsilon_max": 1.0}


def contests() -> Iterator[Contest]:
    yield _lifted_against_dense(199, 5.0)
    yield _lifted_against_dense(40, None)
    small, large = random_gain(20, 8), random_gain(1000, 40)
    yield Contest(
        "re-plan with receiver balancing, K=20, against 10 ms",
        ours=lambda: balanced_plan(small),
        other=lambda: time.sleep(0.010),
        at_most=1.0,
        repeats=31,
    )
    yield Contest(
        "plan with receiver balancing, K=1000, mean degree 40, against 30 s",
        ours=lambda: balanced_plan(large),
        other=lambda: time.sleep(30.0),
        at_most=1.0,
        repeats=1,
    )


def _lifted_against_dense(degree: int, target: float | None) -> Contest:
    gain = random_gain(200, degree)
    return Contest(
        f"LP, K=200, degree {degree}: lifted against one dense row per link",
        ours=lambda: plan_power(gain, theta=200.0, **_PROMISE),
        other=lambda: dense_program(gain, theta=200.0),
        at_least=target,
        repeats=3,
    )


def balanced_plan(gain: FloatArray) -> PowerPlan:
    plan = plan_power(gain, balance="receiver", **_PROMISE)
    _ = plan.weights
    return plan


def random_gain(nodes: int, degree: int) -> FloatArray:
    """Fading gains on a random graph that a cycle keeps connected."""
    rng = np.random.default_rng(0)
    mask = rng.random((nodes, nodes)) < degree / nodes
    mask |= np.roll(np.eye(nodes, dtype=bool), 1, axis=1)
    np.fill_diagonal(mask, False)
    return np.asarray(np.where(mask, 1e-5 * rng.rayleigh(size=(nodes, nodes)), 0.0))


def dense_program(gain: FloatArray, theta: float) -> FloatArray:
    """The program as the paper writes it: a row over all alpha for every link, scaled like ours."""
    links = Links.from_gain(gain)
    problem = PowerProblem(links=links, gain=links.vector(gain), power_w=np.ones(links.nodes), **_PROMISE)
    own, share = problem.rows(theta)
    rows = np.zeros((links.nodes, links.nodes))
    rows[links.rx, links.tx] = share[0]
    dense = rows[links.rx]
    dense[np.arange(len(links)), links.tx] += own[0]
    limits = [(problem.alpha_min, 1.0 - problem.beta_min)] * links.nodes
    result = linprog(-np.ones(links.nodes), A_ub=dense, b_ub=np.ones(len(links)), bounds=limits, method="highs")
    return np.asarray(result.x)
