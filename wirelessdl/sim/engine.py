"""One round, told once: Algorithm 1 of the paper between two ends of a frame.

`open_frame` is steps 1 to 5, `close_frame` steps 6 to 8:
1. where nodes are and who hears whom          5. the ledger writes what this slot will leak
2. |h| of every link, and its estimate         6. the air superposes
3. who is on air                               7. one batched gradient, step, projection
4. the power plan, and the mixing it makes     8. z is mixed, traces are written
Nothing reaches back: time is SimPy's, models live in the learning engine.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import simpy
import torch

from wirelessdl.arrays import FloatArray
from wirelessdl.gaussian import analytic_epsilon, slot_epsilon
from wirelessdl.leakage import link_mu, own_mu
from wirelessdl.learning.engine import Order, fetch
from wirelessdl.links import Links
from wirelessdl.mixing import Mixing, balanced_air, mix, spectral_gap, uniform_air
from wirelessdl.power.problem import TOLERANCE, PowerPlan
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.privacy.release import SlotRelease
from wirelessdl.scenario.schema import Scenario
from wirelessdl.sim.build import World, build
from wirelessdl.sim.clock import to_s
from wirelessdl.sim.medium import Medium
from wirelessdl.sim.node import node_process
from wirelessdl.sim.recorder import Entry, Progress, Recorder, Slot
from wirelessdl.trace.provenance import now, provenance
from wirelessdl.trace.run import Run, open_run
from wirelessdl.trace.sink import RunWriter, create_run_folder

_GAP_EVERY_ROUND = 64  # nodes up to which the spectral gap is worth computing in every round


@dataclass
class Carried:
    """The gradient each node's model carries but has not sent: its rate and multiplier, 0 for none."""

    gamma: FloatArray
    multiplier: FloatArray


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
        self._balanced = world.scenario.power.balance == "receiver"
        self._adaptive = world.scenario.power.schedule == "adaptive"
        self.ledger = Ledger(world.terms, world.sampling_rate)
        self.carried = Carried(np.zeros(world.nodes), np.zeros(world.nodes))
        self.z = np.eye(world.nodes)
        self.plan: PowerPlan | None = None
        self.violations = 0
        self.time_ns = 0
        self._slot: Slot | None = None
        self._last: tuple[FloatArray, FloatArray, float, Mixing, Mixing, float] | None = None

    def run(self) -> None:
        """Move time from zero to the end of the last round."""
        world = self.world
        env = simpy.Environment()
        medium = Medium(env, world.nodes, world.frame)
        for node in range(world.nodes):
            env.process(
                node_process(env, node, medium, world.compute, parallel=not self._hardened, note=self.recorder.event)
            )
        rounds = world.scenario.scenario.rounds
        env.run(until=env.process(medium.process(rounds, self)))
        self.recorder.flush()
        self.recorder.privacy(self.ledger)

    def open_frame(self, round: int, now_ns: int) -> None:
        """Steps 1 to 5: all that is decided before anything is sent."""
        world, scenario = self.world, self.world.scenario
        self.recorder.event(now_ns, -1, "frame", f"round {round}")
        links = world.links.at(world.mobility.geometry(to_s(now_ns)))
        air = world.channel.gain(links, to_s(now_ns))
        gain_est = world.csi.estimate(
            links, air.now, world.power_w, world.thermal_w, world.streams.draws("radio.csi", round)
        )
        on_air = np.ones(world.nodes, dtype=bool)

        self.plan = plan = self._plan(round, now_ns, links, gain_est, air.mean)
        gamma = world.schedule.rate(round)
        sigma = self._sigma(gamma)
        budget_w = self._budget_w(plan.alpha, sigma)
        mixing, known, gap = self._mixing(round, links, air.now, gain_est, np.sqrt(plan.alpha * budget_w))

        release = self._release(round, links, air.now, plan, budget_w, sigma, gamma)
        self.ledger.record(release)
        link_epsilon = slot_epsilon(release.link_mu, scenario.privacy.delta)
        self._count_violations(now_ns, round, link_epsilon)
        self._slot = Slot(
            round=round,
            links=links,
            gain=air.now,
            gain_est=gain_est,
            on_air=on_air,
            alpha=plan.alpha,
            budget_w=budget_w,
            sigma=sigma,
            learning_rate=gamma,
            multiplier=self._multiplier(plan),
            mixing=mixing,
            spectral_gap=gap,
            link_epsilon=link_epsilon,
            own_epsilon=analytic_epsilon(release.own_mu, scenario.privacy.delta),
            total_epsilon=self.ledger.own_total(),
        )
        if not self._balanced:
            self.z = known.dense @ self.z
        if round == 1 and self._on_start is not None:
            self._on_start()

    def close_frame(self, round: int, now_ns: int) -> None:
        """Steps 6 to 8: the slot itself, and what is made of it."""
        world, slot = self.world, self._slot
        assert slot is not None
        rounds = world.scenario.scenario.rounds
        evaluate = round % world.scenario.learning.eval_every == 0 or round == rounds
        outcome = world.learning.round(
            Order(
                round=round,
                weights=slot.mixing.dense,
                noise_scale=np.sqrt((1.0 - slot.alpha) / slot.alpha) * slot.sigma,
                thermal_scale=np.sqrt(world.thermal_w) * slot.mixing.scale,
                step=slot.learning_rate * slot.multiplier,
                evaluate=evaluate,
            )
        )
        self.carried = Carried(np.full(world.nodes, slot.learning_rate), slot.multiplier)
        self.time_ns = now_ns
        entry = Entry(slot, now_ns, outcome)
        self.recorder.add(entry)
        if evaluate and self._on_evaluation is not None:
            self._on_evaluation(_progress(entry, rounds))
        if self._on_round is not None:
            self._on_round(round)

    def _plan(self, round: int, now_ns: int, links: Links, gain_est: FloatArray, mean_gain: FloatArray) -> PowerPlan:
        """Static: once, from the mean gains. Adaptive: anew from this frame's estimates, theta kept."""
        if self.plan is not None and not self._adaptive:
            return self.plan
        if self.plan is not None and np.array_equal(self.plan.problem.gain, gain_est):
            return self.plan
        theta = None if self.plan is None else self.plan.theta
        if self._adaptive and self.plan is None and not self._balanced:
            theta = self.world.plan(links, mean_gain).theta
        plan = self.world.plan(links, gain_est if self._adaptive else mean_gain, theta)
        if round == 1:
            detail = f"theta {plan.theta:.4g}, mean alpha {plan.alpha.mean():.4g}"
            self.recorder.event(now_ns, -1, "plan", detail)
        return plan

    def _sigma(self, gamma: float) -> FloatArray:
        """Deviation of eta: aligned with the gradient carried (hardened), or as printed, rho gamma_t."""
        rho = self.world.scenario.privacy.rho
        if not self._hardened:
            return np.full(self.world.nodes, rho * gamma)
        return rho * np.where(self.carried.gamma > 0, self.carried.gamma, gamma)

    def _budget_w(self, alpha: FloatArray, sigma: FloatArray) -> FloatArray:
        """Power that amplitudes are measured against: the budget, or scaled up to use all of it."""
        if not self.world.scenario.radio.use_full_power:
            return self.world.power_w
        radius = self.world.scenario.learning.projection_radius
        peak = np.max(alpha * radius**2 + (1.0 - alpha) * sigma**2)
        return self.world.power_w / peak

    def _mixing(
        self, round: int, links: Links, gain: FloatArray, gain_est: FloatArray, amplitude: FloatArray
    ) -> tuple[Mixing, Mixing, float]:
        """What the air applies, what receivers believe it applies, and the spectral gap of the latter."""
        last = self._last
        scale = float(amplitude.sum())
        if (
            last is not None
            and scale == last[2]
            and np.array_equal(gain, last[0])
            and np.array_equal(gain_est, last[1])
        ):
            return last[3:]
        air = balanced_air(links, gain_est, amplitude) if self._balanced else uniform_air(links)
        known = mix(links, gain_est, amplitude, air=air)
        actual = known if gain is gain_est else mix(links, gain, amplitude, air=air, gain_est=gain_est)
        wanted = links.nodes <= _GAP_EVERY_ROUND or round % self.world.scenario.learning.eval_every == 0
        gap = spectral_gap(known) if wanted else float("nan")
        self._last = (gain, gain_est, scale, actual, known, gap)
        return actual, known, gap

    def _multiplier(self, plan: PowerPlan) -> FloatArray:
        """K when balanced, else 1 / z_ii of the rounds before, capped at theta."""
        if self._balanced:
            return np.full(self.world.nodes, float(self.world.nodes))
        return np.minimum(1.0 / np.diagonal(self.z), plan.theta)

    def _release(
        self,
        round: int,
        links: Links,
        gain: FloatArray,
        plan: PowerPlan,
        budget_w: FloatArray,
        sigma: FloatArray,
        gamma: float,
    ) -> SlotRelease:
        """What this slot will leak: by the gradients carried, or on links as the paper prints it."""
        world = self.world
        model_w, noise_w = plan.alpha * budget_w, plan.beta * budget_w * sigma**2
        carried = world.sensitivity * self.carried.gamma * self.carried.multiplier
        printed = np.full(world.nodes, world.sensitivity * gamma * plan.theta)
        on_links = link_mu(
            links,
            gain,
            model_w=model_w,
            noise_w=noise_w,
            step_sensitivity=carried if self._hardened else printed,
        )
        return SlotRelease(
            round=round,
            on_air=np.ones(world.nodes, dtype=bool),
            own_mu=own_mu(model_w, noise_w, carried),
            link_rx=links.rx,
            link_tx=links.tx,
            link_mu=on_links,
        )

    def _count_violations(self, now_ns: int, round: int, link_epsilon: FloatArray) -> None:
        over = int(np.sum(link_epsilon > self.world.scenario.privacy.epsilon_max * (1.0 + TOLERANCE)))
        if over:
            self.violations += over
            worst = float(link_epsilon.max())
            self.recorder.event(
                now_ns, -1, "violation", f"round {round}: {over} links above epsilon_max, {worst:.4g} at most"
            )


