"""Features that no data was used to find: each sample is mapped by itself, and nothing is fitted.

A node applies the map once, before training. It is public and the same for all nodes, and row i of the result depends
on sample i only, so epsilon is that of training on the samples themselves. Features of several maps stand side by side,
each with the norm of its own.

    oriented gradients    pool the intensity and 8 maps of gradients, one per direction, over a 7 x 7 grid of cells;
                          take square roots; subtract each map's own mean over the cells; scale intensity and
                          gradients each to norm 1 and weigh them by their number of maps; scale all to `norm`;
                          with `colour`, a pixel's gradient is that of the channel where it is largest (Dalal and
                          Triggs, 2005), not that of the mean over channels
    random patches        filters, means and whitening from synthetic images (`learning/patches.py`)
    module                what a torch module with public weights makes of an image (`learning/pretrained.py`)

Without a mean of its own taken off, all features of all samples would be positive, and the direction that they share
would slow every step of training. A pixel's gradient counts in the nearest of the directions 0, 45, .. 315 degrees with
its whole magnitude, so dark to bright and bright to dark differ. Pixels of whole numbers never lie between two
directions: the limits have irrational slopes.

Scale has no effect: stored pixels of 0..255 and 0..1 give the same features. Values below 0 count as 0.

Features of built-in maps are kept in the cache folder, by a hash of the samples, the parameters and the map's file.
"""

import hashlib
import inspect
import math
import os
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Protocol
from zipfile import BadZipFile

import numpy as np
from annotated_types import Ge, Gt
from numpy.typing import NDArray

from wirelessdl.contract import Guard, capability
from wirelessdl.errors import ContractError
from wirelessdl.families import LazyClasses
from wirelessdl.learning.data.dataset import Dataset
from wirelessdl.learning.data.images import as_images
from wirelessdl.scenario.loader import cache_folder

Float32Array = NDArray[np.float32]
_BLOCK = 500  # images at a time: their maps stay in the cache
_MIN_KEPT_BYTES = 2**20  # of samples, from which on features are kept
_MAX_KEPT_FILES = 20
_PIECE = 2000  # samples that are mapped between two looks at the clock
_TOLD_EVERY_S = 5.0
_TRIAL_SAMPLES = 16  # samples in the trial of a user's class
_TOLERANCE = 1e-5  # of a sample's features alone and among others, relative: sums may have another order


class Features(Protocol):
    """Maps samples to features, one sample at a time."""

    def transform(self, samples: NDArray[Any]) -> NDArray[Any]:
        """Features, `[n, features]`, of samples as stored, samples first."""


