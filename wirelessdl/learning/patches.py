"""Random patches: features of images whose filters, means and whitening come from synthetic images alone.

    patch        p of patch x patch pixels and all channels, at every position, in units of the image's largest pixel;
                 p <- (p - mean(p)) / sqrt(var(p) + .04^2)
    filters      f_k: patches of synthetic images, drawn at random among the 70% of larger norm, whitened, of norm 1
    responses    r_k = f_k . W (p - m); W = (S + .1)^-1/2, with m and S the mean and covariance of synthetic patches
    features     square roots of the means of max(r_k, 0) and max(-r_k, 0) over pool x pool cells, 2 filters pool^2
    v            these less their own mean over their own deviation, so that rich and plain images are alike
    whitened     (v - mean) V (E + .03 mean(E))^-1/2, with V and E the `dimensions` leading eigenvectors and eigenvalues
                 of the covariance of v over synthetic images; scaled to `norm`

Synthetic images are "dead leaves": discs of random place, radius (density r^-3), shade and slope of shade, each over
those before it. Natural images share their edges, scales and occlusions, and no image of any data set is used: the map
is a function of its parameters, the shape of an image and the seed, all public. Each sample is mapped by itself.

Coates, Ng and Lee (2011) take filters and whitening from training images, which would be a release of its own.
Scope and limitations: images only, at least as large as a patch; scale has no effect; values below 0 count as 0.
"""

import math
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge, Gt
from numpy.typing import NDArray
from torch import Tensor

from wirelessdl.learning.data.images import as_images, in_units_of_largest

Float32Array = NDArray[np.float32]
_BLOCK = 16  # images at a time: their responses stay in the cache
_SYNTHETIC = 3000  # images from which filters and whitening come
_LEAVES = 160  # of an image
_PATCHES = 100_000  # of synthetic images, for their mean and covariance
_CONTRAST = 0.04  # deviation of a patch below which it counts as even
_PATCH_FLOOR, _FLOOR = 0.1, 0.03  # added to eigenvalues, the second in units of their mean


class RandomPatches:
    """Responses to random filters, pooled and whitened; all that is fitted comes from synthetic images."""

    whitened = True
    public = "random patches: filters, means and whitening from synthetic images of a fixed seed"

    def __init__(
        self,
        norm: Annotated[float, Gt(0)] = 10.0,
        filters: Annotated[int, Ge(1)] = 256,
        patch: Annotated[int, Ge(2)] = 6,
        pool: Annotated[int, Ge(1)] = 2,
        dimensions: Annotated[int, Ge(1)] = 500,
        seed: Annotated[int, Ge(0)] = 1,
    ):
        if dimensions > min(2 * filters * pool**2, _SYNTHETIC - 1):
            raise ValueError(
                f"dimensions is {dimensions}; {filters} filters pooled over {pool} x {pool} cells have "
                f"{2 * filters * pool**2}: lower it to at most {min(2 * filters * pool**2, _SYNTHETIC - 1)}"
            )
        self.norm, self.filters, self.patch, self.pool = norm, filters, patch, pool
        self.dimensions, self.seed = dimensions, seed

    def transform(self, samples: NDArray[Any]) -> Float32Array:
        """`[n, dimensions]` of norm `norm`. samples: as those of oriented gradients; an even image gives zeros."""
        images = as_images(samples)
        least = self.patch + self.pool - 1
        if min(images.shape[2:]) < least:
            raise ValueError(
                f"images of {images.shape[2]} x {images.shape[3]} pixels have too few patches; lower patch or pool, so "
                f"that patch + pool - 1 is at most {min(images.shape[2:])}"
            )
        bank, mean, whiten = _from_synthetic(
            images.shape[1:], self.filters, self.patch, self.pool, self.dimensions, self.seed
        )
        out = np.empty((len(images), self.dimensions), dtype=np.float32)
        for start in range(0, len(images), _BLOCK):
            pixels = in_units_of_largest(images[start : start + _BLOCK])
            rows = (bank.pooled(pixels) - mean) @ whiten
            rows *= self.norm / torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_min(1e-30)
            rows[torch.from_numpy(np.ptp(pixels, axis=(1, 2, 3)) == 0)] = 0.0
            out[start : start + _BLOCK] = rows.numpy()
        return out


class _Bank:
    """Filters, and how their responses are pooled.

    weight: [C patch^2, filters], whitening and filter as one product. offset: [filters], of the mean patch.
    """

    def __init__(self, weight: NDArray[np.float64], offset: NDArray[np.float64], patch: int, pool: int):
        self.weight = torch.from_numpy(weight.astype(np.float32))
        self.offset = torch.from_numpy(offset.astype(np.float32))
        self.patch, self.pool = patch, pool

    def pooled(self, pixels: Float32Array) -> Tensor:
        """Square roots of pooled rectified responses, each image's standardised. `[n, 2 filters pool^2]`.

        mean(max(r, 0)) and mean(max(-r, 0)) are half of mean(|r|) +- mean(r). pixels: [n, C, H, W].
        """
        count = len(pixels)
        patches = normalised(patches_of(torch.from_numpy(pixels), self.patch))
        rows, columns = (size - self.patch + 1 for size in pixels.shape[2:])
        cells = torch.kron(_cells(rows, self.pool), _cells(columns, self.pool)).expand(count, -1, -1)
        # one product per image, so that none of its sums depends on its place in the block
        response = torch.bmm(patches, self.weight.expand(count, -1, -1)).sub_(self.offset)
        signed = torch.bmm(cells, response)
        size = torch.bmm(cells, response.abs_())
        halves = torch.cat([size + signed, size - signed], dim=2).mul_(0.5)
        rooted = halves.clamp_min_(0.0).sqrt_().flatten(1)
        variance, mean = torch.var_mean(rooted, dim=1, correction=0, keepdim=True)
        return (rooted - mean) / torch.sqrt(variance + 1e-12)


