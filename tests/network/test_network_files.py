"""Waypoints and graphs from files, and network parts of scenarios: what is read, what is refused."""

import json
import math
import re
import tomllib

import networkx
import numpy as np
import pytest
import tomli_w
from conftest import ROOT, refusal, tiny, tiny_table

import wirelessdl
from wirelessdl.links import Geometry
from wirelessdl.network.mobility import MOBILITIES
from wirelessdl.network.mobility.waypoint_files import Waypoints
from wirelessdl.network.placement import PLACEMENTS
from wirelessdl.network.streets import MAPS
from wirelessdl.network.topology import TOPOLOGIES, require_connected
from wirelessdl.network.topology.graphs import EdgeList, GraphFile
from wirelessdl.run.build import build

NS2 = """
# written by hand
set val(nn) 2
$god_ set-dist 0 1 1
$node_(0) set X_ 0.0
$node_(0) set Y_ 0.0
$node_(0) set Z_ 0.0
$node_(1) set X_ 100.0
$node_(1) set Y_ 50.0
$node_(1) set Z_ 7.5
$ns_ at 1.0 "$node_(0) setdest 30.0 40.0 5.0"
$ns_ at 20.0 "$node_(0) setdest 30.0 140.0 10.0"
$ns_ at 25.0 "$node_(0) setdest 130.0 90.0 10.0"  # before arrival: from (30, 90)
$ns_ at 29.0 "$node_(0) setdest 0.0 0.0 0.0"
"""


@pytest.fixture
def waypoints(tmp_path):
    def make(text, nodes=2, **parameters):
        (tmp_path / "motion").write_text(text)
        start = np.column_stack([np.arange(nodes), np.zeros(nodes), np.full(nodes, 1.5)])
        return Waypoints(start, lambda name: tmp_path / name, file="motion", **parameters)

    return make


def test_csv_waypoints_are_joined_by_lines_and_the_last_is_held(waypoints):
    text = "node,time_s,x_m,y_m,z_m\n0,0,0,0,1\n1,-5,0,10,2\n0,10,50,0,6\n1,5,0,20,2\n0,11,50,8,6\n"
    mobility = waypoints(text)
    for time, position, velocity in [
        (0.0, [[0, 0, 1], [0, 15, 2]], [[5, 0, 0.5], [0, 1, 0]]),
        (5.0, [[25, 0, 3.5], [0, 20, 2]], [[5, 0, 0.5], [0, 0, 0]]),
        (10.5, [[50, 4, 6], [0, 20, 2]], [[0, 8, 0], [0, 0, 0]]),
        (99.0, [[50, 8, 6], [0, 20, 2]], [[0, 0, 0], [0, 0, 0]]),
    ]:
        geometry = mobility.geometry(time)
        np.testing.assert_allclose(geometry.position_m, position, atol=1e-12)
        np.testing.assert_allclose(geometry.velocity_mps, velocity, atol=1e-12)


def test_ns2_nodes_go_where_they_are_sent(waypoints):
    mobility = waypoints(NS2)
    for time, place, velocity in [
        (0.5, (0, 0), (0, 0)),
        (6.0, (15, 20), (3, 4)),
        (11.0, (30, 40), (0, 0)),
        (15.0, (30, 40), (0, 0)),
        (22.0, (30, 60), (0, 10)),
        (27.0, (50, 90), (10, 0)),  # redirected from where it was
        (40.0, (70, 90), (0, 0)),  # stopped by speed 0
    ]:
        geometry = mobility.geometry(time)
        np.testing.assert_allclose(geometry.position_m[0], [*place, 1.5], atol=1e-9)  # Z_ 0 means the placement's
        np.testing.assert_allclose(geometry.velocity_mps[0], [*velocity, 0], atol=1e-9)
        np.testing.assert_array_equal(geometry.position_m[1], [100, 50, 7.5])


