"""Random numbers in tensor operations, the same on every device: a counter and a key give 64 bits (SplitMix64).

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
from collections.abc import Iterator

import torch
from torch import Tensor

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
