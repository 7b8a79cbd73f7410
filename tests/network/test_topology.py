"""Who hears whom, by rule, by chance, by place; and whether it holds together."""

import math

import networkx
import numpy as np
import pytest
from conftest import tiny_table
from hypothesis import given, settings
from hypothesis import strategies as st
from watching import Watched

from wirelessdl.links import Geometry, Links
from wirelessdl.network.topology import Connectivity, physical, require_connected
from wirelessdl.network.topology.graphs import ErdosRenyi, Full, KRegular, Ring, SmallWorld, Star
from wirelessdl.network.topology.physical import InRange, RandomGeometric, SnrLimited


def at_origin(nodes):
    return Geometry.at_rest(np.zeros((nodes, 3)))


def scattered(nodes, seed=0, side=200.0, height=30.0):
    return Geometry.at_rest(np.random.default_rng(seed).random((nodes, 3)) * [side, side, height] + [0, 0, 1])


def links_of(topology, nodes, seed=0):
    return topology.links(at_origin(nodes), None, np.random.default_rng(seed))


def mask_of(links):
    return links.matrix(np.ones(len(links))) > 0


def assert_sorted(links):
    assert list(zip(links.rx, links.tx)) == sorted(set(zip(links.rx.tolist(), links.tx.tolist())))
    assert (links.rx != links.tx).all()


def snr_db(links):
    """Log-distance loss, with sight drawn per pair: neither monotone in distance nor smooth."""
    blocked = (links.pair * 2654435761 % 2**32) / 2**32 > np.exp(-links.distance_m / 60.0)
    return 90.0 - 35.0 * np.log10(links.distance_m) - 15.0 * blocked


def test_full_ring_and_star_have_the_links_they_should():
    assert len(links_of(Full(), 5)) == 20
    ring = links_of(Ring(), 5)
    assert ring.degree.tolist() == [2] * 5
    assert (ring.matrix(np.ones(len(ring)))[0] == [0, 1, 0, 0, 1]).all()
    assert links_of(Ring(reach=2), 5).degree.tolist() == [4] * 5
    assert len(links_of(Ring(reach=9), 6)) == 30
    assert links_of(Star(hub=2), 4).degree.tolist() == [1, 1, 3, 1]
    with pytest.raises(ValueError, match="hub is 4; nodes are numbered from 0 to 3"):
        links_of(Star(hub=4), 4)


@pytest.mark.parametrize(
    "topology",
    [Full(), Ring(2), Star(), ErdosRenyi(0.4), KRegular(3), SmallWorld(4, 0.5), InRange(90.0), SnrLimited(5.0)],
)
def test_links_are_sorted_and_repeatable(topology):
    geometry = scattered(30)
    one, again = (topology.links(geometry, snr_db, np.random.default_rng(1)) for _ in range(2))
    assert_sorted(one)
    np.testing.assert_array_equal(mask_of(one), mask_of(again))
    np.testing.assert_array_equal(mask_of(one), mask_of(one).T)
    require_connected(one, topology)


# --- graphs by chance


@given(st.integers(0, 10**6), st.integers(5, 40), st.integers(2, 4))
@settings(max_examples=50, deadline=None)
def test_regular_graphs_are_regular(seed, nodes, degree):
    if degree * nodes % 2:
        with pytest.raises(ValueError, match="must be even"):
            links_of(KRegular(degree), nodes, seed)
        return
    links = links_of(KRegular(degree), nodes, seed)
    assert (links.degree == degree).all()
    np.testing.assert_array_equal(mask_of(links), mask_of(links).T)
    assert links.strongly_connected()


@pytest.mark.parametrize(
    ("topology", "nodes", "words"),
    [
        (ErdosRenyi(0.001), 10, "p is 0.001; none of 1000 graphs of 10 nodes was connected: raise p well above"),
        (KRegular(1), 6, "degree is 1; none of 1000 graphs of 6 nodes was connected: use degree 3 or more"),
        (KRegular(9), 6, "degree is 9; 6 nodes have at most 5 neighbours each: lower it"),
        (KRegular(3), 7, "degree is 3; degree times 7 nodes must be even, .*: use degree 4"),
        (SmallWorld(6), 6, "k is 6; 6 nodes have at most 5 neighbours each"),
        (lambda: SmallWorld(5), 6, "k is 5; must be even, half on either side: use 4 or 6"),
    ],
)
def test_graphs_that_cannot_be(topology, nodes, words):
    with pytest.raises(ValueError, match=words):
        links_of(topology() if callable(topology) else topology, nodes)


