"""Every plan keeps its promise, at any scale of gains."""

import numpy as np
import pytest
from conftest import paper_gain
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from wirelessdl.errors import InfeasiblePowerError
from wirelessdl.gaussian import classic_factor
from wirelessdl.power import plan_power

PAPER = {"rho": 10.0, "sensitivity": 2.0, "delta": 1e-4}


def random_gain(seed, nodes, density=0.5, spread=3.0):
    rng = np.random.default_rng(seed)
    mask = rng.random((nodes, nodes)) < density
    mask |= np.roll(np.eye(nodes, dtype=bool), 1, axis=1)
    gain = np.where(mask, 10 ** rng.uniform(-spread, 0, (nodes, nodes)), 0.0)
    np.fill_diagonal(gain, 0.0)
    return gain


def dense_lp(gain, theta, epsilon_max, *, rho, sensitivity, delta):
    """The program as the paper writes it: one dense row per link, no lifting."""
    nodes, rows, bounds = len(gain), [], []
    for i in range(nodes):
        heard = np.flatnonzero(gain[i])
        masking = epsilon_max**2 * rho**2 * gain[i] ** 2
        for j in heard:
            row = masking.copy()
            row[j] += sensitivity**2 * theta**2 * classic_factor(delta) ** 2 * gain[i, j] ** 2
            rows.append(row / masking.sum())
            bounds.append(1.0)
    answer = linprog(-np.ones(nodes), A_ub=np.array(rows), b_ub=bounds, bounds=[(1e-9, 1 - 1e-6)] * nodes)
    return answer.x


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_lifted_program_reaches_the_dense_optimum(seed, nodes):
    gain = random_gain(seed, nodes, spread=1.0)
    plan = plan_power(gain, epsilon_max=1.0, theta=nodes, alpha_min=1e-9, **PAPER)
    assert plan.alpha.sum() == pytest.approx(dense_lp(gain, nodes, 1.0, **PAPER).sum(), rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 9),
    st.sampled_from([0.3, 1.0, 4.0]),
    st.sampled_from(["sum", "own-noise"]),
    st.sampled_from(["receiver", False]),
)
def test_no_link_leaks_more_than_promised(seed, nodes, epsilon_max, objective, balance):
    gain = random_gain(seed, nodes)
    plan = plan_power(
        gain,
        epsilon_max=epsilon_max,
        objective=objective,
        balance=balance,
        alpha_min=1e-9,
        rho=10.0,
        sensitivity=2 / 64,
        delta=1e-4,
    )
    assert np.nanmax(plan.epsilon) <= epsilon_max * (1 + 1e-9)
    assert np.isnan(plan.epsilon[gain == 0]).all()
    assert plan.theta >= plan.multiplier.max() * (1 - 1e-9)
    np.testing.assert_allclose(plan.alpha + plan.beta, 1.0)
    if objective == "own-noise":
        assert plan.epsilon_own.max() <= epsilon_max * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_gains_may_be_of_any_size(scale):
    reference = plan_power(paper_gain(), epsilon_max=1.0, **PAPER)
    scaled = plan_power(scale * paper_gain(), epsilon_max=1.0, **PAPER)
    np.testing.assert_allclose(scaled.alpha, reference.alpha, rtol=1e-6)


def test_no_privacy_sends_only_the_model():
    plan = plan_power(paper_gain(), epsilon_max=np.inf, **PAPER)
    np.testing.assert_array_equal(plan.alpha, 1.0)
    assert np.isinf(plan.epsilon[paper_gain() > 0]).all()


def test_balancing_needs_theta_k_only():
    plan = plan_power(paper_gain(), epsilon_max=1.0, balance="receiver", **PAPER)
    assert plan.theta == 4.0
    assert plan.iterations == 1


@pytest.mark.parametrize("objective", ["sum", "own-noise"])
def test_impossible_promise_names_what_is_needed(objective):
    with pytest.raises(InfeasiblePowerError, match=r"epsilon_max=0.001.*raise epsilon_max or rho, or lower alpha_min"):
        plan_power(paper_gain(), epsilon_max=1e-3, objective=objective, **PAPER)
