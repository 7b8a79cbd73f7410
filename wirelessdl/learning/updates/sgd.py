"""Plain stochastic gradient descent: the step starts at what was received, and the gradient is taken there.

x <- Proj(s - gamma mult g(s))
"""

from typing import Any


class Member:
    """The engine takes received models as they are: `base` is never asked in a run."""

    def base(self, received: Any, state: Any, round: int) -> tuple[Any, Any, Any]:  # noqa: ARG002
        return received, received, state
