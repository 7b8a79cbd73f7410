"""The median of every coordinate: half of the values must lie before it moves without bound.

    R_c = (v_(ceil(n/2)), c + v_(floor(n/2) + 1), c) / 2      of n values in order, all of one weight

A value with one attacker in it is an attacker's. The median of n noisy values has up to pi / 2 of the variance of their
mean, and it is biased where data of nodes differ.
"""

from typing import Any


class Member:
    """Half of the values may lie."""

    def combine(self, values: Any, weight: Any, limit: Any) -> Any:  # noqa: ARG002
        ordered, count = values.sort(dim=0).values, len(values)
        return 0.5 * (ordered[(count - 1) // 2] + ordered[count // 2])
