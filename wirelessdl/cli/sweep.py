"""`wirelessdl sweep`."""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from wirelessdl.cli.options import PATH, counted, echo_json, plain_table, set_option, warn_of_user_code
from wirelessdl.cli.progress import Stopper, emit, stopper_installed
from wirelessdl.errors import quote

if TYPE_CHECKING:
    from wirelessdl.study.engine import Estimate, Result
    from wirelessdl.study.plan import Plan
    from wirelessdl.study.sweep import Options


@click.command(
    epilog="Example: wirelessdl sweep quickstart --vary privacy.epsilon_max=0.5,1,inf --seeds 3 --jobs 2 "
    "--out outputs/tradeoff"
)
@click.argument("scenario", required=False)
@click.option(
    "--vary",
    multiple=True,
    metavar="SECTION.KEY=V1,V2,...",
    help="Run with each of these values; repeatable: all combinations are run.",
)
@set_option
@click.option("--seeds", type=int, help="Seeds per cell, counted from the scenario's own (default 1).")
@click.option("--runs", type=int, help="Run numbers per seed, counted from the scenario's own (default 1).")
@click.option("--rounds", type=int, help="Number of rounds.")
@click.option("--baseline", "baselines", multiple=True, metavar="NAME", help="Add a baseline by name; repeatable.")
@click.option("--no-local", is_flag=True, help="Leave out the baseline local, which private studies have by default.")
@click.option("--out", type=PATH, help="Directory of the study (default: outputs/<name>).")
@click.option("--jobs", type=int, help="Runs at a time, in processes of this machine (default: one per core).")
@click.option("--threads", type=int, help="Threads of each run (default: cores / jobs).")
@click.option("--scheduler", metavar="ADDRESS", help="Use the workers of this Dask scheduler, e.g. tcp://host:8786.")
@click.option("--device", default="auto", help="Torch device: auto, cpu, cuda, cuda:N or mps.")
@click.option("--resume", "resumed", type=PATH, metavar="DIR", help="Continue this study.")
@click.option("--force", is_flag=True, help="With --resume: allow other versions of packages.")
@click.option("--status", "looked_at", type=PATH, metavar="DIR", help="Print how a study stands.")
@click.option("--dry-run", is_flag=True, help="Check all cells, time short runs, print cells, time and disk space.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per finished run, then the counts.")
def command(
    scenario: str | None,
    vary: tuple[str, ...],
    overrides: tuple[str, ...],
    seeds: int | None,
    runs: int | None,
    rounds: int | None,
    baselines: tuple[str, ...],
    no_local: bool,
    out: Path | None,
    resumed: Path | None,
    looked_at: Path | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **execution: Any,
) -> None:
    """Run SCENARIO with every combination of varied values, seeds and run numbers; write all runs and an index.

    SCENARIO is a scenario (file or bundled name) or a study file, a TOML file with a table [study]. Ctrl-C stops the
    runs after their current round; --resume continues them. Exits with 1 if runs failed; the others are not affected.
    """
    named = [name for name, value in (("SCENARIO", scenario), ("--resume", resumed), ("--status", looked_at)) if value]
    if len(named) != 1:
        said = f"{' and '.join(named)} exclude each other" if named else "name a SCENARIO or a study file"
        raise click.UsageError(f"{said}; or a study to --resume, or its --status")
    if execution["force"] and resumed is None:
        raise click.UsageError("--force goes with --resume")
    asked = vary or overrides or baselines or no_local or any(v is not None for v in (seeds, runs, rounds, out))
    if asked and scenario is None:
        raise click.UsageError("a study goes on as it was: only --jobs, --scheduler and --force go with --resume")
    console = Console(quiet=quiet or as_json, highlight=False)
    if looked_at is not None:
        _print_status(looked_at, console, as_json)
        return
    from wirelessdl.study.sweep import Options, plan_of, spec_of

    options = Options(**execution)
    if resumed is not None:
        if dry_run:
            raise click.UsageError("--dry-run goes with a SCENARIO; --status shows what is left of a study")
        _go(resumed, None, options, console, as_json)
        return
    assert scenario is not None
    if rounds is not None:
        overrides = (*overrides, f"scenario.rounds={rounds}")
    spec = spec_of(scenario, _varied(vary), seeds, runs, overrides, baselines, not no_local)
    plan = plan_of(spec, options, out)
    warn_of_user_code(plan.base)
    if dry_run:
        _dry_run(plan, options, console, as_json)
    else:
        _go(out or Path("outputs") / plan.name, plan, options, console, as_json)


def _varied(vary: tuple[str, ...]) -> dict[str, list[Any]]:
    from wirelessdl.errors import StudyError
    from wirelessdl.study.study_file import parse_values

    found: dict[str, list[Any]] = {}
    for text in vary:
        key, equals, values = text.partition("=")
        if not equals or "." not in key:
            raise StudyError(f'--vary {quote(text)}: must be section.key=value,value, as in "network.nodes=4,10"')
        if key.strip() in found:
            raise StudyError(f"--vary {quote(key)} is given twice; name all its values once")
        found[key.strip()] = parse_values(values)
    return found


