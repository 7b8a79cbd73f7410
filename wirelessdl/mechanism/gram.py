"""The Gram stage: one release of second moments before training, from which every node makes a preconditioner.

    G_j = sum over j's samples of z z',   z = row / ||row|| (1 - 2^-20), in float64: ||z|| <= 1
    sent   c (upper triangle of G_j, off-diagonal entries times sqrt 2) + noise, in frames of as many numbers as a model
    P_i = V diag(max(l, floor)^-1/2) V',   V diag(l) V' = what i received over its trace,   floor = max(.01, -least l)
    then   every row of node i's data becomes ||row|| P_i row / ||P_i row||, and training begins

The least l of what was received would not be below 0 but for noise, so its size is the edge of the noise.

**Adversary** and mechanism are those of training (`mechanism.own`, `privacy.coalition`): noise of a node's own, or of
pairs, over the same air, drawn anew in every frame.

**Statement.** All frames of the stage together are one Gaussian release about G_j, not amplified by sampling, with
mu = sensitivity / deviation of the noise that hides j:

    sensitivity   replace-one sqrt 2:   ||z z' - w w'||^2 = ||z||^4 + ||w||^4 - 2 (z.w)^2 <= 2, attained by z.w = 0
                  zero-out 1:           ||z z'||^2 <= 1

Under gdp mu^2 of the run is mu_gram^2 + mu_train^2, mu_gram^2 = `privacy.gram_share` of what epsilon_total allows.

**Proof.** Off-diagonal entries times sqrt 2 make the triangle's distance that of the matrices. Frames carry disjoint
coordinates of it and fresh noise, so the sum over frames of ||shift_b||^2 / sigma_b^2 is at most ||shift||^2 over the
least sigma^2: a frame is charged by how much its mu exceeds the largest before it. What was received is a function of
releases, and so is P_i; an own row that became P_i row is a function of that row and of releases, so the theorem of
training holds as before, with 2C/n. Adaptive composition puts both together.

**Conditions.** P_i comes from what was received, in which i's own term has its noise: from an own un-noised G_i one
sample would move all rows. A node sends nothing of G_j in a frame that is not charged: the number by which it is
multiplied is worked out from the charge. Sums in float64 are off by n (n + 4) 2^-53 at most, of either neighbour: it is
added to the sensitivity, and the factor 1 - 2^-20 is more than rounding of norms and products takes. Samples of a node
are in no other node's G.

What it is not: private for all data of a node (refused); a cure for nodes that received different matrices, which then
train in different coordinates and lose accuracy, not privacy.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.gaussian import analytic_mu

if TYPE_CHECKING:
    from wirelessdl.scenario.schema import Scenario


def share_mu(scenario: "Scenario") -> float:
    """mu of the stage: its share of what the promised total allows a release that nothing amplifies; 0 without one."""
    privacy = scenario.privacy
    if not privacy.gram_share or scenario.silent:
        return 0.0
    return math.sqrt(privacy.gram_share) * analytic_mu(privacy.epsilon_total, privacy.delta_total)


@dataclass(frozen=True, eq=False)
class GramStage:
    """The stage of a run.

    frames: the first of the run; mu: of all of them together; ratio: mu over that of a release of training. step: [K]
    sensitivity of a gradient; samples: most of a node.
    """

    frames: int
    mu: float
    ratio: float
    step: FloatArray
    samples: int
    adjacency: str

    @property
    def sensitivity(self) -> float:
        """How far one sample moves a node's triangle at most, with rounding of sums."""
        return (1.0 if self.adjacency == "zero-out" else math.sqrt(2.0)) + 2.0 * self.samples * (
            self.samples + 4.0
        ) * 2.0**-53

    def pending(self, learning_rate: float, theta: float) -> tuple[FloatArray, FloatArray]:
        """The triangle as a gradient: learning rate and multiplier, `[K]`, with which it is charged mu by the plan.

        Plans give a gradient of multiplier theta the mu of training, so this one has theta times the ratio; learning
        rates differ such that all nodes multiply their triangles by the same c.
        """
        rate = learning_rate * self.step.min() / self.step
        return rate, np.full(len(self.step), theta * self.ratio)

    def scale(self, learning_rate: FloatArray, multiplier: FloatArray) -> FloatArray:
        """c of every node, `[K]`, by what it is charged with; 0 where it is charged with nothing."""
        return np.asarray(self.step * learning_rate * multiplier / self.sensitivity)
