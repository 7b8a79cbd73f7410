"""The runs and studies in a folder, and the status of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from wirelessdl.errors import TraceError, quote
from wirelessdl.families import MEMBERS, member, stored_kind
from wirelessdl.trace.files import is_locked, read_object_if_whole
from wirelessdl.trace.run import Run, State, check_version, state_of
from wirelessdl.trace.schema import TABLES
from wirelessdl.trace.soundness import find_parts, read_parts
from wirelessdl.trace.study import MANIFEST, read_errors, study_counts

_PROMISED = ("epsilon_promised_total", "epsilon_promised_bound")


@dataclass(frozen=True)
class ListedRun:
    """One run: its scenario, state, progress and latest results."""

    name: str
    scenario: str
    state: State
    round: int
    rounds: int
    accuracy: float | None
    epsilon: float | None
    started: str
    error: str
    unit: str = "sample"  # what epsilon protects: one sample, or all data of one node
    adjacency: str = "replace-one"
    declared: bool = False  # a mechanism's or an update's word is all there is
    coalition: int | None = None  # most nodes that collude, against whom epsilon holds; None: all other nodes
    bound: bool = False  # whether epsilon is the running bound of a run that is not finished: its total is smaller


@dataclass(frozen=True)
class ListedStudy:
    """One study: its scenario, state, and how many of its runs are done."""

    study: str
    scenario: str
    state: State
    finished: int
    failed: int
    runs: int
    started: str
    error: str


def runs_in(folder: Path) -> list[ListedRun]:
    """Every run directly under a folder, oldest first; also one that cannot be looked into. Studies are not runs."""
    paths = [path for path in _folders(folder) if _holds(path, "scenario.toml", True) and not _holds(path, MANIFEST)]
    return sorted(map(_status_or_error, paths), key=lambda run: str(run.started))


def studies_in(folder: Path) -> list[ListedStudy]:
    """Every study directly under a folder, oldest first; or the one that the folder is."""
    if _holds(folder, MANIFEST):
        return [_study_status(folder)]
    return sorted(
        map(_study_status, (path for path in _folders(folder) if _holds(path, MANIFEST))), key=lambda one: one.started
    )


def _holds(folder: Path, name: str, if_forbidden: bool = False) -> bool:
    """Whether a folder has a file of this name."""
    try:
        return (folder / name).is_file()
    except PermissionError:
        return if_forbidden


def _folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise TraceError(f"{folder}: {'is a file, not a folder of runs' if folder.exists() else 'no such folder'}")
    return [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]  # hidden: being made


def _study_status(path: Path) -> ListedStudy:
    """One bad study must not hide the others."""
    try:
        manifest, count = study_counts(path)
    except TraceError as error:
        return ListedStudy(path.name, "", "unreadable", 0, 0, 0, "", str(error).removeprefix(f"{path}/"))
    finished, failed, runs = count["finished"], count["failed"], sum(count.values())
    if is_locked(path):
        state: State = "running"
    elif finished == runs:
        state = "done"
    else:
        state = "failed" if finished + failed == runs else "interrupted"
    failures = "; ".join(f"{PurePath(run).name}: {error}" for run, error in read_errors(path).items()) if failed else ""
    started = str(manifest.get("created", ""))
    return ListedStudy(path.name, str(manifest.get("scenario", "")), state, finished, failed, runs, started, failures)


def _status_or_error(path: Path) -> ListedRun:
    """One bad run must not hide the others."""
    try:
        return run_status(path)
    except (TraceError, OSError, LookupError, TypeError, ValueError, AttributeError, pa.ArrowException) as error:
        return ListedRun(path.name, "", "unreadable", 0, 0, None, None, "", str(error).removeprefix(f"{path}: "))


def run_status(path: Path) -> ListedRun:
    """The status of one run; raises TraceError where its tables are of another version."""
    run = Run(path, strict=False)
    section, origin = run.scenario["scenario"], read_object_if_whole(path / "provenance.json")
    check_version(path, origin)
    round, accuracy, epsilon, bound = _latest(path)
    total = headline(run.summary)
    return ListedRun(
        name=path.name,
        scenario=section["name"],
        state=state_of(path),
        round=round,
        rounds=section["rounds"],
        accuracy=accuracy,
        epsilon=epsilon if total is None else float(str(total)),
        started=str(origin.get("started", "")),
        error=str(origin.get("error", "")),
        unit="node" if run.scenario["privacy"].get("unit") == "node" else "sample",
        adjacency=str(run.scenario["privacy"].get("adjacency", "replace-one")),
        declared=":" in str(run.scenario["privacy"].get("noise")) or stored_kind(run.scenario["learning"])[1] == "step",
        coalition=_coalition(run.scenario["privacy"]),
        bound=total is None and bound,
    )


def _coalition(privacy: Mapping[str, Any]) -> int | None:
    """Most nodes that collude, where that is what was promised."""
    noise = privacy.get("noise")
    module = member("mechanism", noise) if isinstance(noise, str) and noise in MEMBERS["mechanism"] else None
    if module is None or not module.COALITION or privacy.get("against") == "everyone":
        return None
    most = privacy.get("coalition")
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise TraceError(f"scenario.toml: privacy.coalition is {quote(most, 40)}; must be >= 1: it was edited")
    return most


def _latest(path: Path) -> tuple[int, float | None, float | None, bool]:
    """Last round, accuracy of the last evaluation, promised total of that round, and whether that is a bound.

    Reads from the newest part backwards.
    """
    round, epsilon, is_bound = 0, None, False
    schema = pa.schema([TABLES["rounds"].field(name) for name in ("round", "accuracy_mean", *_PROMISED)])
    for part in reversed(find_parts(path, "rounds").paths):
        table, damaged = read_parts([part], schema)
        if damaged:
            continue
        if not round:  # between evaluations there is the bound
            last = {name: table[name][-1].as_py() for name in table.column_names}
            total, bound = (last[name] for name in _PROMISED)
            is_bound = total is None and bound is not None
            round, epsilon = last["round"], bound if total is None else total
        accuracy = pc.drop_null(table["accuracy_mean"])
        if len(accuracy):
            return round, accuracy[-1].as_py(), epsilon, is_bound
    return round, None, epsilon, is_bound


def headline(summary: Mapping[str, Any], view: Literal["own", "coalition"] | None = None) -> Any:
    """Total epsilon of a finished run, as promised or of a view; None where it has none.

    Where a rule may stop a run before, when it stops depends on data: then at the declared number of rounds.
    """
    name = "epsilon" if view is None else f"epsilon_{view}"
    return summary.get(f"{name}_declared", summary.get(f"{name}_total"))
