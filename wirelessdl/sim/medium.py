"""The shared air in time: opens a frame when every node is ready, carries pilots, then payload.

    ready x K -> open -> pilot | guard | payload | guard -> received

A payload that outlasts the channel's coherence goes in several such slots.
Everyone sends at once (full duplex), so a slot is one event however many links there are.
"""

from collections.abc import Generator
from typing import Protocol

import simpy

from wirelessdl.sim.clock import Frame


class Frames(Protocol):
    """What happens at the two ends of a frame."""

    def open_frame(self, round: int, now_ns: int) -> None: ...

    def close_frame(self, round: int, now_ns: int) -> None: ...


class Medium:
    """One frame after another, each when all nodes are ready (a barrier)."""

    def __init__(self, env: simpy.Environment, nodes: int, frame: Frame):
        self._env, self._nodes, self._frame = env, nodes, frame
        self._waiting = 0
        self._all_ready = env.event()
        self.opened = env.event()
        self.received = env.event()

    def ready(self) -> None:
        """One more node waits for the next frame."""
        self._waiting += 1
        if self._waiting == self._nodes:
            self._all_ready.succeed()

    def process(self, rounds: int, frames: Frames) -> Generator[simpy.Event, object, None]:
        env, frame = self._env, self._frame
        for round in range(1, rounds + 1):
            yield self._all_ready
            self._waiting, self._all_ready = 0, env.event()
            frames.open_frame(round, int(env.now))
            self._pass("opened")
            for slot in range(frame.slots):
                yield env.timeout(frame.pilot_ns + frame.guard_ns + (frame.guard_ns if slot else 0))
                yield env.timeout(frame.payload_ns)
            frames.close_frame(round, int(env.now))
            yield env.timeout(frame.guard_ns)
            self._pass("received")

    def _pass(self, name: str) -> None:
        """Trigger an event and put a fresh one in its place."""
        event = getattr(self, name)
        setattr(self, name, self._env.event())
        event.succeed()
