"""Gains from a file: measured, or computed by another simulator.

Parquet with the columns time_s, tx, rx, gain, or npz with arrays of these names: one row per link and
instant, `gain` the amplitude |h|, time_s in seconds; an npz may hold instead one row per instant, gain
`[times, links]` with time_s `[times]` and tx, rx `[links]`. Instants need not be the same for all links. Between two
instants the earlier gain holds, or gains are interpolated; before its first and after its last instant a link keeps
the gain of that instant. A file with a single instant is a static channel.

`wirelessdl channel SCENARIO --export FILE` writes such a file.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.channel.model import Composable
from wirelessdl.links import Links

COLUMNS = ("time_s", "tx", "rx", "gain")


class Replay(Composable):
    """|h| from a file. after_end: what follows its last instant: an error, the last gains, or the file again."""

    def __init__(
        self,
        find_file: Callable[[str], Path],
        file: str,
        interpolation: Literal["hold", "linear"] = "hold",
        reciprocal: bool = False,
        after_end: Literal["error", "hold", "repeat"] = "error",
    ):
        self.file, self.interpolation, self.reciprocal, self.after_end = file, interpolation, reciprocal, after_end
        self._trace = _Trace(*_read(find_file(file), file), file)
        self._of: IntArray | None = None
        self._rows: IntArray = np.zeros(0, np.int64)

    @property
    def ends_s(self) -> float:
        """Last instant for which there are gains, s; inf where the file is held or repeated."""
        return float("inf") if self.after_end != "error" else self._trace.ends_s

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        if self._of is not links.rx:
            self._of, self._rows = links.rx, self._find(links)
        if time_s > self.ends_s:
            raise ValueError(f"{self.file} ends at {self.ends_s:g} s; {shorter(time_s)}")
        when = time_s
        if self.after_end == "repeat" and np.isfinite(self._trace.ends_s) and time_s > self._trace.ends_s:
            when = self._trace.starts_s + (time_s - self._trace.starts_s) % self._trace.span_s
        return self._trace.at(self._rows, when, linear=self.interpolation == "linear")

    def _find(self, links: Links) -> IntArray:
        """Number in the file of each link, `[links]`; a ValueError where one is missing."""
        rows = self._trace.row(links.tx, links.rx)
        if self.reciprocal:
            rows = np.where(rows < 0, self._trace.row(links.rx, links.tx), rows)
        if (rows < 0).any():
            first = int(np.argmax(rows < 0))
            remedy = "" if self.reciprocal else ", or set reciprocal = true where it has the other direction"
            raise ValueError(
                f"{self.file} has no gain for link {links.tx[first]} -> {links.rx[first]} "
                f"({int((rows < 0).sum())} of {len(links)} links missing); add its rows{remedy}"
            )
        return rows


def shorter(time_s: float) -> str:
    """The remedy for a file that ends before time_s."""
    return f'the run goes on to {time_s:g} s: run fewer rounds, or set after_end = "hold" or "repeat"'


class _Trace:
    """Instants and gains of links, link by link in order of time."""

    def __init__(self, time_s: FloatArray, tx: IntArray, rx: IntArray, gain: FloatArray, name: str):
        order = np.lexsort((time_s, rx, tx))
        self._time_s, self._gain = time_s[order], gain[order]
        tx, rx = tx[order], rx[order]
        self._width = int(max(tx.max(), rx.max())) + 1
        self._key, self._first, count = np.unique(tx * self._width + rx, return_index=True, return_counts=True)
        self._last = self._first + count - 1
        twice = np.flatnonzero((np.diff(self._time_s) <= 0) & (np.diff(tx * self._width + rx) == 0))
        if len(twice):
            at = twice[0]
            raise ValueError(f"file is {name!r}; link {tx[at]} -> {rx[at]} has {self._time_s[at]:g} s twice")
        # links may come and go; what ends is the file. One instant for all is a static channel, and never ends
        self.starts_s, ends_s = float(self._time_s.min()), float(self._time_s.max())
        self.ends_s = ends_s if ends_s > self.starts_s else float("inf")
        self.span_s = self.ends_s - self.starts_s

    def row(self, tx: IntArray, rx: IntArray) -> IntArray:
        """Number of each link in the file, `[links]`, -1 where it is missing."""
        key = np.where((tx < self._width) & (rx < self._width), tx * self._width + rx, -1)
        place = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
        return np.where(self._key[place] == key, place, -1)

    def at(self, rows: IntArray, time_s: float, *, linear: bool) -> FloatArray:
        """|h| of links at one instant, `[len(rows)]`: at the instant before it, or interpolated."""
        low, high = self._first[rows], self._last[rows]
        if time_s < self.starts_s < self.ends_s < float("inf"):
            raise ValueError(f"the file begins at {self.starts_s:g} s; the run asks for {time_s:g} s")
        while (low < high).any():  # bisection of all links at once: the last instant that is not later
            middle = (low + high + 1) // 2
            later = self._time_s[middle] > time_s
            low, high = np.where(later, low, middle), np.where(later, middle - 1, high)
        if not linear:
            return np.asarray(self._gain[low])
        after = np.minimum(low + 1, self._last[rows])
        span = self._time_s[after] - self._time_s[low]
        share = np.clip((time_s - self._time_s[low]) / np.where(span > 0, span, 1.0), 0.0, 1.0)
        return np.asarray((1.0 - share) * self._gain[low] + share * self._gain[after])


def write(path: Path, time_s: FloatArray, tx: IntArray, rx: IntArray, gain: FloatArray) -> None:
    """A file that `Replay` reads, one row per link and instant."""
    columns = dict(zip(COLUMNS, (time_s, tx, rx, gain)))
    with open(path, "wb") as file:
        if path.suffix == ".npz":
            np.savez_compressed(file, **columns)  # type: ignore[arg-type]
        else:
            pq.write_table(pa.table(columns), file, compression="zstd")


def _read(path: Path, name: str) -> tuple[FloatArray, IntArray, IntArray, FloatArray]:
    """time_s, tx, rx, gain of equal length, checked."""
    columns = _columns(path, name)
    missing = [column for column in COLUMNS if column not in columns]
    if missing:
        raise ValueError(f"file is {name!r}; has no {missing[0]}: it must hold {', '.join(COLUMNS)}")
    try:
        time_s, gain = (np.asarray(columns[column], dtype=np.float64) for column in ("time_s", "gain"))
        tx, rx = (np.asarray(columns[column]).astype(np.int64, casting="same_kind") for column in ("tx", "rx"))
    except (TypeError, ValueError):
        raise ValueError(f"file is {name!r}; time_s and gain must be numbers, tx and rx whole ones") from None
    if gain.ndim == 2 and gain.shape == (len(time_s), len(tx)):
        time_s, gain = np.repeat(time_s, len(tx)), gain.ravel()
        tx, rx = (np.tile(values, len(time_s) // len(values)) for values in (tx, rx))
    shapes = {values.shape for values in (time_s, tx, rx, gain)}
    if len(shapes) > 1 or gain.ndim != 1:
        raise ValueError(f"file is {name!r}; its columns have different lengths")
    if not len(gain):
        raise ValueError(f"file is {name!r}; holds no rows")
    bad = ~(np.isfinite(gain) & (gain >= 0) & np.isfinite(time_s)) | (tx < 0) | (rx < 0)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(
            f"file is {name!r}; row {at} has gain {gain[at]:g} at {time_s[at]:g} s for link {tx[at]} -> {rx[at]}: "
            "gains must be finite amplitudes >= 0, nodes count from 0"
        )
    return time_s, tx, rx, gain


def _columns(path: Path, name: str) -> dict[str, Any]:
    try:
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                return {key: arrays[key] for key in arrays.files}
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            return {key: table[key].to_numpy() for key in table.column_names}
    except (OSError, ValueError, pa.ArrowInvalid) as error:
        raise ValueError(f"file is {name!r}; cannot be read: {str(error).splitlines()[0]}") from None
    raise ValueError(f"file is {name!r}; must end in .parquet or .npz")
