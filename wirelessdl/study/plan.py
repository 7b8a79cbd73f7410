"""A study as planned: its cells, every combination of values to be run, in a fixed order; seeds and runs of each.

Cells are the product of what is given: named cells x zipped rows x the grid, the last key of the grid
moving fastest. A baseline is added once for each combination of the varied values that still matter under it.
"""

import itertools
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from wirelessdl.errors import ScenarioError, StudyError, nearest, quote
from wirelessdl.families import keys_of, modules
from wirelessdl.scenario.loader import load_scenario, parse_scenario
from wirelessdl.scenario.objects import PART_KEYS, UserPart, part_overrides, plain_value
from wirelessdl.scenario.overrides import BASELINES, Overrides, apply_override
from wirelessdl.scenario.schema import Scenario
from wirelessdl.study.study_file import (
    StudySpec,
    StudyTable,
    find_study,
    overrides_of,
    plain_text,
    read_study,
    toml_text,
)
from wirelessdl.trace.study import PlannedRun

MAX_RUNS = 100_000
_OWN_OPTIONS = {"scenario.seed": "--seeds", "scenario.run": "--runs"}
# what an override of a baseline leaves without a meaning, but for what gradients depend on
_MEANINGLESS = {
    "network.topology=none": ("channel.", "radio.", "power.", "privacy."),
    "privacy.epsilon_max=inf": ("privacy.",),
    # keys of the other mechanisms, and the coalition that only they know
    "privacy.noise=independent": (
        *(f"privacy.{key}" for module in modules("mechanism") for key in keys_of(module)),
        "privacy.coalition",
    ),
}
_PUBLISHES = "radio.access=published"
_OF_GRADIENTS = ("privacy.clip_norm", "privacy.clipping", "privacy.protocol", "privacy.unit")


@dataclass(frozen=True)
class Cell:
    """One combination. values: of the varied keys that apply to it; overrides: all that makes it of the base."""

    cell: str
    values: Mapping[str, Any]
    overrides: tuple[str, ...]
    name: str | None = None
    baseline: str | None = None

    @property
    def title(self) -> str:
        """For messages and tables: `c003 (paper, privacy.epsilon_max=0.5)`."""
        words = [f"baseline {self.baseline}"] if self.baseline else [self.name] if self.name else []
        words += [f"{key}={plain_text(value)}" for key, value in self.values.items()]
        return f"{self.cell} ({quote(', '.join(words), 200)})" if words else self.cell


@dataclass(frozen=True)
class Plan:
    """Everything a study will run. source: the scenario as given; cwd: where it was asked for."""

    name: str
    source: str
    overrides: tuple[str, ...]
    base: Scenario
    varied: tuple[str, ...]
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]
    runs: tuple[int, ...]
    cwd: str
    threads: int = 1
    device: str = "auto"

    def planned(self) -> Iterator[PlannedRun]:
        """Every run: seeds within cells, runs within seeds."""
        for cell in self.cells:
            for seed in self.seeds:
                for run in self.runs:
                    yield PlannedRun(cell.cell, cell.name, cell.baseline, dict(cell.values), seed, run)

    def __len__(self) -> int:
        return len(self.cells) * len(self.seeds) * len(self.runs)

    @cached_property
    def pickled_parts(self) -> tuple[bytes, ...]:
        """Parts that Python handed in, pickled for worker processes; raises for one that cannot leave this one."""
        return tuple(_pickled(given) for given in self.base.objects.values())

    def scenario(self, cell: Cell, seed: int, run: int) -> Scenario:
        return cell_scenario(self.base, cell, seed, run)


def _pickled(given: UserPart) -> bytes:
    """A part with its class by value, since workers may find no file of the user's; it never touches the disk."""
    import cloudpickle  # type: ignore[import-untyped]

    module = None if given.why else sys.modules.get(getattr(given.target, "__module__", ""))
    if module is not None:
        cloudpickle.register_pickle_by_value(module)
    try:
        pickled: bytes = cloudpickle.dumps(given)
        return pickled
    except Exception as error:  # whatever an attribute may raise
        raise StudyError(
            f"{given.class_name} cannot be sent to worker processes: {type(error).__name__}: {quote(error, 120)}; give "
            f"functools.partial({given.class_name}, ...) instead of an object, and let it open what it needs when used"
        ) from None
    finally:
        if module is not None:
            cloudpickle.unregister_pickle_by_value(module)


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
    grid = dict(_grid_of(vary, objects))
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


