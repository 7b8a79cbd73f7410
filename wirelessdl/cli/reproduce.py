"""`wirelessdl reproduce`: a study, then its means, runs, paired differences and figures."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from wirelessdl.cli.options import PATH
from wirelessdl.cli.progress import stopper_installed
from wirelessdl.errors import TraceError

if TYPE_CHECKING:
    from wirelessdl.study.reproduce import Reproduction


@click.command(
    epilog="Examples: wirelessdl reproduce fig4 --scale smoke; wirelessdl reproduce all --scale cpu --jobs 2; "
    "wirelessdl reproduce my_study.toml --scale cpu"
)
@click.argument("name", metavar="NAME|STUDY.toml|all")
@click.option(
    "--scale",
    required=True,
    type=click.Choice(["smoke", "cpu", "paper"]),
    help="smoke: one seed, few rounds; cpu: as the study file says; paper: CIFAR-10 and ResNet-20, for a GPU.",
)
@click.option(
    "--protocol",
    default="both",
    metavar="NAME|both",
    help="paper: as printed in the paper; hardened; both: all that the study has. Your own studies name theirs.",
)
@click.option("--seeds", type=click.IntRange(min=1), help="Seeds per cell instead of the study's own number.")
@click.option("--jobs", type=click.IntRange(min=1), help="Runs at a time (default: one per core).")
@click.option("--out", type=PATH, help="Directory (default: outputs/reproduce-SCALE).")
@click.option("--device", default="auto", help="Torch device: auto, cpu, cuda, cuda:N or mps.")
@click.option("--force", is_flag=True, help="Go on with a study that other versions of packages began.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def command(
    name: str,
    scale: str,
    protocol: str,
    seeds: int | None,
    jobs: int | None,
    out: Path | None,
    device: str,
    force: bool,
    quiet: bool,
) -> None:
    """Run the study behind a figure of the paper (or your study file) and write its CSV files and figures.

    Into the directory go, for each protocol: the study with all runs and its index, NAME-PROTOCOL.csv with the mean of
    every cell and its 95% interval, paired differences where the file asks for them, and the figures. Called again, it
    goes on with what is there; CSV files come out the same, byte for byte, whatever the number of jobs.
    """
    from wirelessdl.cli.sweep import study_listener
    from wirelessdl.study.engine import Options
    from wirelessdl.study.reproduce import PAPER, THREADS, reproductions, require_same, run_study, with_scale
    from wirelessdl.trace.study import is_study

    console = Console(quiet=quiet, highlight=False)
    folder = out or Path("outputs") / f"reproduce-{scale}"
    names = with_scale(scale) if name == "all" else [name]
    if name == "all" and (without := [one for one in PAPER if one not in names]):
        console.print(f"without a scale {scale}, and left out: {', '.join(without)}", soft_wrap=True)
    wanted: list[Reproduction] = [one for each in names for one in reproductions(each, scale, protocol, seeds, device)]
    for one in wanted:  # all that can be refused is refused before anything runs
        if is_study(folder / one.name):
            require_same(folder / one.name, one.plan)
    failed, options = 0, Options(jobs, threads=THREADS, device=device, force=force)
    with stopper_installed() as stop:
        for one in wanted:
            try:
                with study_listener(console, as_json=False) as listener:
                    result = run_study(folder / one.name, one.plan, options, listener, stop.asked)
                stopped = result.stopped
            except KeyboardInterrupt:  # while cells were checked
                stopped = True
            if stopped:
                again = shlex.join(["wirelessdl", *sys.argv[1:]])
                stop.end(f"stopped; what is finished is kept, go on with: {again}")
            for run, error in result.errors.items():
                click.echo(f"{one.name}/{run}: {error}", err=True)
            failed += len(result.errors)
            for path in write_outputs(folder, one):
                console.print(f"wrote {path}", soft_wrap=True, markup=False)
    if failed:
        click.echo(f"{failed} runs failed; called again, the same command tries them again", err=True)
        sys.exit(1)


def write_outputs(folder: Path, one: "Reproduction") -> Iterator[Path]:
    """Write the files of a study beside its directory; yields each."""
    from wirelessdl.analysis.families import Request
    from wirelessdl.analysis.figures.study import draw_study
    from wirelessdl.analysis.study_tables import cell_differences, cell_means, csv_text, run_table
    from wirelessdl.trace.files import write_text
    from wirelessdl.trace.study import open_study

    study = open_study(folder / one.name)
    rows = study.finished
    tables = {"": cell_means(study, rows), "-runs": run_table(study, rows)}
    if one.differences:
        tables["-differences"] = cell_differences(study, one.differences)
    for ending, frame in tables.items():
        path = folder / f"{one.name}{ending}.csv"
        write_text(path, csv_text(frame))
        yield path
    for figure in one.figures:
        path = folder / f"{one.name}-{figure.name}.pdf"
        try:
            request = Request(**figure.model_dump(exclude={"name", "protocols"}))
            draw_study(study, request, path, shlex.join(["wirelessdl", *sys.argv[1:]]))
        except TraceError as error:
            raise TraceError(f"figure {figure.name}: {error}") from None
        yield path
