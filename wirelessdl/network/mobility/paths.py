"""Paths of straight legs, each node with its own: positions and velocities at any time."""

from collections.abc import Callable

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.links import Motion

MAX_LEGS_PER_QUERY = 10_000  # seconds of drawing
APART_M = 0.5  # of nodes that a file has at one point


def side_by_side(position_m: FloatArray) -> FloatArray:
    """Places, `[instants, K, 3]`; nodes at one point stand `APART_M` beside each other, the first where it is."""
    apart = position_m
    for instant, place in enumerate(position_m):
        while True:
            _, first, of = np.unique(apart[instant], axis=0, return_index=True, return_inverse=True)
            beside = np.flatnonzero(first[of.reshape(-1)] != np.arange(len(place)))
            if not len(beside):
                break
            apart = apart.copy() if apart is position_m else apart
            apart[instant, beside, 0] += APART_M
    return apart


class Paths:
    """Legs `[n, K]`: node k is at `origin + velocity (t - begin)` from `begin` of a leg to that of the next.

    Legs can be added at the end; earlier ones do not change, so the geometry of a time does not depend on when it is
    computed.
    """

    def __init__(self, begin_s: FloatArray, origin_m: FloatArray, velocity_mps: FloatArray):
        self._begin, self._origin, self._velocity = begin_s, origin_m, velocity_mps
        self._legs, self._nodes = begin_s.shape

    @staticmethod
    def from_places(start_m: FloatArray) -> "Paths":
        """No legs yet: they begin at time 0 from `start_m` [K, 3]."""
        nodes = len(start_m)
        paths = Paths(np.zeros((0, nodes)), np.zeros((0, nodes, 3)), np.zeros((0, nodes, 3)))
        paths.until_s, paths.end_m = np.zeros(nodes), start_m.copy()
        return paths

    until_s: FloatArray
    end_m: FloatArray

    def add(self, duration_s: FloatArray, velocity_mps: FloatArray) -> None:
        """One more leg of every node, from where and when its last one ended."""
        if self._legs == len(self._begin):  # double, so that many legs cost no more than few
            room = max(8, self._legs)
            self._begin = np.concatenate([self._begin, np.full((room, self._nodes), np.inf)])
            self._origin = np.concatenate([self._origin, np.zeros((room, self._nodes, 3))])
            self._velocity = np.concatenate([self._velocity, np.zeros((room, self._nodes, 3))])
        self._begin[self._legs] = self.until_s
        self._origin[self._legs] = self.end_m
        self._velocity[self._legs] = velocity_mps
        self._legs += 1
        self.end_m = self.end_m + velocity_mps * duration_s[:, None]
        self.until_s = self.until_s + duration_s

    def extend(self, time_s: float, add_leg: Callable[[], None], problem: str) -> None:
        """Add legs until each node's last one ends after a time. problem: what is wrong where that takes too many."""
        for _ in range(MAX_LEGS_PER_QUERY):
            if self.until_s.min() > time_s:
                return
            add_leg()
        raise ValueError(
            f"{problem}; the time from one frame to the next takes more than {MAX_LEGS_PER_QUERY} legs: lower it"
        )

    def motion(self, time_s: FloatArray) -> Motion:
        """Where nodes are at several instants; at a corner, the velocity is that of the leg that begins."""
        node, leg = np.arange(self._nodes), self._legs_at(time_s[:, None])
        velocity = self._velocity[leg, node]
        since = time_s[:, None] - self._begin[leg, node]
        return Motion(self._origin[leg, node] + velocity * since[:, :, None], velocity)

    def _legs_at(self, time_s: FloatArray) -> IntArray:
        """The last leg of each node that has begun, `[instants, K]`, by bisection; time_s: `[instants, 1]`."""
        node, shape = np.arange(self._nodes), (len(time_s), self._nodes)
        low, high = np.zeros(shape, dtype=np.int64), np.full(shape, self._legs)
        for _ in range(int(self._legs).bit_length()):
            middle = (low + high) // 2
            begun = (middle < high) & (self._begin[np.minimum(middle, self._legs - 1), node] <= time_s)
            low, high = np.where(begun, middle + 1, low), np.where(begun, high, middle)
        return np.maximum(low - 1, 0)
