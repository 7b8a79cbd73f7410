"""The street map: placement, motion and line of sight share it."""

from itertools import pairwise

import numpy as np
import pytest
import tomli_w
from conftest import refusal, tiny_table

from wirelessdl.links import Geometry, Links
from wirelessdl.network.mobility.streets import Streets
from wirelessdl.network.placement import AlongStreets
from wirelessdl.network.streets import Manhattan

MAP = Manhattan(blocks=(4, 2), block_m=(50.0, 90.0), street_m=15.0)


def placed(nodes=120, seed=0):
    return AlongStreets(MAP).positions(nodes, np.random.default_rng(seed))


def buildings():
    """Each as (left, right, bottom, top), from the definition of the map."""
    columns, rows, width, height, street = 4, 2, 50.0, 90.0, 15.0
    for i in range(columns):
        for j in range(rows):
            left = -columns * (width + street) / 2 + i * (width + street) + street / 2
            bottom = -rows * (height + street) / 2 + j * (height + street) + street / 2
            yield left, left + width, bottom, bottom + height


def crosses(p, q, rectangle):
    """Whether a segment has points inside a rectangle: clipped side by side."""
    left, right, bottom, top = rectangle
    enter, leave = 0.0, 1.0
    for start, way, low, high in ((p[0], q[0] - p[0], left, right), (p[1], q[1] - p[1], bottom, top)):
        if way == 0:
            if not low < start < high:
                return False
            continue
        one, other = sorted(((low - start) / way, (high - start) / way))
        enter, leave = max(enter, one), min(leave, other)
    return enter < leave


def test_links_cross_buildings_as_a_plain_loop_finds():
    position = placed()
    links = Links.from_mask(np.ones((len(position),) * 2, bool), Geometry.at_rest(position))
    found = MAP.obstructed(links)
    for tx, rx, answer in zip(links.tx, links.rx, found):
        expected = any(crosses(position[tx, :2], position[rx, :2], building) for building in buildings())
        assert answer == expected, (position[tx], position[rx])
    assert 0.3 < found.mean() < 0.95


def test_a_wall_is_outside_whatever_its_coordinates_round_to():
    """Corners and middles of walls of 60 maps with fractions of metres: none indoors, and each sees its street."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        sides, street = np.round(rng.uniform(20, 90, 2), 1), float(np.round(rng.uniform(5, 25), 1))
        city = Manhattan(tuple(rng.integers(1, 5, 2).tolist()), tuple(sides.tolist()), street)
        left, bottom, width, depth = city.buildings().T
        for across, up in ((0, 0.5), (1, 0.5), (0.5, 0), (0.5, 1), (0, 0), (1, 1), (0, 1), (1, 0)):
            wall = np.column_stack([left + across * width, bottom + up * depth])
            assert not city.indoors(wall).any()
            out = np.sign([across - 0.5, up - 0.5]) * street / 3 + rng.uniform(-1, 1, 2) * (
                np.array([across, up]) == 0.5
            )
            position = np.column_stack([np.concatenate([wall, wall + out]), np.full(2 * len(wall), 1.5)])
            number = np.arange(len(wall))
            links = Links(number, number + len(wall), Geometry.at_rest(position))
            assert not city.obstructed(links).any()
        assert city.indoors(np.column_stack([left + 1e-3, bottom + 1e-3])).all()


def test_buildings_are_those_of_the_definition():
    left, bottom, width, depth = MAP.buildings().T
    found = sorted(zip(left, left + width, bottom, bottom + depth))
    assert np.array(found) == pytest.approx(np.array(sorted(buildings())))
    centre = np.column_stack([left + width / 2, bottom + depth / 2])
    assert MAP.indoors(centre).all()


def test_nodes_are_placed_in_streets_evenly():
    position = placed(8000)
    assert not MAP.indoors(position[:, :2]).any()
    x, y = MAP.axes
    # streets along y: five of length 210; along x: three of length 260
    on_crossing = (x.street(position[:, 0]) >= 0) & (y.street(position[:, 1]) >= 0)
    along_y = (x.street(position[:, 0]) >= 0) & ~on_crossing
    share = 5 * (210 - 30) / (5 * 210 + 3 * 260)  # less two crossings' worth of each, 2 x 15 m within the length
    assert abs(along_y.mean() - share) < 4 * np.sqrt(share * (1 - share) / 8000)


def test_nodes_keep_to_the_streets_at_their_own_speed():
    mobility = Streets(placed(), np.random.default_rng(1), MAP, speed_mps=(0.5, 1.5))
    speeds, before = [], mobility.geometry(0.0).position_m
    assert np.array_equal(before, placed())
    for time_s in np.arange(1.0, 1500.0, 7.0):
        now = mobility.geometry(time_s)
        assert not MAP.indoors(now.position_m[:, :2]).any()
        speeds.append(np.linalg.norm(now.velocity_mps, axis=1))
        moved = np.linalg.norm(now.position_m - before, axis=1)
        before = now.position_m
        assert (moved <= 7.0 * 1.5 + 1e-9).all()
    assert np.allclose(speeds, speeds[0])
    assert np.ptp(before[:, 0]) > 200


def test_nodes_turn_as_often_as_asked():
    for turn in (0.0, 0.5, 1.0):
        wide = Manhattan(blocks=(60, 60), block_m=(20.0, 20.0), street_m=5.0)
        start = np.column_stack([np.linspace(-20, 20, 400) * 0.1, np.zeros(400), np.full(400, 1.5)])
        start[:, 0] += 12.5 * np.arange(400) % 25
        mobility = Streets(start, np.random.default_rng(2), wide, speed_mps=25.0, turn=turn)
        headings = [mobility.geometry(time_s).velocity_mps for time_s in np.arange(0.0, 12.0)]
        turned = [np.abs((one * other).sum(axis=1)) < 1e-9 for one, other in pairwise(headings)]
        assert np.mean(turned) == pytest.approx(turn, abs=0.04)


@pytest.mark.parametrize("turn", [0.0, 0.4, 1.0])
def test_nodes_that_are_spread_evenly_stay_so(turn):
    """Whatever `turn` is, the border streets hold their share of the way: within 4 standard errors after 20 minutes."""
    count = 3000
    mobility = Streets(placed(count), np.random.default_rng(5), MAP, speed_mps=(8.0, 14.0), turn=turn)
    now, (x, y) = mobility.geometry(1200.0), MAP.axes
    along_x = np.abs(now.velocity_mps[:, 0]) > 0
    ways = ((y, now.position_m[along_x, 1]), (x, now.position_m[~along_x, 0]))
    outer = sum(int(np.isin(axis.street(value), (0, axis.blocks)).sum()) for axis, value in ways)
    share = (2 * 210 + 2 * 260) / (5 * 210 + 3 * 260)
    assert abs(outer / count - share) < 4 * np.sqrt(share * (1 - share) / count)


def city(folder, **network):
    """A scenario in this folder of six nodes with a map."""
    table = tiny_table(network={"nodes": 6, **network}, channel={"models": [{"model": "sidelink-urban"}]})
    (folder / "city.toml").write_text(tomli_w.dumps(table))
    return folder / "city.toml"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mobility": "random-waypoint"}, "walks through the buildings of network.map"),
        ({"placement": {"kind": "grid", "spacing_m": 25}, "mobility": "static"}, "in a building of network.map"),
        ({"map": "manhatten"}, "no such kind; did you mean manhattan"),
        ({"map": {"kind": "manhattan", "street_m": 0}}, "network.map.street_m is 0"),
        ({"map": {"kind": "manhattan", "blocks": [3]}}, "network.map.blocks is [3]"),
        ({"map": None}, 'needs network.map: add map = { kind = "manhattan" }'),
        ({"mobility": {"kind": "streets", "speed_mps": 1e6}}, "speed_mps is up to 1e+06"),
    ],
)
def test_a_map_that_makes_no_sense_is_one_line(tmp_path, changes, words):
    network = {"map": "manhattan", "placement": "streets", "mobility": "streets", **changes}
    assert words in refusal(city(tmp_path, **{key: value for key, value in network.items() if value}))


OWN_MAP = """
import numpy as np

