"""Progress of `wirelessdl run` (a bar, plain lines, JSON lines or nothing), and stopping by signals."""

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self, TextIO

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.status import Status
from rich.table import Column
from rich.text import Text

from wirelessdl.errors import WirelessdlError

if TYPE_CHECKING:
    from wirelessdl.round.records import Progress as Evaluation


class Stopper:
    """Turns the first Ctrl-C, SIGTERM or SIGHUP into a wish, the second into the end; lost output is a wish, too."""

    def __init__(self) -> None:
        self.signal = 0
        self.lost: OSError | None = None
        self._terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]

    def asked(self) -> bool:
        return self.signal != 0 or self.lost is not None

    def lose(self, error: OSError) -> None:
        """Standard output takes nothing any more."""
        self.lost = error
        leave(1)

    def end(self, message: str) -> NoReturn:
        """Leave after a stop. message: what is kept, and how to go on."""
        lost = self.lost
        if lost is not None and not self.signal and not isinstance(lost, BrokenPipeError):
            raise OutputError(f"standard output: {lost.strerror}; {message}")
        click.echo(message, err=True)
        sys.exit(128 + (self.signal or (signal.SIGINT if lost is None else signal.SIGPIPE)))

    def hear(self, number: int, _: object) -> None:
        if number == signal.SIGHUP:  # what would be printed there must not fail on the way to the checkpoint
            leave(*self._terminals)
        if self.signal:
            os._exit(128 + number)  # what is on disk is whole at every instant
        self.signal = number


class OutputError(WirelessdlError):
    """Standard output that cannot be written to."""


class _Output:
    """A text stream whose first failure is a wish to stop, and no error. Behaves like the stream in all else."""

    def __init__(self, stream: TextIO, stopper: Stopper):
        self._stream, self._stopper = stream, stopper

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._stopper.lose(error)
            return 0

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._stopper.lose(error)


def leave(*descriptors: int) -> None:
    """Send nowhere what is, or will be, written there."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


@contextmanager
def stopper_installed() -> Iterator[Stopper]:
    stopper = Stopper()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup asks to go on without a terminal
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stopper.hear) for number in numbers}
    try:
        with nullcontext() if sys.stdout is None else redirect_stdout(_Output(sys.stdout, stopper)):
            yield stopper
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_SILENT_S = 10.0  # at most between two plain lines
_WIDE = 120  # columns that a line of progress takes with its adversary


@dataclass(frozen=True)
class RunListener:
    """Functions that a run calls after rounds, after evaluations and at its end; by default they do nothing."""

    on_round: Callable[[int], None] = lambda _: None
    on_evaluation: Callable[["Evaluation"], None] = lambda _: None
    close: Callable[[], None] = lambda: None


class PlainLines:
    """Lines on a console; once entered, also `doing` after ten seconds without one."""

    def __init__(self, console: Console, doing: str):
        self.console, self.doing, self._last = console, doing, time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _repeat(self) -> None:
        while not self._over.wait(max(0.0, self._last + _SILENT_S - time.monotonic())):
            if time.monotonic() >= self._last + _SILENT_S:
                self.say(self.doing)

    def say(self, line: str) -> None:
        self._last = time.monotonic()
        self.console.print(line, soft_wrap=not self.console.is_terminal)


class _Rate(ProgressColumn):
    """Rounds per second, over the last half minute or so."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.3g} rounds/s", style="dim")


@contextmanager
def run_listener(console: Console, *, done: int, rounds: int, as_json: bool) -> Iterator[RunListener]:
    if as_json:
        out = sys.stdout  # wherever what the user's code prints is sent meanwhile
        yield RunListener(on_evaluation=lambda found: emit({"event": "evaluation", **asdict(found)}, out))
    elif console.quiet:
        yield RunListener()
    elif not console.is_terminal:
        with PlainLines(console, "starting: torch, data, plan") as lines:
            yield RunListener(
                lambda round: setattr(lines, "doing", f"round {round}/{rounds}"),
                lambda found: lines.say(f"round {found.round}/{found.rounds}  {_figures(found)}"),
            )
    else:
        columns = (
            SpinnerColumn(finished_text=""),
            BarColumn(bar_width=12 if console.width >= _WIDE else 8),  # the figures matter more
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            _Rate(),
            TimeRemainingColumn(compact=True),
        )
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("", total=rounds, completed=done, figures="starting: torch, data, plan")
            shown = [""]  # figures of the last evaluation

            def on_evaluation(found: "Evaluation") -> None:
                shown[0] = _figures(found, whom=console.width >= _WIDE)
                bar.update(task, figures=shown[0])

            yield RunListener(
                lambda round: bar.update(task, completed=round, figures=shown[0]),
                on_evaluation,
                bar.stop,
            )


def _figures(found: "Evaluation", *, whom: bool = True) -> str:
    from wirelessdl.privacy.terms import adversary_in_short

    total = found.epsilon_total
    epsilon = f"<= {found.epsilon_bound:.3g}" if math.isnan(total) else f"{total:.3g}"
    against = adversary_in_short(found.coalition, declared=found.declared)
    figures = f"accuracy {found.accuracy_mean:.1%}, epsilon {epsilon}"
    if not whom:  # the headline names them, and what seconds these are is in the summary
        return f"{figures}, {found.time_s:.2f} s"
    return f"{figures} against {against}, {found.time_s:.2f} s simulated"


def starting() -> Status:
    """What moves on a terminal until a command has what it prints."""
    return Console(stderr=True).status("starting: torch, data, plan")


@contextmanager
def frames_bar(frames: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar for work that goes frame by frame; elsewhere a line each ten seconds."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        yield lambda _: None
        return
    if not console.is_terminal:
        with PlainLines(console, f"0 of {frames}") as lines:
            yield lambda frame: setattr(lines, "doing", f"{frame} of {frames}")
        return
    with Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", total=frames)
        yield lambda frame: bar.update(task, completed=frame)


def emit(content: dict[str, Any], out: TextIO | None = None) -> None:
    """One JSON object on a line of its own, at once."""
    from wirelessdl.trace.files import figures_text

    click.echo(figures_text(content), file=out)
