"""Partitions of the training data among nodes: one array of sample indices per node.

iid         shuffled and split into parts of equal size
dirichlet   class proportions ~ Dirichlet(concentration); the smaller, the more nodes differ. form = "class":
            each class is split among nodes by a draw, sizes vary. form = "client": each node draws its
            class proportions (the paper), sizes are equal.
shards      sorted by class, cut into equal shards, a few to each node (McMahan et al. 2017)
quantity    equal class proportions, sizes ~ Dirichlet or a power law
file        the node of each sample, from a file: .npz (one array, or one of that name), .json (a list, or an object
            with a list of that name) or .csv (a column of that name, one row per sample)

Every sample goes to exactly one node (`file`: or to none), and no node has fewer than min_samples.
A partition that declares `by_content` depends on the content of the samples, not on their order in a file.
"""

import json
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol
from zipfile import BadZipFile

import numpy as np
from annotated_types import Ge, Gt
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray, IntArray, kept, read_only
from wirelessdl.contract import capability
from wirelessdl.errors import nearest
from wirelessdl.learning.data.dataset import Dataset
from wirelessdl.learning.data.files import find_file
from wirelessdl.memory import require_room_unpacked

_MAX_DRAWS = 100  # draws before sizes are repaired

Labels = NDArray[Any]  # class numbers, or real numbers of a regression
AtLeast = Annotated[int, Ge(1)]


class Partition(Protocol):
    def split(self, labels: Labels, nodes: int, rng: np.random.Generator) -> list[IntArray]:
        """Sample indices of each node, `nodes` arrays. labels: [samples]."""


def split_data(partition: Partition, data: Dataset, nodes: int, rng: np.random.Generator) -> list[IntArray]:
    """Sample indices of each node. A partition `by_content` gets the samples ordered by label, then by content."""
    if not capability(partition, "by_content"):
        return _whole(partition.split(read_only(data.train_y), nodes, rng))
    order = np.lexsort((data.keys, data.train_y))
    clients = _whole(partition.split(data.train_y[order], nodes, rng))
    # a number that no sample has stays as it is, for whoever checks what nodes hold
    inside = [not client.size or (client.min() >= 0 and client.max() < len(order)) for client in clients]
    return [np.sort(order[client]) if sound else client for client, sound in zip(clients, inside)]


def _whole(clients: Iterable[Any]) -> list[IntArray]:
    """What a partition answered as whole numbers, without rounding; copies, since it may fill one buffer."""
    found = []
    for node, client in enumerate(clients):
        kind = np.asarray(client)
        if kind.size and kind.dtype.kind not in "iu":
            raise ValueError(f"split() gave node {node} samples of type {kind.dtype}, expected whole numbers")
        found.append(kept(client, np.int64))
    return found


def class_histogram(labels: Labels, client_indices: Sequence[IntArray], classes: int) -> IntArray:
    """Samples of each class at each node, `[nodes, classes]`."""
    return np.stack([np.bincount(labels[client], minlength=classes) for client in client_indices])


class Iid:
    """Shuffled and split into parts of equal size."""

    by_content = True

    def split(self, labels: Labels, nodes: int, rng: np.random.Generator) -> list[IntArray]:
        _require_enough(labels, nodes, 1)
        return [np.sort(client) for client in np.array_split(rng.permutation(len(labels)), nodes)]


