"""CSV files of `wirelessdl reproduce` for the scorecard, and how it writes numbers and tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

SIZES = {"fig4": 4, "fig5": 10, "fig6": 20}
PROTOCOLS = {"paper": "printed", "hardened": "hardened"}
DATA, GRAPH, EPSILON = "learning.partition", "network.topology", "privacy.epsilon_max"


class Missing(Exception):
    """A CSV file, or rows of it, are not there."""


@dataclass(frozen=True)
class Found:
    """A verdict and what was measured: tables, each a heading and rows, and words before them."""

    verdict: str
    tables: tuple[tuple[Sequence[str], Sequence[Sequence[str]]], ...]
    words: str = ""


class Tables:
    """The CSV files of a folder."""

    def __init__(self, folder: Path):
        self._folder = folder

    def __call__(self, name: str) -> pd.DataFrame:
        path = self._folder / f"{name}.csv"
        if not path.is_file():
            raise Missing(name)
        return pd.read_csv(path)

    def sizes(self, protocol: str) -> dict[int, pd.DataFrame]:
        """Own cells of fig4 to fig6 by number of nodes."""
        found = {nodes: self(f"{name}-{protocol}") for name, nodes in SIZES.items()}
        return {nodes: table[table["baseline"].isna()] for nodes, table in found.items()}

    def beside(self, name: str, key: str | None) -> pd.DataFrame:
        """Differences of a study's cells from cells that differ in one key alone; None: from local training."""
        means = self(name).set_index("cell")
        rows = self(f"{name}-differences")
        keys = [one for one in (GRAPH, DATA, EPSILON) if one in means]
        apart = []
        for row in rows.itertuples():
            own, other = means.loc[row.cell], means.loc[row.reference_cell]
            alone = other["baseline"] == "local"
            differ = [one for one in keys if str(own[one]) != str(other[one])]
            apart.append(alone if key is None else not alone and differ == [key])
        return rows[apart]


def one(table: pd.DataFrame, **keys: object) -> pd.Series:
    for key, value in keys.items():
        table = table[table[key] == value]
    if table.empty:
        raise Missing(str(keys))
    return table.iloc[0]


def percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def mean(row: pd.Series, of: str = "accuracy_mean") -> str:
    half = row[f"{of}_high"] - row[of]
    return f"{percent(row[of])} +- {100 * half:.1f}" if math.isfinite(half) else f"{percent(row[of])} (one seed)"


def points(row: pd.Series) -> str:
    """A difference in percentage points with its interval, its median, and in how many seeds it is above 0."""
    return (
        f"{100 * row['difference']:+.1f} +- {100 * (row['high'] - row['difference']):.1f}; {100 * row['median']:+.1f}; "
        f"{int(row['above'])} of {int(row['n'])}"
    )


def span(rows: pd.DataFrame) -> str:
    low, high = (f"{100 * value:+.1f}" for value in (rows["difference"].min(), rows["difference"].max()))
    return low if low == high else f"{low} to {high}"


def seeds(table: pd.DataFrame) -> str:
    least, most = int(table["n"].min()), int(table["n"].max())
    return f"{least} seeds" if least == most else f"{least} to {most} seeds"


def number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1e4 else f"{value:.1e}"


def data_name(value: object) -> str:
    """`dirichlet concentration=0.1 min_samples=64` as Dirichlet(0.1)."""
    text = str(value)
    if not text.startswith("dirichlet"):
        return "IID" if text == "iid" else text
    return f"Dirichlet({float(text.partition('concentration=')[2].split()[0]):g})"


def markdown(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
