"""No coalition finds less noise than the bound says, tried one coalition after the other."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelessdl.privacy.coalition import coalition_variance_of_pairs, group_variance


def coalition_variance(own, pair, coalition, on_air=None):
    """The one-hop bound, `[K]`, of a symmetric matrix of pairs."""
    low, high = np.nonzero(np.triu(pair))
    return coalition_variance_of_pairs(own, high, low, pair[low, high], coalition, on_air)


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


def test_honest_partners_of_a_group_add_to_own_noise():
    hidden = group_variance(3**0.5, 2**0.5, np.array([1, 2, 6, 20]), 5)
    np.testing.assert_allclose(hidden[:3], 3.0)  # nobody honest is left to share with
    assert hidden[3] == pytest.approx(3.0 * (1 + 14 * 2 / 3), rel=1e-14)


def test_whole_numbers_are_numbers():
    np.testing.assert_allclose(group_variance(10**10, 1, 3, 1), 1.5e20)  # its square does not fit 64 bits
    np.testing.assert_allclose(group_variance(3**0.5, 2**32, 3, 1), 6)
    own, pair = np.full(3, 10**10), np.full(3, 10**10)
    np.testing.assert_allclose(coalition_variance_of_pairs(own, [0, 0, 1], [1, 2, 2], pair, 1), 1.5e20)
    np.testing.assert_allclose(coalition_variance_of_pairs([1, 1], [0], [1], [1], 0), 1.5)


@pytest.mark.parametrize("size", [1, 7, 200, 398])
def test_in_large_networks_too_the_largest_terms_are_dropped(size):
    rng = np.random.default_rng(size)
    own, pair = rng.uniform(0.5, 2.0, 400), np.triu(rng.uniform(0.1, 3.0, (400, 400)), k=1)
    pair = pair + pair.T
    with np.errstate(divide="ignore"):
        terms = np.sort(1 / (1 / own**2 + 1 / pair**2), axis=1)  # each node's own place is a zero, the first
    np.testing.assert_allclose(
        coalition_variance(own, pair, size), own**2 + terms[:, : 400 - size].sum(axis=1), rtol=1e-12
    )


def test_a_node_without_pairs_or_noise_has_its_own():
    none = np.zeros(0, dtype=np.int64)
    assert coalition_variance_of_pairs(np.array([2.0, 0.0]), none, none, np.zeros(0), 1).tolist() == [4.0, 0.0]
    found = coalition_variance_of_pairs(np.zeros(4), np.array([0, 1]), np.array([1, 2]), np.array([0.0, 1.0]), 0)
    assert found.tolist() == [0.0] * 4


@pytest.mark.parametrize("bad", [-1.0, np.inf, np.nan])
def test_noise_that_cannot_be_is_refused(bad):
    for own, pair in (([1.0, bad, 1.0], [1.0]), ([1.0, 1.0, 1.0], [bad])):
        with pytest.raises(ValueError, match="finite and >= 0"):
            coalition_variance_of_pairs(np.array(own), np.array([0]), np.array([1]), np.array(pair), 1)
    with pytest.raises(ValueError, match="coalition is -1"):
        coalition_variance_of_pairs(np.ones(3), np.array([0]), np.array([1]), np.ones(1), -1)


@pytest.mark.parametrize(("low", "high"), [([0, 1, 1], [1, 0, 2]), ([0, 2, 1], [1, 2, 2])])
def test_a_pair_named_twice_or_of_one_node_is_refused(low, high):
    with pytest.raises(ValueError, match="twice"):
        coalition_variance_of_pairs(np.ones(3), np.array(low), np.array(high), np.ones(3), 1)
