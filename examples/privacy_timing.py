"""The paper's timing: noise of this round on a gradient of the last one.

Model x_t carries a gradient scaled by gamma_{t-1}, but is sent with noise sigma_t = rho gamma_t. With
gamma_t = 0.1/sqrt(t) that is sqrt(2) too little at t = 2. The hardened protocol aligns the two.

    python examples/privacy_timing.py
"""

import numpy as np

import wirelessdl

ratios = {}
for protocol, balance, clipping in (("paper", "false", "batch"), ("hardened", "receiver", "per-sample")):
    changes = [
        f"privacy.protocol={protocol}",
        f"privacy.clipping={clipping}",
        f"power.balance={balance}",
        "power.objective=own-noise",
        "power.alpha_min=1e-9",
        "scenario.rounds=6",
    ]
    run = wirelessdl.simulate(wirelessdl.load_scenario("quickstart", overrides=changes), out="outputs")
    gamma = run.rounds["learning_rate"].to_numpy()
    needed = 2.0 * gamma[:-1]  # rho = 2 times the rate of the gradient that is carried
    ratios[protocol] = run.rounds["noise_std"].to_numpy()[1:] / needed

print("noise sent over noise needed, rounds 2 to 6")
for protocol, ratio in ratios.items():
    print(f"  {protocol:<9}", "  ".join(f"{value:.3f}" for value in ratio))
print(f"at t = 2 the paper's is {1 / ratios['paper'][0]:.3f} times too small; sqrt(2) is {np.sqrt(2):.3f}")
