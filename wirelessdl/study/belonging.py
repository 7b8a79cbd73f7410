"""Whether a finished run in a study's folder is the run that the study planned there.

Compared are the scenario's own values: seed, run, number of nodes, every key that is no part, and the parameters of
parts that the study varies. What a resumed run may change (its rounds, tracing, evaluations) may differ, unless the
study varies it.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wirelessdl.errors import shown
from wirelessdl.study.plan import Plan
from wirelessdl.trace.files import leaves, plain, read_regular
from wirelessdl.trace.study_index import SCENARIO, PlannedRun

_MAY_DIFFER = ("scenario.rounds", "scenario.description", "trace.", "learning.eval_every", "learning.eval_samples")


class Belonging:
    """Compares runs with a plan; the values of a cell are worked out once."""

    def __init__(self, folder: Path, plan: Plan):
        self._folder, self._plan = folder, plan
        self._cells = {cell.cell: cell for cell in plan.cells}
        self._values: dict[str, dict[str, Any]] = {}

    def problem(self, planned: PlannedRun) -> str | None:
        """The first key in which a stored scenario is not the cell's; None where there is none."""
        try:
            table = tomllib.loads(read_regular(self._folder / planned.path / SCENARIO).decode())
            stored = _values(table, self._plan.varied)
        except (OSError, ValueError, RecursionError) as error:
            return f"{SCENARIO} cannot be read: {shown(error)}"
        wanted = {**self._of(planned), "scenario.seed": planned.seed, "scenario.run": planned.run}
        for key, value in wanted.items():
            if key in stored and stored[key] != value:
                return (
                    f"is a run of another study: {key} is {shown(stored[key], 40)}, {shown(value, 40)} in this one; "
                    "move it away to have it run"
                )
        return None

    def _of(self, planned: PlannedRun) -> dict[str, Any]:
        if planned.cell not in self._values:
            scenario = self._plan.scenario(self._cells[planned.cell], planned.seed, planned.run)
            varied = self._plan.varied
            self._values[planned.cell] = {
                key: value
                for key, value in _values(scenario.to_table(), varied).items()
                if key in varied or not key.startswith(_MAY_DIFFER)
            }
        return self._values[planned.cell]


def _values(table: dict[str, Any], varied: Iterable[str]) -> dict[str, Any]:
    """Values by section.key, without parts: a run spells those out, a cell need not; of these what is varied."""
    table = plain(table)
    values = {key: value for key, value in leaves(table) if key.count(".") == 1 and not isinstance(value, list)}
    inner = {key: _within(table, key.split(".")) for key in varied if key.count(".") > 1}
    return values | {key: value for key, value in inner.items() if value is not None}


def _within(table: Any, steps: list[str]) -> Any:
    """The single value at a path through tables and lists; None where there is none."""
    for step in steps:
        if isinstance(table, list) and step.isdecimal() and int(step) < len(table):
            table = table[int(step)]
        elif isinstance(table, dict) and step in table:
            table = table[step]
        else:
            return None
    return None if isinstance(table, dict | list) else table
