"""Passes over the air apply the polynomial they promise, keep the mean, and do not blow up noise."""

import numpy as np
import pytest
from numpy.polynomial import chebyshev as cheb

from wirelessdl.chebyshev import chebyshev, fitted, most_lambda, plain, response
from wirelessdl.mixing import balanced_mixing


def random_mixing(seed, nodes=7):
    """Doubly stochastic weights of a directed graph with uneven gains: not symmetric, complex eigenvalues."""
    rng = np.random.default_rng(seed)
    gain = np.where(rng.random((nodes, nodes)) < 0.5, 10 ** rng.uniform(-1, 0, (nodes, nodes)), 0.0)
    gain += np.roll(np.eye(nodes), 1, axis=1)
    np.fill_diagonal(gain, 0.0)
    return balanced_mixing(gain, np.ones(nodes), 1.0)


def slow_twin(passes, matrices, start, receiver):
    """The recurrence as the nodes run it, with receiver noise [M, K, ...] in every pass."""
    earlier, now = None, start
    for k, matrix in enumerate(matrices):
        heard = matrix @ now + receiver[k]
        new = passes.heard[k] * heard
        if k:
            new = new + passes.before[k] * earlier
        earlier, now = now, new
    return now


def explicit(matrix, passes, end):
    """T_M(A/end) / T_M(1/end) from the coefficients of T_M in powers, by Horner's rule."""
    power = cheb.cheb2poly([0] * passes + [1])
    result = np.zeros_like(matrix)
    for coefficient in power[::-1]:
        result = result @ (matrix / end) + coefficient * np.eye(len(matrix))
    return result / np.polynomial.polynomial.polyval(1 / end, power)


@pytest.mark.parametrize("passes", [2, 3, 6, 9])
@pytest.mark.parametrize("end", [0.4, 0.25])
def test_passes_apply_the_polynomial_with_value_one_at_one(passes, end):
    expected = explicit(random_mixing(1), passes, end)
    made = chebyshev(passes, end)
    assert made.factor(np.array([1.0]))[0] == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(response(made, random_mixing(1)).mixing, expected, atol=1e-10)


@pytest.mark.parametrize("made", [plain(5), chebyshev(5, 0.9)])
def test_the_response_is_that_of_the_recurrence_with_fresh_gains_in_every_pass(made):
    matrices, nodes = [random_mixing(seed) for seed in range(5)], 7
    found = response(made, matrices)
    silence = np.zeros((5, nodes, nodes))
    np.testing.assert_allclose(found.mixing, slow_twin(made, matrices, np.eye(nodes), silence), atol=1e-12)
    for k in range(5):
        receiver = silence.copy()
        receiver[k] = np.eye(nodes)
        only = slow_twin(made, matrices, np.zeros((nodes, nodes)), receiver)
        np.testing.assert_allclose(found.noise[k], only, atol=1e-12)


def test_rows_and_columns_sum_to_one_with_fresh_gains():
    found = response(chebyshev(6, 0.9), [random_mixing(seed) for seed in range(6)])
    np.testing.assert_allclose(found.mixing.sum(axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(found.mixing.sum(axis=1), 1.0, atol=1e-12)


def test_predicted_variances_are_those_of_sampled_receiver_noise():
    samples, made, rng = 20_000, chebyshev(4, 0.85), np.random.default_rng(3)
    matrices = [weights / weights.sum(axis=1, keepdims=True) for weights in rng.random((4, 7, 7)) ** 4]
    receiver = rng.uniform(0.5, 2.0, (4, 7))
    drawn = rng.standard_normal((4, 7, samples)) * np.sqrt(receiver)[:, :, None]
    left = slow_twin(made, matrices, np.zeros((7, samples)), drawn)
    found = response(made, matrices)
    error = 4 * np.sqrt(2 / samples)  # of a sampled variance, relative, 4 deviations
    np.testing.assert_allclose(found.variance(receiver), left.var(axis=1), rtol=error)
    assert found.mean_variance(receiver) == pytest.approx(left.mean(axis=0).var(), rel=error)
    np.testing.assert_allclose(found.variance(receiver[0]), found.variance(np.tile(receiver[0], (4, 1))))


@pytest.mark.parametrize("passes", [2, 3, 6, 12, 30])
def test_at_the_widest_interval_noise_is_not_amplified(passes):
    """What was sent comes out no larger in any mode, and within the interval at most 1 / cosh(2) = .266 of it."""
    widest = most_lambda(passes)
    made = chebyshev(passes, widest)
    inside = np.linspace(-widest, widest, 501)
    assert np.abs(made.factor(inside)).max() <= 1 / np.cosh(2)
    assert np.abs(made.factor(np.linspace(-1, 1, 1001))).max() <= 1 + 1e-12
    assert made.heard.max() < 2
    with pytest.raises(AssertionError):
        chebyshev(passes, (1 + widest) / 2)


def path_mixing(nodes=12):
    """A chain of nodes, which averages slowly."""
    gain = np.eye(nodes, k=1) + np.eye(nodes, k=-1)
    return balanced_mixing(gain, np.ones(nodes), 1.0)


def test_fitted_passes_leave_less_disagreement_than_plain_ones():
    matrix = path_mixing()
    eigenvalues = np.linalg.eigvals(matrix)

    def disagreement(passes):
        return np.linalg.norm(response(passes, matrix).mixing - 1 / 12)

    assert disagreement(fitted(6, eigenvalues)) < 0.8 * disagreement(plain(6))
    assert disagreement(fitted(30, eigenvalues)) < 0.1 * disagreement(plain(30))


@pytest.mark.parametrize("passes", [2, 3, 6])
def test_fitted_passes_of_a_slow_network_use_the_widest_interval(passes):
    eigenvalues = np.array([1.0, 0.999, 0.5, -0.5])
    most = most_lambda(passes)
    np.testing.assert_allclose(fitted(passes, eigenvalues).heard, chebyshev(passes, most).heard)


def test_fitted_passes_are_the_best_of_intervals_tried_one_by_one():
    eigenvalues = np.linalg.eigvals(random_mixing(3))
    others = eigenvalues[np.abs(eigenvalues - 1.0) > 1e-9]
    ends = np.linspace(0.0, min(np.abs(others).max(), most_lambda(7)), 64)[1:]
    one_by_one = [plain(7), *(chebyshev(7, end) for end in ends)]
    best = min(one_by_one, key=lambda one: np.abs(one.factor(others)).max())
    np.testing.assert_array_equal(fitted(7, eigenvalues).heard, best.heard)


def test_eigenvalues_on_a_circle_get_plain_passes():
    """A directed ring that keeps nothing turns modes without shrinking them; no interval helps."""
    ring = 0.5 * np.roll(np.eye(8), 1, axis=1) + 0.5 / 8
    assert np.array_equal(fitted(4, np.linalg.eigvals(ring)).heard, np.ones(4))


def test_parts_of_a_graph_that_never_meet_are_averaged_each_by_itself():
    """Every polynomial leaves eigenvalue 1 alone, however often it comes: an isolated node costs the others nothing."""
    inside = np.array([1.0, 0.9, 0.2, -0.4])
    alone, beside = fitted(6, inside), fitted(6, np.append(inside, [1.0, 1.0 + 1e-15]))
    assert (alone.before != 0).any()
    for one, other in zip((alone.heard, alone.before), (beside.heard, beside.before)):
        np.testing.assert_array_equal(one, other)
    assert len(fitted(4, np.ones(3))) == 4
