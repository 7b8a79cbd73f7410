"""The control channel: what its messages cost each node, and which of them are lost.

    feedback   adaptive plans: a node reports the gain of every link into it in every subband, and is told its alpha
               and its weight in each
    exchange   z: a node broadcasts its K numbers, and listens to those of its neighbours

A node sends at its power budget and listens only while a message for it is due. Messages are lost by their sender,
each with the same probability, independently of all else: a report does not reach the planner, a broadcast of z reaches
nobody. The planner's answers are not lost: nodes that it plans for count on each other's noise.
"""

from dataclasses import dataclass

import numpy as np

from wirelessdl import counter_rng
from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Links
from wirelessdl.streams import Streams


@dataclass(frozen=True, eq=False)
class ControlTimes:
    """How long each node sends and listens on the control channel in a frame, s, `[K]` each."""

    report_s: FloatArray
    answer_s: FloatArray
    z_send_s: FloatArray
    z_listen_s: FloatArray

    @staticmethod
    def of(links: Links, number_s: float, *, feedback: bool, exchange: bool, subbands: int = 1) -> "ControlTimes":
        """For the graph at time zero, as the frame's own durations. number_s: of one number."""
        one = np.full(links.nodes, number_s)
        heard = np.bincount(links.rx, minlength=links.nodes) * one  # a number of every neighbour
        return ControlTimes(
            feedback * subbands * heard,
            feedback * (1 + subbands) * one,
            exchange * links.nodes * one,
            exchange * links.nodes * heard,
        )


@dataclass(frozen=True)
class ControlLosses:
    """Which messages are lost, by node and round. Whether there is any feedback or exchange is the frame's matter."""

    nodes: int
    probability: float
    streams: Streams

    def report(self, round: int) -> BoolArray:
        """Nodes whose report of gains would not reach the planner in this round, `[K]`."""
        return self._lost("radio.control.report", round)

    def z(self, round: int) -> BoolArray:
        """Nodes whose broadcast of z would reach nobody in this round, `[K]`."""
        return self._lost("radio.control.z", round)

    def _lost(self, component: str, round: int) -> BoolArray:
        if self.probability == 0.0:
            return np.zeros(self.nodes, dtype=bool)
        word = counter_rng.key(self.streams.draws(component, round))
        return np.asarray(counter_rng.uniform(word, np.arange(self.nodes))[0] < self.probability)
