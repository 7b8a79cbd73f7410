"""What one receiver hears of a slot under carrier and timing offsets, as an attacker would write it down.

    y(n) = sum_k e^(j theta_k(n)) sum_d a_k(d) w_k(n - d) + receiver noise

in the receiver's own frame of phase. A sender's noise comes in through several symbols d, so it is correlated from
symbol to symbol: the covariance is banded, and its Cholesky factor whitens what is heard.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky_banded, solve_banded
from scipy.sparse import csr_array

from wirelessdl.arrays import FloatArray
from wirelessdl.learning.superposition import Segment, SymbolOffsets

Complex = NDArray[np.complex128]
MIN_SYMBOLS_LEFT_OUT = 2  # symbols left out, at least, where the last one is half empty: its noise is not circular
VARIANCE_FLOOR = 1e-12  # of the variance, added to it: paths of over half a symbol leave next to no noise somewhere


class OffsetHearing:
    """One receiver's view of one segment. noise_scale: [K] of senders; receiver_scale: its own, 0 if not counted."""

    def __init__(
        self,
        segment: Segment,
        offsets: SymbolOffsets,
        receiver: int,
        noise_scale: FloatArray,
        receiver_scale: float,
        width: int,
    ):
        self._receiver, self._count = receiver, -(-width // 2)
        self._paths = {0: _row(segment.weights, segment.crosstalk, receiver)}
        self._paths |= {part.delay: _row(part.weights, part.crosstalk, receiver) for part in offsets.shifted}
        self._kept = max(0, self._count - (max(MIN_SYMBOLS_LEFT_OUT, 1 - min(self._paths)) if width % 2 else 0))
        nodes = len(noise_scale)
        self._ramp = np.zeros(nodes) if offsets.ramp_rad is None else offsets.ramp_rad
        self._place = np.arange(self._count) - 0.5 * (offsets.symbols - 1)
        self._factor = self._whitening(np.where(np.arange(nodes) == receiver, 0.0, noise_scale), receiver_scale)

    @property
    def audible(self) -> list[int]:
        """Nodes of which anything arrives, itself included."""
        return [int(node) for node in np.flatnonzero(np.sum([np.abs(path) for path in self._paths.values()], axis=0))]

    def through(self, sender: int, values: FloatArray) -> Complex:
        """What the receiver hears of values that a sender sends, `[N]`, in its own frame of phase."""
        w = _symbols(values)
        heard = np.zeros_like(w)
        for delay, path in self._paths.items():
            late, early = min(max(delay, 0), len(w)), min(max(-delay, 0), len(w))
            heard[late : len(w) - early] += path[sender] * w[early : len(w) - late]
        return np.asarray(heard * self._turn(sender))

    def arrived(self, values: FloatArray) -> Complex:
        """What it holds after it turned symbols back, turned there again."""
        return np.asarray(_symbols(values) * self._turn(self._receiver))

    def whitened(self, heard: Complex) -> FloatArray:
        """Coordinates of unit noise, out of what is heard."""
        below = len(self._factor) - 1
        white = np.ascontiguousarray(solve_banded((below, 0), self._factor, heard[: self._kept]))
        return white.view(np.float64)

    def _turn(self, node: int) -> Complex:
        return np.asarray(np.exp(1j * self._ramp[node] * self._place))

    def _whitening(self, noise_scale: FloatArray, receiver_scale: float) -> Complex:
        """Cholesky factor of the noise, lower and banded; per real coordinate."""
        power, count = noise_scale**2, self._count
        widest = max(self._paths) - min(self._paths)
        band = np.zeros((min(widest, max(self._kept - 1, 0)) + 1, count), dtype=np.complex128)
        reached = np.zeros(count, dtype=bool)
        for delay, path in self._paths.items():
            here = slice(max(delay, 0), max(count + min(delay, 0), 0))  # nothing comes in from outside the slot
            reached[here] |= bool(np.delete(path, self._receiver).any())
            for apart, row in enumerate(band):
                later = self._paths.get(delay + apart)
                if later is not None:
                    row[here] += np.sum(power * later * np.conj(path) * np.exp(1j * apart * self._ramp))
        variance = band[0].real + receiver_scale**2
        # where nobody is heard there is nothing to whiten but rounding
        floor = np.where(reached, np.finfo(np.float64).tiny, 1.0)
        band[0] = np.maximum(variance * (1.0 + VARIANCE_FLOOR), floor)
        return np.asarray(cholesky_banded(band[:, : self._kept], lower=True))


def dense_row(weights: FloatArray | csr_array | None, receiver: int) -> FloatArray | float:
    """Weights of one receiver, `[K]`; 0 where there are none."""
    if weights is None:
        return 0.0
    row: FloatArray = weights[[receiver]].toarray()[0] if isinstance(weights, csr_array) else weights[receiver]
    return row


def _row(weights: FloatArray | csr_array, crosstalk: FloatArray | csr_array | None, receiver: int) -> Complex:
    return np.asarray(dense_row(weights, receiver) + 1j * dense_row(crosstalk, receiver))


def _symbols(values: FloatArray) -> Complex:
    whole = values if len(values) % 2 == 0 else np.append(values, 0.0)
    return np.ascontiguousarray(whole).view(np.complex128).copy()