def test_ns2_equals_small_steps_of_a_node_that_drives(waypoints):
    """Random orders, some given before arrival, against a node that heads for the latest in steps of a millisecond."""
    generator, step = np.random.default_rng(0), 1e-3
    orders = [
        (round(t, 3), *generator.uniform(0, 50, 2), generator.uniform(0, 20)) for t in np.cumsum(generator.random(9))
    ]
    text = "$node_(0) set X_ 3\n$node_(0) set Y_ 4\n" + "".join(
        f'$ns_ at {t} "$node_(0) setdest {x} {y} {v}"\n' for t, x, y, v in orders[::-1]
    )
    mobility = waypoints(text, nodes=1)
    here, order = np.array([3.0, 4.0]), None
    for tick in range(9000):
        order = next((o for o in reversed(orders) if o[0] <= tick * step + 1e-9), None)
        if order is not None:
            way = np.array(order[1:3]) - here
            far = np.linalg.norm(way)
            here = here + way * min(1.0, order[3] * step / far) if far > 0 else here
        if tick % 500 == 0:
            np.testing.assert_allclose(mobility.geometry((tick + 1) * step).position_m[0, :2], here, atol=1e-6)


GOOD = "time_s,node,x_m,y_m\n0,0,1,2\n0,1,3,4\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time_s,node,x_m,y_m\n0,0,1,2\n", 'file is "motion"; it says nothing of node 1; network.nodes is 2'),
        (GOOD + "0,0,5,6\n", "line 4: time_s of node 0 is 0 after 0; times must increase"),
        (GOOD + "5,1,5,6\n3,1,5,6\n", "line 5: time_s of node 1 is 3 after 5; times must increase"),
        ("time_s,node,x_m,y_m\n0,0,1,2\n4,1,3,4\n", "line 3: node 1 begins at time_s 4; must begin at 0"),
        (GOOD + "5,2,5,6\n", "line 4: node is 2; network.nodes is 2"),
        (GOOD + "5,0.5,5,6\n", "line 4: node is 0.5; network.nodes is 2"),
        (GOOD + "5,0,,6\n", 'line 4: x_m is ""; must be a finite number'),
        ("time_s,node,x_m,y_m,z_m\n0,0,1,2,3\n0,1,3,4,0\n", "node 1 gets a height of 0 m; must be > 0"),
        ("time,node,x_m,y_m\n", 'line 1: no such column "time"; did you mean time_s?'),
        ("$node_(0) set X_ 1\n$node_(0) set Y_ 1\n", "X_ of node 1 is not set; network.nodes is 2"),
        ("$node_(0) set X_ 1\n$node_(1) set X_ 1\n", "Y_ of node 0 is not set"),
        ("$node_(2) set X_ 1\n", "line 1: node is 2; network.nodes is 2: nodes are numbered from 0 to 1"),
        ("$node_(a) set X_ 1\n", "line 1: node is a; network.nodes is 2"),
        ("$node_(0) set X_ far\n", 'line 1: X_ of node 0 is "far"; must be a finite number'),
        (NS2 + '$ns_ at 30.0 "$node_(0) setdest 1 1 -2"\n', "line 15: speed of node 0 is -2; must be >= 0"),
        (NS2 + '$ns_ at 30.0 "$node_(0) sedtest 1 1 2"\n', "line 15: not understood"),
    ],
)
def test_mistakes_in_waypoint_files_are_named(text, words, waypoints):
    with pytest.raises(ValueError) as caught:
        waypoints(text)
    assert words in str(caught.value)


# --- graphs


@pytest.fixture
def graph(tmp_path):
    def make(kind, text, nodes, name="graph.txt"):
        (tmp_path / name).write_text(text)
        topology = kind(lambda name: tmp_path / name, file=name)
        links = topology.links(Geometry.at_rest(np.zeros((nodes, 3))), None, None)
        require_connected(links, topology)
        return sorted(zip(links.tx.tolist(), links.rx.tolist()))

    return make


@pytest.mark.parametrize("text", ["0,1\n1,2\n", "0 1\n2\t1 # back\n\n", "from,to\n0;1\n1;2\n1;1\n", "0 1 {}\n1 2 {}\n"])
def test_edge_lists_join_both_ways(text, graph):
    assert graph(EdgeList, text, 3) == [(0, 1), (1, 0), (1, 2), (2, 1)]


def test_edge_lists_with_a_header_are_one_way(graph):
    assert graph(EdgeList, "tx,rx\n0,1\n1,2\n2,0\n", 3) == [(0, 1), (1, 2), (2, 0)]
    assert graph(EdgeList, "rx,tx\n0,1\n1,2\n2,0\n", 3) == [(0, 2), (1, 0), (2, 1)]


def written(graph, kind):
    if kind == "graphml":
        return "\n".join(networkx.generate_graphml(graph))
    return json.dumps(networkx.node_link_data(graph, edges=kind))


