"""The states of all nodes as time passes: running, ready, listening, computing, down."""

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.radio.participation import Participation


class NodeStates:
    """Node states between events. A node that crashes while its gradient is due loses it.

    Frames are whole: what was decided when a frame opened happens, and a crash within it takes effect at its end.
    """

    def __init__(self, nodes: int, rejoin: str):
        self.nodes = nodes
        self.up = np.ones(nodes, dtype=bool)
        self.ready = np.zeros(nodes, dtype=bool)
        self.listening = np.zeros(nodes, dtype=bool)
        self.lost = np.zeros(nodes, dtype=bool)
        self.fallen = np.zeros(nodes, dtype=bool)  # crashed within the frame that is open
        self.returning = 0  # down, but coming back
        self.ended = np.zeros(nodes, dtype=bool)  # down for good, whatever was planned for it
        self._due = np.zeros(nodes, dtype=bool)  # gradient not computed yet
        self._open = False
        self._computing = np.zeros(nodes, dtype=bool)  # will compute a gradient of the frame that is open
        self._listens = rejoin == "listen"
        self._running = nodes
        self._waiting = 0

    @property
    def complete(self) -> bool:
        """Whether nobody is waited for."""
        return self._waiting == self._running and (self._running > 0 or self.returning == 0)

    def wait(self, node: int) -> None:
        """A node is done and waits for a frame."""
        self.ready[node] = True
        self._waiting += 1

    def due(self, node: int) -> bool:
        """Whether a node has a gradient to compute."""
        return bool(self._due[node])

    def computed(self, node: int) -> None:
        self._due[node] = False

    def crash(self, node: int, *, returns: bool) -> None:
        self.up[node] = False
        self._running -= 1
        self.returning += returns
        if self.ready[node]:
            self.ready[node] = False
            self._waiting -= 1
        if self._due[node]:
            self._due[node] = False
            # a late node's gradient is of an earlier frame: there its model has taken the step
            within = self._open and self._computing[node]
            (self.fallen if within else self.lost)[node] = True

    def rejoin(self, node: int) -> None:
        self.up[node] = True
        self._running += 1
        self.returning -= 1
        self.listening[node] = self._listens

    def participation(self, compute_s: FloatArray, battery_j: FloatArray, unplanned: BoolArray) -> Participation:
        """The frame opens now: every node that waits takes part, but for those whose report is lost, `[K]`."""
        ready, missed = self.ready & ~unplanned, self.ready & unplanned
        participation = Participation(
            self.up.copy(), ready, self.listening & ready, self.lost.copy(), missed, compute_s, battery_j
        )
        self.lost[:] = False
        self.fallen[:] = False
        self._open = True
        return participation

    def opened(self, computing: BoolArray) -> None:
        """Who took part waits no more; some have a gradient to compute."""
        self._due |= computing
        self._computing = computing.copy()
        self.ready[:] = False
        self._waiting = 0

    def close(self, participation: Participation) -> None:
        """The payload is over, and who listened for one frame has done so, whether it heard anybody or not."""
        self._open = False
        self.listening &= ~participation.listening
