"""Values as TOML writes them within one line, and values read from such text."""

import json
from collections.abc import Mapping
from typing import Any

from wirelessdl.scenario.overrides import parse_value

_PAIRS = {"[": "]", "{": "}", "(": ")"}


def toml_text(value: Any) -> str:
    """A value as `--set key=...` reads it back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {toml_text(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_text(item) for item in value) + "]"
    return repr(value) if isinstance(value, float) else str(value)


def plain_text(value: Any) -> str:
    """A value for people: as TOML, texts without their quotes."""
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else toml_text(value)


def _key(name: Any) -> str:
    text = str(name)
    return text if text.replace("_", "").replace("-", "").isalnum() and text.isascii() else json.dumps(text)


def parse_values(text: str) -> list[Any]:
    """The values of a list without brackets, `0.5,1,inf` or `iid,{ kind = 'dirichlet', concentration = 0.1 }`."""
    return [parse_value(part.strip()) for part in _split(text) if part.strip()]


def _split(text: str) -> list[str]:
    """Cut at commas, but not within brackets or quotes."""
    parts, closing, quote = [""], [], ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _PAIRS:
            closing.append(_PAIRS[character])
        elif closing and character == closing[-1]:
            closing.pop()
        elif character == "," and not closing:
            parts.append("")
            continue
        parts[-1] += character
    return parts
