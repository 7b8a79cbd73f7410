"""The driver of a study: start or resume it, check cells, write the manifest, send runs to workers, keep the index.

The driver holds no results. It may be killed at any time: what is on disk says how far every run is, and the study
goes on from there.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wirelessdl.errors import StudyError, quote
from wirelessdl.scenario.objects import UserPart
from wirelessdl.study import Listener
from wirelessdl.study.cluster import DaskCluster, Done, cores, open_cluster
from wirelessdl.study.folder import (
    first_difference,
    make_folder,
    read_plan,
    refuse_changes,
    remove_left,
    require_free,
    write_plan,
)
from wirelessdl.study.plan import Cell, Plan, make_plan
from wirelessdl.study.study_file import StudySpec
from wirelessdl.study.task import CellJob, Outcome, RunTask, check, run_or_resume
from wirelessdl.trace.files import RunLock
from wirelessdl.trace.provenance import versions
from wirelessdl.trace.study import STOP, PlannedRun, Row, figures_of, interned, status_of, write_index

_INDEX_INTERVAL_S = 2.0  # between two indexes
_MAX_ATTEMPTS = 2


class Options:
    """Where and how to run: `jobs` processes of this machine or a scheduler's workers, threads of each run."""

    def __init__(
        self,
        jobs: int | None = None,
        scheduler: str | None = None,
        threads: int | None = None,
        device: str = "auto",
        force: bool = False,
    ):
        for name, value in (("jobs", jobs), ("threads", threads)):
            if value is not None and value < 1:
                raise StudyError(f"--{name} is {value}; must be >= 1")
        if jobs is not None and scheduler is not None:
            raise StudyError("--jobs and --scheduler exclude each other: a scheduler has workers of its own")
        self.scheduler, self.device, self.force, self._threads = scheduler, device, force, threads
        self._jobs = jobs

    def jobs(self, runs: int) -> int:
        """Processes for so many runs: one per core, unless the user said otherwise, and none without a run."""
        return max(1, min(self._jobs or cores(), runs))

    def threads(self, runs: int) -> int:
        """Threads of each run. Workers of a scheduler are expected to have one core each."""
        return self._threads or (1 if self.scheduler else max(1, cores() // self.jobs(runs)))

    def open(self, runs: int, threads: int) -> contextlib.AbstractContextManager[DaskCluster]:
        return open_cluster(jobs=self.jobs(runs), threads=threads, scheduler=self.scheduler)


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


def never() -> bool:
    return False


def plan_of(spec: StudySpec, options: Options, out: Path | None = None) -> Plan:
    """The plan, with the threads that the number of runs gives; called after its directory, if nothing else."""
    plan = make_plan(spec, device=options.device)
    name = plan.name if spec.table.name or out is None else quote(out.resolve().name, 100) or plan.name
    return replace(plan, threads=options.threads(len(plan)), name=name)


def start_in(
    folder: Path, plan: Plan, options: Options, listener: Listener, should_stop: Callable[[], bool] = never
) -> Result:
    """A new study; all that can be refused without a worker is refused first."""
    require_free(folder, plan)
    with options.open(len(plan), plan.threads) as cluster:
        return start_study(folder, plan, cluster, listener, should_stop)


def resume_in(
    folder: Path,
    options: Options,
    listener: Listener,
    should_stop: Callable[[], bool] = never,
    objects: Mapping[str, UserPart] | None = None,
) -> Result:
    """Go on with a study, with the threads that it began with; without workers where nothing is left to run.

    objects: that Python handed in, by the names that stand for them.
    """
    plan, manifest = read_plan(folder)
    plan.base._objects.update(objects or {})
    left = unfinished(folder, plan)
    if not left:
        return finish_study(folder, plan)
    refuse_changes(folder, plan, manifest, force=options.force)
    with options.open(len(left), plan.threads) as cluster:
        return resume_study(folder, plan, manifest, cluster, listener, should_stop, force=options.force)


def job_of(plan: Plan, cell: Cell, seed: int, run: int) -> CellJob:
    scenario = plan.scenario(cell, seed, run)
    return CellJob(
        scenario.to_table(), scenario.origin, plan.base.folder, plan.cwd, plan.threads, plan.device, plan.pickled_parts
    )


def check_cells(
    plan: Plan, cluster: DaskCluster, listener: Listener, should_stop: Callable[[], bool], cells: Iterable[Cell]
) -> dict[str, str]:
    """Build every cell with every seed on the workers; raises for the first that cannot be. Returns user files."""
    waiting = deque((cell, seed) for cell in cells for seed in plan.seeds)
    total, checked, found = len(waiting), 0, dict[str, str]()
    asked: dict[str, Cell] = {}
    broken: dict[str, StudyError] = {}
    while waiting or cluster.flying:
        if should_stop():
            cluster.drop_all()
            raise KeyboardInterrupt
        while waiting and cluster.has_room():
            cell, seed = waiting.popleft()
            asked[f"{cell.cell}-{seed}"] = cell
            cluster.submit(f"{cell.cell}-{seed}", check, job_of(plan, cell, seed, plan.runs[0]))
        for done in cluster.finished():
            cell, checked = asked[done.key], checked + 1
            problem = _problem(cell, done)
            if problem is not None:
                broken[cell.cell] = problem
                waiting.clear()
            else:
                found.update(done.value.user_files)
            listener.checking(checked, total)
        if not cluster.workers():
            listener.waiting()
    for name in sorted(broken):  # the first in order, whichever came first
        raise broken[name]
    return found


def _problem(cell: Cell, done: Done) -> StudyError | None:
    if done.value is None:
        return StudyError(f"cell {cell.title} cannot be built: {done.error}")
    if done.value.error:
        remedy = "; --no-local leaves this baseline out" if cell.baseline == "local" else ""
        return StudyError(f"{done.value.error}{remedy}")
    differs = first_difference(done.value.versions, versions(), "{} is {} there, {} here")
    if not differs:
        return None
    return StudyError(f"a worker has other versions than this process: {differs}; install the same on both")


def start_study(
    folder: Path, plan: Plan, cluster: DaskCluster, listener: Listener, should_stop: Callable[[], bool] = never
) -> Result:
    """A new study in a new directory."""
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
    cluster: DaskCluster,
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
                f"{quote(folder)}: cannot go on: {quote(name)} was changed since; restore it, or start a new study"
            )
    with RunLock(folder):
        return _run(folder, plan, cluster, listener, should_stop, force=force)


def finish_study(folder: Path, plan: Plan) -> Result:
    """A study whose driver may have been killed after the last run: its index, as the runs are."""
    with RunLock(folder):
        remove_left(folder)
        rows = [Row(planned, "finished", None, figures_of(folder, planned)) for planned in plan.planned()]
        write_index(folder, plan.varied, rows)
    return _result(folder, rows)


def _result(folder: Path, rows: Iterable[Row], *, stopped: bool = False, wall_s: float = 0.0) -> Result:
    counts: dict[str, int] = {}
    errors: dict[str, str] = {}
    for row in rows:
        counts[row.status] = counts.get(row.status, 0) + 1
        if row.status == "failed":
            errors[row.planned.folder_name] = row.error or ""
    return Result(folder, counts, errors, stopped, wall_s)


def _run(
    folder: Path, plan: Plan, cluster: DaskCluster, listener: Listener, should_stop: Callable[[], bool], *, force: bool
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

    def __init__(self, folder: Path, plan: Plan, cluster: DaskCluster, listener: Listener, force: bool):
        self._folder, self._plan, self._cluster, self._listener = folder.resolve(), plan, cluster, listener
        self._force, self._path = force, folder
        self._cells = {cell.cell: cell for cell in plan.cells}
        self._rows: dict[str, Row] = {}
        self._waiting: deque[str] = deque()
        for planned in plan.planned():
            status, error = status_of(self._folder, planned)
            ended = status == "finished"
            figures = figures_of(self._folder, planned) if ended else {}
            self._rows[planned.folder_name] = Row(planned, status, error, figures)
            if not ended:
                self._waiting.append(planned.folder_name)
        self._attempts = dict.fromkeys(self._waiting, 0)
        self._flying: set[str] = set()
        self._stopping, self._written_at, self._dirty = False, 0.0, True

    def run(self, should_stop: Callable[[], bool]) -> Result:
        started = time.perf_counter()
        self.write(last=True)
        self._listener.started(self._path, self._plan, self._rows, self._cluster.workers())
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
        while (self._waiting and not self._stopping) or self._flying:
            if should_stop() or (self._folder / STOP).exists():
                self._stop()
            while self._waiting and not self._stopping and self._cluster.has_room():
                self._start(self._waiting.popleft())
            for done in self._cluster.finished():
                name = done.key
                self._flying.discard(name)
                if done.final:
                    self._attempts[name] = _MAX_ATTEMPTS
                self._over(name, done.value or Outcome("failed", done.error))
            if not self._cluster.workers():
                self._listener.waiting()
                if self._stopping:
                    self._cluster.drop_all()
                    self._flying.clear()
            self.write()

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
        task = RunTask(job, str(self._folder), planned, self._force)
        self._cluster.submit(name, run_or_resume, task)

    def _over(self, name: str, outcome: Outcome) -> None:
        row, self._dirty = self._rows[name], True
        if outcome.status == "finished":
            row.status, row.error = "finished", None
            row.figures = interned(outcome.figures)
            self._listener.over(row)
            return
        if outcome.status == "failed":
            row.status, row.error = "failed", outcome.error
            if self._attempts[name] < _MAX_ATTEMPTS and not self._stopping:
                self._waiting.append(name)
                self._listener.retrying(row)
                return
        else:
            row.status, row.error = status_of(self._folder, row.planned)
            if not self._stopping:  # its worker left; another goes on with it
                self._attempts[name] -= 1
                self._waiting.append(name)
                return
        self._listener.over(row)

    def write(self, *, last: bool = False) -> None:
        """Replace the index, if there is news and the last one is old enough."""
        now = time.monotonic()
        if not last and now - self._written_at < _INDEX_INTERVAL_S:
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
