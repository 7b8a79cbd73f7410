"""A study as planned: its manifest, its directory, and whether both are still the same when it goes on.

study.json is written before anything runs. What decides results stands in it: the base scenario's hash, every cell's
overrides, seeds, runs, threads of each run, versions, the hashes of the user's files.
"""

import hashlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli_w

from wirelessdl.errors import ScenarioError, StudyError, TraceError, WirelessdlError, shown
from wirelessdl.scenario.loader import load_scenario, parse_scenario, read_table
from wirelessdl.scenario.objects import Given
from wirelessdl.scenario.part import MODELS, Catalog, Model, UserFile
from wirelessdl.scenario.schema import Scenario
from wirelessdl.study.cells import MOST_RUNS, Cell, StudySpec, cell_scenario, make_cells
from wirelessdl.trace.files import (
    LOCK,
    leaves,
    own_folder,
    plain,
    read_regular,
    remove_asides,
    remove_left_report,
    require_outside,
    sha256_of,
    write_json,
    write_text,
)
from wirelessdl.trace.provenance import now, versions
from wirelessdl.trace.study import MANIFEST, RUNS, SCENARIO, SCHEMA, PlannedRun, read_manifest, sealed

_DOCUMENTS = r"study\.json|scenario\.toml|index\.parquet"  # written under the study's lock
_ASIDE = re.compile(rf"\.(?:{_DOCUMENTS})\.[0-9a-f]{{8}}")


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
    def parcels(self) -> tuple[bytes, ...]:
        """Parts that Python handed in, pickled for worker processes; raises for one that cannot leave this one."""
        return tuple(_pickled(given) for given in self.base.objects.values())

    def scenario(self, cell: Cell, seed: int, run: int) -> Scenario:
        return cell_scenario(self.base, cell, seed, run)


def _pickled(given: Given) -> bytes:
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
            f"{given.class_name} cannot be sent to worker processes: {type(error).__name__}: {shown(error, 120)}; give "
            f"functools.partial({given.class_name}, ...) instead of an object, and let it open what it needs when used"
        ) from None
    finally:
        if module is not None:
            cloudpickle.unregister_pickle_by_value(module)


def _working_folder() -> str:
    """Where workers look for files that a scenario names."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise StudyError("the working folder is not there any more; change to one that is") from None


def make_plan(spec: StudySpec, *, threads: int = 1, device: str = "auto") -> Plan:
    """Read the scenario and work out every cell; each is checked against the schema, and named where it fails."""
    base = _base(spec)
    varied, cells = make_cells(spec, base)
    section = base.scenario
    seeds, runs = _numbers(spec.seeds, section.seed), _numbers(spec.runs, section.run)
    plan = Plan(
        spec.name or f"{section.name}-study",
        # a scenario that Python gave is no file to compare with when the study goes on
        base.origin.removesuffix(" (bundled)") if isinstance(spec.scenario, str) else f"{base.origin}, as given",
        spec.overrides,
        base,
        tuple(varied),
        tuple(cells),
        seeds,
        runs,
        _working_folder(),
        threads,
        device,
    )
    if len(plan) > MOST_RUNS:
        raise StudyError(f"the study has {len(plan):,} runs; at most {MOST_RUNS:,}: vary fewer values")
    for cell in cells:
        plan.scenario(cell, seeds[0], runs[0])
    _ = plan.parcels  # an object that cannot be sent is refused here
    return plan


def _base(spec: StudySpec) -> Scenario:
    if isinstance(spec.scenario, str):
        base = load_scenario(spec.scenario, overrides=spec.overrides)
    elif spec.overrides:
        cell = Cell("base", {}, spec.overrides)
        base = cell_scenario(spec.scenario, cell)
        base._origin = spec.scenario.origin
    else:
        base = spec.scenario
    base._folder = str(Path(base.folder).resolve()) if base.folder else ""
    return base


def _numbers(wanted: int | tuple[int, ...], first: int) -> tuple[int, ...]:
    """So many, counted from the scenario's own; or those that were named."""
    if isinstance(wanted, int):
        wanted = tuple(range(first, first + wanted))
    if max(wanted) >= 2**63:  # whole numbers of its index
        raise StudyError(
            f"seeds or runs reach {shown(max(wanted), 60)}; must be below 2^63 in a study: name lower ones"
        )
    if len(set(wanted)) < len(wanted):
        raise StudyError(f"seeds or runs {shown(list(wanted), 60)} name a number twice; every run is made once")
    return wanted


