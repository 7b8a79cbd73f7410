"""Random numbers of nodes, keyed by (node, round): they do not depend on batching or on the order of calls.

Noise comes from the generator in tensor operations (`generator.py`), under one key of 64 bits. Its counters are

    [kind, 2 bits] [((round purposes + purpose) nodes + node) n + word]      n = ceil(m / 2) words of a row

for what a node draws, and [round, pair, word] for what two nodes share; kinds tell these apart, and `most_rounds` says
how long counters last. So no two rows of a run have a word in common. Batches come from NumPy's Philox, whose counter
is (call, node, round).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from wirelessdl import counter_rng
from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.learning.generator import CounterGenerator
from wirelessdl.streams import Streams

_PURPOSES = ("noise", "thermal")
_OF_PAIRS, _OF_DITHER = 1 << 61, 1 << 62  # kinds of counters, beside those of nodes
_COUNTERS = 1 << 61  # of each kind


def most_rounds(nodes: int, size: int, *, pairs: bool = False, passes: int = 0) -> int:
    """Rounds whose noise has counters of its own, round 0 not counted.

    size: numbers of a model; pairs: any two nodes may share noise; passes: mixing passes of a round, at most.
    """
    rows = max((len(_PURPOSES) + passes) * nodes, nodes * nodes if pairs else 0)
    return _COUNTERS // (rows * size) - 1


class NodeDraws:
    """Batches and noise of K nodes; every thread has an instance of its own, and all give the same draws."""

    def __init__(self, streams: Streams, nodes: int, device: torch.device, passes: int = 0):
        """passes: mixing passes of a round, at most; each has receiver noise of its own."""
        self._nodes, self._purposes, self._device = nodes, len(_PURPOSES) + passes, device
        self._bits = np.random.Philox(key=counter_rng.key(streams.draws("learning.batch")))
        self._numpy = np.random.Generator(self._bits)
        self._batches = counter_rng.key(streams.draws("learning.batches"))
        self._state = self._bits.state
        self.call = 0  # batches that a node draws in a round are told apart by it
        self._generator, self._key = CounterGenerator(device), counter_rng.key(streams.draws("learning.noise"))
        self._augment = counter_rng.key(streams.draws("learning.augment"))

    def generator(self, node: int, round: int) -> np.random.Generator:
        """Generator of a node's batch in a round; valid until the next call."""
        self._state["state"]["counter"][:] = (0, self.call, node, round)
        self._bits.state = self._state
        return self._numpy

    def batch(self, node: int, round: int, samples: int, size: int) -> IntArray:
        """`size` of `samples` without replacement."""
        return self.generator(node, round).choice(samples, size, replace=False, shuffle=False)

    def uniform(self, nodes: IntArray, round: int, lanes: int) -> FloatArray:
        """Uniform on (0, 1), `[lanes, nodes]`: for batches of many nodes at once."""
        return counter_rng.uniform(counter_rng.word(self._batches, round + (self.call << 32)), nodes, lanes)

    def of_samples(self, nodes: range, round: int, width: int) -> FloatArray:
        """Uniform on (0, 1), `[3, nodes * width]`: of every sample of these nodes' batches, whatever their width."""
        sample = np.arange(nodes.start, nodes.stop)[:, None] + self._nodes * np.arange(width)
        return counter_rng.uniform(counter_rng.word(self._augment, round), sample.reshape(-1), 3)

    def fill_normal(self, out: Tensor, round: int, purpose: str | int, nodes: Sequence[int] | None = None) -> None:
        """Fill `out` with standard normal numbers, one row per node: all of them, or those named.

        purpose: "noise", "thermal" or the number of a mixing pass, from 0; in pass n after that, node j is n K + j.
        """
        self._generator.fill_normal(out, self._first(out, round, purpose, nodes, (out.shape[1] + 1) // 2), self._key)

    def fill_dither(self, out: Tensor, round: int, nodes: Sequence[int] | None = None) -> None:
        """Fill `out` with uniform numbers for the rounding of messages, one row per node."""
        first = self._first(out, round, "noise", nodes, out.shape[1]) + _OF_DITHER
        self._generator.fill_uniform(out, first, self._key)

    def fill_pairs(self, out: Tensor, round: int, low: IntArray, high: IntArray) -> None:
        """Fill `out`, `[pairs, m]`, with the standard normal numbers that two nodes share; low < high: [pairs]."""
        pair = torch.as_tensor(round * self._nodes**2 + low * self._nodes + high, device=self._device)
        self._generator.fill_normal(out, pair * ((out.shape[1] + 1) // 2) + _OF_PAIRS, self._key)

    def _first(self, out: Tensor, round: int, purpose: str | int, nodes: Sequence[int] | None, words: int) -> Tensor:
        """The first counter of every row, `[rows]`; words: counters of a row."""
        index = _PURPOSES.index(purpose) if isinstance(purpose, str) else len(_PURPOSES) + purpose
        if nodes is None:
            nodes = range(len(out))
        # else receiver noise would be the noise that the next round sends
        assert index + max(nodes, default=0) // self._nodes < self._purposes
        if isinstance(nodes, range):
            node = torch.arange(nodes.start, nodes.stop, device=self._device)
        else:
            node = torch.tensor(nodes, device=self._device)
        return ((round * self._purposes + index) * self._nodes + node) * words
