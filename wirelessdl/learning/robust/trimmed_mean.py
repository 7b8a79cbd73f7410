"""The trimmed mean of every coordinate: the b largest and b smallest values are left out.

    b = floor(share n),    R_c = mean of v_(b + 1), c .. v_(n - b), c      of n values in order, all of one weight

Up to b lying values move it within the range of honest ones.
"""

from typing import Annotated, Any

from annotated_types import Gt, Lt


class Member:
    """A share of the values may lie."""

    def __init__(self, share: Annotated[float, Gt(0), Lt(0.5)] = 0.25):
        self._share = share

    def combine(self, values: Any, weight: Any, limit: Any) -> Any:  # noqa: ARG002
        count = len(values)
        left = int(self._share * count + 1e-9)
        return values.sort(dim=0).values[left : count - left].mean(dim=0)
