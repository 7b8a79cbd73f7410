"""Columns as Arrow arrays, from their buffers.

`pa.array` would do the same, but imports pandas first, and a run that only writes needs none of it (0.4 s).
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_NUMBERS: dict[pa.DataType, Any] = {pa.int32(): np.int32, pa.int64(): np.int64, pa.float64(): np.float64}


def arrow_array(values: Any, kind: pa.DataType) -> pa.Array:
    """A column of numbers, booleans, texts or lists of numbers; null where a masked array is masked."""
    if pa.types.is_dictionary(kind):
        return _texts(values).dictionary_encode()
    if pa.types.is_string(kind):
        return _texts(values)
    if pa.types.is_list(kind):
        lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
        flat = np.array(list(chain.from_iterable(values)))
        return pa.ListArray.from_arrays(_offsets(lengths), arrow_array(flat, kind.value_type), type=kind)
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    plain = np.ma.getdata(values)
    data = _bits(plain) if pa.types.is_boolean(kind) else pa.py_buffer(_as_numbers(plain, kind))
    nulls = 0 if mask is None else int(mask.sum())
    valid = _bits(~mask) if mask is not None and nulls else None
    return pa.Array.from_buffers(kind, len(plain), [valid, data], null_count=nulls)


def _as_numbers(values: NDArray[Any], kind: pa.DataType) -> NDArray[Any]:
    """In the column's type. Numbers that it cannot hold are a bug of ours, as are other things than numbers."""
    target = _NUMBERS[kind]
    if not len(values):
        return np.empty(0, dtype=target)
    if target is not np.float64:
        limits = np.iinfo(target)
        if values.dtype.kind not in "iu" or values.min() < limits.min or values.max() > limits.max:
            raise ValueError(f"{values.dtype} from {values.min()} to {values.max()} does not fit into {kind}")
    return np.ascontiguousarray(values.astype(target, casting="same_kind", copy=False))


def _bits(values: NDArray[Any]) -> pa.Buffer:
    if len(values) and values.dtype != np.bool_:
        raise ValueError(f"{values.dtype} is not boolean")
    return pa.py_buffer(np.packbits(values.astype(bool), bitorder="little"))


def _texts(values: Sequence[str]) -> pa.Array:
    encoded = [value.encode() for value in values]
    offsets = _offsets(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
    return pa.StringArray.from_buffers(len(encoded), offsets.buffers()[1], pa.py_buffer(b"".join(encoded)))


def _offsets(lengths: NDArray[Any]) -> pa.Array:
    return arrow_array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), pa.int32())
