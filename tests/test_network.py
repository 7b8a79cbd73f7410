"""Placements and topologies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelessdl.links import Geometry, Links
from wirelessdl.network.placement import PLACEMENTS
from wirelessdl.network.topology import ErdosRenyi, Full, Ring, require_connected


def at_origin(nodes):
    return Geometry.at_rest(np.zeros((nodes, 3)))


def links_of(topology, nodes, seed=0):
    return topology.links(at_origin(nodes), None, np.random.default_rng(seed))


@pytest.mark.parametrize("name", PLACEMENTS)
def test_placements_give_a_position_each(name):
    positions = PLACEMENTS[name]().positions(50, np.random.default_rng(0))
    assert positions.shape == (50, 3)
    assert len(np.unique(positions, axis=0)) == 50
    assert (positions[:, 2] == 1.5).all()


def test_disc_is_uniform_by_area():
    positions = PLACEMENTS["disc"](radius_m=10.0).positions(40_000, np.random.default_rng(0))
    radius = np.linalg.norm(positions[:, :2], axis=1)
    assert radius.max() <= 10.0
    assert np.mean(radius < 5.0) == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 40_000))


def test_full_and_ring_have_the_links_they_should():
    assert len(links_of(Full(), 5)) == 20
    ring = links_of(Ring(), 5)
    assert ring.degree.tolist() == [2] * 5
    assert (ring.matrix(np.ones(len(ring)))[0] == [0, 1, 0, 0, 1]).all()
    assert links_of(Ring(reach=2), 5).degree.tolist() == [4] * 5


@given(st.integers(0, 10**6))
def test_erdos_renyi_is_symmetric_and_connected(seed):
    links = links_of(ErdosRenyi(0.4), 12, seed)
    mask = links.matrix(np.ones(len(links)))
    np.testing.assert_array_equal(mask, mask.T)
    assert links.strongly_connected()


def test_erdos_renyi_has_as_many_edges_as_it_should():
    counts = [len(links_of(ErdosRenyi(0.4), 20, seed)) / 2 for seed in range(200)]
    # 190 pairs; conditioning on connectivity matters in the fourth digit at p = 0.4
    assert np.mean(counts) == pytest.approx(76.0, abs=4 * np.sqrt(190 * 0.24 / 200))


def test_a_graph_that_falls_apart_says_how():
    mask = np.zeros((5, 5), bool)
    mask[0, 1] = mask[1, 0] = mask[2, 3] = mask[3, 4] = mask[4, 2] = True
    with pytest.raises(ValueError, match=r"2 parts .* smallest being node\(s\) 0, 1"):
        require_connected(Links.from_mask(mask, at_origin(5)))
