"""Start and resume studies: options of the command line and of Python, made into a plan and run on workers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from wirelessdl.errors import StudyError, quote
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.scenario.objects import PART_KEYS, UserPart, part_overrides, plain_value
from wirelessdl.scenario.overrides import Overrides
from wirelessdl.scenario.schema import Scenario
from wirelessdl.study import Listener
from wirelessdl.study.cluster import DaskCluster, cores, open_cluster
from wirelessdl.study.engine import Result, finish_study, never, resume_study, start_study, unfinished
from wirelessdl.study.folder import read_plan, refuse_changes, require_free
from wirelessdl.study.plan import Plan, make_plan
from wirelessdl.study.study_file import StudySpec, StudyTable, find_study, overrides_of, read_study


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

    def open(self, runs: int, threads: int) -> AbstractContextManager[DaskCluster]:
        return open_cluster(jobs=self.jobs(runs), threads=threads, scheduler=self.scheduler)


def spec_of(
    scenario: str | Path | Scenario,
    vary: Mapping[str, Sequence[Any]],
    seeds: int | Sequence[int] | None,
    runs: int | Sequence[int] | None,
    overrides: Overrides,
    baselines: Sequence[str],
    local: bool,
    parts: Mapping[str, Any] | None = None,
) -> StudySpec:
    """What the command line, or a caller, asks for: a study file with additions, or a scenario with all of it."""
    file = None if isinstance(scenario, Scenario) else find_study(scenario)
    if file is not None:
        spec = read_study(file)
    elif isinstance(scenario, Scenario):
        spec = StudySpec(StudyTable(scenario=""), scenario=scenario)
    else:
        spec = StudySpec(StudyTable(scenario=str(scenario)))
    for key, values in vary.items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise StudyError(f"vary: {quote(key)} is {quote(values, 40)}; must be a list of values")
    table = spec.table
    objects = {} if spec.scenario is None else dict(spec.scenario.objects)
    grid = dict(_varied(vary, objects))
    fixed = {**part_overrides(parts or {}), **(overrides if isinstance(overrides, Mapping) else {})}
    texts = overrides_of({key: plain_value(key, value, objects) for key, value in fixed.items()})
    texts = (*(() if isinstance(overrides, Mapping) else overrides), *texts)
    if objects:  # names in texts mean something only together with the objects that they stand for
        found = spec.scenario or load_scenario(table.scenario, overrides=spec.overrides)
        found = found.replace(texts)
        found._objects = objects
        spec, texts = StudySpec(table, scenario=found), ()
    changes = {
        "grid": {**table.grid, **grid},
        "baselines": [*table.baselines, *baselines],
        "local": table.local and local,
        "seeds": table.seeds if seeds is None else seeds,
        "runs": table.runs if runs is None else runs,
    }
    return StudySpec(table.model_copy(update=changes), (*spec.overrides, *texts), spec.scenario)


def _varied(vary: Mapping[str, Sequence[Any]], objects: dict[str, UserPart]) -> Iterator[tuple[str, list[Any]]]:
    """Varied keys with their values as a scenario holds them; a part may be called as in Python."""
    for key, values in vary.items():
        if key not in PART_KEYS:
            yield key, [plain_value(key, value, objects) for value in values]
            continue
        tables = [part_overrides({key: value}) for value in values]
        key = PART_KEYS[key]
        yield key, [plain_value(key, table[key], objects) for table in tables]


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
