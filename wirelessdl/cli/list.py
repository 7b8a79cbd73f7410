"""`wirelessdl list` and `wirelessdl schema`: names that scenarios can use; and the runs of a folder."""

import ast
import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from wirelessdl.cli.options import echo_json, plain_table, wide_console
from wirelessdl.errors import TraceError, nearest, quote

if TYPE_CHECKING:
    from wirelessdl.trace.catalog import ListedRun

_GROUPS = ("scenarios", "baselines")  # that are listed beside keys
_PIPE_WIDTH = 10_000  # a pipe gets all of a name
_COLOURS = {"running": "cyan", "done": "green", "interrupted": "yellow", "failed": "red", "unreadable": "red"}


def _complete_name(_context: Any, _parameter: Any, begun: str) -> list[Any]:
    """For the shell: what names can be listed; where none begins so, any folder."""
    from click.shell_completion import CompletionItem

    from wirelessdl.run.registry import PARTS

    names = [name for name in (*_GROUPS, *PARTS) if name.startswith(begun)]
    return names or [CompletionItem(begun, type="dir")]


@click.command(epilog="Examples: wirelessdl list channel.models; wirelessdl list outputs/")
@click.argument("name", required=False, metavar="[NAME|FOLDER]", shell_complete=_complete_name)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON instead of tables: one object per study and run, or one object of all names.",
)
def command(name: str | None, as_json: bool) -> None:
    """List all that scenarios can name; or the entries of NAME: scenarios, baselines, or a key such as channel.models;
    or the runs and studies in FOLDER (or a study and its runs) with their states."""
    if name is not None and name not in _GROUPS and Path(name).exists():
        list_runs(Path(name), as_json)
        return
    from wirelessdl.run.registry import PARTS

    if name is None or name in (*_GROUPS, *PARTS):
        _list_names(name, as_json)
        return
    close = nearest(name, (*_GROUPS, *PARTS))
    close = close if "did you mean" in close else "; `wirelessdl list` shows all names"
    raise TraceError(f"{quote(name)}: no such folder{close}")


def list_runs(folder: Path, as_json: bool) -> None:
    from wirelessdl.trace.catalog import runs_in, studies_in

    runs, studies = runs_in(folder / "runs" if (folder / "study.json").is_file() else folder), studies_in(folder)
    if as_json:
        for facts in (*map(asdict, studies), *map(asdict, runs)):
            echo_json(facts, indent=None)
        return
    console = wide_console(_PIPE_WIDTH)
    if not runs and not studies:
        console.print(f"no runs in {escape(str(folder))}")
        return
    most = 60 if console.is_terminal else _PIPE_WIDTH  # of a scenario's name
    # on a narrow terminal a run's name goes on in the next line: it is typed in other commands
    table = plain_table(("run",), left=("run",), overflow="fold")
    for name in ("scenario", "state", "round", "accuracy", "epsilon", "against", "age"):
        table.add_column(name, justify="left" if name in ("scenario", "state", "against") else "right", no_wrap=True)
    for study in studies:
        table.add_row(
            escape(quote(study.study, max(most, 200))),
            escape(f"study of {quote(study.scenario, most)}"),
            f"[{_COLOURS[study.state]}]{study.state}[/]",
            f"{study.finished}/{study.runs}",
            *("", "", ""),
            _age(study.started),
        )
    for run in runs:
        table.add_row(
            escape(quote(run.name, max(most, 200))),
            escape(quote(run.scenario, most)),
            f"[{_COLOURS[run.state]}]{run.state}[/]",
            f"{run.round}/{run.rounds}",
            "" if run.accuracy is None else f"{run.accuracy:.1%}",
            *_epsilon(run),
            _age(run.started),
        )
    console.print(table)
    if studies:
        console.print("[dim]round of a study: runs that are finished, of all planned[/]")
    if any(run.epsilon is not None for run in runs):
        console.print(
            "[dim]epsilon: of the whole run, for one sample of a node (replace-one); (node): for all its "
            "data; (zero-out): against a null record\n"
            "against: the nodes that may collude, hearing every transmission; proven but where it says so[/]"
        )
    if any(run.bound for run in runs):
        console.print("[dim]<=: running bound of a run that is not finished; its total is smaller[/]")
    for name, error in [(one.study, one.error) for one in studies] + [(run.name, run.error) for run in runs]:
        if error:
            console.print(f"{escape(quote(name))}: {escape(quote(error))}", soft_wrap=True)  # one line, however long


def _epsilon(run: "ListedRun") -> tuple[str, str]:
    """Epsilon, and against whom."""
    from wirelessdl.privacy.terms import adversary_in_short

    if run.epsilon is None:
        return "", ""
    whom = "all others" if run.coalition is None else adversary_in_short(run.coalition).removesuffix(" nodes")
    against = "not proven" if run.declared else whom
    kinds = ", ".join(one for one in (run.unit, run.adjacency) if one in ("node", "zero-out"))
    return f"{'<= ' * run.bound}{run.epsilon:.3g}{f' ({kinds})' if kinds else ''}", against


