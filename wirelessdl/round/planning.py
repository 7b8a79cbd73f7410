"""Steps 3 and 4 of a round: the power plan, static or for this frame, and who is on air with it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from wirelessdl.access import MeanErrors
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.contract import POSITIVE, SHARES, checked_array, guard_of, of_node
from wirelessdl.errors import ContractError, InfeasiblePowerError, quote
from wirelessdl.leakage import own_mu
from wirelessdl.links import Links
from wirelessdl.mechanism import Mechanism, Protection
from wirelessdl.power.allocate import PowerAllocator, hide_unheard
from wirelessdl.power.joint import EXPONENTS, RATIOS, JointPlan, JointProblem, JointSettings, choose, choose_by_mean
from wirelessdl.power.problem import TOLERANCE, PowerPlan, PowerProblem, PowerSettings
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.radio.frame import Participation
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.round.records import OnAir
from wirelessdl.round.releases import Releases
from wirelessdl.scenario.protection import ALPHA_MIN
from wirelessdl.units import to_db

Samples = Callable[[Links, FloatArray, int], FloatArray]


@dataclass(frozen=True)
class PlanSchedule:
    """When plans are made, and from which gains the first one is."""

    kind: Literal["static", "adaptive", "robust"]
    reference: Literal["mean", "first"]
    samples: int  # realisations that a robust plan must hold for


@dataclass(frozen=True, eq=False)
class JointChoice:
    """What the first plan chooses for the least predicted error: the ratio of shared noise, and amplitudes.

    exponent: of partial balancing; None where it is to be chosen. largest_rate: of all rounds. errors: those of the
    carrier; None where they follow from weights.
    """

    settings: JointSettings
    exponent: float | None
    promises_coalition: bool
    largest_rate: float
    errors: Callable[[FloatArray, FloatArray | None], MeanErrors | None] | None = None

    def choose(self, mechanism: Mechanism, plan: PowerPlan, channel: FrameChannel) -> JointPlan:
        """The choice for mean gains, with everyone on air; a fixed value is the only one tried."""
        links, gain = channel.links, channel.mean_gain
        partners, sigma = mechanism.partners(links), plan.problem.rho * self.largest_rate
        problem = JointProblem(
            links=links,
            gain=gain,
            power_w=plan.power_w,
            hidden=float(np.max(plan.beta / plan.alpha)) * sigma**2,
            sigma=sigma,
            partners=partners,
            coalition=mechanism.coalition if self.promises_coalition else partners,
            settings=self.settings,
        )
        ratios = RATIOS if mechanism.ratio is None else (mechanism.ratio,)
        if self.errors is not None:
            server = None if channel.server is None else channel.server.mean
            errors = self.errors(links.matrix(gain), server)
            if errors is not None:
                return choose_by_mean(problem, ratios, errors.receiver, errors.alignment, errors.apart)
        return choose(problem, ratios, EXPONENTS if self.exponent is None else (self.exponent,))


@dataclass(frozen=True)
class Arriving:
    """What models must be heard against. thermal_w: receiver noise, W; radius: most that a model holds per coordinate.

    Own noise that hides a gradient multiplied by K leaves a share of power for models that falls as K^-2. Where they
    then arrive below thermal noise, more privacy would cost little and more power would gain much: it is said once.
    """

    thermal_w: float
    radius: float

    def note(self, alpha: FloatArray, plan: PowerPlan, links: Links, gain: FloatArray) -> str | None:
        """In words; None where alpha, `[K]`, is as large as in small networks, or models arrive above thermal noise."""
        if alpha.min() >= ALPHA_MIN or self.thermal_w == 0 or not len(links):
            return None
        model_w = gain**2 * (alpha * plan.power_w)[links.tx] * self.radius**2
        with np.errstate(divide="ignore"):
            level_db = float(to_db(np.median(model_w, keepdims=True) / self.thermal_w)[0])
        if level_db >= 0:
            return None
        return (
            f"power, not privacy, is the limit: theta {plan.theta:.4g} leaves models {np.median(alpha):.2g} of the "
            f"power, and they arrive {-level_db:.3g} dB below thermal noise on the median link; raise radio.power_dbm, "
            'use fewer nodes, or privacy.noise = "pairwise"'
        )


class Planner:
    """Plans. The first, for the whole graph, gives theta and serves for good unless plans are adaptive."""

    def __init__(
        self,
        settings: PowerSettings,
        allocator: PowerAllocator,
        schedule: PlanSchedule,
        *,
        mechanism: Mechanism,
        samples: Samples,
        origin: str,
        choice: JointChoice | None = None,
        arriving: Arriving | None = None,
    ):
        """samples: draws realisations of the gains (`FadingSamples.gains`); origin: the scenario's name in messages.

        choice: what is left to choose of shared noise and of amplitudes; None where nothing is.
        """
        self.mechanism, self._choice, self._arriving = mechanism, choice, arriving
        self.joint: JointPlan | None = None
        self._settings, self._allocator, self._schedule = settings, allocator, schedule
        self._samples, self._origin = samples, origin
        self._guard = guard_of(f"{origin}: power.allocator", allocator, "allocate")
        self.on_note: Callable[[str], None] = lambda _: None  # hears what a plan did otherwise than asked
        self._first: PowerPlan | None = None
        self._last: tuple[PowerPlan, FloatArray] | None = None

    def protect(
        self, plan: PowerPlan, on_air: BoolArray, links: Links, sigma: FloatArray, component: IntArray | None = None
    ) -> Protection:
        """The plan with the noise that the mechanism takes, for those on air, `[K]`. sigma: [K] of eta."""
        if component is None:
            return self.mechanism.protect(plan, on_air, links, sigma)
        return self.mechanism.protect_groups(plan, on_air, links, sigma, component)

    @property
    def latest(self) -> PowerPlan:
        """The plan in force."""
        plan = self._first if self._last is None else self._last[0]
        assert plan is not None
        return plan

    def first(self, channel: FrameChannel) -> PowerPlan:
        """The plan that theta comes from: for the mean gains, the first ones, or many samples, of all links."""
        if self._first is None:
            schedule, samples = self._schedule, None
            every = channel.heard_gain_est if schedule.reference == "first" else channel.mean
            if schedule.kind == "robust":
                samples = self._samples(channel.heard, channel.mean, schedule.samples)
            elif schedule.reference == "first" and channel.subbands > 1:  # it must hold in every subband
                samples = np.stack([block.gain_est for block in channel.slots[: channel.subbands]])
            problem = self._settings.problem(
                channel.links, channel.of_links(every), samples=samples, heard=channel.all_heard(every)
            )
            self._first = self._solve(problem, self._settings.fixed_theta)
            if self._choice is not None:
                self.joint = self._choice.choose(self.mechanism, self._first, channel)
                self.mechanism = self.mechanism.chosen(self.joint.best.ratio)
                self._first = self._shaped(replace(self._first, notes=(*self._first.notes, *self.joint.notes)))
            self._first = self._with_feasibility(self._first, channel.links)
            self._first = self._with_limit(self._first, channel)
        return self._first

    def _with_feasibility(self, plan: PowerPlan, links: Links) -> PowerPlan:
        """The plan, with the note of the mechanism on when it is not feasible; raises where it never is."""
        try:
            note = self.mechanism.feasibility(plan, links)
        except InfeasiblePowerError as error:
            raise InfeasiblePowerError(f"{self._origin}: {error}") from error
        return replace(plan, notes=(*plan.notes, note)) if note else plan

    def _with_limit(self, plan: PowerPlan, channel: FrameChannel) -> PowerPlan:
        """The plan, with a note where models arrive below thermal noise."""
        if self._arriving is None:
            return plan
        shared = self.mechanism.coalition > 0 and self.joint is not None
        alpha = np.full_like(plan.alpha, self.joint.best.alpha) if shared and self.joint is not None else plan.alpha
        note = self._arriving.note(alpha, plan, channel.links, channel.mean_gain)
        return plan if note is None else replace(plan, notes=(*plan.notes, note))

    def _shaped(self, plan: PowerPlan) -> PowerPlan:
        """The plan with the amplitudes of partial balancing."""
        return plan if self.joint is None else replace(plan, power_w=plan.power_w * self.joint.share**2)

    def plan(self, channel: FrameChannel, sigma: FloatArray) -> PowerPlan:
        """The plan of a frame with this channel, once the first is made. Adaptive: from its estimates.

        After silence a node carries an older gradient, and with it more noise, than its neighbours: sigma_k varies.
        Shift and noise of a sender grow alike, so the program is the one of powers P_k sigma_k^2.
        """
        first = self._first
        assert first is not None
        if self._schedule.kind != "adaptive":
            return first
        if not len(channel.heard):  # no link binds anyone; an eavesdropper still meets each sender's own noise
            nobody = replace(first.problem, links=channel.links, heard=None)
            return replace(first, alpha=hide_unheard(nobody, first.alpha, first.theta))
        relative = _relative_noise(channel, sigma)
        if self._last is not None:
            plan, before = self._last
            if _unchanged(plan.problem, channel) and np.array_equal(before, relative):
                self._say(plan)
                return plan
        plan = self.solve_frame(channel, relative)
        self._say(plan)
        self._last = (plan, relative)
        return plan

    def solve_frame(self, channel: FrameChannel, relative_noise: FloatArray | None = None) -> PowerPlan:
        """The plan for one frame's estimates. relative_noise: [K] sigma_k^2 over the largest; None where all alike."""
        first = self._first
        assert first is not None
        budgets_w = self._settings.power_w
        uneven = None if relative_noise is None or (relative_noise == 1.0).all() else relative_noise
        problem = self._settings.problem(
            channel.links,
            channel.gain_est,
            # every block of a payload has gains of its own, and the plan must hold in all of them
            samples=np.stack([slot.gain_est for slot in channel.slots]) if len(channel.slots) > 1 else None,
            heard=channel.all_heard(channel.heard_gain_est),
            power_w=None if uneven is None else budgets_w * uneven,
        )
        try:
            plan = self._solve(problem, self._settings.fixed_theta if self._settings.balance else first.theta)
        except InfeasiblePowerError as error:
            said = f'{error}; so it is with the gains of one frame: objective = "own-noise" does not depend on gains'
            raise InfeasiblePowerError(said) from error
        if uneven is not None:
            plan = replace(plan, problem=replace(plan.problem, power_w=budgets_w), power_w=budgets_w)
        return self._shaped(plan)

    def _solve(self, problem: PowerProblem, theta: float | None = None) -> PowerPlan:
        try:
            plan = self._allocated(problem, theta)
        except InfeasiblePowerError as error:
            raise InfeasiblePowerError(f"{self._origin}: {error}") from error
        name = f"{self._origin}: power.allocator: {type(self._allocator).__name__}"
        plan = replace(_sound(plan, problem.links.nodes, name), fixed=self._settings.fixed_theta)
        self._require_promise(plan, name)
        return plan

    def _allocated(self, problem: PowerProblem, theta: float | None) -> PowerPlan:
        """An allocator's plan. That no plan meets the target is its answer; what else a user's raises is a mistake."""
        with self._guard:
            try:
                return self._allocator.allocate(problem, theta)
            except InfeasiblePowerError as error:
                infeasible = error
        raise infeasible

    def _require_promise(self, plan: PowerPlan, name: str) -> None:
        """Raise where a sender's noise would not keep the promised total: a user's allocator may do anything."""
        settings = self._settings
        if settings.mu_max is None:
            return
        mu = own_mu(plan.alpha, plan.beta * settings.rho**2, np.asarray(settings.sensitivity) * plan.theta)
        worst = int(np.argmax(mu))
        if mu[worst] > settings.mu_max * (1.0 + TOLERANCE):
            raise ContractError(
                f"{name}.allocate gives node {worst} alpha = {plan.alpha[worst]:.4g}, mu = {mu[worst]:.4g} of a "
                f"transmission; epsilon_total allows {settings.mu_max:.4g}: lower alpha, or use epsilon_max"
            )

    def _say(self, plan: PowerPlan) -> None:
        """What was done otherwise than in the first plan; said every time, so that it depends on no memory."""
        assert self._first is not None
        if plan.notes and plan.notes != self._first.notes:
            self.on_note("; ".join(plan.notes))


