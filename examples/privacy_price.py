"""What does privacy cost? Runs the quickstart at four promises and prints the price of each.

python examples/privacy_price.py
"""

import wirelessdl

print("epsilon_max   accuracy   proven epsilon over the run")
for epsilon_max in (0.5, 1, 4, "inf"):
    scenario = wirelessdl.load_scenario(
        "quickstart", overrides=[f"privacy.epsilon_max={epsilon_max}", "scenario.rounds=100"]
    )
    run = wirelessdl.simulate(scenario, out="outputs")
    proven = run.privacy.query("status == 'proven'")["epsilon_total"].max()
    print(f"{epsilon_max:>11}   {run.summary['accuracy_mean']:>8.1%}   {proven:>8.3g}")