def _age(started: str) -> str:
    if not started:
        return ""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(started)).total_seconds()
    except (TypeError, ValueError):  # somebody edited it
        return ""
    if seconds < 0:  # the clock was set back since
        return ""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _list_names(name: str | None, as_json: bool) -> None:
    from wirelessdl.run.registry import PARTS
    from wirelessdl.scenario.loader import bundled_scenarios, share_folder
    from wirelessdl.scenario.overrides import BASELINES

    if as_json:
        parts = {key: list(kind.classes) for key, kind in PARTS.items()}
        names = {"scenarios": list(bundled_scenarios()), "baselines": list(BASELINES), **parts}
        click.echo(json.dumps(names if name is None else {name: names[name]}, indent=2))
        return
    models = sorted((share_folder() / "channel_models").glob("*.py"))
    sections: dict[str, list[tuple[str, str]]] = {
        "scenarios": [(name, _headline(path)) for name, path in bundled_scenarios().items()],
        "baselines": [(one.name, escape(one.summary)) for one in BASELINES.values()],
        **{
            key: [(name, _described(kind.classes, name, kind.supplied)) for name in kind.classes]
            for key, kind in PARTS.items()
        },
        "channel model files": [(f"channel_models/{file.name}", _headline(file)) for file in models],
    }
    console = wide_console(_PIPE_WIDTH)
    for number, (title, rows) in enumerate((sections if name is None else {name: sections[name]}).items()):
        console.print(f"{chr(10) * (number > 0)}[bold]{title}[/]")
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_column(style="cyan", no_wrap=True)
        table.add_column()
        for one, text in rows:
            table.add_row(f"  {one}", text)
        console.print(table)


def _headline(path: Path) -> str:
    """First line of a file's header comment or docstring."""
    first = next((line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()), "")
    return escape(first.strip().strip('#"').strip())


def _described(classes: Mapping[str, Any], name: str, supplied: tuple[str, ...]) -> str:
    """What a part is and takes, in a line.

    Classes that would be imported first (`homes` of the mapping) are read from their source: torch takes seconds.
    """
    homes = getattr(classes, "homes", None)
    summary, parameters = _of_class(classes[name]) if homes is None else _of_source(*homes[name])
    taken = [
        parameter.name if parameter.default is parameter.empty else f"{parameter.name} = {_toml(parameter.default)}"
        for parameter in parameters
        if parameter.name not in (*supplied, "args", "kwargs")
    ]
    return f"{escape(summary)} [dim]{escape(', '.join(taken))}[/]" if taken else escape(summary)


def _of_class(target: Any) -> tuple[str, list[inspect.Parameter]]:
    """First line of its docstring, of a member of a family its module's; and what its constructor takes."""
    text = sys.modules[target.__module__].__doc__ if target.__name__ == "Member" else inspect.getdoc(target)
    return (text or "").partition("\n")[0], list(inspect.signature(target).parameters.values())


def _of_source(module: str, title: str) -> tuple[str, list[inspect.Parameter]]:
    """The same of a class that is not loaded, whose constructor is its own, with literals as defaults, or none."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == title)
    summary = (ast.get_docstring(body) or "").partition("\n")[0]
    made = [node for node in body.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    if not made:
        return summary, []
    given = made[0].args
    required = [None] * (len(given.args) - len(given.defaults))
    pairs = [*zip(given.args, (*required, *given.defaults)), *zip(given.kwonlyargs, given.kw_defaults)]
    parameters = [
        inspect.Parameter(
            argument.arg,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if node is None else ast.literal_eval(node),
        )
        for argument, node in pairs[1:]  # without self
    ]
    return summary, parameters


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return str(list(value))
    return "none" if value is None else f'"{value}"' if isinstance(value, str) else f"{value}"


@click.command(epilog="Example: wirelessdl schema > scenario.schema.json")
def schema() -> None:
    """Print the JSON Schema of scenario files. Editors with a TOML schema plug-in use it to complete and check keys."""
    from wirelessdl.run.registry import PARTS
    from wirelessdl.scenario.schema import Scenario

    content = Scenario.model_json_schema()
    content["title"] = "wirelessdl scenario"
    for where, kind in PARTS.items():
        section, _, key = where.partition(".")
        reference = content["properties"][section].get("$ref", f"{section.capitalize()}Section")
        place = content["$defs"][reference.rpartition("/")[2]]["properties"][key]
        written = "model" if where in ("channel.models", "learning.model") else "kind"
        part = _part_schema(kind.classes, written, kind.supplied)
        if place.get("type") == "array":
            place["items"] = part
            if where == "learning.features":  # one map is written as itself
                several, description = dict(place), place["description"]
                place.clear()
                place.update(anyOf=[part, several], description=description)
        else:
            place.pop("$ref", None)
            place.pop("allOf", None)
            place.update(part)
    click.echo(json.dumps(content, indent=2))


def _part_schema(known: Mapping[str, Any], key: str, supplied: tuple[str, ...]) -> dict[str, Any]:
    """A part: the bare name, a table of a built-in with its parameters, or a user's `file.py:Class`."""
    tables = [_class_schema(name, target, key, supplied) for name, target in known.items()]
    own = {"type": "object", "properties": {key: {"type": "string", "pattern": r"\.py:"}}, "required": [key]}
    return {"anyOf": [{"enum": sorted(known)}, {"type": "string", "pattern": r"\.py:"}, *tables, own]}


def _class_schema(name: str, target: Any, key: str, supplied: tuple[str, ...]) -> dict[str, Any]:
    from pydantic import TypeAdapter

    from wirelessdl.scenario.part import type_hints

    properties: dict[str, Any] = {key: {"const": name}}
    required = [key]
    summary, parameters = _of_class(target)
    hints = type_hints(target)
    for parameter in parameters if target.__init__ is not object.__init__ else []:
        if parameter.name in supplied:
            continue
        properties[parameter.name] = TypeAdapter(hints.get(parameter.name, Any)).json_schema()
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif parameter.default is not None:
            properties[parameter.name]["default"] = parameter.default
    return {
        "type": "object",
        "description": summary,
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