def _sound(plan: PowerPlan, nodes: int, name: str) -> PowerPlan:
    """The plan as far as an allocator decides it: what is charged rests on it, and pairs are no business of its."""
    if not isinstance(plan, PowerPlan):
        raise ContractError(f"{name}.allocate returned {type(plan).__name__}, expected a PowerPlan")
    name, shape = f"{name}.allocate", (nodes,)
    alpha = checked_array(name, plan.alpha, shape, "one share per node", SHARES, field="alpha", place=of_node)
    power_w = checked_array(name, plan.power_w, shape, "one power per node", POSITIVE, field="power_w", place=of_node)
    if not 0 < plan.theta < np.inf:
        raise ContractError(f"{name} returned theta {quote(plan.theta, 60)}, expected a finite number > 0")
    return replace(plan, alpha=alpha, power_w=power_w, own_share=None, coalition_share=None, fixed=None)


def _relative_noise(channel: FrameChannel, sigma: FloatArray) -> FloatArray:
    """sigma^2 of each sender over the largest of any that is heard, `[K]`."""
    heard: BoolArray = np.bincount(channel.heard.tx, minlength=len(sigma)) > 0
    if not heard.any():
        return np.ones_like(sigma)
    return np.where(heard, (sigma / sigma[heard].max()) ** 2, 1.0)


