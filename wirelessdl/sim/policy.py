"""When a frame opens.

    barrier    when every node that runs is ready
    deadline   the same, but no later than cap_s after the frame before ended
    clocked    every period_s, ready or not

Who is not ready when a frame opens neither sends nor mixes, and joins the next. Where nobody runs, a
barrier waits for the first to come back; where nobody ever will, frames pass unused.
"""

from collections.abc import Generator
from typing import Annotated, Any, Protocol

import simpy
from annotated_types import Gt

from wirelessdl.units import to_ns

Waiting = Generator[simpy.Event, Any, None]


class Gate(Protocol):
    """What a policy may look at: the clock, and an event for the moment in which all who run are ready."""

    env: simpy.Environment

    def all_ready(self) -> simpy.Event: ...


class Policy(Protocol):
    def wait(self, gate: Gate) -> Waiting:
        """Wait, in SimPy's manner, until the next frame may open."""


class Barrier:
    """A frame opens when every node that runs is ready."""

    def wait(self, gate: Gate) -> Waiting:
        yield gate.all_ready()


class Deadline:
    """A barrier that waits for cap_s at most."""

    def __init__(self, cap_s: Annotated[float, Gt(0)]):
        self.cap_ns = to_ns(cap_s)

    def wait(self, gate: Gate) -> Waiting:
        yield gate.all_ready() | gate.env.timeout(self.cap_ns)
        yield gate.env.timeout(0)  # who is ready at this very instant is in time


class Clocked:
    """A frame every period_s from time zero; a period that a frame outlasted is left out."""

    def __init__(self, period_s: Annotated[float, Gt(0)]):
        self.period_s, self.period_ns = period_s, to_ns(period_s)
        self._next_ns = 0
        self._env: simpy.Environment | None = None

    def wait(self, gate: Gate) -> Waiting:
        now = int(gate.env.now)
        if gate.env is not self._env:
            self._next_ns, self._env = 0, gate.env  # a policy may serve several runs of time in turn
        missed = max(0, -((self._next_ns - now) // self.period_ns))
        opens = self._next_ns + missed * self.period_ns
        self._next_ns = opens + self.period_ns
        yield gate.env.timeout(opens - now)
        yield gate.env.timeout(0)  # who is ready at this very instant is in time


POLICIES = {"barrier": Barrier, "deadline": Deadline, "clocked": Clocked}