class Dirichlet:
    """Uneven classes: each class over nodes (form "class", sizes vary), or each node over classes ("client")."""

    by_content = True

    def __init__(
        self,
        concentration: Annotated[float, Gt(0)] = 1.0,
        min_samples: AtLeast = 1,
        form: Literal["class", "client"] = "class",
    ):
        self.concentration, self.form, self.min_samples = concentration, form, min_samples

    def split(self, labels: Labels, nodes: int, rng: np.random.Generator) -> list[IntArray]:
        _require_classes("dirichlet", labels)
        _require_enough(labels, nodes, self.min_samples)
        if self.form == "class":
            return _indices_by_node(self._by_class(labels, nodes, rng), nodes)
        return _indices_by_node(self._by_client(labels, nodes, rng), nodes)

    def _by_class(self, labels: Labels, nodes: int, rng: np.random.Generator) -> IntArray:
        """Owner of each sample: classes cut at cumulative shares, redrawn while a node has too few, then repaired."""
        classes = np.unique(labels)
        members = [np.flatnonzero(labels == label) for label in classes]
        owner = np.empty(len(labels), dtype=np.int64)
        for _ in range(_MAX_DRAWS):
            for samples in members:
                shuffled = rng.permutation(samples)
                shares = _dirichlet(np.full(nodes, self.concentration), rng)
                owner[shuffled] = np.repeat(np.arange(nodes), _cut(shares, len(samples)))
            if np.bincount(owner, minlength=nodes).min() >= self.min_samples:
                return owner
        return _raise_to_minimum(owner, nodes, self.min_samples, rng)

    def _by_client(self, labels: Labels, nodes: int, rng: np.random.Generator) -> IntArray:
        """Owner of each sample: node i demands a multinomial of its proportions; excess demand is cut at random.

        Nodes with unmet demand draw again among the classes that are left. Each pass meets all demand or uses up a
        class, so there are at most as many passes as classes, and every sample is assigned.
        """
        _, number = np.unique(labels, return_inverse=True)
        left = np.bincount(number)  # samples of each class that are not assigned yet
        shares = np.stack([_dirichlet(np.full(len(left), self.concentration), rng) for _ in range(nodes)])
        missing = _cut(np.full(nodes, 1.0 / nodes), len(labels))
        counts = np.zeros((nodes, len(left)), dtype=np.int64)
        while missing.any():
            demand = rng.multinomial(missing, _remaining_shares(shares, left))
            got = np.column_stack([_limit(demand[:, c], left[c], rng) for c in range(len(left))])
            counts += got
            left, missing = left - got.sum(axis=0), missing - got.sum(axis=1)
        owner = np.empty(len(labels), dtype=np.int64)
        for c in range(len(left)):
            owner[rng.permutation(np.flatnonzero(number == c))] = np.repeat(np.arange(nodes), counts[:, c])
        return owner


class Shards:
    """Sorted by class and cut into equal shards, `per_node` of them to each node."""

    by_content = True

    def __init__(self, per_node: AtLeast = 2):
        self.per_node = per_node

    def split(self, labels: Labels, nodes: int, rng: np.random.Generator) -> list[IntArray]:
        _require_classes("shards", labels)
        count = nodes * self.per_node
        if count > len(labels):
            raise ValueError(
                f"per_node is {self.per_node}; {count} shards cannot be cut from {len(labels)} samples: "
                "lower it, or use fewer nodes"
            )
        shuffled = rng.permutation(len(labels))
        by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
        shards = np.array_split(by_class, count)
        assigned = rng.permutation(count).reshape(nodes, self.per_node)
        return [np.sort(np.concatenate([shards[shard] for shard in client])) for client in assigned]


class Quantity:
    """Classes alike, sizes uneven: shares ~ Dirichlet(concentration), or falling as rank^-exponent."""

    by_content = True

    def __init__(
        self,
        form: Literal["dirichlet", "power-law"] = "dirichlet",
        concentration: Annotated[float, Gt(0)] = 1.0,
        exponent: Annotated[float, Ge(0)] = 1.0,
        min_samples: AtLeast = 1,
    ):
        self.form, self.concentration, self.exponent, self.min_samples = form, concentration, exponent, min_samples

    def split(self, labels: Labels, nodes: int, rng: np.random.Generator) -> list[IntArray]:
        _require_enough(labels, nodes, self.min_samples)
        if self.form == "dirichlet":
            shares = _dirichlet(np.full(nodes, self.concentration), rng)
        else:
            shares = rng.permutation(np.arange(1, nodes + 1, dtype=np.float64) ** -self.exponent)
        sizes = self.min_samples + _cut(shares / shares.sum(), len(labels) - nodes * self.min_samples)
        return [np.sort(client) for client in np.split(rng.permutation(len(labels)), np.cumsum(sizes)[:-1])]


class FromFile:
    """As your .npz, .json or .csv says: the node of each training sample, in their order; -1 for nobody."""

    def __init__(self, path: str, column: str = "node", folders: Sequence[Path] = ()):
        self.path, self.column, self.folders = path, column, folders or (Path.cwd(),)

    def split(self, labels: Labels, nodes: int, rng: np.random.Generator) -> list[IntArray]:  # noqa: ARG002
        owner = owners(self.path, self.column, self.folders)
        if len(owner) != len(labels):
            raise ValueError(f'path is "{self.path}"; names {len(owner)} nodes for {len(labels)} training samples')
        if owner.min() < -1 or owner.max() >= nodes:
            wrong = int(np.flatnonzero((owner < -1) | (owner >= nodes))[0])
            raise ValueError(
                f'path is "{self.path}"; gives sample {wrong} to node {owner[wrong]}: nodes are 0 to {nodes - 1}, '
                "or -1 for nobody"
            )
        return _indices_by_node(owner, nodes)


def _indices_by_node(owner: IntArray, nodes: int) -> list[IntArray]:
    """Samples of each node, in rising order."""
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.searchsorted(owner[order], np.arange(nodes + 1)))[1:-1]