def patches_of(images: Tensor, patch: int) -> Tensor:
    """All patches of images [n, C, H, W] as rows: [n, positions, C patch^2]."""
    windows = images.unfold(2, patch, 1).unfold(3, patch, 1).permute(0, 2, 3, 1, 4, 5)
    return windows.reshape(len(images), windows.shape[1] * windows.shape[2], -1)


def normalised(patches: Tensor) -> Tensor:
    """Each patch less its mean, over its deviation."""
    variance, mean = torch.var_mean(patches, dim=-1, correction=0, keepdim=True)
    return (patches - mean) / torch.sqrt(variance + _CONTRAST**2)


def _cells(positions: int, pool: int) -> Tensor:
    """Weights of means over `pool` runs of positions, [pool, positions]."""
    member = torch.arange(positions) * pool // positions == torch.arange(pool)[:, None]
    return member / member.sum(dim=1, keepdim=True)


@lru_cache(maxsize=4)
def _from_synthetic(
    shape: tuple[int, int, int], filters: int, patch: int, pool: int, dimensions: int, seed: int
) -> tuple[_Bank, Tensor, Tensor]:
    """Filters, mean of their features, and what whitens them: all from synthetic images."""
    rng = np.random.default_rng(seed)
    images = dead_leaves(shape, _SYNTHETIC, rng)
    per_image = math.ceil(_PATCHES / len(images))
    # positions are drawn for each image before any of them is cut out: a few at a time need little memory
    places = rng.integers((shape[1] - patch + 1) * (shape[2] - patch + 1), size=(len(images), per_image))
    drawn = np.concatenate(
        [
            normalised(patches_of(torch.from_numpy(images[n : n + 1]), patch)[0, places[n]]).numpy().astype(np.float64)
            for n in range(len(images))
        ]
    )
    mean = drawn.mean(axis=0)
    value, vector = np.linalg.eigh(np.cov(drawn.T))
    whiten = vector / np.sqrt(np.maximum(value, 0.0) + _PATCH_FLOOR) @ vector.T
    white = (drawn - mean) @ whiten
    norm = np.linalg.norm(white, axis=1)
    chosen = rng.permutation(np.flatnonzero(norm > np.quantile(norm, 0.3)))[:filters]
    weight = whiten @ (white[chosen] / norm[chosen, None]).T
    bank = _Bank(weight, mean @ weight, patch, pool)
    found = torch.cat([bank.pooled(images[start : start + _BLOCK]) for start in range(0, len(images), _BLOCK)])
    value, vector = np.linalg.eigh(np.cov(found.numpy().T).astype(np.float64))
    value, vector = value[::-1][:dimensions], vector[:, ::-1][:, :dimensions]
    scaled = vector / np.sqrt(np.maximum(value, 0.0) + _FLOOR * value.mean())
    return bank, found.mean(dim=0), torch.from_numpy(scaled.astype(np.float32))


def dead_leaves(shape: tuple[int, int, int], count: int, rng: np.random.Generator) -> Float32Array:
    """Synthetic images, `[count, C, H, W]` in 0..1: discs that cover each other."""
    channels, height, width = shape
    # distances to the middle of the image, in units of 1/32 of its size: leaves are alike in images of any size
    pixel = 32.0 / max(height, width)
    y, x = ((np.arange(n, dtype=np.float32) + 0.5 - n / 2) * pixel for n in (height, width))
    images = np.full((count, *shape), 0.5, dtype=np.float32)
    for _ in range(_LEAVES):
        radius = (1.5**-2 + rng.random(count) * (24.0**-2 - 1.5**-2)) ** -0.5  # density r^-3 from 1.5 to 24
        middle = rng.uniform(-24.0, 24.0, size=(2, count))
        shade = rng.random((count, 1)) + (0.1 * rng.standard_normal((count, channels)) if channels > 1 else 0.0)
        slope = 0.02 * rng.standard_normal((2, count))
        reach, (top, left), tint, (down, across) = (one.astype(np.float32) for one in (radius, middle, shade, slope))
        far = ((y - top[:, None]) ** 2)[:, :, None] + ((x - left[:, None]) ** 2)[:, None, :]
        # edges are as wide as a pixel, as a camera sees them
        cover = np.clip((reach[:, None, None] - np.sqrt(far)) / pixel + 0.5, 0.0, 1.0)
        ramp = (down[:, None] * y)[:, :, None] + (across[:, None] * x)[:, None, :]
        for channel in range(channels):
            images[:, channel] += cover * (ramp + tint[:, channel, None, None] - images[:, channel])
    return np.clip(images, 0.0, 1.0)