class Own:
    def indoors(self, ground_m):
        return {indoors}

    def obstructed(self, links):
        return {obstructed}

    def buildings(self):
        return {buildings}
"""
ANSWERS = {
    "indoors": "np.zeros(len(ground_m), bool)",
    "obstructed": "links.distance_m > 50",
    "buildings": "[[0, 5, 20, 20]]",
}


@pytest.mark.parametrize("complete", [True, False])
def test_a_map_may_be_derived_from_the_grid(complete, wirelessdl_command, tmp_path):
    made = "super().__init__((2, 1), (side_m, side_m), 10.0)" if complete else "pass"
    (tmp_path / "own.py").write_text(
        "from wirelessdl.network.streets import Manhattan\n"
        f"class Own(Manhattan):\n    def __init__(self, side_m: float = 40.0):\n        {made}\n"
    )
    own = city(tmp_path, map={"kind": "own.py:Own", "side_m": 30}, placement="streets", mobility="streets")
    found = wirelessdl_command("check", str(own))
    assert found.code == (0 if complete else 2)
    assert complete or "network.map has no axes: call super().__init__" in found.err


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [
        ("indoors", "None", "own.py:Own.indoors returned NoneType, expected (6,), True or False per point"),
        ("obstructed", "links.distance_m", "own.py:Own.obstructed returned float64, expected (30,), True or False"),
        ("obstructed", "links.rx > links.tx", "own.py:Own.obstructed returned False for link 1 -> 0 and True for the"),
        ("buildings", "[[0, 1, np.nan, 2]]", "own.py:Own.buildings returned nan, expected finite numbers (1 of 4)"),
        ("buildings", "[[0, 5, 20, 20]]", None),
        ("buildings", "[]", None),
    ],
)
def test_what_a_map_of_the_users_answers_is_checked(wirelessdl_command, tmp_path, method, answer, words):
    (tmp_path / "own.py").write_text(OWN_MAP.format(**{**ANSWERS, method: answer}))
    file, figure = city(tmp_path, map="own.py:Own", placement="line"), tmp_path / "city.png"
    found = wirelessdl_command("channel", str(file), "--figure", str(figure))
    if words is None:
        assert found.code == 0
        assert figure.stat().st_size > 0
        return
    assert found.code == 2
    assert words in found.err, found.err
    assert "Traceback" not in found.err
