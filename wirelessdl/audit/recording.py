"""What a scenario's first rounds decide before anything is learned: the frames, and what the ledger charges for them.

Time, channel, plan and participation are those of a run, by SimPy and the round engine. They do not depend on data
(condition a of the proof), so they are recorded once and every trial hands the same frames to the learning engine;
`same_frames` holds that condition to account, between the two data sets.
"""

from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.audit.wiretap import partner_terms
from wirelessdl.learning.records import RoundInput
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.privacy.terms import Proven
from wirelessdl.round.engine import Engine, Hooks
from wirelessdl.round.records import FrameDecision, RoundRecord
from wirelessdl.run.build import World
from wirelessdl.run.wiring import make_engine


@dataclass(frozen=True, eq=False)
class Recording:
    """Frames of the first rounds, and the ledger that charged them."""

    inputs: tuple[RoundInput, ...]
    decisions: tuple[FrameDecision, ...]
    ledger: Ledger

    @cached_property
    def totals(self) -> dict[Proven, FloatArray]:
        """Proven totals of every sender, `[K]`, of the views that there are."""
        coalition = self.ledger.coalition
        own: dict[Proven, FloatArray] = {"own": self.ledger.own.total()}
        return own if coalition is None else {**own, "coalition": coalition.total()}

    def mu(self, view: Proven) -> FloatArray:
        """mu of every transmission as charged in a view, `[rounds, K]`."""
        found = [
            decision.release.own_mu if view == "own" else decision.release.coalition_mu for decision in self.decisions
        ]
        return np.stack([mu for mu in found if mu is not None])

    def releases(self, node: int, view: Proven) -> tuple[IntArray, FloatArray]:
        """Rounds in which a node sent, and mu of each transmission."""
        sent = np.stack([decision.on_air[node] for decision in self.decisions])
        rounds = np.array([decision.round for decision in self.decisions])
        return rounds[sent], self.mu(view)[sent, node]

    def worst_coalition(self, node: int, size: int) -> tuple[int, ...]:
        """So many other nodes: those that share most of the noise that hides this one, else the first."""
        shared = np.zeros(self.ledger.nodes)
        for given in self.inputs:
            if given.pairs is not None and given.pairs.on_air[node]:
                shared += partner_terms(given.pairs, node)
        shared[node] = -1.0
        # rounded, so that the last bit does not choose among equals
        order = np.argsort(-np.round(shared, 9), kind="stable")
        return tuple(sorted(order[: min(size, len(shared) - 1)].tolist()))


class _Recorder(Engine):
    """The round engine, and a list of what it handed to the learning engine."""

    inputs: list[RoundInput]

    def _input(self, decision: FrameDecision, stepped: BoolArray) -> RoundInput:
        given = super()._input(decision, stepped)
        self.inputs.append(replace(given, evaluate=False))
        return given


def record(world: World, rounds: int) -> Recording:
    """Let the first rounds of a world pass, and keep what was decided."""
    decisions: list[FrameDecision] = []

    def keep(record: RoundRecord) -> None:
        decisions.append(record.decision)

    made = make_engine(world)
    # closing passes, if any, follow the last round that is attacked
    made.stages.observer.rounds = made.stages.carrier.rounds = rounds
    engine = _Recorder(made.stages, replace(made.settings, rounds=rounds), made.trace, Hooks(on_record=keep))
    engine.inputs = []
    world.simulation.run(rounds, engine, engine.node_state)
    return Recording(tuple(engine.inputs), tuple(decisions), made.stages.ledger)


def same_frames(one: Recording, other: Recording) -> bool:
    """Whether two recordings decided the same."""
    return len(one.inputs) == len(other.inputs) and all(_same(a, b) for a, b in zip(one.inputs, other.inputs))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, csr_array):
        one, other = one.toarray(), other.toarray()
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other))
    if is_dataclass(one):
        return all(_same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)
