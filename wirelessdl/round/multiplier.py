"""What each gradient is multiplied by, so that every node's data counts alike.

A row-stochastic A makes the network agree on a pi-weighted mean: node i's gradient must be multiplied
by 1/pi_i, which nobody knows beforehand. Four ways to it, and none:

    balanced   K: under receiver or power balancing A is doubly stochastic and pi = 1/K
    product    1/z_ii of Z_t = A_t ... A_1 (the paper). Under fading Z freezes to the first rounds' A:
               the bias stays for ever
    mean       1/pi of the mean of A_1 ... A_t
    none       1: plain D-PSGD, which ends at the minimum of sum pi_i f_i instead of sum f_i
    windowed   Z restarted every `window` rounds, diag(Z) averaged over the finished windows

All are computed from gains alone, never from data. The plan's theta caps every one of them.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray
from wirelessdl.mixing import Mixing, perron_vector
from wirelessdl.scenario.schema import Scenario

Rule: TypeAlias = Literal["balanced", "product", "mean", "windowed", "none"]


class Multiplier(Protocol):
    def advance(self, mixing: Mixing) -> FloatArray:
        """Multipliers of this round, given what receivers believe its mixing to be."""
        ...

    def state(self) -> dict[str, NDArray[Any]]: ...

    def restore(self, state: dict[str, NDArray[Any]]) -> None: ...


class Fixed:
    """The same for everyone, always."""

    def __init__(self, nodes: int, value: float):
        self._value = np.full(nodes, value)

    def advance(self, mixing: Mixing) -> FloatArray:  # noqa: ARG002
        return self._value

    def state(self) -> dict[str, NDArray[Any]]:
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        pass


class Product:
    """1/z_ii, round t using Z of the rounds before (paper eq. 12)."""

    def __init__(self, nodes: int):
        self.z = np.eye(nodes)

    def advance(self, mixing: Mixing) -> FloatArray:
        value = 1.0 / np.diagonal(self.z)
        self.z = mixing.dense @ self.z
        return value

    def state(self) -> dict[str, NDArray[Any]]:
        return {"z": self.z}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.z = state["z"]


class Mean:
    """1/pi of the mean mixing so far."""

    def __init__(self, nodes: int):
        self._sum, self._count = np.zeros((nodes, nodes)), 0

    def advance(self, mixing: Mixing) -> FloatArray:
        self._sum, self._count = self._sum + mixing.dense, self._count + 1
        try:
            pi = perron_vector(self._sum / self._count)
        except np.linalg.LinAlgError:  # so far the air falls apart: no pi, and theta caps what follows
            return np.full(len(self._sum), np.inf)
        return np.where(pi > 0, 1.0 / np.where(pi > 0, pi, 1.0), np.inf)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"sum": self._sum, "count": np.array(self._count)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._sum, self._count = state["sum"], int(state["count"])


class Windowed:
    """1 over the mean diag(Z) of finished windows; the running product until the first one ends."""

    def __init__(self, nodes: int, window: int = 30):
        self._nodes, self._window = nodes, window
        self._z, self._age = np.eye(nodes), 0
        self._sum, self._finished = np.zeros(nodes), 0

    def advance(self, mixing: Mixing) -> FloatArray:
        diagonal = self._sum / self._finished if self._finished else np.diagonal(self._z)
        value = np.asarray(1.0 / diagonal)
        self._z, self._age = mixing.dense @ self._z, self._age + 1
        if self._age == self._window:
            self._sum, self._finished = self._sum + np.diagonal(self._z), self._finished + 1
            self._z, self._age = np.eye(self._nodes), 0
        return value

    def state(self) -> dict[str, NDArray[Any]]:
        return {"z": self._z, "sum": self._sum, "counts": np.array([self._age, self._finished])}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._z, self._sum = state["z"], state["sum"]
        self._age, self._finished = state["counts"].tolist()


def make_multiplier(rule: Rule, nodes: int) -> Multiplier:
    kinds: dict[Rule, Callable[[int], Multiplier]] = {
        "balanced": lambda nodes: Fixed(nodes, float(nodes)),
        "none": lambda nodes: Fixed(nodes, 1.0),
        "product": Product,
        "mean": Mean,
        "windowed": Windowed,
    }
    return kinds[rule](nodes)


def rule_for(scenario: Scenario) -> Rule:
    """Which multiplier `auto` stands for."""
    if scenario.power.multiplier != "auto":
        return scenario.power.multiplier
    if scenario.power.balance:
        return "balanced"
    return "product" if scenario.privacy.protocol == "paper" else "mean"
