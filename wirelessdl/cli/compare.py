"""`wirelessdl compare`."""

import json
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wirelessdl.cli.reading import reads_runs


@click.command(epilog="Example: wirelessdl compare outputs/urban_er_k20-s7-r1 outputs/urban_er_k20_paper_lp-s7-r1")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN RUN...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@reads_runs
def command(runs: tuple[Path, ...], as_json: bool) -> None:
    """Print differing keys and final figures of runs side by side. Runs may have different scenarios and sizes."""
    if len(runs) < 2:
        raise click.UsageError("name two runs or more; `wirelessdl report RUN` shows one")
    from wirelessdl.analysis.data_split import adversary
    from wirelessdl.analysis.runs import (
        FIGURES,
        differing,
        final_figures,
        formatted,
        labels,
        open_runs,
        protects,
        shown,
        state,
    )

    opened = open_runs(runs)
    keys, figures = differing(opened), [final_figures(run) for run in opened]
    if as_json:
        from wirelessdl.trace.files import plain

        entries = [
            {
                "path": str(run.path),
                "state": state(run),
                "keys": {key: keys[key][n] for key in keys},
                "adversary": adversary(run),
                **figures[n],
            }
            for n, run in enumerate(opened)
        ]
        click.echo(json.dumps(plain({"differing": list(keys), "runs": entries}), indent=2, allow_nan=False))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in labels(opened):
        table.add_column(escape(shown(name)), overflow="fold")
    for key, values in keys.items():
        table.add_row(escape(shown(key)), *(escape(shown(value)) for value in values), style="cyan")
    if keys:
        table.add_row()
    if any(state(run) != "done" for run in opened):
        table.add_row("state", *(state(run) for run in opened))
    table.add_row("every epsilon protects", *(protects(run) for run in opened))
    table.add_row("the promised epsilon holds against", *(adversary(run) for run in opened))
    for name, (words, _) in FIGURES.items():
        table.add_row(words, *(formatted(name, figure[name]) for figure in figures))
    console = Console(highlight=False)
    if not console.is_terminal:  # in a file or pipe, names are not folded
        console.width = 60 + 60 * len(opened)
    if not keys:
        console.print("no key differs")
    console.print(table)
