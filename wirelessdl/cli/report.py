"""`wirelessdl report` and `wirelessdl verify`: a page of a run, and checks that it is as it was written."""

import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from wirelessdl.cli.options import PATH, echo_json, one_study, reads_runs
from wirelessdl.errors import quote
from wirelessdl.trace.files import require_outside


@click.command(epilog="Examples: wirelessdl report outputs/urban_er_k20-s7-r1; wirelessdl report outputs/tradeoff")
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="STUDY|RUN...")
@click.option(
    "--out",
    type=PATH,
    help="File to write; default: report.html in STUDY or RUN, or in the working folder for several.",
)
@click.option("--csv", "csv_folder", type=PATH, help="Also write every table as CSV into this folder.")
@click.option("--tensorboard", type=PATH, help="Also write curves as TensorBoard events under this folder.")
@click.option("--accountants", is_flag=True, help="Also the totals of the other accountants; takes seconds.")
@reads_runs
def command(
    runs: tuple[Path, ...], out: Path | None, csv_folder: Path | None, tensorboard: Path | None, accountants: bool
) -> None:
    """Write one HTML file of a STUDY, of RUN, or of several RUNs overlaid. It opens in any browser, without a network.

    A run that is not finished gives a report of the rounds written so far. Nothing of a run is executed: reports are
    made from its tables alone.
    """
    from wirelessdl.analysis.report import write_report
    from wirelessdl.analysis.report.study import write_study_report

    if one_study(runs):
        if csv_folder or tensorboard or accountants:
            raise click.UsageError("--csv, --tensorboard and --accountants are for runs; name runs of the study")
        page = write_study_report(runs[0], out or runs[0] / "report.html")
        click.echo(f"report in {page}, {page.stat().st_size / 1e6:.1f} MB")
        return
    for folder in (csv_folder, tensorboard):
        if folder is not None:
            require_outside(folder)
    path = out or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    if out is None and len(runs) == 1 and not runs[0].is_dir():
        path = Path("report.html")  # the error then names the run, not the file
    write_report(runs, path, accountants=accountants)
    click.echo(f"report in {path}, {path.stat().st_size / 1e6:.1f} MB")
    if csv_folder is None and tensorboard is None:
        return
    from wirelessdl.analysis.runs import folder_names, open_runs

    opened = open_runs(runs)
    for run, name in zip(opened, folder_names(opened)):
        of = "" if name == run.path.resolve().name else f", of {run.path}"
        if csv_folder is not None:
            folder = csv_folder if len(opened) == 1 else csv_folder / name
            click.echo(f"tables in {run.to_csv(folder)[0].parent}{of}")
        if tensorboard is not None:
            click.echo(f"events in {run.to_tensorboard(tensorboard, name)}{of}")


@click.command(epilog="Example: wirelessdl verify outputs/urban_er_k20-s7-r1")
@click.argument("run", type=PATH, metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@reads_runs
def verify(run: Path, as_json: bool) -> None:
    """Check that RUN holds what was written: checksums of every file, tables, figures, and epsilon from the traces.

    Runs none of the run's code and writes nothing. Exits with 1 if anything is wrong.
    """
    from wirelessdl.analysis.verify import verify as verify_run

    found = verify_run(run)
    if as_json:
        echo_json({"run": str(run), **asdict(found)})
        sys.exit(1 if found.problems else 0)
    console = Console(highlight=False)
    for line in found.problems:
        console.print(f"[red]wrong[/]  {escape(quote(line, 400))}", soft_wrap=True)
    for line in found.notes:
        console.print(f"[dim]note[/]   {escape(quote(line, 400))}", soft_wrap=True)
    epsilon = ""
    if found.epsilon_total is not None:
        epsilon = f", epsilon {found.epsilon_total:.4g} ({found.adjacency}) by the traces against {found.adversary}"
    verdict = "is as it was written" if not found.problems else f"has {len(found.problems)} problems"
    facts = f"{found.files} files, {found.rounds} rounds, {found.state}{epsilon}"
    console.print(f"{escape(quote(run, 400))} {verdict}: {facts}", soft_wrap=True)
    sys.exit(1 if found.problems else 0)
