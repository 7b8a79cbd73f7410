"""Releases counted by noise, so that totals can be composed later, whatever fading, outage or plans did to them.

A noise multiplier nu is rounded down to a grid of equal ratios, so a total of counted releases is never below that of
the releases themselves:

    cell = floor(ln(nu / 1e-3) / ln(ratio)),   nu from 1e-3 to 1e4;   -1: less noise than the grid holds

A stream is whatever releases are counted for: a sender (own view) or a link (link view); both have a grid of 1%.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray, IntArray

_NU_MIN = 1e-3
_MAX_RELEASES = 1 << 31  # releases in one cell: more than any run has rounds, and sums of many stay whole
_SLOTS_PER_FOLD = 64  # slots kept apart before they are counted


@dataclass(frozen=True)
class NoiseGrid:
    """Noise multipliers at equal ratios: `cells` of them from 1e-3 on."""

    ratio: float
    cells: int

    @cached_property
    def _step(self) -> float:
        return math.log(self.ratio)

    def cell(self, nu: FloatArray) -> IntArray:
        """Cell that each noise multiplier is rounded down to; -1: less noise than the grid holds."""
        with np.errstate(divide="ignore"):
            cell = np.floor(np.log(nu / _NU_MIN) / self._step)
        return np.clip(cell, -1, self.cells - 1).astype(np.int64)

    def nu(self, cell: IntArray) -> FloatArray:
        """Noise multiplier of each cell, its lower end; 0 for the cell -1."""
        return np.where(cell < 0, 0.0, _NU_MIN * np.exp(cell * self._step))


GRID = NoiseGrid(1.01, 1621)  # up to 1e4


class ReleaseCounts:
    """How many releases each stream made in each cell of `GRID`."""

    def __init__(self) -> None:
        self._width = GRID.cells + 1
        self._pending: list[IntArray] = []
        # stream * width + cell + 1, and how often
        self._key, self._count = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._by_stream: list[dict[int, int]] | None = None

    def record(self, stream: IntArray, mu: FloatArray) -> None:
        """Count one release for each stream named. mu: `[len(stream)]` sensitivity over noise deviation; 0 is none."""
        charged = mu > 0
        with np.errstate(divide="ignore"):
            cell = GRID.cell(1.0 / mu[charged])
        self._pending.append(stream[charged] * self._width + cell + 1)
        self._by_stream = None
        if len(self._pending) >= _SLOTS_PER_FOLD:
            self._fold()

    def entries(self) -> tuple[IntArray, IntArray, IntArray]:
        """Stream, cell and number of releases, in order of streams and cells."""
        self._fold()
        stream, cell = np.divmod(self._key, self._width)
        return stream, cell - 1, self._count.copy()

    def by_stream(self, streams: int) -> list[dict[int, int]]:
        """Releases per cell of each of so many streams."""
        self._fold()
        if self._by_stream is None or len(self._by_stream) != streams:
            self._by_stream = [{} for _ in range(streams)]
            for key, count in zip(self._key.tolist(), self._count.tolist()):
                self._by_stream[key // self._width][key % self._width - 1] = count
        return self._by_stream

    def rounds(self, streams: int) -> IntArray:
        """Releases of each of so many streams, `[streams]`."""
        self._fold()
        return np.bincount(self._key // self._width, weights=self._count, minlength=streams).astype(np.int64)

    def most_cells(self) -> int:
        """Cells of the stream that released in most of them."""
        self._fold()
        return int(np.bincount(self._key // self._width).max(initial=0))

    def state(self) -> NDArray[Any]:
        """All it remembers, `[2, entries]`."""
        self._fold()
        return np.stack([self._key, self._count])

    def fits(self, state: NDArray[Any], streams: int) -> bool:
        """Whether a state, `[2, entries]`, counts releases of so many streams, each cell once."""
        key, count = state
        inside = bool(((key >= 0) & (key < streams * self._width) & (count > 0) & (count < _MAX_RELEASES)).all())
        return inside and len(np.unique(key)) == len(key)

    def fewer_than(self, other: "ReleaseCounts") -> IntArray:
        """Streams, in order, that released less than another count says, or the same with more noise."""
        other._fold()
        stream = other._key // self._width
        return np.unique(stream[self._up_to(other._key) < other._up_to(other._key)])

    def _up_to(self, key: IntArray) -> IntArray:
        """Releases of each key's stream in its cell and all cells of less noise, `[keys]`."""
        self._fold()
        total = np.concatenate([[0], np.cumsum(self._count)])
        start = np.searchsorted(self._key, key // self._width * self._width)
        return np.asarray(total[np.searchsorted(self._key, key, side="right")] - total[start])

    def renumbered(self, number: IntArray) -> "ReleaseCounts":
        """The same releases with other numbers for the streams. number: [streams]."""
        stream, cell, count = self.entries()
        again = ReleaseCounts()
        again.restore(np.stack([number[stream] * self._width + cell + 1, count]))
        return again

    def restore(self, state: NDArray[Any]) -> None:
        self._pending, self._by_stream = [], None
        order = np.argsort(state[0])
        self._key, self._count = state[:, order]

    def _fold(self) -> None:
        if not self._pending:
            return
        new, times = np.unique(np.concatenate(self._pending), return_counts=True)
        self._pending = []
        place = np.searchsorted(self._key, new)
        met = np.append(self._key, -1)[place] == new
        self._count[place[met]] += times[met]
        if not met.all():
            key, count = np.append(self._key, new[~met]), np.append(self._count, times[~met])
            order = np.argsort(key)
            self._key, self._count = key[order], count[order]
