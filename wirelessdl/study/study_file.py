"""Study files: a TOML file with one table, [study].

[study]
scenario = "quickstart"
seeds = 3
[study.grid]
"privacy.epsilon_max" = [0.5, 1, 2, inf]

All keys, with what `wirelessdl reproduce` reads besides: docs/studies.md.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, field_validator, model_validator

from wirelessdl.errors import StudyError, nearest, quote, require_name
from wirelessdl.scenario.loader import bundled_scenarios, read_table, share_folder
from wirelessdl.scenario.overrides import parse_value
from wirelessdl.scenario.schema import Scenario
from wirelessdl.scenario.section import Count, Section, rule, rule_text

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}$"
_NAME_RULE = rule_text("must be at most 100 letters, digits, '_', '-' or '.': it names the study's directory")
_CELL_RULE = rule_text("must be at most 100 letters, digits, '_', '-' or '.'")
_NUMBERS = rule_text("must be a number >= 1 (how many), or a list of numbers (which)")
_Seed = Annotated[int, Field(ge=0)]
_Values = Annotated[list[Any], Field(min_length=1)]
_SHORT_NAME = r"^[A-Za-z0-9][A-Za-z0-9_\-]{0,39}$"
_SHORT_NAME_RULE = rule_text("must be at most 40 letters, digits, '_' or '-': it ends a file's name")
_PAIRS = {"[": "]", "{": "}", "(": ")"}


def _flat(table: Any, *, deep: bool = False) -> Any:
    """Bare dotted keys joined, `network.nodes = 4` for TOML a table within a table: section and key.

    deep: all the way, where tables cannot be values.
    """
    if not isinstance(table, dict):
        return table
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and (deep or "." not in key):
            inner = _flat(value, deep=True) if deep else value
            flat.update({f"{key}.{name}": item for name, item in inner.items()})
        else:
            flat[key] = value
    return flat


_Overrides = Annotated[dict[str, Any], BeforeValidator(_flat)]  # values by dotted key
_Lists = Annotated[dict[str, _Values], BeforeValidator(lambda table: _flat(table, deep=True))]


class VariantTable(Section):
    """Changes to a study: overrides of all its cells, other values for keys of its grid, another number of seeds."""

    set: _Overrides = Field(default_factory=dict)
    grid: _Lists = Field(default_factory=dict)
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
    curves: Literal["round", "time", "energy", "nominal-energy", "airtime", "epsilon"] | None = None
    logx: bool = False
    labels: list[str] = Field(default_factory=list)
    size: Literal["single", "double"] = "double"
    protocols: list[str] | None = None  # of which it is drawn; all by default

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if self.curves is not None and self.x is not None:
            raise ValueError(f'has curves = "{self.curves}" and x; curves are drawn over what curves says: keep one')
        return self


class CellTable(Section):
    name: str = Field(pattern=_NAME, json_schema_extra=_CELL_RULE)
    set: _Overrides = Field(default_factory=dict)


class AdjustTable(Section):
    """Overrides of the cells in which the `where` keys have these values."""

    where: Annotated[_Overrides, Field(min_length=1)]
    set: Annotated[_Overrides, Field(min_length=1)]


class StudyTable(Section):
    """Every key that [study] may hold."""

    name: str = Field("", pattern=_NAME + "|^$", json_schema_extra=_NAME_RULE)
    description: str = ""
    scenario: str = Field(json_schema_extra=rule_text("must be a scenario file, or the name of a bundled scenario"))
    set: _Overrides = Field(default_factory=dict)
    grid: _Lists = Field(default_factory=dict)
    zip: _Lists = Field(default_factory=dict)
    cells: list[CellTable] = Field(default_factory=list)
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
                raise ValueError(f"names {quote(name)!r}; a name {_SHORT_NAME_RULE['rule']}")
        return protocols


@dataclass(frozen=True)
class StudySpec:
    """What a study file, the command line or Python asks for.

    scenario: given by Python in place of the table's; overrides: of all cells, the table's `set` among them.
    """

    table: StudyTable
    overrides: tuple[str, ...] = ()
    scenario: Scenario | None = None


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
    """The study that a file asks for; a scenario beside the file goes before one in the working folder."""
    table = read_study_table(file)
    beside = file.parent / table.scenario
    scenario = str(beside) if beside.is_file() else table.scenario
    named = table.model_copy(update={"name": table.name or file.stem, "scenario": scenario})
    return StudySpec(named, overrides_of(table.set))


def read_study_table(file: Path) -> StudyTable:
    """All that a study file says."""
    table = read_table(file)
    for key in table:
        if key != "study":
            raise StudyError(
                f"{quote(file)}: unknown section [{quote(key)}]; a study file has one table, [study], which names a "
                "scenario"
            )
    content = table["study"]
    if not isinstance(content, dict):
        raise StudyError(f"{quote(file)}: study is {quote(content, 40)}; must be a table")
    try:
        return StudyTable.model_validate(content)
    except ValidationError as error:
        raise StudyError(f"{quote(file)}: {_finding(error)}") from None


def overrides_of(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Values by key as `--set` takes them."""
    return tuple(f"{key}={toml_text(value)}" for key, value in values.items())


