"""How long a node computes in a round, and when a frame opens.

    constant     the same every round; one number for all, or one per node
    log-normal   median_s * exp(sigma N) anew each round, on devices that differ by exp(spread N)
    flops        samples * FLOPs of a sample / (gflops * 1e9)

No model looks at data: batches are padded to their full width, so a duration tells nothing about samples.

    barrier    when every node that runs is ready
    deadline   the same, but no later than cap_s after the frame before ended
    clocked    every period_s, ready or not

Who is not ready when a frame opens neither sends nor mixes, and joins the next. Where nobody runs, a
barrier waits for the first to come back; where nobody ever will, frames pass unused.
"""

from collections.abc import Generator
from typing import Annotated, Any, Protocol, TypeAlias

import numpy as np
import simpy
from annotated_types import Ge, Gt, MinLen

from wirelessdl import counter_rng
from wirelessdl.arrays import FloatArray
from wirelessdl.units import to_ns

Seconds: TypeAlias = Annotated[float, Ge(0)]
Speed: TypeAlias = Annotated[float, Gt(0)]
Waiting = Generator[simpy.Event, Any, None]


class ComputeTime(Protocol):
    def duration_s(self, node: int, round: int) -> float: ...


class ConstantTime:
    """The same in every round; one number, or one per node."""

    def __init__(self, seconds: Seconds | Annotated[list[Seconds], MinLen(1)] = 0.005, *, nodes: int):
        self.seconds = seconds
        self._each = per_node("seconds", seconds, nodes)

    def duration_s(self, node: int, round: int) -> float:  # noqa: ARG002
        return float(self._each[node])


class LogNormalTime:
    """A median, varied per round by sigma and per device by spread, both in natural logarithms."""

    def __init__(
        self,
        median_s: Seconds = 0.005,
        sigma: Annotated[float, Ge(0)] = 0.3,
        spread: Annotated[float, Ge(0)] = 0.0,
        *,
        nodes: int,
        rng: np.random.Generator,
        world_rng: np.random.Generator,
    ):
        self._median_s = median_s * np.exp(spread * world_rng.standard_normal(nodes))  # a device keeps its speed
        self._sigma, self._nodes, self._word = sigma, nodes, counter_rng.key(rng)

    def duration_s(self, node: int, round: int) -> float:
        drawn = counter_rng.normal(self._word, np.array([round * self._nodes + node]))[0]
        return float(self._median_s[node] * np.exp(self._sigma * drawn))


class FlopsTime:
    """Work over speed: the model's FLOPs for a padded batch, on devices of gflops each."""

    def __init__(
        self,
        gflops: Speed | Annotated[list[Speed], MinLen(1)] = 10.0,
        flops_per_sample: Speed | None = None,
        *,
        nodes: int,
        samples: int,
        model_flops: float,
    ):
        work = samples * (model_flops if flops_per_sample is None else flops_per_sample)
        self._seconds = work / (1e9 * per_node("gflops", gflops, nodes))

    def duration_s(self, node: int, round: int) -> float:  # noqa: ARG002
        return float(self._seconds[node])


COMPUTE_TIMES = {"constant": ConstantTime, "log-normal": LogNormalTime, "flops": FlopsTime}


def per_node(key: str, value: float | list[float], nodes: int) -> FloatArray:
    """One number for all, or one for each node."""
    if isinstance(value, list) and len(value) != nodes:
        raise ValueError(f"{key} has {len(value)} entries; must be one number, or one for each of {nodes} nodes")
    return np.broadcast_to(np.asarray(value, dtype=np.float64), nodes).copy()


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
