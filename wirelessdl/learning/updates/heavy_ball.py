"""Heavy ball: momentum on a node's own gradients.

    v <- b v + g(s),   change:  x <- Proj(s - gamma mult clip_C(v))
                       step:    x <- Proj(s - gamma mult v)

Source: B. T. Polyak, "Some methods of speeding up the convergence of iteration methods", 1964.

change (default): proven by clipping the whole change, 2C per release, without amplification. step: declared; v is a
filter of the node's gradients whose weights sum to 1 / (1 - b), so one sample moves x by at most 2C / (n (1 - b)) times
the step, if every gradient is taken at s, which is known. Sampling amplifies neither: a batch is remembered.
"""

from typing import Any

from wirelessdl.learning.updates import momentum

READS = momentum.READS


class Member:
    def __init__(self, learning: Any):
        self.momentum: float = learning.momentum
        self.moves = 1.0 / (1.0 - self.momentum)

    def initial(self, received: Any) -> dict[str, Any]:
        return {"velocity": received * 0.0}

    def change(self, received: Any, state: Any, gradient: Any, round: int) -> tuple[Any, Any]:  # noqa: ARG002
        velocity = self.momentum * state["velocity"] + gradient(received)
        return -velocity, {"velocity": velocity}

    def step(self, received: Any, state: Any, gradient: Any, round: int) -> tuple[Any, Any]:
        change, kept = self.change(received, state, gradient, round)
        return received + gradient.step * change, kept
