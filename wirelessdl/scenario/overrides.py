"""`--set section.key=value`: any key of a scenario, also inside lists and parts; in Python, values by key."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel

from wirelessdl.errors import ScenarioError, shown
from wirelessdl.scenario.objects import Given, plain_value
from wirelessdl.scenario.part import Part
from wirelessdl.scenario.schema import Scenario

_NAMES = ("kind", "model")  # keys that name a part
LONG_NUMBER = "a whole number in it has thousands of digits; no key takes one"
_MOST_BITS = 10_000  # numbers up to here can be written in decimal

Overrides: TypeAlias = Mapping[str, Any] | Sequence[str]


def apply_overrides(table: dict[str, Any], overrides: Overrides, objects: dict[str, Given]) -> None:
    """Set keys: texts as `--set` takes them, or values by key. objects: where those among the values are kept."""
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            _set(table, str(key).split("."), plain_value(str(key), value, objects), f"overrides: {shown(key)}")
        return
    if isinstance(overrides, str):
        raise ScenarioError(
            f'overrides is the text "{shown(overrides)}"; must be a list of such texts, or {{"scenario.rounds": 100}}'
        )
    if not isinstance(overrides, Iterable):
        raise ScenarioError(
            f'overrides is {shown(repr(overrides), 60)}; must be values by key, {{"scenario.rounds": 100}}, or texts'
        )
    for override in overrides:
        if not isinstance(override, str):
            raise ScenarioError(
                f"overrides has {shown(repr(override), 60)} in a list; must be texts, or values by key: "
                '{"scenario.rounds": 100}'
            )
        apply_override(table, override)


def has_long_number(value: Any) -> bool:
    """Whether a whole number is in it that Python does not write out."""
    if isinstance(value, Mapping):
        return any(map(has_long_number, value.values()))
    if isinstance(value, list | tuple):
        return any(map(has_long_number, value))
    return isinstance(value, int) and value.bit_length() > _MOST_BITS


def apply_override(table: dict[str, Any], override: str) -> None:
    """Set one dotted key. List entries are numbers; naming another kind drops the old one's parameters."""
    key, equals, text = override.partition("=")
    said = f"--set {shown(override)}"
    if not equals:
        raise ScenarioError(f'{said}: must be section.key=value, as in "scenario.rounds=100"')
    _set(table, key.strip().split("."), parse_value(text.strip()), said)


def _set(table: dict[str, Any], path: list[str], value: Any, said: str) -> None:
    if has_long_number(value):
        raise ScenarioError(f"{said}: {LONG_NUMBER}")
    if len(path) < 2 or not all(path):
        raise ScenarioError(f'{said}: must be section.key=value, as in "scenario.rounds=100"')
    place: Any = table
    for depth, step in enumerate(path[:-1]):
        place = _enter(place, step, said, path[:depth])
    last = path[-1]
    if isinstance(place, list):
        place[_index(place, last, said)] = value
    elif last in _NAMES and len(path) > 2:
        named = next((place[name] for name in _NAMES if name in place), value)
        if named != value:
            place.clear()  # parameters of another kind
        for name in _NAMES:
            place.pop(name, None)
        place[last] = value
    else:
        place[last] = value


def _enter(place: Any, step: str, said: str, above: list[str]) -> Any:
    """The table or list one step down; a part written as its bare name, or not at all, becomes a table."""
    index: Any = _index(place, step, said) if isinstance(place, list) else step
    if isinstance(place, dict) and step not in place:
        place[step] = _default(above, step)
    child = place[index]
    if isinstance(child, str):
        child = place[index] = {"model" if isinstance(place, list) else "kind": child}
    if not isinstance(child, dict | list):
        raise ScenarioError(f"{said}: {shown(step)} is a value, not a section")
    return child


def _index(place: list[Any], step: str, said: str) -> int:
    if not (step.isascii() and step.isdigit()) or len(step) > 9 or int(step) >= len(place):
        raise ScenarioError(f"{said}: {shown(step)} is no entry of a list of {len(place)}; count from 0")
    return int(step)


def _default(above: list[str], step: str) -> dict[str, Any]:
    """What a key that the file leaves out stands for: the part it defaults to, or an empty section."""
    section = (
        Scenario.model_fields[above[0]].annotation if len(above) == 1 and above[0] in Scenario.model_fields else None
    )
    if isinstance(section, type) and issubclass(section, BaseModel) and step in section.model_fields:
        default = section.model_fields[step].default
        if isinstance(default, Part):
            return default.to_table()
    return {}


def parse_value(text: str) -> Any:
    """A TOML value; anything else is a text."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # also a number of more digits than Python reads
        return text
    return parsed["value"] if len(parsed) == 1 and not has_long_number(parsed) else text
