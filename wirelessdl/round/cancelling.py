"""What a run leaves to its first frame: the pair ratio and amplitudes that its mean gains ask for."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Links
from wirelessdl.power.joint import EXPONENTS, RATIOS, JointPlan, JointProblem, choose
from wirelessdl.power.problem import PowerPlan
from wirelessdl.round.pairing import PairTerms, roster_of


@dataclass(frozen=True, eq=False)
class Cancelling:
    """Settings of noise that cancels, mixing passes and partial balancing.

    pairs: None where noise is independent; its ratio is not used. ratio, exponent: None where they are to be chosen.
    largest_rate: of all rounds. The other fields are those of `JointProblem`.
    """

    pairs: PairTerms | None
    ratio: float | None
    exponent: float | None
    passes: int
    mixing: Literal["chebyshev", "plain"]
    thermal_w: float
    rounds: int
    full_power: bool
    radius: float
    largest_rate: float

    def problem(self, plan: PowerPlan, links: Links, gain: FloatArray) -> JointProblem:
        """The problem of everyone on air. gain: [links] mean |h|."""
        nodes, sigma = links.nodes, plan.problem.rho * self.largest_rate
        everyone = np.ones(nodes, dtype=bool)
        partners = 0 if self.pairs is None else int(roster_of(self.pairs, everyone, links).partners.min())
        counted = self.pairs is not None and self.pairs.promised == "coalition"
        return JointProblem(
            links=links,
            gain=gain,
            power_w=plan.power_w,
            hidden=float(np.max(plan.beta / plan.alpha)) * sigma**2,
            sigma=sigma,
            partners=partners,
            coalition=self.pairs.coalition if counted and self.pairs is not None else partners,
            passes=self.passes,
            chebyshev=self.mixing == "chebyshev",
            thermal_w=self.thermal_w,
            rounds=self.rounds,
            full_power=self.full_power,
            radius=self.radius,
        )

    def choose(self, plan: PowerPlan, links: Links, gain: FloatArray) -> JointPlan:
        """The choice for these mean gains; a fixed value is the only one tried."""
        ratios = (0.0,) if self.pairs is None else RATIOS if self.ratio is None else (self.ratio,)
        exponents = EXPONENTS if self.exponent is None else (self.exponent,)
        return choose(self.problem(plan, links, gain), ratios, exponents)
