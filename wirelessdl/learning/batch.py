"""Batches of several nodes: gathered from what is stored, normalised, padded to one width.

Samples are on the device as they were stored, images as bytes. A batch is copied into a buffer that is reused,
converted to floats there, and shifted and scaled in one pass. Where a learner has its bias as a weight column, the
buffer has a last column of ones that is never overwritten.

Augmentation flips and shifts images, one draw per sample, whole batches at once. A crop of the image padded by
`padding` on all sides is the image shifted by up to `padding`, with the fill moving in. Draws and their application
are separate: draws are keyed by node and round, the application takes all nodes' samples in one call. Each sample is
changed independently, so per-sample clipping and epsilon hold as without augmentation.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.learning.clipping import norm_bound
from wirelessdl.learning.data import Dataset
from wirelessdl.streams import Streams

_NORMS_AT_ONCE = 1024  # samples whose norms are worked out at a time


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples of k nodes.

    features: `[k, B, features + 1]` with ones in the last column, or `[k, B, *sample shape]`
    labels: `[k, B]`
    weight: each sample's weight in its node's sum, `[k, B]`, 0 for padding; None where all are 1/B
    nodes: whose they are
    counts: real samples of each node, which come first; what follows is padding, zeros. None where there is none
    norm: bound on the norm of each sample's features, `[k, B]`, where it is kept
    """

    features: Tensor
    labels: Tensor
    weight: Tensor | None = None
    nodes: range = range(0)
    counts: tuple[int, ...] | None = None
    norm: Tensor | None = None

    def real(self, node: int) -> slice:
        """Where the real samples of a node are."""
        return slice(None if self.counts is None else self.counts[node])

    def mean(self, values: Tensor) -> Tensor:
        """Mean of per-sample values over the samples that are there, `[k]`; 0 where there are none."""
        if self.weight is None:
            return finite_mean(values.mean(dim=1), values, None)
        total = self.weight.sum(dim=1).clamp_min(torch.finfo(self.weight.dtype).tiny)
        return finite_mean((values * self.weight).sum(dim=1) / total, values, self.weight)

    def count(self, flags: Tensor) -> Tensor:
        """How many samples that are there have a flag, `[k]`."""
        real = flags if self.weight is None else flags & (self.weight > 0)
        return real.sum(dim=1).to(self.features.dtype)

    def weights(self) -> Tensor:
        """Each sample's weight, spelled out, `[k, B]`."""
        if self.weight is not None:
            return self.weight
        return self.features.new_full(self.labels.shape, 1.0 / self.labels.shape[1])

    def part(self, nodes: slice) -> "Batch":
        """Some of the nodes."""
        weight = None if self.weight is None else self.weight[nodes]
        counts = None if self.counts is None else self.counts[nodes]
        norm = None if self.norm is None else self.norm[nodes]
        return Batch(self.features[nodes], self.labels[nodes], weight, self.nodes[nodes], counts, norm)


def finite_mean(mean: Tensor, values: Tensor, weight: Tensor | None) -> Tensor:
    """The mean where it is finite; elsewhere that of the values that are, NaN where none is. `[k]` of `[k, B]`."""
    if mean.device.type == "cpu" and math.isfinite(mean.sum().item()):  # one short operation, where asking is free
        return mean
    bad = torch.isfinite(mean).logical_not_()
    there = torch.isfinite(values) if weight is None else torch.isfinite(values) & (weight > 0)
    count = there.sum(dim=1, keepdim=True)
    some = torch.where(there, values / count, 0.0).sum(dim=1)
    return torch.where(bad, torch.where(count.squeeze(1) > 0, some, torch.nan), mean)


def sample_shape(data: Dataset) -> tuple[int, ...]:
    """Shape of one sample as a module's input; grey images get a channel axis."""
    stored = data.train_x.shape[1:]
    return (1, *stored) if len(stored) == 2 else tuple(stored)


def require_range(data: Dataset, dtype: Literal["float32", "float64"]) -> None:
    """Raise ValueError where features or labels leave the numbers of a dtype, as stored or normalised."""
    most = float(np.finfo(dtype).max)
    slope = float(np.max(1.0 / (data.scale * np.asarray(data.deviation))))
    shift = float(np.max(np.abs(np.asarray(data.mean) / np.asarray(data.deviation))))
    remedy = "rescale the data" if dtype == "float64" else 'rescale the data, or set learning.dtype = "float64"'
    for part in ("train", "test"):
        stored, labels = getattr(data, f"{part}_x"), getattr(data, f"{part}_y")
        for kind, values in (("feature", stored), ("label", labels)):
            high, low = int(values.argmax()), int(values.argmin())
            place = high if abs(float(values.flat[high])) >= abs(float(values.flat[low])) else low
            largest = float(values.flat[place])
            shown = abs(largest) * slope + shift if kind == "feature" else abs(largest)
            if not max(abs(largest), shown) <= most:
                raise ValueError(
                    f"learning.dataset {data.name}: a {kind} of {part} sample {place // max(1, values[0].size)} is "
                    f"{largest:g}, too large for {dtype}: {remedy}"
                )


