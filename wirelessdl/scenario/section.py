"""Shared by sections: bounds of numbers, rules that values break, numbers per node, scheduled events.

power_dbm = 23
power_dbm = [23, 23, 10]
power_dbm = { kind = "uniform", low = 10, high = 23 }
power_dbm = { kind = "choice", values = [10, 23] }
"""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.errors import nearest

# bounds keep products and powers of any two of them within what a float can hold
Positive = Annotated[FiniteFloat, Field(gt=0, ge=1e-18, le=1e18)]
Fraction = Annotated[FiniteFloat, Field(ge=1e-30, lt=1)]
Count = Annotated[int, Field(ge=1)]
Battery = Annotated[float, Field(gt=0)]


def rule_text(text: str) -> dict[str, Any]:
    """A remedy to print instead of pydantic's words."""
    return {"rule": text}


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


_RULES = {
    "greater_than": "must be > {gt}",
    "greater_than_equal": "must be >= {ge}",
    "less_than": "must be < {lt}",
    "less_than_equal": "must be <= {le}",
    "finite_number": "must be a finite number",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "string_type": "must be a text in quotes",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_pattern_mismatch": "must match {pattern}",
    "literal_error": "must be {expected}",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "dict_type": "must be a table",
}


def rule(finding: Any) -> str:
    """One finding of pydantic's as a rule."""
    template = _RULES.get(finding["type"])
    if template is not None:
        return template.format(**finding.get("ctx", {}))
    return str(finding["msg"]).removeprefix("Value error, ")


def explain(findings: Iterable[Any]) -> str:
    """The rules a value broke, as pydantic found them; alternatives of a union are joined by 'or'."""
    rules = dict.fromkeys(map(rule, findings))
    return " or ".join(text if n == 0 else text.removeprefix("must be ") for n, text in enumerate(rules))


RULE = 'one number, a list with one per node, { kind = "uniform", low, high } or { kind = "choice", values }'


class UniformPerNode(Section):
    """Equally likely between two ends."""

    kind: Literal["uniform"]
    low: FiniteFloat
    high: FiniteFloat


class ChoicePerNode(Section):
    """One of several values, equally likely."""

    kind: Literal["choice"]
    values: Annotated[list[FiniteFloat], Field(min_length=1)]


PerNode: TypeAlias = FiniteFloat | Annotated[list[FiniteFloat], Field(min_length=1)] | UniformPerNode | ChoicePerNode


def values_of(key: str, value: PerNode, nodes: int, rng: np.random.Generator, *, low: float, high: float) -> FloatArray:
    """The number of every node, `[K]`. Raises ValueError unless there are K of them, all from low to high."""
    if isinstance(value, list) and len(value) != nodes:
        raise ValueError(f"{key} has {len(value)} entries; must be {RULE}: there are {nodes} nodes")
    if isinstance(value, UniformPerNode):
        if value.low > value.high:
            raise ValueError(f"{key}.low is {value.low:g}; must not be above high, {value.high:g}")
        ends, found = [value.low, value.high], rng.uniform(value.low, value.high, nodes)
    elif isinstance(value, ChoicePerNode):
        ends, found = value.values, rng.choice(np.asarray(value.values, dtype=np.float64), nodes)
    else:
        found = np.broadcast_to(np.asarray(value, dtype=np.float64), nodes).copy()
        ends = found.tolist()
    wrong = next((end for end in ends if not low <= end <= high), None)
    if wrong is not None:
        raise ValueError(f"{key} is {wrong:g}; must be from {low:g} to {high:g}")
    return np.asarray(found, dtype=np.float64)


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
