"""`wirelessdl list`."""

import inspect
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table


@click.command(epilog="Example: wirelessdl list")
def command() -> None:
    """List what scenarios can name: bundled scenarios, and every model with its parameters."""
    from wirelessdl.scenario.loader import bundled_scenarios, share_folder
    from wirelessdl.sim.build import PARTS, SUPPLIED

    console = Console(highlight=False)
    console.print("[bold]scenarios[/]")
    console.print(
        _table((name, _headline(path.read_text(encoding="utf-8"))) for name, path in bundled_scenarios().items())
    )
    for key, known in PARTS.items():
        console.print(f"\n[bold]{key}[/]")
        console.print(_table((name, _describe(target, SUPPLIED)) for name, target in known.items()))
    files = sorted((share_folder() / "channel_models").glob("*.py"))
    if files:
        console.print("\n[bold]channel model files[/]")
        console.print(_table((f"channel_models/{file.name}", _headline(file.read_text("utf-8"))) for file in files))


def _table(rows: Any) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for name, text in rows:
        table.add_row(f"  {name}", text)
    return table


def _headline(text: str) -> str:
    """First line of a file's header comment or docstring."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return escape(first.strip().strip('#"').strip())


def _describe(target: Any, supplied: tuple[str, ...]) -> str:
    summary = escape((inspect.getdoc(target) or "").partition("\n")[0])
    parameters = [
        name if parameter.default is parameter.empty else f"{name} = {_toml(parameter.default)}"
        for name, parameter in inspect.signature(target).parameters.items()
        if name not in supplied and parameter.kind is not parameter.VAR_KEYWORD and name not in ("args", "kwargs")
    ]
    return f"{summary} [dim]{escape(', '.join(parameters))}[/]" if parameters else summary


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else f'"{value}"' if isinstance(value, str) else f"{value}"
