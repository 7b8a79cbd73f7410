"""Who sends in which turn.

full   everyone at once: one turn
half   nodes fall into two classes, anew in every frame; one sends while the other listens, then the other
       way round. Links within a class carry nothing in that frame
tdma   orthogonal access, one sender at a time at every receiver: turns are colors of the graph in which nodes that
       hear each other, or are heard by a common third, differ
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from wirelessdl.arrays import BoolArray, IntArray
from wirelessdl.links import Links
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.streams import Streams


@dataclass(frozen=True, eq=False)
class Turns:
    """The turn in which each node sends, `[K]`, and how many turns a slot takes."""

    turn: IntArray
    count: int


class Access:
    """Turns of every frame, for one kind of access."""

    def __init__(self, nodes: int, streams: Streams, *, half_duplex: bool, orthogonal: bool):
        self._nodes, self._streams, self._half_duplex, self.orthogonal = nodes, streams, half_duplex, orthogonal
        self._everyone = Turns(np.zeros(nodes, dtype=np.int64), 1)
        self._colored: tuple[NDArray[Any], NDArray[Any], Turns] | None = None  # as long as links stay the same

    def turns(self, round: int, links: Links) -> Turns:
        """Of one frame with these links."""
        if self._half_duplex:
            return Turns(halves(self._nodes, self._streams.draws("radio.duplex", round)).astype(np.int64), 2)
        if not self.orthogonal:
            return self._everyone
        if self._colored is None or self._colored[0] is not links.rx or self._colored[1] is not links.tx:
            turn = coloring(links)
            self._colored = (links.rx, links.tx, Turns(turn, int(turn.max(initial=0)) + 1))
        return self._colored[2]

    def audible(self, channel: FrameChannel, turns: Turns) -> FrameChannel:
        """What a receiver can hear at all: nobody who sends when it does, where it cannot do both."""
        if self._half_duplex:
            return channel.across(turns.turn == 1)
        if self.orthogonal and channel.neighbour is not None:
            return channel.only(turns.turn[channel.heard.tx] != turns.turn[channel.heard.rx])
        return channel


def halves(nodes: int, rng: np.random.Generator) -> BoolArray:
    """Which of two classes each node is in: halves, drawn afresh."""
    return np.asarray(rng.permutation(nodes) % 2 == 0)


def coloring(links: Links) -> IntArray:
    """A turn for each node such that no receiver hears two at once, nor anyone while it sends: greedy, by degree."""
    nodes = links.nodes
    joined = csr_array((np.ones(len(links), dtype=np.int64), (links.rx, links.tx)), shape=(nodes, nodes))
    near = joined + joined.T
    # heard by a common receiver: joined' joined
    conflict = (near + joined.T @ joined).tocsr()
    turn = np.full(nodes, -1, dtype=np.int64)
    for node in np.argsort(-np.diff(conflict.indptr), kind="stable").tolist():
        others = conflict.indices[conflict.indptr[node] : conflict.indptr[node + 1]]
        taken = set(turn[others[others != node]].tolist())
        turn[node] = next(n for n in range(nodes) if n not in taken)
    return turn
