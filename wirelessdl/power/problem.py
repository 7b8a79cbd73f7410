"""The power problem and its answer, stated apart from any way of solving it.

Find alpha_j in [alpha_min, 1 - beta_min] such that every link leaks at most epsilon_max in a slot
(paper eq. 8, Theorem 1). With sigma = rho gamma the learning rate cancels:

    (sens theta nu)^2 g_ij^2 P_j alpha_j + S_i <= R_i,     nu = 1 / mu(epsilon_max, delta)
    S_i = sum_k g_ik^2 P_k rho^2 alpha_k,                  R_i = sum_k g_ik^2 P_k rho^2 + thermal

`PowerProblem.rows` gives these constraints divided by R_i: physical gains of 1e-6 otherwise fall below
the solver's tolerances, which then calls alpha = 1 optimal. Several realisations of the gains may have
to hold at once; then every row stands once per realisation.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.errors import InfeasiblePowerError
from wirelessdl.gaussian import analytic_epsilon, slot_epsilon, slot_mu
from wirelessdl.leakage import link_mu, own_mu
from wirelessdl.links import Links
from wirelessdl.mixing import Mixing, balanced_air, mix, peak_multiplier, perron_vector, spectral_gap, uniform_air
from wirelessdl.units import from_db, to_db

TOLERANCE = 1e-9  # relative, on epsilon, of every plan that is handed out
Balance: TypeAlias = Literal["receiver", "power", False]


@dataclass(frozen=True, eq=False)
class PowerProblem:
    """Gains, powers and the promise.

    gain: one |h| per link, which makes the mixing; samples: further realisations `[N, links]` that the
    promise must hold for. thermal_w: credited thermal noise over max gamma^2. margin_db: room left
    below epsilon_max, for gains that are not quite what was measured. heard, heard_gain: all that reaches
    receivers, where that is more than the links they mix.
    """

    links: Links
    gain: FloatArray
    power_w: FloatArray
    rho: float
    sensitivity: float
    delta: float
    epsilon_max: float
    balance: Balance = False
    thermal_w: float = 0.0
    alpha_min: float = 1e-3
    beta_min: float = 1e-6
    margin_db: float = 0.0
    samples: FloatArray | None = None
    heard: Links | None = None
    heard_gain: FloatArray | None = None

    @property
    def audible(self) -> Links:
        """Links that leak: the graph's, or all that are heard."""
        return self.links if self.heard is None else self.heard

    @property
    def private(self) -> bool:
        return math.isfinite(self.epsilon_max)

    @cached_property
    def gains(self) -> FloatArray:
        """Realisations the promise holds for, `[N, links]`."""
        if self.samples is not None:
            return self.samples
        return (self.gain if self.heard_gain is None else self.heard_gain)[None]

    @cached_property
    def target_mu(self) -> float:
        """Sensitivity over noise deviation that a link may reach."""
        return slot_mu(self.epsilon_max, self.delta) / math.sqrt(from_db(self.margin_db))

    def masking(self, noise_w: FloatArray) -> FloatArray:
        """Noise power each receiver hears from senders that radiate noise_w, `[N, K]`."""
        heard = self.gains**2 * noise_w[self.audible.tx]
        return np.stack([self.audible.sum_per_receiver(row) for row in heard])

    @cached_property
    def _most_masking(self) -> FloatArray:
        """R_i per unit gamma^2: if every sender sent only noise, `[N, K]`."""
        return self.masking(self.power_w * self.rho**2) + self.thermal_w

    def rows(self, theta: float) -> tuple[FloatArray, FloatArray]:
        """Scaled constraints `[N, links]`: own alpha_tx + sum over rx's links of share alpha <= 1."""
        masking = self._most_masking[:, self.audible.rx]
        scale = np.divide(1.0, masking, out=np.zeros_like(masking), where=masking > 0)  # hears nothing: no row
        heard_w = self.gains**2 * self.power_w[self.audible.tx] * scale
        return (self.sensitivity * theta / self.target_mu) ** 2 * heard_w, self.rho**2 * heard_w

    def load(self, alpha: FloatArray, theta: float) -> FloatArray:
        """Left-hand side of every scaled row; the promise holds where it is at most one."""
        own, share = self.rows(theta)
        sent = alpha[self.audible.tx]
        heard = np.stack([self.audible.sum_per_receiver(row * sent) for row in share])
        return own * sent + heard[:, self.audible.rx]

    def mu(self, alpha: FloatArray, power_w: FloatArray, theta: float) -> FloatArray:
        """Sensitivity over noise deviation on every link at the worst-case multiplier, `[N, links]`."""
        parts = {
            "model_w": alpha * power_w,
            "noise_w": (1.0 - alpha) * power_w * self.rho**2,
            "step_sensitivity": np.full(self.links.nodes, self.sensitivity * theta),
        }
        return np.stack([link_mu(self.audible, gain, thermal_w=self.thermal_w, **parts) for gain in self.gains])

    def mixing(self, alpha: FloatArray, power_w: FloatArray) -> Mixing:
        """The weights that this split makes the air apply."""
        amplitude = np.sqrt(alpha * power_w)
        balanced = self.balance == "receiver"
        air = balanced_air(self.links, self.gain, amplitude) if balanced else uniform_air(self.links)
        return mix(self.links, self.gain, amplitude, air=air)

    def theta(self, alpha: FloatArray) -> float:
        """Largest multiplier this split needs: K when balanced, else the peak of 1 / z_ii."""
        if self.balance:
            return float(self.links.nodes)
        return peak_multiplier(self.mixing(alpha, self.power_w))

    def require_feasible(self, theta: float) -> None:
        """Raise, naming the node, unless the floors meet the promise."""
        floor = np.full(self.links.nodes, self.alpha_min)
        load = self.load(floor, theta).max(axis=0, initial=0.0)
        if not len(load):
            return
        worst = int(np.argmax(load))
        if load[worst] > 1.0 + TOLERANCE:
            rx, tx = int(self.audible.rx[worst]), int(self.audible.tx[worst])
            leak = slot_epsilon(self.mu(floor, self.power_w, theta), self.delta)[:, worst].max()
            raise InfeasiblePowerError(
                f"node {tx} cannot meet epsilon_max={self.epsilon_max:g} towards node {rx}: with every node at "
                f"alpha_min={self.alpha_min:g} the slot still leaks {leak:.3g} (theta={theta:.3g}); "
                "raise epsilon_max or rho, or lower alpha_min"
            )


