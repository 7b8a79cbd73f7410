"""Progress of `wirelessdl sweep`: bars on a terminal, else a line per run, or JSON lines."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from wirelessdl.cli.options import counted
from wirelessdl.cli.progress import emit
from wirelessdl.errors import quote
from wirelessdl.study.engine import Listener
from wirelessdl.study.study_file import plain_text

if TYPE_CHECKING:
    from wirelessdl.study.plan import Plan
    from wirelessdl.trace.study import PlannedRun, Row

_MAX_BARS = 12


class _Lines(Listener):
    """One line for every run that is over."""

    def __init__(self, console: Console):
        self.console = console
        self._done = self._total = 0
        self._waiting_announced = False

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)

    def started(self, study: Path, plan: "Plan", rows: Mapping[str, "Row"], workers: int) -> None:
        self._total = len(rows)
        self._done = sum(row.status == "finished" for row in rows.values())
        kept = f", {self._done} of them finished before" if self._done else ""
        self.say(
            f"[bold]{escape(plan.name)}[/]  {len(plan.cells)} cells, {len(rows)} runs{kept}, in {escape(str(study))}; "
            f"{counted(workers, 'worker')} of {counted(plan.threads, 'thread')}"
        )

    def waiting(self) -> None:
        if not self._waiting_announced:
            self._waiting_announced = True
            self.say("the scheduler has no workers; waiting for one")

    def over(self, row: "Row") -> None:
        if row.status == "finished":
            self._done += 1
            self.say(f"{self._done:{len(str(self._total))}}/{self._total}  {title(row.planned)}  {_figures(row)}")
        elif row.status == "failed":
            self.say(f"[red]failed[/]  {title(row.planned)}  {escape(quote(row.error, 1000))}")

    def retrying(self, row: "Row") -> None:
        self.say(f"[yellow]failed, is tried again[/]  {title(row.planned)}  {escape(quote(row.error, 1000))}")

    def stopping(self, running: int) -> None:
        self.say(f"stopping: {counted(running, 'run')} will stop after the current round")


class _Bars(_Lines):
    """A bar for the study, and one for each run in progress."""

    def __init__(self, console: Console, bars: Progress):
        super().__init__(console)
        self._bars, self._lock = bars, threading.Lock()
        self._whole = bars.add_task("starting workers", total=None, figures="")
        self._tasks: dict[str, Any] = {}
        self._titles: dict[str, str] = {}

    def checking(self, done: int, total: int) -> None:
        self._bars.update(self._whole, description="checking cells", total=total, completed=done)

    def started(self, study: Path, plan: "Plan", rows: Mapping[str, "Row"], workers: int) -> None:
        super().started(study, plan, rows, workers)
        self._titles = {name: title(row.planned) for name, row in rows.items()}
        self._bars.reset(self._whole, description="runs", total=len(rows), completed=self._done)

    def progress(self, said: Mapping[str, Any]) -> None:
        name = str(said["run"])
        with self._lock:
            if name not in self._titles:
                return
            if name not in self._tasks:
                if len(self._tasks) >= _MAX_BARS:
                    return
                self._tasks[name] = self._bars.add_task(self._titles[name], total=said["rounds"], figures="")
            accuracy = said.get("accuracy")
            figures = "" if accuracy is None else f"accuracy {accuracy:.1%}"
            self._bars.update(self._tasks[name], completed=said["round"], figures=figures)

    def over(self, row: "Row") -> None:
        super().over(row)
        with self._lock:
            name = row.planned.folder_name
            self._titles.pop(name, None)  # a late message must not bring the bar back
            if name in self._tasks:
                self._bars.remove_task(self._tasks.pop(name))
        self._bars.update(self._whole, completed=self._done)


class _JsonLines(Listener):
    def over(self, row: "Row") -> None:
        planned = row.planned
        facts = {key: getattr(planned, key) for key in ("path", "cell", "name", "values", "seed", "run")}
        figures = {key: row.figures.get(key) for key in ("accuracy_mean", "epsilon_total", "wall_s")}
        emit({"event": row.status, **facts, "error": row.error, **figures})


@contextmanager
def study_listener(console: Console, *, as_json: bool) -> Iterator[Listener]:
    if as_json:
        yield _JsonLines()
    elif console.quiet:
        yield Listener()
    elif not console.is_terminal:
        yield _Lines(console)
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
        )
        with Progress(*columns, console=console, transient=True) as bars:
            yield _Bars(console, bars)


def title(planned: "PlannedRun") -> str:
    """A run by its directory and what distinguishes it."""
    words = [f"{key.rpartition('.')[2]}={plain_text(value)}" for key, value in planned.values.items()]
    name = [planned.name] if planned.name else []
    return escape(quote(" ".join([planned.folder_name, *name, *words]), 100))


def _figures(row: "Row") -> str:
    accuracy, epsilon = row.figures.get("accuracy_mean"), row.figures.get("epsilon_total")
    words = [] if accuracy is None else [f"accuracy {accuracy:.1%}"]
    words += [] if epsilon is None else [f"epsilon {epsilon:.3g} ({row.figures.get('adjacency', 'replace-one')})"]
    return ", ".join([*words, f"{row.figures.get('wall_s', 0):.1f} s"])
