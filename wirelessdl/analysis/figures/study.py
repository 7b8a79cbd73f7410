"""A figure of a study, and beside it its data as CSV and the command that made it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wirelessdl.analysis.families.curves import Family, as_frame, end_points
from wirelessdl.analysis.families.learning import learning_curves
from wirelessdl.analysis.families.roles import Request
from wirelessdl.analysis.families.words import labels_of
from wirelessdl.analysis.figures.families import Look, Size, draw_family
from wirelessdl.analysis.style import FORMATS, require_format, save, styled
from wirelessdl.errors import TraceError, shown
from wirelessdl.trace.files import open_regular, write_text
from wirelessdl.trace.schema import TABLES
from wirelessdl.trace.study import Study

_LONGEST_LINE = 4096  # bytes of a script's first line that are looked at


def draw_study(
    study: Study,
    request: Request,
    path: Path,
    *,
    curves_against: str | None = None,
    size: Size = "single",
    logx: bool = False,
    labels: Sequence[str] = (),
    command: str = "",
) -> Family:
    """The figure in `path`, its data in `.csv` and its command in `.sh` beside it; returns what was drawn.

    curves_against: the horizontal axis of learning curves; None draws the results of runs instead. Files beside that
    no plot wrote are left as they are, and refused.
    """
    require_format(path)
    _require_own(path)
    figure, family = study_figure(study, request, curves_against=curves_against, size=size, logx=logx, labels=labels)
    with styled():
        save(figure, path)
    # the script first: it says that the data are a plot's, also where this process is killed in between
    write_text(path.with_suffix(".sh"), _script(study, path, command))
    write_text(path.with_suffix(".csv"), as_frame(family).to_csv(index=False))
    return family


def _require_own(path: Path) -> None:
    """Raise where a file beside a figure would be written over and is not that of an earlier one of its name."""
    script, data = path.with_suffix(".sh"), path.with_suffix(".csv")
    for file in (script, data):
        if file.exists() and not _is_script(script, path.stem):
            raise TraceError(f"{shown(file)}: is there, and no plot wrote it; move it, or name another figure")


def _is_script(path: Path, stem: str) -> bool:
    """Whether a file begins as `_script` writes it, for a figure of any format."""
    try:
        with open_regular(path) as handle:
            first = handle.readline(_LONGEST_LINE).decode(errors="replace")
    except OSError:
        return False
    return any(first.startswith(f"# {shown(f'{stem}.{kind}')}: study ") for kind in FORMATS)


def study_figure(
    study: Study,
    request: Request,
    *,
    curves_against: str | None = None,
    size: Size = "single",
    logx: bool = False,
    labels: Sequence[str] = (),
) -> tuple[Any, Family]:
    """The figure, open, and what was drawn."""
    columns = [*map(str, study.index.columns), *TABLES["rounds"].names]
    look = Look(size, logx, labels_of(labels, study, list(dict.fromkeys(columns))))
    family = end_points(study, request) if curves_against is None else learning_curves(study, request, curves_against)
    with styled():
        return draw_family(family, look), family


def _script(study: Study, path: Path, command: str) -> str:
    """A command with where its data come from; every line but the command is a comment, whatever a study is named."""
    manifest = study.manifest
    origin = f"study {manifest['name']}, scenario sha256 {manifest.get('scenario_sha256', 'unknown')}"
    return f"# {shown(path.name)}: {shown(origin, 400)}\n{command}\n"
