"""Study files: a TOML file with one table, [study].

[study]
scenario = "quickstart"
seeds = 3
[study.grid]
"privacy.epsilon_max" = [0.5, 1, 2, inf]

What `wirelessdl reproduce` reads besides:

[study.protocols.hardened.set]
"privacy.protocol" = "hardened"
[study.scales.smoke]
seeds = 1
set = { "scenario.rounds" = 20 }
[[study.figures]]
name = "claim"
x = "epsilon_link_total"
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, FiniteFloat, ValidationError, field_validator, model_validator

from wirelessdl.errors import StudyError, nearest, require_name, shown
from wirelessdl.scenario.loader import bundled_scenarios, read_table, share_folder
from wirelessdl.scenario.section import Count, Section, rule, rule_text
from wirelessdl.study.cells import Adjustment, Draw, NamedCell, StudySpec
from wirelessdl.study.toml_text import toml_text

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}$"
_NAME_RULE = rule_text("must be at most 100 letters, digits, '_', '-' or '.': it names the study's directory")
_CELL_RULE = rule_text("must be at most 100 letters, digits, '_', '-' or '.'")
_NUMBERS = rule_text("must be a number >= 1 (how many), or a list of numbers (which)")
_Seed = Annotated[int, Field(ge=0)]
_Values = Annotated[list[Any], Field(min_length=1)]
_SHORT_NAME = r"^[A-Za-z0-9][A-Za-z0-9_\-]{0,39}$"
_SHORT_NAME_RULE = rule_text("must be at most 40 letters, digits, '_' or '-': it ends a file's name")


class VariantTable(Section):
    """Changes to a study: overrides of all its cells, other values for keys of its grid, another number of seeds."""

    set: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, _Values] = Field(default_factory=dict)
    seeds: Count | None = None
    only: Annotated[list[str], Field(min_length=1)] | None = None  # names of cells that stay


class FigureTable(Section):
    """A figure of the study, with the options of `wirelessdl plot` by name."""

    name: str = Field(pattern=_SHORT_NAME, json_schema_extra=_SHORT_NAME_RULE)
    x: str | None = None
    y: str = "accuracy"
    series: str | None = None
    style: str | None = None
    facet: str | None = None
    where: list[str] = Field(default_factory=list)
    curves: Literal["round", "time", "energy", "airtime", "epsilon"] | None = None
    logx: bool = False
    labels: list[str] = Field(default_factory=list)
    size: Literal["single", "double"] = "double"
    protocols: list[str] | None = None  # of which it is drawn; all by default

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if self.curves is not None and self.x is not None:
            raise ValueError(f'has curves = "{self.curves}" and x; curves are drawn over what curves says: keep one')
        return self


class DrawTable(Section):
    choices: _Values | None = None
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None
    scale: Literal["linear", "log"] = "linear"
    integer: bool = False

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.choices is not None:
            if self.low is not None or self.high is not None:
                raise ValueError("has choices and a range; keep one of them")
            return self
        if self.low is None or self.high is None or not self.low < self.high:
            raise ValueError("needs choices = [...], or low and high with low below high")
        if self.scale == "log" and self.low <= 0:
            raise ValueError('needs low above 0 where scale is "log"')
        return self

    def draw(self) -> Draw:
        if self.choices is not None:
            return Draw(tuple(self.choices))
        assert self.low is not None
        assert self.high is not None
        return Draw((), self.low, self.high, self.scale == "log", self.integer)


class RandomTable(Section):
    samples: Count
    seed: _Seed = 0
    keys: Annotated[dict[str, DrawTable], Field(min_length=1)]


class CellTable(Section):
    name: str = Field(pattern=_NAME, json_schema_extra=_CELL_RULE)
    set: dict[str, Any] = Field(default_factory=dict)


class AdjustTable(Section):
    where: Annotated[dict[str, Any], Field(min_length=1)]
    set: Annotated[dict[str, Any], Field(min_length=1)]


class StudyTable(Section):
    """Every key that [study] may hold."""

    name: str = Field("", pattern=_NAME + "|^$", json_schema_extra=_NAME_RULE)
    description: str = ""
    scenario: str = Field(json_schema_extra=rule_text("must be a scenario file, or the name of a bundled scenario"))
    set: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, _Values] = Field(default_factory=dict)
    zip: dict[str, _Values] = Field(default_factory=dict)
    cells: list[CellTable] = Field(default_factory=list)
    random: RandomTable | None = None
    adjust: list[AdjustTable] = Field(default_factory=list)
    baselines: list[str] = Field(default_factory=list)
    local: bool = True
    seeds: Count | Annotated[list[_Seed], Field(min_length=1)] = Field(1, json_schema_extra=_NUMBERS)
    runs: Count | Annotated[list[Count], Field(min_length=1)] = Field(1, json_schema_extra=_NUMBERS)
    # what `wirelessdl reproduce` makes of it; without it, a study is what the keys above say
    protocols: dict[str, VariantTable] = Field(default_factory=dict)
    scales: dict[Literal["smoke", "cpu", "paper"], VariantTable] = Field(default_factory=dict)
    figures: list[FigureTable] = Field(default_factory=list)
    differences: list[str] = Field(default_factory=list)

    @field_validator("protocols")
    @classmethod
    def _named(cls, protocols: dict[str, VariantTable]) -> dict[str, VariantTable]:
        for name in protocols:
            if name == "both":
                raise ValueError('names "both"; --protocol both means all of them: choose another name')
            if not re.fullmatch(_SHORT_NAME, name):
                raise ValueError(f"names {shown(name)!r}; a name {_SHORT_NAME_RULE['rule']}")
        return protocols


def find_study(path: str | Path) -> Path | None:
    """The study file that a path or bundled name stands for; None where it is a scenario, or nothing."""
    require_name(path, StudyError)
    file = Path(path)
    if file.is_file():
        return file if file.suffix == ".toml" and "study" in read_table(file) else None
    bundled = share_folder() / "scenarios" / "studies" / f"{file.name}.toml"
    is_name = str(path) == file.name and str(path) not in bundled_scenarios()
    return bundled if is_name and bundled.is_file() else None


def read_study(file: Path) -> StudySpec:
    """The study that a file asks for; a scenario named in it is looked for beside it, too."""
    return study_spec(file, read_study_table(file))


def read_study_table(file: Path) -> StudyTable:
    """All that a study file says."""
    table = read_table(file)
    for key in table:
        if key != "study":
            raise StudyError(
                f"{shown(file)}: unknown section [{shown(key)}]; a study file has one table, [study], which names a "
                "scenario"
            )
    content = table["study"]
    if not isinstance(content, dict):
        raise StudyError(f"{shown(file)}: study is {shown(content, 40)}; must be a table")
    try:
        return StudyTable.model_validate(_with_whole_keys(content))
    except ValidationError as error:
        raise StudyError(f"{shown(file)}: {_finding(error)}") from None


def study_spec(file: Path, found: StudyTable) -> StudySpec:
    """The cells, seeds and baselines of a study file."""
    random = found.random
    return StudySpec(
        scenario=_scenario(file, found.scenario),
        name=found.name or file.stem,
        overrides=overrides_of(found.set),
        grid=found.grid,
        zipped=found.zip,
        named=tuple(NamedCell(cell.name, _flat(cell.set)) for cell in found.cells),
        draws={} if random is None else {key: table.draw() for key, table in random.keys.items()},
        samples=0 if random is None else random.samples,
        sample_seed=0 if random is None else random.seed,
        adjustments=tuple(Adjustment(_flat(one.where), _flat(one.set)) for one in found.adjust),
        baselines=tuple(found.baselines),
        local=found.local,
        seeds=tuple(found.seeds) if isinstance(found.seeds, list) else found.seeds,
        runs=tuple(found.runs) if isinstance(found.runs, list) else found.runs,
    )


def overrides_of(values: dict[str, Any]) -> tuple[str, ...]:
    """Values by key as `--set` takes them."""
    return tuple(f"{key}={toml_text(value)}" for key, value in values.items())


def _with_whole_keys(content: dict[str, Any]) -> dict[str, Any]:
    """`network.nodes = [4, 10]` without quotes is a table within a table for TOML: the same as with quotes."""
    whole = dict(content)
    for name, deep in (("grid", True), ("zip", True), ("set", False)):
        if isinstance(whole.get(name), dict):
            whole[name] = _flat(whole[name], deep=deep)
    for name in ("protocols", "scales"):
        if isinstance(whole.get(name), dict):
            whole[name] = {
                variant: _with_whole_keys(table) if isinstance(table, dict) else table
                for variant, table in whole[name].items()
            }
    random = whole.get("random")
    if isinstance(random, dict) and isinstance(random.get("keys"), dict):
        whole["random"] = {**random, "keys": _flat(random["keys"])}
    return whole


def _flat(table: dict[str, Any], *, deep: bool = False) -> dict[str, Any]:
    """Bare dotted keys joined: section and key; deep: all the way, where tables cannot be values."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and (deep or "." not in key):
            inner = _flat(value, deep=True) if deep else value
            flat.update({f"{key}.{name}": item for name, item in inner.items()})
        else:
            flat[key] = value
    return flat