# --- the directory


def require_free(folder: Path, plan: Plan) -> None:
    """Raise unless a study may be made in this folder: it is not there yet, or empty but for what the same one left.

    A sweep that is killed before its manifest is written leaves a lock, its scenario, copies of classes and no run.
    """
    require_outside(folder)
    if (folder / MANIFEST).is_file():
        name = shown(read_manifest(folder).get("name"), 60)
        raise StudyError(
            f"--out is {shown(folder)}; the study {name} is there already: go on with it by --resume {shown(folder)}, "
            "or choose another folder"
        )
    try:
        if folder.exists() and (not folder.is_dir() or not all(_is_left(path, plan) for path in folder.iterdir())):
            what = "is not empty" if folder.is_dir() else "is a file"
            raise StudyError(f"--out is {shown(folder)}; {what}, and no study: choose another folder")
    except OSError as error:
        raise StudyError(f"--out is {shown(folder)}; cannot be read: {error.strerror}") from None


def _is_left(path: Path, plan: Plan) -> bool:
    """Whether writing this study anew would change nothing of a file or folder, but for files aside."""
    if path.name == LOCK or _ASIDE.fullmatch(path.name):
        return True
    if path.is_symlink():
        return False
    if path.name == SCENARIO:
        return path.is_file() and path.read_bytes() == _scenario_text(plan).encode()
    if path.name == MODELS:  # copies, named by their content
        return path.is_dir() and all(file.name[:12] == sha256_of(file)[:12] for file in path.iterdir())
    return path.name == RUNS and path.is_dir() and not any(path.iterdir())


def remove_left(folder: Path) -> None:
    """Remove what killed processes left half-written of a study's own files, and of its report; its lock is held."""
    remove_asides(folder, _DOCUMENTS)
    remove_left_report(folder)


def _scenario_text(plan: Plan) -> str:
    return tomli_w.dumps(plan.base.to_table())


def make_folder(folder: Path, within: str = "") -> None:
    """The folder of a study, or one within it."""
    try:
        (folder / within).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StudyError(f"--out is {shown(folder)}; cannot be made: {error.strerror}: choose another folder") from None


def write_plan(folder: Path, plan: Plan, user_files: Mapping[str, str]) -> None:
    """The manifest and the base scenario, before anything runs."""
    text = _scenario_text(plan)
    make_folder(folder, RUNS)
    write_text(folder / SCENARIO, text)
    content = plain(
        {
            "schema": SCHEMA,
            "name": plan.name,
            "scenario": plan.source,
            "scenario_sha256": _digest(text),
            "set": list(plan.overrides),
            "versions": versions(),
            "user_files": dict(user_files),
            "varied": list(plan.varied),
            "cells": [asdict(cell) for cell in plan.cells],
            "seeds": list(plan.seeds),
            "runs": list(plan.runs),
            "threads": plan.threads,
            "device": plan.device,
            "cwd": plan.cwd,
            "folder": plan.base.folder,
            **({"objects": _keep_objects(folder, plan.base.objects)} if plan.base.objects else {}),
            "created": now(),
        }
    )
    write_json(folder / MANIFEST, sealed(content))


def _keep_objects(folder: Path, objects: Mapping[str, Given]) -> dict[str, Any]:
    """Write sources of parts that Python handed in into a study; returns what its manifest says of them."""
    words: dict[str, Any] = {}
    for given in objects.values():
        words[given.name] = {"sha256": None, "why": given.why}
        if given.source is not None:
            file = UserFile.made(given.file_name, given.source)
            write_text(own_folder(folder / MODELS) / file.stored_name, given.source)
            words[given.name]["sha256"] = file.sha256
    return words


