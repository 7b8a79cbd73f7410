"""Traffic of SUMO: who is where and when, who is not there, buildings; with the real package in the slow tier."""

import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from in_process import quick_table

import wirelessdl
from wirelessdl.errors import ScenarioError
from wirelessdl.links import Geometry, Links
from wirelessdl.network.mobility.fcd import SumoFcd
from wirelessdl.network.streets import SumoPolygons
from wirelessdl.scenario.loader import parse_scenario

ROOT = Path(__file__).resolve().parent.parent.parent
FCD = """<?xml version="1.0"?>
<fcd-export>
  <timestep time="10.00"><vehicle id="a" x="0" y="0" angle="90"/><person id="w" x="5" y="5"/></timestep>
  <timestep time="11.00"><vehicle id="a" x="10" y="0"/><vehicle id="b" x="0" y="2"/><person id="w" x="5" y="5"/>
  </timestep>
  <timestep time="12.00"><vehicle id="a" x="20" y="4"/><vehicle id="b" x="0" y="2"/></timestep>
  <timestep time="13.00"><vehicle id="b" x="9" y="2"/><person id="w" x="8" y="9"/></timestep>
</fcd-export>
"""


def traffic(tmp_path, text=FCD, *, nodes=3, name="t.xml", **keys):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return SumoFcd(np.zeros((nodes, 3)), lambda given: tmp_path / given, name, **keys)


@pytest.mark.parametrize("name", ["t.xml", "t.xml.gz"])
def test_nodes_come_in_order_and_go_straight_from_record_to_record(tmp_path, name):
    mobility = traffic(tmp_path, name=name)
    assert mobility.ids == ("a", "w", "b")
    half = mobility.geometry(1.5)
    assert half.position_m.tolist() == [[15, 2, 1.6], [5.75, 6, 1.5], [0, 2, 1.6]]  # w is away from 12 to 13
    assert half.velocity_mps[0].tolist() == [10, 4, 0]
    assert mobility.geometry(0.0).position_m[2].tolist() == [0, 2, 1.6]  # where it will appear
    assert mobility.geometry(99.0).position_m[0].tolist() == [20, 4, 1.6]  # where it was last
    assert not mobility.geometry(99.0).velocity_mps.any()


def test_who_has_not_departed_has_arrived_or_is_missing_is_away(tmp_path):
    mobility = traffic(tmp_path)
    assert [mobility.outages(node) for node in range(3)] == [[(3.0, np.inf)], [(2.0, 1.0)], [(0.0, 1.0)]]
    later = traffic(tmp_path, nodes=2, from_s=11.5, who="vehicles")
    assert later.ids == ("a", "b")
    assert later.geometry(0.0).position_m[0].tolist() == [15, 2, 1.6]
    assert [later.outages(node) for node in range(2)] == [[(1.5, np.inf)], []]


def test_persons_and_vehicles_are_chosen(tmp_path):
    assert traffic(tmp_path, nodes=1, who="persons", person_height_m=1.2).geometry(0.0).position_m[0, 2] == 1.2
    assert traffic(tmp_path, nodes=2, who="vehicles").ids == ("a", "b")


def test_nodes_at_one_point_stand_beside_each_other(tmp_path):
    together = FCD.replace('id="w" x="5" y="5"', 'id="w" x="0" y="0"')
    mobility = traffic(tmp_path, together, person_height_m=1.6)
    place = mobility.geometry(0.0).position_m
    assert place[0].tolist() == [0, 0, 1.6]
    assert place[1].tolist() == [0.5, 0, 1.6]


def test_an_ns2_file_may_have_nodes_at_one_point(tmp_path):
    lines = [f"$node_({node}) set {axis}_ 7.0" for node in range(3) for axis in "XY"]
    (tmp_path / "walk.tcl").write_text("\n".join([*lines, '$ns_ at 1.0 "$node_(0) setdest 30.0 7.0 2.0"']))
    table = quick_table(network={"nodes": 3, "mobility": {"kind": "waypoints", "file": str(tmp_path / "walk.tcl")}})
    run = wirelessdl.simulate(parse_scenario(table), out=None)
    assert sorted(run.nodes.query("round == 1")["x_m"]) == [7.0, 7.5, 8.0]


