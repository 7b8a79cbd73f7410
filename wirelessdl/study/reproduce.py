"""Studies to reproduce: a study file at a scale, once for each protocol.

    smoke   one seed and few rounds, to see that everything runs
    cpu     what the file says: for two cores of any machine
    paper   the size of the published figure, if the file gives it

A file's changes come in this order: its own keys, the protocol's, the scale's. A file without scales has smoke, with
one seed and 20 rounds, and cpu. Each run has one thread, whatever the number of jobs: results then do not depend on it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wirelessdl.errors import ScenarioError, StudyError, nearest, quote
from wirelessdl.scenario.loader import share_folder
from wirelessdl.scenario.overrides import parse_value
from wirelessdl.study import Listener
from wirelessdl.study.engine import Options, Result, never, resume_in, start_in
from wirelessdl.study.folder import read_plan
from wirelessdl.study.plan import Plan, make_plan
from wirelessdl.study.study_file import (
    FigureTable,
    StudySpec,
    StudyTable,
    VariantTable,
    find_study,
    overrides_of,
    read_study,
    read_study_table,
)
from wirelessdl.trace.study import is_study

# what `all` stands for
PAPER = (
    *("fig2", "fig3", "fig4", "fig5", "fig6", "theorem1", "theorem2"),
    *("bias", "alpha", "thermal", "stopping", "ablation"),
)
THREADS = 1
_TABLES = ("runs", "differences")  # endings of files that are no figure's
SMOKE = VariantTable(set={"scenario.rounds": 20}, seeds=1)


@dataclass(frozen=True)
class Reproduction:
    """One study to run: its plan, the figures to draw of it, the references of its paired differences."""

    name: str
    plan: Plan
    figures: tuple[FigureTable, ...]
    differences: tuple[str, ...]


def bundled_studies() -> dict[str, Path]:
    """Study files that are shipped, by name."""
    return {path.stem: path for path in sorted((share_folder() / "scenarios" / "studies").glob("*.toml"))}


def with_scale(scale: str) -> list[str]:
    """What `all` stands for at a scale: studies of the paper's claims that are no figures have no scale paper."""
    files = bundled_studies()
    return [name for name in PAPER if scale != "paper" or "paper" in read_study_table(files[name]).scales]


def reproductions(
    name: str, scale: str, protocol: str = "both", seeds: int | None = None, device: str = "auto"
) -> list[Reproduction]:
    """The studies that a file, or a bundled name, stands for: one for each protocol that it has."""
    file = find_study(name)
    if file is None:
        hint = nearest(name, bundled_studies()) if not Path(name).is_file() else "; it has no table [study]"
        raise StudyError(f"{quote(name)}: no figure or study file of this name{hint}")
    spec = read_study(file)
    table, title = spec.table, spec.table.name
    known = table.protocols or {"": VariantTable()}
    chosen = [one for one in known if protocol in ("both", one) or not one]
    if not chosen:
        raise StudyError(f"--protocol is {quote(protocol)}; {quote(title)} has {', '.join(map(quote, known))}")
    _require_figures(file, table)
    change = _scale(table.scales, scale, title)
    found = []
    for one in chosen:
        whole = _changed(_changed(spec, known[one], title), change, title)
        asked = {"name": f"{title}-{one}" if one else title, "seeds": whole.table.seeds if seeds is None else seeds}
        whole = replace(whole, table=whole.table.model_copy(update=asked))
        figures = tuple(figure for figure in table.figures if figure.protocols is None or one in figure.protocols)
        try:
            plan = replace(make_plan(whole, device=device), threads=THREADS)
        except ScenarioError as error:  # a key of the file, more often than one of the scenario
            raise StudyError(f"{quote(file)}: {error}") from None
        found.append(Reproduction(plan.name, plan, figures, _references(table, plan)))
    return found


def _require_figures(file: Path, table: StudyTable) -> None:
    """Figures have names of their own, so that none replaces data of another, and are of protocols that there are."""
    names = [figure.name for figure in table.figures]
    for figure in table.figures:
        for one in figure.protocols or ():
            if one not in table.protocols:
                raise StudyError(
                    f"{quote(file)}: figure {quote(figure.name)} names the protocol {quote(one)}, none of the study"
                    f"{nearest(one, table.protocols)}"
                )
    for name in names:
        if name in _TABLES or names.count(name) > 1:
            what = "a table of every study" if name in _TABLES else "another figure of it"
            raise StudyError(f"{quote(file)}: study.figures names {quote(name)}, the name of {what}; choose another")


def _references(table: StudyTable, plan: Plan) -> tuple[str, ...]:
    """References of differences without those that a scale leaves out: named cells, and values of the grid."""

    def left_out(reference: str) -> bool:
        key, equals, text = reference.partition("=")
        if not equals:
            return reference in {cell.name for cell in table.cells} - {cell.name for cell in plan.cells}
        full = next((one for one in plan.varied if key in (one, one.rpartition(".")[2])), key)
        value = parse_value(text)
        return value in table.grid.get(full, ()) and value not in [cell.values.get(full) for cell in plan.cells]

    return tuple(reference for reference in table.differences if not left_out(reference))


def _scale(scales: Mapping[Any, VariantTable], scale: str, title: str) -> VariantTable:
    if scale in scales:
        return scales[scale]
    if scale == "paper":
        raise StudyError(f"--scale is paper; {quote(title)} has no table [study.scales.paper]: use cpu, or add it")
    return SMOKE if scale == "smoke" else VariantTable()


def _changed(spec: StudySpec, change: VariantTable, title: str) -> StudySpec:
    table = spec.table
    for key in change.grid:
        if key not in table.grid:
            raise StudyError(f"{quote(title)}: {quote(key)} is no key of its grid; other values need one")
    names = [cell.name for cell in table.cells]
    for name in change.only or ():
        if name not in names:
            raise StudyError(f"{quote(title)}: only names {quote(name)}, no cell of it{nearest(name, names)}")
    changes = {
        "grid": {key: change.grid.get(key, values) for key, values in table.grid.items()},
        "cells": [cell for cell in table.cells if change.only is None or cell.name in change.only],
        "seeds": table.seeds if change.seeds is None else change.seeds,
    }
    return StudySpec(table.model_copy(update=changes), (*spec.overrides, *overrides_of(change.set)))


def run_study(
    folder: Path, plan: Plan, options: Options, listener: Listener, should_stop: Callable[[], bool] = never
) -> Result:
    """Start a study in a folder, or go on with it where it is there already."""
    if not is_study(folder):
        return start_in(folder, plan, options, listener, should_stop)
    require_same(folder, plan)
    return resume_in(folder, options, listener, should_stop)


def require_same(folder: Path, plan: Plan) -> None:
    """Raise where a folder holds another study than the one asked for."""
    there, _ = read_plan(folder)
    for what in ("cells", "seeds", "runs", "threads"):
        if _comparable(there, what) != _comparable(plan, what):
            raise StudyError(f"{quote(folder)}: holds a study with other {what}; choose another --out")
    if there.base.to_table() != plan.base.to_table():
        raise StudyError(f"{quote(folder)}: holds a study of another scenario; choose another --out")


def _comparable(plan: Plan, what: str) -> Any:
    """A part of a plan as far as it decides what runs; values of cells are in their overrides, and JSON has no inf."""
    if what == "cells":
        return [(cell.cell, cell.name, cell.baseline, cell.overrides) for cell in plan.cells]
    return getattr(plan, what)
