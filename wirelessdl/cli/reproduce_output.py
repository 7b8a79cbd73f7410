"""What `wirelessdl reproduce` writes of a study: means, paired differences, figures."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wirelessdl.errors import TraceError

if TYPE_CHECKING:
    from wirelessdl.study.reproduce import Reproduction


def write_outputs(folder: Path, one: "Reproduction") -> Iterator[Path]:
    """Write the files of a study beside its directory; yields each."""
    from wirelessdl.analysis.cell_means import cell_differences, cell_means, csv_text
    from wirelessdl.trace.files import write_text
    from wirelessdl.trace.study import open_study

    study = open_study(folder / one.name)
    tables = {"": cell_means(study)}
    if one.differences:
        tables["-differences"] = cell_differences(study, one.differences)
    for ending, frame in tables.items():
        path = folder / f"{one.name}{ending}.csv"
        write_text(path, csv_text(frame))
        yield path
    yield from _figures(folder, one)


def _figures(folder: Path, one: "Reproduction") -> Iterator[Path]:
    from wirelessdl.analysis.families.roles import Request
    from wirelessdl.analysis.figures.study import draw_study
    from wirelessdl.trace.study import open_study

    study = open_study(folder / one.name)
    for figure in one.figures:
        path = folder / f"{one.name}-{figure.name}.pdf"
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
        yield path
