"""One round, told once: Algorithm 1 of the paper between two ends of a frame.

`open_frame` is steps 1 to 5, `close_frame` steps 6 to 8:
1. where nodes are and who hears whom          5. the ledger writes what this slot will leak
2. |h| of every link, and its estimate         6. the air superposes
3. who is on air                               7. one batched gradient, step, projection
4. the power plan, and the mixing it makes     8. z is mixed, traces are written
Nothing reaches back: time is SimPy's, models live in the learning engine.

A resumed run replays time: SimPy cannot be saved and a user's channel may hide state, so events, faults,
mobility and channel run again from zero, without learning or tracing, up to the round whose state was
kept. Then models, z, ledger and sums are put in place.
"""

from collections.abc import Callable, Mapping
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.errors import ContractError
from wirelessdl.gaussian import analytic_epsilon, slot_epsilon
from wirelessdl.learning.engine import RoundInput
from wirelessdl.learning.superposition import Segment
from wirelessdl.mixing import Mixing, spectral_gap
from wirelessdl.power.problem import TOLERANCE, PowerPlan
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.radio.access import coloring, halves
from wirelessdl.radio.frame_channel import Carried, FrameChannel, Replay
from wirelessdl.round.multiplier import make_multiplier, rule_for
from wirelessdl.round.observe import Observer
from wirelessdl.round.planning import Planner
from wirelessdl.round.releases import Releases
from wirelessdl.round.trace_events import fire_frame
from wirelessdl.round.weights import FrameWeights, Weigher
from wirelessdl.run.recorder import Entry, Progress, Recorder, Slot, progress
from wirelessdl.run.world import World
from wirelessdl.sim.node_states import Participation, Transmissions
from wirelessdl.trace.events import TraceEvents
from wirelessdl.units import to_s

_GAP_EVERY_ROUND = 64  # nodes up to which the spectral gap is worth computing in every round
_NEVER = np.iinfo(np.int64).max


