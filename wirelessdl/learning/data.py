"""Data sets: images or features as they are stored, labels, and a common test set."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import IntArray

_BUNDLED = Path(__file__).parent / "_data"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples first, as stored; a batch becomes (stored / scale - mean) / deviation.

    Mean and deviation are published constants of the data set, never statistics of a node's own data:
    those would be a release of their own.
    """

    name: str
    train_x: NDArray[Any]
    train_y: IntArray
    test_x: NDArray[Any]
    test_y: IntArray
    classes: int
    scale: float = 1.0
    mean: float = 0.0
    deviation: float = 1.0

    @property
    def features(self) -> int:
        """Numbers per sample."""
        return int(np.prod(self.train_x.shape[1:]))


class Source(Protocol):
    def load(self) -> Dataset: ...


class FashionSubset:
    """1,200 training and 300 test images of each Fashion-MNIST class, shipped with the package."""

    def load(self) -> Dataset:
        with np.load(_BUNDLED / "fashion_mnist_subset.npz") as arrays:
            return Dataset(
                "fashion-mnist-subset",
                arrays["train_images"],
                arrays["train_labels"].astype(np.int64),
                arrays["test_images"],
                arrays["test_labels"].astype(np.int64),
                classes=10,
                scale=255.0,
                mean=0.2860,  # of all 60,000 training images
                deviation=0.3530,
            )


DATASETS = {"fashion-mnist-subset": FashionSubset}
