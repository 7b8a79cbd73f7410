"""Named random streams.

Two numbers decide everything random: `seed` is the world (placement, topology, partition, initial
weights), `run` the draws within it (fading, batches, DP noise, faults). A stream is keyed by the name of its component
and by further numbers (a node, a round, a call), so adding a component never changes another's draws, and nothing
depends on the order in which streams are used.
"""

from dataclasses import dataclass
from zlib import crc32

import numpy as np

_WORLD = 0  # runs count from 1, so the world's key is free


@dataclass(frozen=True)
class Streams:
    """The random streams of one run."""

    seed: int
    run: int = 1

    def world(self, component: str, *key: int) -> np.random.Generator:
        """Stream of the world: the same for every `run` of a seed."""
        return np.random.default_rng(self._sequence(_WORLD, component, key))

    def draws(self, component: str, *key: int) -> np.random.Generator:
        """Stream of this run's draws."""
        return np.random.default_rng(self._sequence(self.run, component, key))

    def _sequence(self, run: int, component: str, key: tuple[int, ...]) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed, spawn_key=(run, crc32(component.encode()), *key))
