"""Receiver first, rows that sum to one, columns too when balanced."""

import numpy as np
import pytest
from conftest import paper_gain
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelessdl import mixing
from wirelessdl.leakage import link_mu
from wirelessdl.links import Geometry, Links
from wirelessdl.mixing import (
    balanced_air,
    balanced_mixing,
    expected_spectrum,
    mix,
    mixing_matrix,
    peak_multiplier,
    perron_vector,
    spectral_gap,
)
from wirelessdl.network.topology.physical import links_within


def graphs():
    """Strongly connected directed graphs with random gains, from a seed."""

    def draw(seed_and_nodes):
        seed, nodes = seed_and_nodes
        rng = np.random.default_rng(seed)
        mask = rng.random((nodes, nodes)) < 0.3
        ring = np.roll(np.eye(nodes, dtype=bool), 1, axis=1)  # a directed cycle keeps it connected
        gain = np.where(mask | ring, rng.uniform(1e-6, 1.0, (nodes, nodes)), 0.0)
        np.fill_diagonal(gain, 0.0)
        return gain, rng.uniform(0.01, 1.0, nodes)

    return st.tuples(st.integers(0, 10**6), st.integers(2, 12)).map(draw)


def test_receiver_comes_first_everywhere():
    """Node 0 sends to node 1 and is not answered: gain[1, 0], and nothing at [0, 1]."""
    gain = np.zeros((3, 3))
    gain[1, 0], gain[2, 1], gain[0, 2] = 0.5, 0.4, 0.3
    links = Links.from_gain(gain)
    assert list(zip(links.rx, links.tx)) == [(0, 2), (1, 0), (2, 1)]
    sent = np.array([100.0, 10.0, 1.0])
    np.testing.assert_allclose(gain @ sent, [0.3, 50.0, 4.0])
    A = mixing_matrix(gain, np.ones(3), 1.0)
    assert A[1, 0] == pytest.approx(0.5)
    assert A[0, 1] == 0.0
    mu = link_mu(
        links, links.vector(gain), model_w=np.array([4.0, 1.0, 1.0]), noise_w=np.ones(3), step_sensitivity=np.ones(3)
    )
    np.testing.assert_allclose(mu, [1.0, 2.0, 1.0])  # only 0 -> 1 carries node 0's power


def test_pair_is_shared_by_both_directions_and_distances_are_right():
    links = Links.from_mask(np.ones((3, 3), bool), Geometry.at_rest(np.array([[0, 0, 0], [3, 4, 0], [0, 0, 12.0]])))
    index = {(int(r), int(t)): n for n, (r, t) in enumerate(zip(links.rx, links.tx))}
    for (rx, tx), n in index.items():
        assert links.pair[n] == links.pair[index[tx, rx]]
    assert len(set(links.pair.tolist())) == 3
    assert links.distance_m[index[0, 1]] == 5.0
    assert links.distance_2d_m[index[0, 2]] == 0.0
    assert links.distance_m[index[1, 2]] == 13.0


@given(graphs())
def test_rows_sum_to_one(graph):
    gain, alpha = graph
    A = mixing_matrix(gain, alpha, 2.0)
    np.testing.assert_allclose(A.sum(axis=1), 1.0, atol=1e-12)
    degree = (gain > 0).sum(axis=1)
    np.testing.assert_allclose(np.diagonal(A), 1 / (degree + 1))


