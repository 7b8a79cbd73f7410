"""Time as a whole: nodes, faults, policy and air as SimPy processes, with no idea of what is sent.

A node is ready, on air, computing or down; its numbers live in the batch. Hardened: the gradient is taken at what was
received, so computing follows the slot. Paper: it is taken at the node's own model, in parallel to the slot. Either way
one timeout per round. Who did not send has no gradient to compute. A crash interrupts whatever a node does; it starts
afresh when it is back.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import simpy

from wirelessdl.arrays import BoolArray
from wirelessdl.contract import Guard, guarded
from wirelessdl.errors import ContractError, ScenarioError, quote
from wirelessdl.memory import fewer_collections
from wirelessdl.radio.energy import ControlLosses, EnergyModel
from wirelessdl.radio.frame import Frame, Participation, Transmissions
from wirelessdl.sim.faults import Crashes, Stragglers
from wirelessdl.sim.medium import Frames, Medium, NodeStates, UserProcesses
from wirelessdl.sim.timing import ComputeTime, Policy
from wirelessdl.streams import Streams
from wirelessdl.units import to_ns, to_s

Note = Callable[[int, int, str, str], None]
Events = Generator[simpy.Event, object, None]
MAX_CRASHES_PER_ROUND = 1000  # of a node: more is a mistake, and may go on for ever


def node_process(env: simpy.Environment, node: int, medium: Medium, *, parallel: bool, note: Note) -> Events:
    """A node's life; the medium decides when the run ends."""
    back: simpy.Event | None = None
    while True:
        try:
            if back is not None:
                yield back
                note(int(env.now), node, "rejoin", "")
            yield from _rounds(env, node, medium, parallel, note)
        except simpy.Interrupt as crash:
            back = crash.cause


def _rounds(env: simpy.Environment, node: int, medium: Medium, parallel: bool, note: Note) -> Events:
    while True:
        opened, received = medium.ready(node)
        yield opened if parallel else received
        duration_ns = int(medium.compute_ns[node])
        if medium.states.due(node):
            yield env.timeout(duration_ns)
            medium.states.computed(node)
            note(int(env.now), node, "computed", "")
        if parallel:
            yield received  # may lie in the past: SimPy goes on at once


class Outages:
    """Takes nodes down and brings them back: a node runs while nothing keeps it down, crash, traffic or process."""

    def __init__(self, env: simpy.Environment, medium: Medium, nodes: list[simpy.Process], note: Note):
        self.env, self.medium, self._nodes, self._note = env, medium, nodes, note
        self._causes: list[dict[str, bool]] = [{} for _ in nodes]  # whether each will end
        self._back: dict[int, simpy.Event] = {}

    def down(self, node: int, cause: str, detail: str, *, returns: bool = True) -> None:
        """returns: whether it is known to come back, so that a barrier waits for it where nobody else runs."""
        states, causes = self.medium.states, self._causes[node]
        if states.ended[node] or cause in causes:
            return
        before = all(causes.values())
        causes[cause] = returns
        if len(causes) > 1:
            states.returning -= before and not returns
            self.medium.changed()
            return
        back = self._back[node] = self.env.event()
        self._note(int(self.env.now), node, "crash", detail)
        states.crash(node, returns=returns)
        self._nodes[node].interrupt(back)
        self.medium.changed()

    def up(self, node: int, cause: str) -> None:
        states, causes = self.medium.states, self._causes[node]
        if states.ended[node] or cause not in causes:
            return
        before = all(causes.values())
        del causes[cause]
        states.returning += all(causes.values()) and not before
        if not causes:
            states.rejoin(node)
            self._back[node].succeed()

    def note(self, node: int | None, kind: str, detail: str) -> None:
        """Something happened now, at a node or in the whole network."""
        self._note(int(self.env.now), -1 if node is None else node, kind, detail)


def crash_process(
    env: simpy.Environment,
    node: int,
    medium: Medium,
    outages: Iterable[tuple[float, float]],
    keeper: Outages,
    cause: str,
) -> Events:
    """Takes a node down and brings it back, as its outages say."""
    round, crashes = medium.round, 0
    for start_s, length_s in outages:
        round, crashes = medium.round, crashes + 1 if round == medium.round else 1
        if crashes > MAX_CRASHES_PER_ROUND:
            raise ScenarioError(
                f"faults.crashes took node {node} down {MAX_CRASHES_PER_ROUND} times in round {round}; must be "
                "fewer: make times up and down longer, or rounds shorter"
            )
        wait_ns = to_ns(start_s) - int(env.now)
        if wait_ns > 0:
            yield env.timeout(wait_ns)
        if medium.states.ended[node]:
            return
        returns = length_s != float("inf")
        words = f"for {length_s:g} s" if returns else "for good"
        keeper.down(node, cause, words if cause == "crash" else f"{cause} {words}", returns=returns)
        if not returns:
            return
        yield env.timeout(to_ns(length_s))
        keeper.up(node, cause)


