"""The style of all figures: legible in grey, safe for colour-blind readers."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # figures go to files: no screen needed

import matplotlib.pyplot as plt

from wirelessdl.errors import WirelessdlError

BLUE, ORANGE, GREY = "#3b6fa0", "#e0a458", "#888888"
HEAT = "cividis"
COLUMN, TEXT = 3.5, 7.16  # widths of IEEE figures in inches
# curves differ in colour, dash and marker: any one of the three is enough to identify them
SERIES = (
    ("#3b6fa0", "-", "o"),
    ("#c2571a", "--", "s"),
    ("#3a8a6b", "-.", "^"),
    ("#8a5a9e", ":", "D"),
    ("#222222", (0, (5, 1, 1, 1, 1, 1)), "v"),
    ("#b8860b", (0, (1, 1)), "P"),
)
_FORMATS = ("pdf", "png", "svg")
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


def styled() -> Any:
    """Context in which figures are drawn."""
    return plt.rc_context(_STYLE)  # type: ignore[arg-type]


def save(figure: Any, path: Path) -> None:
    """Write a figure in the format its name asks for."""
    if path.suffix.lstrip(".") not in _FORMATS:
        raise WirelessdlError(f"{path}: figures are written as {', '.join('.' + name for name in _FORMATS)}; name one")
    try:
        figure.savefig(path)
    except OSError as error:
        raise WirelessdlError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        plt.close(figure)
