"""Progress of `wirelessdl run` (a bar, plain lines, JSON lines or nothing), and stopping by signals."""

import errno
import math
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from wirelessdl.cli.output import going_on, lost_output, output_error, standard_output

if TYPE_CHECKING:
    from wirelessdl.round.records import Progress as Evaluation


class Stopper:
    """Turns the first Ctrl-C, SIGTERM or SIGHUP into a wish, the second into the end; lost output is a wish, too."""

    def __init__(self) -> None:
        self.signal = 0

    def asked(self) -> bool:
        return self.signal != 0 or lost_output() is not None

    def end(self, message: str) -> NoReturn:
        """Leave after a stop. message: what is kept, and how to go on."""
        lost = lost_output()
        if lost is not None and not self.signal and not isinstance(lost, BrokenPipeError):
            raise output_error(lost, then=message)
        click.echo(message, err=True)
        sys.exit(128 + (self.signal or (signal.SIGINT if lost is None else signal.SIGPIPE)))

    def hear(self, number: int, _: object) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        if self.signal:
            os._exit(128 + number)  # what is on disk is whole at every instant
        self.signal = number


def _leave_terminal() -> None:
    """The terminal is gone: what would be printed there must not fail on the way to the checkpoint."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        if os.isatty(descriptor) or _is_broken(descriptor):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _is_broken(descriptor: int) -> bool:
    """Whether a descriptor was a terminal that has hung up: it answers to nothing any more."""
    try:
        termios.tcgetattr(descriptor)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
    return False


@contextmanager
def stopper_installed() -> Iterator[Stopper]:
    stopper = Stopper()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup asks to go on without a terminal
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stopper.hear) for number in numbers}
    try:
        with going_on():
            yield stopper
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class RunListener:
    """Functions that a run calls after rounds, after evaluations and at its end; by default they do nothing."""

    on_round: Callable[[int], None] = lambda _: None
    on_evaluation: Callable[["Evaluation"], None] = lambda _: None
    close: Callable[[], None] = lambda: None


class _Rate(ProgressColumn):
    """Rounds per second, over the last half minute or so."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.3g} rounds/s", style="dim")


@contextmanager
def run_listener(console: Console, *, done: int, rounds: int, as_json: bool) -> Iterator[RunListener]:
    if as_json:
        yield RunListener(on_evaluation=lambda found: emit({"event": "evaluation", **asdict(found)}))
    elif console.quiet:
        yield RunListener()
    elif not console.is_terminal:
        yield RunListener(
            on_evaluation=lambda found: console.print(f"round {found.round}/{found.rounds}  {_figures(found)}")
        )
    else:
        columns = (
            BarColumn(bar_width=12),  # the figures matter more
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            _Rate(),
            TimeRemainingColumn(compact=True),
        )
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("", total=rounds, completed=done, figures="")
            yield RunListener(
                lambda round: bar.update(task, completed=round),
                lambda found: bar.update(task, figures=_figures(found)),
                bar.stop,
            )


def _figures(found: "Evaluation") -> str:
    from wirelessdl.privacy.terms import adversary_in_short

    total = found.epsilon_total
    epsilon = f"<= {found.epsilon_bound:.3g}" if math.isnan(total) else f"{total:.3g}"
    against = adversary_in_short(found.coalition, declared=found.declared)
    return f"accuracy {found.accuracy_mean:.1%}, epsilon {epsilon} against {against}  {found.time_s:.2f} s simulated"


@contextmanager
def frames_bar(frames: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar for work that goes frame by frame; only on a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    with Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", total=frames)
        yield lambda frame: bar.update(task, completed=frame)


def emit(content: dict[str, Any]) -> None:
    """One JSON object on a line of its own, at once."""
    from wirelessdl.trace.files import figures_text

    out = standard_output()
    if out is not None:
        out.write(figures_text(content) + "\n")
        out.flush()
