"""The two tables of docs/digital.md, from the study that `wirelessdl reproduce digital` made.

    wirelessdl reproduce digital --scale cpu --out outputs/digital
    python docs/digital_tables.py outputs/digital/digital

Each cell is the mean over the seeds of a study's cell. Time on air to an accuracy is that of the first evaluation that
reaches it, mean of the seeds that do.
"""

import sys
from collections.abc import Sequence

import numpy as np

import wirelessdl
from wirelessdl import Run

NAMES = ("oac", "tdma", "digital", "digital-lean", "ideal")
TIMED = ("oac", "tdma", "digital", "digital-lean")
REACHED = 0.45


def results(runs: Sequence[Run], name: str) -> str:
    accuracy = f"{np.mean([run.summary['accuracy_mean'] for run in runs]):.3f}".lstrip("0")
    if name == "ideal":
        return accuracy
    seconds, joules = (np.mean([run.summary[key] for run in runs]) for key in ("airtime_s", "energy_j"))
    return f"{accuracy}, {two_digits(seconds)} s, {two_digits(joules)} J"


def time_to_accuracy(runs: Sequence[Run], least: float = REACHED) -> str:
    found = []
    for run in runs:
        reached = run.rounds[run.rounds["accuracy_mean"] >= least]
        if len(reached):
            found.append(run.rounds.loc[: reached.index[0], "airtime_s"].sum())
    if not found:
        return "never"
    return f"{two_digits(np.mean(found))} s" + (f" ({len(found)})" if len(found) < len(runs) else "")


def two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def median_snr(runs: Sequence[Run]) -> str:
    return f"{np.median(np.concatenate([run.links['snr_db'] for run in runs])):.0f} dB"


if __name__ == "__main__":
    study = wirelessdl.open_study(sys.argv[1])
    cells: dict[tuple[int, float, str], list[Run]] = {}
    for name, run in zip(study.finished["name"], study.runs(), strict=True):
        nodes, power = run.scenario["network"]["nodes"], float(run.scenario["radio"]["power_dbm"])
        cells.setdefault((nodes, power, name), []).append(run)
    places = [(nodes, power) for nodes in (5, 10, 20) for power in (3.0, -12.0, -27.0)]
    print("| nodes | power | median SNR | " + " | ".join(f"`{name}`" for name in NAMES) + " |")
    print("|---" * (3 + len(NAMES)) + "|")
    for nodes, power in places:
        row = [results(cells[nodes, power, name], name) for name in NAMES]
        print(f"| {nodes} | {power:g} dBm | {median_snr(cells[nodes, power, 'digital'])} | {' | '.join(row)} |")
    print("| nodes | power | " + " | ".join(f"`{name}`" for name in TIMED) + " |")
    print("|---" * (2 + len(TIMED)) + "|")
    for nodes, power in places:
        row = [time_to_accuracy(cells[nodes, power, name]) for name in TIMED]
        print(f"| {nodes} | {power:g} dBm | {' | '.join(row)} |")
