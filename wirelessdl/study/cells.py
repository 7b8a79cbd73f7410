"""The cells of a study: every combination of values to be run, in a fixed order.

Cells are the product of what is given: named cells x zipped rows x random samples x the grid, the last key of the grid
moving fastest. A baseline is added once for each combination of the varied values that still matter under it.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wirelessdl.errors import ScenarioError, StudyError, nearest, shown
from wirelessdl.families import modules
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.scenario.overrides import apply_override
from wirelessdl.scenario.schema import Scenario
from wirelessdl.streams import Streams
from wirelessdl.study.toml_text import plain_text, toml_text

MOST_RUNS = 100_000
_OWN_OPTIONS = {"scenario.seed": "--seeds", "scenario.run": "--runs"}
# what an override of a baseline leaves without a meaning, but for what gradients depend on
_MEANINGLESS = {
    "network.topology=none": ("channel.", "radio.", "power.", "privacy."),
    "privacy.epsilon_max=inf": ("privacy.",),
    # keys of the other mechanisms, and the coalition that only they know
    "privacy.noise=independent": (
        *(f"privacy.{key}" for module in modules("mechanism") for key in module.Keys.model_fields),
        "privacy.coalition",
    ),
}
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
        return f"{self.cell} ({shown(', '.join(words), 200)})" if words else self.cell


@dataclass(frozen=True)
class NamedCell:
    name: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Draw:
    """A random value: one of choices, or from low to high, evenly or evenly in its logarithm."""

    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    integer: bool = False

    def sample(self, key: str, seed: int, number: int) -> Any:
        """The value of a key in a sample; more samples or more keys leave it as it is."""
        rng = Streams(seed).draws(f"study.{key}", number)
        if self.choices:
            return self.choices[int(rng.integers(len(self.choices)))]
        if self.integer and not self.log:
            return int(rng.integers(int(self.low), int(self.high) + 1))
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = low + (high - low) * float(rng.random())
        value = math.exp(value) if self.log else value
        return round(value) if self.integer else float(f"{value:.6g}")  # as it will be written


@dataclass(frozen=True)
class Adjustment:
    """Overrides of the cells in which the `where` keys have these values."""

    where: Mapping[str, Any]
    values: Mapping[str, Any]


@dataclass(frozen=True)
class StudySpec:
    """What a study file or the command line asks for. seeds, runs: how many, or which."""

    scenario: str | Scenario
    name: str = ""
    overrides: tuple[str, ...] = ()
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    zipped: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    named: tuple[NamedCell, ...] = ()
    draws: Mapping[str, Draw] = field(default_factory=dict)
    samples: int = 0
    sample_seed: int = 0
    adjustments: tuple[Adjustment, ...] = ()
    baselines: tuple[str, ...] = ()
    local: bool = True
    seeds: int | tuple[int, ...] = 1
    runs: int | tuple[int, ...] = 1


def make_cells(spec: StudySpec, base: Scenario) -> tuple[list[str], list[Cell]]:
    """The varied keys and all cells, baselines last. Raises one line for a study that is empty or repeats itself."""
    varied = _varied(spec)
    parts: list[Sequence[tuple[str | None, Mapping[str, Any]]]] = []
    if spec.named:
        parts.append([(cell.name, cell.values) for cell in spec.named])
    if spec.zipped:
        parts.append([(None, dict(zip(spec.zipped, row))) for row in zip(*_equally_long(spec.zipped))])
    if spec.draws:
        parts.append([(None, _sample(spec, number)) for number in range(spec.samples)])
    parts += [[(None, {key: value}) for value in _distinct(key, values)] for key, values in spec.grid.items()]
    count = math.prod(len(part) for part in parts)
    if count > MOST_RUNS:
        raise StudyError(f"the study has {count:,} cells; at most {MOST_RUNS:,}: vary fewer values")
    table = base.to_table()
    cells = [_own_cell(number, combination, spec, varied, table) for number, combination in enumerate(_product(parts))]
    names = [*dict.fromkeys((*spec.baselines, *(["local"] if spec.local and _private(cells, base) else [])))]
    return varied, [*cells, *_baseline_cells(cells, names)]


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


def _varied(spec: StudySpec) -> list[str]:
    """Every key that the study varies, once, in order; complaints about those that it cannot."""
    named = [key for cell in spec.named for key in cell.values]
    single = [*dict.fromkeys(named), *spec.zipped, *spec.draws, *spec.grid]
    for key in single:
        if key in _OWN_OPTIONS:
            raise StudyError(f"{key} cannot be varied; {_OWN_OPTIONS[key]} says how many of them a cell is run with")
        if key == "scenario.name":
            raise StudyError("scenario.name cannot be varied: it decides nothing; give cells a name instead")
        if single.count(key) > 1:
            raise StudyError(f"{shown(key)} is varied in two places of the study; keep one")
    if len({cell.name for cell in spec.named}) < len(spec.named):
        raise StudyError("two cells of the study have the same name; names tell them apart")
    return single


def _distinct(key: str, values: Sequence[Any]) -> Sequence[Any]:
    if not values:
        raise StudyError(f"{shown(key)} has no values; the grid would be empty: write {shown(key)}=value,value")
    texts = [toml_text(value) for value in values]
    for text in texts:
        if texts.count(text) > 1:
            raise StudyError(f"{shown(key)} has the value {shown(text, 60)} twice; every cell is run once")
    return values


def _equally_long(zipped: Mapping[str, Sequence[Any]]) -> list[Sequence[Any]]:
    lengths = {key: len(values) for key, values in zipped.items()}
    if len(set(lengths.values())) > 1 or not next(iter(lengths.values())):
        said = ", ".join(f"{shown(key)} has {length}" for key, length in lengths.items())
        raise StudyError(f"study.zip needs lists of equal length, one value or more: {said}")
    return list(zipped.values())


def _sample(spec: StudySpec, number: int) -> dict[str, Any]:
    return {key: draw.sample(key, spec.sample_seed, number) for key, draw in spec.draws.items()}


def _product(
    parts: Sequence[Sequence[tuple[str | None, Mapping[str, Any]]]],
) -> Iterator[tuple[str | None, dict[str, Any]]]:
    for combination in itertools.product(*parts):
        name = next((name for name, _ in combination if name), None)
        yield name, {key: value for _, values in combination for key, value in values.items()}


def _own_cell(
    number: int,
    combination: tuple[str | None, dict[str, Any]],
    spec: StudySpec,
    varied: Sequence[str],
    base: Mapping[str, Any],
) -> Cell:
    name, values = combination
    overrides = [f"{key}={toml_text(value)}" for key, value in values.items()]
    for adjustment in spec.adjustments:
        if all(key in values and values[key] == wanted for key, wanted in adjustment.where.items()):
            overrides += [f"{key}={toml_text(value)}" for key, value in adjustment.values.items()]
    # what a named cell leaves alone has the value of the scenario
    shown_values = {key: values[key] if key in values else _look_up(base, key) for key in varied}
    kept = {key: value for key, value in shown_values.items() if value is not None}
    return Cell(f"c{number:03d}", kept, tuple(overrides), name)


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


def _baseline_cells(cells: Sequence[Cell], names: Sequence[str]) -> list[Cell]:
    if not names:
        return []
    from wirelessdl.scenario.overrides import BASELINES

    found: list[Cell] = []
    for name in names:
        if name not in BASELINES:
            raise StudyError(f'baseline is "{shown(name)}"; there is none of that name{nearest(name, BASELINES)}')
        overrides = BASELINES[name].overrides
        seen = set()
        for cell in cells:
            kept = {key: value for key, value in cell.values.items() if _matters(key, overrides)}
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
        if key.startswith(_MEANINGLESS.get(override, ())) and key not in _OF_GRADIENTS:
            return False
    return True
