"""A node in time: ready, on air, computing. Its numbers live in the batch.

Hardened: the gradient is taken at what was received, so computing follows the slot. Paper: it is
taken at the node's own model, in parallel to the slot. Either way one timeout per round.
"""

from collections.abc import Callable, Generator
from typing import Annotated, Protocol

import simpy
from annotated_types import Ge

from wirelessdl.sim.clock import to_ns
from wirelessdl.sim.medium import Medium


class ComputeTime(Protocol):
    def duration_s(self, node: int, round: int) -> float: ...


class ConstantTime:
    """The same for every node and round."""

    def __init__(self, seconds: Annotated[float, Ge(0)] = 0.005):
        self.seconds = seconds

    def duration_s(self, node: int, round: int) -> float:  # noqa: ARG002
        return self.seconds


COMPUTE_TIMES = {"constant": ConstantTime}


def node_process(
    env: simpy.Environment,
    node: int,
    medium: Medium,
    compute: ComputeTime,
    *,
    parallel: bool,
    note: Callable[[int, int, str], None],
) -> Generator[simpy.Event, object, None]:
    """Rounds of one node, for ever; the medium decides when the run ends."""
    round = 0
    while True:
        round += 1
        opened, received = medium.opened, medium.received
        medium.ready()
        duration_ns = to_ns(compute.duration_s(node, round))
        yield opened if parallel else received
        yield env.timeout(duration_ns)
        note(int(env.now), node, "computed")
        if parallel:
            yield received  # may lie in the past: SimPy goes on at once
