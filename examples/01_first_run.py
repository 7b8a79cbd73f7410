"""A first run: four nodes learn together over the air, and the tables say what happened.

python examples/01_first_run.py
"""

import wirelessdl

run = wirelessdl.simulate("quickstart", overrides={"scenario.rounds": 30}, out="outputs")

print(f"accuracy {run.summary['accuracy_mean']:.1%} after {len(run.rounds)} rounds")
print(f"epsilon {run.summary['epsilon_total']:.3g}, against {run.summary['adversary']}")
print(f"on air for {run.summary['airtime_s']:.3f} s, {1e3 * run.summary['energy_j']:.3g} mJ radiated")
print(run.rounds[["round", "time_s", "accuracy_mean", "epsilon_promised_bound"]].dropna().to_string(index=False))
