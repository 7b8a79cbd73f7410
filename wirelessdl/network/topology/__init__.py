"""Topologies: which node hears which.

A topology is any object with `links(geometry, snr_db, rng)`, or `links(geometry, snr_db, rng, time_s)`. Most are drawn
once, at the start; one that declares `follows_motion = True` is evaluated again when every frame opens. Graphs must be
strongly connected: every model must reach every node; but for `none`, of which nobody expects that. A topology that can
say what would connect it has a `remedy`.
"""

import inspect
from typing import Any, Protocol

import numpy as np

from wirelessdl.arrays import IntArray
from wirelessdl.contract import Rule, capability, checked_array, guard_of
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


def require_connected(links: Links, topology: Any = None, snr_db: SnrDb | None = None) -> None:
    """Raise where the graph is not strongly connected, with its parts and a remedy."""
    label = links.component
    parts = int(label.max()) + 1
    if parts == 1:
        return
    what, remedy = "links", "choose a denser graph"
    known = capability(topology, "remedy")
    if known is not None:
        guard = guard_of("network.topology", topology, "remedy")
        with guard:
            answer = known(links, snr_db)
        texts = list(answer) if isinstance(answer, tuple | list) else [answer]
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            kinds = ", ".join(type(text).__name__ for text in texts)
            raise ContractError(
                f"{guard.name} returned {kinds}, expected two texts: what leaves the graph in parts, what would join it"
            )
        what, remedy = texts
    raise ValueError(f"{what} leave {parts} parts that do not reach each other, {format_parts(label)}: {remedy}")


def format_parts(label: IntArray) -> str:
    """The smallest parts by their nodes, at most four of them; the largest by size. label: [K] part of each node."""
    size = np.bincount(label)
    order = np.argsort(size, kind="stable")
    small = "; ".join(format_nodes(np.flatnonzero(label == part)) for part in order[: min(4, len(order) - 1)])
    more = ", more like it," if len(order) > 5 else ""
    return f"the smallest being node(s) {small}{more} the largest having {size[order[-1]]} nodes"
