"""Graphs that change: a model need not reach every node in one round, only within a window of rounds.

Joint strong connectivity over every window of B rounds is what convergence proofs on time-varying graphs
ask for: the union of the links of any B rounds in a row must be strongly connected.

`Connectivity` counts such windows while a run goes on and holds the last B rounds only. `joint_connectivity` looks at
a whole run: it also finds the smallest window that would do, for which it counts every link over sliding windows.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wirelessdl.arrays import IntArray
from wirelessdl.links import Geometry, Links


@dataclass(frozen=True)
class JointConnectivity:
    """What the windows of a run came to. Rounds count from 1."""

    window: int
    windows: int
    connected: int  # windows whose union is strongly connected
    first_gap: int | None  # round at which the first window begins that is not
    parts: int  # most parts in any window
    enough: int | None  # smallest window that would have been connected everywhere, if any

    @property
    def holds(self) -> bool:
        return self.connected == self.windows

    def __str__(self) -> str:
        if self.holds:
            return f"jointly connected over every {self.window} rounds (over {self.enough} already)"
        remedy = "not even all rounds together" if self.enough is None else f"a window of {self.enough} would do"
        return (
            f"{self.windows - self.connected} of {self.windows} windows of {self.window} rounds are not jointly "
            f"connected, the first from round {self.first_gap}, in up to {self.parts} parts; {remedy}"
        )


def joint_connectivity(rounds: Sequence[Links], window: int) -> JointConnectivity:
    """Strong connectivity of the union of links over every window; a run shorter than it is one window."""
    if window < 1 or not rounds:
        raise ValueError(f"window is {window} of {len(rounds)} rounds; both must be at least 1")
    edges = _Edges(rounds)
    found = edges.parts_per_window(min(window, len(rounds)))
    gaps = np.flatnonzero(found > 1)
    widths = range(1, len(rounds) + 1)  # a wider window is never less connected
    enough = bisect_left(widths, True, key=lambda width: bool((edges.parts_per_window(width) == 1).all()))
    return JointConnectivity(
        window=window,
        windows=len(found),
        connected=len(found) - len(gaps),
        first_gap=int(gaps[0]) + 1 if len(gaps) else None,
        parts=int(found.max()),
        enough=widths[enough] if enough < len(widths) else None,
    )


class _Edges:
    """The links of every round as indices into all links that ever were."""

    def __init__(self, rounds: Sequence[Links]):
        self._geometry = rounds[0].geometry
        self._number = np.unique(np.concatenate([links.number for links in rounds]))
        self._present = [np.searchsorted(self._number, links.number) for links in rounds]

    def parts_per_window(self, window: int) -> IntArray:
        """Number of strongly connected parts of the union over each window."""
        count = np.zeros(len(self._number), dtype=np.int64)
        found: list[int] = []
        now, last = 0, None
        for end, arriving in enumerate(self._present, start=1):
            count[arriving] += 1
            if end > window:
                count[self._present[end - window - 1]] -= 1
            if end >= min(window, len(self._present)):
                union = count > 0
                if last is None or not np.array_equal(union, last):
                    now = parts(self._number[union], self._geometry)
                found.append(now)
                last = union
        return np.array(found, dtype=np.int64)


class Connectivity:
    """Windows of a run that goes on: how many rounds, and how many windows of them, are not connected."""

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
            self.gaps += parts(union, links.geometry) > 1

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


def parts(number: IntArray, geometry: Geometry) -> int:
    """Strongly connected parts of the graph of links by their numbers."""
    return int(Links.from_numbers(number, geometry).component.max()) + 1