# --- graphs by place


def brute_force(geometry, snr, min_snr_db=-math.inf, range_m=math.inf):
    """Every pair asked for its distance and its SNR."""
    everyone = [(rx, tx) for rx in range(geometry.nodes) for tx in range(geometry.nodes) if rx != tx]
    rx, tx = np.array(everyone).T
    strong = np.full(len(everyone), True) if snr is None else snr(Links(rx, tx, geometry)) >= min_snr_db
    return {
        (rx, tx)
        for (rx, tx), enough in zip(everyone, strong)
        if enough and math.dist(geometry.position_m[rx], geometry.position_m[tx]) <= range_m
    }


def pairs_of(links):
    assert_sorted(links)
    return set(zip(links.rx.tolist(), links.tx.tolist()))


@pytest.mark.parametrize("max_range_m", [None, 80.0, 1e4])
def test_snr_limited_links_equal_brute_force_at_200_nodes(max_range_m):
    geometry = scattered(200, side=600.0)
    links = SnrLimited(20.0, max_range_m).links(geometry, snr_db, None)
    assert pairs_of(links) == brute_force(geometry, snr_db, 20.0, max_range_m or math.inf)
    assert 100 < len(links) < 20_000


@pytest.mark.parametrize("kind", [InRange, RandomGeometric])
def test_links_within_a_range_equal_brute_force_at_200_nodes(kind):
    geometry = scattered(200, side=600.0)
    links = kind(75.0).links(geometry, None, None)
    assert pairs_of(links) == brute_force(geometry, None, range_m=75.0)
    assert 100 < len(links) < 20_000


def test_a_link_just_as_long_as_the_range_is_one():
    grid = np.array([[0.1 * x, 0.1 * y, 1.5] for x in range(6) for y in range(6)])
    links = InRange(0.1 + 1e-15).links(Geometry.at_rest(grid), None, None)
    assert len(links) == 2 * 60


def test_many_nodes_need_a_longest_range(monkeypatch):
    monkeypatch.setattr(physical, "MAX_ALL_PAIRS_NODES", 10)
    with pytest.raises(ValueError, match="max_range_m is missing; 11 nodes are more than 10"):
        SnrLimited(3.0).links(scattered(11), snr_db, None)


# --- whether it holds together


def test_a_graph_that_falls_apart_says_how():
    mask = np.zeros((6, 6), bool)
    mask[0, 1] = mask[1, 0] = mask[2, 3] = mask[3, 4] = mask[4, 2] = mask[5, 2] = True
    with pytest.raises(
        ValueError, match=r"3 parts .* smallest being node\(s\) 5; 0, 1 the largest having 3 nodes: choose"
    ):
        require_connected(Links.from_mask(mask, at_origin(6)))


@pytest.mark.parametrize(
    ("topology", "remedy"),
    [
        (InRange(1.0), "raise range_m, which is 1, or place nodes closer"),
        (RandomGeometric(1.0), "raise radius_m, which is 1, or place nodes closer"),
        (SnrLimited(145.0), "lower min_snr_db, which is 145, raise max_range_m or radio.power_dbm"),
    ],
)
def test_a_graph_by_places_that_falls_apart_names_its_key(topology, remedy):
    links = topology.links(scattered(8), snr_db, None)
    with pytest.raises(ValueError, match=f"links leave 8 parts .*: {remedy}"):
        require_connected(links, topology)


def rounds_of(pairs_per_round, nodes):
    return [
        Links.from_pairs(*np.array(pairs, dtype=np.int64).reshape(-1, 2).T, at_origin(nodes))
        for pairs in pairs_per_round
    ]


def watched(rounds, window):
    found = Connectivity(window)
    for links in rounds:
        found.add(links)
    return found


