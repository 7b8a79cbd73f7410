"""Why gradients are taken at what was received: at the node's own, noiseless model, sampling hides nothing.

One node, one number. Its loss has fine structure: two models that differ by one step have opposite
gradients. If the sample in question is drawn once, the model takes the other branch, and every later
gradient, taken at the noiseless model, takes it again: what sampling hid is sent in all rounds to come.
Taken at the noisy mix, which is public, each gradient stands for its own batch alone.

The attack below adds up the rounds. Theorem 9 claims an epsilon for them; the attack's success rates
prove a larger one.

    python examples/privacy_gradient_point.py
"""

import math

import numpy as np
from scipy.stats import beta, norm

from wirelessdl.gaussian import classic_factor
from wirelessdl.privacy import total_epsilon

Q, ROUNDS, DELTA, TRIALS = 0.0213, 600, 1e-4, 40_000
NU = classic_factor(DELTA)  # epsilon 1 in every slot


def statistic(*, hardened: bool, present: bool, rng: np.random.Generator) -> np.ndarray:
    """Correlation of what is sent with what the other branch would send, in deviations of the noise."""
    flipped = np.zeros(TRIALS, dtype=bool)
    total = np.zeros(TRIALS)
    for _ in range(ROUNDS):
        drawn = (rng.random(TRIALS) < Q) & present
        # paper: a drawn sample flips the branch for good; hardened: for this round only
        flipped = drawn if hardened else flipped ^ drawn
        total += rng.standard_normal(TRIALS) + flipped / NU
    return total / math.sqrt(ROUNDS)


claimed = total_epsilon(NU, Q, ROUNDS, delta=DELTA, accountant="rdp-wang19")
print(f"{ROUNDS} rounds of epsilon 1, q = {Q}; claimed by Theorem 9: {claimed:.2f}")
for hardened in (False, True):
    seen = statistic(hardened=hardened, present=True, rng=np.random.default_rng(0))
    best = 0.0
    for threshold in np.arange(1.0, 6.0, 0.25):
        hits = int(np.sum(seen > threshold))
        sure = beta.ppf(1e-3, hits, TRIALS - hits + 1) if hits else 0.0  # 99.9% confidence limit
        false_alarm = float(norm.sf(threshold))
        if sure > DELTA:
            best = max(best, math.log((sure - DELTA) / false_alarm))
    where = "what was received" if hardened else "own model (paper)"
    print(f"  gradient at {where:<18} attack proves epsilon >= {best:.2f}")
