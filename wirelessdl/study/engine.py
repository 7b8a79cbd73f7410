"""The driver of a study: check every cell, write the manifest, send runs to workers, keep the index.

The driver holds no results. It may be killed at any time: what is on disk says how far every run is, and the study
goes on from there.
"""

import contextlib
import time
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from wirelessdl.errors import StudyError, shown
from wirelessdl.run.resume import ONLY_TRACED
from wirelessdl.study.cells import Cell
from wirelessdl.study.cluster import Cluster
from wirelessdl.study.plan import Plan, make_folder, remove_left, require_free, write_plan
from wirelessdl.study.task import Checked, Job, Outcome, RunTask, check, run_or_resume
from wirelessdl.trace.files import RunLock, leaves, plain, read_regular
from wirelessdl.trace.provenance import versions
from wirelessdl.trace.study import SCENARIO, STOP, PlannedRun, Row, figures_of, status_of, write_index

_WRITE_S = 2.0  # between two indexes
_PATIENCE_S = 60.0  # for a summary that a shared file system shows late
_ATTEMPTS = 2
# what a resumed run may change; in a study's run it may differ, unless the study varies it
_MAY_DIFFER = ("scenario.rounds", *ONLY_TRACED)


class Listener:
    """Hears how a study goes on; says nothing."""

    def checking(self, done: int, total: int) -> None: ...

    def started(self, study: Path, plan: Plan, rows: Mapping[str, Row], workers: int) -> None: ...

    def waiting(self) -> None:
        """There is no worker."""

    def note(self, text: str) -> None:
        """Something that the user may want to change."""

    def progress(self, said: Mapping[str, Any]) -> None:
        """A run told of a round; called from another thread."""

    def over(self, row: Row) -> None:
        """A run is finished, interrupted or failed."""

    def again(self, row: Row) -> None:
        """A run failed and is tried once more."""

    def stopping(self, running: int) -> None: ...

    def tick(self) -> None:
        """A moment has passed."""


@dataclass(frozen=True)
class Result:
    """How a study ended. stopped: it was asked to."""

    path: Path
    counts: dict[str, int]
    errors: dict[str, str] = field(default_factory=dict)
    stopped: bool = False
    wall_s: float = 0.0

    @property
    def complete(self) -> bool:
        return set(self.counts) <= {"finished"}


def job_of(plan: Plan, cell: Cell, seed: int, run: int) -> Job:
    scenario = plan.scenario(cell, seed, run)
    return Job(
        scenario.to_table(), scenario.origin, plan.base.folder, plan.cwd, plan.threads, plan.device, plan.parcels
    )


def never() -> bool:
    return False


def check_cells(
    plan: Plan, cluster: Cluster, listener: Listener, should_stop: Callable[[], bool], cells: Iterable[Cell]
) -> dict[str, str]:
    """Build every cell with every seed on the workers; raises for the first that cannot be. Returns user files."""
    waiting = deque((cell, seed) for cell in cells for seed in plan.seeds)
    asked: dict[str, Cell] = {}
    total, found = len(waiting), {}
    broken: dict[str, StudyError] = {}
    while waiting or cluster.flying:
        if should_stop():
            cluster.drop_all()
            raise KeyboardInterrupt
        while waiting and not broken and cluster.has_room():
            cell, seed = waiting.popleft()
            key = f"check-{cell.cell}-{seed}"
            asked[key] = cell
            cluster.submit(key, check, job_of(plan, cell, seed, plan.runs[0]))
        for done in cluster.finished():
            cell = asked.pop(done.key)
            problem = _problem(cell, done.value, done.error)
            if problem is not None:
                broken[cell.cell] = problem
                waiting.clear()
            else:
                found.update(done.value.user_files)
            listener.checking(total - len(waiting) - cluster.flying, total)
        if not cluster.workers():
            listener.waiting()
        listener.tick()
    for name in sorted(broken):  # the first in order, whichever came first
        raise broken[name]
    return found


def _problem(cell: Cell, checked: Checked | None, error: str | None) -> StudyError | None:
    if checked is None:
        return StudyError(f"cell {cell.title} cannot be built: {error}")
    if checked.error:
        remedy = "; --no-local leaves this baseline out" if cell.baseline == "local" else ""
        return StudyError(f"{checked.error.partition(': ')[2]}{remedy}")
    here = versions()
    if checked.versions != here:
        return StudyError(
            f"a worker has other versions than this process: {_first_difference(checked.versions, here)}; install the "
            "same on both"
        )
    return None


def _first_difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    one, other = ({"wirelessdl": v["wirelessdl"], **v["packages"]} for v in (there, here))
    key = next(key for key in sorted({*one, *other}) if one.get(key) != other.get(key))
    return f"{key} is {one.get(key)} there, {other.get(key)} here"