@given(graphs())
def test_balancing_makes_columns_sum_to_one_too(graph):
    gain, alpha = graph
    A = balanced_mixing(gain, alpha, 2.0)
    degree = (gain > 0).sum(axis=1)
    np.testing.assert_allclose(A.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(A.sum(axis=0), 1.0, atol=1e-12)
    assert (np.diagonal(A) >= 1 / (degree + 1) - 1e-12).all()
    assert (A >= 0).all()


@given(graphs())
def test_perron_vector_is_left_stationary(graph):
    gain, alpha = graph
    A = mixing_matrix(gain, alpha, 1.0)
    pi = perron_vector(A)
    np.testing.assert_allclose(pi @ A, pi, atol=1e-12)
    assert pi.sum() == pytest.approx(1.0)
    assert (pi > 0).all()


@settings(max_examples=20)
@given(graphs())
def test_peak_multiplier_bounds_every_product(graph):
    gain, alpha = graph
    A = mixing_matrix(gain, alpha, 1.0)
    theta, z = peak_multiplier(A), np.eye(len(A))
    for _ in range(60):
        assert (1 / np.diagonal(z)).max() <= theta * (1 + 1e-9)
        z = A @ z


def test_spectral_gap_of_known_matrices():
    assert spectral_gap(np.full((5, 5), 0.2)) == pytest.approx(1.0)
    assert spectral_gap(np.eye(3)) == 0.0


def test_a_graph_broken_by_lost_links_is_still_doubly_stochastic():
    """Node 3 hears the others but is heard by nobody: it keeps its own term, the rest stay balanced."""
    gain = paper_gain()
    links = Links.from_gain(gain)
    vector = np.where(links.tx == 3, 0.0, links.vector(gain))
    A = mix(links, vector, np.ones(4), air=balanced_air(links, vector, np.ones(4))).dense
    np.testing.assert_allclose(A.sum(axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(A.sum(axis=1), 1.0, atol=1e-12)
    assert A[3, 3] == 1.0
    assert (A[:3, :3] > 0).all()
    two_islands = np.where((links.tx < 2) == (links.rx < 2), links.vector(gain), 0.0)
    A = mix(links, two_islands, np.ones(4), air=balanced_air(links, two_islands, np.ones(4))).dense
    np.testing.assert_allclose(A.sum(axis=0), 1.0, atol=1e-12)
    assert (np.diagonal(A) < 1).all()
    silence = np.zeros(len(links))
    np.testing.assert_array_equal(balanced_air(links, silence, np.ones(4)), 0.0)


def test_a_link_keeps_its_number_wherever_the_nodes_are():
    hears = np.array([[0, 1, 0], [1, 0, 1], [1, 0, 0]], dtype=bool)
    links = Links.from_mask(hears, Geometry.at_rest(np.eye(3)))
    assert links.number.tolist() == [1, 3, 5, 6]
    assert links.reverse_number.tolist() == [3, 1, 7, 2]
    moved = links.at(Geometry.at_rest(2 * np.eye(3)))
    assert moved.number is links.number
    again = Links.from_numbers(links.number, links.geometry)
    np.testing.assert_array_equal(again.rx, links.rx)
    np.testing.assert_array_equal(again.tx, links.tx)


def test_leakage_of_slots_together_equals_one_by_one():
    rng, nodes = np.random.default_rng(0), 9
    links = Links.from_mask(rng.random((nodes, nodes)) < 0.4, Geometry.at_rest(np.zeros((nodes, 3))))
    gain, amplitude = rng.uniform(1e-6, 1.0, (4, len(links))), rng.uniform(0.01, 1.0, nodes)
    parts = {"model_w": amplitude, "noise_w": amplitude[::-1].copy(), "step_sensitivity": np.arange(nodes) / nodes}
    for masks_others in (None, rng.random(len(links))):
        np.testing.assert_array_equal(
            link_mu(links, gain, **parts, masks_others=masks_others),
            [link_mu(links, alone, **parts, masks_others=masks_others) for alone in gain],
        )


def geometric(nodes, reach, rng):
    """A network on a plane, on which a walk mixes slowly; links both ways, gains in pairs."""
    place = np.column_stack([rng.random((nodes, 2)) * np.sqrt(nodes), np.ones(nodes)])
    links = links_within(Geometry.at_rest(place), reach)
    return links, rng.uniform(0.2, 1.0, len(links.pairs))[links.pairs.of_link]


def columns(links, gain, amplitude):
    A = mix(links, gain, amplitude, air=balanced_air(links, gain, amplitude))
    return np.bincount(links.tx, weights=A.link, minlength=links.nodes) + A.own


@pytest.mark.parametrize("reciprocal", [True, False])
def test_large_networks_balance_whether_a_walk_settles_or_not(reciprocal, monkeypatch):
    rng = np.random.default_rng(3)
    links, gain = geometric(700, 2.6, rng)
    assert links.strongly_connected()
    gain = gain if reciprocal else gain * rng.uniform(0.8, 1.2, len(links))
    solved = []
    eliminate = mixing.scipy.sparse.linalg.splu
    monkeypatch.setattr(mixing.scipy.sparse.linalg, "splu", lambda system: solved.append(1) or eliminate(system))
    np.testing.assert_allclose(columns(links, gain, rng.uniform(0.5, 1.0, 700)), 1.0, atol=1e-11)
    assert bool(solved) is not reciprocal  # where gains agree both ways, the walk begins at its end


def test_a_walk_on_random_neighbours_needs_no_elimination(monkeypatch):
    rng = np.random.default_rng(4)
    pair = rng.integers(0, 500, (3000, 2))
    links = Links.from_pairs(pair[:, 0], pair[:, 1], Geometry.at_rest(np.zeros((500, 3))), both_ways=True)
    gain, amplitude = rng.uniform(0.3, 1.0, len(links)), rng.uniform(0.5, 1.0, 500)
    air = mix(links, gain, amplitude, air=np.ones(500))
    rest = np.linalg.solve(np.eye(499) - air.dense.T[1:, 1:], air.dense.T[1:, 0])
    expected = np.concatenate([[1.0], rest]) / (1.0 + rest.sum())
    monkeypatch.setattr(mixing.scipy.sparse.linalg, "splu", None)
    np.testing.assert_allclose(perron_vector(air), expected, rtol=1e-9)


def test_a_gap_too_narrow_to_be_found_is_not_a_number(monkeypatch):
    rng = np.random.default_rng(5)
    links, gain = geometric(700, 2.6, rng)
    A = mix(links, gain, np.ones(700), air=balanced_air(links, gain, np.ones(700)))
    full = np.sort(np.abs(np.linalg.eigvals(A.dense)))
    assert spectral_gap(A) == pytest.approx(1 - full[-2], rel=1e-6)
    monkeypatch.setattr(mixing, "MAX_SEARCH_PRODUCTS", 1.0)
    assert np.isnan(spectral_gap(A))


def test_the_spectrum_of_a_large_network_is_covered():
    rng = np.random.default_rng(6)
    links, gain = geometric(700, 2.6, rng)
    A = mix(links, gain, np.ones(700), air=balanced_air(links, gain, np.ones(700)))
    true, found = np.sort(np.linalg.eigvals(A.dense).real), np.sort(expected_spectrum(A))
    assert found[-1] == 1.0
    assert found[0] <= true[0] + 1e-12
    assert true[-2] - 5e-3 < found[-2] <= true[-2] + 1e-12
