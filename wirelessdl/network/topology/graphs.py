"""Graphs that do not depend on distance: deterministic, random, or from a file.

Random ones are redrawn until connected, as in the paper. Links go both ways, but where a file says otherwise:

    edge-list    two node numbers a line, apart by comma, semicolon or blanks; `#` begins a comment. A header
                 `tx,rx` makes them one-way, first sends and second hears; else pairs are joined both ways
    graph-file   GraphML (.graphml, .xml) or networkx node-link JSON (.json); edges of a directed graph point
                 from sender to receiver

Nodes are numbered from 0. `networkx.write_edgelist(graph, path)` writes an edge list. A graph file whose labels are no
numbers gives them in the order of its nodes.
An edge from a node to itself is left out: every node keeps its own model anyway.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import numpy as np
from annotated_types import Ge, Interval

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.links import Geometry, Links
from wirelessdl.network.parameters import FindFile, content_lines, fault, format_nodes, read_text

SnrDb: TypeAlias = Callable[[Links], FloatArray]  # mean SNR of candidate links
_MAX_DENSE_NODES = 2000  # nodes up to which every pair is drawn
Tries = Annotated[int, Interval(ge=1, le=100_000)]


class NoLinks:
    """No links at all: every node learns from its own data, and nothing is sent."""

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        nobody = np.zeros(0, dtype=np.int64)
        return Links(nobody, nobody, geometry)


class Full:
    """Every node hears every other node."""

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        return Links.from_mask(np.ones((geometry.nodes, geometry.nodes), dtype=bool), geometry)


class Ring:
    """Each node hears the `reach` nearest on either side, in node order."""

    def __init__(self, reach: Annotated[int, Ge(1)] = 1):
        self.reach = reach

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        node = np.arange(geometry.nodes)
        step = np.arange(1, min(self.reach, geometry.nodes // 2) + 1)
        after = (node[:, None] + step) % geometry.nodes
        return Links.from_pairs(np.repeat(node, len(step)), after.ravel(), geometry, both_ways=True)


class Star:
    """The hub and every other node hear each other; no other links."""

    def __init__(self, hub: Annotated[int, Ge(0)] = 0):
        self.hub = hub

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        if self.hub >= geometry.nodes:
            raise ValueError(f"hub is {self.hub}; nodes are numbered from 0 to {geometry.nodes - 1}")
        leaf = np.arange(geometry.nodes)
        return Links.from_pairs(leaf, np.full_like(leaf, self.hub), geometry, both_ways=True)


class ErdosRenyi:
    """Each pair is joined, both ways, with probability p; redrawn until connected, as in the paper.

    Up to 2,000 nodes one number is drawn for every pair; beyond, the gaps between pairs that are joined, which takes
    time and memory of the links and gives other graphs.
    """

    def __init__(self, p: Annotated[float, Interval(gt=0, le=1)], tries: Tries = 1000):
        self.p, self.tries = p, tries

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        nodes = geometry.nodes
        draw = self._by_pairs if nodes <= _MAX_DENSE_NODES else self._by_gaps
        remedy = f"raise p well above ln(K)/K = {math.log(nodes) / nodes:.2g}"
        return _connected(lambda: draw(geometry, rng), self.tries, f"p is {self.p:g}", remedy)

    def _by_pairs(self, geometry: Geometry, rng: np.random.Generator) -> Links:
        upper = np.triu(rng.random((geometry.nodes, geometry.nodes)) < self.p, k=1)
        return Links.from_mask(upper | upper.T, geometry)

    def _by_gaps(self, geometry: Geometry, rng: np.random.Generator) -> Links:
        """The same law: from one joined pair to the next it is a geometric number of pairs (Batagelj, Brandes 2005)."""
        pairs = geometry.nodes * (geometry.nodes - 1) // 2
        at_once = int(1.05 * self.p * pairs) + 1000
        found, last = [], -1
        while last < pairs:
            place = last + np.cumsum(rng.geometric(self.p, at_once))
            found.append(place)
            last = int(place[-1])
        place = np.concatenate(found)
        place = place[place < pairs]
        # pairs in order of their higher end: high (high - 1) / 2 + low
        high = ((1.0 + np.sqrt(1.0 + 8.0 * place.astype(np.float64))) / 2.0).astype(np.int64)
        high -= high * (high - 1) // 2 > place  # the root may round up, or down, to a whole number
        high += high * (high + 1) // 2 <= place
        return Links.from_pairs(place - high * (high - 1) // 2, high, geometry, both_ways=True)


class KRegular:
    """Uniform among graphs in which every node has `degree` neighbours (asymptotically); redrawn until connected."""

    def __init__(self, degree: Annotated[int, Ge(1)] = 4, tries: Tries = 1000):
        self.degree, self.tries = degree, tries

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        from networkx import random_regular_graph

        nodes = geometry.nodes
        if self.degree >= nodes:
            raise ValueError(
                f"degree is {self.degree}; {nodes} nodes have at most {nodes - 1} neighbours each: lower it"
            )
        if self.degree * nodes % 2:
            raise ValueError(
                f"degree is {self.degree}; degree times {nodes} nodes must be even, for each edge has two ends: "
                f"use degree {self.degree + 1 if self.degree + 1 < nodes else self.degree - 1}, or another node"
            )

        def draw() -> Links:
            return _joined(random_regular_graph(self.degree, nodes, seed=int(rng.integers(2**32))), geometry)

        return _connected(draw, self.tries, f"degree is {self.degree}", "use degree 3 or more")


class SmallWorld:
    """A ring with k neighbours each, edges rewired with probability p (Watts, Strogatz); redrawn until connected."""

    def __init__(
        self,
        k: Annotated[int, Ge(2)] = 4,
        p: Annotated[float, Interval(ge=0, le=1)] = 0.1,
        tries: Tries = 1000,
    ):
        if k % 2:
            raise ValueError(f"k is {k}; must be even, half on either side: use {k - 1} or {k + 1}")
        self.k, self.p, self.tries = k, p, tries

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        from networkx import watts_strogatz_graph

        nodes = geometry.nodes
        if self.k >= nodes:
            raise ValueError(f"k is {self.k}; {nodes} nodes have at most {nodes - 1} neighbours each: lower it")

        def draw() -> Links:
            return _joined(watts_strogatz_graph(nodes, self.k, self.p, seed=int(rng.integers(2**32))), geometry)

        return _connected(draw, self.tries, f"p is {self.p:g}", f"lower it, or raise k above {self.k}")


def _joined(graph: Any, geometry: Geometry) -> Links:
    """Both ways along every edge of a networkx graph."""
    edges = np.array(graph.edges, dtype=np.int64).reshape(-1, 2)
    return Links.from_pairs(edges[:, 0], edges[:, 1], geometry, both_ways=True)


def _connected(draw: Callable[[], Links], tries: int, what: str, remedy: str) -> Links:
    """The first of many drawn graphs that is connected."""
    for _ in range(tries):
        links = draw()
        if links.strongly_connected():
            return links
    raise ValueError(f"{what}; none of {tries} graphs of {links.nodes} nodes was connected: {remedy}")


class EdgeList:
    """Pairs of node numbers from a text file, both ways unless its header says tx,rx."""

    def __init__(self, find_file: FindFile, file: str):
        self.file, self.remedy = file, f'add links between them to "{file}"'
        self._both_ways = True
        self._edges, self._lines = self._read(content_lines(read_text(file, find_file)))

    def _read(self, lines: list[tuple[int, str]]) -> tuple[IntArray, list[int]]:
        edges, numbers = [], []
        swapped = False
        for position, (number, text) in enumerate(lines):
            cells = [cell for cell in re.split(r"[,;\s]+", text.removesuffix("{}")) if cell]
            if position == 0 and not cells[0].isdecimal():
                names = [cell.lower() for cell in cells]
                if len(names) != 2:
                    raise fault(self.file, number, "the header must name two columns, tx,rx for one-way links")
                self._both_ways, swapped = sorted(names) != ["rx", "tx"], names == ["rx", "tx"]
                continue
            if len(cells) != 2 or not all(cell.isdecimal() for cell in cells):
                raise fault(self.file, number, f'"{text}" must be two node numbers, like 0,1')
            edges.append([int(cell) for cell in cells])
            numbers.append(number)
        array = np.array(edges, dtype=np.int64).reshape(-1, 2)
        return (array[:, ::-1] if swapped else array), numbers

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        nodes = geometry.nodes
        beyond = (self._edges >= nodes).any(axis=1)
        if beyond.any():
            row = int(np.argmax(beyond))
            raise fault(
                self.file,
                self._lines[row],
                f"node {self._edges[row].max()}; network.nodes is {nodes}: nodes are numbered from 0 to {nodes - 1}",
            )
        named = np.unique(self._edges)
        if len(named) != nodes:
            missing = format_nodes(np.setdiff1d(np.arange(nodes), named))
            raise ValueError(
                f'file is "{self.file}"; it links {len(named)} nodes, without {missing}; network.nodes is {nodes}: '
                "add their links, or make the counts equal"
            )
        return Links.from_pairs(self._edges[:, 1], self._edges[:, 0], geometry, both_ways=self._both_ways)


class GraphFile:
    """A graph in GraphML or node-link JSON, as networkx writes them."""

    def __init__(self, find_file: FindFile, file: str):
        from networkx import node_link_graph, parse_graphml

        self.file, self.remedy = file, f'add links between them to "{file}"'
        text = read_text(file, find_file)
        try:
            if file.lower().endswith(".json"):
                table = json.loads(text)
                graph = node_link_graph(table, edges="links" if "links" in table else "edges")
            else:
                graph = parse_graphml(text)
        except Exception as error:  # parsers raise what they like on a file that is none
            words = " ".join(str(error).split())
            raise ValueError(
                f'file is "{file}"; must be GraphML, or node-link JSON in a .json file: {type(error).__name__}: {words}'
            ) from None
        number = _numbered(list(graph.nodes))
        self._nodes, self._both_ways = len(number), not graph.is_directed()
        edges = [(number[one], number[other]) for one, other in graph.edges()]
        self._edges = np.array(edges, dtype=np.int64).reshape(-1, 2)

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        if self._nodes != geometry.nodes:
            raise ValueError(
                f'file is "{self.file}"; its graph has {self._nodes} nodes; network.nodes is {geometry.nodes}: '
                f"set network.nodes = {self._nodes}, or use another file"
            )
        return Links.from_pairs(self._edges[:, 1], self._edges[:, 0], geometry, both_ways=self._both_ways)


def _numbered(labels: list[Any]) -> dict[Any, int]:
    """Number of every label: itself where labels are 0 to K - 1, else its place in the file."""
    if sorted(map(str, labels)) == sorted(map(str, range(len(labels)))):
        return {label: int(label) for label in labels}
    return {label: number for number, label in enumerate(labels)}