def shared_tensor(stored: NDArray[Any]) -> Tensor:
    """Stored samples or labels as a tensor over the same memory; only ever read."""
    with warnings.catch_warnings():  # bundled arrays are write-protected, which torch cannot express
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")
        return torch.as_tensor(stored)


class Store:
    """Samples on the device, as stored, and how they become numbers."""

    def __init__(
        self, data: Dataset, device: torch.device, dtype: torch.dtype, *, bias_column: bool, keeps_norms: bool = False
    ):
        """keeps_norms: batches come with the norms of their features, worked out once for all samples."""
        self.device, self.dtype, self.bias_column, self._keeps_norms = device, dtype, bias_column, keeps_norms
        self.null: int | None = None  # sample that adds nothing to a sum, whose divisor stays
        self.shape = sample_shape(data)
        self.width = math.prod(self.shape)
        self.train_x, self.train_y = self._keep(data.train_x), self._labels(data.train_y)
        self.test_y = self._labels(data.test_y)
        self._slope, self._shift = self._normalisation(data)
        self._scaled = (self._slope, self._shift) != (1.0, 0.0) if isinstance(self._slope, float) else True
        self._start = torch.as_tensor(self._shift, dtype=self.dtype, device=self.device)
        self.test_x = self.ready(data.test_x)

    def tests(self, count: int, streams: Streams) -> tuple[Tensor, Tensor]:
        """Features and labels of evaluations on the way; all, where count is 0 or as many as there are."""
        if not 0 < count < len(self.test_y):
            return self.test_x, self.test_y
        chosen = streams.world("learning.eval_samples").choice(len(self.test_y), count, replace=False)
        place = torch.from_numpy(np.sort(chosen)).to(self.device)
        return self.test_x.index_select(0, place), self.test_y.index_select(0, place)

    def ready(self, stored: np.ndarray) -> Tensor:
        """Samples as stored, `[N, ...]`, as a learner takes them."""
        return Buffer(self).normalise(self._keep(stored))

    def _keep(self, stored: np.ndarray) -> Tensor:
        flat = shared_tensor(stored).reshape(len(stored), -1)
        return flat.to(self.device, self.dtype if flat.is_floating_point() else flat.dtype)

    def _labels(self, labels: np.ndarray) -> Tensor:
        kept = shared_tensor(labels).to(self.device)
        return kept.to(self.dtype) if kept.is_floating_point() else kept

    def _normalisation(self, data: Dataset) -> tuple[float | Tensor, float | Tensor]:
        """(stored / scale - mean) / deviation as stored * slope + shift; vectors where channels differ."""
        mean, deviation = (np.asarray(values, dtype=np.float64) for values in (data.mean, data.deviation))
        slope, shift = 1.0 / (data.scale * deviation), -mean / deviation
        if slope.ndim == 0 and shift.ndim == 0:
            return float(slope), float(shift)

        def per_feature(values: np.ndarray) -> Tensor:
            channels = values.reshape(-1, *[1] * (len(self.shape) - 1)) if values.ndim == 1 else values
            spread = np.broadcast_to(channels, self.shape).reshape(-1)
            return torch.as_tensor(spread.copy(), dtype=self.dtype, device=self.device)

        return per_feature(slope), per_feature(shift)

    @cached_property
    def norms(self) -> Tensor | None:
        """`norm_bound` of every training sample's features, bias column included; None where they are not kept."""
        if not self._keeps_norms:
            return None
        buffer, kept = Buffer(self), torch.empty(len(self.train_x), dtype=self.dtype, device=self.device)
        for some in (slice(start, start + _NORMS_AT_ONCE) for start in range(0, len(kept), _NORMS_AT_ONCE)):
            kept[some] = norm_bound(buffer.normalise(self.train_x[some]))
        return kept

    @property
    def flat(self) -> bool:
        """Whether samples are rows of numbers that are taken as they are stored."""
        return len(self.shape) == 1 and self.train_x.is_floating_point() and not self._scaled

    def replace_rows(self, rows: Tensor) -> None:
        """Other training samples in place of the stored ones."""
        self.train_x = rows
        self.__dict__.pop("norms", None)

    def normalise_(self, values: Tensor) -> None:
        """Shift and scale rows in place."""
        if isinstance(self._slope, Tensor):
            assert isinstance(self._shift, Tensor)
            torch.addcmul(self._shift, values, self._slope, out=values)
        elif self._scaled:
            torch.add(self._start, values, alpha=self._slope, out=values)


