"""The power problem and its answer, stated apart from any way of solving it.

Find alpha_j in [alpha_min, 1 - beta_min] such that every link leaks at most epsilon_max in a slot
(paper eq. 8, Theorem 1). With sigma = rho gamma the learning rate cancels:

    (sens theta nu)^2 g_ij^2 P_j alpha_j + S_i <= R_i,     nu = 1 / mu(epsilon_max, delta)
    S_i = sum_k g_ik^2 P_k rho^2 alpha_k,                  R_i = sum_k g_ik^2 P_k rho^2 + thermal

`PowerProblem.rows` gives these constraints divided by R_i: physical gains of 1e-6 otherwise fall below
the solver's tolerances, which then calls alpha = 1 optimal.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.errors import InfeasiblePowerError
from wirelessdl.gaussian import analytic_epsilon, slot_epsilon, slot_mu
from wirelessdl.leakage import link_mu, own_mu
from wirelessdl.links import Links
from wirelessdl.mixing import (
    Mixing,
    balanced_air,
    mix,
    peak_multiplier,
    perron_vector,
    spectral_gap,
    uniform_air,
)

TOLERANCE = 1e-9  # relative, on epsilon, of every plan that is handed out


@dataclass(frozen=True, eq=False)
class PowerProblem:
    """Gains, powers and the promise; `balance` says how receivers weigh air against self."""

    links: Links
    gain: FloatArray
    power_w: FloatArray
    rho: float
    sensitivity: float
    delta: float
    epsilon_max: float
    balance: bool = False
    thermal_w: float = 0.0
    alpha_min: float = 1e-3
    beta_min: float = 1e-6

    @property
    def private(self) -> bool:
        return math.isfinite(self.epsilon_max)

    @cached_property
    def masking(self) -> FloatArray:
        """R_i: noise power receiver i would hear per unit gamma^2 if every sender sent only noise."""
        return self.links.sum_per_receiver(self._heard_w * self.rho**2) + self.thermal_w

    @cached_property
    def _heard_w(self) -> FloatArray:
        return self.gain**2 * self.power_w[self.links.tx]

    def rows(self, theta: float) -> tuple[FloatArray, FloatArray]:
        """Scaled constraints, per link: own[l] alpha_tx + sum over rx's links of share alpha <= 1."""
        masking = self.masking[self.links.rx]
        scale = np.divide(1.0, masking, out=np.zeros_like(masking), where=masking > 0)  # hears nothing: no row
        need = (self.sensitivity * theta / slot_mu(self.epsilon_max, self.delta)) ** 2
        return need * self._heard_w * scale, self.rho**2 * self._heard_w * scale

    def load(self, alpha: FloatArray, theta: float) -> FloatArray:
        """Left-hand side of every scaled row; the promise holds where it is at most one."""
        own, share = self.rows(theta)
        heard = self.links.sum_per_receiver(share * alpha[self.links.tx])
        return own * alpha[self.links.tx] + heard[self.links.rx]

    def mu(self, alpha: FloatArray, theta: float) -> FloatArray:
        """Sensitivity over noise deviation on every link at the worst-case multiplier."""
        return link_mu(
            self.links,
            self.gain,
            model_w=alpha * self.power_w,
            noise_w=(1.0 - alpha) * self.power_w * self.rho**2,
            step_sensitivity=np.full(self.links.nodes, self.sensitivity * theta),
            thermal_w=self.thermal_w,
        )

    def mixing(self, alpha: FloatArray) -> Mixing:
        """The weights that this split makes the air apply."""
        amplitude = np.sqrt(alpha * self.power_w)
        air = balanced_air(self.links, self.gain, amplitude) if self.balance else uniform_air(self.links)
        return mix(self.links, self.gain, amplitude, air=air)

    def theta(self, alpha: FloatArray) -> float:
        """Largest multiplier this split needs: K when balanced, else the peak of 1 / z_ii."""
        return float(self.links.nodes) if self.balance else peak_multiplier(self.mixing(alpha))

    def require_feasible(self, theta: float) -> None:
        """Raise, naming the node, unless the floors meet the promise."""
        floor = np.full(self.links.nodes, self.alpha_min)
        load = self.load(floor, theta)
        worst = int(np.argmax(load))
        if load[worst] > 1.0 + TOLERANCE:
            rx, tx = int(self.links.rx[worst]), int(self.links.tx[worst])
            leak = slot_epsilon(self.mu(floor, theta), self.delta)[worst]
            raise InfeasiblePowerError(
                f"node {tx} cannot meet epsilon_max={self.epsilon_max:g} towards node {rx}: with every node at "
                f"alpha_min={self.alpha_min:g} the slot still leaks {leak:.3g} (theta={theta:.3g}); "
                "raise epsilon_max or rho, or lower alpha_min"
            )


@dataclass(frozen=True, eq=False)
class PowerPlan:
    """A verified split of power. `theta` caps every multiplier while the plan holds."""

    problem: PowerProblem
    alpha: FloatArray
    theta: float
    iterations: int

    @property
    def beta(self) -> FloatArray:
        return 1.0 - self.alpha

    @property
    def power_w(self) -> FloatArray:
        return self.problem.power_w

    @cached_property
    def weights(self) -> Mixing:
        """Mixing weights per link."""
        return self.problem.mixing(self.alpha)

    @property
    def mixing(self) -> FloatArray:
        """A[rx, tx]."""
        return self.weights.dense

    @cached_property
    def multiplier(self) -> FloatArray:
        """Gradient multiplier each node settles at: K when balanced, else 1 / pi."""
        if self.problem.balance:
            return np.full(self.problem.links.nodes, float(self.problem.links.nodes))
        return np.minimum(1.0 / perron_vector(self.weights), self.theta)

    @cached_property
    def epsilon(self) -> FloatArray:
        """One-slot epsilon[rx, tx] at the worst-case multiplier; NaN where there is no link."""
        return self.problem.links.matrix(
            slot_epsilon(self.problem.mu(self.alpha, self.theta), self.problem.delta), fill=np.nan
        )

    @cached_property
    def epsilon_own(self) -> FloatArray:
        """One-slot epsilon of each sender behind its own noise alone, whoever listens (analytic)."""
        step = np.full(len(self.alpha), self.problem.sensitivity * self.theta)
        noise_w = self.beta * self.power_w * self.problem.rho**2
        return analytic_epsilon(own_mu(self.alpha * self.power_w, noise_w, step), self.problem.delta)

    @cached_property
    def spectral_gap(self) -> float:
        return spectral_gap(self.weights)
