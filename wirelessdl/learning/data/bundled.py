"""What the package ships, so that everything runs offline."""

from pathlib import Path

import numpy as np

from wirelessdl.learning.data.dataset import Dataset

_BUNDLED = Path(__file__).parent.parent / "_data"


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
