"""The tables of docs/air.md, each from the study that `wirelessdl reproduce` made.

    wirelessdl reproduce alignment --scale cpu --out outputs/alignment
    python docs/air_tables.py outputs/alignment/alignment

A row for every scheme, a column for every power or number of antennas; means over seeds, after all rounds.
"""

import sys

from digital_tables import two_digits

import wirelessdl

SHOWN = {
    "accuracy_mean": lambda value: f"{100 * value:.1f}%",
    "accuracy_min": lambda value: f"worst {100 * value:.1f}%",
    "airtime_s": lambda value: f"{two_digits(value)} s",
    "energy_j": lambda value: f"{value:.2g} J",
}
TABLES = {
    "radio.power_dbm": ("dBm", list(SHOWN)),
    "radio.antennas": ("M", ["accuracy_mean", "airtime_s"]),
}

if __name__ == "__main__":
    runs = wirelessdl.open_study(sys.argv[1]).finished
    key = next(key for key in TABLES if key in runs)
    unit, what = TABLES[key]
    mean, values = runs.groupby(["name", key])[what].mean(), list(runs[key].unique())
    print(f"| scheme, {unit} | " + " | ".join(f"{value:g}" for value in values) + " |")
    print("|---" * (1 + len(values)) + "|")
    for name in runs["name"].unique():
        cells = [", ".join(SHOWN[one](mean.loc[(name, value), one]) for one in what) for value in values]
        print(f"| {name} | " + " | ".join(cells) + " |")