def _kept_objects(folder: Path, words: Mapping[str, Any]) -> dict[str, Given]:
    """Parts whose classes a study's copies of files define; raises where one of them was changed."""
    found, catalog = {}, Catalog(shown(folder), ())
    try:
        for name, said in words.items():
            if said["why"] or not re.fullmatch("[0-9a-f]{64}", str(said["sha256"])):
                continue
            file_name = name.rpartition(":")[0]
            path = folder / MODELS / UserFile(file_name, folder, said["sha256"]).stored_name
            content = read_regular(path)
            if hashlib.sha256(content).hexdigest() != said["sha256"]:
                raise StudyError(f"{shown(path)}: was changed since the study began; restore it, or start a new study")
            catalog.copies = {**catalog.copies, file_name: path}
            found[name] = Given(name, catalog.find("objects", Model.model_validate(name), {}), source=content.decode())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StudyError(f"{shown(folder)}: its objects cannot be read: {shown(error, 120)}; restore them") from None
    return found


def read_plan(folder: Path) -> tuple[Plan, dict[str, Any]]:
    """The plan of a study, and its manifest; raises one line where it was changed."""
    manifest = read_manifest(folder)
    try:
        text = (folder / SCENARIO).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{shown(folder / SCENARIO)}: cannot be read: {shown(error)}") from None
    if _digest(text) != manifest.get("scenario_sha256"):
        raise StudyError(
            f"{shown(folder / SCENARIO)}: was changed since the study began; restore it, or start a new study"
        )
    try:
        home = str(manifest["folder"])
        objects = _kept_objects(folder, manifest.get("objects") or {})
        table = read_table(folder / SCENARIO)
        base = parse_scenario(table, origin=str(manifest["scenario"]), folder=home, objects=objects)
        cells = tuple(
            Cell(one["cell"], dict(one["values"]), tuple(one["overrides"]), one["name"], one["baseline"])
            for one in manifest["cells"]
        )
        plan = Plan(
            str(manifest["name"]),
            str(manifest["scenario"]),
            tuple(manifest["set"]),
            base,
            tuple(manifest["varied"]),
            cells,
            tuple(manifest["seeds"]),
            tuple(manifest["runs"]),
            str(manifest["cwd"]),
            int(manifest["threads"]),
            str(manifest["device"]),
        )
        names = [run.path for run in plan.planned()]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StudyError(f"{shown(folder / MANIFEST)}: was edited: {shown(repr(error), 80)}; restore it") from None
    if len(set(names)) < len(names) or any(".." in name or name.count("/") != 1 for name in names):
        raise StudyError(f"{shown(folder / MANIFEST)}: was edited: its runs share a directory; restore it")
    return plan, manifest


def refuse_changes(folder: Path, plan: Plan, manifest: Mapping[str, Any], *, force: bool) -> None:
    """Raise where the scenario's file, or a version, is no longer what the study began with."""
    changed = _changed_source(plan)
    if changed:
        raise StudyError(
            f"{shown(folder)}: cannot go on: {shown(plan.source)} was changed since: {changed}; restore it, or start a "
            "new study"
        )
    before, today = dict(leaves(manifest.get("versions", {}))), dict(leaves(versions()))
    differing = [key for key in sorted({*before, *today}) if before.get(key) != today.get(key)]
    if differing and not force:
        key = differing[0]
        raise StudyError(
            f"{shown(folder)}: cannot go on as it was: {key} was {shown(before.get(key), 40)}, is "
            f"{shown(today.get(key), 40)}; --force goes on, but not to bit-identical tables"
        )


def _changed_source(plan: Plan) -> str:
    """The first key in which the scenario file differs from the study's scenario; empty where none, or no file."""
    file = Path(plan.cwd) / plan.source
    source: str | Path = file if file.is_file() else plan.source
    try:
        found = load_scenario(source, overrides=plan.overrides)
    except ScenarioError as error:
        return shown(error) if file.is_file() else ""
    except WirelessdlError:
        return ""
    stored, today = (dict(leaves(plain(scenario.to_table()))) for scenario in (plan.base, found))
    for key in sorted({*stored, *today}):
        if stored.get(key) != today.get(key):
            return f"{key} was {shown(stored.get(key), 40)}, is {shown(today.get(key), 40)}"
    return ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
