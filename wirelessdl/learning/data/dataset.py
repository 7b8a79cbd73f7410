"""A data set: samples as stored, labels, a common test set, and constants of normalisation."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray, IntArray

Task = Literal["classification", "regression"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples first, as stored; a batch becomes (stored / scale - mean) / deviation.

    Images are [N, H, W] or [N, C, H, W]; mean and deviation are one number, or one per channel. They are
    published constants of the data set, never statistics of a node's own data: those would be a release
    of their own. Labels are class numbers from 0, or real numbers (task "regression", classes 1).
    """

    name: str
    train_x: NDArray[Any]
    train_y: NDArray[Any]
    test_x: NDArray[Any]
    test_y: NDArray[Any]
    classes: int
    scale: float = 1.0
    mean: float | tuple[float, ...] = 0.0
    deviation: float | tuple[float, ...] = 1.0
    task: Task = "classification"
    truth: FloatArray | None = None  # weights that made a synthetic regression, the intercept last

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            _check_part(part, getattr(self, f"{part}_x"), getattr(self, f"{part}_y"), self.task, self.classes)
        if self.train_x.shape[1:] != self.test_x.shape[1:]:
            raise ValueError(
                f"test_x has samples of shape {self.test_x.shape[1:]}; train_x has {self.train_x.shape[1:]}: "
                "they must be alike"
            )
        for name, constant in (("mean", self.mean), ("deviation", self.deviation)):
            channels = self.shape[0] if len(self.shape) == 3 else 1
            if isinstance(constant, tuple) and len(constant) != channels:
                raise ValueError(f"{name} is {constant}; must be one number, or one for each of {channels} channels")
            if not np.isfinite(constant).all() or (name == "deviation" and not np.greater(constant, 0).all()):
                raise ValueError(f"{name} is {constant}; must be finite" + (" and > 0" if name == "deviation" else ""))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample as stored: (features,), (H, W) or (C, H, W)."""
        return tuple(self.train_x.shape[1:])

    @property
    def features(self) -> int:
        """Numbers per sample."""
        return int(np.prod(self.shape))

    def normalised(self, stored: NDArray[Any]) -> FloatArray:
        """Samples as a model's input, in float64."""
        mean, deviation = (
            np.reshape(np.asarray(constant, dtype=np.float64), (-1, 1, 1)) if isinstance(constant, tuple) else constant
            for constant in (self.mean, self.deviation)
        )
        return np.asarray((stored / self.scale - mean) / deviation, dtype=np.float64)

    @cached_property
    def keys(self) -> IntArray:
        """A number for each training sample that depends on what it holds, not on where it stands."""
        rows = np.ascontiguousarray(self.train_x).reshape(len(self.train_x), -1)
        labels = np.ascontiguousarray(self.train_y)
        digests = (
            hashlib.blake2b(row.tobytes() + label.tobytes(), digest_size=8).digest()
            for row, label in zip(rows, labels, strict=True)
        )
        return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)


def _check_part(part: str, x: NDArray[Any], y: NDArray[Any], task: Task, classes: int) -> None:
    if x.ndim < 2 or y.ndim != 1 or len(x) != len(y):
        raise ValueError(
            f"{part}_x has shape {x.shape} and {part}_y {y.shape}; must be samples first, one label for each sample"
        )
    if not len(x):
        raise ValueError(f"{part}_x has no samples; needs at least one")
    for name, values in (("x", x), ("y", y)):
        if np.ma.is_masked(values):
            raise ValueError(f"{part}_{name} has masked entries, which nothing would leave out; fill or drop them")
    if x.dtype.kind not in "fiub" or (x.dtype.kind == "f" and not np.isfinite(x).all()):
        raise ValueError(f"{part}_x holds something other than finite numbers; clean it first")
    if task == "regression":
        if y.dtype.kind != "f" or not np.isfinite(y).all():
            raise ValueError(f"{part}_y of a regression holds something other than finite floats; clean it first")
    elif y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= classes:
        raise ValueError(f"{part}_y must hold whole numbers from 0 to {classes - 1}, one for each of {classes} classes")


class Source(Protocol):
    def load(self) -> Dataset: ...