class OrientedGradients:
    """Pooled intensity and gradient directions of images; 441 features of a grey image, 49 more per further channel."""

    public = "oriented gradients, a formula"

    def __init__(
        self,
        norm: Annotated[float, Gt(0)] = 10.0,
        grid: Annotated[int, Ge(1)] = 7,
        orientations: Annotated[int, Ge(1)] = 8,
        colour: bool = False,
    ):
        self.norm, self.grid, self.orientations, self.colour = norm, grid, orientations, colour

    def transform(self, samples: NDArray[Any]) -> Float32Array:
        """`[n, grid^2 (channels + orientations)]` of norm `norm`: intensity of each channel, then each direction.

        samples: [n, H, W], [n, channels, H, W], or flat rows of square images, [n, pixels]. Gradients are those of the
        mean over channels; with `colour` of the channel where they are largest. A black or even image gives zeros.
        """
        images = as_images(samples)
        count, channels, height, width = images.shape
        if min(height, width) < self.grid:
            raise ValueError(
                f"images of {height} x {width} pixels are smaller than the grid of {self.grid} x {self.grid} cells; "
                f"lower grid to at most {min(height, width)}"
            )
        out = np.empty((count, self.grid**2 * (channels + self.orientations)), dtype=np.float32)
        for start in range(0, count, _BLOCK):
            block = slice(start, start + _BLOCK)
            out[block] = self._transform(images[block])
        return out

    def _transform(self, images: NDArray[Any]) -> NDArray[np.float64]:
        count, channels, height, width = images.shape
        pixels = np.maximum(images, 0).astype(np.float64)
        # each sample's own largest value: squares of very large or small pixels stay finite
        pixels /= _nonzero(pixels.max(axis=(1, 2, 3), keepdims=True))
        row, column = (np.arange(size) * self.grid // size for size in (height, width))  # cell of each pixel
        cell = row[:, None] * self.grid + column
        area = np.bincount(cell.ravel(), minlength=self.grid**2)

        def pooled(values: NDArray[Any], maps: NDArray[Any] | int, of: int) -> NDArray[np.float64]:
            """Square roots of means over cells, `[n, of, cells]`; maps: which of the maps each value counts in."""
            place = (np.arange(count).reshape(-1, 1, 1, 1) * of + maps) * len(area) + cell
            sums = np.bincount(np.broadcast_to(place, values.shape).ravel(), values.ravel(), count * of * len(area))
            return np.sqrt(sums.reshape(count, of, len(area)) / area).reshape(count, -1)

        intensity = pooled(pixels, np.arange(channels).reshape(-1, 1, 1), channels)
        magnitude, direction = self._gradients(pixels if self.colour else pixels.mean(axis=1, keepdims=True))
        if self.colour:
            largest = magnitude.argmax(axis=1, keepdims=True)
            magnitude = np.take_along_axis(magnitude, largest, 1)
            direction = np.take_along_axis(direction, largest, 1)
        gradient = pooled(magnitude, direction, self.orientations)
        groups = [
            math.sqrt(group.shape[1] / len(area)) * _unit(_centred(group, len(area))) for group in (intensity, gradient)
        ]
        return self.norm * _unit(np.concatenate(groups, axis=1))

    def _gradients(self, planes: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Magnitude of each pixel's gradient, and its nearest direction, shaped as `planes`; edges are repeated."""
        wide = np.pad(planes, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge").astype(np.float32)
        right, down = wide[..., 1:-1, 2:] - wide[..., 1:-1, :-2], wide[..., 2:, 1:-1] - wide[..., :-2, 1:-1]
        turn = np.arctan2(down, right) * np.float32(self.orientations / (2 * math.pi))
        return np.sqrt(right**2 + down**2), np.rint(turn).astype(np.int64) % self.orientations


class AsStored:
    """Samples as they are."""

    def transform(self, samples: NDArray[Any]) -> NDArray[Any]:
        return samples


FEATURES = LazyClasses(
    {
        "none": (__name__, "AsStored"),
        "oriented-gradients": (__name__, "OrientedGradients"),
        "random-patches": ("wirelessdl.learning.patches", "RandomPatches"),
        "module": ("wirelessdl.learning.pretrained", "PublicModule"),
    }
)


@dataclass(frozen=True, eq=False)
class Map:
    """A map of features as a scenario names it."""

    features: Features
    name: str
    is_user_class: bool

    @property
    def public(self) -> str:
        """What everyone must be taken to know of it."""
        words: str | None = capability(self.features, "public")
        return f"{self.name}, as it declares" if words is None else words


def side_by_side(data: Dataset, maps: Sequence[Map]) -> Dataset:
    """The data set with the features of several maps for samples, in their order."""
    found = [featured(data, one.features, one.name, is_user_class=one.is_user_class) for one in maps]
    train_x, test_x = (
        found[0].__dict__[part] if len(found) == 1 else np.concatenate([one.__dict__[part] for one in found], axis=1)
        for part in ("train_x", "test_x")
    )
    return replace(found[0], train_x=train_x, test_x=test_x)


def featured(data: Dataset, features: Features, name: str, *, is_user_class: bool) -> Dataset:
    """The data set with features for samples, as float32. name: what messages call the class.

    A user's class is tried first, on test samples: each must have the features that it has by itself. Some training
    samples must too, once all were mapped, and what was tried must come out as before: a class may fit something only
    where there are enough samples for it, and may remember it.
    """

    def transform(samples: NDArray[Any]) -> Float32Array:
        with Guard(f"learning.features: {name}.transform", is_user_class, built_in="learning.features: "):
            given = features.transform(samples)
        found = np.asarray(given)
        if found.ndim != 2 or len(found) != len(samples) or not found.shape[1] or found.dtype.kind not in "fiub":
            raise ContractError(
                f"{name}.transform returned {found.dtype} of shape {found.shape}, expected numbers of shape "
                f"({len(samples)}, features), one row per sample"
            )
        if np.ma.is_masked(given):
            raise ContractError(f"{name}.transform returned masked features, expected finite numbers: fill them")
        with np.errstate(over="ignore"):  # said below, in words
            rows = found.astype(np.float32)
        if not np.isfinite(rows).all():
            raise ContractError(f"{name}.transform returned features that are not finite float32 numbers")
        return rows

    tried = data.test_x[:_TRIAL_SAMPLES]
    together = transform(tried) if is_user_class or isinstance(features, FEATURES["module"]) else None
    if together is not None:
        _require_same(_alone(transform, tried), together, name)
    if is_user_class:
        train_x, test_x = transform(data.train_x), transform(data.test_x)
    else:
        train_x, test_x = (_cached(features, transform, samples) for samples in (data.train_x, data.test_x))
    if train_x.shape[1] != test_x.shape[1]:
        raise ContractError(
            f"{name}.transform returned {train_x.shape[1]} features of training samples and {test_x.shape[1]} of test "
            "samples; must be as many of every sample"
        )
    if together is not None:
        some = np.unique(np.linspace(0, len(train_x) - 1, _TRIAL_SAMPLES).astype(np.int64))
        _require_same(_alone(transform, data.train_x[some]), train_x[some], name)
        _require_same(list(together), transform(tried), name)
    return replace(data, train_x=train_x, test_x=test_x, scale=1.0, mean=0.0, deviation=1.0)


def _cached(
    features: Features, transform: Callable[[NDArray[Any]], Float32Array], samples: NDArray[Any]
) -> Float32Array:
    """Features of samples, from the cache folder where the same were mapped before; without room there, as without."""
    if samples.nbytes < _MIN_KEPT_BYTES:
        return transform(samples)
    name = hashlib.sha256(Path(inspect.getfile(type(features))).read_bytes())
    name.update(f"{type(features).__name__} {_settings(features)} {samples.dtype} {samples.shape}".encode())
    name.update(np.ascontiguousarray(samples).data)
    path = cache_folder() / "features" / f"{name.hexdigest()}.npz"
    with suppress(OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error):  # damaged: mapped again
        with np.load(path) as kept:
            found = kept["features"]  # the checksum of the archive is verified on the way
        if found.dtype == np.float32 and found.ndim == 2 and len(found) == len(samples):
            return np.asarray(found)
    rows = _with_progress(transform, samples)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with aside.open("wb") as handle:
                np.savez(handle, features=rows)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
        newest = sorted(path.parent.glob("*.npz"), key=lambda file: file.stat().st_mtime, reverse=True)
        for old in newest[_MAX_KEPT_FILES:]:
            old.unlink(missing_ok=True)
    return rows


def _settings(features: Features) -> dict[str, Any]:
    """What makes a map's features, besides the sample."""
    return {name: value for name, value in vars(features).items() if not name.startswith("_")}


def _with_progress(transform: Callable[[NDArray[Any]], Float32Array], samples: NDArray[Any]) -> Float32Array:
    """Features of samples, some at a time; a line on standard error every few seconds says how far it is."""
    told, first, began = time.monotonic(), 0, 0.0
    rows: Float32Array | None = None
    for start in range(0, len(samples), _PIECE):
        piece = transform(samples[start : start + _PIECE])
        done, now = start + len(piece), time.monotonic()
        if rows is None:
            rows = np.empty((len(samples), piece.shape[1]), dtype=np.float32)
            first, began = done, now  # what a map makes for itself comes once, with the first
        rows[start:done] = piece
        if now - told > _TOLD_EVERY_S and first < done < len(samples):
            left = (now - began) / (done - first) * (len(samples) - done)
            print(f"features of {done:,} of {len(samples):,} samples, about {left:.0f} s more", file=sys.stderr)
            told = now
    assert rows is not None  # a data set has samples
    return rows


def _alone(transform: Callable[[NDArray[Any]], Float32Array], samples: NDArray[Any]) -> list[Float32Array]:
    """Features of each sample, handed over by itself."""
    return [transform(samples[row : row + 1])[0] for row in range(len(samples))]


def _require_same(alone: Sequence[Float32Array], together: Float32Array, name: str) -> None:
    near = _TOLERANCE * float(np.abs(together).max(initial=0.0))
    for one, row in zip(alone, together, strict=True):
        if one.shape != row.shape or not np.allclose(one, row, rtol=_TOLERANCE, atol=near):
            raise ContractError(
                f"{name}.transform gives a sample other features by itself than among others; epsilon needs features "
                "of one sample at a time, without statistics of a batch, random numbers or memory"
            )


def _centred(rows: NDArray[np.float64], cells: int) -> NDArray[np.float64]:
    """Rows of maps, each map less its own mean over the cells."""
    maps = rows.reshape(len(rows), -1, cells)
    return np.asarray((maps - maps.mean(axis=2, keepdims=True)).reshape(rows.shape))


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows scaled to norm 1; rows of zeros stay."""
    # a sum of its own per row: products of matrices may add in another order when there are more rows
    return rows / _nonzero(np.sqrt(np.sum(rows**2, axis=1, keepdims=True)))


def _nonzero(divisor: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(divisor > 0, divisor, 1.0)