def _finding(error: ValidationError) -> str:
    findings = error.errors(include_url=False)
    finding = next((f for f in findings if f["type"] == "extra_forbidden"), findings[0])
    # pydantic adds which of several types it tried, and that a key is wrong
    steps = [str(step) for step in finding["loc"] if not re.match(r"constrained-|list\[|\[key\]", str(step))]
    key = ".".join(["study", *steps])
    if finding["type"] == "extra_forbidden":
        return f"unknown key {quote(key)}{nearest(steps[-1], _home(steps[:-1]).model_fields)}"
    if finding["type"] == "missing":
        return f"missing key {quote(key)}; add it"
    home, inner = _home(steps[:-1]), len(steps) == 1 or steps[0] in _LISTED
    field = home.model_fields.get(steps[-1]) if steps and inner else None
    extra = field.json_schema_extra if field is not None else None
    text = extra["rule"] if isinstance(extra, dict) and "rule" in extra else rule(finding)
    if finding["type"] == "value_error":
        return f"{quote(key)} {text}"
    return f"{quote(key)} is {quote(finding['input'], 60)}; {text}"


_LISTED: dict[str, type[BaseModel]] = {
    "cells": CellTable,
    "adjust": AdjustTable,
    "protocols": VariantTable,
    "scales": VariantTable,
    "figures": FigureTable,
}


def _home(steps: list[str]) -> type[BaseModel]:
    """The table that holds a key, by the steps that lead to it."""
    return _LISTED.get(steps[0], StudyTable) if steps else StudyTable


# --- values as TOML writes them within one line, and values read from such text


def toml_text(value: Any) -> str:
    """A value as `--set key=...` reads it back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {toml_text(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_text(item) for item in value) + "]"
    return repr(value) if isinstance(value, float) else str(value)


def plain_text(value: Any) -> str:
    """A value for people: as TOML, texts without their quotes."""
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else toml_text(value)


def _key(name: Any) -> str:
    text = str(name)
    return text if text.replace("_", "").replace("-", "").isalnum() and text.isascii() else json.dumps(text)


def parse_values(text: str) -> list[Any]:
    """The values of a list without brackets, `0.5,1,inf` or `iid,{ kind = 'dirichlet', concentration = 0.1 }`."""
    return [parse_value(part.strip()) for part in _split(text) if part.strip()]


def _split(text: str) -> list[str]:
    """Cut at commas, but not within brackets or quotes."""
    parts, closing, mark = [""], [], ""
    for character in text:
        if mark:
            mark = "" if character == mark else mark
        elif character in "'\"":
            mark = character
        elif character in _PAIRS:
            closing.append(_PAIRS[character])
        elif closing and character == closing[-1]:
            closing.pop()
        elif character == "," and not closing:
            parts.append("")
            continue
        parts[-1] += character
    return parts
