"""Lists of scheduled events, as scenarios write them, checked entry by entry."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from wirelessdl.arrays import BoolArray
from wirelessdl.errors import nearest

Schedule = list[dict[str, Any]]


def checked(events: Schedule, needed: tuple[str, ...], optional: Mapping[str, Any], nodes: int) -> Schedule:
    """Events with every key, defaults filled in: nodes that exist, finite numbers that are not negative."""
    return [_one(n, event, needed, optional, nodes) for n, event in enumerate(events)]


def _one(n: int, event: dict[str, Any], needed: tuple[str, ...], optional: Mapping[str, Any], nodes: int) -> Any:
    known = (*needed, *optional)
    for key in event:
        if key not in known:
            raise ValueError(f"events[{n}] has an unknown key {key}{nearest(key, known)}")
    for key in needed:
        if key not in event:
            raise ValueError(f"events[{n}] has no {key}; an event needs {', '.join(needed)}")
    full = {**optional, **event}
    for key, value in full.items():
        if key in ("node", "tx", "rx"):
            require_node(f"events[{n}].{key}", value, nodes)
        elif isinstance(optional.get(key), bool):
            if not isinstance(value, bool):
                raise ValueError(f"events[{n}].{key} is {value!r}; must be true or false")
        elif isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value < 0:
            raise ValueError(f"events[{n}].{key} is {value!r}; must be a number >= 0")
        elif key == "for_s" and value == 0:
            raise ValueError(f"events[{n}].for_s is {value!r}; nothing happens in no time: must be > 0")
    return full


def require_node(key: str, value: object, nodes: int) -> None:
    """Raise unless a number names a node."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < nodes:
        raise ValueError(f"{key} is {value!r}; no such node: they are 0 to {nodes - 1}")


def chosen(only: list[int] | None, nodes: int) -> BoolArray:
    """The nodes that a fault may touch: those listed, or all."""
    for n, node in enumerate(only or ()):
        require_node(f"only[{n}]", node, nodes)
    mask = np.zeros(nodes, dtype=bool)
    mask[slice(None) if only is None else only] = True
    return mask