def simulate(
    scenario: Scenario,
    *,
    out: str | Path = "outputs",
    device: str = "auto",
    on_round: Callable[[int], None] | None = None,
    on_evaluation: Callable[[Progress], None] | None = None,
) -> Run:
    """Run a scenario into a new directory under `out`.

    on_round hears the number of every finished round, on_evaluation where the run stands.
    """
    started = time.perf_counter()
    world = build(scenario, device=device)
    section, trace = scenario.scenario, scenario.trace
    origin = provenance(
        device=str(world.learning.device),
        threads=torch.get_num_threads(),
        user_files={file.name: file.sha256 for file in world.user_files},
    )
    recorder = Recorder(frame=world.frame, thermal_w=world.thermal_w, links=trace.links, flush_every=trace.flush_every)

    def start() -> None:
        """The first frame is decided, so the scenario can run: now there is something to keep."""
        folder = create_run_folder(Path(out), f"{section.name}-s{section.seed}-r{section.run}")
        recorder.writer = writer = RunWriter(folder)
        writer.scenario(world.resolved.to_table())
        writer.provenance(origin)
        for file in world.user_files:
            writer.user_file(file.name, file.path.read_bytes())

    engine = Engine(world, recorder, on_start=start, on_round=on_round, on_evaluation=on_evaluation)
    engine.run()
    writer = recorder.writer
    wall_s = time.perf_counter() - started
    run = open_run(writer.folder)
    writer.summary(summarise(engine, run, wall_s))
    writer.provenance({**origin, "finished": now(), "wall_s": wall_s})
    return run


