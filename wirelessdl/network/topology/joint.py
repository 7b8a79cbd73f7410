"""Graphs that change: a model need not reach every node in one round, only within a window of rounds.

Joint strong connectivity over every window of B rounds is what convergence proofs on time-varying graphs
ask for: the union of the links of any B rounds in a row must be strongly connected.
"""

from collections import deque

import numpy as np

from wirelessdl.arrays import IntArray
from wirelessdl.links import Links


class Connectivity:
    """Windows of frames one after another: how many frames, and how many windows of them, are not connected."""

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
