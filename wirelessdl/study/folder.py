"""The directory of a study: its manifest, and changes since it began.

study.json is written before anything runs. What decides results stands in it: the base scenario's hash, every cell's
overrides, seeds, runs, threads of each run, versions, the hashes of the user's files.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomli_w

from wirelessdl.errors import ScenarioError, StudyError, TraceError, WirelessdlError, quote
from wirelessdl.scenario.loader import load_scenario, parse_scenario, read_table
from wirelessdl.study.plan import Cell, Plan
from wirelessdl.trace.files import (
    LOCK,
    leaves,
    plain,
    remove_asides,
    remove_left_report,
    require_outside,
    write_json,
    write_text,
)
from wirelessdl.trace.provenance import now, versions
from wirelessdl.trace.study import (
    MANIFEST,
    RUNS,
    SCENARIO,
    SCHEMA,
    read_manifest,
    sealed,
)

_DOCUMENTS = r"study\.json|scenario\.toml|index\.parquet"  # written under the study's lock
_ASIDE = re.compile(rf"\.(?:{_DOCUMENTS})\.[0-9a-f]{{8}}")


def require_free(folder: Path, plan: Plan) -> None:
    """Raise unless a study may be made in this folder: it is not there yet, or empty but for what the same one left.

    A sweep that is killed before its manifest is written leaves a lock, its scenario and no run.
    """
    require_outside(folder)
    if (folder / MANIFEST).is_file():
        name = quote(read_manifest(folder).get("name"), 60)
        raise StudyError(
            f"--out is {quote(folder)}; the study {name} is there already: go on with it by --resume {quote(folder)}, "
            "or choose another folder"
        )
    try:
        if folder.exists() and (not folder.is_dir() or not all(_is_left(path, plan) for path in folder.iterdir())):
            what = "is not empty" if folder.is_dir() else "is a file"
            raise StudyError(f"--out is {quote(folder)}; {what}, and no study: choose another folder")
    except OSError as error:
        raise StudyError(f"--out is {quote(folder)}; cannot be read: {error.strerror}") from None


def _is_left(path: Path, plan: Plan) -> bool:
    """Whether writing this study anew would change nothing of a file or folder, but for files aside."""
    if path.name == LOCK or _ASIDE.fullmatch(path.name):
        return True
    if path.is_symlink():
        return False
    if path.name == SCENARIO:
        return path.is_file() and path.read_bytes() == _scenario_text(plan).encode()
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
        raise StudyError(f"--out is {quote(folder)}; cannot be made: {error.strerror}: choose another folder") from None


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
            "created": now(),
        }
    )
    write_json(folder / MANIFEST, sealed(content))


def read_plan(folder: Path) -> tuple[Plan, dict[str, Any]]:
    """The plan of a study, and its manifest; raises one line where it was changed."""
    manifest = read_manifest(folder)
    try:
        text = (folder / SCENARIO).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{quote(folder / SCENARIO)}: cannot be read: {quote(error)}") from None
    if _digest(text) != manifest.get("scenario_sha256"):
        raise StudyError(
            f"{quote(folder / SCENARIO)}: was changed since the study began; restore it, or start a new study"
        )
    try:
        home = str(manifest["folder"])
        table = read_table(folder / SCENARIO)
        base = parse_scenario(table, origin=str(manifest["scenario"]), folder=home)
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
        raise StudyError(f"{quote(folder / MANIFEST)}: was edited: {quote(repr(error), 80)}; restore it") from None
    if len(set(names)) < len(names) or any(".." in name or name.count("/") != 1 for name in names):
        raise StudyError(f"{quote(folder / MANIFEST)}: was edited: its runs share a directory; restore it")
    return plan, manifest


def refuse_changes(folder: Path, plan: Plan, manifest: Mapping[str, Any], *, force: bool) -> None:
    """Raise where the scenario's file, or a version, is no longer what the study began with."""
    changed = _changed_source(plan)
    if changed:
        raise StudyError(
            f"{quote(folder)}: cannot go on: {quote(plan.source)} was changed since: {changed}; restore it, or start a "
            "new study"
        )
    differs = first_difference(manifest.get("versions", {}), versions())
    if differs and not force:
        raise StudyError(
            f"{quote(folder)}: cannot go on as it was: {differs}; --force goes on, but not to bit-identical tables"
        )


def _changed_source(plan: Plan) -> str:
    """Where the scenario file differs from the study's scenario; empty where it does not, or there is no file."""
    file = Path(plan.cwd) / plan.source
    try:
        found = load_scenario(file if file.is_file() else plan.source, overrides=plan.overrides)
    except WirelessdlError as error:
        return quote(error) if isinstance(error, ScenarioError) and file.is_file() else ""
    return first_difference(plan.base.to_table(), found.to_table())


def first_difference(before: Mapping[str, Any], today: Mapping[str, Any], words: str = "{} was {}, is {}") -> str:
    """The first key in which two tables differ, and both its values in short; empty where there is none."""
    one, other = (dict(leaves(plain(table))) for table in (before, today))
    for key in sorted({*one, *other}):
        if one.get(key) != other.get(key):
            return words.format(key, quote(one.get(key), 40), quote(other.get(key), 40))
    return ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
