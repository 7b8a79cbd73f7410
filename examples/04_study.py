"""A study: accuracy against epsilon, two seeds each, with means and intervals.

python examples/04_study.py
"""

import wirelessdl

if __name__ == "__main__":  # workers import this file
    study = wirelessdl.sweep(
        "quickstart",
        vary={"privacy.epsilon_max": [0.3, 1.0, 3.0]},
        seeds=[7, 8],
        overrides={"scenario.rounds": 30},
        out="outputs/epsilon-study",
    )
    table = study.finished.groupby("privacy.epsilon_max")[["accuracy_mean", "epsilon_total"]].mean()
    print(table.to_string())