@pytest.mark.parametrize(("kind", "name"), [("graphml", "g.graphml"), ("links", "g.json"), ("edges", "g.json")])
def test_networkx_graphs_are_read(kind, name, graph):
    one_way = networkx.DiGraph([(1, 0), (0, 2), (2, 1), (2, 2)])  # nodes in another order; a loop, which is left out
    assert graph(GraphFile, written(one_way, kind), 3, name) == [(0, 2), (1, 0), (2, 1)]
    both_ways = networkx.Graph([("b", "a"), ("a", "c")])  # names: numbered in the order of the file
    assert graph(GraphFile, written(both_ways, kind), 3, name) == [(0, 1), (1, 0), (1, 2), (2, 1)]


@pytest.mark.parametrize(
    ("kind", "name", "text", "words"),
    [
        (EdgeList, "e.txt", "0,1\n1,3\n", 'file is "e.txt"; line 2: node 3; network.nodes is 3'),
        (EdgeList, "e.txt", "0,1\n", "it links 2 nodes, without 2; network.nodes is 3"),
        (EdgeList, "e.txt", "0,1\n1,2,0.5\n", 'line 2: "1,2,0.5" must be two node numbers, like 0,1'),
        (EdgeList, "e.txt", "0,1\n1,-2\n", 'line 2: "1,-2" must be two node numbers'),
        (EdgeList, "e.txt", "tx,rx,weight\n0,1,1\n", "line 1: the header must name two columns"),
        (EdgeList, "e.txt", "tx,rx\n0,1\n1,0\n2,1\n", "links leave 2 parts"),
        (EdgeList, "e.txt", "", "it links 0 nodes"),
        (GraphFile, "g.json", written(networkx.path_graph(4), "links"), "its graph has 4 nodes; network.nodes is 3"),
        (
            GraphFile,
            "g.graphml",
            written(networkx.path_graph(2), "graphml"),
            "its graph has 2 nodes; network.nodes is 3",
        ),
        (GraphFile, "g.json", "{", 'file is "g.json"; must be GraphML, or node-link JSON in a .json file: JSONDecode'),
        (GraphFile, "g.json", "[]", "must be GraphML, or node-link JSON"),
        (GraphFile, "g.graphml", "0 1", "must be GraphML, or node-link JSON"),
    ],
)
def test_mistakes_in_graph_files_are_named(kind, name, text, words, graph):
    with pytest.raises(ValueError) as caught:
        graph(kind, text, 3, name)
    assert words in str(caught.value)


# --- in scenarios


MISTAKES = [
    (
        "network.mobility={kind='random-waypoint', speed_mps=[-1, 2]}",
        "network.mobility.speed_mps is [-1, 2]; must be > 0",
    ),
    ("network.mobility={kind='gauss-markov', alpha=1.5}", "network.mobility.alpha is 1.5; must be <= 1"),
    ("network.mobility={kind='waypoints', file='gone.csv'}", 'network.mobility.file is "gone.csv"; no such file in'),
    (
        "network.mobility={kind='waypoints', file='same.csv'}",
        "network.mobility.positions of nodes 0 and 1 are both (1, 2",
    ),
    (
        "network.mobility={kind='waypoints', file='binary'}",
        'network.mobility.file is "binary"; must be a text in UTF-8',
    ),
    ("network.topology={kind='range', range_m=1}", "network.topology.links leave 4 parts"),
    ("network.placement={kind='disc', height_m=0}", "network.placement.height_m is 0; must be"),
    ("network.placement={kind='file', file='sites.csv'}", 'network.placement.file is "sites.csv"; it has 2 rows'),
]


