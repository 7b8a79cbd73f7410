"""No coalition finds less noise than the bound says, tried one coalition after the other."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelessdl.privacy.coalition import group_own, group_variance


def coalition_variance(own, pair, coalition, on_air=None):
    """The one-hop bound of `privacy/coalition.py`, `[K]`: a_j^2 and all but the largest `coalition` terms."""
    sent = np.ones(len(own), dtype=bool) if on_air is None else on_air
    either = np.maximum(np.hypot(own, pair), 1e-300)
    term = np.sort(np.where(sent, own * pair / either, pair) ** 2, axis=1)  # each node's own place is a zero
    return own**2 + term[:, : max(len(own) - coalition, 0)].sum(axis=1)


def hidden_from(node, coalition, own, pair, on_air):
    """Variance about one node given all that is sent and what the coalition knows: 1 / [Sigma_H^-1]_jj."""
    honest = [k for k in range(len(own)) if k not in coalition]
    covariance = np.zeros((len(honest), len(honest)))
    for row, j in enumerate(honest):
        covariance[row, row] += own[j] ** 2
        for column, k in enumerate(honest):
            if row != column:
                covariance[row, row] += pair[j, k] ** 2
                covariance[row, column] -= pair[j, k] ** 2
    heard = [row for row, j in enumerate(honest) if on_air[j]]
    inverse = np.linalg.inv(covariance[np.ix_(heard, heard)])
    place = heard.index(honest.index(node))
    return 1.0 / inverse[place, place]


def brute_force(own, pair, size, on_air):
    """The least over all coalitions, [K]; NaN for nodes off air."""
    found = np.full(len(own), np.nan)
    for node in np.flatnonzero(on_air):
        others = [k for k in range(len(own)) if k != node]
        every = combinations(others, min(size, len(others)))
        found[node] = min(hidden_from(node, coalition, own, pair, on_air) for coalition in every)
    return found


def random_case(seed):
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(2, 9))
    own = 10 ** rng.uniform(-1, 1, nodes)
    upper = np.triu(10 ** rng.uniform(-1.5, 1.5, (nodes, nodes)) * (rng.random((nodes, nodes)) < 0.7), k=1)
    on_air = rng.random(nodes) < 0.8
    on_air[rng.integers(nodes)] = True
    return own, upper + upper.T, on_air


@given(seed=st.integers(0, 10**6), size=st.integers(0, 7))
@settings(max_examples=300, deadline=None)
def test_no_coalition_finds_less_noise_than_the_bound(seed, size):
    own, pair, on_air = random_case(seed)
    exact = brute_force(own, pair, size, on_air)[on_air]
    bound = coalition_variance(own, pair, size, on_air)[on_air]
    assert (bound <= exact * (1 + 1e-9)).all()  # the inverse has rounding of its own
    assert (bound >= own[on_air] ** 2).all()


@pytest.mark.parametrize("nodes", [2, 3, 5, 8])
@pytest.mark.parametrize("ratio", [0.0, 0.3, 2**0.5, 5.0])
def test_the_bound_is_exact_on_complete_graphs_of_equal_noise(nodes, ratio):
    own = np.full(nodes, 0.7)
    pair = 0.7 * ratio * (1 - np.eye(nodes))
    for size in range(nodes + 2):
        exact = brute_force(own, pair, size, np.ones(nodes, dtype=bool))
        np.testing.assert_allclose(coalition_variance(own, pair, size), exact, rtol=1e-10)
        np.testing.assert_allclose(group_variance(0.7, ratio, nodes, size), exact[0], rtol=1e-10)


def test_a_larger_coalition_than_promised_finds_less_noise():
    own, pair = np.ones(6), 2**0.5 * (1 - np.eye(6))
    promised = coalition_variance(own, pair, 2)
    assert (brute_force(own, pair, 3, np.ones(6, dtype=bool)) < 0.8 * promised).all()


def test_the_worst_coalition_drops_the_largest_terms():
    own = np.array([1.0, 2.0, 3.0, 1.0])
    pair = np.zeros((4, 4))
    pair[0, 1:] = pair[1:, 0] = (1.0, 2.0, 0.5)
    terms = sorted([4 * 1 / (4 + 1), 9 * 4 / (9 + 4), 1 * 0.25 / (1 + 0.25)])
    for size in range(4):
        assert coalition_variance(own, pair, size)[0] == pytest.approx(1 + sum(terms[: 3 - size]), rel=1e-12)
    assert coalition_variance(own, pair, 7)[0] == 1.0
    assert coalition_variance(own, pair, 1)[1] == 4.0  # its only partner colludes


def test_a_partner_that_fell_silent_hides_no_less():
    own, pair, _ = random_case(5)
    assert len(own) > 3
    everyone = np.ones(len(own), dtype=bool)
    for silent in range(1, len(own)):
        left = everyone.copy()
        left[silent] = False
        for size in range(3):
            before = coalition_variance(own, pair, size, everyone)[0]
            after = coalition_variance(own, pair, size, left)[0]
            assert after >= before
    alone = everyone & (np.arange(len(own)) == 0)
    assert coalition_variance(own, pair, 0, alone)[0] == pytest.approx(own[0] ** 2 + np.sum(pair[0] ** 2), rel=1e-12)


def test_own_noise_of_a_group_meets_the_wanted_variance():
    size, ratio = np.array([1, 2, 6, 20]), 2**0.5
    own = group_own(3.0, ratio, size, 5)
    np.testing.assert_allclose(group_variance(own, ratio, size, 5), 3.0, rtol=1e-14)
    np.testing.assert_allclose(own[:3], 3**0.5)  # nobody honest is left to share with
    assert own[3] ** 2 == pytest.approx(3.0 / (1 + 14 * 2 / 3), rel=1e-14)


def test_whole_numbers_are_numbers():
    np.testing.assert_allclose(group_variance(10**10, 1, 3, 1), 1.5e20)  # its square does not fit 64 bits
    np.testing.assert_allclose(group_own(6, 2**32, 3, 1), 3**0.5)
