"""Tasks of workers: check a cell, run or resume a directory.

Dask runs a task at least once: again where a worker died or was thought to have. A task is therefore "bring this run
directory to its end", under a lock of its own: whoever comes second waits, and finds the run finished. Nothing but a
few words and figures goes back: results are on disk.

A process runs one task at a time, however many threads its worker has: torch's threads and the working folder are the
process's.
"""

import contextlib
import os
import pickle
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from wirelessdl.contract import formatted
from wirelessdl.errors import RunInterrupted, StudyError, WirelessdlError, quote
from wirelessdl.memory import give_back
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.scenario.objects import UserPart
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.files import LockedError, RunLock, write_text
from wirelessdl.trace.provenance import versions
from wirelessdl.trace.study import MANIFEST, RUNS, STOP, PlannedRun, figures_of, task_lock

ERRORS = "errors"  # folder of tracebacks
_STOP_CHECK_S = 0.1  # between two looks at whether to stop
_one_task_at_a_time = threading.Lock()


@dataclass(frozen=True)
class CellJob:
    """A scenario with all it takes to run it in another process, or on another machine that shares the files.

    pickled_parts: parts that Python handed in, pickled by the process that has them.
    """

    table: dict[str, Any]
    origin: str
    home: str
    cwd: str
    threads: int
    device: str
    pickled_parts: tuple[bytes, ...] = ()

    def scenario(self) -> Scenario:
        """The scenario, checked."""
        handed_in: list[UserPart] = [pickle.loads(part) for part in self.pickled_parts]
        objects = {given.name: given for given in handed_in}
        return parse_scenario(self.table, origin=self.origin, folder=self.home, objects=objects)


@dataclass(frozen=True)
class RunTask:
    """One run directory to bring to its end."""

    job: CellJob
    study: str
    planned: PlannedRun
    force: bool = False

    @property
    def name(self) -> str:
        return self.planned.folder_name


@dataclass(frozen=True)
class Outcome:
    """How a task ended: one word, and one line where it failed, or the figures of the run for the index.

    The figures are on disk, too, but a shared file system may show them late to the driver.
    """

    status: Literal["finished", "interrupted", "failed", "stopped"]
    error: str | None = None
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checked:
    """A cell that could be built, or why not; the user's files that it loads; versions of the worker."""

    error: str | None
    user_files: dict[str, str]
    versions: dict[str, Any]


@contextlib.contextmanager
def _in_working_folder(job: CellJob) -> Iterator[None]:
    """Alone in this process, in the folder where the study was asked for, with the study's number of threads.

    Code of the user's may end the program: that is an error like others, or Dask would take the worker for dead.
    """
    with _one_task_at_a_time:
        from wirelessdl.learning.runtime import use_threads

        try:
            before = os.getcwd()
        except OSError:  # it was removed
            before = "/"
        try:
            os.chdir(job.cwd)
        except OSError as error:
            raise StudyError(
                f"{quote(job.cwd)}: cannot be entered on {os.uname().nodename}: {error.strerror}; workers need the "
                "files of the machine that the study is started from"
            ) from None
        use_threads(job.threads)
        try:
            yield
        except SystemExit as error:
            said = formatted(error)
            raise StudyError(quote(f"code of the user's ended the program: {said}; leave that out", 1000)) from None
        finally:
            with contextlib.suppress(OSError):
                os.chdir(before)


def check(job: CellJob) -> Checked:
    """Whether a scenario can be built here."""
    try:
        with _in_working_folder(job):
            from wirelessdl.run.build import build

            world = build(job.scenario(), device=job.device)
            return Checked(None, {file.name: file.sha256 for file in world.user_files}, versions())
    except WirelessdlError as error:
        return Checked(_words(error), {}, versions())


def run_or_resume(task: RunTask) -> Outcome:
    """Bring a run to its end, from wherever it stands; never raises for what one run may do wrong."""
    study = Path(task.study)
    stop = _Stop(study)
    try:
        with _in_working_folder(task.job):
            if not (study / MANIFEST).is_file():
                raise StudyError(
                    f"{quote(study)}: is not there on {os.uname().nodename}; workers need the files of the machine "
                    "that the study is started from"
                )
            with _locked(study / RUNS, task.name, stop) as held:
                if not held:
                    return Outcome("stopped")
                _finish_run(task, study / RUNS / task.name, stop)
                return Outcome("finished", figures=figures_of(study, task.planned))
    except RunInterrupted:
        return Outcome("interrupted")
    except WirelessdlError as error:
        return Outcome("failed", _line(error))
    except Exception as error:
        return Outcome("failed", _traceback_file(study, task.name, error))
    finally:
        give_back()


def _finish_run(task: RunTask, folder: Path, stop: Callable[[], bool]) -> None:
    from wirelessdl.run.session import RunOptions, resume, simulate

    scenario, options = task.job.scenario(), RunOptions(task.job.device, should_stop=stop)
    if (folder / "scenario.toml").is_file():
        resume(folder, options, scenario=scenario, force=task.force)
        return
    for left in folder.parent.glob(f".{task.name}.*"):  # by a process that was killed while it made the folder
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
    run = simulate(scenario, options, out=folder.parent, name=task.name)
    if run.path.name != task.name:
        raise StudyError(f"{quote(folder)}: is in the way and no run; remove it, and resume the study")


@contextlib.contextmanager
def _locked(runs: Path, name: str, stop: Callable[[], bool]) -> Iterator[bool]:
    """The run's lock, however long another process holds it; False where the study was stopped before."""
    lock = None
    while lock is None and not stop():
        with contextlib.suppress(LockedError):
            lock = RunLock(runs, task_lock(name))
    try:
        yield lock is not None
    finally:
        if lock is not None:
            lock.release()


class _Stop:
    """Whether to stop: the study has a file named stop, or the scheduler of this worker is gone."""

    def __init__(self, study: Path):
        self._file, self._next, self._found = study / STOP, 0.0, False

    def __call__(self) -> bool:
        now = time.monotonic()
        if now >= self._next and not self._found:
            self._next = now + _STOP_CHECK_S
            self._found = self._file.exists() or _scheduler_lost()
        return self._found


def _scheduler_lost() -> bool:
    from distributed import Status, get_worker

    try:
        return get_worker().status not in (Status.running, Status.paused)
    except ValueError:  # not in a worker
        return False


def _words(error: BaseException) -> str:
    return quote(" ".join(str(error).split()), 1000)


def _line(error: BaseException) -> str:
    return quote(f"{type(error).__name__}: {_words(error)}", 1000)


def _traceback_file(study: Path, name: str, error: Exception) -> str:
    """One line on an error that no user caused; its traceback goes to a file."""
    with contextlib.suppress(WirelessdlError, OSError):
        (study / ERRORS).mkdir(exist_ok=True)
        write_text(study / ERRORS / f"{name}.txt", "".join(traceback.format_exception(error)))
    return f"{_line(error)} (traceback in {ERRORS}/{name}.txt)"