def test_joint_connectivity_of_a_token_that_goes_round():
    """One link a round on a directed ring of four: any four rounds in a row connect it, no three do."""
    rounds = rounds_of([[((t + 1) % 4, t % 4)] for t in range(12)], 4)
    whole, short = watched(rounds, 4), watched(rounds, 3)
    assert (whole.apart, whole.windows, whole.gaps) == (12, 9, 0)
    assert (short.apart, short.windows, short.gaps) == (12, 10, 10)
    assert watched(rounds[:3], 4).formatted() == "in parts in 3 of 3 frames, fewer than a window of 4"


@given(st.integers(0, 10**6), st.integers(1, 7))
@settings(max_examples=60, deadline=None)
def test_joint_connectivity_equals_a_loop_over_windows(seed, window):
    generator, nodes, length = np.random.default_rng(seed), 5, 7
    masks = generator.random((length, nodes, nodes)) < 0.15
    found = watched([Links.from_mask(mask, at_origin(nodes)) for mask in masks], window)

    def apart(width):
        graphs = [networkx.DiGraph(masks[s : s + width].any(axis=0)) for s in range(length - width + 1)]
        return [not networkx.is_strongly_connected(graph) for graph in graphs]

    assert (found.frames, found.apart) == (length, sum(apart(1)))
    assert (found.windows, found.gaps) == (len(apart(window)), sum(apart(window)))


def test_large_random_graphs_are_drawn_by_gaps_with_the_same_law(monkeypatch):
    """Every pair of 40 nodes as often as p says, and the number of links as binomial as it should be."""
    monkeypatch.setattr("wirelessdl.network.topology.graphs._MAX_DENSE_NODES", 0)
    rng, p, draws = np.random.default_rng(1), 0.3, 400
    count, links = np.zeros((40, 40)), []
    for _ in range(draws):
        graph = ErdosRenyi(p).links(at_origin(40), None, rng)
        assert_sorted(graph)
        count += mask_of(graph)
        links.append(len(graph) // 2)
    assert (count == count.T).all()
    upper = count[np.triu_indices(40, 1)] / draws
    assert np.abs(upper - p).max() < 4.5 * math.sqrt(p * (1 - p) / draws)  # 780 pairs
    assert np.mean(links) == pytest.approx(780 * p, abs=4 * math.sqrt(780 * p * (1 - p) / draws))
    assert np.var(links) == pytest.approx(780 * p * (1 - p), rel=4 * math.sqrt(2 / draws))


def test_a_large_random_graph_takes_memory_of_its_links():
    graph = ErdosRenyi(12 / 20_000, tries=50).links(at_origin(20_000), None, np.random.default_rng(0))
    assert graph.strongly_connected()
    assert len(graph) == pytest.approx(20_000 * 12, rel=0.01)


@given(st.integers(2, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11))), st.booleans())
def test_links_from_pairs_equal_those_of_a_mask(nodes, pairs, both_ways):
    pairs = [(rx % nodes, tx % nodes) for rx, tx in pairs]
    mask = np.zeros((nodes, nodes), dtype=bool)
    for rx, tx in pairs:
        mask[rx, tx] = True
        mask[tx, rx] |= both_ways
    rx, tx = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    listed, masked = (
        Links.from_pairs(rx, tx, at_origin(nodes), both_ways=both_ways),
        Links.from_mask(mask, at_origin(nodes)),
    )
    np.testing.assert_array_equal(listed.rx, masked.rx)
    np.testing.assert_array_equal(listed.tx, masked.tx)


def test_a_topology_that_takes_time_is_told_it_in_every_frame(tmp_path):
    """A ring in one direction, then in the other; nodes stand still."""
    (tmp_path / "turning.py").write_text(
        "import numpy as np\nfrom wirelessdl import Links\n\n\nclass Turning:\n    follows_motion = True\n\n"
        "    def links(self, geometry, snr_db, rng, time_s):\n        node = np.arange(geometry.nodes)\n"
        "        return Links.from_pairs(node, np.roll(node, 1 if time_s < 0.02 else -1), geometry)\n"
    )
    table = tiny_table(scenario={"rounds": 6}, network={"topology": "turning.py:Turning"})
    one = Watched(table, folder=str(tmp_path)).run()
    heard = {(event.time_ns < 2e7, int(event.rx[0]), int(event.tx[0])) for event in one.events["phy.rx"]}
    assert heard == {(True, 0, 3), (False, 0, 1)}