def _unchanged(problem: PowerProblem, channel: FrameChannel) -> bool:
    """Whether a plan is for this very channel."""
    same = _alike(problem.audible, channel.heard) and _alike(problem.links, channel.links)
    estimates = [slot.gain_est for slot in channel.slots]
    return same and len(problem.gains) == len(estimates) and all(map(np.array_equal, problem.gains, estimates))


def _alike(one: Links, other: Links) -> bool:
    return one is other or (np.array_equal(one.rx, other.rx) and np.array_equal(one.tx, other.tx))


_NEVER = np.iinfo(np.int64).max


class BudgetGate:
    """Keeps senders silent once their promised total would exceed the budget.

    Silence changes what the others need of their plan, so `admit` repeats until nobody else falls silent. It looks at
    nothing that depends on data, so the silence itself tells nothing.
    """

    def __init__(
        self,
        nodes: int,
        budget: float,
        planner: Planner,
        releases: Releases,
        ledger: Ledger,
        *,
        silent: bool = False,
        reached: Callable[[FrameChannel, BoolArray], IntArray | None] = lambda _channel, _on_air: None,
    ):
        """silent: nobody ever sends, budget or not. reached: `Access.reached`."""
        self._silent, self.reached = silent, reached
        self.budget, self._planner, self._releases, self._ledger = budget, planner, releases, ledger
        self.silent_from: IntArray = np.full(nodes, _NEVER)  # round from which a node is silent for good

    @property
    def limited(self) -> bool:
        return bool(np.isfinite(self.budget))

    def eligible(self, round: int, participation: Participation) -> BoolArray:
        """Nodes that would send and still have a budget, `[K]`."""
        return participation.willing & (self.silent_from > round) & (not self._silent)

    def computing(self, on_air: BoolArray, participation: Participation) -> BoolArray:
        """Nodes that take a gradient step, `[K]`: those that send it; all that can, where nothing is ever sent."""
        return participation.willing if self._silent else on_air

    def admit(self, round: int, channel: FrameChannel, participation: Participation, sigma: FloatArray) -> OnAir:
        """Who sends in this frame. sigma: [K] deviation of eta."""
        eligible = self.eligible(round, participation)
        on_air = eligible
        over_budget = np.zeros_like(eligible)
        while True:
            heard = channel.among(on_air, participation.ready)
            component = self.reached(heard, on_air)
            if component is not None and (on_air & (component < 0)).any():
                on_air = on_air & (component >= 0)
                heard = channel.among(on_air, participation.ready)
            plan = self._planner.plan(heard, sigma)
            protection = self._planner.protect(plan, on_air, heard.links, sigma, component)
            if not self.limited:
                break
            mu = np.where(on_air, self._releases.promised_mu(protection.plan, sigma), 0.0)
            over = on_air & self._ledger.promised.exhausted(mu, self.budget)
            if not over.any():
                break
            on_air, over_budget = on_air & ~over, over_budget | over
        if protection.note:
            self._planner.on_note(protection.note)
        self.silent_from = np.where(over_budget, round, self.silent_from)
        return OnAir(on_air, over_budget, heard, protection, eligible & ~on_air & ~over_budget, component)
