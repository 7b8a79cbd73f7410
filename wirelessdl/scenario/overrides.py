"""`--set section.key=value`: any key of a scenario, also inside lists and parts."""

import tomllib
from typing import Any

from pydantic import BaseModel

from wirelessdl.errors import ScenarioError, shown
from wirelessdl.scenario.part import Part
from wirelessdl.scenario.schema import Scenario

_NAMES = ("kind", "model")  # keys that name a part


def apply_override(table: dict[str, Any], override: str) -> None:
    """Set one dotted key. List entries are numbers; naming another kind drops the old one's parameters."""
    key, equals, text = override.partition("=")
    path = key.strip().split(".")
    if not equals or len(path) < 2 or not all(path):
        raise ScenarioError(f'--set {shown(override)}: must be section.key=value, as in "scenario.rounds=100"')
    place: Any = table
    for depth, step in enumerate(path[:-1]):
        place = _enter(place, step, override, path[:depth])
    value, last = parse_value(text.strip()), path[-1]
    if isinstance(place, list):
        place[_index(place, last, override)] = value
    elif last in _NAMES and len(path) > 2:
        named = next((place[name] for name in _NAMES if name in place), value)
        if named != value:
            place.clear()  # parameters of another kind
        for name in _NAMES:
            place.pop(name, None)
        place[last] = value
    else:
        place[last] = value


def _enter(place: Any, step: str, override: str, above: list[str]) -> Any:
    """The table or list one step down; a part written as its bare name, or not at all, becomes a table."""
    index: Any = _index(place, step, override) if isinstance(place, list) else step
    if isinstance(place, dict) and step not in place:
        place[step] = _default(above, step)
    child = place[index]
    if isinstance(child, str):
        child = place[index] = {"model" if isinstance(place, list) else "kind": child}
    if not isinstance(child, dict | list):
        raise ScenarioError(f"--set {shown(override)}: {shown(step)} is a value, not a section")
    return child


def _index(place: list[Any], step: str, override: str) -> int:
    if not (step.isascii() and step.isdigit()) or int(step) >= len(place):
        raise ScenarioError(
            f"--set {shown(override)}: {shown(step)} is no entry of a list of {len(place)}; count from 0"
        )
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
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text
