"""A limit by received power: a value that is stronger than honest senders can make it is scaled down, then the mean.

    R = sum_p W_p v_p min(1, factor sqrt(l_p m) / ||v_p||) / sum_p W_p

With factor 1 honest values pass: their model lies in the ball, and the norm of noise in m coordinates misses its mean
by 1 / sqrt(2 m) of it. An attacker is held to the power that honest noise has, not to an honest direction.
"""

from typing import Annotated, Any

from annotated_types import Gt, Le


class Member:
    """One value is enough."""

    def __init__(self, factor: Annotated[float, Gt(0), Le(1e6)] = 1.0):
        self._factor = factor

    def combine(self, values: Any, weight: Any, limit: Any) -> Any:
        rms = values.square().mean(dim=1).sqrt()
        share = (self._factor * limit.sqrt() / rms.clamp_min(1e-300)).clamp_max(1.0)
        return (values * (weight * share)[:, None]).sum(dim=0) / weight.sum()
