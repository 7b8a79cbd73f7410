"""`wirelessdl verify`."""

import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from wirelessdl.cli.options import PATH, reads_runs
from wirelessdl.errors import shown


@click.command(epilog="Example: wirelessdl verify outputs/urban_er_k20-s7-r1")
@click.argument("run", type=PATH, metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@reads_runs
def command(run: Path, as_json: bool) -> None:
    """Check that RUN holds what was written: checksums of every file, tables, figures, and epsilon from the traces.

    Runs none of the run's code and writes nothing. Exits with 1 if anything is wrong.
    """
    from wirelessdl.analysis.verify import verify
    from wirelessdl.trace.files import figures_text

    found = verify(run)
    if as_json:
        click.echo(figures_text({"run": str(run), **asdict(found)}, indent=2))
        sys.exit(1 if found.problems else 0)
    console = Console(highlight=False)
    for line in found.problems:
        console.print(f"[red]wrong[/]  {_plain(line)}", soft_wrap=True)
    for line in found.notes:
        console.print(f"[dim]note[/]   {_plain(line)}", soft_wrap=True)
    epsilon = ""
    if found.epsilon_total is not None:
        epsilon = f", epsilon {found.epsilon_total:.4g} (replace-one) by the traces against {found.adversary}"
    verdict = "is as it was written" if not found.problems else f"has {len(found.problems)} problems"
    told = f"{found.files} files, {found.rounds} rounds, {found.state}{epsilon}"
    console.print(f"{_plain(str(run))} {verdict}: {told}", soft_wrap=True)
    sys.exit(1 if found.problems else 0)


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(shown(text, 400))