def _require_classes(kind: str, labels: Labels) -> None:
    if labels.dtype.kind == "f":
        raise ValueError(
            f'kind is "{kind}"; it splits by class, and the labels of a regression are none: use iid, quantity or file'
        )


def _require_enough(labels: Labels, nodes: int, min_samples: int) -> None:
    if nodes * min_samples > len(labels):
        raise ValueError(
            f"min_samples is {min_samples}; {nodes} nodes share only {len(labels)} samples: lower it, bring more "
            "data, or use fewer nodes"
        )


def _dirichlet(concentration: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A Dirichlet draw; where all of it underflows, its limit: everything to one, at random."""
    shares = rng.dirichlet(concentration)
    return (
        shares if np.isfinite(shares).all() and shares.sum() > 0.5 else np.eye(len(shares))[rng.integers(len(shares))]
    )


def _cut(shares: FloatArray, count: int) -> IntArray:
    """Whole numbers that add up to count, within one of shares * count."""
    ends = np.round(np.cumsum(shares) * count).astype(np.int64)
    ends[-1] = count
    return np.diff(ends, prepend=0)


def _remaining_shares(shares: FloatArray, left: IntArray) -> FloatArray:
    """Shares `[nodes, classes]` over classes with samples left; a node without any of them: in proportion to these."""
    kept = shares * (left > 0)
    total = kept.sum(axis=1, keepdims=True)
    usable = total > 1e-12
    return np.where(usable, kept / np.where(usable, total, 1.0), left / left.sum())


def _limit(demand: IntArray, left: int, rng: np.random.Generator) -> IntArray:
    """What each node gets, `[nodes]`: its demand, or, where the sum exceeds what is left, a random part of it."""
    return demand if demand.sum() <= left else rng.multivariate_hypergeometric(demand, left, method="marginals")


def _raise_to_minimum(owner: IntArray, nodes: int, min_samples: int, rng: np.random.Generator) -> IntArray:
    """Owners with at least min_samples for every node: the largest nodes give at random, down to a common level."""
    sizes = np.bincount(owner, minlength=nodes)
    lacks = np.maximum(min_samples - sizes, 0)
    levels = np.unique(np.concatenate([sizes, [min_samples]]))
    low = levels[[np.maximum(sizes - level, 0).sum() >= lacks.sum() for level in levels]].max()
    givers = np.flatnonzero(sizes > low)
    spare = int((sizes[givers] - low).sum() - lacks.sum())  # what they could give and need not
    keeps = np.full(len(givers), low) + _cut(np.full(len(givers), 1.0 / len(givers)), spare)
    given = [rng.permutation(np.flatnonzero(owner == giver))[keep:] for giver, keep in zip(givers, keeps, strict=True)]
    owner[rng.permutation(np.concatenate(given))] = np.repeat(np.arange(nodes), lacks)
    return owner


def owners(path: str, column: str, folders: Sequence[Path]) -> IntArray:
    """Node of each sample, `[samples]`, from a file; a ValueError says what is wrong with it."""
    place = find_file("path", path, folders)
    kind = place.suffix.lower()
    if kind not in (".npz", ".json", ".csv"):
        raise ValueError(f'path is "{path}"; must be an .npz, .json or .csv file')
    try:
        found = _read(place, kind)
        if isinstance(found, dict) and column not in found and kind == ".npz" and len(found) == 1:
            (found,) = found.values()
        missing = isinstance(found, dict) and column not in found
        values = np.asarray(found[column] if isinstance(found, dict) and not missing else found)
    except (OSError, BadZipFile, EOFError, ValueError, zlib.error) as error:  # pyarrow's errors are ValueErrors
        raise ValueError(f'path is "{path}"; cannot be read: {str(error).splitlines()[0]}') from None
    if missing:
        raise ValueError(f'column is "{column}"; {place.name} has none of that name{nearest(column, found)}')
    if values.ndim != 1 or values.dtype.kind not in "iu" or not len(values):
        raise ValueError(f'path is "{path}"; must hold one whole number for each sample: the node that gets it')
    return values.astype(np.int64)


def _read(place: Path, kind: str) -> Any:
    """Columns by name, or one without a name."""
    if kind == ".json":
        return json.loads(place.read_text(encoding="utf-8"))
    if kind == ".npz":
        require_room_unpacked("all arrays", place)
        with np.load(place, allow_pickle=False) as arrays:
            return dict(arrays)
    from pyarrow import csv

    table = csv.read_csv(place)
    return {name: table.column(name).to_numpy() for name in table.column_names}


PARTITIONS = {"iid": Iid, "dirichlet": Dirichlet, "shards": Shards, "quantity": Quantity, "file": FromFile}
