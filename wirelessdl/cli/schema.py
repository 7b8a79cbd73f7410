"""`wirelessdl schema`."""

import inspect
import json
from collections.abc import Mapping
from typing import Any

import click
from pydantic import TypeAdapter


@click.command(epilog="Example: wirelessdl schema > scenario.schema.json")
def command() -> None:
    """Print the JSON Schema of scenario files. Editors with a TOML schema plug-in use it to complete and check keys."""
    from wirelessdl.run.registry import PARTS
    from wirelessdl.scenario.schema import Scenario

    schema = Scenario.model_json_schema()
    schema["title"] = "wirelessdl scenario"
    for where, kind in PARTS.items():
        section, _, key = where.partition(".")
        name = (
            schema["properties"][section]["$ref"].rpartition("/")[2] if "$ref" in schema["properties"][section] else ""
        )
        place = schema["$defs"][name or f"{section.capitalize()}Section"]["properties"][key]
        written = "model" if where in ("channel.models", "learning.model") else "kind"
        part = _part(kind.classes, written, kind.supplied)
        if place.get("type") == "array":
            place["items"] = part
        else:
            place.pop("$ref", None)
            place.pop("allOf", None)
            place.update(part)
    click.echo(json.dumps(schema, indent=2))


def _part(known: Mapping[str, Any], key: str, supplied: tuple[str, ...]) -> dict[str, Any]:
    """A part: the bare name, a table of a built-in with its parameters, or a user's `file.py:Class`."""
    tables = [_table(name, target, key, supplied) for name, target in known.items()]
    own = {"type": "object", "properties": {key: {"type": "string", "pattern": r"\.py:"}}, "required": [key]}
    return {"anyOf": [{"enum": sorted(known)}, {"type": "string", "pattern": r"\.py:"}, *tables, own]}


def _table(name: str, target: Any, key: str, supplied: tuple[str, ...]) -> dict[str, Any]:
    properties: dict[str, Any] = {key: {"const": name}}
    required = [key]
    if target.__init__ is not object.__init__:
        from wirelessdl.scenario.part import type_hints

        hints = type_hints(target)
        for parameter in list(inspect.signature(target).parameters.values()):
            if parameter.name in supplied:
                continue
            properties[parameter.name] = TypeAdapter(hints.get(parameter.name, Any)).json_schema()
            if parameter.default is parameter.empty:
                required.append(parameter.name)
            elif parameter.default is not None:
                properties[parameter.name]["default"] = parameter.default
    return {
        "type": "object",
        "description": (inspect.getdoc(target) or "").partition("\n")[0],
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
