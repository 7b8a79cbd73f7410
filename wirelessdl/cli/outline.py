"""What a part is and takes, in a line: from its class, or from the source of a class that is not loaded."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_REQUIRED = object()


def outlines(classes: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, dict[str, str]]]]:
    """Name, summary and parameters of each class, with their defaults as TOML; "" where there is none.

    Classes that would be imported first (`homes` of the mapping) are read instead: torch takes seconds.
    """
    homes = getattr(classes, "homes", None)
    for name in classes:
        summary, parameters = _of_class(classes[name]) if homes is None else _of_source(*homes[name])
        defaults = {key: "" if value is _REQUIRED else _toml(value) for key, value in parameters.items()}
        yield name, (summary, defaults)


def _of_class(target: Any) -> tuple[str, dict[str, Any]]:
    parameters = {
        name: _REQUIRED if parameter.default is parameter.empty else parameter.default
        for name, parameter in inspect.signature(target).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD and name not in ("args", "kwargs")
    }
    return (inspect.getdoc(target) or "").partition("\n")[0], parameters


def _of_source(module: str, title: str) -> tuple[str, dict[str, Any]]:
    """Of a class whose constructor is its own, with literals as defaults."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == title)
    constructor = next(node for node in body.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    given = constructor.args
    names = [argument.arg for argument in given.args[1:]]
    defaults = [_REQUIRED] * (len(names) - len(given.defaults)) + [ast.literal_eval(node) for node in given.defaults]
    for argument, node in zip(given.kwonlyargs, given.kw_defaults):
        names.append(argument.arg)
        defaults.append(_REQUIRED if node is None else ast.literal_eval(node))
    return (ast.get_docstring(body) or "").partition("\n")[0], dict(zip(names, defaults))


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return str(list(value))
    return "none" if value is None else f'"{value}"' if isinstance(value, str) else f"{value}"
