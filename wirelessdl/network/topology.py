"""Who hears whom.

A topology gives the links of a geometry, drawn once from the world's stream. Graphs must be strongly
connected: every model must reach every node.
"""

import math
from collections.abc import Callable
from typing import Annotated, Protocol, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Interval

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Geometry, Links

SnrDb: TypeAlias = Callable[[Links], FloatArray]  # mean SNR of candidate links


class Topology(Protocol):
    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links: ...


class Full:
    """Everyone hears everyone."""

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        return Links.from_mask(np.ones((geometry.nodes, geometry.nodes), dtype=bool), geometry)


class Ring:
    """Each node hears the `reach` nearest on either side, in node order."""

    def __init__(self, reach: Annotated[int, Ge(1)] = 1):
        self.reach = reach

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        node = np.arange(geometry.nodes)
        apart = np.abs(node[:, None] - node[None, :])
        return Links.from_mask(np.minimum(apart, geometry.nodes - apart) <= self.reach, geometry)


class ErdosRenyi:
    """Each pair is joined, both ways, with probability p; redrawn until connected, as in the paper."""

    def __init__(self, p: Annotated[float, Interval(gt=0, le=1)], tries: Annotated[int, Gt(0)] = 1000):
        self.p, self.tries = p, tries

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        nodes = geometry.nodes
        for _ in range(self.tries):
            links = Links.from_mask(self._draw(nodes, rng), geometry)
            if links.strongly_connected():
                return links
        threshold = math.log(nodes) / nodes
        raise ValueError(
            f"p is {self.p:g}; none of {self.tries} graphs of {nodes} nodes was connected: "
            f"raise p well above ln(K)/K = {threshold:.2g}"
        )

    def _draw(self, nodes: int, rng: np.random.Generator) -> BoolArray:
        upper = np.triu(rng.random((nodes, nodes)) < self.p, k=1)
        return np.asarray(upper | upper.T)


TOPOLOGIES = {"full": Full, "ring": Ring, "erdos-renyi": ErdosRenyi}


def require_connected(links: Links) -> None:
    """Raise with what falls apart, and how."""
    label = links.components()
    parts = int(label.max()) + 1
    if parts > 1:
        smallest = np.flatnonzero(label == np.argmin(np.bincount(label)))
        shown = ", ".join(map(str, smallest[:8])) + (", ..." if len(smallest) > 8 else "")
        raise ValueError(
            f"links leave {parts} parts that do not reach each other, the smallest being node(s) {shown}; "
            "choose a denser graph"
        )
