"""What `wirelessdl reproduce` writes of a study (means, runs, paired differences, figures), and what it checks before.

Figures and references of differences are checked before anything runs: the study is taken as if all its runs had
finished, with 1 for every figure that a run may have. Columns, values and roles are then looked up as they will be for
the figures themselves.
"""

import shlex
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wirelessdl.analysis.families import Request, curves_asked_for, finished_rows, roles_of
from wirelessdl.analysis.labels import labels_of
from wirelessdl.analysis.study_tables import require_reference
from wirelessdl.errors import StudyError, TraceError, shown
from wirelessdl.trace.schema import TABLES
from wirelessdl.trace.study import Row, Study, index_table, open_study, with_epsilon

if TYPE_CHECKING:
    import pandas as pd

    from wirelessdl.study.plan import Plan
    from wirelessdl.study.reproduce import Reproduction
    from wirelessdl.study.study_file import FigureTable

# scalars of summary.json; those of a run depend on its scenario
NUMBERS = (
    *("rounds", "nodes", "accuracy_mean", "accuracy_min", "accuracy_max", "epsilon_max", "delta", "epsilon_link_max"),
    *("violations", "epsilon_total", "epsilon_declared", "coalition", "pair_ratio", "epsilon_own_total"),
    *("epsilon_coalition_total", "epsilon_link_total", "delta_total", "time_s", "airtime_s", "energy_j"),
    *("rounding_share", "energy_nominal_j", "amplified", "attempts_mean", "outage_rate", "wall_s"),
)
TEXTS = (
    "scenario",
    "protocol",
    "unit",
    "promised",
    "adjacency",
    "epsilon_status",
    "adversary",
    "connectivity",
    "stopped",
)


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
            _require_figure(study, figure)
        except TraceError as error:
            raise StudyError(f"{shown(one.name)}: figure {shown(figure.name)}: {error}") from None
    for reference in one.differences:
        try:
            require_reference(study, reference)
        except TraceError as error:
            raise StudyError(f"{shown(one.name)}: study.differences: {error}") from None


def _require_figure(study: Study, figure: "FigureTable") -> None:
    request = Request(figure.x, figure.y, figure.series, figure.style, figure.facet, figure.where)
    labels_of(figure.labels, study, [*map(str, study.index.columns), *TABLES["rounds"].names])
    if figure.curves is not None:
        curves_asked_for(study, request, figure.curves)
    else:
        roles_of(study, finished_rows(study, request.where), request)


def write_outputs(folder: Path, one: "Reproduction") -> Iterator[Path]:
    """Write the files of a study beside its directory; yields each."""
    from wirelessdl.analysis.study_tables import cell_differences, cell_means, csv_text, run_figures, run_table
    from wirelessdl.trace.files import write_text

    study = open_study(folder / one.name)
    rows = run_figures(study)
    tables = {"": cell_means(study, rows), "-runs": run_table(study, rows)}
    if one.differences:
        tables["-differences"] = cell_differences(study, one.differences)
    for ending, frame in tables.items():
        path = folder / f"{one.name}{ending}.csv"
        write_text(path, csv_text(frame))
        yield path
    yield from _figures(folder, one)


def _figures(folder: Path, one: "Reproduction") -> Iterator[Path]:
    study = open_study(folder / one.name)
    for figure in one.figures:
        path = folder / f"{one.name}-{figure.name}.pdf"
        _plot(study, figure, path)
        yield path


def _plot(study: "Study", figure: "FigureTable", path: Path) -> None:
    from wirelessdl.analysis.figures.study import draw_study

    request = Request(figure.x, figure.y, figure.series, figure.style, figure.facet, figure.where)
    try:
        draw_study(
            study,
            request,
            path,
            curves_against=figure.curves,
            size=figure.size,
            logx=figure.logx,
            labels=figure.labels,
            command=shlex.join(["wirelessdl", *sys.argv[1:]]),
        )
    except TraceError as error:
        raise TraceError(f"figure {figure.name}: {error}") from None
