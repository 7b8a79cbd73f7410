"""Scenarios from TOML files, bundled names and overrides.

A mistake is one line: file, key, value, rule, remedy.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from wirelessdl.errors import ScenarioError, nearest, quote, require_name
from wirelessdl.scenario.objects import UserPart, part_overrides
from wirelessdl.scenario.overrides import LONG_NUMBER, Overrides, apply_overrides, baseline_overrides, has_long_number
from wirelessdl.scenario.part import Catalog, Part, stored_copies
from wirelessdl.scenario.schema import Scenario
from wirelessdl.scenario.section import explain, rule

_MAX_BYTES = 10_000_000  # bytes of a scenario file
_MAX_DEPTH = 20  # tables and lists within each other


def require_flat(table: Any, where: str, depth: int = 0) -> None:
    """Raise unless tables and lists are nested as a scenario may need, and no more."""
    if depth > _MAX_DEPTH:
        raise ScenarioError(f"{where}: tables are nested more than {_MAX_DEPTH} deep; a scenario has sections and keys")
    children = table.values() if isinstance(table, dict) else table if isinstance(table, list) else ()
    for child in children:
        require_flat(child, where, depth + 1)


def share_folder() -> Path:
    """Where bundled scenarios and channel models live: inside the wheel, or the checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_share"
    return installed if installed.is_dir() else package.parent


def cache_folder() -> Path:
    """$WIRELESSDL_DATA, else wirelessdl in the user's cache folder."""
    own = os.environ.get("WIRELESSDL_DATA")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "wirelessdl"


def bundled_scenarios() -> dict[str, Path]:
    """Bundled scenario files by name."""
    return {path.stem: path for path in sorted((share_folder() / "scenarios").glob("*.toml"))}


def load_scenario(path: str | Path, *, overrides: Overrides = (), baseline: str | None = None) -> Scenario:
    """Read a scenario file, or a bundled scenario by name, and apply overrides.

    overrides: values by key, `{"privacy.epsilon_max": 2}`, or texts, `["privacy.epsilon_max=2"]`. A value may be an
    object wherever a scenario names a part: `{"network.mobility": Bus()}`.
    baseline: the name of one of `BASELINES`, applied before the overrides; the scenario is then called after it, too.
    """
    file = _locate(path)
    table = read_table(file)
    origin = str(path) if Path(path) == file else f"{path} (bundled)"
    objects: dict[str, UserPart] = {}
    if baseline is not None:
        plain, folder = deepcopy(table), str(file.parent)
        overrides_of = baseline_overrides(baseline, lambda: parse_scenario(plain, origin=str(path), folder=folder))
        origin = f"{origin} with baseline {quote(baseline, 40)}"
        _rename(table, baseline)
        apply_overrides(table, overrides_of, objects)
    apply_overrides(table, overrides, objects)
    return parse_scenario(table, origin=origin, folder=str(file.parent), objects=objects)


def replaced(scenario: Scenario, overrides: Overrides, parts: Mapping[str, Any]) -> Scenario:
    """A scenario with other values and parts; see `Scenario.replace`."""
    table, objects = scenario.to_table(), dict(scenario.objects)
    apply_overrides(table, overrides, objects)
    apply_overrides(table, part_overrides(parts), objects)
    return parse_scenario(table, origin=scenario.origin, folder=scenario.folder, objects=objects)


def _rename(table: dict[str, Any], baseline: str) -> None:
    """The name of a scenario with its baseline, so that run directories can be told apart."""
    section = table.get("scenario")
    if isinstance(section, dict) and isinstance(section.get("name"), str):
        section["name"] = f"{section['name'][: 99 - len(baseline)]}-{baseline}"


def parse_scenario(
    table: dict[str, Any], *, origin: str = "scenario", folder: str = "", objects: Mapping[str, UserPart] | None = None
) -> Scenario:
    """A checked scenario from nested tables. objects: what names in it stand for, where Python handed parts in."""
    try:
        scenario = Scenario.model_validate(table)
    except ValidationError as error:
        raise ScenarioError(f"{origin}: {quote(_first_finding(error, table), 4000)}") from None
    scenario._origin = origin
    scenario._folder = folder
    scenario._objects = dict(objects or {})
    return scenario


def catalog_for(scenario: Scenario, extra_folders: tuple[Path, ...] = (), run: Path | None = None) -> Catalog:
    """Looks for user files in the working folder, the scenario's, its parent, among the bundled, then a run's copies.

    extra_folders: where files lay when the run that is resumed began. run: its directory; without one, the scenario's
    own folder may be a run directory.
    """
    folders = []
    with suppress(FileNotFoundError):  # one that is gone holds nothing
        folders.append(Path.cwd())
    if scenario.folder:
        home = Path(scenario.folder)
        folders += [home, home.parent]
    copies = stored_copies(run or Path(scenario.folder)) if run or scenario.folder else {}
    return Catalog(scenario.origin, (*folders, share_folder(), *extra_folders), copies, scenario.objects)