def start_study(
    folder: Path, plan: Plan, cluster: Cluster, listener: Listener, should_stop: Callable[[], bool] = never
) -> Result:
    """A new study in a new directory."""
    require_free(folder, plan)
    user_files = check_cells(plan, cluster, listener, should_stop, plan.cells)
    make_folder(folder)
    with RunLock(folder):
        require_free(folder, plan)  # the checks take seconds, in which another study may have begun there
        write_plan(folder, plan, user_files)
        return _run(folder, plan, cluster, listener, should_stop, force=False)


def unfinished(folder: Path, plan: Plan) -> list[PlannedRun]:
    """Runs that are left to do."""
    return [planned for planned in plan.planned() if status_of(folder, planned)[0] != "finished"]


def resume_study(
    folder: Path,
    plan: Plan,
    manifest: Mapping[str, Any],
    cluster: Cluster,
    listener: Listener,
    should_stop: Callable[[], bool] = never,
    *,
    force: bool = False,
) -> Result:
    """Go on with a study: runs that are finished stay, others continue within, failed ones are tried again."""
    left = {planned.cell for planned in unfinished(folder, plan)}
    files = check_cells(plan, cluster, listener, should_stop, [cell for cell in plan.cells if cell.cell in left])
    kept = manifest.get("user_files", {})
    for name in sorted(files):
        if kept.get(name) != files[name]:
            raise StudyError(
                f"{shown(folder)}: cannot go on: {shown(name)} was changed since; restore it, or start a new study"
            )
    with RunLock(folder):
        return _run(folder, plan, cluster, listener, should_stop, force=force)


def settle_study(folder: Path, plan: Plan) -> Result:
    """A study whose driver may have been killed after the last run: its index, as the runs are."""
    with RunLock(folder):
        remove_left(folder)
        rows = list(map(_rows_of_finished(folder, plan), plan.planned()))
        write_index(folder, plan.varied, rows)
    return _result(folder, rows)


def _rows_of_finished(folder: Path, plan: Plan) -> Callable[[PlannedRun], Row]:
    """Gives the row of a finished run: failed where the run in its folder is not the one that the plan has there."""
    cells = {cell.cell: cell for cell in plan.cells}

    @cache
    def planned_values(cell: str) -> dict[str, Any]:
        return _compared(plan.scenario(cells[cell], plan.seeds[0], plan.runs[0]).to_table(), plan.varied)

    def row(planned: PlannedRun) -> Row:
        try:
            table = tomllib.loads(read_regular(folder / planned.path / SCENARIO).decode())
            stored = _compared(table, plan.varied)
        except (OSError, ValueError, RecursionError) as error:
            return Row(planned, "failed", f"{SCENARIO} cannot be read: {shown(error)}")
        wanted = {**planned_values(planned.cell), "scenario.seed": planned.seed, "scenario.run": planned.run}
        for key, value in wanted.items():
            if key in stored and stored[key] != value:
                said = f"{key} is {shown(stored[key], 40)}, {shown(value, 40)} in this one"
                return Row(planned, "failed", f"is a run of another study: {said}; move it away to have it run")
        return Row(planned, "finished", None, figures_of(folder, planned))

    return row


def _compared(table: Mapping[str, Any], varied: Iterable[str]) -> dict[str, Any]:
    """Values by key in which a run must be its cell: keys that are no part, which a run spells out; and what varies."""
    return {
        key: value
        for key, value in leaves(plain(table))
        if any(f"{one}.".startswith(f"{key}.") for one in varied)
        or (key.count(".") == 1 and not isinstance(value, list) and not key.startswith(_MAY_DIFFER))
    }


def _result(folder: Path, rows: Iterable[Row], *, stopped: bool = False, wall_s: float = 0.0) -> Result:
    counts: dict[str, int] = {}
    errors: dict[str, str] = {}
    for row in rows:
        counts[row.status] = counts.get(row.status, 0) + 1
        if row.status == "failed":
            errors[row.planned.folder_name] = row.error or ""
    return Result(folder, counts, errors, stopped, wall_s)


def _run(
    folder: Path, plan: Plan, cluster: Cluster, listener: Listener, should_stop: Callable[[], bool], *, force: bool
) -> Result:
    """Bring a study to its end; its lock is held."""
    remove_left(folder)
    with contextlib.suppress(OSError):
        (folder / STOP).unlink(missing_ok=True)
    driver = _Driver(folder, plan, cluster, listener, force)
    try:
        return driver.run(should_stop)
    finally:
        driver.write(last=True)


