"""When frames open: time alone, without air or learning."""

import simpy

from wirelessdl.sim.clock import Frame, to_s
from wirelessdl.sim.medium import Frames, Medium
from wirelessdl.sim.node import ComputeTime, node_process


def move_time(frames: Frames, *, frame: Frame, compute: ComputeTime, nodes: int, rounds: int, parallel: bool) -> None:
    """Let time pass from zero to the end of the last round and call `frames` at both ends of each frame."""
    env = simpy.Environment()
    medium = Medium(env, nodes, frame)
    for node in range(nodes):
        env.process(node_process(env, node, medium, compute, parallel=parallel, note=lambda *_: None))
    env.run(until=env.process(medium.process(rounds, frames)))


class Last:
    """Remembers when the last frame opened."""

    time_s = 0.0

    def open_frame(self, round: int, now_ns: int) -> None:  # noqa: ARG002
        self.time_s = to_s(now_ns)

    def close_frame(self, round: int, now_ns: int) -> None:
        pass