@pytest.mark.parametrize(("override", "words"), MISTAKES)
def test_mistakes_are_one_line(override, words, tmp_path):
    (tmp_path / "x.toml").write_text(tomli_w.dumps(tiny_table(channel={"models": ["friis"]})))
    (tmp_path / "same.csv").write_text("time_s,node,x_m,y_m\n0,0,1,2\n0,1,1,2\n0,2,3,3\n0,3,3,5\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "sites.csv").write_text("x_m,y_m\n1,2\n3,4\n")
    assert words in refusal(tmp_path / "x.toml", override)


@pytest.mark.parametrize(
    "network",
    [
        {"mobility": {"kind": "random-waypoint", "speed_mps": [0.5, 1.5], "pause_s": 3}},
        {
            "mobility": {"kind": "gauss-markov", "heights_m": [10, 40], "area_m": [400, 400]},
            "placement": {"kind": "disc", "height_m": [10, 40]},
        },
        {"mobility": {"kind": "track", "path_m": [[0, 0], [100, 0], [100, 80]], "lanes": 2, "both_ways": True}},
        {"mobility": {"kind": "waypoints", "file": "walks.tcl"}, "topology": {"kind": "edge-list", "file": "e.csv"}},
        {"placement": {"kind": "cluster"}, "topology": {"kind": "snr", "min_snr_db": -50}},
    ],
    ids=lambda network: "-".join(part["kind"] for part in network.values()),
)
def test_networks_run_and_run_again_from_their_own_folder(network, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    (home / "walks.tcl").write_text(
        "".join(f"$node_({k}) set {axis}_ {9 * k + n}\n" for k in range(4) for n, axis in enumerate("XY"))
        + '$ns_ at 0.0 "$node_(0) setdest 30.0 40.0 5.0"\n'
    )
    (home / "e.csv").write_text("0,1\n1,2\n2,3\n3,0\n")
    (home / "x.toml").write_text(tomli_w.dumps(tiny_table(network=network, channel={"models": ["friis"]})))
    monkeypatch.chdir(home)
    one = wirelessdl.simulate(wirelessdl.load_scenario("x.toml"), out=tmp_path / "out")
    for key, part in network.items():
        for name, value in part.items():
            assert one.scenario["network"][key][name] == value
    monkeypatch.chdir(tmp_path)
    if "waypoints" in str(network):
        assert set(one.provenance["user_files"]) == {"walks.tcl", "e.csv"}
        (home / "walks.tcl").unlink()
    again = wirelessdl.simulate(wirelessdl.load_scenario(one.path / "scenario.toml"), out=tmp_path / "again")
    assert one.nodes.equals(again.nodes)
    assert math.isfinite(one.rounds["accuracy_mean"].iloc[-1])


PAGE = (ROOT / "docs" / "network.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^((?:map|placement|mobility|topology) = \{.*\})$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_of_the_page_build(line, tmp_path, monkeypatch):
    """Every example line, with files as the page prints them."""
    texts = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    begins = {"sites.csv": "x_m", "walks.csv": "time_s", "scenario.tcl": "$node", "links.csv": "tx"}
    for name, begin in begins.items():
        (tmp_path / name).write_text(next(text for text in texts if text.startswith(begin)))
    networkx.write_graphml(networkx.path_graph(20), tmp_path / "graph.graphml")
    monkeypatch.chdir(tmp_path)
    network = {"nodes": 20, **tomllib.loads(line)}
    if "streets" in line or "manhattan" in line:
        network = {"map": "manhattan", "placement": "streets", **network}
    if "sumo-polygons" in line:  # nodes that keep out of these buildings
        network["mobility"] = {"kind": "sumo-fcd", "file": "scenarios/traces/crossing_sumo.fcd.xml.gz"}
    needed = {"sites.csv": 2, "walks.csv": 2, "scenario.tcl": 1, "links.csv": 3}
    nodes = next((count for name, count in needed.items() if name in line), 20)
    if nodes > 1:
        build(tiny(network={**network, "nodes": nodes}, channel={"models": ["friis"]}))
    else:  # the page moves one node, and a network has two
        Waypoints(np.array([[0.0, 0.0, 1.5]]), lambda name: tmp_path / name, file="scenario.tcl", format="ns2")


def test_the_page_shows_every_kind():
    shown = {kind for line in EXAMPLES for kind in re.findall(r'kind = "([\w-]+)"', line)}
    assert shown == {*MOBILITIES, *PLACEMENTS, *TOPOLOGIES, *MAPS}


def test_motion_is_the_runs_own_and_placement_the_worlds():
    def at(run, time):
        network = {"mobility": {"kind": "random-walk", "speed_mps": 5.0}}
        return build(tiny(network=network, scenario={"run": run})).mobility.geometry(time).position_m

    np.testing.assert_array_equal(at(1, 0.0), at(2, 0.0))
    np.testing.assert_array_equal(at(1, 9.0), at(1, 9.0))
    assert (at(1, 9.0)[:, :2] != at(2, 9.0)[:, :2]).all()
