"""Random numbers of nodes, keyed by (node, round): they do not depend on batching or on the order of calls.

Noise comes from a generator in tensor operations, the same on every device, under one key of 64 bits. Its counters are

    [kind, 2 bits] [((round purposes + purpose) nodes + node) n + word]      n = ceil(m / 2) words of a row

for what a node draws, and [round, pair, word] for what two nodes share; kinds tell these apart, and `most_rounds` says
how long counters last. So no two rows of a run have a word in common. Batches come from NumPy's Philox, whose counter
is (call, node, round).

The generator: a counter and a key give 64 bits (SplitMix64).

    z = (i c + k) mod 2^64,   c = 0x9E3779B97F4A7C15          i: counter, k: key, 64 bits each
    z = (z ^ z >> 30) 0xBF58476D1CE4E5B9
    z = (z ^ z >> 27) 0x94D049BB133111EB
    z =  z ^ z >> 31

    normal    u = ((z mod 2^31) + 1/2) / 2^31,  v = pi (z >> 32) / 2^31 as signed halves;   sqrt(-2 ln u) (cos v, sin v)
    uniform   (z >> 11) / 2^53

For one key it is a bijection of the counter, so words of different counters never repeat within a run. On a CPU it
takes 1.4 to 1.8 times as long as torch's own generator seeded row by row; Philox in tensor operations four times, for
want of a product of 32-bit numbers with its upper half.

Integers are the same on every device and in NumPy; normal numbers to a few units in the last place, as logarithm and
cosine differ. The largest normal number is sqrt(2 ln 2^32) = 6.66. It is no cryptographic generator.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from wirelessdl import counter_rng
from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.streams import Streams

_PURPOSES = ("noise", "thermal")
_OF_PAIRS, _OF_DITHER = 1 << 61, 1 << 62  # kinds of counters, beside those of nodes
_COUNTERS = 1 << 61  # of each kind
_STEP, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685  # as signed 64-bit words
_WORDS = 2**17  # at a time, on the CPU: what a core's cache holds
_SIGN = 2**63


def as_signed(word: int) -> int:
    """A word of 64 bits as tensors hold it."""
    return (word + _SIGN) % 2**64 - _SIGN


def _mixed(z: Tensor, scratch: Tensor) -> Tensor:
    """Words in place of i c + k, int64. scratch: of the same shape and type, overwritten."""
    for bits, factor in ((30, _FIRST), (27, _SECOND), (31, 1)):
        torch.bitwise_right_shift(z, bits, out=scratch)
        z.bitwise_xor_(scratch.bitwise_and_((1 << (64 - bits)) - 1))  # shifts of signed words keep the sign
        if factor != 1:
            z.mul_(factor)
    return z


class CounterGenerator:
    """Fills rows of tensors; keeps what it needs between calls, so every thread has one of its own."""

    def __init__(self, device: torch.device):
        self._device = device
        self._columns = torch.zeros(0, dtype=torch.int64, device=device)
        self._kept: dict[tuple[int, int, torch.dtype], tuple[Tensor, ...]] = {}

    def fill_normal(self, out: Tensor, first: Tensor, key: int) -> None:
        """Standard normal numbers, `[rows, m]`, in place. first: [rows] int64, the counter at which each row begins.

        A row of m numbers takes ceil(m / 2) counters: number c and number ceil(m / 2) + c come from one word.
        """
        size = out.shape[1]
        half = (size + 1) // 2
        for rows, start, stop in _pieces(len(out), half, self._device):
            z, shifted, bits, radius, angle = self._buffers(len(out[rows]), stop - start, out.dtype)
            self._begin(z, first[rows], start, key)
            _mixed(z, shifted)
            lower, upper = z.view(torch.int32).view(*z.shape, 2).unbind(2)
            torch.bitwise_and(lower, 2**31 - 1, out=bits)
            radius.copy_(bits).add_(0.5).mul_(2.0**-31).log_().mul_(-2.0).sqrt_()
            angle.copy_(upper).mul_(math.pi * 2.0**-31)
            torch.mul(torch.cos(angle), radius, out=out[rows, start:stop])
            last = min(half + stop, size) - half
            if start < last:
                there = slice(None), slice(0, last - start)
                torch.mul(angle.sin_()[there], radius[there], out=out[rows, half + start : half + last])

    def fill_uniform(self, out: Tensor, first: Tensor, key: int) -> None:
        """Uniform on [0, 1), `[rows, m]` in the type of `out`, in place; a row takes m counters."""
        for rows, start, stop in _pieces(len(out), out.shape[1], self._device):
            z, shifted, *_ = self._buffers(len(out[rows]), stop - start, out.dtype)
            self._begin(z, first[rows], start, key)
            _mixed(z, shifted).bitwise_right_shift_(11).bitwise_and_(2**53 - 1)
            out[rows, start:stop] = z.to(out.dtype).mul_(2.0**-53)

    def _begin(self, z: Tensor, first: Tensor, start: int, key: int) -> None:
        """i c + k into z: counters from first + start on, row by row."""
        if self._columns.numel() < z.shape[1]:
            self._columns = torch.arange(z.shape[1], device=self._device).mul_(_STEP)
        rows = (first + start).mul_(_STEP).add_(as_signed(key))
        torch.add(rows.unsqueeze(1), self._columns[: z.shape[1]], out=z)

    def _buffers(self, rows: int, columns: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Two of words, one of their halves, two of numbers, `[rows, columns]` each."""
        place = (rows, columns, dtype)
        if place not in self._kept:
            kinds = (torch.int64, torch.int64, torch.int32, dtype, dtype)
            if len(self._kept) > 8:
                self._kept.clear()
            self._kept[place] = tuple(torch.empty(rows, columns, dtype=kind, device=self._device) for kind in kinds)
        return self._kept[place]


def _pieces(rows: int, columns: int, device: torch.device) -> Iterator[tuple[slice, int, int]]:
    """Rows, first and last column of pieces of a tensor; an accelerator takes it whole."""
    if device.type != "cpu":
        yield slice(0, rows), 0, columns
        return
    wide = min(columns, _WORDS)
    high = max(1, _WORDS // max(1, wide))
    for row in range(0, rows, high):
        for start in range(0, columns, max(1, wide)):
            yield slice(row, row + high), start, min(start + wide, columns)


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
