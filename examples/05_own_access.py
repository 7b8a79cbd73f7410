"""An access of your own: who sends when, and what every node takes of it. Totals stay proven, whatever it does.

python examples/05_own_access.py
"""

import numpy as np

import wirelessdl


class Gossip:
    """Every node keeps a share of its own model, and takes the mean of its neighbours for the rest."""

    def __init__(self, kept: float = 0.5):
        self.kept = kept

    def mix(self, links, gain, amplitude, on_air):
        heard = np.bincount(links.rx, minlength=links.nodes)
        return (1 - self.kept) / heard[links.rx], np.where(heard > 0, self.kept, 1.0), np.zeros(links.nodes)


own = {"power.objective": "own-noise", "scenario.rounds": 30}
for kept in (0.2, 0.5, 0.9):
    run = wirelessdl.simulate("quickstart", access=Gossip(kept), overrides=own)
    epsilon, apart = run.summary["epsilon_total"], run.rounds["consensus_distance"].iloc[-1]
    print(f"keeps {kept}: accuracy {run.summary['accuracy_mean']:.1%}, models {apart:.2g} apart, epsilon {epsilon:.3g}")
