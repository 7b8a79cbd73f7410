"""One round, told once: Algorithm 1 of the paper between two ends of a frame.

`open_frame` is steps 1 to 5, `close_frame` steps 6 to 8:
1. where nodes are and who hears whom          5. the ledger writes what this slot will leak
2. |h| of every link, and its estimate         6. the air superposes
3. who is on air                               7. one batched gradient, step, projection
4. the power plan, and the mixing it makes     8. z is mixed, traces are written
Nothing reaches back: time is SimPy's, models live in the learning engine.

A resumed run replays time: SimPy cannot be saved and a user's channel may hide state, so events,
mobility and channel run again from zero, without learning or tracing, up to the round whose state was
kept. Then models, z, ledger and sums are put in place.
"""

from collections.abc import Callable, Mapping
from typing import Any
from zlib import crc32

import numpy as np
import simpy
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.errors import ContractError
from wirelessdl.gaussian import analytic_epsilon, slot_epsilon
from wirelessdl.leakage import link_mu, own_mu
from wirelessdl.learning.air import Segment
from wirelessdl.learning.engine import Order
from wirelessdl.links import Links
from wirelessdl.mixing import Mixing, spectral_gap
from wirelessdl.power.problem import TOLERANCE, PowerPlan, PowerProblem
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.privacy.release import SlotRelease
from wirelessdl.sim.clock import to_s
from wirelessdl.sim.frame import Carried, Replay, Seen
from wirelessdl.sim.medium import Medium
from wirelessdl.sim.multiplier import make_multiplier, rule_for
from wirelessdl.sim.node import node_process
from wirelessdl.sim.observer import Observer
from wirelessdl.sim.recorder import Entry, Progress, Recorder, Slot, progress
from wirelessdl.sim.weights import Weigher
from wirelessdl.sim.world import World

_GAP_EVERY_ROUND = 64  # nodes up to which the spectral gap is worth computing in every round


