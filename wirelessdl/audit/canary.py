"""Two neighbouring data sets that are as far apart as they can be made.

Epsilon holds for every data set, so the auditor chooses it. Node j's samples are copies of one sample, c'; in the other
data set one of them is the canary c. Their clipped gradients should be opposite, C and -C, in every round. (zero-out:
the copy that becomes c is a null record.) Pairs:

    features   one label, features +r u and -r u: the gradient (p - y) a' of a linear layer changes sign with a
    labels     one sample of the node, two labels; real labels are +L and -L, which is exact for linear regression
    across     features r u and r v with u.v = 0, the only pair under a Gram stage: z z' is the same for z and -z

Copies of c' alone would be learned in a few rounds, and a gradient that is no longer clipped moves less. So of the
other nodes every second one holds copies of c, and the rest copies of c' (`others`), unless their own data serve
better. No pair is best for every model: a few are rehearsed with random draws of their own, and the one that moves
transmissions most is taken. What the rehearsal saw plays no part in the trials.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.learning.data import Dataset
from wirelessdl.run.build_learning import Plant

_LENGTHS = (2.5, 8.0, 25.0, 1e3)  # of the features, normalised


@dataclass(frozen=True, eq=False)
class Canary:
    """The samples, as stored: c and its label, c' and its label; and what the other nodes hold."""

    name: str
    sample: NDArray[Any]
    label: Any
    other_sample: NDArray[Any]
    other_label: Any
    others: Literal["data", "copies"]


def cut(samples: int | None) -> Plant:
    """Nobody keeps more than so many samples; those that are kept are stored side by side."""

    def plant(data: Dataset, clients: list[IntArray]) -> tuple[Dataset, list[IntArray]]:
        kept = [client[:samples] for client in clients]
        order, ends = np.concatenate(kept), np.cumsum([len(client) for client in kept])
        places = [np.arange(end - len(client), end) for client, end in zip(kept, ends)]
        return replace(data, train_x=data.train_x[order], train_y=data.train_y[order]), places

    return plant


def planted(canary: Canary, node: int, samples: int | None, *, with_canary: bool) -> Plant:
    """One of the two data sets; the canary is the node's first sample."""

    def plant(data: Dataset, clients: list[IntArray]) -> tuple[Dataset, list[IntArray]]:
        data, clients = cut(samples)(data, clients)
        train_x, train_y = data.train_x.copy(), data.train_y.copy()

        def put(places: IntArray, *, canary_itself: bool) -> None:
            train_x[places] = canary.sample if canary_itself else canary.other_sample
            train_y[places] = canary.label if canary_itself else canary.other_label

        own = clients[node]
        put(own, canary_itself=False)
        if canary.others == "copies":
            for place, other in enumerate(other for other in range(len(clients)) if other != node):
                put(clients[other], canary_itself=place % 2 == 0)
        if with_canary:
            put(own[:1], canary_itself=True)
        return replace(data, train_x=train_x, train_y=train_y), clients

    return plant


def candidates(data: Dataset, client: IntArray, *, across: bool = False) -> Iterator[Canary]:
    """Pairs to rehearse. client: the node's samples. across: only those that a Gram stage tells apart."""
    for name, sample, label, other_sample, other_label in _across(data) if across else _pairs(data, client):
        yield Canary(name, sample, label, other_sample, other_label, "copies")
        yield Canary(name, sample, label, other_sample, other_label, "data")


def _pairs(data: Dataset, client: IntArray) -> Iterator[tuple[str, NDArray[Any], Any, NDArray[Any], Any]]:
    ones = np.ones(data.shape) / np.sqrt(data.features)
    first, label = data.train_x[client[0]], data.train_y[client[0]]
    if data.task == "regression":
        bound = 1e3 * (1.0 + np.abs(data.train_y).max())
        yield "labels", first, bound, first, -bound
        for length in _LENGTHS:
            sample = _stored(data, length * ones)
            yield f"labels, features {length:g}", sample, bound, sample, -bound
        return
    for length in _LENGTHS:
        sample, other = _stored(data, length * ones), _stored(data, -length * ones)
        yield f"features {length:g}", sample, 0, other, 0
    if data.classes > 1:
        yield "labels", first, label, first, (label + 1) % data.classes
    # a canary that outweighs a whole batch of short ones, for batch clipping
    short, long = _LENGTHS[0], _LENGTHS[-1]
    yield f"features {long:g} among {short:g}", _stored(data, long * ones), 0, _stored(data, -short * ones), 0


def _across(data: Dataset) -> Iterator[tuple[str, NDArray[Any], Any, NDArray[Any], Any]]:
    first = np.arange(data.features).reshape(data.shape) < data.features // 2
    for length in _LENGTHS:
        sample, other = (_stored(data, length * half / np.sqrt(half.sum())) for half in (first, ~first))
        bound = 1e3 * (1.0 + np.abs(data.train_y).max()) if data.task == "regression" else 0
        yield f"features {length:g} across", sample, bound, other, -bound


def _stored(data: Dataset, features: FloatArray) -> NDArray[Any]:
    """A sample as stored, of normalised features; as close as whole numbers of the stored type come."""
    mean, deviation = (
        np.reshape(np.asarray(constant), (-1, 1, 1)) if isinstance(constant, tuple) else constant
        for constant in (data.mean, data.deviation)
    )
    values = (features * deviation + mean) * data.scale
    kind = data.train_x.dtype
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        values = np.clip(np.round(values), limits.min, limits.max)
    return np.asarray(values, dtype=kind)
