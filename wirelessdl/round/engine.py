"""One round, in one place: Algorithm 1 of the paper between two ends of a frame.

`open_frame` is steps 1 to 5, `close_frame` steps 6 to 8:
1. where nodes are and who hears whom          5. the ledger writes what this frame will leak
2. |h| of every link, and its estimate         6. models with their noise are sent, and added by the air
3. who is on air                               7. one batched gradient, step, projection
4. the power plan; how the access carries      8. traces are written
   it: turns, weights A, and z mixed by A

    observe -> take part -> plan -> carry -> release -> (superpose, gradient, step) -> record

`_decide` is steps 3 to 5. Every stage is given its inputs and nothing else; time is SimPy's, models live in the
learning engine. `run/wiring.py` makes the stages.

A resumed run replays time: SimPy cannot be saved and a user's channel may hide state, so events, faults,
mobility and channel run again from zero, without learning or tracing, up to the round whose state was
kept. Then models, z, ledger and sums are put in place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from wirelessdl.access import Access, Carried, Carrier, OpenFrame, Sending
from wirelessdl.access.weights import FrameWeights
from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.contract import guarded
from wirelessdl.errors import ContractError
from wirelessdl.gaussian import slot_epsilon
from wirelessdl.learning.byzantine import AttackInput
from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.records import RoundInput
from wirelessdl.learning.schedule import Schedule
from wirelessdl.mechanism.gram import GramStage
from wirelessdl.mixing import Mixing, spectral_gap
from wirelessdl.power.problem import TOLERANCE
from wirelessdl.privacy.ledger import FrameRelease, Ledger, SenderTotals
from wirelessdl.radio.energy import ControlLosses
from wirelessdl.radio.frame import Frame, Participation, Transmissions, Turns
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.radio.offsets import Offsets
from wirelessdl.round.multiplier import Multiplier
from wirelessdl.round.observe import Observer
from wirelessdl.round.planning import BudgetGate, Planner
from wirelessdl.round.records import Charged, FrameDecision, ProvenTotal, RoundRecord, Segments, fire_frame
from wirelessdl.round.releases import PendingGradients, Releases
from wirelessdl.trace.checkpoint import array_problem, arrays_of
from wirelessdl.trace.events import TraceEvents
from wirelessdl.units import to_s

_GAP_EVERY_ROUND = 64  # nodes up to which the spectral gap is worth computing in every round


@dataclass(frozen=True, eq=False)
class Stages:
    """The stages of a round, in the order in which they act."""

    observer: Observer
    access: Access
    planner: Planner
    gate: BudgetGate
    carrier: Carrier
    multiplier: Multiplier
    releases: Releases
    ledger: Ledger
    pending: PendingGradients
    learning: LearningEngine


@dataclass(frozen=True, eq=False)
class RoundSettings:
    """Numbers and rules that are the same in every round.

    thermal_w: receiver noise in W; self_interference: share of its own emission that a node hears; blocked_heard:
    whether blocked links are still heard as interference; z_over_air: whether z goes through the channel's own mixing.
    offsets: of carriers and timing, None without any. gram: the stage that training begins with, None without one.
    """

    rounds: int
    eval_every: int
    schedule: Schedule
    frame: Frame
    delta: float
    epsilon_max: float
    thermal_w: float
    self_interference: float
    blocked_heard: bool
    z_over_air: bool
    control: ControlLosses
    offsets: Offsets | None = None
    gram: GramStage | None = None

    def in_stage(self, round: int) -> bool:
        """Whether a round is a frame of the Gram stage."""
        return self.gram is not None and round <= self.gram.frames


@dataclass(frozen=True)
class Hooks:
    """Functions called on the way: when the first frame is decided, and after every round with its record."""

    on_start: Callable[[], None] = lambda: None
    on_record: Callable[[RoundRecord], None] = lambda _: None


@dataclass(frozen=True, eq=False)
class KeptState:
    """A state to go on from: what `Engine.state` and `Engine.checksums` gave after a round."""

    round: int
    arrays: Mapping[str, NDArray[Any]]
    checksums: Mapping[str, int]


class Engine:
    """A run in the making: called by the event simulation at both ends of every frame."""

    def __init__(self, stages: Stages, settings: RoundSettings, trace: TraceEvents, hooks: Hooks | None = None):
        self.stages, self.settings, self.trace, self._hooks = stages, settings, trace, hooks or Hooks()
        self._rate: Callable[[int], float] = guarded("learning.learning_rate", settings.schedule, "rate")
        self.violations = 0
        self.time_ns = 0
        self._now_ns = 0
        self._decision: FrameDecision | None = None
        size = stages.learning.learner.size
        given = (settings.frame, size, settings.thermal_w, settings.self_interference, settings.offsets)
        self._segments = Segments(*given, coded=stages.access.coded, robust=stages.learning.settings.robust is not None)
        self._gap: tuple[Mixing, float] | None = None
        self._replay: KeptState | None = None
        self._partition = crc32(np.concatenate(stages.learning.client_indices).tobytes())
        self._compute = self._crashes = 0
        stages.planner.on_note = lambda words: self.net_state("plan", words)

    def replay(self, kept: KeptState) -> None:
        """Let time pass up to a kept state, then go on from it."""
        self._replay, self.trace.muted = kept, True
        self.stages.gate.silent_from = kept.arrays["silent_from"].copy()  # who was on air in the rounds behind it

    def open_frame(self, round: int, now_ns: int, participation: Participation) -> Transmissions:
        """Steps 1 to 5: all that is decided before anything is sent."""
        stages = self.stages
        self._now_ns = now_ns
        self._compute = crc32(np.array(now_ns).tobytes(), self._compute)
        states = [participation.up, participation.ready, participation.listening]
        self._crashes = crc32(np.packbits(states).tobytes(), self._crashes)
        self.net_state("frame", f"round {round}")
        channel = stages.observer.observe(round, to_s(now_ns))
        turns = stages.access.schedule(round, channel.links)
        if round == 1:  # the first plan fixes theta, and a static plan is the first
            first = stages.planner.first(channel)
            self.net_state("plan", f"theta {first.theta:.4g}, mean alpha {first.alpha.mean():.4g}")
            if first.notes:
                self.net_state("plan", "; ".join(first.notes))
            if self.settings.gram is not None:
                stages.pending.begin(*self.settings.gram.pending(self._learning_rate(1), first.theta))
            stages.carrier.expect(stages.access.audible(channel, turns), first, turns)
        channel = stages.access.audible(channel.unblocked(still_heard=self.settings.blocked_heard), turns)
        if self._replay is not None:
            on_air, uncovered = stages.gate.eligible(round, participation), np.zeros_like(participation.ready)
            component = stages.gate.reached(channel.among(on_air, participation.ready), on_air)
            if component is not None:
                on_air, uncovered = on_air & (component >= 0), on_air & (component < 0)
            computes = stages.gate.computing(on_air, participation)
            heard, receivers = channel.among(on_air, participation.ready), participation.ready & ~on_air & ~uncovered
            opened = OpenFrame(
                round=round, now_ns=now_ns, channel=heard, on_air=on_air, receivers=receivers, turns=turns
            )
            lasting = stages.carrier.lasting(opened)
            return Transmissions(on_air, computes, turns.count, *(lasting or ()))
        if self.settings.offsets is not None:
            channel = self.settings.offsets.aligned(channel, turns)
        self._decision = self._decide(round, channel, participation, turns)
        fire_frame(self.trace, now_ns, self._decision)
        if round == 1:
            self._hooks.on_start()
        decided = self._decision
        carried = decided.carried
        return Transmissions(decided.on_air, decided.computes, turns.count, decided.frame.uneven_ns, carried.airtime)

    def _decide(self, round: int, channel: FrameChannel, participation: Participation, turns: Turns) -> FrameDecision:
        """Steps 3 to 5: who is on air, power and mixing, and what the frame will leak, written down."""
        stages, settings = self.stages, self.settings
        gamma = self._learning_rate(round)
        stages.pending.withdraw(participation.lost)  # a gradient that a crash took will never be sent
        sigma = stages.releases.sigma(gamma)
        air = stages.gate.admit(round, channel, participation, sigma)
        self._silence(air.over_budget)
        plan = air.protection.plan
        budget_w = stages.releases.budget_w(plan, sigma)
        carried = stages.carrier.carry(
            Sending(
                round=round,
                now_ns=self._now_ns,
                channel=air.channel,
                plan=plan,
                model_w=plan.alpha * budget_w,
                on_air=air.on_air,
                listening=participation.listening,
                receivers=participation.ready & ~air.on_air & ~air.uncovered,
                turns=turns,
                held_square=stages.releases.held_square(plan, sigma, air.on_air),
                apart_square=stages.releases.apart_square(plan, sigma, gamma, air.on_air),
                component=air.component,
            )
        )
        _require_one_release(carried, air.on_air)
        weights = carried.weights
        z_lost = air.on_air & settings.control.z(round) & (settings.frame.exchange_ns > 0)
        exchanged = stages.multiplier.advance(self._exchanged(weights, participation), air.on_air, z_lost)
        exchanged = exchanged if carried.multiplier is None else carried.multiplier
        # weights of a user's access may make 1/z_ii negative: no gradient is taken backwards, nor uncharged
        multiplier = np.clip(exchanged, 0.0, plan.theta)
        in_stage, attackers = settings.in_stage(round), self._attackers(round, len(air.on_air))
        release = stages.releases.release(
            round, air.on_air, air.channel, plan, budget_w, sigma, gamma, stage=in_stage, attackers=attackers
        )
        stages.ledger.record(release)
        return FrameDecision(
            round=round,
            opened_ns=self._now_ns,
            frame=settings.frame.in_round(round, settings.rounds).taking(turns.count, carried.uneven_ns),
            turn=turns.turn,
            participation=participation,
            air=air,
            carried=carried,
            release=release,
            charged=self._charged(release),
            computes=stages.gate.computing(air.on_air, participation),
            attackers=attackers,
            budget_w=budget_w,
            sigma=sigma,
            learning_rate=gamma,
            multiplier=multiplier,
            orthogonal=stages.access.orthogonal,
            z_lost=z_lost,
            spectral_gap=self._spectral_gap(round, weights.known),
        )

    def close_frame(self, round: int, now_ns: int, fallen: BoolArray) -> None:
        """Steps 6 to 8: the payload itself, and what is made of it. fallen: [K] crashed within the frame."""
        self._now_ns = now_ns
        if self._replay is not None:
            if round == self._replay.round:
                self._put_in_place(self._replay)
            return
        decision = self._decision
        assert decision is not None
        stepped = decision.computes & ~fallen & (not self.settings.in_stage(round + 1))
        result = self.stages.learning.round(self._input(decision, stepped))
        self.time_ns = now_ns
        record = RoundRecord(decision, now_ns, result, stepped)
        self.trace.fire("learning.update", now_ns, round=round, decision=decision, result=result, record=record)
        self._hooks.on_record(record)

    def _learning_rate(self, round: int) -> float:
        """gamma of a round; the last frame of a Gram stage is the first of training."""
        return self._rate(round if self.settings.gram is None else max(1, round + 1 - self.settings.gram.frames))

    def _evaluated(self, round: int) -> bool:
        return round % self.settings.eval_every == 0 or round == self.settings.rounds

    def _charged(self, release: FrameRelease) -> Charged:
        """What the ledger, which has recorded this release, holds by now."""
        ledger, delta = self.stages.ledger, self.settings.delta
        link, own = slot_epsilon(release.link_mu, delta), slot_epsilon(release.own_mu, delta)
        coalition = None if release.coalition_mu is None else slot_epsilon(release.coalition_mu, delta)
        own_total = self._total(release.round, ledger.own)
        promised = own_total if ledger.promised is ledger.own else self._total(release.round, ledger.promised)
        counted, what = (link, "links")
        if not ledger.terms.counts_links:
            counted = own if coalition is None or ledger.terms.promised == "own" else coalition
            what = "senders"
        violations = self._count_violations(release.round, counted, what)
        return Charged(link, own, coalition, own_total, promised, ledger.terms.promised, violations)

    def _total(self, round: int, view: SenderTotals) -> ProvenTotal:
        bound = view.bound()
        if not self._evaluated(round):
            return ProvenTotal(bound, float("nan"), np.full(len(bound), np.nan))
        total = view.total() if round == self.settings.rounds else view.known()
        return ProvenTotal(bound, float(np.fmax.reduce(total)), total)

    def _input(self, decision: FrameDecision, stepped: BoolArray) -> RoundInput:
        """What the learning engine is to do with this frame."""
        plan = decision.plan
        pending, release, gram = self.stages.pending, decision.release, self.settings.gram
        scale = None
        if gram is not None and self.settings.in_stage(decision.round):
            scale = gram.scale(release.gamma, release.multiplier)
        if self.settings.in_stage(decision.round + 1):
            update = pending.hold(decision.absent)
        else:
            if scale is not None:  # who missed the end of the stage never sends what is left of its triangle
                pending.withdraw(decision.absent)
            update = pending.update(
                stepped=stepped,
                absent=decision.absent,
                learning_rate=decision.learning_rate,
                multiplier=decision.multiplier,
            )
        noise_scale = np.asarray(decision.on_air * np.sqrt((1.0 - plan.alpha) / plan.alpha) * decision.sigma)
        return RoundInput(
            round=decision.round,
            steps=self._segments.steps(decision),
            noise_scale=noise_scale,
            update=update,
            gram=scale,
            evaluate=self._evaluated(decision.round),
            whole=decision.round == self.settings.rounds,
            pairs=decision.air.protection.noise(noise_scale),
            messages=self.stages.carrier.messages(decision.on_air),
            announced=decision.carried.announced,
            attack=self._attack(decision),
        )

    def _attackers(self, round: int, nodes: int) -> BoolArray:
        """Nodes that send something else than they hold, if they send, `[K]`."""
        attackers, found = self.stages.learning.settings.attackers, np.zeros(nodes, dtype=bool)
        if attackers is not None and round >= attackers.from_round:
            found[attackers.nodes] = True
        return found

    def _attack(self, decision: FrameDecision) -> AttackInput | None:
        """Attackers of this frame, and how much power they have, in units of models."""
        nodes, plan = np.flatnonzero(decision.attackers & decision.on_air), decision.plan
        if not len(nodes):
            return None
        return AttackInput(nodes, (plan.problem.power_w / (plan.alpha * decision.budget_w))[nodes])

    def _silence(self, over_budget: BoolArray) -> None:
        """The step that will now never be sent is taken back, so that nothing shown later depends on it."""
        for node in np.flatnonzero(over_budget).tolist():
            words = f"promised total would exceed {self.stages.gate.budget:g}: silent from here on"
            self.node_state(self._now_ns, node, "budget", words)
        self.stages.pending.withdraw(over_budget)

    def _exchanged(self, weights: FrameWeights, participation: Participation) -> Mixing:
        """The mixing that z goes through: as receivers know it, or as the channel makes it. A listener keeps its z."""
        mixing, listening = weights.actual if self.settings.z_over_air else weights.known, participation.listening
        if not listening.any():
            return mixing
        link = np.where(listening[mixing.links.rx], 0.0, mixing.link)
        return Mixing(mixing.links, link, np.where(listening, 1.0, mixing.own), mixing.scale)

    def _spectral_gap(self, round: int, mixing: Mixing) -> float:
        """NaN where it would cost more than it tells: large networks, between evaluations."""
        if mixing.links.nodes > _GAP_EVERY_ROUND and round % self.settings.eval_every:
            return float("nan")
        if self._gap is None or self._gap[0] is not mixing:
            self._gap = (mixing, spectral_gap(mixing))
        return self._gap[1]

    def _count_violations(self, round: int, epsilon: FloatArray, what: str) -> int:
        """Links above epsilon_max; where links are not accounted for, senders above it in the promised view."""
        most = self.settings.epsilon_max
        if self.settings.gram is not None and self.settings.in_stage(round):
            charged = self.settings.gram.mu * (1.0 + 2e-9)  # a little more than mu, see `add_to_stage`
            most = float(slot_epsilon(np.array([charged]), self.settings.delta)[0])
        over = int(np.sum(epsilon > most * (1.0 + TOLERANCE)))
        if over:
            self.violations += over
            worst = float(epsilon.max())
            self.net_state("violation", f"round {round}: {over} {what} above epsilon_max, {worst:.4g} at most")
        return over

    def node_state(self, time_ns: int, node: int, state: str, detail: str) -> None:
        if node < 0:  # of the whole network
            self.trace.fire("net.state", time_ns, state=state, detail=detail)
        else:
            self.trace.fire("node.state", time_ns, node=node, state=state, detail=detail)

    def net_state(self, state: str, detail: str) -> None:
        self.trace.fire("net.state", self._now_ns, state=state, detail=detail)

    def state(self) -> dict[str, NDArray[Any]]:
        """All that a later process needs besides the scenario, as arrays."""
        stages = self.stages
        parts = {"ledger": stages.ledger.state(), "multiplier": stages.multiplier.state()}
        parts["pending"] = stages.pending.state()
        return {
            **stages.learning.state(),
            "counts": np.array([self.violations, self.time_ns]),
            "silent_from": stages.gate.silent_from.copy(),
            **{f"{part}_{name}": values for part, state in parts.items() for name, values in state.items()},
        }

    def unsound(self, arrays: Mapping[str, NDArray[Any]]) -> str | None:
        """What is wrong with a kept state, in words; None where this engine can go on from it."""
        found = array_problem(self.state(), arrays)
        if found is not None:
            return found
        if not self.stages.ledger.fits(arrays_of(arrays, "ledger")):
            return "the ledger names senders or links that do not exist"
        return None

    def checksums(self) -> dict[str, int]:
        """Of everything that was drawn so far, by what drew it; causes before what they affect."""
        return {
            "learning.partition": self._partition,
            "time.compute": self._compute,
            "faults.crashes": self._crashes,
            **self.stages.observer.checksums(),
        }

    def _put_in_place(self, replay: KeptState) -> None:
        """End of the replay: what was drawn must be what was drawn before; then the kept state goes on."""
        for name, checksum in self.checksums().items():
            if replay.checksums.get(name) != checksum:
                shown = name.removeprefix("channel.").rpartition(".")[0] if name.startswith("channel.") else name
                raise ContractError(
                    f"{shown} gave other values than before the interruption, so the run cannot go on: "
                    "a model must draw only from the rng it is handed, and one that is handed in again be what it was"
                )
        stages, arrays = self.stages, replay.arrays
        stages.learning.restore(arrays)
        self.violations, self.time_ns = arrays["counts"].tolist()
        stages.ledger.restore(arrays_of(arrays, "ledger"))
        stages.multiplier.restore(arrays_of(arrays, "multiplier"))
        stages.pending.restore(arrays_of(arrays, "pending"))
        self._replay, self.trace.muted = None, False
        self._hooks.on_start()


def _require_one_release(carried: Carried, on_air: BoolArray) -> None:
    """Raise unless w is sent once, and what is held only after that, by nodes that sent w: totals rest on it.

    on_air: [K] nodes that are charged for w. What any other node holds may be a step that was never sent.
    """
    steps = carried.steps
    # a server is the row after the last node: zero as the frame opens, so all that it holds was received
    extra = max((len(one.own) for one in carried.announced), default=len(on_air)) - len(on_air)
    charged = np.append(on_air, np.ones(extra, dtype=bool))
    if any(not charged[one.tx].all() for one in carried.announced):
        raise ContractError("radio.access lets nodes send that are not charged for it in this round")
    if any((one.own[one.rx] * ~charged[one.rx]).any() for one in carried.announced):
        raise ContractError("radio.access mixes what is received with models that are not charged for in this round")
    if [step.source for step in steps] != ["w", *["held"] * (len(steps) - 1)]:
        raise ContractError("radio.access sends w other than once, in the first step: send what is held after that")
    for step in steps[1:]:
        actual = step.weights.actual
        if not on_air[actual.links.tx[actual.link != 0]].all():
            raise ContractError("radio.access lets nodes send what they hold that did not send w in this round")
