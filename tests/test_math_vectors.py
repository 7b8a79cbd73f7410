"""The worked numbers of the mathematics, to the digits they are given with."""

import math

import numpy as np
import pytest
from conftest import paper_gain

from wirelessdl.gaussian import classic_factor
from wirelessdl.mixing import mixing_matrix, peak_multiplier
from wirelessdl.power import plan_power
from wirelessdl.privacy import subsampled_rdp, total_epsilon

DELTA = 1e-4
PAPER = {"rho": 10.0, "sensitivity": 2.0, "delta": DELTA}


def nu(epsilon):
    return classic_factor(DELTA) / epsilon


@pytest.mark.parametrize(
    ("order", "q", "epsilon", "expected"),
    [(2, 0.0213, 1.0, 9.87770e-5), (32, 0.1067, 1.0, 0.126470), (256, 0.0213, 0.5, 0.0243665)],
)
def test_theorem_9_at_one_order(order, q, epsilon, expected):
    assert subsampled_rdp(order, q, nu(epsilon)) == pytest.approx(expected, rel=5e-6)


@pytest.mark.parametrize(
    ("epsilon", "q", "rounds", "expected"),
    [(1.0, 0.0213, 100, 0.726274), (0.5, 0.1067, 500, 5.39344), (1.0, 0.1067, 1000, 9.72128)],
)
def test_theorem_9_totals(epsilon, q, rounds, expected):
    assert total_epsilon(nu(epsilon), q, rounds, delta=DELTA, accountant="rdp-wang19") == pytest.approx(
        expected, rel=2e-6
    )


def test_composition_without_amplification():
    assert total_epsilon(nu(1.0), 0.1, 10, delta=DELTA, accountant="gdp") == pytest.approx(2.61992, rel=2e-6)


@pytest.mark.parametrize(("nodes", "epsilon", "expected"), [(4, 1.0, 0.199007), (20, 0.5, 0.0154914)])
def test_power_split_of_equal_gains_on_the_full_graph(nodes, epsilon, expected):
    plan = plan_power(np.ones((nodes, nodes)), epsilon_max=epsilon, theta=nodes, **PAPER)
    k = 2 * 2.0**2 * nodes**2 * math.log(1.25 / DELTA) / (epsilon**2 * 10.0**2)
    np.testing.assert_allclose(plan.alpha, (nodes - 1) / (nodes - 1 + k), rtol=1e-9)
    assert plan.alpha[0] == pytest.approx(expected, rel=3e-6)


def test_mixing_of_the_asymmetric_example():
    A = mixing_matrix(paper_gain(), np.ones(4), 1.0)
    np.testing.assert_allclose(A[0], [0.25, 0.345455, 0.25, 0.154545], atol=5e-7)
    assert peak_multiplier(A) == pytest.approx(4.50715, rel=2e-6)


def test_power_split_of_the_asymmetric_example():
    plan = plan_power(paper_gain(), epsilon_max=1.0, theta=4.0, **PAPER)
    assert plan.alpha.sum() == pytest.approx(0.552988, rel=2e-6)


def test_fixed_point_of_the_asymmetric_example():
    plan = plan_power(paper_gain(), epsilon_max=1.0, **PAPER)
    assert plan.theta == pytest.approx(4.30943, rel=2e-6)
    np.testing.assert_allclose(plan.alpha, [0.118155, 0.108770, 0.120067, 0.138684], atol=6e-7)