def _grid_of(vary: Mapping[str, Sequence[Any]], objects: dict[str, UserPart]) -> Iterator[tuple[str, list[Any]]]:
    """Varied keys with their values as a scenario holds them; a part may be called as in Python."""
    for key, values in vary.items():
        if key not in PART_KEYS:
            yield key, [plain_value(key, value, objects) for value in values]
            continue
        tables = [part_overrides({key: value}) for value in values]
        key = PART_KEYS[key]
        yield key, [plain_value(key, table[key], objects) for table in tables]


def make_plan(spec: StudySpec, *, device: str = "auto") -> Plan:
    """Read the scenario and work out every cell; each is checked against the schema, and named where it fails."""
    base = _base(spec)
    varied, cells = make_cells(spec.table, base)
    section = base.scenario
    seeds = _numbers("seeds", spec.table.seeds, section.seed)
    runs = _numbers("runs", spec.table.runs, section.run)
    plan = Plan(
        spec.table.name or f"{section.name}-study",
        # a scenario that Python gave is no file to compare with when the study goes on
        base.origin.removesuffix(" (bundled)") if spec.scenario is None else f"{base.origin}, as given",
        spec.overrides,
        base,
        tuple(varied),
        tuple(cells),
        seeds,
        runs,
        os.getcwd(),  # where workers look for files that a scenario names
        device=device,
    )
    if len(plan) > MAX_RUNS:
        raise StudyError(f"the study has {len(plan):,} runs; at most {MAX_RUNS:,}: vary fewer values")
    for cell in cells:
        plan.scenario(cell, seeds[0], runs[0])
    _ = plan.pickled_parts  # an object that cannot be sent is refused here
    return plan


def _base(spec: StudySpec) -> Scenario:
    if spec.scenario is None:
        base = load_scenario(spec.table.scenario, overrides=spec.overrides)
    elif spec.overrides:
        cell = Cell("base", {}, spec.overrides)
        base = cell_scenario(spec.scenario, cell)
        base._origin = spec.scenario.origin
    else:
        base = spec.scenario
    base._folder = str(Path(base.folder).resolve()) if base.folder else ""
    return base


def _numbers(name: str, asked: int | Sequence[int], first: int) -> tuple[int, ...]:
    """So many, counted from the scenario's own; or those that were named."""
    count, numbers = (asked, range(first, first + asked)) if isinstance(asked, int) else (len(asked), asked)
    rule = f"from 1 to {MAX_RUNS:,} different numbers below 2^63"  # whole numbers of its index
    if not 1 <= count <= MAX_RUNS or max(numbers) >= 2**63 or len(set(numbers)) < count:
        raise StudyError(f"{name} is {quote(asked, 60)}; must be {rule}: every run is made once")
    return tuple(numbers)


# --- cells


def make_cells(study: StudyTable, base: Scenario) -> tuple[list[str], list[Cell]]:
    """The varied keys and all cells, baselines last. Raises one line for a study that is empty or repeats itself."""
    varied = _varied(study)
    parts: list[list[tuple[str | None, Mapping[str, Any]]]] = []
    if study.cells:
        parts.append([(cell.name, cell.set) for cell in study.cells])
    if study.zip:
        parts.append([(None, dict(zip(study.zip, row))) for row in zip(*_equally_long(study.zip))])
    parts += [[(None, {key: value}) for value in _distinct(key, values)] for key, values in study.grid.items()]
    count = math.prod(len(part) for part in parts)
    if count > MAX_RUNS:
        raise StudyError(f"the study has {count:,} cells; at most {MAX_RUNS:,}: vary fewer values")
    table, cells = base.to_table(), []
    for number, combination in enumerate(itertools.product(*parts)):
        name = next((name for name, _ in combination if name), None)
        values = {key: value for _, part in combination for key, value in part.items()}
        overrides = overrides_of(values)
        for adjustment in study.adjust:
            if all(key in values and values[key] == wanted for key, wanted in adjustment.where.items()):
                overrides += overrides_of(adjustment.set)
        # what a named cell leaves alone has the value of the scenario
        told = {key: values[key] if key in values else _look_up(table, key) for key in varied}
        told = {key: value for key, value in told.items() if value is not None}
        cells.append(Cell(f"c{number:03d}", told, overrides, name))
    names = [*dict.fromkeys((*study.baselines, *(["local"] if study.local and _private(cells, base) else [])))]
    return varied, [*cells, *_baseline_cells(cells, names, base)]