@dataclass(frozen=True, eq=False)
class PowerPlan:
    """A verified split of power. `theta` caps every multiplier while the plan holds.

    power_w is what each node radiates at most: its budget, or less where balancing made it back off.
    notes say what was done otherwise than asked, and why.
    """

    problem: PowerProblem
    alpha: FloatArray
    power_w: FloatArray
    theta: float
    iterations: int
    notes: tuple[str, ...] = ()

    @property
    def balance(self) -> Balance:
        return self.problem.balance

    @property
    def beta(self) -> FloatArray:
        return 1.0 - self.alpha

    @property
    def backoff_db(self) -> FloatArray:
        """How far each node stays below its budget."""
        return to_db(self.problem.power_w / self.power_w)

    @cached_property
    def weights(self) -> Mixing:
        """Mixing weights per link."""
        return self.problem.mixing(self.alpha, self.power_w)

    @property
    def mixing(self) -> FloatArray:
        """A[rx, tx]."""
        return self.weights.dense

    @cached_property
    def perron(self) -> FloatArray:
        """pi: how much each node's data counts in what the network agrees on; all alike when balanced."""
        nodes = self.problem.links.nodes
        return np.full(nodes, 1.0 / nodes) if self.balance else perron_vector(self.weights)

    @cached_property
    def multiplier(self) -> FloatArray:
        """Gradient multiplier each node settles at: K when balanced, else 1 / pi."""
        if self.balance:
            return np.full(self.problem.links.nodes, float(self.problem.links.nodes))
        return np.minimum(1.0 / self.perron, self.theta)

    @cached_property
    def link_epsilon(self) -> FloatArray:
        """One-slot epsilon per link at the worst-case multiplier, the worst of all realisations."""
        mu = self.problem.mu(self.alpha, self.power_w, self.theta)
        return np.asarray(slot_epsilon(mu, self.problem.delta).max(axis=0, initial=0.0))

    @property
    def epsilon(self) -> FloatArray:
        """The same as a matrix [rx, tx]; NaN where there is no link."""
        return self.problem.audible.matrix(self.link_epsilon, fill=np.nan)

    @cached_property
    def epsilon_own(self) -> FloatArray:
        """One-slot epsilon of each sender behind its own noise alone, whoever listens (analytic)."""
        step = np.full(len(self.alpha), self.problem.sensitivity * self.theta)
        noise_w = self.beta * self.power_w * self.problem.rho**2
        return analytic_epsilon(own_mu(self.alpha * self.power_w, noise_w, step), self.problem.delta)

    @cached_property
    def spectral_gap(self) -> float:
        return spectral_gap(self.weights)

    @property
    def noise_per_step(self) -> float:
        """Deviation per coordinate that noise adds to the network's model in a round, per unit gamma."""
        return float(self.problem.rho * np.sqrt(np.sum(self.perron**2 * self.beta / self.alpha)))
