"""Strangers beyond a radius are neglected: by how much is stated, and it is so."""

import math

import numpy as np
import pytest
from conftest import tiny

import wirelessdl
from wirelessdl.errors import ScenarioError
from wirelessdl.links import Geometry, Links
from wirelessdl.network.topology.physical import heard_within, links_within, reach_of
from wirelessdl.preview import describe
from wirelessdl.run.build import build
from wirelessdl.run.warnings import scenario_warnings


def scattered(nodes=150, side=1200.0):
    ground = np.random.default_rng(5).random((nodes, 2)) * side
    return Geometry.at_rest(np.column_stack([ground, np.full(nodes, 1.5)]))


def snr_db(links):
    return 120.0 - 40.0 * np.log10(links.distance_m)


def shares(geometry, links, radius_m):
    """Power of strangers beyond the radius over thermal noise and strangers within, at 64 nodes, in plain loops."""
    found = []
    for rx in np.unique(np.linspace(0, geometry.nodes - 1, 64).astype(int)).tolist():
        beyond, within = 0.0, 1.0
        neighbours = set(links.tx[links.rx == rx].tolist())
        for tx in range(geometry.nodes):
            if tx == rx or tx in neighbours:
                continue
            away_m = math.dist(geometry.position_m[rx], geometry.position_m[tx])
            power = 10 ** ((120.0 - 40.0 * math.log10(away_m)) / 10)
            beyond, within = (beyond + power, within) if away_m > radius_m else (beyond, within + power)
        found.append(beyond / within)
    return np.array(found)


@pytest.mark.parametrize("cutoff_db", [3.0, 10.0])
def test_the_radius_is_the_smallest_that_neglects_no_more_than_it_says(cutoff_db):
    geometry = scattered()
    links = links_within(geometry, 180.0)
    reach = reach_of(geometry, links, snr_db, cutoff_db)
    neglected = shares(geometry, links, reach.radius_m)
    assert 10 * np.log10(neglected.max()) == pytest.approx(reach.neglected_db, abs=1e-9)
    assert reach.neglected_db <= -cutoff_db
    assert 10 * np.log10(shares(geometry, links, reach.radius_m * (1 - 1e-9)).max()) > -cutoff_db
    assert reach.receivers == 64
    assert f"{reach.radius_m:.4g} m" in reach.words


def test_all_that_is_heard_is_near_or_a_neighbour():
    geometry = scattered(60)
    links = Links.from_pairs(np.array([0, 3]), np.array([59, 7]), geometry, both_ways=True)
    heard, neighbour = heard_within(links, 300.0)
    near = links_within(geometry, 300.0)
    assert set(heard.number.tolist()) == set(near.number.tolist()) | set(links.number.tolist())
    assert (np.diff(heard.number) > 0).all()
    np.testing.assert_array_equal(heard.number[neighbour], links.number)


PHYSICAL = {
    "network": {
        "nodes": 12,
        "topology": {"kind": "ring", "reach": 2},
        "placement": {"kind": "line", "spacing_m": 60.0},
    },
    "channel": {"models": [{"model": "log-distance", "exponent": 4.0}, {"model": "rayleigh"}]},
}


def test_a_cut_off_that_neglects_nobody_is_the_run_without_one(tmp_path):
    """Twelve nodes on a line, the farthest 1e-12 of what is near: 200 dB leave everyone in."""
    runs = [
        wirelessdl.simulate(tiny(**PHYSICAL, radio={"interference": "physical", **more}), out=tmp_path)
        for more in ({}, {"interference_cutoff_db": 200.0})
    ]
    for table in ("rounds", "nodes", "links"):
        one, other = (getattr(run, table) for run in runs)
        assert one.equals(other), table


def test_a_cut_off_takes_far_strangers_away_and_says_so():
    world = build(tiny(**PHYSICAL, radio={"interference": "physical", "interference_cutoff_db": 6.0}))
    assert len(world.links) < world.heard_links < 12 * 11
    assert any("interference_cutoff_db neglects non-neighbours beyond" in line for line in scenario_warnings(world))
    assert "dB below thermal noise and the non-neighbours that are heard" in describe(world)["heard"]


def test_a_cut_off_without_strangers_is_refused():
    with pytest.raises(ScenarioError, match=r"interference_cutoff_db is 6 .*there are no non-neighbours to neglect"):
        tiny(radio={"interference_cutoff_db": 6.0})
