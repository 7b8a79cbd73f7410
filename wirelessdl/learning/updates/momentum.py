"""Momentum on what is received.

    x <- Proj(s + b (s - s_before) - gamma mult g(s)),   s_before: what the node received the round before

Source: B. T. Polyak, "Some methods of speeding up the convergence of iteration methods", 1964, with received models in
place of the node's own, which no other node knows.

Proven as plain SGD is (kind base): base and state are functions of what was received. Noise in s - s_before is
multiplied by b, too: the noise of every round stays 1 / (1 - b) times as long.
"""

from typing import Annotated, Any

from pydantic import Field, FiniteFloat

from wirelessdl.scenario.section import Section

READS = ("momentum",)  # by `nesterov` and `heavy-ball`, too


class Keys(Section):
    momentum: Annotated[FiniteFloat, Field(ge=0, lt=1)] = Field(
        0.5,
        description="b of momentum, nesterov and heavy-ball: share of the last movement, or velocity, that is kept.",
    )


class Member:
    def __init__(self, learning: Any):
        self.momentum: float = learning.momentum

    def initial(self, received: Any) -> dict[str, Any]:
        return {"before": received}

    def base(self, received: Any, state: Any, round: int) -> tuple[Any, Any, Any]:
        before = received if round == 1 else state["before"]  # x_1 was never received
        return received + self.momentum * (received - before), received, {"before": received}
