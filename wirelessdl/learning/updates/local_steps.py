"""Local steps: several gradients between two receptions, each on a fresh batch.

    y_0 = s,   y_(h+1) = y_h - local_rate g(y_h),   x <- Proj(s - gamma mult clip_C(sum_h g(y_h)))

Source: B. McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017.

Proven by clipping the whole change (kind change): 2C per release, for one sample as for all data of a node, without
amplification. Unclipped, two local steps move up to 597 times as far as one sample may (2C/n), because the second
gradient is taken at a point that depends on the sample: nothing less than the clip holds.
"""

from typing import Annotated, Any

from pydantic import Field, FiniteFloat

from wirelessdl.scenario.section import Section


class Keys(Section):
    local_steps: Annotated[int, Field(ge=1, le=1000)] = Field(
        5, description="Gradients that a node takes in a round, under local-steps."
    )
    local_rate: Annotated[FiniteFloat, Field(gt=0)] = Field(
        0.1, description="Learning rate between the local steps of a round, under local-steps."
    )


class Member:
    def __init__(self, learning: Any):
        self.steps: int = learning.local_steps
        self.rate: float = learning.local_rate

    def change(self, received: Any, state: Any, gradient: Any, round: int) -> tuple[Any, Any]:  # noqa: ARG002
        point = received
        for _ in range(self.steps):
            point = point - self.rate * gradient(point)
        return (point - received) / self.rate, state
