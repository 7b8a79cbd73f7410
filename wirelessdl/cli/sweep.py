"""`wirelessdl sweep`, and the progress of a study."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from wirelessdl.cli.list import list_runs
from wirelessdl.cli.options import (
    PATH,
    complete_baseline,
    complete_key,
    complete_scenario,
    counted,
    set_option,
    warn_of_user_code,
)
from wirelessdl.cli.progress import PlainLines, Stopper, emit, stopper_installed
from wirelessdl.errors import quote
from wirelessdl.study import Listener

if TYPE_CHECKING:
    from wirelessdl.study.engine import Options, Result
    from wirelessdl.study.plan import Plan
    from wirelessdl.trace.study import PlannedRun, Row


@click.command(
    epilog="Example: wirelessdl sweep quickstart --vary privacy.epsilon_max=0.5,1,inf --seeds 3 --jobs 2 "
    "--out outputs/tradeoff"
)
@click.argument("scenario", required=False, shell_complete=complete_scenario)
@click.option(
    "--vary",
    multiple=True,
    metavar="SECTION.KEY=V1,V2,...",
    shell_complete=complete_key,
    help="Run with each of these values; repeatable: all combinations are run.",
)
@set_option
@click.option("--seeds", type=int, help="Seeds per cell, counted from the scenario's own (default 1).")
@click.option("--runs", type=int, help="Run numbers per seed, counted from the scenario's own (default 1).")
@click.option("--rounds", type=int, help="Number of rounds.")
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_baseline,
    help="Add a baseline by name; repeatable.",
)
@click.option("--no-local", is_flag=True, help="Leave out the baseline local, which private studies have by default.")
@click.option("--out", type=PATH, help="Directory of the study (default: outputs/<name>).")
@click.option("--jobs", type=int, help="Runs at a time, in processes of this machine (default: one per core).")
@click.option("--threads", type=int, help="Threads of each run (default: cores / jobs).")
@click.option("--scheduler", metavar="ADDRESS", help="Use the workers of this Dask scheduler, e.g. tcp://host:8786.")
@click.option("--device", default="auto", help="Torch device: auto, cpu, cuda, cuda:N or mps.")
@click.option("--resume", "resumed", type=PATH, metavar="DIR", help="Continue this study.")
@click.option("--status", type=PATH, metavar="DIR", help="Print the progress of this study, as `wirelessdl list DIR`.")
@click.option("--force", is_flag=True, help="With --resume: allow other versions of packages.")
@click.option("--dry-run", is_flag=True, help="Check and print all cells; run nothing.")
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
    status: Path | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **execution: Any,
) -> None:
    """Run SCENARIO with every combination of varied values, seeds and run numbers; write all runs and an index.

    SCENARIO is a scenario (file or bundled name) or a study file, a TOML file with a table [study]. Ctrl-C stops the
    runs after their current round; --resume continues them. Exits with 1 if runs failed; the others are not affected.
    """
    if status is not None and scenario is None and resumed is None:
        list_runs(status, as_json)
        return
    if status is not None or (scenario is None) == (resumed is None):
        one = scenario or resumed or status
        words = "SCENARIO, --resume and --status exclude each other" if one else "name a SCENARIO or a study file"
        raise click.UsageError(f"{words}; or a study to --resume")
    if execution["force"] and resumed is None:
        raise click.UsageError("--force goes with --resume")
    asked = vary or overrides or baselines or no_local or any(v is not None for v in (seeds, runs, rounds, out))
    if asked and scenario is None:
        raise click.UsageError("a study goes on as it was: only --jobs, --scheduler and --force go with --resume")
    console = Console(quiet=quiet or as_json, highlight=False)
    from wirelessdl.study.engine import Options, plan_of
    from wirelessdl.study.plan import spec_of

    options = Options(**execution)
    if resumed is not None:
        if dry_run:
            raise click.UsageError("--dry-run goes with a SCENARIO; --status DIR shows what is left of a study")
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
    from wirelessdl.study.cluster import SchedulerLost
    from wirelessdl.study.engine import resume_in, start_in

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


def _dry_run(plan: "Plan", options: "Options", console: Console, as_json: bool) -> None:
    from wirelessdl.study.engine import check_cells

    with stopper_installed() as stop:
        try:
            with (
                study_listener(console, as_json=as_json) as listener,
                options.open(len(plan), plan.threads) as cluster,
            ):
                check_cells(plan, cluster, listener, stop.asked, plan.cells)
        except KeyboardInterrupt:
            stop.end("stopped; nothing was written")
    if as_json:
        cells = [{key: getattr(cell, key) for key in ("cell", "name", "baseline", "values")} for cell in plan.cells]
        emit({"event": "plan", "cells": cells, "seeds": list(plan.seeds), "runs": list(plan.runs)})
        return
    for cell in plan.cells:
        console.print(escape(cell.title), soft_wrap=True)
    seeds, runs = counted(len(plan.seeds), "seed"), counted(len(plan.runs), "run")
    console.print(f"{len(plan.cells)} cells x {seeds} x {runs}: {len(plan)} runs; nothing was written", soft_wrap=True)


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


# --- progress: a bar on a terminal, else a line per run, or JSON lines


class _StepLines(PlainLines, Listener):
    """One line for every run that is over."""

    def __init__(self, console: Console):
        super().__init__(console, "starting workers")
        self._done = self._total = 0
        self._waiting_announced = False

    def checking(self, done: int, total: int) -> None:
        self.doing = f"checking cells {done}/{total}"

    def started(self, study: Path, plan: "Plan", rows: Mapping[str, "Row"], workers: int) -> None:
        self._total = len(rows)
        self._done = sum(row.status == "finished" for row in rows.values())
        kept = f", {self._done} of them finished before" if self._done else ""
        self.say(
            f"[bold]{escape(plan.name)}[/]  {len(plan.cells)} cells, {len(rows)} runs{kept}, in {escape(str(study))}; "
            f"{counted(workers, 'worker')} of {counted(plan.threads, 'thread')}"
        )
        self.doing = f"runs {self._done}/{self._total}"

    def waiting(self) -> None:
        if not self._waiting_announced:
            self._waiting_announced = True
            self.say("the scheduler has no workers; waiting for one")

    def over(self, row: "Row") -> None:
        if row.status == "finished":
            self._done += 1
            self.doing = f"runs {self._done}/{self._total}"
            self.say(f"{self._done:{len(str(self._total))}}/{self._total}  {title(row.planned)}  {_figures(row)}")
        elif row.status == "failed":
            self.say(f"[red]failed[/]  {title(row.planned)}  {escape(quote(row.error, 1000))}")

    def retrying(self, row: "Row") -> None:
        self.say(f"[yellow]failed, is tried again[/]  {title(row.planned)}  {escape(quote(row.error, 1000))}")

    def stopping(self, running: int) -> None:
        self.say(f"stopping: {counted(running, 'run')} will stop after the current round")


class _Bar(_StepLines):
    """The same under a bar for the study."""

    def __init__(self, console: Console, bars: Progress):
        super().__init__(console)
        self._bars, self._whole = bars, bars.add_task("starting workers", total=None)

    def checking(self, done: int, total: int) -> None:
        self._bars.update(self._whole, description="checking cells", total=total, completed=done)

    def started(self, study: Path, plan: "Plan", rows: Mapping[str, "Row"], workers: int) -> None:
        super().started(study, plan, rows, workers)
        self._bars.reset(self._whole, description="runs", total=len(rows), completed=self._done)

    def over(self, row: "Row") -> None:
        super().over(row)
        self._bars.update(self._whole, completed=self._done)


class _JsonLines(Listener):
    def over(self, row: "Row") -> None:
        planned = row.planned
        facts = {key: getattr(planned, key) for key in ("path", "cell", "name", "values", "seed", "run")}
        figures = {key: row.figures.get(key) for key in ("accuracy_mean", "epsilon_total", "wall_s")}
        terms = ("epsilon_declared", "epsilon_status", "unit", "adjacency", "adversary")
        figures |= {key: row.figures[key] for key in terms if key in row.figures}
        emit({"event": row.status, **facts, "error": row.error, **figures})


@contextmanager
def study_listener(console: Console, *, as_json: bool) -> Iterator[Listener]:
    if as_json:
        yield _JsonLines()
    elif console.quiet:
        yield Listener()
    elif not console.is_terminal:
        with _StepLines(console) as lines:
            yield lines
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
        )
        with Progress(*columns, console=console, transient=True) as bars:
            yield _Bar(console, bars)


def title(planned: "PlannedRun") -> str:
    """A run by its directory and what distinguishes it."""
    from wirelessdl.study.study_file import plain_text

    words = [f"{key.rpartition('.')[2]}={plain_text(value)}" for key, value in planned.values.items()]
    name = [planned.name] if planned.name else []
    return escape(quote(" ".join([planned.folder_name, *name, *words]), 100))


def _figures(row: "Row") -> str:
    from wirelessdl.trace.catalog import headline

    accuracy, epsilon, known = row.figures.get("accuracy_mean"), headline(row.figures), row.figures
    words = [] if accuracy is None else [f"accuracy {accuracy:.1%}"]
    if epsilon is not None:
        terms = (str(known.get(key)) for key in ("adjacency", "epsilon_status", "adversary"))
        words.append(escape(quote("epsilon {:.3g} ({}), {}, against {}".format(float(epsilon), *terms), 300)))
    return ", ".join([*words, f"{row.figures.get('wall_s', 0):.1f} s"])
