"""`wirelessdl list`."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wirelessdl.cli.options import PATH
from wirelessdl.cli.outline import outlines
from wirelessdl.errors import shown

if TYPE_CHECKING:
    from wirelessdl.trace.catalog import RunStatus


@click.command(epilog="Example: wirelessdl list outputs/")
@click.argument("folder", required=False, type=PATH)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON instead of tables: one object per study and run, or one object of all names.",
)
def command(folder: Path | None, as_json: bool) -> None:
    """List the runs and studies in FOLDER (or the runs of a study) with their states; or, without it, all that
    scenarios can name."""
    if folder is None:
        _list_names_as_json() if as_json else _list_names()
    else:
        _list_runs(folder, as_json)


def _list_runs(folder: Path, as_json: bool) -> None:
    from wirelessdl.trace.catalog import runs_in, studies_in
    from wirelessdl.trace.files import figures_text

    folder = folder / "runs" if (folder / "study.json").is_file() else folder
    runs, studies = runs_in(folder), studies_in(folder)
    if as_json:
        for facts in (*map(asdict, studies), *map(asdict, runs)):
            click.echo(figures_text(facts))
        return
    console = _console()
    if not runs and not studies:
        console.print(f"no runs in {escape(str(folder))}")
        return
    most = 60 if console.is_terminal else _WIDEST  # of a scenario's name; a pipe gets all of it
    table = Table(box=None, pad_edge=False)
    for name, justify in [
        ("run", "left"),
        ("scenario", "left"),
        ("state", "left"),
        ("round", "right"),
        ("accuracy", "right"),
    ]:
        # on a narrow terminal a name goes on in the next line: it is typed in other commands
        table.add_column(name, justify=justify, no_wrap=name != "run", overflow="fold")  # type: ignore[arg-type]
    table.add_column("epsilon", justify="right", no_wrap=True)
    table.add_column("against", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True)
    for study in studies:
        table.add_row(
            escape(shown(study.study, max(most, 200))),
            escape(f"study of {shown(study.scenario, most)}"),
            f"[{_COLOURS[study.state]}]{study.state}[/]",
            f"{study.finished}/{study.runs}",
            *("", "", ""),
            _age(study.started),
        )
    for run in runs:
        table.add_row(
            escape(shown(run.name, max(most, 200))),
            escape(shown(run.scenario, most)),
            f"[{_COLOURS[run.state]}]{run.state}[/]",
            f"{run.round}/{run.rounds}",
            "" if run.accuracy is None else f"{run.accuracy:.1%}",
            _epsilon(run),
            "" if run.epsilon is None else _against(run),
            _age(run.started),
        )
    console.print(table)
    if studies:
        console.print("[dim]round of a study: runs that are finished, of all planned[/]")
    if any(run.epsilon is not None for run in runs):
        console.print(
            "[dim]epsilon: of the whole run, for one sample of a node (replace-one); (node): for all its data\n"
            "against: the nodes that may collude, hearing every transmission; proven but where it says so[/]"
        )
    if any(run.bound for run in runs):
        console.print("[dim]<=: running bound of a run that is not finished; its total is smaller[/]")
    for name, error in [(one.study, one.error) for one in studies] + [(run.name, run.error) for run in runs]:
        if error:
            console.print(f"{escape(shown(name))}: {escape(shown(error))}", soft_wrap=True)  # one line, however long


def _against(run: "RunStatus") -> str:
    from wirelessdl.privacy.terms import adversary_in_short

    return "not proven" if run.declared else adversary_in_short(run.coalition).removesuffix(" nodes")


def _epsilon(run: "RunStatus") -> str:
    if run.epsilon is None:
        return ""
    return f"{'<= ' if run.bound else ''}{run.epsilon:.3g}{' (node)' if run.unit == 'node' else ''}"


def _console() -> Console:
    """A terminal has a width; what a pipe or a file gets is as wide as it needs to be, and nothing is cut."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDEST)


_WIDEST = 10_000
_COLOURS = {"running": "cyan", "done": "green", "interrupted": "yellow", "failed": "red", "unreadable": "red"}


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


def _list_names_as_json() -> None:
    from wirelessdl.run.registry import PARTS
    from wirelessdl.scenario.loader import bundled_scenarios
    from wirelessdl.scenario.overrides import BASELINES

    names = {
        "scenarios": list(bundled_scenarios()),
        "baselines": list(BASELINES),
        **{key: list(kind.classes) for key, kind in PARTS.items()},
    }
    click.echo(json.dumps(names, indent=2))


def _list_names() -> None:
    from wirelessdl.run.registry import PARTS
    from wirelessdl.scenario.loader import bundled_scenarios, share_folder
    from wirelessdl.scenario.overrides import BASELINES

    console = _console()
    console.print("[bold]scenarios[/]")
    console.print(
        _table((name, _headline(path.read_text(encoding="utf-8"))) for name, path in bundled_scenarios().items())
    )
    console.print("\n[bold]baselines[/]")
    console.print(_table((one.name, escape(one.summary)) for one in BASELINES.values()))
    for key, kind in PARTS.items():
        console.print(f"\n[bold]{key}[/]")
        rows = [(name, _described(*outline, kind.supplied)) for name, outline in outlines(kind.classes)]
        console.print(_table(rows))
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


def _described(summary: str, parameters: Mapping[str, str], supplied: tuple[str, ...]) -> str:
    listed = [
        f"{name} = {default}" if default else name for name, default in parameters.items() if name not in supplied
    ]
    return f"{escape(summary)} [dim]{escape(', '.join(listed))}[/]" if listed else escape(summary)
