"""The style of all figures: legible in grey, safe for colour-blind readers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

if matplotlib.get_backend(auto_select=False) is None:
    matplotlib.use("Agg")  # figures go to files: no screen needed; a notebook has chosen before

import matplotlib.pyplot as plt
from matplotlib.font_manager import fontManager

from wirelessdl.errors import WirelessdlError
from wirelessdl.trace.files import require_outside, write_whole

BLUE, ORANGE, GREY = "#3b6fa0", "#e0a458", "#888888"
HEAT = "cividis_r"  # large values are dark
COLUMN, TEXT = 3.5, 7.16  # widths of IEEE figures in inches
# seven colours that colour-blind readers tell apart (Okabe and Ito, without yellow, which is faint on paper)
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#222222", "#56b4e9", "#e69f00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "h", ">", "*")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
FORMATS = ("pdf", "png", "svg")
_STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # TrueType: journals refuse Type 3
    "svg.fonttype": "path",  # looks the same where the font is not installed
    "savefig.dpi": 200,
}


# what papers are set in: the first of these fonts that is installed, and how wide a column is in inches
TEMPLATES = {
    "plain": (["DejaVu Sans"], COLUMN),
    "ieee": (["Times New Roman", "Times", "Nimbus Roman", "TeX Gyre Termes", "STIXGeneral"], COLUMN),
    "acm": (["Linux Libertine O", "Libertinus Serif", "STIXGeneral"], 3.33),
}


def look(number: int) -> tuple[str, str]:
    """Colour and marker of the n-th series: no pair comes twice among the first 77, and neighbours differ in both."""
    return COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]


def dashed(number: int) -> tuple[str, Any, str]:
    """Colour, dash and marker of the n-th curve; of the first six, any one of the three is enough to identify it."""
    colour, marker = look(number)
    return colour, DASHES[number % len(DASHES)], marker


@contextmanager
def styled(template: str = "plain") -> Iterator[None]:
    """Context in which figures are drawn for a template. What was begun is closed where drawing or saving fails."""
    before = set(plt.get_fignums())
    fonts, column = TEMPLATES[template]
    installed = {font.name for font in fontManager.ttflist}
    family: dict[str, Any] = {
        "font.family": [name for name in fonts if name in installed],
        "figure.figsize": (column, 2.45),
    }
    if template != "plain":
        family["mathtext.fontset"] = "stix"
    try:
        with plt.rc_context({**_STYLE, **family}):  # type: ignore[dict-item]
            yield
    except BaseException:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)
        raise


def require_format(path: Path) -> None:
    """Raise unless a file's name ends in a format that figures are written in."""
    if path.suffix.lstrip(".") not in FORMATS:
        raise WirelessdlError(f"{path}: figures are written as {', '.join('.' + name for name in FORMATS)}; name one")


def save(figure: Any, path: Path | None) -> Any:
    """Write a figure in the format its name asks for, whole or not at all, and close it; returns it.

    Without a path it stays open.
    """
    if path is None:
        return figure
    require_format(path)
    require_outside(path)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width * plt.rcParams["figure.figsize"][0] / COLUMN, height)  # drawn for the widest column
    try:
        write_whole(path, lambda handle: figure.savefig(handle, format=path.suffix.lstrip(".")))
    finally:
        plt.close(figure)
    return figure
