"""Tables and figures of the paper's claims, from studies that are finished.

    wirelessdl reproduce theorem1 --scale cpu
    python docs/reproduction/theorems.py outputs/reproduce-cpu

Adds figures of traces (`cells.py`) to NAME.csv and NAME-runs.csv of every study in the folder. Writes, beside each of
the studies theorem1, theorem2, bias and bias-fading that the folder has, its CSV files and its figure.
"""

import sys
from pathlib import Path

import pandas as pd
from cells import cell_tables
from leakage import draw_leakage, leakage_tables
from minima import draw_minima, minima_table
from regret import draw_regret, regret_tables

from wirelessdl.analysis.study_tables import csv_text
from wirelessdl.study.folder import read_plan
from wirelessdl.trace.files import write_text
from wirelessdl.trace.study import Study, is_study, open_study


def theorem1(study: Study, figure: str) -> dict[str, pd.DataFrame]:
    tables = leakage_tables(study)
    draw_leakage(tables, study.varied[0], study.path.with_name(f"{figure}-leakage.pdf"))
    return tables


def theorem2(study: Study, figure: str) -> dict[str, pd.DataFrame]:
    tables = regret_tables(study)
    draw_regret(tables["regret"], study.path.with_name(f"{figure}-regret.pdf"))
    return tables


def bias(study: Study, figure: str) -> dict[str, pd.DataFrame]:
    table = minima_table(study.path, read_plan(study.path)[0])
    draw_minima(table, study.path.with_name(f"{figure}-minima.pdf"))
    return {"minima": table}


STUDIES = {"theorem1": theorem1, "theorem2": theorem2, "bias": bias, "bias-fading": bias}


def write(folder: Path) -> list[Path]:
    """All that the studies in a folder give; returns the CSV files."""
    written = []
    for path in filter(is_study, sorted(folder.iterdir())):
        for ending, frame in cell_tables(open_study(path)).items():
            written.append(folder / f"{path.name}{ending}.csv")
            write_text(written[-1], csv_text(frame))
    for name, tables_of in STUDIES.items():
        if not is_study(folder / name):
            continue
        for table, frame in tables_of(open_study(folder / name), name).items():
            written.append(folder / f"{name}-{table}.csv")
            write_text(written[-1], csv_text(frame))
    return written


if __name__ == "__main__":
    for path in write(Path(sys.argv[1])):
        print(f"wrote {path}")
