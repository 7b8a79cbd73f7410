"""Random numbers of nodes, keyed by (node, round): they do not depend on batching or on the order of calls.

Batches come from a counter-based generator whose counter is (node, round). Noise comes from torch,
one generator reseeded per node and round: three times as fast. Torch's CPU generator takes 32 seed
bits, so seeds are a bijection of (round, node, purpose), never a hash that could collide. What two nodes share is keyed
by (round, pair); its keys count down from where those of the nodes count up, so the two never meet (`most_rounds`).
Above 2,000 nodes there are too many pairs for 32 bits: theirs come from the counter-based generator, whose counter is
(low, high, round) under a key of their own.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch

from wirelessdl import counter_rng
from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.learning.batch import draw_changes
from wirelessdl.streams import Streams

_WORD = 0xFFFFFFFF
_PURPOSES = ("noise", "thermal")
_SEEDED_PAIRS = 2000  # nodes up to which what a pair shares has a 32-bit seed


def most_rounds(nodes: int, *, pairs: bool = False, passes: int = 0) -> int:
    """Rounds whose noise has 32-bit seeds of its own, round 0 not counted.

    pairs: any two nodes may share noise; passes: mixing passes of a round, at most.
    """
    counted = pairs and nodes <= _SEEDED_PAIRS
    return 2**32 // ((len(_PURPOSES) + passes) * nodes + (nodes * (nodes - 1) // 2 if counted else 0)) - 1


class NodeDraws:
    """Batches and noise of K nodes; every thread has an instance of its own, and all give the same draws."""

    def __init__(self, streams: Streams, nodes: int, device: torch.device, passes: int = 0):
        """passes: mixing passes of a round, at most; each has receiver noise of its own."""
        self._nodes, self._purposes = nodes, len(_PURPOSES) + passes
        self._bits = np.random.Philox(key=streams.word("learning.batch"))
        self._numpy = np.random.Generator(self._bits)
        self._batches = counter_rng.key(streams.draws("learning.batches"))
        self._state = self._bits.state
        self._torch = torch.Generator(device=device)
        self._base = streams.word("learning.noise")
        self._pair_bits = np.random.Philox(key=streams.word("learning.pair_noise"))
        self._pair_numpy = np.random.Generator(self._pair_bits)
        self._pair_state = self._pair_bits.state
        self._images = torch.Generator()
        self._augment = streams.word("learning.augment")

    def generator(self, node: int, round: int) -> np.random.Generator:
        """Generator of a node's batch in a round; valid until the next call."""
        self._state["state"]["counter"][:] = (0, 0, node, round)
        self._bits.state = self._state
        return self._numpy

    def batch(self, node: int, round: int, samples: int, size: int) -> IntArray:
        """`size` of `samples` without replacement."""
        return self.generator(node, round).choice(samples, size, replace=False, shuffle=False)

    def uniform(self, nodes: IntArray, round: int, lanes: int) -> FloatArray:
        """Uniform on (0, 1), `[lanes, nodes]`: for batches of many nodes at once."""
        return counter_rng.uniform(counter_rng.word(self._batches, round), nodes, lanes)

    def changes(self, node: int, round: int, samples: int) -> torch.Tensor:
        """Flips and shifts of a node's batch, see `draw_changes`."""
        self._images.manual_seed(_scramble(self._augment + round * self._nodes + node))
        return draw_changes(samples, self._images)

    def fill_normal(
        self, out: torch.Tensor, round: int, purpose: str | int, nodes: Sequence[int] | None = None
    ) -> None:
        """Fill `out` with standard normal numbers, one row per node: all of them, or those named.

        purpose: "noise", "thermal" or the number of a mixing pass, from 0.
        """
        _fill_rows(out, self.seeds(round, purpose, range(len(out)) if nodes is None else nodes), self._torch)

    def seeds(self, round: int, purpose: str | int, nodes: Sequence[int]) -> list[int]:
        """Of the rows that `fill_normal` fills."""
        index = _PURPOSES.index(purpose) if isinstance(purpose, str) else len(_PURPOSES) + purpose
        first = self._base + round * self._nodes * self._purposes + index
        return [_scramble(first + node * self._purposes) for node in nodes]

    def fill_dither(self, out: torch.Tensor, round: int, nodes: Sequence[int]) -> None:
        """Fill `out` with uniform numbers for the rounding of messages, one row per node.

        Receivers of messages add no noise, so its seeds are free for this.
        """
        first = self._base + round * self._nodes * self._purposes + _PURPOSES.index("thermal")
        for row, node in zip(out.unbind(), nodes):
            self._torch.manual_seed(_scramble(first + node * self._purposes))
            row.uniform_(generator=self._torch)

    def fill_pair(self, out: torch.Tensor, round: int, low: int, high: int) -> None:
        """Fill `out`, one row, with the standard normal numbers that two nodes share; low < high."""
        if self._nodes > _SEEDED_PAIRS:
            self._pair_state["state"]["counter"][:] = (0, low, high, round)
            self._pair_bits.state = self._pair_state
            out.copy_(torch.from_numpy(self._pair_numpy.standard_normal(len(out), dtype=np.float32)))
            return
        pairs = self._nodes * (self._nodes - 1) // 2
        key = round * pairs + high * (high - 1) // 2 + low
        self._torch.manual_seed(_scramble(self._base - 1 - key))
        out.normal_(generator=self._torch)


def rows_in_turn(out: torch.Tensor, seeds: list[int], generator: torch.Generator) -> None:
    for row in range(len(seeds)):
        generator.manual_seed(seeds[row])
        out[row].normal_(0.0, 1.0, generator=generator)


@cache
def _without_lock() -> Callable[[torch.Tensor, list[int], torch.Generator], None]:
    """The same loop, run by torch, which lets go of the interpreter's lock for all of it; Python's own where it cannot.

    A thread that took the lock again for every row would wait for the other thread, milliseconds each time.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated in favour of compilers, which need a C++ compiler
        try:
            return torch.jit.script(rows_in_turn)
        except Exception:  # whatever a later torch says instead
            return rows_in_turn


def _fill_rows(out: torch.Tensor, seeds: list[int], generator: torch.Generator) -> None:
    """Rows of standard normal numbers, each from a seed of its own."""
    fill = _without_lock() if out.device.type == "cpu" else rows_in_turn
    fill(out, seeds, generator)


def _scramble(word: int) -> int:
    """A bijection of 32-bit words (a murmur finalizer), so that neighbouring keys look unrelated."""
    word &= _WORD
    word = ((word ^ (word >> 16)) * 0x85EBCA6B) & _WORD
    word = ((word ^ (word >> 13)) * 0xC2B2AE35) & _WORD
    return word ^ (word >> 16)
