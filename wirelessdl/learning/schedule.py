"""Learning rates gamma_t, t = 1, 2, ..."""

import math
from typing import Annotated, Protocol

from annotated_types import Gt

Rate = Annotated[float, Gt(0)]


class Schedule(Protocol):
    def rate(self, round: int) -> float: ...


class InverseSqrt:
    """initial / sqrt(t), as in the paper's runs."""

    def __init__(self, initial: Rate = 0.1):
        self.initial = initial

    def rate(self, round: int) -> float:
        return self.initial / math.sqrt(round)


class Constant:
    """The same in every round."""

    def __init__(self, initial: Rate = 0.01):
        self.initial = initial

    def rate(self, round: int) -> float:  # noqa: ARG002
        return self.initial


SCHEDULES = {"inverse-sqrt": InverseSqrt, "constant": Constant}
