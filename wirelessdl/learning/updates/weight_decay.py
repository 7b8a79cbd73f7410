"""Decoupled weight decay: the step starts at a smaller model.

    x <- Proj((1 - decay) s - gamma mult g(s))

Source: I. Loshchilov and F. Hutter, "Decoupled weight decay regularization", ICLR 2019.

Proven as plain SGD is (kind base): the base is a function of what was received.
"""

from typing import Annotated, Any

from pydantic import Field, FiniteFloat

from wirelessdl.scenario.section import Section


class Keys(Section):
    weight_decay: Annotated[FiniteFloat, Field(ge=0, lt=1)] = Field(
        1e-3, description="Share of a model that every round takes away, under weight-decay."
    )


class Member:
    def __init__(self, learning: Any):
        self.decay: float = learning.weight_decay

    def base(self, received: Any, state: Any, round: int) -> tuple[Any, Any, Any]:  # noqa: ARG002
        return (1.0 - self.decay) * received, received, state
