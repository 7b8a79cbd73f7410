"""What one receiver hears of a slot under carrier and timing offsets, as an attacker would write it down.

    y(n) = sum_k e^(j theta_k(n)) (a_k w_k(n) + l_k w_k(n - 1) + e_k w_k(n + 1)) + receiver noise

in the receiver's own frame of phase. A sender's noise comes in through neighbouring symbols too, so it is correlated
from symbol to symbol: the covariance is tridiagonal, and its Cholesky factor whitens what is heard.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky_banded, solve_banded
from scipy.sparse import csr_array

from wirelessdl.arrays import FloatArray
from wirelessdl.learning.superposition import Segment, SymbolOffsets

Complex = NDArray[np.complex128]
SYMBOLS_LEFT_OUT = 2  # where the last one is half empty: its noise is not circular, and shows in the one before


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
        self._kept = self._count - (SYMBOLS_LEFT_OUT if width % 2 else 0)
        silent = np.zeros(len(noise_scale), dtype=np.complex128)
        late, early = offsets.late, offsets.early
        self.itself = _row(segment.weights, segment.crosstalk, receiver)
        self.late = silent if late is None else _row(late.weights, late.crosstalk, receiver)
        self.early = silent if early is None else _row(early.weights, early.crosstalk, receiver)
        self._ramp = np.zeros(len(silent)) if offsets.ramp_rad is None else offsets.ramp_rad
        self._place = np.arange(self._count) - 0.5 * (offsets.symbols - 1)
        self._factor = self._whitening(np.where(np.arange(len(silent)) == receiver, 0.0, noise_scale), receiver_scale)

    @property
    def audible(self) -> list[int]:
        """Nodes of which anything arrives, itself included."""
        return [int(node) for node in np.flatnonzero(np.abs(self.itself) + np.abs(self.late) + np.abs(self.early))]

    def through(self, sender: int, values: FloatArray) -> Complex:
        """What the receiver hears of values that a sender sends, `[N]`, in its own frame of phase."""
        w = _symbols(values)
        heard = self.itself[sender] * w
        heard[1:] += self.late[sender] * w[:-1]
        heard[:-1] += self.early[sender] * w[1:]
        return np.asarray(heard * self._turn(sender))

    def arrived(self, values: FloatArray) -> Complex:
        """What it holds after it turned symbols back, turned there again."""
        return np.asarray(_symbols(values) * self._turn(self._receiver))

    def whitened(self, heard: Complex) -> FloatArray:
        """Coordinates of unit noise, out of what is heard."""
        white = np.ascontiguousarray(solve_banded((1, 0), self._factor, heard[: self._kept]))
        return white.view(np.float64)

    def _turn(self, node: int) -> Complex:
        return np.asarray(np.exp(1j * self._ramp[node] * self._place))

    def _whitening(self, noise_scale: FloatArray, receiver_scale: float) -> Complex:
        """Cholesky factor of the noise, lower and banded; per real coordinate."""
        power = noise_scale**2
        ends = np.ones((2, self._count))
        ends[0, 0] = ends[1, -1] = 0.0  # nothing comes in from outside the slot
        variance = np.sum(power * np.abs(self.itself) ** 2) + receiver_scale**2
        beside = [np.sum(power * np.abs(part) ** 2) for part in (self.late, self.early)]
        joined = self.late * np.conj(self.itself) + self.itself * np.conj(self.early)
        band = np.zeros((2, self._count), dtype=np.complex128)
        band[0] = np.maximum(variance + beside @ ends, np.finfo(np.float64).tiny)
        band[1] = np.sum(power * joined * np.exp(1j * self._ramp))
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
