"""The table of updates in docs/learning.md, from the study that `wirelessdl reproduce updates` made.

    wirelessdl reproduce updates --scale cpu --out outputs/updates
    python docs/updates_table.py outputs/updates/updates

Accuracy is the mean over seeds, with the difference to sgd on the same seeds and its 95% interval. Time on air to an
accuracy is that of the first evaluation that reaches it, mean of the seeds that do.
"""

import sys

import numpy as np
from digital_tables import time_to_accuracy

import wirelessdl
from wirelessdl import Run
from wirelessdl.trace.study import mean_interval

REACHED = (0.80, 0.82)


def accuracies(runs: list[Run]) -> np.ndarray:
    return 100 * np.array([run.summary["accuracy_mean"] for run in runs])


if __name__ == "__main__":
    study = wirelessdl.open_study(sys.argv[1])
    cells: dict[tuple[str, float], list[Run]] = {}
    for (_, row), run in zip(study.finished.iterrows(), study.runs(), strict=True):
        cells.setdefault((row["name"], row["privacy.epsilon_total"]), []).append(run)
    columns = " | ".join(f"on air to {100 * least:.0f}%, no noise" for least in REACHED)
    print(f"| update | epsilon 1 | to `sgd` | no noise | to `sgd` | {columns} |")
    print("|---" * (5 + len(REACHED)) + "|")
    for name in dict.fromkeys(name for name, _ in cells):
        shown = [f"`{name}`"]
        for epsilon in (1.0, np.inf):
            found, beside = (accuracies(cells[one, epsilon]) for one in (name, "sgd"))
            mean, low, high, _ = mean_interval((found - beside).tolist())
            apart = "" if name == "sgd" else f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"
            shown += [f"{found.mean():.1f}%", apart]
        shown += [time_to_accuracy(cells[name, np.inf], least) for least in REACHED]
        print(f"| {' | '.join(shown)} |")
