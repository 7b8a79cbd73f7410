"""Where nodes start."""

import math
from itertools import pairwise

import numpy as np
import pytest

from wirelessdl.network.placement import PLACEMENTS, require_apart
from wirelessdl.network.streets import Manhattan


def place(name, nodes=50, seed=0, **parameters):
    if name == "streets":
        parameters["streets"] = Manhattan()
    return PLACEMENTS[name](**parameters).positions(nodes, np.random.default_rng(seed))


@pytest.fixture
def from_file(tmp_path):
    def make(text, nodes, **parameters):
        (tmp_path / "sites.csv").write_text(text)
        return place("file", nodes, find_file=lambda name: tmp_path / name, file="sites.csv", **parameters)

    return make


@pytest.mark.parametrize("name", [name for name in PLACEMENTS if name != "file"])
def test_placements_give_a_position_each(name):
    positions = place(name)
    assert positions.shape == (50, 3)
    assert (positions[:, 2] == 1.5).all()
    require_apart(positions)
    np.testing.assert_array_equal(positions, place(name))


def test_disc_is_uniform_by_area():
    radius = np.linalg.norm(place("disc", 40_000, radius_m=10.0)[:, :2], axis=1)
    assert radius.max() <= 10.0
    assert np.mean(radius < 5.0) == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 40_000))


@pytest.mark.parametrize("name", ["disc", "block"])
def test_a_range_of_heights_leaves_the_ground_as_it_was(name):
    flat, high = place(name, 2000), place(name, 2000, height_m=(10.0, 40.0))
    np.testing.assert_array_equal(flat[:, :2], high[:, :2])
    assert high[:, 2].min() >= 10.0
    assert high[:, 2].max() <= 40.0
    assert high[:, 2].mean() == pytest.approx(25.0, abs=4.5 * 30 / math.sqrt(12 * 2000))
    with pytest.raises(ValueError, match=r"height_m is \[40, 10\]; must be \[low, high\]"):
        place(name, height_m=(40.0, 10.0))


@pytest.mark.parametrize(("nodes", "distance"), [(50, 20.0), (1000, 5.0)])
def test_poisson_disc_keeps_its_distance(nodes, distance):
    ground = place("poisson-disc", nodes, radius_m=150.0, min_distance_m=distance)[:, :2]
    gap = np.linalg.norm(ground[:, None] - ground[None], axis=2)
    assert gap[~np.eye(nodes, dtype=bool)].min() >= distance
    assert np.linalg.norm(ground, axis=1).max() <= 150.0


def test_poisson_disc_of_two_is_uniform_beyond_the_distance():
    """P(the second is within r of the centre | at least d from the first), first at random: against plain rejection."""
    generator = np.random.default_rng(3)
    pairs = np.stack([place("poisson-disc", 2, seed, radius_m=1.0, min_distance_m=0.8)[:, :2] for seed in range(3000)])
    inner = np.linalg.norm(pairs[:, 1], axis=1) < 0.6
    radius, angle = np.sqrt(generator.random((2, 2, 60_000))), 2 * np.pi * generator.random((2, 2, 60_000))
    (x1, x2), (y1, y2) = radius[0] * np.cos(angle[0]), radius[0] * np.sin(angle[0])
    # the first is uniform whatever the second: weigh each first equally by drawing its second until one fits
    allowed = np.hypot(x1 - x2, y1 - y2) >= 0.8
    far = np.array([np.mean(allowed[bin_]) for bin_ in _rings(np.hypot(x1, y1))])
    near = np.array([np.mean(allowed[bin_] & (np.hypot(x2, y2)[bin_] < 0.6)) for bin_ in _rings(np.hypot(x1, y1))])
    share = np.array([np.sum(bin_) for bin_ in _rings(np.hypot(x1, y1))]) / 60_000
    expected = float(np.sum(share * near / far))
    assert inner.mean() == pytest.approx(expected, abs=4.5 * math.sqrt(expected * (1 - expected) / 3000))