def cell_scenario(base: Scenario, cell: Cell, seed: int | None = None, run: int | None = None) -> Scenario:
    """The scenario of a cell; an error names the cell."""
    table = base.to_table()
    origin = f"{base.origin}: cell {cell.title}"
    try:
        for override in cell.overrides:
            apply_override(table, override)
    except ScenarioError as error:
        raise ScenarioError(f"{origin}: {error}") from None
    for key, number in (("seed", seed), ("run", run)):
        if number is not None:
            table["scenario"][key] = number
    return parse_scenario(table, origin=origin, folder=base.folder, objects=base.objects)


def _varied(study: StudyTable) -> list[str]:
    """Every key that the study varies, once, in order; complaints about those that it cannot."""
    named = [key for cell in study.cells for key in cell.set]
    single = [*dict.fromkeys(named), *study.zip, *study.grid]
    for key in single:
        if key in _OWN_OPTIONS:
            raise StudyError(f"{key} cannot be varied; {_OWN_OPTIONS[key]} says how many of them a cell is run with")
        if key == "scenario.name":
            raise StudyError("scenario.name cannot be varied: it decides nothing; give cells a name instead")
        if single.count(key) > 1:
            raise StudyError(f"{quote(key)} is varied in two places of the study; keep one")
    if len({cell.name for cell in study.cells}) < len(study.cells):
        raise StudyError("two cells of the study have the same name; names tell them apart")
    return single


def _distinct(key: str, values: Sequence[Any]) -> Sequence[Any]:
    if not values:
        raise StudyError(f"{quote(key)} has no values; the grid would be empty: write {quote(key)}=value,value")
    texts = [toml_text(value) for value in values]
    for text in texts:
        if texts.count(text) > 1:
            raise StudyError(f"{quote(key)} has the value {quote(text, 60)} twice; every cell is run once")
    return values


def _equally_long(zipped: Mapping[str, Sequence[Any]]) -> list[Sequence[Any]]:
    lengths = {key: len(values) for key, values in zipped.items()}
    if len(set(lengths.values())) > 1 or not next(iter(lengths.values())):
        words = ", ".join(f"{quote(key)} has {length}" for key, length in lengths.items())
        raise StudyError(f"study.zip needs lists of equal length, one value or more: {words}")
    return list(zipped.values())


def _look_up(table: Any, key: str) -> Any:
    for step in key.split("."):
        if isinstance(table, list):
            table = table[int(step)] if step.isdecimal() and int(step) < len(table) else None
        else:
            table = table.get(step) if isinstance(table, Mapping) else None
    return table


def _private(cells: Sequence[Cell], base: Scenario) -> bool:
    """Whether some cell promises an epsilon. A cell that cannot be read is refused elsewhere."""
    for cell in cells:
        privacy = cell_scenario(base, cell).privacy
        if math.isfinite(privacy.epsilon_max) or math.isfinite(privacy.epsilon_total):
            return True
    return False


def _baseline_cells(cells: Sequence[Cell], names: Sequence[str], base: Scenario) -> list[Cell]:
    found: list[Cell] = []
    for name in names:
        if name not in BASELINES:
            raise StudyError(f'baseline is "{quote(name)}"; there is none of that name{nearest(name, BASELINES)}')
        seen = set()
        for cell in cells:
            overrides = BASELINES[name].all_for(partial(cell_scenario, base, cell))
            # numbers by which a baseline is scaled tell its cells apart
            telling = [one for one in overrides if BASELINES[name].scale is None or one != "network.nodes=1"]
            kept = {key: value for key, value in cell.values.items() if _matters(key, telling)}
            if (mark := toml_text(kept)) not in seen:
                seen.add(mark)
                number = len(cells) + len(found)
                own = [override for override in cell.overrides if _matters(override.partition("=")[0], overrides)]
                found.append(Cell(f"c{number:03d}", kept, (*own, *overrides), name, name))
    return found


def _matters(key: str, overrides: Sequence[str]) -> bool:
    """Whether a varied key still decides something under a baseline."""
    for override in overrides:
        decided = override.partition("=")[0]
        if key == decided or key.startswith(f"{decided}.") or decided.startswith(f"{key}."):
            return False
        if key.startswith("privacy.") and override == "network.topology=none" and _PUBLISHES in overrides:
            continue  # nobody hears a neighbour, and what is published is charged all the same
        if key.startswith(_MEANINGLESS.get(override, ())) and key not in _OF_GRADIENTS:
            return False
    return True
