"""The Gaussian mechanism against numerical integration and against itself."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from wirelessdl.gaussian import analytic_epsilon, analytic_mu, classic_factor, slot_epsilon, slot_mu


def hockey_stick(epsilon, mu):
    """delta(eps) by definition: integral of the positive part of p - e^eps q."""
    start = epsilon / mu + mu / 2  # where p = e^eps q for N(mu, 1) against N(0, 1)
    return quad(lambda x: norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x), start, mu + 12, epsabs=1e-14)[0]


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-4, 1e-6])
def test_analytic_epsilon_solves_the_definition(mu, delta):
    epsilon = analytic_epsilon(mu, delta)
    assert hockey_stick(epsilon, mu) == pytest.approx(delta, rel=1e-6, abs=1e-12)


def test_classic_one_is_really_less():
    assert analytic_epsilon(1 / classic_factor(1e-4), 1e-4) == pytest.approx(0.7048, abs=5e-5)


@given(st.floats(1e-2, 50.0), st.sampled_from([1e-3, 1e-5, 1e-8]))
def test_mu_and_epsilon_invert_each_other(mu, delta):
    epsilon = analytic_epsilon(mu, delta)
    if epsilon > 1e-6:
        assert analytic_mu(epsilon, delta) == pytest.approx(mu, rel=1e-8)


def test_edges_of_analytic_epsilon():
    np.testing.assert_array_equal(analytic_epsilon(np.array([0.0, 1e-7, np.inf]), 1e-4), [0.0, 0.0, np.inf])
    assert np.isfinite(analytic_epsilon(np.array([1e3]), 1e-10)).all()


@given(st.floats(1e-3, 100.0))
def test_slot_epsilon_keeps_what_slot_mu_promises(epsilon_max):
    mu = slot_mu(epsilon_max, 1e-4)
    assert slot_epsilon(np.array([mu]), 1e-4)[0] <= epsilon_max * (1 + 1e-9)


def test_slot_epsilon_rises_with_mu_through_the_change_of_formula():
    mu = np.geomspace(1e-3, 1e2, 2000)
    epsilon = slot_epsilon(mu, 1e-4)
    assert (np.diff(epsilon) >= 0).all()
    assert (epsilon >= analytic_epsilon(mu, 1e-4) * (1 - 1e-12)).all()  # rounding of the root