class _Driver:
    """Rows of the index, runs to be started, runs in flight."""

    def __init__(self, folder: Path, plan: Plan, cluster: Cluster, listener: Listener, force: bool):
        self._folder, self._plan, self._cluster, self._listener = folder.resolve(), plan, cluster, listener
        self._force, self._path = force, folder
        self._cells = {cell.cell: cell for cell in plan.cells}
        finished = _rows_of_finished(self._folder, plan)
        self._rows: dict[str, Row] = {}
        self._waiting: deque[str] = deque()
        for planned in plan.planned():
            status, error = status_of(self._folder, planned)
            ended = status == "finished"
            row = finished(planned) if ended else Row(planned, status, error)
            self._rows[planned.folder_name] = row
            if not ended:
                self._waiting.append(planned.folder_name)
        self._attempts = dict.fromkeys(self._waiting, 0)
        self._flying: set[str] = set()
        self._unread: dict[str, float] = {}  # finished, but their summaries are not visible yet
        self._stopping, self._written_at, self._dirty = False, 0.0, True

    def run(self, should_stop: Callable[[], bool]) -> Result:
        started = time.perf_counter()
        self.write(last=True)
        self._listener.started(self._path, self._plan, self._rows, self._cluster.workers())
        crowded = self._cluster.crowded_workers()
        if crowded:
            self._listener.note(
                f"{crowded} workers have several threads, of which one is used: start with --nthreads 1"
            )
        self._cluster.listen(self._listener.progress)
        try:
            self._loop(should_stop)
        except KeyboardInterrupt:
            self._stop()
            self._loop(should_stop)
            raise
        finally:
            if self._stopping:
                with contextlib.suppress(OSError):
                    (self._folder / STOP).unlink(missing_ok=True)
        self.write(last=True)
        wall_s = time.perf_counter() - started
        return _result(self._path, self._rows.values(), stopped=self._stopping, wall_s=wall_s)

    def _loop(self, should_stop: Callable[[], bool]) -> None:
        while (self._waiting and not self._stopping) or self._flying or self._unread:
            if should_stop() or (self._folder / STOP).exists():
                self._stop()
            while self._waiting and not self._stopping and self._cluster.has_room():
                self._start(self._waiting.popleft())
            for done in self._cluster.finished():
                name = done.key.partition(".")[0]
                self._flying.discard(name)
                if done.final:
                    self._attempts[name] = _ATTEMPTS
                self._over(name, done.value or Outcome("failed", done.error))
            self._read_late()
            if not self._cluster.workers():
                self._listener.waiting()
                if self._stopping:
                    self._cluster.drop_all()
                    self._flying.clear()
            self.write()
            self._listener.tick()

    def _stop(self) -> None:
        """Let runs stop after their round; the file reaches workers wherever they are."""
        if not self._stopping:
            self._stopping = True
            with contextlib.suppress(OSError):
                (self._folder / STOP).touch()
            self._listener.stopping(len(self._flying))

    def _start(self, name: str) -> None:
        planned = self._rows[name].planned
        self._attempts[name] += 1
        self._flying.add(name)
        job = job_of(self._plan, self._cells[planned.cell], planned.seed, planned.run)
        task = RunTask(job, str(self._folder), name, self._force, self._cluster.topic)
        self._cluster.submit(f"{name}.{self._attempts[name]}", run_or_resume, task)

    def _over(self, name: str, outcome: Outcome) -> None:
        row, self._dirty = self._rows[name], True
        if outcome.status == "finished":
            row.status, row.error = "finished", None
            self._unread[name] = time.monotonic() + _PATIENCE_S
            return
        if outcome.status == "failed":
            row.status, row.error = "failed", outcome.error
            if self._attempts[name] < _ATTEMPTS and not self._stopping:
                self._waiting.append(name)
                self._listener.again(row)
                return
        else:
            row.status, row.error = status_of(self._folder, row.planned)
            if not self._stopping:  # its worker left; another goes on with it
                self._attempts[name] -= 1
                self._waiting.append(name)
                return
        self._listener.over(row)

    def _read_late(self) -> None:
        """Figures of finished runs, as soon as they can be seen from here."""
        for name, deadline in list(self._unread.items()):
            row = self._rows[name]
            row.figures = figures_of(self._folder, row.planned)
            if not row.figures and time.monotonic() > deadline:
                row.status, row.error = "failed", "finished, but its summary cannot be read from here"
            if row.figures or row.status == "failed":
                del self._unread[name]
                self._listener.over(row)

    def write(self, *, last: bool = False) -> None:
        """Replace the index, if there is news and the last one is old enough."""
        now = time.monotonic()
        if not last and now - self._written_at < _WRITE_S:
            return
        for name in self._flying:
            row = self._rows[name]
            found, error = status_of(self._folder, row.planned)
            if found not in (row.status, "finished"):  # finished is what its task says
                row.status, row.error, self._dirty = found, error, True
        if self._dirty:
            write_index(self._path, self._plan.varied, self._rows.values())
            self._dirty = False
        self._written_at = now
