"""How a study stands, by what is on disk; also while it runs, and without the libraries that run it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirelessdl.errors import TraceError
from wirelessdl.trace.catalog import run_status
from wirelessdl.trace.files import is_locked
from wirelessdl.trace.study import STATUSES, PlannedRun, planned_in, read_errors, read_manifest, status_of


@dataclass(frozen=True)
class RunState:
    """One run: its status, how far it is, what went wrong."""

    planned: PlannedRun
    status: str
    round: int = 0
    rounds: int = 0
    accuracy: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class StudyStatus:
    """A study: whether a process works on it, and every run."""

    path: Path
    name: str
    active: bool
    runs: tuple[RunState, ...]

    def counts(self) -> dict[str, int]:
        """Runs by status, in the order of getting there."""
        found = [run.status for run in self.runs]
        return {status: found.count(status) for status in STATUSES if status in found}

    def of(self, *statuses: str) -> Sequence[RunState]:
        return [run for run in self.runs if run.status in statuses]

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "study": self.name,
            "path": str(self.path),
            "active": self.active,
            "runs": len(self.runs),
            **{status: self.counts().get(status, 0) for status in STATUSES},
            "errors": {run.planned.folder_name: run.error for run in self.of("failed")},
        }


def study_status(folder: Path) -> StudyStatus:
    manifest = read_manifest(folder)
    errors = read_errors(folder)
    runs = tuple(_state(folder, planned, errors.get(planned.path)) for planned in planned_in(manifest))
    return StudyStatus(folder, str(manifest.get("name", "")), is_locked(folder), runs)


def _state(folder: Path, planned: PlannedRun, error: str | None) -> RunState:
    status, said = status_of(folder, planned)
    if error and status in ("planned", "interrupted"):  # as its driver saw it last
        status = "failed"
    if status == "failed":
        return RunState(planned, status, error=error or said)
    if status in ("running", "interrupted"):
        try:
            seen = run_status(folder / planned.path)
        except (TraceError, KeyError, TypeError, ValueError):  # it is just being made
            return RunState(planned, status)
        return RunState(planned, status, seen.round, seen.rounds, seen.accuracy)
    return RunState(planned, status)
