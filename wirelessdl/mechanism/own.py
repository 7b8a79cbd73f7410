"""Own noise: every node adds Gaussian noise of its own, and nothing is shared.

    w_j = x_j + sqrt(beta_j / alpha_j) eta_j,   eta_j ~ N(0, sigma^2 I), fresh in every transmission

**Adversary.** Hears every w_k of every round (any antennas, all thermal noise), knows everything inside all nodes but
j.

**Statement** (hardened protocol). Given the past, s_j is known, and w_j is one (subsampled) Gaussian release about x_j
with noise multiplier nu_j = sqrt(beta_j / alpha_j) sigma / (sens gamma mult), gamma and mult of the gradient that it
carries. Adaptive composition, and amplification by sampling, apply over rounds.

**Proof.** x_j = Proj(s_j - gamma mult g(s_j)), and Proj is 1-Lipschitz: replacing one record moves x_j by at most
sens gamma mult. s_j is a function of earlier transmissions and of receiver noise, none of which depends on the record
but through releases that were charged.

**Conditions**, each enforced or recorded: gains, plans, faults and compute times do not depend on data; the own term of
s_j carries the noise that was sent; the only memory is x; batches are drawn afresh; noise is aligned with the learning
rate of the gradient that is sent; x_1 comes from no data; what is shown is s_j.

What it is not: noise of others that hides a sender from one receiver (the paper's Theorem 1): that is the link view.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.mechanism import Mechanism, Protection

if TYPE_CHECKING:
    from wirelessdl.links import Links
    from wirelessdl.power.problem import PowerPlan
    from wirelessdl.scenario.schema import Scenario
    from wirelessdl.trace.run import Run

COALITION = False


def refuse(scenario: "Scenario") -> None:
    """Raise ValueError for what does not go together with noise of a node's own."""
    if scenario.privacy.against == "coalition":
        raise ValueError(
            'privacy.against is "coalition" with privacy.noise "independent"; a node\'s own noise protects against '
            'everyone: leave it at "auto", or set noise = "pairwise"'
        )


class Member(Mechanism):
    """Noise of every node's own."""

    def protect(self, plan: "PowerPlan", on_air: BoolArray, links: "Links", sigma: FloatArray) -> Protection:
        return Protection(plan)


def recount(run: "Run", _coalition: int, **_promised: bool) -> Iterator[str]:
    """What is wrong with the shares of noise in a run's tables, one line each: all noise is a node's own."""
    nodes = run.frame("nodes", ["own_share", "coalition_share"])
    if (nodes != 1.0).to_numpy().any():
        yield "nodes: own_share and coalition_share are not 1, and noise is independent"
