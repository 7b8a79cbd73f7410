"""Second moments of features, and the rows of a node in coordinates in which they are even.

The arithmetic of the Gram stage; what is sent, charged and proven is in `wirelessdl.mechanism.gram`. In float64.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import BoolArray, FloatArray, IntArray

_INSIDE = 1.0 - 2.0**-20  # norm of a row that was scaled to 1, so that rounding never takes it further
_LEAST_EIGENVALUE = 0.01  # of a matrix of trace 1
_ROWS_AT_ONCE = 4096


def frames_of(features: int, size: int) -> int:
    """Payloads of `size` numbers that a triangle takes."""
    return -(-features * (features + 1) // (2 * size))


def unit_rows(rows: FloatArray) -> FloatArray:
    """Rows scaled to a norm just below 1, in float64; those of zeros, or without a finite norm, are zeros."""
    wide = np.asarray(rows, dtype=np.float64)
    # by the largest first: squares of small numbers vanish
    largest = np.abs(wide).max(axis=1, keepdims=True, initial=0.0)
    sound = np.isfinite(largest) & (largest > 0)
    wide = np.divide(wide, largest, out=np.zeros_like(wide), where=sound)
    norm = np.sqrt(np.square(wide).sum(axis=1, keepdims=True))
    return np.asarray(np.divide(wide * _INSIDE, norm, out=np.zeros_like(wide), where=sound))


def triangle(rows: FloatArray) -> FloatArray:
    """Upper triangle of the sum of z z' over rows, `[n, D]`, off-diagonal entries times sqrt 2."""
    total = np.zeros((rows.shape[1],) * 2)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        unit = unit_rows(rows[start : start + _ROWS_AT_ONCE])
        total += unit.T @ unit
    row, column = np.triu_indices(len(total))
    return np.asarray(np.where(row == column, 1.0, math.sqrt(2.0)) * total[row, column])


def preconditioner(received: FloatArray, features: int) -> FloatArray | None:
    """P of what a node received, a triangle in any scale; None where noise leaves no trace of it."""
    matrix, (row, column) = np.zeros((features, features)), np.triu_indices(features)
    matrix[row, column] = matrix[column, row] = np.where(row == column, 1.0, math.sqrt(0.5)) * received[: len(row)]
    trace = float(np.trace(matrix))
    if not trace > 0:
        return None
    value, vector = np.linalg.eigh(matrix / trace)
    floor = max(_LEAST_EIGENVALUE, -float(value[0]))
    return np.asarray((vector * np.sqrt(floor / np.maximum(value, floor))) @ vector.T)


def transformed(rows: Tensor, matrix: Tensor) -> Tensor:
    """Rows times P, `[n, D]`, each with the norm that it had."""
    turned = rows @ matrix
    norm = torch.linalg.vector_norm(turned, dim=1, keepdim=True)
    kept = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return turned * torch.where(norm > 0, kept / norm, 0.0)


class Gram:
    """The stage in a learning engine: what every node sends of its triangle, and what it has received.

    heard: [K, frames size] in the engine's numbers; got: [K, frames] which frames a node took part in.
    """

    def __init__(self, nodes: int, features: int, size: int, dtype: torch.dtype):
        self.features, self.size, self.frames = features, size, frames_of(features, size)
        self.heard = torch.zeros(nodes, self.frames * size, dtype=dtype)
        self.got: BoolArray = np.zeros((nodes, self.frames), dtype=bool)
        self._triangles: FloatArray | None = None
        self.matrices: list[Tensor | None] = []  # P of every node, once the stage is over

    def restart(self) -> None:
        """As if just built."""
        self.heard.zero_()
        self.got[:], self.matrices, self._triangles = False, [], None

    def sent(self, frame: int, part: slice, stored: Tensor, clients: Sequence[IntArray], null: int | None) -> Tensor:
        """What nodes send in a frame, from 1, before noise and c, `[n, size]`. stored: rows of all samples."""
        if self._triangles is None:
            self._triangles = np.zeros((len(clients), self.heard.shape[1]))
            for node, client in enumerate(clients):
                rows = stored[torch.from_numpy(client[client != null]).to(stored.device)].cpu().numpy()
                found = triangle(rows)
                self._triangles[node, : len(found)] = found
        here = slice((frame - 1) * self.size, frame * self.size)
        return torch.from_numpy(self._triangles[part, here].copy())

    def take(self, frame: int, received: Tensor, away: BoolArray) -> None:
        """What every node holds at the end of a frame; away: [K] who took no part."""
        here = torch.from_numpy(~away)
        self.chunk(frame)[here] = received[here].to(self.heard)
        self.got[:, frame - 1] = ~away
        if frame == self.frames:
            self.finish()

    def chunk(self, frame: int) -> Tensor:
        """What nodes received in a frame, from 1, `[K, size]`."""
        return self.heard[:, (frame - 1) * self.size : frame * self.size]

    def adopt(self, other: "Gram") -> None:
        """Go on from what another stage received."""
        self.heard.copy_(other.heard)
        self.got[:] = other.got
        self.finish()

    def finish(self) -> None:
        """The preconditioners; none for who missed a frame, whose rows stay as they are."""
        self._triangles, self.matrices = None, []
        for node in range(len(self.got)):
            whole = bool(self.got[node].all())
            found = preconditioner(self.heard[node].double().numpy(), self.features) if whole else None
            self.matrices.append(None if found is None else torch.from_numpy(found))

    def rows(self, node: int, rows: Tensor) -> Tensor:
        """Rows of features as a node has them after the stage."""
        matrix = self.matrices[node]
        return rows if matrix is None else transformed(rows.double(), matrix).to(rows)

    @property
    def apart(self) -> float:
        """Largest distance of two nodes' preconditioners from their mean, over its norm; NaN before there are any."""
        found = [matrix for matrix in self.matrices if matrix is not None]
        if not found:
            return math.nan
        mean = torch.stack(found).mean(dim=0)
        return max(float(torch.linalg.matrix_norm(one - mean) / torch.linalg.matrix_norm(mean)) for one in found)