def _scenario(file: Path, name: str) -> str:
    """A scenario beside the study file goes before one in the working folder."""
    beside = file.parent / name
    return str(beside) if beside.is_file() else name


def _finding(error: ValidationError) -> str:
    findings = error.errors(include_url=False)
    finding = next((f for f in findings if f["type"] == "extra_forbidden"), findings[0])
    # pydantic adds which of several types it tried, and that a key is wrong
    steps = [str(step) for step in finding["loc"] if not re.match(r"constrained-|list\[|\[key\]", str(step))]
    key = ".".join(["study", *steps])
    if finding["type"] == "extra_forbidden":
        return f"unknown key {shown(key)}{nearest(steps[-1], _home(steps[:-1]).model_fields)}"
    if finding["type"] == "missing":
        return f"missing key {shown(key)}; add it"
    home, inner = _home(steps[:-1]), len(steps) == 1 or steps[0] in _LISTED
    field = home.model_fields.get(steps[-1]) if steps and inner else None
    extra = field.json_schema_extra if field is not None else None
    text = extra["rule"] if isinstance(extra, dict) and "rule" in extra else rule(finding)
    if finding["type"] == "value_error":
        return f"{shown(key)} {text}"
    return f"{shown(key)} is {shown(finding['input'], 60)}; {text}"


_LISTED: dict[str, type[BaseModel]] = {
    "cells": CellTable,
    "random": RandomTable,
    "adjust": AdjustTable,
    "protocols": VariantTable,
    "scales": VariantTable,
    "figures": FigureTable,
}


def _home(steps: list[str]) -> type[BaseModel]:
    """The table that holds a key, by the steps that lead to it."""
    if len(steps) > 2 and steps[0] == "random":
        return DrawTable
    return _LISTED.get(steps[0], StudyTable) if steps else StudyTable