def _go(folder: Path, plan: "Plan | None", options: "Options", console: Console, as_json: bool) -> None:
    """Start or resume a study, and say how it ended."""
    from wirelessdl.cli.sweep_progress import study_listener
    from wirelessdl.study.cluster import SchedulerLost
    from wirelessdl.study.sweep import resume_in, start_in

    with stopper_installed() as stop:
        try:
            with study_listener(console, as_json=as_json) as listener:
                if plan is None:
                    result = resume_in(folder, options, listener, stop.asked)
                else:
                    result = start_in(folder, plan, options, listener, stop.asked)
        except SchedulerLost as lost:
            click.echo(f"{lost}; what is finished is kept, go on with: {_resume(folder, options)}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            stop.end("stopped before anything ran; nothing was written")
    if as_json:
        emit({"event": "study", "path": str(folder), **result.counts, "wall_s": result.wall_s})
    _conclude(result, options, console, stop)


def _resume(folder: Path, options: "Options") -> str:
    where = f" --scheduler {options.scheduler}" if options.scheduler else ""
    return f"wirelessdl sweep --resume {folder}{where}"


def _conclude(result: "Result", options: "Options", console: Console, stop: Stopper) -> None:
    total, finished = sum(result.counts.values()), result.counts.get("finished", 0)
    if result.complete:
        took = f", {_time(result.wall_s)}" if result.wall_s else ", all finished before"
        console.print(f"{total} runs in {result.path}{took}; index in {result.path}/index.parquet", soft_wrap=True)
        return
    again = _resume(result.path, options)
    if result.stopped:
        stop.end(f"stopped; {finished} of {total} runs are finished; go on with: {again}")
    for name, error in result.errors.items():
        click.echo(f"{name}: {error}", err=True)
    click.echo(f"{len(result.errors)} of {total} runs failed; the others are kept; try again with: {again}", err=True)
    sys.exit(1)


# --- looking


def _print_status(folder: Path, console: Console, as_json: bool) -> None:
    from wirelessdl.study.folder import study_status

    status = study_status(folder)
    if as_json:
        echo_json(status.facts(), indent=None)
        return
    counts = ", ".join(f"{count} {name}" for name, count in status.counts().items())
    state = "running" if status.active else "complete" if set(status.counts()) <= {"finished"} else "not running"
    console.print(f"[bold]{escape(quote(status.name))}[/]  {state}: {len(status.runs)} runs, {counts}", soft_wrap=True)
    for run in status.with_status("failed"):
        console.print(f"{run.planned.folder_name}: {quote(run.error, 1000)}", soft_wrap=True, markup=False)
    if not status.active and state != "complete":
        console.print(f"go on with: wirelessdl sweep --resume {folder}", soft_wrap=True, markup=False)


def _dry_run(plan: "Plan", options: "Options", console: Console, as_json: bool) -> None:
    from wirelessdl.cli.sweep_progress import study_listener
    from wirelessdl.study.engine import estimate

    with stopper_installed() as stop:
        try:
            with (
                study_listener(console, as_json=as_json) as listener,
                options.open(len(plan), plan.threads) as cluster,
            ):
                found = estimate(plan, cluster, listener, stop.asked)
        except KeyboardInterrupt:
            stop.end("stopped; nothing was written")
    if as_json:
        cells = [{key: getattr(cell, key) for key in ("cell", "name", "baseline", "values")} for cell in plan.cells]
        figures = {key: getattr(found, key) for key in ("total_s", "total_bytes", "jobs")}
        planned = {"cells": cells, "seeds": list(plan.seeds), "runs": list(plan.runs)}
        emit({"event": "estimate", **planned, **figures, "threads": plan.threads})
        return
    _print_estimate(plan, found, console)


def _print_estimate(plan: "Plan", found: "Estimate", console: Console) -> None:
    from wirelessdl.memory import format_size
    from wirelessdl.study.study_file import plain_text

    table = plain_table(("cell",), left=("cell",), no_wrap=True)
    table.add_column("name")
    for key in plan.varied:
        table.add_column(escape(key), justify="right", overflow="fold")
    for name in ("time of a run", "disk"):
        table.add_column(name, justify="right")
    for cell in plan.cells:
        values = (plain_text(cell.values[key]) if key in cell.values else "" for key in plan.varied)
        figures = (_time(found.run_s[cell.cell]), format_size(math.ceil(found.run_bytes[cell.cell])))
        table.add_row(cell.cell, escape(cell.name or ""), *(escape(quote(value, 40)) for value in values), *figures)
    console.print(table)
    seeds, runs = counted(len(plan.seeds), "seed"), counted(len(plan.runs), "run")
    console.print(
        f"{len(plan.cells)} cells x {seeds} x {runs}: {len(plan)} runs, about {_time(found.total_s)} with "
        f"{counted(found.jobs, 'job')} of {counted(plan.threads, 'thread')}, "
        f"{format_size(math.ceil(found.total_bytes))} on disk",
        soft_wrap=True,
    )
    console.print(f"estimated from {found.rounds} rounds in each of {found.tried} cells; nothing was written")


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
