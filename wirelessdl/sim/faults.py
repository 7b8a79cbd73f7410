"""Nodes that crash and come back, and nodes that are slow.

    outages(node, rng) -> (start_s, length_s) in turn; a length of inf: for good
    factor(node, round) -> what a node's compute time is multiplied by

Crashes are drawn from a stream per node, slowness per node and round, both independent of data: who is silent tells
nothing about samples, and a resumed run meets the same outages.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Annotated, Protocol

import numpy as np
from annotated_types import Ge, Gt, Le

from wirelessdl import counter_rng
from wirelessdl.scenario.section import Schedule, checked, chosen


class Crashes(Protocol):
    def outages(self, node: int, rng: np.random.Generator) -> Iterable[tuple[float, float]]: ...


class NoCrashes:
    """No crashes."""

    def outages(self, node: int, rng: np.random.Generator) -> Iterable[tuple[float, float]]:  # noqa: ARG002
        return ()


class ScheduledCrashes:
    """Events { node, at_s, for_s }; without for_s a node is gone for good."""

    def __init__(self, events: Schedule, *, nodes: int):
        self._outages: dict[int, list[tuple[float, float]]] = {}
        for event in checked(events, ("node", "at_s"), {"for_s": math.inf}, nodes):
            self._outages.setdefault(event["node"], []).append((event["at_s"], event["for_s"]))
        for node, outages in self._outages.items():
            outages.sort()
            for (start_s, length_s), (again_s, _) in pairwise(outages):
                if again_s < start_s + length_s - 1e-9:  # a nanosecond is nothing: sums of floats miss by less
                    raise ValueError(
                        f"events let node {node} crash at {again_s:g} s, while it is down from {start_s:g} s for "
                        f"{length_s:g} s; join them, or move one"
                    )

    def outages(self, node: int, rng: np.random.Generator) -> Iterable[tuple[float, float]]:  # noqa: ARG002
        return self._outages.get(node, [])


class ExponentialCrashes:
    """Up for exponential times of mean up_s, down for those of mean down_s, all nodes or only some."""

    def __init__(
        self,
        up_s: Annotated[float, Ge(1e-5)],
        down_s: Annotated[float, Ge(1e-5)],
        only: list[int] | None = None,
        *,
        nodes: int,
    ):
        self._up_s, self._down_s, self._only = up_s, down_s, chosen(only, nodes)

    def outages(self, node: int, rng: np.random.Generator) -> Iterator[tuple[float, float]]:
        now = 0.0
        while self._only[node]:
            start_s = now + rng.exponential(self._up_s)
            length_s = rng.exponential(self._down_s)
            yield start_s, length_s
            now = start_s + length_s


CRASHES = {"none": NoCrashes, "schedule": ScheduledCrashes, "exponential": ExponentialCrashes}


class Stragglers(Protocol):
    def factor(self, node: int, round: int) -> float: ...


class NoStragglers:
    """No slow nodes."""

    def factor(self, node: int, round: int) -> float:  # noqa: ARG002
        return 1.0


class RandomStragglers:
    """With a probability, in each round anew, a node takes `factor` times as long."""

    def __init__(
        self,
        probability: Annotated[float, Ge(0), Le(1)] = 0.1,
        factor: Annotated[float, Gt(0)] = 10.0,
        only: list[int] | None = None,
        *,
        nodes: int,
        rng: np.random.Generator,
    ):
        self._probability, self._factor = probability, factor
        self._only, self._nodes, self._word = chosen(only, nodes), nodes, counter_rng.key(rng)

    def factor(self, node: int, round: int) -> float:
        drawn = counter_rng.uniform(self._word, np.array([round * self._nodes + node]))[0, 0]
        return self._factor if self._only[node] and drawn < self._probability else 1.0


class ScheduledStragglers:
    """Events { node, factor, from_round, to_round }: slow in these rounds, both included."""

    def __init__(self, events: Schedule, *, nodes: int):
        self._events = checked(events, ("node", "factor"), {"from_round": 1, "to_round": math.inf}, nodes)

    def factor(self, node: int, round: int) -> float:
        product = 1.0
        for event in self._events:
            if event["node"] == node and event["from_round"] <= round <= event["to_round"]:
                product *= event["factor"]
        return product


STRAGGLERS = {"none": NoStragglers, "random": RandomStragglers, "schedule": ScheduledStragglers}