@dataclass(frozen=True, eq=False)
class EventSimulation:
    """What decides when things happen."""

    nodes: int
    frame: Frame
    parallel: bool  # gradient and slot at the same time: the paper's protocol
    compute: ComputeTime
    policy: Policy
    crashes: Crashes
    stragglers: Stragglers
    energy: EnergyModel
    control: ControlLosses
    rejoin: str
    streams: Streams
    traffic: Callable[[int], Iterable[tuple[float, float]]] | None = None  # when a node is not there
    processes: UserProcesses | None = None

    def duration_ns(self, node: int, round: int) -> int:
        """How long a gradient takes."""
        duration_s, factor = self._duration_s(node, round), self._factor(node, round)
        try:
            seconds = duration_s * factor
            sound = math.isfinite(seconds) and seconds >= 0
        except (TypeError, ValueError):  # no numbers
            raise ContractError(
                f"time.compute gave node {node} {quote(duration_s, 60)} s and faults.stragglers a factor of "
                f"{quote(factor, 60)} in round {round}, expected numbers"
            ) from None
        if not sound:
            raise ContractError(
                f"time.compute gave node {node} {seconds} s in round {round}, expected a finite number >= 0"
            )
        return to_ns(seconds)

    @cached_property
    def _duration_s(self) -> Callable[[int, int], float]:
        return guarded("time.compute", self.compute, "duration_s")

    @cached_property
    def _factor(self) -> Callable[[int, int], float]:
        return guarded("faults.stragglers", self.stragglers, "factor")

    def run(self, rounds: int, frames: Frames, note: Note = lambda *_: None) -> None:
        """Let time pass from zero to the end of the last round and call `frames` at both ends of each frame."""
        env = simpy.Environment()
        states = NodeStates(self.nodes, self.rejoin)
        medium = Medium(
            env,
            frame=self.frame,
            policy=self.policy,
            states=states,
            duration_ns=self.duration_ns,
            energy=self.energy,
            control=self.control,
            note=note,
        )
        nodes = [
            env.process(node_process(env, node, medium, parallel=self.parallel, note=note))
            for node in range(self.nodes)
        ]
        keeper = Outages(env, medium, nodes, note)
        for node in range(self.nodes):
            rng = self.streams.draws("faults.crashes", node)
            name = f"faults.crashes: {type(self.crashes).__name__}.outages"
            outages = _outages(name, node, partial(self.crashes.outages, node, rng))
            env.process(crash_process(env, node, medium, outages, keeper, "crash"))
            if self.traffic is not None:
                away = _outages("network.mobility: outages", node, partial(self.traffic, node))
                env.process(crash_process(env, node, medium, away, keeper, "away"))
        if self.processes is not None:
            self.processes.network.begin(keeper)
            self.processes.start(env)

        def end(node: int) -> None:
            states.ended[node] = True
            states.crash(node, returns=False)
            nodes[node].interrupt(env.event())

        medium.end = end
        over = env.process(medium.process(rounds, frames))
        with fewer_collections():
            try:
                env.run(until=over)
            except Exception as error:
                if self.processes is not None and not over.triggered:
                    self.processes.require_no_failure(error)
                if not isinstance(error, RuntimeError):
                    raise
                # SimPy says so where nothing is left to happen; a policy of the user's may wait for what never comes
                if over.triggered or env.peek() != math.inf or not (medium.waits or self.processes):
                    raise
                if not medium.waits:
                    raise ContractError(
                        f"events.processes took every node down, and nothing that happens in round {medium.round} "
                        "brings one up: use bring_up, or take_down(node, for_good=True)"
                    ) from error
                raise ContractError(
                    f"time.policy: {type(self.policy).__name__}.wait waits in round {medium.round} for an event that "
                    "never comes: yield gate.all_ready() or gate.env.timeout(...)"
                ) from error


def _outages(name: str, node: int, question: Callable[[], Iterable[Any]]) -> Iterator[tuple[float, float]]:
    """A node's outages in turn, held to their contract."""
    now_s = 0.0
    for outage in _guarded(question, name):
        try:
            start_s, length_s = (float(part + 0.0) for part in outage)  # float() would take a text
        except (TypeError, ValueError):
            raise ContractError(
                f"{name} gave node {node} {quote(repr(outage), 60)}, expected a pair of "
                "numbers: when it goes down, s, and for how long, s"
            ) from None
        if not (now_s - 1e-9 <= start_s < math.inf and length_s >= 0):  # sums of floats miss by less
            raise ContractError(
                f"{name} gave node {node} an outage at {start_s} s for {length_s} s, "
                f"expected one after another, from {now_s:g} s on"
            )
        yield start_s, length_s
        now_s = start_s + length_s


def _guarded(question: Callable[[], Iterable[Any]], name: str) -> Iterator[Any]:
    with Guard(name):
        yield from question()


class LastFrame:
    """Remembers when the last frame opened."""

    time_s = 0.0

    def open_frame(self, round: int, now_ns: int, participation: Participation) -> Transmissions | None:  # noqa: ARG002
        self.time_s = to_s(now_ns)
        return None

    def close_frame(self, round: int, now_ns: int, fallen: BoolArray) -> None:
        pass
