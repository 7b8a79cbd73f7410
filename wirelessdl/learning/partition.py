"""How training data falls to nodes: one array of sample numbers per node, an exact cover.

iid         shuffled and dealt in equal hands
dirichlet   each class is split among nodes by shares ~ Dirichlet(concentration); the smaller, the
            more a node's classes differ. Redrawn until every node has at least min_samples.
"""

from typing import Annotated, Protocol

import numpy as np
from annotated_types import Ge, Gt

from wirelessdl.arrays import IntArray

_TRIES = 1000


class Partition(Protocol):
    def split(self, labels: IntArray, nodes: int, rng: np.random.Generator) -> list[IntArray]: ...


class Iid:
    """Equal, alike hands."""

    def split(self, labels: IntArray, nodes: int, rng: np.random.Generator) -> list[IntArray]:
        return [np.sort(hand) for hand in np.array_split(rng.permutation(len(labels)), nodes)]


class Dirichlet:
    """Uneven classes and sizes."""

    def __init__(self, concentration: Annotated[float, Gt(0)] = 1.0, min_samples: Annotated[int, Ge(1)] = 1):
        self.concentration, self.min_samples = concentration, min_samples

    def split(self, labels: IntArray, nodes: int, rng: np.random.Generator) -> list[IntArray]:
        if nodes * self.min_samples > len(labels):
            raise ValueError(f"min_samples is {self.min_samples}; {nodes} nodes share only {len(labels)} samples")
        owner = np.empty(len(labels), dtype=np.int64)
        for _ in range(_TRIES):
            for label in np.unique(labels):
                members = rng.permutation(np.flatnonzero(labels == label))
                shares = rng.dirichlet(np.full(nodes, self.concentration))
                cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
                for node, hand in enumerate(np.split(members, cuts)):
                    owner[hand] = node
            if np.bincount(owner, minlength=nodes).min() >= self.min_samples:
                return [np.flatnonzero(owner == node) for node in range(nodes)]
        raise ValueError(
            f"concentration is {self.concentration:g}; none of {_TRIES} draws gave each of {nodes} nodes "
            f"{self.min_samples} samples: raise it, or lower min_samples"
        )


PARTITIONS = {"iid": Iid, "dirichlet": Dirichlet}
