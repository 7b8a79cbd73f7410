"""What pairwise-cancelling noise is worth: accuracy against epsilon, and the main example switch by switch.

    python examples/noise_study.py FOLDER [seeds]

Runs `urban_er_k20` over epsilon_total for independent noise per node, coalitions of one and of five, without privacy,
and local training (the better of two learning rates), and writes FOLDER/noise_study.csv and FOLDER/noise_study.png.
With three seeds it takes about ten minutes on two cores.
"""

import csv
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from wirelessdl import load_scenario, simulate

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
METHODS = {  # settings, and the learning rate at epsilon >= 1; below, it falls with epsilon
    "independent noise, all others collude": (["privacy.noise=independent", "privacy.rho=12"], 0.08),
    "pairwise noise, any 1 node": (["privacy.coalition=1"], 0.25),
    "pairwise noise, any 5 nodes": ([], 0.25),
}
NO_PRIVACY = [
    "privacy.noise=independent",
    "privacy.epsilon_total=inf",
    "privacy.epsilon_max=inf",
    "privacy.rho=1",
    "learning.learning_rate.initial=0.5",  # the best of five settings at seed 20
]
SWITCHES = {
    "as it is": [],
    "independent noise, same learning rate": ["privacy.noise=independent"],
    "there and back": ["radio.hub_order=there-and-back"],
    "no closing passes": ["learning.closing_passes=0"],
    "links from 12 dB on": ["radio.truncate_snr_db=12"],
    "one pilot per payload": ["radio.subslots=1"],
    "hubs in rotation": ["radio.hub_rotation=true"],
    "pixels": ["learning.features=none", "privacy.clip_norm=1"],
}


def final(seed: int, *settings: str) -> tuple[float, float, float]:
    """Mean accuracy, accuracy of the worst node, and the promised total of one run."""
    with tempfile.TemporaryDirectory() as folder:
        overrides = [f"scenario.seed={seed}", "trace.links=none", *settings]
        summary = simulate(load_scenario("urban_er_k20", overrides=overrides), out=folder).summary
    return summary["accuracy_mean"], summary["accuracy_min"], float(summary["epsilon_total"])


def alone(seed: int, rate: float) -> tuple[float, float, float]:
    """The same nodes, data and model without any radio: nothing is sent, so nothing leaks."""
    overrides = [f"scenario.seed={seed}", f"learning.learning_rate.initial={rate}", "privacy.rho=1"]
    with tempfile.TemporaryDirectory() as folder:
        scenario = load_scenario("urban_er_k20", overrides=overrides, baseline="local")
        summary = simulate(scenario, out=folder).summary
    return summary["accuracy_mean"], summary["accuracy_min"], 0.0


def study(seeds: range) -> Iterator[tuple[str, float, int, float, float, float]]:
    """method, epsilon asked for, seed, mean accuracy, worst node, total."""
    for seed in seeds:
        for name, (settings, rate) in METHODS.items():
            for epsilon in EPSILONS:
                step = f"learning.learning_rate.initial={rate * min(1.0, epsilon)}"
                yield name, epsilon, seed, *final(seed, f"privacy.epsilon_total={epsilon}", step, *settings)
        yield "no privacy", np.inf, seed, *final(seed, *NO_PRIVACY)
        yield "local training", 0.0, seed, *max(alone(seed, rate) for rate in (0.1, 1.0))
        for name, settings in SWITCHES.items():
            yield f"switch: {name}", 1.0, seed, *final(seed, *settings)


def points(rows: list, method: str, epsilon: float) -> np.ndarray:
    """Mean accuracy of every seed."""
    return np.array([row[3] for row in rows if row[0] == method and row[1] == epsilon])


def draw(rows: list, path: Path) -> None:
    figure, axis = plt.subplots(figsize=(6.4, 3.8), constrained_layout=True)
    for (name, _), colour in zip(METHODS.items(), ("tab:orange", "tab:blue", "tab:green")):
        found = [points(rows, name, epsilon) for epsilon in EPSILONS]
        middle = np.array([point.mean() for point in found])
        axis.plot(EPSILONS, middle, marker="o", color=colour, label=name)
        low, high = ([func(point) for point in found] for func in (np.min, np.max))
        axis.fill_between(EPSILONS, low, high, color=colour, alpha=0.2, linewidth=0)
    for name, epsilon, style in (("no privacy", np.inf, "--"), ("local training", 0.0, ":")):
        level = points(rows, name, epsilon).mean()
        axis.axhline(level, color="0.35", linestyle=style, linewidth=1)
        axis.annotate(f"{name}, {level:.1%}", (EPSILONS[0], level), (0, 3), textcoords="offset points", fontsize=8)
    axis.set_xscale("log", base=2)
    axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axis.set_ylim(0.1, 0.92)
    axis.set_xlabel("proven epsilon of the whole run (delta 1e-5)")
    axis.set_ylabel("test accuracy, mean over nodes")
    axis.legend(loc=(0.55, 0.3), frameon=False, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=200)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "outputs")
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    with (folder / "noise_study.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("method", "epsilon", "seed", "accuracy_mean", "accuracy_min", "epsilon_total"))
        for row in study(range(int(sys.argv[2]) if len(sys.argv) > 2 else 3)):
            found.append(row)
            writer.writerow(row)
            file.flush()
            print(*row[:3], f"{row[3]:.3f}", flush=True)
    draw(found, folder / "noise_study.png")
    for name in dict.fromkeys(row[0] for row in found):
        for epsilon in dict.fromkeys(row[1] for row in found if row[0] == name):
            values = points(found, name, epsilon)
            print(f"{name:40} epsilon {epsilon:<5g} {values.mean():.3f} ({values.min():.3f} to {values.max():.3f})")