class Buffer:
    """One thread's room for batches; grows to the largest that came, never with rounds."""

    def __init__(self, store: Store):
        self._store = store
        self._raw = torch.empty(0)
        self._rows = torch.empty(0)

    def batch(self, chosen: Sequence[IntArray], divisor: np.ndarray) -> Batch:
        """The batch of sample numbers chosen by each node, padded with zeros to the longest."""
        store = self._store
        if store.null is not None:
            chosen = [samples[samples != store.null] for samples in chosen]
        counts = [len(samples) for samples in chosen]
        nodes, width = len(counts), max(1, *counts)
        weight = padding = None
        if min(counts) == width and bool(np.all(divisor == width)):
            index = np.concatenate(chosen)
        else:
            index = np.zeros((nodes, width), dtype=np.int64)
            there = np.zeros((nodes, width))
            for row, samples in enumerate(chosen):
                index[row, : len(samples)] = samples
                there[row, : len(samples)] = 1.0 / divisor[row]
            index = index.reshape(-1)
            # never a sample: it would be another node's
            empty = np.flatnonzero(np.arange(width) >= np.array(counts)[:, None])
            padding = torch.from_numpy(empty).to(store.device, non_blocking=True)
            weight = torch.as_tensor(there, dtype=store.dtype).to(store.device, non_blocking=True)
        place = torch.from_numpy(index).to(store.device, non_blocking=True)
        if len(self._raw) < len(place):
            self._raw = store.train_x.new_empty(len(place), store.width)
        picked = torch.index_select(store.train_x, 0, place, out=self._raw[: len(place)])
        features = self.normalise(picked)
        labels = store.train_y.index_select(0, place)
        norm = None if store.norms is None else store.norms.index_select(0, place).view(nodes, width)
        if padding is not None:
            (features[:, :-1] if store.bias_column else features).index_fill_(0, padding, 0.0)
            labels.index_fill_(0, padding, 0)
            if norm is not None:
                norm.view(-1).index_fill_(0, padding, 1.0)
        shaped = features.view(nodes, width, *features.shape[1:])
        known = None if padding is None else tuple(counts)
        return Batch(shaped, labels.view(nodes, width), weight, counts=known, norm=norm)

    def normalise(self, stored: Tensor) -> Tensor:
        """Stored rows as features; what is returned is overwritten by the next call."""
        store, count = self._store, len(stored)
        if len(self._rows) < count:
            columns = store.width + store.bias_column
            self._rows = torch.ones(count, columns, dtype=store.dtype, device=store.device)
        rows = self._rows[:count]
        body = rows[:, :-1] if store.bias_column else rows
        body.copy_(stored)
        store.normalise_(body)
        return rows if store.bias_column else rows.view(count, *store.shape)


def draw_changes(uniform: FloatArray) -> Tensor:
    """Of every sample: whether it is mirrored, by how many pixels it moves down, and right; int64 `[3, samples]`.

    A fair coin for the flip, shifts uniform from -4 to 4. uniform: [3, samples] on (0, 1).
    """
    return torch.from_numpy((uniform * [[2], [9], [9]]).astype(np.int64) - [[0], [4], [4]])


def apply_changes(images: Tensor, changes: Tensor) -> Tensor:
    """Images [N, C, H, W], each mirrored and shifted by its own draw; 0, the mean of normalised images, moves in."""
    samples, _, height, width = images.shape
    flip, down, right = changes.to(images.device).unsqueeze(2)
    # where each pixel comes from, per sample
    row = torch.arange(height, device=images.device) - down
    column = torch.arange(width, device=images.device) - right
    inside = ((row >= 0) & (row < height)).unsqueeze(2) & ((column >= 0) & (column < width)).unsqueeze(1)
    row, column = row.clamp(0, height - 1), column.clamp(0, width - 1)
    column = torch.where(flip == 1, width - 1 - column, column)
    sample = torch.arange(samples, device=images.device).view(-1, 1, 1)
    # advanced indices around a slice put the slice last: [N, H, W, C]
    moved = images[sample, :, row.unsqueeze(2), column.unsqueeze(1)].permute(0, 3, 1, 2)
    return moved.masked_fill(~inside.unsqueeze(1), 0.0).contiguous()
