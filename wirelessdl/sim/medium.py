"""The shared air in time: opens a frame when the policy says so, carries pilots, then payload.

    ready -> open -> pilot | guard | (feedback) payload | guard -> (z) received

A payload that outlasts the channel's coherence goes in several such slots; half duplex takes two turns a slot,
one sender after another as many as its colouring needs. However many links there are, a turn is two events.

Here too run generators of the user's: policies that wait, and processes that change the network.

    [events]
    processes = ["mine.py:traffic"]

What a process may see and do is `wirelessdl.radio.live`. It runs beside nodes, faults and medium, in SimPy's order: at
one instant, what was scheduled first happens first. It may end at any time; the run ends with its last frame.
"""

import numbers
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import simpy

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.contract import Guard, format_error, formatted, guard_of, outside
from wirelessdl.errors import ContractError, WirelessdlError, quote
from wirelessdl.radio.energy import ControlLosses, EnergyModel
from wirelessdl.radio.frame import AirTime, Frame, Participation, Transmissions
from wirelessdl.radio.live import LiveNetwork
from wirelessdl.sim.timing import Policy
from wirelessdl.streams import Streams

_SUCH_AS = "network.wait(0.5), in s, or env.timeout(1000), in ns"
Events = Generator[simpy.Event, object, None]


@dataclass(frozen=True, eq=False)
class UserProcess:
    """name: as the scenario writes it; start: (env, network, rng) -> generator; stream: of its random numbers."""

    name: str
    start: Callable[..., Any]
    stream: tuple[str, int]


@dataclass(frozen=True, eq=False)
class UserProcesses:
    """All processes of a scenario, and the network that they are handed."""

    processes: Sequence[UserProcess]
    network: LiveNetwork
    streams: Streams

    def start(self, env: simpy.Environment) -> None:
        """Let every process begin, in the order of the scenario."""
        for one in self.processes:
            guard = Guard(f"events.processes: {one.name}")
            component, number = one.stream
            rng: np.random.Generator = self.streams.draws(component, number)
            with guard:
                begun = one.start(env, self.network, rng)
            if not isinstance(begun, Generator):
                raise ContractError(f"{guard.name} returned {type(begun).__name__}; must be a generator: use yield")
            env.process(checked_events(begun, guard, env, "env", _SUCH_AS))

    @staticmethod
    def require_no_failure(error: Exception) -> None:
        """Raise where a process that one of these started failed, as one line; SimPy keeps its error as the cause."""
        cause = error.__cause__
        if cause is None or isinstance(cause, WirelessdlError):
            return
        if cause.__traceback__ is None:  # nobody raised it: event.fail(...), which no event of ours has
            raise ContractError(
                f"events.processes: an event failed with {format_error(cause)}, and no process waits for it: yield it"
            ) from cause
        if any(Path(frame.filename).parent.name != "simpy" for frame in outside(cause)):
            raise ContractError(f"events.processes: a process of theirs raised {formatted(cause)}") from cause


def checked_events(given: Iterable[Any], guard: Guard, env: simpy.Environment, clock: str, such_as: str) -> Events:
    """A generator of the user's, as `yield from` would take it; what it yields must be events of this clock."""
    with guard:
        waiting: Any = iter(given)
    answer: object = None
    failed: BaseException | None = None
    while True:
        with guard:
            try:
                if failed is not None:
                    event: object = waiting.throw(failed)
                else:
                    event = next(waiting) if answer is None else waiting.send(answer)
            except StopIteration:
                return
        if not isinstance(event, simpy.Event) or event.env is not env:
            raise ContractError(
                f"{guard.name} yields {quote(repr(event), 60)}, expected an event of {clock}, such as {such_as}"
            )
        failed = None
        try:
            answer = yield event
        except Exception as error:  # the event failed, which the generator may handle
            failed = error
        if not isinstance(env.now, numbers.Integral):
            raise ContractError(f"{guard.name} waits until {env.now:g} ns; the clock has whole ns: use {such_as}")