def _rings(radius):
    edges = np.linspace(0, 1, 41)
    return [(radius >= low) & (radius < high) for low, high in pairwise(edges)]


def test_poisson_disc_that_cannot_fit_says_what_would():
    with pytest.raises(
        ValueError, match=r"min_distance_m is 50; \d+ of 60 nodes fitted .* lower it to about (.+), or"
    ) as caught:
        place("poisson-disc", 60, radius_m=100.0, min_distance_m=50.0)
    suggested = float(str(caught.value).split("about ")[1].split(",")[0])
    assert len(place("poisson-disc", 60, radius_m=100.0, min_distance_m=suggested)) == 60


def test_cluster_children_are_normal_about_few_centres():
    ground = place("cluster", 20_000, clusters=5, radius_m=1e6, spread_m=3.0)[:, :2]
    centre, member = np.unique(np.round(ground / 1e3), axis=0, return_inverse=True)
    assert len(centre) == 5
    spread = np.concatenate([ground[member == n] - ground[member == n].mean(axis=0) for n in range(len(centre))])
    size = np.bincount(member)
    assert np.std(spread) == pytest.approx(3.0, abs=4.5 * 3.0 / math.sqrt(2 * 40_000))
    assert size / 20_000 == pytest.approx(0.2, abs=4.5 * math.sqrt(0.2 * 0.8 / 20_000))


def test_a_file_places_nodes(from_file):
    plain = from_file("x_m,y_m\n1,2\n\n# a comment\n3,4  # and another\n", 2)
    np.testing.assert_array_equal(plain, [[1, 2, 1.5], [3, 4, 1.5]])
    named = from_file("node,height_m,y_m,x_m\n1,9,2,1\n0,8,4,3\n", 2)
    np.testing.assert_array_equal(named, [[3, 4, 8], [1, 2, 9]])
    assert from_file("x_m,y_m\n1,2\n3,4\n", 2, height_m=7.0)[0, 2] == 7.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x_m,y_m\n1,2\n", 'file is "sites.csv"; it has 1 rows; network.nodes is 2'),
        ("x_m,y_m,node\n1,2,0\n1,3,2\n", "line 3: node is 2; network.nodes is 2: nodes are numbered from 0 to 1"),
        ("x_m,y_m,node\n1,2,0\n1,3,0\n", "it says nothing of node 1"),
        ("x_m,y_m,height_m\n1,2,1\n3,4,0\n", "line 3: height_m is 0; must be > 0"),
        ("x_m,y_m\n1,two\n3,4\n", 'line 2: y_m is "two"; must be a finite number'),
        ("x_m,y_m\n1,nan\n3,4\n", 'line 2: y_m is "nan"; must be a finite number'),
        ("x_m,y_m\n1\n3,4\n", "line 2: 1 values; the header has 2 columns"),
        ("x_m\n1\n3\n", "line 1: column y_m is missing"),
        ("x_m,y\n1,2\n", 'line 1: no such column "y"'),
        ("x_m,y_m,x_m\n1,2,3\n", "a column is there twice"),
        ("", "it is empty: begin with a header x_m,y_m"),
        ("x_m,y_m\n", "a header and no rows"),
    ],
)
def test_mistakes_in_a_file_are_named(text, words, from_file):
    with pytest.raises(ValueError) as caught:
        from_file(text, 2)
    assert words in str(caught.value)


def test_nodes_must_be_apart_and_above_ground():
    require_apart(np.array([[0, 0, 1.5], [0, 0, 1.6], [0, 1, 1.5]]))
    with pytest.raises(ValueError, match=r"positions of nodes 1 and 3 are both \(2, 0, 1.5\) m"):
        require_apart(np.array([[0, 0, 1.5], [2, 0, 1.5], [1, 0, 1.5], [2, 0, 1.5]]))
    with pytest.raises(ValueError, match="height of node 1 is 0 m; antennas must be above 0"):
        require_apart(np.array([[0, 0, 1.5], [2, 0, 0.0]]))
