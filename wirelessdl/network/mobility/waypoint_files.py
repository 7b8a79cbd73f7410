"""Waypoints from a file: straight lines between given places at given times.

CSV, with a header; columns in any order, `#` begins a comment. A node holds its last place.

    time_s,node,x_m,y_m,z_m
    0,0,10,20,1.5
    12.5,0,30,20,1.5

ns-2 (what `setdest`, BonnMotion and SUMO's traceExporter write). A node goes to its destination at the
given speed and stays; a new destination before arrival redirects it from where it is; speed 0 stops it.

    $node_(0) set X_ 12.0
    $node_(0) set Y_ 5.0
    $node_(0) set Z_ 0.0
    $ns_ at 1.5 "$node_(0) setdest 20.0 30.0 4.2"

Nodes that an ns-2 file has at one point stand half a metre beside each other: a link needs a length.
"""

import re
from collections.abc import Sequence
from typing import IO, Literal

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Geometry, Motion
from wirelessdl.network.mobility.paths import Paths, side_by_side
from wirelessdl.network.parameters import FindFile, checked_time, content_lines, fault, number, read_table, read_text

# begin, place and velocity of one leg
_Leg = tuple[float, FloatArray, FloatArray]

_SET = re.compile(r"\$node_\((\w+)\)\s+set\s+([XYZ])_\s+(\S+)")
_GO = re.compile(r'\$\w+\s+at\s+(\S+)\s+"\$node_\((\w+)\)\s+setdest\s+(\S+)\s+(\S+)\s+([^\s"]+)\s*"')
_NOT_MOTION = re.compile(r'(set\s|puts\s|\$god_\s|\$\w+\s+at\s+\S+\s+"\$god_\s)')  # other lines those tools write


class Waypoints:
    """Places at times from a CSV or ns-2 file; the file, not the placement, says where nodes start."""

    def __init__(
        self,
        start_m: FloatArray,
        find_file: FindFile,
        file: str,
        format: Literal["auto", "csv", "ns2"] = "auto",
    ):
        if format == "auto":
            lines = content_lines(read_text(file, find_file))
            format = "ns2" if any("$node_" in line for _, line in lines) else "csv"
        self._csv = format == "csv"
        read = _read_csv if self._csv else _read_ns2
        legs = read(file, find_file, start_m[:, 2])
        low = min((leg[1][2], node) for node, own in enumerate(legs) for leg in own)
        if low[0] <= 0:
            raise ValueError(f'file is "{file}"; node {low[1]} gets a height of {low[0]:g} m; must be > 0')
        most = max(map(len, legs))
        begin = np.full((most, len(legs)), np.inf)
        origin, velocity = np.zeros((2, most, len(legs), 3))
        for node, own in enumerate(legs):
            for n, leg in enumerate(own):
                begin[n, node], origin[n, node], velocity[n, node] = leg
        self._paths = Paths(begin, origin, velocity)

    def geometry(self, time_s: float) -> Geometry:
        return self.motion((time_s,)).at(0)

    def motion(self, times_s: Sequence[float]) -> Motion:
        found = self._paths.motion(np.array([checked_time(time_s) for time_s in times_s]))
        # SUMO's traceExporter lets those who depart later wait at one point
        return found if self._csv else Motion(side_by_side(found.position_m), found.velocity_mps)


def _read_csv(file: str, find_file: FindFile, height_m: FloatArray) -> list[list[_Leg]]:
    table = read_table(file, find_file, ("time_s", "node", "x_m", "y_m"), ("z_m",))
    nodes = table.nodes(len(height_m))
    columns = table.columns
    height = columns.get("z_m", height_m[nodes])
    place, time = np.column_stack([columns["x_m"], columns["y_m"], height]), columns["time_s"]
    legs: list[list[_Leg]] = []
    by_node = np.argsort(nodes, kind="stable")
    for node, row in enumerate(np.split(by_node, np.cumsum(np.bincount(nodes))[:-1])):
        late = np.flatnonzero(np.diff(time[row]) <= 0)
        if len(late):
            before, after = time[row[late[0]]], time[row[late[0] + 1]]
            line = int(table.line[row[late[0] + 1]])
            raise fault(file, line, f"time_s of node {node} is {after:g} after {before:g}; times must increase")
        if time[row[0]] > 0:
            line = int(table.line[row[0]])
            raise fault(
                file, line, f"node {node} begins at time_s {time[row[0]]:g}; must begin at 0: give its place then"
            )
        way, took = np.diff(place[row], axis=0), np.diff(time[row])
        velocity = np.concatenate([way / took[:, None], np.zeros((1, 3))])
        legs.append(list(zip(time[row].tolist(), place[row], velocity)))
    return legs


