"""Graphs from files.

    edge-list    two node numbers a line, apart by comma, semicolon or blanks; `#` begins a comment. A header
                 `tx,rx` makes them one-way, first sends and second hears; else pairs are joined both ways
    graph-file   GraphML (.graphml, .xml) or networkx node-link JSON (.json); edges of a directed graph point
                 from sender to receiver

Nodes are numbered from 0. A graph file whose labels are no numbers gives them in the order of its nodes.
An edge from a node to itself is left out: every node keeps its own model anyway.
"""

import json
import re
from typing import Any

import numpy as np

from wirelessdl.arrays import IntArray
from wirelessdl.links import Geometry, Links
from wirelessdl.network.tables import FindFile, content_lines, fault, read_text
from wirelessdl.network.topology.graphs import SnrDb


class _FromFile:
    file: str

    def remedy(self, links: Links, snr_db: SnrDb | None) -> tuple[str, str]:
        return f'file is "{self.file}"; its links', "add links between them"


class EdgeList(_FromFile):
    """Pairs of node numbers from a text file, both ways unless its header says tx,rx."""

    def __init__(self, find_file: FindFile, file: str):
        self.file = file
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
            missing = np.setdiff1d(np.arange(nodes), named)
            shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
            raise ValueError(
                f'file is "{self.file}"; it links {len(named)} nodes, without {shown}; network.nodes is {nodes}: '
                "add their links, or make the counts equal"
            )
        return Links.from_pairs(self._edges[:, 1], self._edges[:, 0], geometry, both_ways=self._both_ways)


class GraphFile(_FromFile):
    """A graph in GraphML or node-link JSON, as networkx writes them."""

    def __init__(self, find_file: FindFile, file: str):
        self.file = file
        text = read_text(file, find_file)
        try:
            graph = _from_json(text) if file.lower().endswith(".json") else _from_graphml(text)
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


def _from_graphml(text: str) -> Any:
    from networkx import parse_graphml

    return parse_graphml(text)


def _from_json(text: str) -> Any:
    from networkx import node_link_graph

    table = json.loads(text)
    return node_link_graph(table, edges="links" if "links" in table else "edges")


def _numbered(labels: list[Any]) -> dict[Any, int]:
    """Number of every label: itself where labels are 0 to K - 1, else its place in the file."""
    if sorted(map(str, labels)) == sorted(map(str, range(len(labels)))):
        return {label: int(label) for label in labels}
    return {label: number for number, label in enumerate(labels)}
