"""Gradient tracking with one model a round: the difference of a node's own gradients corrects for unlike data.

    x <- Proj(s + b (s - s_before) - gamma mult (g(s) - b g_before(s_before))),   b = `tracking`

With b = 1 and constant steps this is D^2, or exact diffusion: x_(t+1) = A (2 s_t - s_(t-1) - gamma (g_t - g_(t-1))).
Nodes with different data then agree on the common minimum at a constant step, where plain SGD stays beside it. A must
be doubly stochastic, its eigenvalues above -1/3. b = 0 is plain SGD. With b = 1 noise is summed twice over, and grows
with every round: under privacy noise take b below 1.

Source: H. Tang et al., "D^2: decentralized training over decentralized data", ICML 2018; K. Yuan et al., "Exact
diffusion for distributed optimization and learning", 2019.

Declared (kind step): g is remembered, so one sample enters two releases, by at most (1 + b) 2C/n times the step, since
both gradients are taken at points that are known. Nothing amplifies.
"""

from typing import Annotated, Any

from pydantic import Field, FiniteFloat

from wirelessdl.scenario.section import Section


class Keys(Section):
    tracking: Annotated[FiniteFloat, Field(ge=0, le=1)] = Field(
        1.0, description="b of gradient-tracking: how much of the last gradient and movement is corrected for."
    )


class Member:
    def __init__(self, learning: Any):
        self.tracking: float = learning.tracking
        self.moves = 1.0 + self.tracking

    def initial(self, received: Any) -> dict[str, Any]:
        return {"before": received, "gradient": received * 0.0}

    def step(self, received: Any, state: Any, gradient: Any, round: int) -> tuple[Any, Any]:
        before = received if round == 1 else state["before"]  # x_1 was never received
        found = gradient(received)
        corrected = found - self.tracking * state["gradient"]
        x = received + self.tracking * (received - before) - gradient.step * corrected
        return x, {"before": received, "gradient": found}