def summarise(engine: Engine, run: Run, wall_s: float) -> dict[str, Any]:
    """Final figures of a run."""
    world, last = engine.world, run.rounds.iloc[-1]
    section, privacy = world.scenario.scenario, world.scenario.privacy
    proven, claim = (statement.epsilon_total.max(initial=0.0) for statement in engine.ledger.statements())
    return {
        "scenario": section.name,
        "seed": section.seed,
        "run": section.run,
        "rounds": int(last["round"]),
        "nodes": world.nodes,
        "accuracy_mean": float(last["accuracy_mean"]),
        "accuracy_min": float(last["accuracy_min"]),
        "accuracy_max": float(last["accuracy_max"]),
        "protocol": privacy.protocol,
        "epsilon_max": privacy.epsilon_max,
        "delta": privacy.delta,
        "epsilon_link_max": engine.recorder.link_epsilon_max,
        "violations": engine.violations,
        "epsilon_own_total": float(proven),
        "epsilon_claim_total": float(claim),
        "delta_total": privacy.delta_total,
        "time_s": to_s(engine.time_ns),
        "airtime_s": float(run.rounds["airtime_s"].sum()),
        "energy_j": engine.recorder.energy_j,
        "wall_s": wall_s,
    }


def _progress(entry: Entry, rounds: int) -> Progress:
    outcome = entry.outcome
    assert outcome.accuracy is not None
    accuracy = fetch([outcome.accuracy])
    return Progress(
        round=entry.slot.round,
        rounds=rounds,
        time_s=to_s(entry.time_ns),
        accuracy_mean=float(accuracy.mean()),
        accuracy_min=float(accuracy.min()),
        accuracy_max=float(accuracy.max()),
        loss_mean=float(fetch([outcome.loss]).mean()),
        epsilon_own_total=float(entry.slot.total_epsilon.max()),
    )
