"""Batch sampling: the draw of a round's batch from a node's n samples, and the divisor of the batch's sum.

B is the same number for all nodes, or the same share of each node's samples: then all sampling rates are equal, and so
is what sampling does for privacy.

without-replacement   B of n, every subset equally likely; divided by B
poisson               each sample independently with probability B/n; divided by B, not by the batch's size
full                  all n; divided by n
shuffled              a new order every epoch of floor(n/B) rounds, B samples of it in each; divided by B

The divisor never depends on the draw: therefore the sensitivity is 2C over the divisor.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.learning.draws import NodeDraws

_MIN_NODES_TOGETHER = 2000  # nodes above which batches are drawn together: the same law, other draws

Sampling: TypeAlias = Literal["without-replacement", "poisson", "full", "shuffled"]


class Sampler:
    """Batches of K nodes, as positions in each node's sample indices; its only state is each node's current order."""

    def __init__(self, sampling: Sampling, batch_size: int, sizes: list[int], *, fraction: float = 0.0):
        """batch_size: samples of every node's batch; fraction, where it is not 0: share of its samples instead."""
        self.sampling, self.sizes = sampling, sizes
        self.batch_sizes: IntArray = np.full(len(sizes), batch_size, dtype=np.int64)
        if fraction:
            self.batch_sizes = np.maximum(np.rint(fraction * np.array(sizes)), 1.0).astype(np.int64)
        self._orders: dict[int, tuple[int, IntArray]] = {}
        self._draw: Callable[[NodeDraws, int, int], IntArray] = {
            "without-replacement": self._without_replacement,
            "poisson": self._poisson,
            "full": self._full,
            "shuffled": self._shuffled,
        }[sampling]

    @property
    def divisor(self) -> FloatArray:
        """What each node's sum is divided by, `[K]`."""
        if self.sampling == "full":
            return np.array(self.sizes, dtype=np.float64)
        return self.batch_sizes.astype(np.float64)

    @property
    def rate(self) -> FloatArray:
        """Sampling rate q for amplification, `[K]`; 1, no amplification, for full batches and shuffled epochs."""
        if self.sampling in ("full", "shuffled"):
            return np.ones(len(self.sizes))
        return np.asarray(self.batch_sizes / np.array(self.sizes))

    @property
    def epoch_rounds(self) -> IntArray:
        """Rounds in which a sample takes part once, `[K]`; 1 unless shuffled."""
        if self.sampling != "shuffled":
            return np.ones(len(self.sizes), dtype=np.int64)
        return np.array(self.sizes, dtype=np.int64) // self.batch_sizes

    @property
    def width(self) -> int:
        """Samples to allocate memory for: a batch, all samples, or six deviations above the mean of Poisson batches."""
        if self.sampling == "full":
            return max(self.sizes)
        largest = int(self.batch_sizes.max())
        spread = 6.0 * np.sqrt(largest) if self.sampling == "poisson" else 0.0
        return min(int(np.ceil(largest + spread)), max(self.sizes))

    @property
    def uneven(self) -> bool:
        """Whether batches of different nodes or rounds differ in size, so that some are padded."""
        different = bool((self.batch_sizes != self.batch_sizes[0]).any())
        return self.sampling in ("poisson", "full") or different

    def restart(self) -> None:
        """Forget the current orders; the next draws may come from other streams."""
        self._orders.clear()

    def batch(self, draws: NodeDraws, node: int, round: int) -> IntArray:
        """A node's batch of a round; it may be empty under poisson."""
        return self.batches(draws, range(node, node + 1), round)[0]

    def batches(self, draws: NodeDraws, nodes: range, round: int) -> list[IntArray]:
        """Batches of several nodes."""
        if len(self.sizes) > _MIN_NODES_TOGETHER and self.sampling == "without-replacement" and not self.uneven:
            return list(self._together(draws, nodes, round))
        return [self._draw(draws, node, round) for node in nodes]

    def _together(self, draws: NodeDraws, nodes: range, round: int) -> IntArray:
        """B of n for each node, `[nodes, B]`, by Floyd's method: every subset equally likely, B steps for all nodes.

        Step s takes one of the first n - B + s + 1; one that is taken already stands for the last of them.
        """
        size, batch = np.array(self.sizes[nodes.start : nodes.stop]), int(self.batch_sizes[0])
        uniform = draws.uniform(np.arange(nodes.start, nodes.stop), round, batch)
        chosen = np.empty((len(nodes), batch), dtype=np.int64)
        for step in range(batch):
            last = size - batch + step
            picked = (uniform[step] * (last + 1)).astype(np.int64)
            taken = (chosen[:, :step] == picked[:, None]).any(axis=1)
            chosen[:, step] = np.where(taken, last, picked)
        return chosen

    def _without_replacement(self, draws: NodeDraws, node: int, round: int) -> IntArray:
        return draws.batch(node, round, self.sizes[node], int(self.batch_sizes[node]))

    def _poisson(self, draws: NodeDraws, node: int, round: int) -> IntArray:
        size = self.sizes[node]
        rng = draws.generator(node, round)
        # the size is binomial, and given the size every subset is equally likely
        batch = int(rng.binomial(size, self.batch_sizes[node] / size))
        return rng.choice(size, batch, replace=False, shuffle=False)

    def _full(self, draws: NodeDraws, node: int, round: int) -> IntArray:  # noqa: ARG002
        return np.arange(self.sizes[node])

    def _shuffled(self, draws: NodeDraws, node: int, round: int) -> IntArray:
        size, batch = self.sizes[node], int(self.batch_sizes[node])
        epoch, place = divmod(round - 1, size // batch)
        known = self._orders.get(node)
        if known is None or known[0] != epoch:
            known = (epoch, draws.generator(node, epoch).permutation(size))
            self._orders[node] = known
        chosen: IntArray = known[1][place * batch : (place + 1) * batch]
        return chosen