class Engine:
    """A run in the making. `trace` is where to listen in."""

    def __init__(
        self,
        world: World,
        recorder: Recorder,
        *,
        on_start: Callable[[], None] | None = None,
        on_round: Callable[[int], None] | None = None,
        on_evaluation: Callable[[Progress], None] | None = None,
    ):
        self.world, self.trace = world, TraceEvents()
        recorder.listen(self.trace)
        for source, callback in world.callbacks:
            self.trace.connect(source, callback)
        self._on_start, self._on_round, self._on_evaluation = on_start, on_round, on_evaluation
        self._budgeted = bool(np.isfinite(world.scenario.privacy.budget_total))
        self.multiplier = make_multiplier(rule_for(world.scenario), world.nodes)
        self.ledger = Ledger(world.terms, world.sampling_rate)
        self.carried = Carried(np.zeros(world.nodes), np.zeros(world.nodes))
        self.violations = 0
        self.silent_from = np.full(world.nodes, _NEVER)  # round from which a budget keeps a node silent
        self.time_ns = 0
        self._now_ns = 0
        self._slot: Slot | None = None
        self.observer = Observer(world)
        self.planner = Planner(world, lambda words: self._net_state("plan", words))
        self._releases = Releases(world)
        self._weigher = Weigher(world.scenario.power.balance_from, orthogonal=world.orthogonal)
        self._coordinates = world.frame.coordinates(world.learning.learner.size)
        self._gap: tuple[Mixing, float] | None = None
        self._turns: tuple[NDArray[Any], NDArray[Any], IntArray] | None = None
        self._replay: Replay | None = None
        self._partition = crc32(np.concatenate(world.client_indices).tobytes())
        self._compute = self._crashes = 0

    def run(self, replay: Replay | None = None) -> None:
        """Move time from zero to the end of the last round, replaying what lies behind a kept state."""
        self._replay = replay
        self.trace.muted = replay is not None
        if replay is not None:
            self.silent_from = replay.arrays["silent_from"].copy()  # who was on air in the rounds behind it
        self.world.simulation.run(self.world.scenario.scenario.rounds, self, self._node_state)

    def open_frame(self, round: int, now_ns: int, cast: Participation) -> Transmissions:
        """Steps 1 to 5: all that is decided before anything is sent."""
        self._now_ns = now_ns
        self._compute = crc32(np.array(now_ns).tobytes(), self._compute)
        self._crashes = crc32(np.packbits([cast.up, cast.ready, cast.listening]).tobytes(), self._crashes)
        self._net_state("frame", f"round {round}")
        seen = self.observer.look(round, to_s(now_ns))
        turn, turns = self._turns_of(round, seen)
        if round == 1:  # the first plan fixes theta, and a static plan is the first
            first = self.planner.first(seen)
            self._net_state("plan", f"theta {first.theta:.4g}, mean alpha {first.alpha.mean():.4g}")
            if first.notes:
                self._net_state("plan", "; ".join(first.notes))
        if self._replay is not None:
            return Transmissions(cast.ready & ~cast.listening & (self.silent_from > round), turns)
        self._slot = self._decide(round, self._faulty(seen, turn), cast, turn, turns)
        fire_frame(self.trace, now_ns, self._slot)
        if round == 1 and self._on_start is not None:
            self._on_start()
        return Transmissions(self._slot.on_air, turns)

    def _turns_of(self, round: int, seen: FrameChannel) -> tuple[IntArray, int]:
        """The turn in which each node sends, and how many a slot takes."""
        world, links = self.world, seen.links
        if world.scenario.radio.duplex == "half":
            return halves(world.nodes, world.streams.draws("radio.duplex", round)).astype(np.int64), 2
        if not world.orthogonal:
            return np.zeros(world.nodes, dtype=np.int64), 1
        if self._turns is None or self._turns[0] is not links.rx or self._turns[1] is not links.tx:
            self._turns = (links.rx, links.tx, coloring(links))
        turn = self._turns[2]
        return turn, int(turn.max(initial=0)) + 1

    def _faulty(self, seen: FrameChannel, turn: IntArray) -> FrameChannel:
        """What blockage and half duplex leave of the links."""
        seen = seen.unblocked(silent=not getattr(self.world.blockage, "still_heard", False))
        return seen.across(turn == 1) if self.world.scenario.radio.duplex == "half" else seen

    def _decide(self, round: int, seen: FrameChannel, cast: Participation, turn: IntArray, turns: int) -> Slot:
        """Steps 3 to 5: who is on air, power and mixing, and what the slot will leak, written down."""
        world, delta = self.world, self.world.scenario.privacy.delta
        gamma = world.schedule.rate(round)
        self._forget(cast.lost)  # a gradient that a crash took will never be sent
        sigma = self._releases.sigma(gamma, self.carried)
        on_air, spent, seen, plan = self._take_air(round, seen, cast, sigma)
        budget_w = self._releases.budget_w(plan, sigma)
        weights = self._weigher.weigh(seen, plan, np.sqrt(plan.alpha * budget_w), cast.listening)
        self._forget(cast.listening & weights.heard)  # what a listener had is given up
        multiplier = np.minimum(self.multiplier.advance(self._exchanged(weights, cast)), plan.theta)

        release = self._releases.release(round, on_air, seen, plan, budget_w, sigma, gamma, self.carried)
        self.ledger.record(release)
        link_epsilon = slot_epsilon(release.link_mu, delta)
        violations = self._count_violations(round, link_epsilon)
        return Slot(
            round=round,
            opened_ns=self._now_ns,
            frame=world.frame.taking(turns),
            turn=turn,
            cast=cast,
            seen=seen,
            plan=plan,
            release=release,
            weights=weights,
            on_air=on_air,
            withdrawn=spent | cast.lost,
            alpha=plan.alpha,
            budget_w=budget_w,
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

    def _take_air(
        self, round: int, seen: FrameChannel, cast: Participation, sigma: FloatArray
    ) -> tuple[BoolArray, BoolArray, FrameChannel, PowerPlan]:
        """Who sends, whose budget is spent, what is heard of them, and the plan for it.

        A sender whose own total would exceed the budget stays silent for the rest of the run. Silence changes
        what the others need of their plan, so this repeats until nobody else falls silent. It looks at
        nothing that depends on data, so the silence itself tells nothing.
        """
        budget = self.world.scenario.privacy.budget_total
        wanted = cast.ready & ~cast.listening & (self.silent_from > round)
        on_air = wanted
        while True:
            heard = seen.among(on_air, cast.ready)
            plan = self.planner.plan(heard, sigma)
            if not self._budgeted:
                break
            mu = np.where(on_air, self._releases.own_mu(plan, sigma, self.carried), 0.0)
            over = on_air & self.ledger.exhausted(mu, budget)
            if not over.any():
                break
            on_air = on_air & ~over
        spent = wanted & ~on_air
        for node in np.flatnonzero(spent).tolist():
            self._node_state(self._now_ns, node, "budget", f"own total would exceed {budget:g}: silent from here on")
        # the step that will now never be sent is taken back, so that nothing shown later depends on it
        self.silent_from[spent] = round
        self._forget(spent)
        return on_air, spent, heard, plan

    def _forget(self, nodes: BoolArray) -> None:
        """Their models carry no gradient any more."""
        self.carried = Carried(~nodes * self.carried.gamma, ~nodes * self.carried.multiplier)

    def _exchanged(self, weights: FrameWeights, cast: Participation) -> Mixing:
        """The mixing that z goes through: as receivers know it, or as the air makes it. A listener keeps its z."""
        over_air = self.world.scenario.radio.z_exchange == "air"
        mixing = weights.actual if over_air else weights.known
        if not cast.listening.any():
            return mixing
        link = np.where(cast.listening[mixing.links.rx], 0.0, mixing.link)
        return Mixing(mixing.links, link, np.where(cast.listening, 1.0, mixing.own), mixing.scale)

    def close_frame(self, round: int, now_ns: int, fallen: BoolArray) -> None:
        """Steps 6 to 8: the slot itself, and what is made of it."""
        self._now_ns = now_ns
        if self._replay is not None:
            if round == self._replay.round:
                self._put_in_place(self._replay)
            return
        world, slot = self.world, self._slot
        assert slot is not None
        rounds = world.scenario.scenario.rounds
        evaluate = round % world.scenario.learning.eval_every == 0 or round == rounds
        stepped = slot.on_air & ~fallen
        outcome = world.learning.round(self._order(slot, stepped, evaluate))
        # who stayed silent took no step, and still carries what it carried
        self._forget(slot.on_air & fallen)
        self.carried = Carried(
            np.where(stepped, slot.learning_rate, self.carried.gamma),
            np.where(stepped, slot.multiplier, self.carried.multiplier),
        )
        self.time_ns = now_ns
        entry = Entry(slot, now_ns, outcome, stepped)
        self.trace.fire("learning.update", now_ns, round=round, slot=slot, outcome=outcome, entry=entry)
        if evaluate and self._on_evaluation is not None:
            self._on_evaluation(progress(entry, rounds))
        if self._on_round is not None:
            self._on_round(round)

    def _spectral_gap(self, round: int, mixing: Mixing) -> float:
        """NaN where it would cost more than it tells: large networks, between evaluations."""
        if mixing.links.nodes > _GAP_EVERY_ROUND and round % self.world.scenario.learning.eval_every:
            return float("nan")
        if self._gap is None or self._gap[0] is not mixing:
            self._gap = (mixing, spectral_gap(mixing))
        return self._gap[1]

    def _order(self, slot: Slot, stepped: BoolArray, evaluate: bool) -> RoundInput:
        """What the learning engine is to do with this frame."""
        world = self.world
        echo = slot.on_air * np.sqrt(world.self_interference * slot.alpha * slot.budget_w)
        jam_w = slot.seen.jam_w
        noise = np.sqrt(world.thermal_w if jam_w is None else world.thermal_w + jam_w)
        segments = tuple(
            Segment(
                coordinates=coordinates,
                weights=weights.actual.compact,
                crosstalk=None if weights.crosstalk is None else weights.crosstalk.compact,
                thermal_scale=noise * weights.actual.scale,
                self_interference_scale=echo * weights.actual.scale,
            )
            for coordinates, weights in zip(self._coordinates, slot.weights.slots)
        )
        return RoundInput(
            round=slot.round,
            segments=segments,
            noise_scale=slot.on_air * np.sqrt((1.0 - slot.alpha) / slot.alpha) * slot.sigma,
            step=stepped * slot.learning_rate * slot.multiplier,
            evaluate=evaluate,
            withdrawn=slot.withdrawn,
            # a listener that hears nobody keeps what it held: its model is not hidden by noise
            absent=~slot.cast.ready | (slot.cast.listening & ~slot.weights.heard),
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """All that a later process needs besides the scenario, as arrays."""
        kept = {f"ledger_{name}": values for name, values in self.ledger.state().items()}
        kept |= {f"multiplier_{name}": values for name, values in self.multiplier.state().items()}
        keeps_mixed = self._budgeted or not self.world.complete
        return {
            "x": self.world.learning.state(),
            "carried_gamma": self.carried.gamma,
            "carried_multiplier": self.carried.multiplier,
            "counts": np.array([self.violations, self.time_ns]),
            "silent_from": self.silent_from.copy(),
            **({"mixed": self.world.learning.mixed()} if keeps_mixed else {}),
            **kept,
        }

    def checksums(self) -> dict[str, int]:
        """Of everything that was drawn so far, by what drew it; causes before what they affect."""
        seen = self.observer.checksums()
        return {
            "learning.partition": self._partition,
            "time.compute": self._compute,
            "faults.crashes": self._crashes,
            "network.mobility": seen["network.mobility"],
            "network.topology": seen["network.topology"],
            **self.world.channel.checksums,
            "faults.jammer": seen["faults.jammer"],
            "faults.blockage": seen["faults.blockage"],
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
        self.ledger.restore(_part(arrays, "ledger_"))
        self.multiplier.restore(_part(arrays, "multiplier_"))
        self._replay, self.trace.muted = None, False
        if self._on_start is not None:
            self._on_start()

    def _node_state(self, time_ns: int, node: int, state: str, detail: str) -> None:
        self.trace.fire("node.state", time_ns, node=node, state=state, detail=detail)

    def _net_state(self, state: str, detail: str) -> None:
        self.trace.fire("net.state", self._now_ns, state=state, detail=detail)

    def _count_violations(self, round: int, link_epsilon: FloatArray) -> int:
        over = int(np.sum(link_epsilon > self.world.scenario.privacy.epsilon_max * (1.0 + TOLERANCE)))
        if over:
            self.violations += over
            worst = float(link_epsilon.max())
            self._net_state("violation", f"round {round}: {over} links above epsilon_max, {worst:.4g} at most")
        return over


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
