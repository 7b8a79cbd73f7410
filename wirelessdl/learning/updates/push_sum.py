"""Push-sum: a weight travels with every model and is mixed as it is; the ratio is the model.

    s = A w,   v <- A v (v = 1 at first),   x <- Proj(s - gamma mult g(s / v))

If the columns of A sum to 1, the mean of s over nodes is kept and s / v agrees on it, whatever the rows sum to. Where
rows sum to 1, v stays 1, and this is plain SGD: over-the-air weights are normalised by receivers, so it takes an access
whose senders divide their power (columns), or imperfect CSI, to make a difference. Set `power.multiplier = "none"`
with columns that sum to 1. Accuracy, final models and losses are those of s / v.

Source: A. Nedic and A. Olshevsky, "Stochastic gradient-push for strongly convex functions on time-varying directed
graphs", 2016.

Proven as plain SGD is (kind base): v follows from gains alone, and s / v from what was received. The weight is one
number beside the m of a model, in the first slot of a payload, whose gains mix it; neither its airtime nor receiver
noise on it is counted.
"""

from typing import Any


class Member:
    mixed = "weight"
    shows_point = True

    def initial(self, received: Any) -> dict[str, Any]:
        return {"weight": received[:, :1] * 0.0 + 1.0}

    def base(self, received: Any, state: Any, round: int) -> tuple[Any, Any, Any]:  # noqa: ARG002
        return received, received / state["weight"], state