def test_departures_and_arrivals_are_outages_of_a_run(tmp_path):
    (tmp_path / "t.xml").write_text(FCD)
    network = {"nodes": 3, "mobility": {"kind": "sumo-fcd", "file": str(tmp_path / "t.xml")}}
    time = {"compute": {"kind": "constant", "seconds": 0.25}}
    run = wirelessdl.simulate(
        parse_scenario(quick_table(network=network, time=time, scenario={"rounds": 16})), out=None
    )
    said = run.events[run.events["kind"].isin(["crash", "rejoin"])]
    assert list(zip(said["time_s"], said["node"], said["kind"])) == [
        (0.0, 2, "crash"), (1.0, 2, "rejoin"), (2.0, 1, "crash"), (3.0, 0, "crash"), (3.0, 1, "rejoin"),
    ]  # fmt: skip
    opened = run.rounds.set_index("round")["opened_s"]
    sent = run.nodes.query("node == 0")
    assert (sent["transmitted"].to_numpy() == (opened[sent["round"]] < 3.0).to_numpy()).all()


def test_motion_is_exported_for_ns3_and_is_the_same_when_it_is_read(tmp_path):
    from wirelessdl.network.mobility.waypoint_files import Waypoints, write_ns2

    time_s, mobility = np.array([0.0, 0.5, 1.5, 2.25]), traffic(tmp_path)
    places = np.stack([mobility.geometry(at).position_m for at in time_s.tolist()])
    with (tmp_path / "motion.tcl").open("wb") as file:
        write_ns2(file, time_s, places)
    again = Waypoints(np.ones((3, 3)), lambda name: tmp_path / name, file="motion.tcl")
    for at, place in zip(time_s.tolist(), places):
        assert again.geometry(at).position_m == pytest.approx(place, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "keys", "words"),
    [
        ("<routes/>", {}, "begins with <routes>, must begin with <fcd-export>"),
        ("<fcd-export><timestep", {}, r"line 1: no XML"),
        (FCD.replace('time="12.00"', 'time="10.50"'), {}, "timestep 10.5 follows 11; times must increase"),
        (FCD.replace("person", "vehicle"), {"who": "persons"}, 'has no persons: it has only others; set who = "all"'),
        ("<fcd-export></fcd-export>", {}, "has no vehicles or persons: write it with --fcd-output"),
        (FCD.replace('x="10"', 'x="inf"'), {}, 'x of vehicle a at time 11 is "inf"; must be a finite number'),
        (FCD.replace('x="10"', 'z="10"'), {}, 'x of vehicle a at time 11 is ""'),
        (FCD, {"nodes": 4}, r"has 3 vehicles or persons from 10 s on, network.nodes is 4: lower it"),
        (FCD.replace('timestep time="12.00"', "timestep"), {}, 'time of a timestep is ""; must be a finite number'),
        (FCD.replace('id="b"', 'id="a"'), {}, 'vehicle "a" is twice at time 11; ids must differ'),
        ('<?xml version="1.0" encoding="none"?>' + FCD, {}, "no XML: unknown encoding: none: save it as UTF-8"),
        ('<?xml version="1.0" encoding="utf-7"?>' + FCD, {}, "no XML: multi-byte encodings are not supported"),
        (FCD, {"from_s": 13.0}, "from_s is 13; the file goes from 10 to 13 s"),
    ],
)
def test_mistakes_in_a_file_are_one_line(tmp_path, text, keys, words):
    with pytest.raises(ValueError, match=words) as error:
        traffic(tmp_path, text, **keys)
    assert "\n" not in str(error.value)


def test_a_compressed_file_that_is_cut_off_is_one_line(tmp_path):
    (tmp_path / "t.xml.gz").write_bytes(gzip.compress(FCD.encode())[:-20])
    table = quick_table(network={"nodes": 3, "mobility": {"kind": "sumo-fcd", "file": str(tmp_path / "t.xml.gz")}})
    with pytest.raises(ScenarioError, match=r"network\.mobility\.file is .*cannot be read"):
        wirelessdl.simulate(parse_scenario(table), out=None)


