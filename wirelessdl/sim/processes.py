"""Generators of the user's in simulated time: policies that wait, and processes that change the network.

    [events]
    processes = ["mine.py:traffic"]

What a process may see and do is `wirelessdl.radio.live`. It runs beside nodes, faults and medium, in SimPy's order: at
one instant, what was scheduled first happens first. It may end at any time; the run ends with its last frame.
"""

import numbers
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import simpy

from wirelessdl.contract import Guard, formatted, outside
from wirelessdl.errors import ContractError, WirelessdlError, quote
from wirelessdl.radio.live import LiveNetwork
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
