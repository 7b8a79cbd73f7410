"""No coalition finds less noise than the bound says, tried one coalition after the other."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelessdl.privacy.coalition import (
    coalition_variance,
    coalition_variance_of_pairs,
    group_own,
    group_sent_variance,
    group_variance,
)


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


@pytest.mark.parametrize("size", [0, 1, 2, 4, 9])
def test_lists_of_pairs_and_batches_give_the_same(size):
    cases = [random_case(seed) for seed in range(40)]
    for own, pair, on_air in cases:
        low, high = np.nonzero(np.triu(pair))
        listed = coalition_variance_of_pairs(own, high, low, pair[low, high], size, on_air)
        np.testing.assert_allclose(listed, coalition_variance(own, pair, size, on_air), rtol=1e-12)
    same = [case for case in cases if len(case[0]) == 5]
    assert len(same) > 1
    own, pair, on_air = (np.stack(part) for part in zip(*same))
    batch = coalition_variance(own, pair, size, on_air)
    np.testing.assert_allclose(batch, [coalition_variance(a, b, size, c) for a, b, c in same], rtol=1e-12)


@pytest.mark.parametrize("size", [1, 7, 200, 398])
def test_in_large_networks_too_the_largest_terms_are_dropped(size):
    rng = np.random.default_rng(size)
    own, pair = rng.uniform(0.5, 2.0, 400), np.triu(rng.uniform(0.1, 3.0, (400, 400)), k=1)
    pair = pair + pair.T
    found = coalition_variance(own, pair, size)
    with np.errstate(divide="ignore"):
        terms = np.sort(1 / (1 / own**2 + 1 / pair**2), axis=1)  # each node's own place is a zero, the first
    np.testing.assert_allclose(found, own**2 + terms[:, : 400 - size].sum(axis=1), rtol=1e-12)


def test_by_default_everyone_is_on_air():
    own, pair, _ = random_case(5)
    low, high = np.nonzero(np.triu(pair))
    everyone = coalition_variance(own, pair, 1, np.ones(len(own), dtype=bool))
    np.testing.assert_array_equal(coalition_variance(own, pair, 1), everyone)
    listed = coalition_variance_of_pairs(own, low, high, pair[low, high], 1)
    np.testing.assert_allclose(listed, everyone, rtol=1e-12)


def test_one_batch_axis_may_be_left_out():
    own, pair, on_air = random_case(5)
    owns = np.stack([own, 2 * own])
    for size in (1, len(own) - 1, len(own)):
        both = coalition_variance(owns, pair, size, on_air)
        np.testing.assert_allclose(both, [coalition_variance(one, pair, size, on_air) for one in owns], rtol=1e-12)
        pairs = coalition_variance(own, np.stack([pair, 3 * pair]), size, on_air)
        expected = [coalition_variance(own, one, size, on_air) for one in (pair, 3 * pair)]
        np.testing.assert_allclose(pairs, expected, rtol=1e-12)


def test_whole_numbers_are_numbers():
    pair = 10**10 * (1 - np.eye(3, dtype=np.int64))
    own = np.full(3, 10**10)  # its square does not fit 64 bits
    np.testing.assert_allclose(coalition_variance(own, pair, 1), 1.5e20)
    low, high = np.array([0, 0, 1]), np.array([1, 2, 2])
    np.testing.assert_allclose(coalition_variance_of_pairs(own, low, high, pair[low, high], 1), 1.5e20)
    np.testing.assert_allclose(group_variance(10**10, 1, 3, 1), 1.5e20)
    np.testing.assert_allclose(group_sent_variance(10**10, 1, 3), 3e20)
    np.testing.assert_allclose(group_own(6, 10**10, 3, 1), 3**0.5)


def test_a_node_without_pairs_has_its_own_noise():
    none = np.zeros(0, dtype=np.int64)
    assert coalition_variance_of_pairs(np.array([2.0, 0.0]), none, none, np.zeros(0), 1).tolist() == [4.0, 0.0]
    assert coalition_variance(np.array([2.0, 0.0]), np.zeros((2, 2)), 0).tolist() == [4.0, 0.0]


def test_own_noise_of_a_group_meets_the_wanted_variance():
    size, ratio = np.array([1, 2, 6, 20]), 2**0.5
    own = group_own(3.0, ratio, size, 5)
    np.testing.assert_allclose(group_variance(own, ratio, size, 5), 3.0, rtol=1e-14)
    np.testing.assert_allclose(own[:3], 3**0.5)  # nobody honest is left to share with
    assert own[3] ** 2 == pytest.approx(3.0 / (1 + 14 * 2 / 3), rel=1e-14)


def test_what_a_group_sends_has_the_diagonal_of_the_covariance():
    pair = 0.6 * (1 - np.eye(4))
    covariance = 0.4**2 * np.eye(4) + np.diag((pair**2).sum(axis=1)) - pair**2
    np.testing.assert_allclose(group_sent_variance(0.4, 1.5, 4), np.diagonal(covariance))
    assert covariance.mean() == pytest.approx(0.4**2 / 4)  # the network's mean: pairs cancel


@pytest.mark.parametrize(
    ("own", "pair", "size", "words"),
    [
        ([1.0, 1.0], [[0.0, 1.0], [0.5, 0.0]], 1, "symmetric"),
        ([1.0, 1.0], [[1.0, 1.0], [1.0, 0.0]], 1, "diagonal"),
        ([1.0, 1.0], [[0.0, np.inf], [np.inf, 0.0]], 1, "finite"),
        ([1.0, -1.0], np.zeros((2, 2)), 1, ">= 0"),
        ([1.0, 1.0], np.zeros((2, 2)), -1, "coalition is -1"),
        ([1.0, 1.0], np.zeros((3, 3)), 1, "must end in"),
        ([1.0, 1.0], np.zeros((1, 1)), 1, "must end in"),
        ([1.0, 1.0], [np.zeros((2, 2)), [[0.0, 1.0], [0.5, 0.0]]], 1, "symmetric"),
    ],
)
def test_noise_that_cannot_be_is_refused(own, pair, size, words):
    with pytest.raises(ValueError, match=words):
        coalition_variance(np.array(own), np.array(pair), size)


def test_pairs_of_negative_noise_are_refused():
    with pytest.raises(ValueError, match=">= 0"):
        coalition_variance_of_pairs(np.ones(3), np.array([0]), np.array([1]), np.array([-1.0]), 1)


@pytest.mark.parametrize(("low", "high"), [([0, 1, 1], [1, 0, 2]), ([0, 2, 1], [1, 2, 2])])
def test_a_pair_named_twice_or_of_one_node_is_refused(low, high):
    with pytest.raises(ValueError, match="twice"):
        coalition_variance_of_pairs(np.ones(3), np.array(low), np.array(high), np.ones(3), 1)


def test_all_pairs_of_a_network_are_different_pairs():
    low, high = np.nonzero(np.triu(np.ones((9, 9)), k=1))
    found = coalition_variance_of_pairs(np.ones(9), low, high, np.ones(len(low)), 3)
    np.testing.assert_allclose(found, 1 + 5 / 2)


@pytest.mark.parametrize(
    ("ratio", "size", "coalition", "words"),
    [
        (1.0, np.array([0, 3]), 1, "at least one node"),
        (-1.0, 3, 1, ">= 0"),
        (np.nan, 3, 1, "finite"),
        (1.0, 3, -1, "coalition is -1"),
    ],
)
def test_groups_that_cannot_be_are_refused(ratio, size, coalition, words):
    with pytest.raises(ValueError, match=words):
        group_own(1.0, ratio, size, coalition)