class NodeStates:
    """Node states between events. A node that crashes while its gradient is due loses it.

    Frames are whole: what was decided when a frame opened happens, and a crash within it takes effect at its end.
    """

    def __init__(self, nodes: int, rejoin: str):
        self.nodes = nodes
        self.up = np.ones(nodes, dtype=bool)
        self.ready = np.zeros(nodes, dtype=bool)
        self.listening = np.zeros(nodes, dtype=bool)
        self.lost = np.zeros(nodes, dtype=bool)
        self.fallen = np.zeros(nodes, dtype=bool)  # crashed within the frame that is open
        self.returning = 0  # down, but coming back
        self.ended = np.zeros(nodes, dtype=bool)  # down for good, whatever was planned for it
        self._due = np.zeros(nodes, dtype=bool)  # gradient not computed yet
        self._open = False
        self._computing = np.zeros(nodes, dtype=bool)  # will compute a gradient of the frame that is open
        self._listens = rejoin == "listen"
        self._running = nodes
        self._waiting = 0

    @property
    def complete(self) -> bool:
        """Whether nobody is waited for."""
        return self._waiting == self._running and (self._running > 0 or self.returning == 0)

    def wait(self, node: int) -> None:
        """A node is done and waits for a frame."""
        self.ready[node] = True
        self._waiting += 1

    def due(self, node: int) -> bool:
        """Whether a node has a gradient to compute."""
        return bool(self._due[node])

    def computed(self, node: int) -> None:
        self._due[node] = False

    def crash(self, node: int, *, returns: bool) -> None:
        self.up[node] = False
        self._running -= 1
        self.returning += returns
        if self.ready[node]:
            self.ready[node] = False
            self._waiting -= 1
        if self._due[node]:
            self._due[node] = False
            # a late node's gradient is of an earlier frame: there its model has taken the step
            within = self._open and self._computing[node]
            (self.fallen if within else self.lost)[node] = True

    def rejoin(self, node: int) -> None:
        self.up[node] = True
        self._running += 1
        self.returning -= 1
        self.listening[node] = self._listens

    def participation(self, compute_s: FloatArray, battery_j: FloatArray, unplanned: BoolArray) -> Participation:
        """The frame opens now: every node that waits takes part, but for those whose report is lost, `[K]`."""
        ready, missed = self.ready & ~unplanned, self.ready & unplanned
        participation = Participation(
            self.up.copy(), ready, self.listening & ready, self.lost.copy(), missed, compute_s, battery_j
        )
        self.lost[:] = False
        self.fallen[:] = False
        self._open = True
        return participation

    def opened(self, computing: BoolArray) -> None:
        """Who took part waits no more; some have a gradient to compute."""
        self._due |= computing
        self._computing = computing.copy()
        self.ready[:] = False
        self._waiting = 0

    def close(self, participation: Participation) -> None:
        """The payload is over, and who listened for one frame has done so, whether it heard anybody or not."""
        self._open = False
        self.listening &= ~participation.listening


class Frames(Protocol):
    """What happens at the two ends of a frame."""

    def open_frame(self, round: int, now_ns: int, participation: Participation) -> Transmissions | None:
        """Who sends; None: everyone who takes part and does not only listen."""

    def close_frame(self, round: int, now_ns: int, fallen: BoolArray) -> None:
        """The payload is over; fallen: who crashed within the frame, its gradient still to come."""