def _locate(path: str | Path) -> Path:
    require_name(path, ScenarioError)
    file = Path(path)
    if file.is_file():
        return file
    bundled = bundled_scenarios()
    if str(path) in bundled:
        return bundled[str(path)]
    if file.is_dir():
        raise ScenarioError(f"{quote(path)}: is a folder; name a scenario file in it")
    raise ScenarioError(
        f"{quote(path)}: no such file, and no bundled scenario of that name{nearest(file.stem, bundled)}"
    )


def read_table(file: Path) -> dict[str, Any]:
    """The nested tables of a TOML file, of a size and depth that a scenario may have."""
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise ScenarioError(
                f"{quote(file)}: has {file.stat().st_size:,} bytes; a scenario has at most {_MAX_BYTES:,}"
            )
        table = tomllib.loads(file.read_text(encoding="utf-8-sig"))  # some editors put a mark in front
        require_flat(table, quote(file))
        if has_long_number(table):
            raise ScenarioError(f"{quote(file)}: {LONG_NUMBER}")
        return table
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{quote(file)}: not TOML: {quote(error)}") from None
    except RecursionError:
        raise ScenarioError(f"{quote(file)}: tables are nested too deeply; a scenario has sections and keys") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{file}: not a text file in UTF-8") from None
    except ValueError:  # Python reads no number of more digits
        raise ScenarioError(f"{quote(file)}: {LONG_NUMBER}") from None
    except OSError as error:
        raise ScenarioError(f"{file}: cannot be read: {error.strerror}") from None


def _first_finding(error: ValidationError, table: dict[str, Any]) -> str:
    findings = error.errors(include_url=False)
    # a misspelt key is reported rather than the missing one that it was meant to be
    finding = next((f for f in findings if f["type"] == "extra_forbidden"), findings[0])
    location = _written(table, _location(finding["loc"]))
    key = ".".join(location)
    model = _model_at(location[:-1])
    within = model is not None and location[-1:] != list(finding["loc"][-1:]) and location[-1] in model.model_fields
    if finding["type"] == "extra_forbidden" and not within:  # within a table of a key, its rule says what may be there
        return f"unknown key {key}{_suggest(location, model)}"
    if finding["type"] == "missing" and not within:
        what = f"section [{key}]" if len(location) == 1 else f"key {key}"
        return f"missing {what}; add it"
    if not location:
        return rule(finding)
    field = model.model_fields.get(location[-1]) if model is not None else None
    extra = field.json_schema_extra if field is not None else None
    here = (f for f in findings if _location(f["loc"])[: len(location)] == location)
    text = extra["rule"] if isinstance(extra, dict) and "rule" in extra else explain(here)
    return f"{key} is {_format_value(_look_up(table, location))}; {text}"


def _location(loc: Iterable[Any]) -> list[str]:
    """Keys of a finding, without the names pydantic gives to alternatives of a union."""
    location: list[str] = []
    for step in loc:
        model = _model_at(location)
        if isinstance(step, int) or model is None or step in model.model_fields or len(location) < 2:
            if model is not None and not isinstance(step, int) and issubclass(model, Part):
                break
            location.append(str(step))
    return location[:2] if len(location) > 2 and not location[2].isdigit() else location


def _model_at(location: Sequence[str]) -> type[BaseModel] | None:
    model: type[BaseModel] = Scenario
    for step in location:
        field = model.model_fields.get(step)
        annotation = field.annotation if field is not None else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return None
        model = annotation
    return model


def _suggest(location: list[str], model: type[BaseModel] | None) -> str:
    """The nearest key of the section; failing that, the section that has the key."""
    last = location[-1]
    known = {} if model is None else model.model_fields
    hint = nearest(last, known)
    if hint.startswith("; did you mean"):
        return f"; did you mean {'.'.join([*location[:-1], hint.removeprefix('; did you mean ')])}"
    for section, field in Scenario.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and last in annotation.model_fields:
            return f"; did you mean {section}.{last}?"
    return hint


def _written(table: Any, location: list[str]) -> list[str]:
    """A location as far as a file goes: one part may stand for a list of one, and pydantic looks into keys."""
    for depth, step in enumerate(location):
        if not isinstance(table, list | dict) or (isinstance(table, dict) and step.isdigit() and step not in table):
            return location[:depth]
        table = table[int(step)] if isinstance(table, list) else table.get(step, {})
    return location


def _look_up(table: Any, location: Iterable[str]) -> Any:
    for step in location:
        table = table[int(step)] if isinstance(table, list) else table.get(step)
    return table


def _format_value(value: Any) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return quote(text)
