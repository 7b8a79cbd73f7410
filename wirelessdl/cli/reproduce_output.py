"""What `wirelessdl reproduce` writes of a study: means, runs, paired differences, figures."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wirelessdl.errors import TraceError

if TYPE_CHECKING:
    from wirelessdl.study.figure_tables import FigureTable
    from wirelessdl.study.reproduce import Reproduction
    from wirelessdl.trace.study import Study


def write_outputs(folder: Path, one: "Reproduction") -> Iterator[Path]:
    """Write the files of a study beside its directory; yields each."""
    from wirelessdl.analysis.cell_means import cell_differences, cell_means, csv_text, run_figures, run_table
    from wirelessdl.trace.files import write_text
    from wirelessdl.trace.study import open_study

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
    from wirelessdl.trace.study import open_study

    study = open_study(folder / one.name)
    for figure in one.figures:
        path = folder / f"{one.name}-{figure.name}.pdf"
        if figure.kind == "plot":
            _plot(study, figure, path)
        else:
            yield from _theorem(study, one, figure.kind, path)
        yield path


def _plot(study: "Study", figure: "FigureTable", path: Path) -> None:
    from wirelessdl.analysis.families.roles import Request
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


def _theorem(study: "Study", one: "Reproduction", kind: str, path: Path) -> Iterator[Path]:
    """Tables and figure of a theorem; yields the tables."""
    from wirelessdl.analysis.cell_means import csv_text
    from wirelessdl.trace.files import write_text

    if kind == "regret":
        from wirelessdl.analysis.regret import draw_regret, regret_tables

        tables = regret_tables(study)
        draw_regret(tables["regret"], path)
    elif kind == "leakage":
        from wirelessdl.analysis.leakage import draw_leakage, leakage_tables

        tables = leakage_tables(study)
        draw_leakage(tables, study.varied[0], path)
    else:
        from wirelessdl.analysis.minima import draw_minima
        from wirelessdl.study.minima import minima_table

        tables = {"minima": minima_table(study.path, one.plan)}
        draw_minima(tables["minima"], path)
    for name, frame in tables.items():
        file = path.with_name(f"{one.name}-{name}.csv")
        write_text(file, csv_text(frame))
        yield file
