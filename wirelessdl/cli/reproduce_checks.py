"""What a study file asks of its results, checked before anything runs: figures, and references of differences.

The study is taken as if all its runs had finished, with 1 for every figure that a run may have. Columns, values and
roles are then looked up as they will be for the figures themselves.
"""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wirelessdl.analysis.families.learning import curves_asked_for
from wirelessdl.analysis.families.roles import Request, finished_rows, roles_of
from wirelessdl.analysis.families.words import labels_of
from wirelessdl.analysis.paired import require_reference
from wirelessdl.errors import StudyError, TraceError, shown
from wirelessdl.trace.schema import TABLES
from wirelessdl.trace.study import Study, with_epsilon
from wirelessdl.trace.study_index import Row, index_table

if TYPE_CHECKING:
    import pandas as pd

    from wirelessdl.scenario.schema import Scenario
    from wirelessdl.study.figure_tables import FigureTable
    from wirelessdl.study.plan import Plan
    from wirelessdl.study.reproduce import Reproduction

# scalars of summary.json; those of a run depend on its scenario
NUMBERS = (
    *("rounds", "nodes", "accuracy_mean", "accuracy_min", "accuracy_max", "epsilon_max", "delta", "epsilon_link_max"),
    *("violations", "epsilon_total", "epsilon_declared", "coalition", "pair_ratio", "epsilon_own_total"),
    *("epsilon_coalition_total", "epsilon_link_total", "delta_total", "time_s", "airtime_s", "energy_j"),
    *("attempts_mean", "outage_rate", "wall_s"),
)
TEXTS = ("scenario", "protocol", "unit", "promised", "adversary", "connectivity", "stopped")


class Rehearsal(Study):
    """A study as it will be."""

    def __init__(self, plan: "Plan"):
        super().__init__(Path(plan.name), {"name": plan.name, "varied": list(plan.varied)})
        self._plan = plan

    @cached_property
    def index(self) -> "pd.DataFrame":
        figures = {**dict.fromkeys(TEXTS, ""), **dict.fromkeys(NUMBERS, 1.0)}
        one_of_each = {planned.cell: planned for planned in self._plan.planned()}  # seeds and runs are alike
        rows = [Row(planned, "finished", None, figures) for planned in one_of_each.values()]
        return with_epsilon(index_table(self._plan.varied, rows).to_pandas(ignore_metadata=True))


def require_drawable(one: "Reproduction") -> None:
    """Raise one line for the first figure, or reference of differences, that finished runs would not have."""
    study = Rehearsal(one.plan)
    for figure in one.figures:
        try:
            _require_figure(study, one.plan, figure)
        except TraceError as error:
            raise StudyError(f"{shown(one.name)}: figure {shown(figure.name)}: {error}") from None
    for reference in one.differences:
        try:
            require_reference(study, reference)
        except TraceError as error:
            raise StudyError(f"{shown(one.name)}: study.differences: {error}") from None


def _require_figure(study: Study, plan: "Plan", figure: "FigureTable") -> None:
    if figure.kind != "plot":
        _require_theorem(study, plan, figure.kind)
        return
    request = Request(figure.x, figure.y, figure.series, figure.style, figure.facet, figure.where)
    labels_of(figure.labels, study, [*map(str, study.index.columns), *TABLES["rounds"].names])
    if figure.curves is not None:
        curves_asked_for(study, request, figure.curves)
    else:
        roles_of(study, finished_rows(study, request.where), request)


def _require_theorem(study: Study, plan: "Plan", kind: str) -> None:
    """What runs must have for the figure of a theorem."""
    for cell in plan.cells:
        problem = _missing(kind, plan.scenario(cell, plan.seeds[0], plan.runs[0]))
        if problem:
            raise TraceError(f"cell {cell.title}: {problem}")
    if kind == "leakage":  # drawn over the first key
        if not study.varied:
            raise TraceError(f'kind = "{kind}" is drawn over the first key that the study varies, and it varies none')
        roles_of(study, finished_rows(study, ()), Request(study.varied[0]))


def _missing(kind: str, scenario: "Scenario") -> str:
    if kind == "regret":
        return "" if scenario.learning.regret else f'kind = "{kind}" needs learning.regret = true'
    if scenario.silent:
        return f'kind = "{kind}" needs links, and there are none; local = false leaves the baseline out'
    if kind == "minima":
        return "" if scenario.learning.model.name == "ridge" else f'kind = "{kind}" needs learning.model = "ridge"'
    return "" if scenario.trace.links in ("all", "auto") else f'kind = "{kind}" needs trace.links = "all"'
