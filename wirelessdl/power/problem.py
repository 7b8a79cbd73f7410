"""The power problem and its solution, stated independently of any solver.

Find alpha_j in [alpha_min, 1 - beta_min] such that every link leaks at most epsilon_max in a slot
(paper eq. 16, Theorem 1). With sigma = rho gamma the learning rate cancels:

    (sens_j theta nu)^2 g_ij^2 P_j alpha_j + S_i <= R_i,   nu = 1 / mu(epsilon_max, delta)
    S_i = sum_k g_ik^2 P_k rho^2 alpha_k,                  R_i = sum_k g_ik^2 P_k rho^2 + thermal

    alpha_j, beta_j = 1 - alpha_j   shares of power for the model and for the noise, of node j
    g_ij    amplitude gain |h| of the link j -> i; P_j: power budget of node j, W
    sens_j  sensitivity of node j's gradient, per unit gamma * multiplier; theta: upper bound of the multiplier
    rho     noise deviation over learning rate gamma; thermal: credited receiver noise over gamma^2, W
    nu      noise multiplier that the target needs

`PowerProblem.rows` gives these constraints divided by R_i: gains of the order of 1e-6 would otherwise fall below
the solver's tolerances, and it would return alpha = 1. Where several realisations of the gains must satisfy the target
at once, every constraint occurs once per realisation.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from wirelessdl.arrays import FloatArray, lock
from wirelessdl.errors import InfeasiblePowerError
from wirelessdl.gaussian import slot_epsilon, slot_mu
from wirelessdl.leakage import link_mu, own_mu
from wirelessdl.links import Links
from wirelessdl.mixing import (
    Mixing,
    balanced_air,
    metropolis,
    mix,
    peak_multiplier,
    perron_vector,
    spectral_gap,
    uniform_air,
)
from wirelessdl.units import from_db, to_db

TOLERANCE = 1e-9  # relative, on epsilon, of every plan that is returned
Balance: TypeAlias = Literal["receiver", "power", False]


@dataclass(frozen=True, eq=False, kw_only=True)
class PowerSettings:
    """What every power problem of a run has in common: powers and the privacy target.

    power_w: [K] budgets, W. sensitivity: of every node, or [K]. thermal_w: credited thermal noise over max gamma^2, W.
    margin_db: reduction of the allowed mu^2, for gains that differ from their estimates. orthogonal: senders are heard
    one at a time, so nobody masks another; least_gain: [K] |h| by sender below which receivers then leave a link out.
    fixed_theta: what the multiplier is at most, where its rule says so; None: it follows from the mixing. mu_max: the
    target itself, of every release, where it does not come from epsilon_max.
    """

    power_w: FloatArray
    rho: float
    sensitivity: FloatArray | float
    delta: float
    epsilon_max: float
    balance: Balance = False
    thermal_w: float = 0.0
    alpha_min: float = 1e-3
    beta_min: float = 1e-6
    margin_db: float = 0.0
    orthogonal: bool = False
    least_gain: FloatArray | float = 0.0
    fixed_theta: float | None = None
    mu_max: float | None = None

    def problem(
        self,
        links: Links,
        gain: FloatArray,
        *,
        samples: FloatArray | None = None,
        heard: tuple[Links, FloatArray] | None = None,
        power_w: FloatArray | None = None,
    ) -> "PowerProblem":
        """The problem of these gains `[links]`, to hold for `samples` `[N, links]` too, and for all that is `heard`."""
        common = vars(self) if power_w is None else {**vars(self), "power_w": power_w}
        audible, heard_gain = heard or (None, None)
        return PowerProblem(**common, links=links, gain=gain, samples=samples, heard=audible, heard_gain=heard_gain)


@dataclass(frozen=True, eq=False, kw_only=True)
class PowerProblem(PowerSettings):
    """The settings, with the links and gains of a frame.

    gain: [links] |h|, from which the mixing follows. samples: [N, links] |h|, realisations for which the target must
    hold; by default gain. heard, heard_gain: all links that reach a receiver and their [heard] |h|, where that is more
    than the links they mix.
    """

    links: Links
    gain: FloatArray
    samples: FloatArray | None = None
    heard: Links | None = None
    heard_gain: FloatArray | None = None

    def __post_init__(self) -> None:
        # a user's allocator sees them
        lock(self, "gain", "power_w", "sensitivity", "samples", "heard_gain", "least_gain")

    @property
    def audible(self) -> Links:
        """Links on which the target must hold: the graph's, or all that are heard."""
        return self.links if self.heard is None else self.heard

    @property
    def private(self) -> bool:
        return math.isfinite(self.epsilon_max)

    @cached_property
    def gains(self) -> FloatArray:
        """Realisations of |h| for which the target must hold, `[N, audible links]`."""
        if self.samples is not None:
            return self.samples
        return (self.gain if self.heard_gain is None else self.heard_gain)[None]

    @cached_property
    def target_mu(self) -> float:
        """Largest allowed sensitivity over noise deviation on a link."""
        target = slot_mu(self.epsilon_max, self.delta) if self.mu_max is None else self.mu_max
        return target / math.sqrt(from_db(self.margin_db))

    def masking(self, noise_w: FloatArray) -> FloatArray:
        """Noise power at each receiver, `[N, K]` W. noise_w: [K] noise power that each sender radiates."""
        heard = self.gains**2 * noise_w[self.audible.tx]
        return self.audible.sum_per_receiver(heard)

    @cached_property
    def _most_masking(self) -> FloatArray:
        """R_i, `[N, K]`: noise power per unit gamma^2 if every sender sent only noise."""
        return self.masking(self.power_w * self.rho**2) + self.thermal_w

    def rows(self, theta: float) -> tuple[FloatArray, FloatArray]:
        """Scaled constraints (own, share), `[N, audible links]` each: own alpha_tx + sum of share alpha at rx <= 1."""
        masking = self._most_masking[:, self.audible.rx]
        # a receiver that hears nothing constrains nothing
        scale = np.divide(1.0, masking, out=np.zeros_like(masking), where=masking > 0)
        heard_w = self.gains**2 * self.power_w[self.audible.tx] * scale
        return (self.step(theta) / self.target_mu)[self.audible.tx] ** 2 * heard_w, self.rho**2 * heard_w

    def step(self, theta: float) -> FloatArray:
        """How far one sample moves each node's model at the multiplier theta, `[K]` per unit gamma."""
        return np.broadcast_to(np.asarray(self.sensitivity, dtype=np.float64) * theta, (self.links.nodes,))

    def load(self, alpha: FloatArray, theta: float) -> FloatArray:
        """Left-hand side of every scaled constraint, `[N, audible links]`; the target holds where it is at most 1."""
        own, share = self.rows(theta)
        sent = alpha[self.audible.tx]
        heard = self.audible.sum_per_receiver(share * sent)
        return own * sent + heard[:, self.audible.rx]

    def mu(self, alpha: FloatArray, power_w: FloatArray, theta: float) -> FloatArray:
        """Sensitivity over noise deviation on every link at the multiplier theta, `[N, audible links]`."""
        model_w, noise_w, step = alpha * power_w, (1.0 - alpha) * power_w * self.rho**2, self.step(theta)
        if self.orthogonal:
            tx, heard = self.audible.tx, self.gains**2
            return own_mu(heard * model_w[tx], heard * noise_w[tx] + self.thermal_w, step[tx])
        parts = {"model_w": model_w, "noise_w": noise_w, "step_sensitivity": step}
        return link_mu(self.audible, self.gains, thermal_w=self.thermal_w, **parts)

    def mixing(self, alpha: FloatArray, power_w: FloatArray) -> Mixing:
        """Mixing weights of this split of power. alpha, power_w: [K]."""
        amplitude = np.sqrt(alpha * power_w)
        if self.orthogonal:
            nobody = np.zeros(self.links.nodes, dtype=bool)
            return metropolis(self.links, self.gain, amplitude, nobody, self.least_gain)
        balanced = self.balance == "receiver"
        air = balanced_air(self.links, self.gain, amplitude) if balanced else uniform_air(self.links)
        return mix(self.links, self.gain, amplitude, air=air)

    def theta(self, alpha: FloatArray) -> float:
        """Largest multiplier under this split: K where balanced, else the peak of 1 / z_ii."""
        if self.balance:
            return float(self.links.nodes)
        return peak_multiplier(self.mixing(alpha, self.power_w))

    def require_feasible(self, theta: float) -> None:
        """Raise, naming the node, unless the target holds with every node at alpha_min."""
        floor = np.full(self.links.nodes, self.alpha_min)
        load = self.load(floor, theta).max(axis=0, initial=0.0)
        if not len(load):
            return
        worst = int(np.argmax(load))
        if load[worst] > 1.0 + TOLERANCE:
            rx, tx = int(self.audible.rx[worst]), int(self.audible.tx[worst])
            mu = self.mu(floor, self.power_w, theta)[:, worst]
            leak = slot_epsilon(mu, self.delta).max()
            raise InfeasiblePowerError(
                f"node {tx} cannot meet epsilon_max={self.epsilon_max:g} towards node {rx}: with every node at "
                f"alpha_min={self.alpha_min:g} the slot still leaks {leak:.3g} (mu is {mu.max():.4g}, at most "
                f"{self.target_mu:.4g} is allowed; theta={theta:.3g}); raise epsilon_max or rho, or lower alpha_min"
            )

    def require_shares(self, alpha: FloatArray, way: str) -> None:
        """Raise, naming the node, where a share is below alpha_min. way: the subject of the message; alpha: [K]."""
        worst = int(np.argmin(alpha))
        if alpha[worst] < self.alpha_min:
            raise InfeasiblePowerError(
                f"{way} cannot meet epsilon_max={self.epsilon_max:g}: alpha would be {alpha[worst]:.3g} on node "
                f"{worst}, below alpha_min={self.alpha_min:g}; raise epsilon_max or rho, or lower alpha_min"
            )


