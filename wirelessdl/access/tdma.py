"""TDMA: one sender at a time at every receiver, each divided by its own gain, then Metropolis weights.

    turn        colors of the graph in which nodes that hear each other, or are heard by a common third, differ
    s_i = W_ii w_i + sum_j W_ij (w_j + n_ij / (|h_ij| sqrt(alpha_j P_j))),   W: Metropolis, doubly stochastic

Links below `radio.truncate_snr_db` in either direction are left out, and both ends keep the weight for their own
models: dividing by a faded gain would drown all in receiver noise. The weights are doubly stochastic as they are. A
sender that is heard alone hides behind its own noise only.
"""

from typing import TYPE_CHECKING

import numpy as np

from wirelessdl.access import Access, AirSettings, Carrier
from wirelessdl.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from wirelessdl.links import Links
    from wirelessdl.radio.frame import Turns
    from wirelessdl.radio.frame_channel import FrameChannel
    from wirelessdl.scenario.schema import RadioSection, Scenario
    from wirelessdl.streams import Streams

# radio.truncate_snr_db "auto": highest mean accuracy of thresholds from -inf to 15 dB, over 5 to 20 nodes and three
# powers (docs/digital.md)
TRUNCATE_DB = 10.0


def refuse(scenario: "Scenario") -> None:
    """Senders that are heard alone hide behind their own noise, and Metropolis weights need no balancing."""
    access = scenario.radio.access.name
    if scenario.power.objective != "own-noise":
        raise ValueError(
            f'power.objective is "{scenario.power.objective}" under radio.access "{access}"; a sender that is heard '
            'alone hides behind its own noise only: set objective = "own-noise"'
        )
    if scenario.power.balance != "receiver":
        raise ValueError(
            f'power.balance is {scenario.power.balance!r} under radio.access "{access}"; Metropolis weights are doubly '
            'stochastic as they are: leave it at "receiver"'.replace("False", "false")
        )
    if scenario.radio.duplex == "half":
        raise ValueError(
            f'radio.duplex is "half" under radio.access "{access}"; turns are made such that no node sends while it '
            "listens: leave it at its default"
        )


class Member(Access):
    """Turns by graph colouring."""

    orthogonal = True

    def __init__(self, radio: "RadioSection", nodes: int, streams: "Streams", silent: bool):
        given = radio.truncate_snr_db
        self._least_db = TRUNCATE_DB if given == "auto" else given
        self._colored: tuple[IntArray, IntArray, Turns] | None = None  # as long as links stay the same

    def schedule(self, round: int, links: "Links") -> "Turns":
        from wirelessdl.radio.frame import Turns

        if self._colored is None or self._colored[0] is not links.rx or self._colored[1] is not links.tx:
            turn = coloring(links)
            self._colored = (links.rx, links.tx, Turns(turn, int(turn.max(initial=0)) + 1))
        return self._colored[2]

    def audible(self, channel: "FrameChannel", schedule: "Turns") -> "FrameChannel":
        if channel.neighbour is None:
            return channel
        return channel.only(schedule.turn[channel.heard.tx] != schedule.turn[channel.heard.rx])

    def least_gain(self, power_w: FloatArray, thermal_w: float) -> FloatArray | float:
        from wirelessdl.units import from_db

        return np.sqrt(from_db(self._least_db) * thermal_w / power_w)

    def planned_turns(self, links: "Links") -> tuple[int, int]:
        return int(coloring(links).max()) + 1, 1

    def words(self, turns: int) -> str:
        return f", one sender after another in {turns} turns"

    def carrier(self, given: AirSettings) -> Carrier:
        from wirelessdl.access.weights import OneByOne

        return OneByOne(given, self.least_gain(given.power_w, given.thermal_w))


def coloring(links: "Links") -> IntArray:
    """A turn for each node such that no receiver hears two at once, nor anyone while it sends: greedy, by degree."""
    from scipy.sparse import csr_array

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