class Medium:
    """The SimPy process that opens and closes frames, one after another; policies are given it as `gate`."""

    def __init__(
        self,
        env: simpy.Environment,
        *,
        frame: Frame,
        policy: Policy,
        states: NodeStates,
        duration_ns: Callable[[int, int], int],
        energy: EnergyModel,
        control: ControlLosses,
        note: Callable[[int, int, str, str], None],
    ):
        self.env, self.states = env, states
        self._frame, self._policy, self._duration_ns = frame, policy, duration_ns
        self._policy_guard = guard_of("time.policy", policy, "wait")
        self._energy, self._control, self._note = energy, control, note
        self.battery_j: FloatArray = energy.battery_j.copy()
        self._drains = energy.finite
        self._whole: simpy.Event | None = None
        self._opened, self._received = env.event(), env.event()
        self.waits = False  # for what a policy of the user's yields
        self.round = 0  # the one that is waited for or under way
        self.compute_ns: IntArray = np.zeros(states.nodes, dtype=np.int64)  # of this frame's gradients; 0 for none
        self.end: Callable[[int], None] = lambda _: None  # ends a node for good

    def ready(self, node: int) -> tuple[simpy.Event, simpy.Event]:
        """A node waits for the next frame: the events of its opening and of its end."""
        self.states.wait(node)
        self.changed()
        return self._opened, self._received

    def changed(self) -> None:
        """Somebody came, went or is done: a policy may wait for just that."""
        if self._whole is not None and not self._whole.triggered and self.states.complete:
            self._whole.succeed()

    def all_ready(self) -> simpy.Event:
        """The moment in which nobody who runs is waited for."""
        self._whole = self.env.event()
        self.changed()
        return self._whole

    def process(self, rounds: int, frames: Frames) -> Generator[simpy.Event, object, None]:
        """In every round: wait as the policy says, open a frame, let its turns pass, close it, exchange z."""
        env = self.env
        for round in range(1, rounds + 1):
            self.round = round
            if self._policy_guard.is_user_class:
                self.waits = True
                yield from self._checked_wait()
                self.waits = False
            else:
                yield from self._policy.wait(self)
            now = int(env.now)
            frame = self._frame.in_round(round, rounds)
            participation = self._opening(round, now, frame)
            transmissions = frames.open_frame(round, now, participation) or Transmissions(
                participation.willing, participation.willing, self._frame.turns
            )
            for node in np.flatnonzero(participation.up & ~participation.ready).tolist():
                self._note(now, node, "control" if participation.missed[node] else "late", f"round {round}")
            frame = frame.taking(transmissions.turns, transmissions.uneven_ns)
            self._open(frame, participation, transmissions)
            opened, received = self._opened, self._received
            self._opened, self._received = env.event(), env.event()
            opened.succeed()
            for number, payload_ns in enumerate(frame.payloads_ns):
                before = frame.guard_ns if number else frame.feedback_ns
                yield env.timeout(before + frame.pilot_ns + frame.guard_ns)
                yield env.timeout(payload_ns)
            frames.close_frame(round, int(env.now), self.states.fallen.copy())
            self.states.close(participation)
            # where nobody has a message to send there are no turns, and no guard after the last
            yield env.timeout((frame.guard_ns if frame.payloads_ns else frame.feedback_ns) + frame.exchange_ns)
            received.succeed()

    def _checked_wait(self) -> Generator[simpy.Event, object, None]:
        """The wait of a user's policy, as `yield from` would take it; what it yields must be events."""
        guard = self._policy_guard
        with guard:
            waiting = self._policy.wait(self)
        such_as = "gate.all_ready() or gate.env.timeout(1000), in ns"
        yield from checked_events(waiting, guard, self.env, "gate.env", such_as)

    def _opening(self, round: int, now_ns: int, frame: Frame) -> Participation:
        """Whoever waits, once those are gone whose battery cannot carry this round."""
        states = self.states
        self.compute_ns[:] = 0
        ready = np.flatnonzero(states.ready)
        self.compute_ns[ready] = [self._duration_ns(node, round) for node in ready.tolist()]
        if self._drains:
            nobody = np.zeros(states.nodes, dtype=bool)
            willing = states.ready & ~states.listening
            costs_j = self._costs_j(frame, states.ready, nobody, willing, willing)
            for node in np.flatnonzero(states.ready & (costs_j > self.battery_j)).tolist():
                self._note(now_ns, node, "battery", f"{self.battery_j[node]:.3g} J left cannot carry round {round}")
                self.end(node)
        unplanned = self._control.report(round) & (self._frame.feedback_ns > 0)
        return states.participation(self.compute_ns / 1e9, self.battery_j, unplanned)

    def _open(self, frame: Frame, participation: Participation, transmissions: Transmissions) -> None:
        """Some have a gradient to compute; batteries pay for what follows."""
        computes, on_air = transmissions.computes, transmissions.on_air
        self.compute_ns *= computes
        if self._drains:
            ready, missed = participation.ready, participation.missed
            costs_j = self._costs_j(frame, ready, missed, on_air, computes, transmissions.airtime)
            self.battery_j = np.maximum(self.battery_j - costs_j, 0.0)
        self.states.opened(computes)

    def _costs_j(
        self,
        frame: Frame,
        ready: BoolArray,
        missed: BoolArray,
        sends: BoolArray,
        computes: BoolArray,
        airtime: AirTime | None = None,
    ) -> FloatArray:
        use = {"sends": sends, "hears": ready, "missed": missed, "compute_s": computes * self.compute_ns / 1e9}
        return self._energy.nominal_j(frame, **use, airtime=airtime)
