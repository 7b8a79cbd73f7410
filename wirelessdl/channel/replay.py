"""Gains from a file: measured, or computed by another simulator.

Parquet with the columns time_s, tx, rx, gain, or npz with arrays of these names: one row per link and
instant, `gain` the amplitude |h|, time_s in seconds; an npz may hold instead one row per instant, gain
`[times, links]` with time_s `[times]` and tx, rx `[links]`. Instants need not be the same for all links. Between two
instants the earlier gain holds, or gains are interpolated; before its first and after its last instant a link keeps
the gain of that instant. A file with a single instant is a static channel.

Complex h: columns gain_re and gain_im instead of gain, or a complex `gain` in npz. Interpolation then goes through the
complex plane, where fades are; receivers compensate the phase itself. Subbands: a column `subband`, from 0, the lowest
frequency first, with a row for every subband; in npz also as a last axis of gain, `[rows, subbands]` or
`[times, links, subbands]`. h of a subband is that at its centre. A file without subbands holds for the whole band.

`wirelessdl channel SCENARIO --export FILE` writes such a file, amplitudes only.
"""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.channel.model import Composable
from wirelessdl.links import Links
from wirelessdl.memory import require_free, require_room_unpacked

COLUMNS = ("time_s", "tx", "rx", "gain")
MAX_NODES = 1 << 31  # the number of a pair of nodes fits in 64 bits
ComplexArray: TypeAlias = NDArray[np.complex128]


class Replay(Composable):
    """Gains from a file. after_end: what follows its last instant: an error, the last gains, or the file again."""

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
        if self._trace.subbands > 1:
            raise ValueError(self._mismatch(1))
        return np.asarray(np.abs(self._at(links, time_s)[:, 0]))

    def response(
        self,
        links: Links,
        time_s: float,
        offset_hz: FloatArray,
        rng: np.random.Generator,
    ) -> ComplexArray:
        """h of every subband, `[subbands, links]` complex."""
        if self._trace.subbands not in (1, len(offset_hz)):
            raise ValueError(self._mismatch(len(offset_hz)))
        found = self._at(links, time_s).T
        return np.broadcast_to(found.astype(np.complex128), (len(offset_hz), len(links)))

    def _mismatch(self, subbands: int) -> str:
        count = self._trace.subbands
        return f"{self.file} holds {count} subbands, radio.subbands is {subbands}: set radio.subbands = {count}"

    def _at(self, links: Links, time_s: float) -> FloatArray | ComplexArray:
        """h of links at an instant, `[links, subbands]`; amplitudes where the file has no phases."""
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
    """Instants and gains of links, link by link in order of time. gain: [rows, subbands], complex or amplitudes."""

    def __init__(self, time_s: FloatArray, tx: IntArray, rx: IntArray, gain: FloatArray | ComplexArray, name: str):
        self.subbands = gain.shape[1]
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

    def at(self, rows: IntArray, time_s: float, *, linear: bool) -> FloatArray | ComplexArray:
        """h of links at one instant, `[len(rows), subbands]`: at the instant before it, or interpolated."""
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
        share = np.clip((time_s - self._time_s[low]) / np.where(span > 0, span, 1.0), 0.0, 1.0)[:, None]
        return np.asarray((1.0 - share) * self._gain[low] + share * self._gain[after])


def write(
    file: IO[bytes], ending: str, time_s: FloatArray, tx: IntArray, rx: IntArray, gain: FloatArray | ComplexArray
) -> None:
    """A file that `Replay` reads, one row per link and instant.

    ending: of its name, .npz or .parquet. gain: [rows], or [rows, subbands]; may be complex.
    """
    columns: dict[str, Any] = dict(zip(COLUMNS, (time_s, tx, rx, gain)))
    if ending != ".npz" and gain.ndim == 2:
        count = gain.shape[1]
        columns = {name: np.repeat(columns[name], count) for name in ("time_s", "tx", "rx")}
        columns |= {"subband": np.tile(np.arange(count), len(gain)), "gain": gain.reshape(-1)}
    if ending != ".npz" and np.iscomplexobj(gain):
        values = columns.pop("gain")
        columns |= {"gain_re": values.real, "gain_im": values.imag}
    if ending == ".npz":
        np.savez_compressed(file, **columns)
    else:
        pq.write_table(pa.table(columns), file, compression="zstd")


