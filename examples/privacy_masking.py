"""Masking by others does not add up over slots.

In one slot, receiver i hears sender j under the noise of all nodes, and the paper's epsilon is right. But j's
gradient travels: neighbours mix it in and send it again under other noise. The audit builds the joint
distribution of everything one receiver hears in a run and finds an example that leaks more than the
sum over slots. The own-noise total covers it.

    python examples/privacy_masking.py
"""

import sys
from pathlib import Path

import wirelessdl

sys.path.append(str(Path(__file__).parents[1] / "docs" / "reproduction"))
from transcripts import audit_run

overrides = ["scenario.rounds=60", "power.objective=own-noise"]
scenario = wirelessdl.load_scenario("urban_er_k20_paper_lp", overrides=overrides)
run = wirelessdl.simulate(scenario, out="outputs")
print("rx <- tx   sum over slots   attained   proven     (epsilon, without amplification)")
for audit in audit_run(run)[:8]:
    print(f"{audit.rx:>2} <- {audit.tx:<4} {audit.link_sum:>13.2f} {audit.attained:>10.2f} {audit.proven:>8.2f}")
