"""A node in time: ready, on air, computing, down. Its numbers live in the batch.

Hardened: the gradient is taken at what was received, so computing follows the slot. Paper: it is
taken at the node's own model, in parallel to the slot. Either way one timeout per round. Who did not send
has no gradient to compute. A crash interrupts whatever a node does; it starts afresh when it is back.
"""

from collections.abc import Callable, Generator, Iterable

import simpy

from wirelessdl.errors import ScenarioError
from wirelessdl.sim.medium import Medium
from wirelessdl.units import to_ns

Note = Callable[[int, int, str, str], None]
Events = Generator[simpy.Event, object, None]
_MOST = 1000  # crashes of a node in one round: more is a mistake, and may go on for ever


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


def crash_process(
    env: simpy.Environment,
    node: int,
    medium: Medium,
    outages: Iterable[tuple[float, float]],
    process: simpy.Process,
    note: Note,
) -> Events:
    """Takes a node down and brings it back, as its outages say."""
    round, crashes = medium.round, 0
    for start_s, length_s in outages:
        round, crashes = medium.round, crashes + 1 if round == medium.round else 1
        if crashes > _MOST:
            raise ScenarioError(
                f"faults.crashes took node {node} down {_MOST} times in round {round}; must be fewer: make times up "
                "and down longer, or rounds shorter"
            )
        wait_ns = to_ns(start_s) - int(env.now)
        if wait_ns > 0:
            yield env.timeout(wait_ns)
        if medium.states.ended[node]:
            return
        returns = length_s != float("inf")
        back = env.event()
        note(int(env.now), node, "crash", f"for {length_s:g} s" if returns else "for good")
        medium.states.crash(node, returns=returns)
        process.interrupt(back)
        medium.changed()
        if not returns:
            return
        yield env.timeout(to_ns(length_s))
        medium.states.rejoin(node)
        back.succeed()
