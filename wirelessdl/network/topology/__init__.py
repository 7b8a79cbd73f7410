"""Topologies: which node hears which.

A topology is any object with `links(geometry, snr_db, rng)`, or `links(geometry, snr_db, rng, time_s)`. Most are drawn
once, at the start; one that declares `follows_motion = True` is evaluated again when every frame opens. Graphs must be
strongly connected: every model must reach every node; but for `none`, of which nobody expects that. A topology that can
say what would connect it has a `remedy`.
"""

import inspect
from collections import deque
from typing import Any, Protocol

import numpy as np

from wirelessdl.arrays import IntArray
from wirelessdl.contract import Rule, capability, checked_array
from wirelessdl.errors import ContractError
from wirelessdl.links import Geometry, Links
from wirelessdl.network.parameters import format_nodes
from wirelessdl.network.topology.graphs import (
    EdgeList,
    ErdosRenyi,
    Full,
    GraphFile,
    KRegular,
    NoLinks,
    Ring,
    SmallWorld,
    SnrDb,
    Star,
)
from wirelessdl.network.topology.physical import InRange, RandomGeometric, SnrLimited

__all__ = [
    "TOPOLOGIES",
    "Connectivity",
    "NoLinks",
    "SnrDb",
    "Topology",
    "drawn_links",
    "require_connected",
    "require_links",
    "takes_time",
]


class Topology(Protocol):
    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links: ...


def takes_time(topology: object) -> bool:
    """Whether its links are a matter of time."""
    try:
        return "time_s" in inspect.signature(topology.links).parameters  # type: ignore[attr-defined]
    except ValueError:  # a callable that has no signature
        return False


def drawn_links(topology: Any, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator, time_s: float) -> Any:
    """What a topology answers, unchecked."""
    return topology.links(geometry, snr_db, rng, **({"time_s": time_s} if takes_time(topology) else {}))


TOPOLOGIES = {
    "none": NoLinks,
    "full": Full,
    "ring": Ring,
    "star": Star,
    "erdos-renyi": ErdosRenyi,
    "k-regular": KRegular,
    "small-world": SmallWorld,
    "random-geometric": RandomGeometric,
    "range": InRange,
    "snr": SnrLimited,
    "edge-list": EdgeList,
    "graph-file": GraphFile,
}


def require_links(links: object, geometry: Geometry, *, is_user_class: bool) -> Links:
    """What a topology answered of this geometry; of a user's class, checked, in order and copied.

    That may list links in any order, and may fill and return the same arrays every time.
    """
    nodes = geometry.nodes
    if not isinstance(links, Links) or links.nodes != nodes:
        raise ContractError(
            f"network.topology: links() returned {type(links).__name__}, expected a wirelessdl.Links of {nodes} nodes"
        )
    if not is_user_class:
        return links
    words = f"node numbers, 0 to {nodes - 1}, as those of Links.from_pairs and Links.from_mask"
    number = Rule(words, lambda values: np.isin(values, np.arange(nodes)))
    shape, where = (np.size(links.rx),), "network.topology: links()"
    rx, tx = (
        checked_array(where, getattr(links, name), shape, words, number, field=name).astype(np.int64)
        for name in ("rx", "tx")
    )
    return Links.from_pairs(rx, tx, geometry)


def require_connected(links: Links, topology: Any = None) -> None:
    """Raise where the graph is not strongly connected, with its parts and a remedy."""
    label = links.component
    parts = int(label.max()) + 1
    if parts > 1:
        remedy = capability(topology, "remedy")
        raise ValueError(f"links leave {parts} parts that do not reach each other, {format_parts(label)}: {remedy}")


def format_parts(label: IntArray) -> str:
    """The smallest parts by their nodes, at most four of them; the largest by size. label: [K] part of each node."""
    size = np.bincount(label)
    order = np.argsort(size, kind="stable")
    small = "; ".join(format_nodes(np.flatnonzero(label == part)) for part in order[: min(4, len(order) - 1)])
    more = ", more like it," if len(order) > 5 else ""
    return f"the smallest being node(s) {small}{more} the largest having {size[order[-1]]} nodes"


class Connectivity:
    """Windows of frames one after another: how many frames, and how many windows of them, are not connected.

    Convergence proofs on graphs that change ask for joint strong connectivity: the union of the links of any B rounds
    in a row must be strongly connected, for a model need not reach every node in one round.
    """

    def __init__(self, window: int):
        self.window = window
        self.frames = self.apart = self.windows = self.gaps = 0
        self._recent: deque[tuple[IntArray, bool]] = deque(maxlen=window)

    def add(self, links: Links) -> None:
        """One more frame."""
        connected = links.strongly_connected()
        self.frames += 1
        self.apart += not connected
        self._recent.append((links.number, connected))
        if len(self._recent) < self.window:
            return
        self.windows += 1
        if not any(whole for _, whole in self._recent):  # more links never disconnect
            union = np.unique(np.concatenate([number for number, _ in self._recent]))
            self.gaps += not Links.from_numbers(union, links.geometry).strongly_connected()

    def formatted(self) -> str | None:
        """In words; None where links never change."""
        if not self.frames:
            return None
        if not self.apart:
            return f"connected in each of {self.frames} frames"
        if not self.windows:
            return f"in parts in {self.apart} of {self.frames} frames, fewer than a window of {self.window}"
        return (
            f"in parts in {self.apart} of {self.frames} frames, and over {self.window} frames together in "
            f"{self.gaps} of {self.windows} windows"
        )
