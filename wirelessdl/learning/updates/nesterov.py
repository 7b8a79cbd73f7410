"""Nesterov's momentum on what is received: the gradient is taken where momentum leads.

    y = s + b (s - s_before),   x <- Proj(y - gamma mult g(y))

Source: Y. Nesterov, "A method for solving the convex programming problem with convergence rate O(1/k^2)", 1983, with
received models in place of the node's own.

Proven as plain SGD is (kind base): base, point and state are functions of what was received.
"""

from typing import Any

from wirelessdl.learning.updates import momentum

READS = momentum.READS


class Member(momentum.Member):
    def base(self, received: Any, state: Any, round: int) -> tuple[Any, Any, Any]:
        moved, _, kept = super().base(received, state, round)
        return moved, moved, kept