def _read_ns2(file: str, find_file: FindFile, height_m: FloatArray) -> list[list[_Leg]]:
    nodes = len(height_m)
    places: list[dict[str, float]] = [{} for _ in range(nodes)]
    goings: list[list[tuple[float, int, float, float, float]]] = [[] for _ in range(nodes)]
    for line, text in content_lines(read_text(file, find_file)):
        if found := _SET.fullmatch(text):
            node = _node(file, line, found[1], nodes)
            places[node][found[2]] = number(file, line, f"{found[2]}_ of node {node}", found[3])
        elif found := _GO.fullmatch(text):
            node = _node(file, line, found[2], nodes)
            names = ("time", "x", "y", "speed")
            cells = (found[1], found[3], found[4], found[5])
            time, x, y, speed = (number(file, line, f"{n} of node {node}", cell) for n, cell in zip(names, cells))
            for name, value in (("time", time), ("speed", speed)):
                if value < 0:
                    raise fault(file, line, f"{name} of node {node} is {value:g}; must be >= 0")
            goings[node].append((time, line, x, y, speed))
        elif not _NOT_MOTION.match(text):
            raise fault(
                file, line, 'not understood; lines set X_, Y_, Z_ of a node or say $ns_ at T "$node_(i) setdest x y v"'
            )
    legs = []
    for node, (place, going) in enumerate(zip(places, goings)):
        for axis in "XY":
            if axis not in place:
                raise ValueError(f'file is "{file}"; {axis}_ of node {node} is not set; network.nodes is {nodes}')
        # ns-2 writes a height of 0 for a plane: then the height is the placement's
        start = np.array([place["X"], place["Y"], place.get("Z", 0.0) or height_m[node]])
        legs.append(_driven(start, sorted(going)))
    return legs


def write_ns2(file: IO[bytes], time_s: FloatArray, position_m: FloatArray) -> None:
    """Motion for ns-3's Ns2MobilityHelper: straight lines between places `[instants, K, 3]`, at their first heights."""
    lines = [
        f"$node_({node}) set {axis}_ {value:.6f}"
        for node, place in enumerate(position_m[0].tolist())
        for axis, value in zip("XYZ", place)
    ]
    for begin, end, here, there in zip(time_s[:-1], time_s[1:], position_m[:-1, :, :2], position_m[1:, :, :2]):
        for node, way in enumerate(np.linalg.norm(there - here, axis=1).tolist()):
            if way > 0:
                x, y = there[node].tolist()
                speed = way / (end - begin)
                lines.append(f'$ns_ at {begin:.9f} "$node_({node}) setdest {x:.6f} {y:.6f} {speed:.9f}"')
    file.write("\n".join([*lines, ""]).encode())


def _driven(start: FloatArray, going: list[tuple[float, int, float, float, float]]) -> list[_Leg]:
    """Legs of one node that is sent to one destination after another."""
    rest = np.zeros(3)
    legs: list[_Leg] = [(0.0, start, rest)]
    arrival = np.inf  # of the leg under way, at `target`
    target = start
    for time, _, x, y, speed in going:
        if arrival <= time:
            legs.append((arrival, target, rest))
        begin, origin, velocity = legs[-1]
        here = origin + velocity * (time - begin)
        target = np.array([x, y, start[2]])
        distance = float(np.linalg.norm(target - here))
        moving = speed > 0 and distance > 0
        arrival = time + distance / speed if moving else np.inf
        legs.append((time, here, (target - here) / distance * speed if moving else rest))
    if np.isfinite(arrival):
        legs.append((arrival, target, rest))
    return legs


def _node(file: str, line: int, cell: str, nodes: int) -> int:
    if not cell.isdecimal() or int(cell) >= nodes:
        raise fault(file, line, f"node is {cell}; network.nodes is {nodes}: nodes are numbered from 0 to {nodes - 1}")
    return int(cell)