class Engine:
    """A run in the making."""

    def __init__(
        self,
        world: World,
        recorder: Recorder,
        *,
        on_start: Callable[[], None] | None = None,
        on_round: Callable[[int], None] | None = None,
        on_evaluation: Callable[[Progress], None] | None = None,
    ):
        self.world, self.recorder = world, recorder
        self._on_start, self._on_round, self._on_evaluation = on_start, on_round, on_evaluation
        self._hardened = world.scenario.privacy.protocol == "hardened"
        self._budgeted = bool(np.isfinite(world.scenario.privacy.budget_total))
        self._adaptive = world.scenario.power.schedule == "adaptive"
        self.multiplier = make_multiplier(rule_for(world.scenario), world.nodes)
        self.ledger = Ledger(world.terms, world.sampling_rate)
        self.carried = Carried(np.zeros(world.nodes), np.zeros(world.nodes))
        self.plan: PowerPlan | None = None
        self.violations = 0
        self.silent = np.zeros(world.nodes, dtype=bool)
        self.withdrawn = np.zeros(world.nodes, dtype=bool)
        self.time_ns = 0
        self._slot: Slot | None = None
        self.observer = Observer(world)
        self._weigher = Weigher(world.scenario.power.balance_from)
        self._coordinates = world.frame.coordinates(world.learning.learner.size)
        self._gap: tuple[Mixing, float] | None = None
        self._replay: Replay | None = None
        self._partition = crc32(np.concatenate(world.hands).tobytes())
        self._compute = 0

    def run(self, replay: Replay | None = None) -> None:
        """Move time from zero to the end of the last round, replaying what lies behind a kept state."""
        self._replay = replay
        self.recorder.silent = replay is not None
        world = self.world
        env = simpy.Environment()
        medium = Medium(env, world.nodes, world.frame)
        for node in range(world.nodes):
            env.process(
                node_process(env, node, medium, world.compute, parallel=not self._hardened, note=self.recorder.event)
            )
        rounds = world.scenario.scenario.rounds
        env.run(until=env.process(medium.process(rounds, self)))

    def open_frame(self, round: int, now_ns: int) -> None:
        """Steps 1 to 5: all that is decided before anything is sent."""
        self._compute = crc32(np.array(now_ns).tobytes(), self._compute)
        self.recorder.event(now_ns, -1, "frame", f"round {round}")
        seen = self.observer.look(round, to_s(now_ns))
        if self._replay is not None:
            if round == 1:  # the first plan fixes theta, and a static plan is the first
                self.plan = self._plan(round, now_ns, seen)
            return
        self._slot = self._decide(round, now_ns, seen)
        if round == 1 and self._on_start is not None:
            self._on_start()

    def _decide(self, round: int, now_ns: int, seen: Seen) -> Slot:
        """Steps 3 to 5: who is on air, power and mixing, and what the slot will leak, written down."""
        world, delta = self.world, self.world.scenario.privacy.delta
        gamma = world.schedule.rate(round)
        sigma = self._sigma(gamma)
        on_air, seen, plan = self._take_air(round, now_ns, seen, sigma)
        budget_w = self._budget_w(plan, sigma)
        weights = self._weigher.weigh(seen, plan, np.sqrt(plan.alpha * budget_w))
        multiplier = np.minimum(self.multiplier.advance(weights.known), plan.theta)

        release = self._release(round, on_air, seen, plan, budget_w, sigma, gamma)
        self.ledger.record(release)
        link_epsilon = slot_epsilon(release.link_mu, delta)
        violations = self._count_violations(now_ns, round, link_epsilon)
        return Slot(
            round=round,
            seen=seen,
            weights=weights,
            on_air=on_air,
            alpha=plan.alpha,
            budget_w=budget_w,
            pilot_w=world.power_w,
            backoff_db=plan.backoff_db,
            violations=violations,
            sigma=sigma,
            learning_rate=gamma,
            multiplier=multiplier,
            spectral_gap=self._spectral_gap(round, weights.known),
            link_epsilon=link_epsilon,
            own_epsilon=analytic_epsilon(release.own_mu, delta),
            total_epsilon=self.ledger.own_bound(),
        )

    def _take_air(self, round: int, now_ns: int, seen: Seen, sigma: FloatArray) -> tuple[BoolArray, Seen, PowerPlan]:
        """Who sends, what is heard of them, and the plan for it.

        A sender whose own total would exceed the budget stays silent for the rest of the run. Silence changes
        what the others need of their plan, so this repeats until nobody else falls silent. It looks at
        nothing that depends on data, so the silence itself tells nothing.
        """
        budget = self.world.scenario.privacy.budget_total
        on_air = ~self.silent
        while True:
            heard = seen.among(on_air)
            self.plan = plan = self._plan(round, now_ns, heard)
            if not np.isfinite(budget):
                break
            mu = np.where(on_air, self._own_mu(plan, sigma), 0.0)
            spent = on_air & self.ledger.exhausted(mu, budget)
            if not spent.any():
                break
            on_air = on_air & ~spent
        for node in np.flatnonzero(~on_air & ~self.silent):
            self.recorder.event(now_ns, int(node), "budget", f"own total would exceed {budget:g}: silent from here on")
        # the step that will now never be sent is taken back, so that nothing shown later depends on it
        self.withdrawn = ~on_air & ~self.silent
        self.silent = ~on_air
        self.carried = Carried(on_air * self.carried.gamma, on_air * self.carried.multiplier)
        return on_air, heard, plan

    def _own_mu(self, plan: PowerPlan, sigma: FloatArray) -> FloatArray:
        """What each transmission would leak behind its own noise, by the gradient it carries."""
        carried = self.world.sensitivity * self.carried.gamma * self.carried.multiplier
        return own_mu(plan.alpha * plan.power_w, plan.beta * plan.power_w * sigma**2, carried)

    def close_frame(self, round: int, now_ns: int) -> None:
        """Steps 6 to 8: the slot itself, and what is made of it."""
        if self._replay is not None:
            if round == self._replay.round:
                self._put_in_place(self._replay)
            return
        world, slot = self.world, self._slot
        assert slot is not None
        rounds = world.scenario.scenario.rounds
        evaluate = round % world.scenario.learning.eval_every == 0 or round == rounds
        outcome = world.learning.round(self._order(slot, evaluate))
        # who stayed silent took no step, and still carries what it carried
        self.carried = Carried(
            np.where(slot.on_air, slot.learning_rate, self.carried.gamma),
            np.where(slot.on_air, slot.multiplier, self.carried.multiplier),
        )
        self.time_ns = now_ns
        entry = Entry(slot, now_ns, outcome)
        self.recorder.add(entry)
        if evaluate and self._on_evaluation is not None:
            self._on_evaluation(progress(entry, rounds))
        if self._on_round is not None:
            self._on_round(round)

    def _plan(self, round: int, now_ns: int, seen: Seen) -> PowerPlan:
        """Static: once, from the mean gains. Adaptive: anew from this frame's estimates, theta kept."""
        if self.plan is not None and not self._adaptive:
            return self.plan
        if self.plan is not None and (not len(seen.links) or _unchanged(self.plan.problem, seen)):
            return self.plan
        plan = self.first_plan(seen) if self.plan is None else self.plan
        if self._adaptive:
            theta = None if self.world.scenario.power.balance else plan.theta
            plan = self.world.plan(seen.links, seen.gain_est, theta, heard=_heard(seen, seen.slots[0].gain_est))
        if round == 1:
            self.recorder.event(now_ns, -1, "plan", f"theta {plan.theta:.4g}, mean alpha {plan.alpha.mean():.4g}")
        if plan.notes and (self.plan is None or self.plan.notes != plan.notes):
            self.recorder.event(now_ns, -1, "plan", "; ".join(plan.notes))
        return plan

    def first_plan(self, seen: Seen) -> PowerPlan:
        """The plan that theta comes from: for the mean gains, the first ones, or many samples."""
        power = self.world.scenario.power
        every = seen.slots[0].gain_est if power.reference == "first" else seen.mean
        samples = self.world.sample_gains(seen.heard, seen.mean, power.samples) if power.schedule == "robust" else None
        return self.world.plan(seen.links, seen.of_links(every), samples=samples, heard=_heard(seen, every))

    def _sigma(self, gamma: float) -> FloatArray:
        """Deviation of eta: aligned with the gradient carried (hardened), or as printed, rho gamma_t."""
        rho = self.world.scenario.privacy.rho
        if not self._hardened:
            return np.full(self.world.nodes, rho * gamma)
        return rho * np.where(self.carried.gamma > 0, self.carried.gamma, gamma)

    def _budget_w(self, plan: PowerPlan, sigma: FloatArray) -> FloatArray:
        """Power that amplitudes are measured against: the plan's, or scaled up to use all of it."""
        if not self.world.scenario.radio.use_full_power:
            return plan.power_w
        radius = self.world.scenario.learning.projection_radius
        peak = np.max(plan.alpha * radius**2 + plan.beta * sigma**2)
        return plan.power_w / peak

    def _spectral_gap(self, round: int, mixing: Mixing) -> float:
        """NaN where it would cost more than it tells: large networks, between evaluations."""
        if mixing.links.nodes > _GAP_EVERY_ROUND and round % self.world.scenario.learning.eval_every:
            return float("nan")
        if self._gap is None or self._gap[0] is not mixing:
            self._gap = (mixing, spectral_gap(mixing))
        return self._gap[1]

    def _release(
        self,
        round: int,
        on_air: BoolArray,
        seen: Seen,
        plan: PowerPlan,
        budget_w: FloatArray,
        sigma: FloatArray,
        gamma: float,
    ) -> SlotRelease:
        """What this frame will leak: by the gradients carried, or on links as the paper prints it.

        Slots carry disjoint coordinates, so a sample's shift is shared among them and the worst slot bounds all.
        """
        world = self.world
        model_w, noise_w = plan.alpha * budget_w, plan.beta * budget_w * sigma**2
        carried = world.sensitivity * self.carried.gamma * self.carried.multiplier
        printed = np.full(world.nodes, world.sensitivity * gamma * plan.theta)
        on_links = [
            link_mu(
                seen.heard,
                slot.gain,
                model_w=model_w,
                noise_w=noise_w,
                step_sensitivity=carried if self._hardened else printed,
                thermal_w=world.thermal_w if world.scenario.privacy.credit_thermal else 0.0,
            )
            for slot in seen.slots
        ]
        return SlotRelease(
            round=round,
            on_air=on_air,
            gamma=self.carried.gamma,
            multiplier=self.carried.multiplier,
            own_mu=np.where(on_air, own_mu(model_w, noise_w, carried), 0.0),
            link_rx=seen.heard.rx,
            link_tx=seen.heard.tx,
            link_mu=np.max(on_links, axis=0) if len(on_links) > 1 else on_links[0],
        )

    def _order(self, slot: Slot, evaluate: bool) -> Order:
        """What the learning engine is to do with this frame."""
        world = self.world
        echo = slot.on_air * np.sqrt(world.echo * slot.alpha * slot.budget_w)
        segments = tuple(
            Segment(
                coordinates=coordinates,
                weights=weights.actual.compact,
                crosstalk=None if weights.crosstalk is None else weights.crosstalk.compact,
                thermal_scale=np.sqrt(world.thermal_w) * weights.actual.scale,
                echo_scale=echo * weights.actual.scale,
            )
            for coordinates, weights in zip(self._coordinates, slot.weights.slots)
        )
        return Order(
            round=slot.round,
            segments=segments,
            noise_scale=slot.on_air * np.sqrt((1.0 - slot.alpha) / slot.alpha) * slot.sigma,
            step=slot.on_air * slot.learning_rate * slot.multiplier,
            evaluate=evaluate,
            withdrawn=self.withdrawn,
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """All that a later process needs besides the scenario, as arrays."""
        kept = {f"ledger_{name}": values for name, values in self.ledger.state().items()}
        kept |= {f"multiplier_{name}": values for name, values in self.multiplier.state().items()}
        return {
            "x": self.world.learning.state(),
            "carried_gamma": self.carried.gamma,
            "carried_multiplier": self.carried.multiplier,
            "counts": np.array([self.violations, self.time_ns]),
            "silent": self.silent,
            **({"mixed": self.world.learning.mixed()} if self._budgeted else {}),
            **kept,
        }

    def checksums(self) -> dict[str, int]:
        """Of everything that was drawn so far, by what drew it; causes before what they affect."""
        seen = self.observer.checksums()
        return {
            "learning.partition": self._partition,
            "time.compute": self._compute,
            "network.mobility": seen["network.mobility"],
            "network.topology": seen["network.topology"],
            **self.world.channel.checksums,
            "radio.csi": seen["radio.csi"],
        }

    def _put_in_place(self, replay: Replay) -> None:
        """End of the replay: what was drawn must be what was drawn before; then the kept state goes on."""
        for name, checksum in self.checksums().items():
            if replay.checksums.get(name) != checksum:
                shown = name.removeprefix("channel.").rpartition(".")[0] if name.startswith("channel.") else name
                raise ContractError(
                    f"{shown} gave other values than before the interruption, so the run cannot go on: "
                    "a model must draw only from the rng it is handed"
                )
        arrays = replay.arrays
        self.world.learning.restore(arrays["x"], arrays.get("mixed"))
        self.carried = Carried(arrays["carried_gamma"], arrays["carried_multiplier"])
        self.violations, self.time_ns = arrays["counts"].tolist()
        self.silent = arrays["silent"]
        self.ledger.restore(_part(arrays, "ledger_"))
        self.multiplier.restore(_part(arrays, "multiplier_"))
        self._replay, self.recorder.silent = None, False
        if self._on_start is not None:
            self._on_start()

    def _count_violations(self, now_ns: int, round: int, link_epsilon: FloatArray) -> int:
        over = int(np.sum(link_epsilon > self.world.scenario.privacy.epsilon_max * (1.0 + TOLERANCE)))
        if over:
            self.violations += over
            worst = float(link_epsilon.max())
            detail = f"round {round}: {over} links above epsilon_max, {worst:.4g} at most"
            self.recorder.event(now_ns, -1, "violation", detail)
        return over


def _heard(seen: Seen, gain: FloatArray) -> tuple[Links, FloatArray] | None:
    """All that is heard, where that is more than the graph's links."""
    return None if seen.inside is None else (seen.heard, gain)


def _unchanged(problem: PowerProblem, seen: Seen) -> bool:
    """Whether a plan is for what is seen now."""
    links, heard = problem.audible, seen.heard
    same = links is heard or (np.array_equal(links.rx, heard.rx) and np.array_equal(links.tx, heard.tx))
    return same and np.array_equal(problem.gains[0], seen.slots[0].gain_est)


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
