"""Numbers small enough for a page: thinned, rounded, and large arrays as base64 of what a browser can read in place."""

import base64
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import IntArray

_DIGITS = 6


def thinned(count: int, most: int) -> IntArray:
    """Places of at most `most` out of `count`, evenly spread, first and last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, max(most, 1))).round().astype(np.int64))


def numbers(values: Any) -> list[float | int | None]:
    """A short list of numbers for JSON: six digits, null for what is not finite."""
    return [_number(value) for value in np.asarray(values).ravel().tolist()]


def _number(value: Any) -> float | int | None:
    if isinstance(value, int):
        return value
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{_DIGITS}g}")


def packed(values: NDArray[Any], kind: str) -> dict[str, Any]:
    """An array as text: `kind` names the browser's typed array."""
    types = {"Float32Array": "<f4", "Int16Array": "<i2", "Uint16Array": "<u2", "Uint8Array": "u1"}
    raw = np.ascontiguousarray(values, dtype=types[kind]).tobytes()
    return {"kind": kind, "shape": list(values.shape), "base64": base64.b64encode(raw).decode("ascii")}


_NONE_16 = 65535  # stands for no value


def packed_levels(values: NDArray[Any]) -> dict[str, Any]:
    """Numbers from 0 up in 65,534 even levels; what is not finite becomes the last code."""
    finite = np.isfinite(values)
    top = float(values[finite].max()) if finite.any() else 1.0
    scale = (top or 1.0) / (_NONE_16 - 1)
    code = np.where(finite, np.round(np.where(finite, values, 0.0) / scale), _NONE_16)
    return {**packed(code, "Uint16Array"), "scale": scale, "none": _NONE_16}
