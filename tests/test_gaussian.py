"""The Gaussian mechanism against numerical integration and against itself."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from wirelessdl.gaussian import (
    analytic_epsilon,
    analytic_mu,
    classic_factor,
    exact_slot_epsilon,
    log_delta,
    slot_epsilon,
    slot_mu,
)


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


@pytest.mark.parametrize("mu", [0.05, 0.2, 0.23, 0.3, 0.7, 3.0, math.inf])
def test_a_slots_epsilon_is_exact_below_one_and_from_one_on_never_below_exact(mu):
    exact, slot = analytic_epsilon(mu, 1e-4), float(slot_epsilon(np.array([mu]), 1e-4)[0])
    if slot < 1.0:
        assert exact_slot_epsilon(slot, 1e-4) == pytest.approx(exact, rel=1e-9)
    else:
        assert exact_slot_epsilon(slot, 1e-4) == slot >= exact


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


@pytest.mark.parametrize("delta", [1e-4, 0.1])
def test_epsilon_is_zero_just_as_long_as_delta_covers_the_whole_distance(delta):
    """delta(0) = 2 Phi(mu/2) - 1."""
    edge = 2 * norm.ppf((1 + delta) / 2)
    below, above = analytic_epsilon(np.array([0.999, 1.001]) * edge, delta)
    assert below == 0.0
    assert 0 < above < 1e-2
    assert hockey_stick(above, 1.001 * edge) == pytest.approx(delta, rel=1e-6)


def test_many_releases_are_solved_as_well_as_one():
    """Newton goes on until the last of them has converged; in double precision, whatever it is given."""
    mu = np.geomspace(1e-7, 1e3, 61)
    together = analytic_epsilon(mu, 1e-6)
    np.testing.assert_allclose(together, [analytic_epsilon(float(one), 1e-6) for one in mu], rtol=1e-9, atol=1e-14)
    live = together > 0
    assert 0 < live.sum() < len(mu)
    np.testing.assert_allclose(log_delta(together[live], mu[live]), math.log(1e-6), rtol=1e-9)
    single = np.array([0.3, 3.0], dtype=np.float32)
    np.testing.assert_array_equal(analytic_epsilon(single, 1e-6), analytic_epsilon(single.astype(np.float64), 1e-6))


def test_one_release_gives_a_number_and_many_give_an_array():
    assert type(analytic_epsilon(1.0, 1e-5)) is float
    mixed = analytic_epsilon(np.array([0.0, 1.0, np.inf]), 1e-5)
    np.testing.assert_array_equal(mixed, [0.0, analytic_epsilon(1.0, 1e-5), np.inf])


def test_two_equal_laws_are_told_apart_by_next_to_nothing():
    assert -1000 < log_delta(np.array([0.0]), np.array([1e-20]))[0] < -500


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1e-14, 1e-15), (1e-14, 2e-13), (1e-6, 1e-12), (1e-3, 0.3), (1.0, 1e-5), (1e4, 1e-8), (1e-3, 0.9999)],
)
def test_mu_is_found_however_small_or_large_epsilon_is(epsilon, delta):
    found = float(log_delta(np.array(epsilon), np.array(analytic_mu(epsilon, delta))))
    # delta is a difference of numbers near 1/2, so it is good to some 1e-16
    assert found == pytest.approx(math.log(delta), rel=1e-9, abs=3e-16 / delta)


def test_the_smallest_and_the_largest_epsilons_have_a_mu():
    assert analytic_mu(0.0, 0.1) == pytest.approx(2 * norm.ppf(0.55), rel=1e-12)  # delta alone covers the distance
    assert analytic_mu(1e300, 1e-4) == analytic_mu(1e18, 1e-4) == pytest.approx(2e18**0.5, rel=1e-6)
    assert analytic_mu(math.inf, 1e-4) == math.inf
    assert slot_mu(math.inf, 1e-4) == math.inf


def test_a_slot_is_classic_up_to_one_and_uses_its_epsilon_up_beyond():
    factor = math.sqrt(2 * math.log(1.25 / 1e-4))
    assert slot_mu(1.0, 1e-4) == 1.0 / factor
    assert slot_mu(0.5, 1e-4) == 0.5 / factor
    for epsilon in (1.001, 1.5, 8.0):
        assert slot_epsilon(np.array([slot_mu(epsilon, 1e-4)]), 1e-4)[0] == pytest.approx(epsilon, rel=1e-9)
    np.testing.assert_allclose(slot_epsilon(np.array([0.1, 0.2]), 1e-4), [0.1 * factor, 0.2 * factor], rtol=1e-15)
    np.testing.assert_array_equal(slot_epsilon(np.array([1.0001 / factor]), 1e-4), [1.0])  # classic is proven up to 1