def _read(path: Path, name: str) -> tuple[FloatArray, IntArray, IntArray, FloatArray | ComplexArray]:
    """time_s, tx, rx `[rows]` and gain `[rows, subbands]`, checked."""
    columns = _columns(path, name)
    parts = ("gain_re", "gain_im")
    if "gain" not in columns and all(part in columns for part in parts):
        real, imaginary = (_numbers(columns[part], part, name) for part in parts)
        if real.shape != imaginary.shape:
            raise ValueError(f"file is {name!r}; its columns have different lengths")
        columns["gain"] = real + 1j * imaginary
    missing = [column for column in COLUMNS if column not in columns]
    if missing:
        raise ValueError(
            f"file is {name!r}; has no {missing[0]}: it must hold {', '.join(COLUMNS)} (or gain_re and gain_im)"
        )
    time_s, gain = _numbers(columns["time_s"], "time_s", name), _gains(columns["gain"], name)
    tx, rx = (_whole(columns[column], name) for column in ("tx", "rx"))
    if not time_s.ndim or not tx.ndim or not rx.ndim:
        raise ValueError(f"file is {name!r}; time_s, tx and rx must be lists, also of one instant or link")
    if gain.ndim >= 2 and gain.shape[:2] == (len(time_s), len(tx)) and len(tx) == len(rx):
        gain = gain.reshape(len(time_s) * len(tx), *gain.shape[2:])
        time_s = np.repeat(time_s, len(tx))
        tx, rx = (np.tile(values, len(gain) // max(1, len(values))) for values in (tx, rx))
    if len({values.shape for values in (time_s, tx, rx)} | {gain.shape[:1]}) > 1 or gain.ndim > 2 or time_s.ndim != 1:
        raise ValueError(f"file is {name!r}; its columns have different lengths")
    if not gain.size:
        raise ValueError(f"file is {name!r}; holds no rows")
    _require_sound(time_s, tx, rx, gain, name)
    if "subband" not in columns:
        return time_s, tx, rx, gain.reshape(len(gain), -1)
    subband = _whole(columns["subband"], name)
    if gain.ndim != 1 or subband.shape != gain.shape:
        raise ValueError(f"file is {name!r}; subband must have one number per row of one gain")
    return _by_subband(time_s, tx, rx, gain, subband, name)


def _by_subband(
    time_s: FloatArray, tx: IntArray, rx: IntArray, gain: FloatArray | ComplexArray, subband: IntArray, name: str
) -> tuple[FloatArray, IntArray, IntArray, FloatArray | ComplexArray]:
    """Rows of single subbands, brought together by link and instant."""
    order = np.lexsort((subband, time_s, rx, tx))
    time_s, tx, rx, gain, subband = time_s[order], tx[order], rx[order], gain[order], subband[order]
    begins = np.concatenate([[True], (np.diff(time_s) != 0) | (np.diff(tx) != 0) | (np.diff(rx) != 0)])
    first = np.flatnonzero(begins)
    count = int(np.diff([*first, len(gain)]).max())
    wrong = subband != np.arange(len(gain)) - first[np.cumsum(begins) - 1]
    short = np.diff([*first, len(gain)]) != count
    if wrong.any() or short.any():
        at = int(np.argmax(wrong)) if wrong.any() else int(first[np.argmax(short)])
        raise ValueError(
            f"file is {name!r}; link {tx[at]} -> {rx[at]} at {time_s[at]:g} s does not have every subband from 0 to "
            f"{max(count - 1, int(subband.max()))} once"
        )
    return time_s[first], tx[first], rx[first], gain.reshape(-1, count)


def _require_sound(time_s: FloatArray, tx: IntArray, rx: IntArray, gain: FloatArray | ComplexArray, name: str) -> None:
    """Raise where a row is no finite gain of a link; amplitudes must not be negative, complex numbers may be any."""
    fits = np.isfinite(gain) if np.iscomplexobj(gain) else np.isfinite(gain) & (gain.real >= 0)
    whole = fits if gain.ndim == 1 else fits.all(axis=1)
    bad = ~(whole & np.isfinite(time_s)) | (tx < 0) | (rx < 0) | (np.maximum(tx, rx) >= MAX_NODES)
    if bad.any():
        at = int(np.argmax(bad))
        value = gain[at] if gain.ndim == 1 else gain[at][int(np.argmin(fits[at]))]
        raise ValueError(
            f"file is {name!r}; row {at} has gain {value:g} at {time_s[at]:g} s for link {tx[at]} -> {rx[at]}: "
            "gains must be finite, amplitudes >= 0, nodes count from 0"
        )


_KINDS = "time_s and gain must be numbers, tx and rx whole ones, as subband"


def _numbers(values: Any, column: str, name: str) -> FloatArray:
    kind = np.asarray(values).dtype.kind
    if kind == "c":
        raise ValueError(f"file is {name!r}; {column} holds complex numbers")
    if kind in "mM":  # as numbers they would be nanoseconds, or whatever their unit is
        raise ValueError(f"file is {name!r}; {column} holds dates or times; must be numbers, time_s in seconds")
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"file is {name!r}; {_KINDS}") from None


def _gains(values: Any, name: str) -> FloatArray | ComplexArray:
    found = np.asarray(values)
    return found.astype(np.complex128) if found.dtype.kind == "c" else _numbers(found, "gain", name)


def _whole(values: Any, name: str) -> IntArray:
    try:
        if np.asarray(values).dtype.kind in "mM":
            raise TypeError
        return np.asarray(values).astype(np.int64, casting="same_kind")
    except (TypeError, ValueError):
        raise ValueError(f"file is {name!r}; {_KINDS}") from None


def _columns(path: Path, name: str) -> dict[str, Any]:
    try:
        if path.suffix == ".npz":
            require_room_unpacked("all arrays", path)
            with np.load(path) as arrays:
                return {key: arrays[key] for key in arrays.files}  # of a .npy: an array, which has no files
        if path.suffix == ".parquet":
            stored = pq.read_metadata(path)
            require_free(f"{stored.num_rows} rows", 8.0 * stored.num_rows * stored.num_columns, "bring fewer")
            table = pq.read_table(path)
            return {key: table[key].to_numpy() for key in table.column_names}
    except (TypeError, AttributeError):
        raise ValueError(f"file is {name!r}; cannot be read: it is no npz of arrays; write it with np.savez") from None
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error, NotImplementedError, pa.ArrowException) as error:
        words = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"file is {name!r}; cannot be read: {words}") from None
    raise ValueError(f"file is {name!r}; must end in .parquet or .npz")
