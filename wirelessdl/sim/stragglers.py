"""Nodes that are slow.

    factor(node, round) -> what a node's compute time is multiplied by

Drawn per node and round, independent of data.
"""

import math
from typing import Annotated, Protocol

import numpy as np
from annotated_types import Ge, Gt, Le

from wirelessdl import counter_rng
from wirelessdl.scenario.section import Schedule, checked, chosen


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