@dataclass(frozen=True, eq=False)
class PowerPlan:
    """A verified split of power. theta: upper bound of every multiplier while the plan is in use.

    alpha: [K] share of power for the model. power_w: [K] W, what each node radiates: its budget, or less where
    balancing makes it back off. notes: what differs from what the scenario asks for, and why. own_share,
    coalition_share: [K] shares of the noise variance that hide a sender from everyone, and from a coalition, where
    pairs share noise. fixed: what every gradient is multiplied by, where that does not follow from the mixing.
    """

    problem: PowerProblem
    alpha: FloatArray
    power_w: FloatArray
    theta: float
    iterations: int
    notes: tuple[str, ...] = ()
    own_share: FloatArray | None = None
    coalition_share: FloatArray | None = None
    fixed: float | None = None

    @property
    def balance(self) -> Balance:
        return self.problem.balance

    @property
    def beta(self) -> FloatArray:
        return 1.0 - self.alpha

    @property
    def backoff_db(self) -> FloatArray:
        """Back-off of each node from its budget, `[K]` dB."""
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
        """Left Perron vector pi, `[K]`: weight of each node's data in the consensus; 1/K where balanced."""
        nodes = self.problem.links.nodes
        return np.full(nodes, 1.0 / nodes) if self.balance else perron_vector(self.weights)

    @cached_property
    def multiplier(self) -> FloatArray:
        """Limit of each node's gradient multiplier, `[K]`: K where balanced, else 1 / pi; at most theta."""
        if self.fixed is not None:
            return np.full(self.problem.links.nodes, min(self.fixed, self.theta))
        if self.balance:
            return np.full(self.problem.links.nodes, min(float(self.problem.links.nodes), self.theta))
        return np.minimum(1.0 / self.perron, self.theta)

    @cached_property
    def link_epsilon(self) -> FloatArray:
        """One-slot epsilon per audible link at the multiplier theta, `[links]`: the largest of all realisations."""
        mu = self.problem.mu(self.alpha, self.power_w, self.theta)
        return np.asarray(slot_epsilon(mu, self.problem.delta).max(axis=0, initial=0.0))

    def require_target(self) -> None:
        """Raise, naming the nodes, where a link leaks more than epsilon_max at the multiplier theta."""
        problem, leak = self.problem, self.link_epsilon
        if len(leak) and not leak.max() <= problem.epsilon_max * (1.0 + TOLERANCE):
            worst = int(np.argmax(np.where(np.isnan(leak), math.inf, leak)))
            raise InfeasiblePowerError(
                f"node {problem.audible.tx[worst]} leaks {leak[worst]:.6g} to node {problem.audible.rx[worst]}, more "
                f"than epsilon_max={problem.epsilon_max:g}; raise epsilon_max or rho, or lower alpha_min"
            )

    @property
    def epsilon(self) -> FloatArray:
        """One-slot epsilon as a matrix [rx, tx]; NaN where there is no link."""
        return self.problem.audible.matrix(self.link_epsilon, fill=np.nan)

    @cached_property
    def epsilon_own(self) -> FloatArray:
        """One-slot epsilon of each sender masked by its own noise only, `[K]`: against any listener."""
        return self._hidden_by(self.own_share)

    @cached_property
    def epsilon_coalition(self) -> FloatArray:
        """One-slot epsilon of each sender against a coalition, `[K]`; the same where no pairs share noise."""
        return self._hidden_by(self.coalition_share)

    def _hidden_by(self, share: FloatArray | None) -> FloatArray:
        noise_w = self.beta * self.power_w * self.problem.rho**2 * (1.0 if share is None else share)
        mu = own_mu(self.alpha * self.power_w, noise_w, self.problem.step(self.theta))
        return slot_epsilon(mu, self.problem.delta)

    @cached_property
    def spectral_gap(self) -> float:
        return spectral_gap(self.weights)

    @property
    def noise_per_step(self) -> float:
        """Standard deviation per coordinate that noise adds to the consensus model in a round, per unit gamma.

        What pairs share cancels there.
        """
        own = self.beta / self.alpha * (1.0 if self.own_share is None else self.own_share)
        return float(self.problem.rho * np.sqrt(np.sum(self.perron**2 * own)))
