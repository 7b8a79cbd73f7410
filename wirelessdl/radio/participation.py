"""Who takes part in a frame: what time decides when it opens, and what the round answers."""

from dataclasses import dataclass

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.radio.frame import AirTime


@dataclass(frozen=True, eq=False)
class Participation:
    """Node states when a frame opens, `[K]` each.

    up: runs. ready: runs and has computed its gradient, so it takes part. listening: ready, but came back from a
    crash and takes the mean of what it hears for its model, without sending. lost: a crash took its gradient since
    the last frame. missed: could be ready, but its report of gains was lost: it has no plan and takes no part.
    compute_s: duration of this round's gradient. battery_j: what is left, inf without a battery.
    """

    up: BoolArray
    ready: BoolArray
    listening: BoolArray
    lost: BoolArray
    missed: BoolArray
    compute_s: FloatArray
    battery_j: FloatArray

    @property
    def willing(self) -> BoolArray:
        """Nodes that send unless a budget keeps them silent, `[K]`."""
        return self.ready & ~self.listening

    @staticmethod
    def everyone(nodes: int) -> "Participation":
        """A frame in which nothing is wrong."""
        yes, no = np.ones(nodes, dtype=bool), np.zeros(nodes, dtype=bool)
        return Participation(yes, yes, no, no, no, np.zeros(nodes), np.full(nodes, np.inf))


@dataclass(frozen=True, eq=False)
class Turns:
    """The turn in which each node sends, `[K]`, and how many turns a slot takes."""

    turn: IntArray
    count: int


@dataclass(frozen=True, eq=False)
class Transmissions:
    """What a round makes of it: who sends `[K]`, in how many turns, and who computes a gradient `[K]`.

    Who is silent takes no step that would have to be sent later; where nobody ever sends, everyone computes. uneven_ns:
    payloads of all turns in sequence, None where the frame says how long they take; airtime: of each node, likewise.
    """

    on_air: BoolArray
    computes: BoolArray
    turns: int = 1
    uneven_ns: tuple[int, ...] | None = None
    airtime: AirTime | None = None