SHAPES = """<additional>
  <poly id="l" type="building.yes" shape="0,0 30,0 30,10 10,10 10,30 0,30 0,0"/>
  <poly id="green" type="park" shape="40,40 50,40 50,50"/>
</additional>"""


def polygons(tmp_path, text=SHAPES, **keys):
    (tmp_path / "b.xml").write_text(text)
    return SumoPolygons(lambda given: tmp_path / given, "b.xml", **keys)


def test_links_cross_a_building_where_they_have_points_inside(tmp_path):
    streets = polygons(tmp_path)
    assert [outline.tolist()[0] for outline in streets.outlines()] == [[0, 0]]
    ends = {  # straight line: whether it crosses the L
        ((-5, 5), (40, 5)): True,
        ((20, 20), (40, 20)): False,  # in the nook
        ((20, 20), (20, -5)): True,
        ((10, 12), (10, 40)): False,  # along a wall
        ((-5, 35), (35, -5)): True,  # through both arms, and the nook's corner
        ((12, 28), (28, 12)): False,
        ((-5, -5), (-5, 40)): False,
        ((45, 35), (45, 60)): False,  # a park
    }
    for (start, end), crosses in ends.items():
        place = np.array([[*start, 1.5], [*end, 1.5]], dtype=float)
        links = Links.from_mask(~np.eye(2, dtype=bool), Geometry.at_rest(place))
        assert streets.obstructed(links).tolist() == [crosses, crosses], (start, end)


def test_crossing_agrees_with_a_walk_along_the_line(tmp_path):
    """The slow twin: a thousand points of each line."""
    streets, rng = polygons(tmp_path), np.random.default_rng(3)
    place = np.column_stack([rng.uniform(-10, 45, (30, 2)), np.full(30, 1.5)])
    links = Links.from_mask(~np.eye(30, dtype=bool), Geometry.at_rest(place))
    share = (np.arange(1000) + 0.5)[:, None] / 1000
    walked = [
        streets.indoors(place[rx, :2] * share + place[tx, :2] * (1 - share)).any() for rx, tx in zip(links.rx, links.tx)
    ]
    crossed = streets.obstructed(links)
    assert (crossed >= walked).all()
    assert np.mean(crossed != walked) < 0.005  # lines that touch a corner by less than a step
    assert 0.2 < np.mean(crossed) < 0.8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SHAPES.replace("building.yes", "house"), "has no poly of type building; types there: house, park"),
        (SHAPES.replace("30,0 30,10", "30,0 30"), 'shape of poly "l" must be three or more corners'),
        ("<additional>", "no XML"),
        ("<net/>", "has no poly of type building; types there: none"),
    ],
)
def test_mistakes_in_polygons_are_one_line(tmp_path, text, words):
    with pytest.raises(ValueError, match=words):
        polygons(tmp_path, text)


def test_the_recorded_crossing_is_what_sumo_writes(tmp_path):
    """With the package: the script that is shipped makes the file that is shipped."""
    if not os.environ.get("SUMO_HOME") and importlib.util.find_spec("sumo") is None:
        pytest.skip("SUMO is not installed: pip install eclipse-sumo==1.28.0")
    traces = ROOT / "scenarios" / "traces"
    copy = shutil.copy(traces / "record_sumo_crossing.py", tmp_path)
    subprocess.run([sys.executable, copy], check=True, capture_output=True)
    made, kept = ((folder / "crossing_sumo.fcd.xml.gz").read_bytes() for folder in (tmp_path, traces))
    assert gzip.decompress(made) == gzip.decompress(kept)
    mobility = SumoFcd(np.zeros((16, 3)), lambda name: tmp_path / name, "crossing_sumo.fcd.xml.gz")
    assert sum(name.startswith("walker") for name in mobility.ids) >= 2
    away = [mobility.outages(node) for node in range(16)]
    assert sum(bool(one) and one[0][0] == 0.0 for one in away) == 6
    assert sum(bool(one) and one[-1][1] == np.inf for one in away) == 2
