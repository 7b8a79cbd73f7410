"""What each gradient is multiplied by, so that every node's data counts alike.

A row-stochastic A makes the network agree on a pi-weighted mean: node i's gradient must be multiplied
by 1/pi_i, which nobody knows beforehand. Five ways to it, and others:

    balanced   K: under receiver or power balancing A is doubly stochastic and pi = 1/K
    product    1/z_ii of Z_t = A_t ... A_1 (the paper). Under fading Z freezes to the first rounds' A:
               the bias stays for ever
    mean       1/pi of the mean of A_1 ... A_t
    tracked    1 over the mean of p_t, p_t = A_t^T p_(t-1), p_0 = 1/K: each node sums what receivers say they weigh it
               by. For A_t drawn anew, E p_t = (E A)^T E p_(t-1) goes to pi of the mean A, with one number per node and
               round instead of K; the last `MEMORY` rounds count, so it follows A that drifts
    windowed   Z restarted every `WINDOW` rounds, diag(Z) averaged over the finished windows
    none       1: plain D-PSGD, which ends at the minimum of sum pi_i f_i instead of sum f_i
    fixed      K (`multiplier = "nodes"`) or any number, whatever A is: the same minimum, another step

All are computed from gains alone, never from data. The plan's theta caps every one of them.

A broadcast on the control channel may be lost. Of Z, the others then use the row that they last heard from its sender
(at first the unit row that Z starts from), and the sender its own. Of the mean, everybody leaves that round's row out.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.errors import ContractError
from wirelessdl.mixing import Mixing, perron_vector
from wirelessdl.scenario.schema import Scenario

_DENSE_MEAN = 200  # nodes up to which the mean mixing is a matrix
MEMORY = 300  # rounds that a tracked weight is a mean of
WINDOW = 30  # rounds of one Z of `windowed`
Rule: TypeAlias = Literal["balanced", "product", "mean", "tracked", "windowed", "none", "fixed"]


class Multiplier(Protocol):
    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:
        """Multipliers of this round, given what receivers believe its mixing to be.

        sent: [K] nodes that broadcast; lost: [K] those of them that nobody heard; None: all, and none of them.
        """

    def state(self) -> dict[str, NDArray[Any]]: ...

    def restore(self, state: dict[str, NDArray[Any]]) -> None: ...


class Fixed:
    """The same for everyone, always."""

    def __init__(self, nodes: int, value: float):
        self._value = np.full(nodes, value)

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:  # noqa: ARG002
        return self._value

    def state(self) -> dict[str, NDArray[Any]]:
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        pass


class Product:
    """1/z_ii, round t using Z of the rounds before (paper eq. 14)."""

    def __init__(self, nodes: int, *, lossy: bool = False):
        self.z = np.eye(nodes)
        self._heard = self.z if lossy else None  # each row as the others last heard it

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:
        value = 1.0 / np.diagonal(self.z)
        if self._heard is not None and sent is not None and lost is not None:
            self._heard = np.where((sent & ~lost)[:, None], self.z, self._heard)
        self.z = _mixed(mixing, self.z, self._heard, lost)
        return value

    def state(self) -> dict[str, NDArray[Any]]:
        return {"z": self.z} if self._heard is None else {"z": self.z, "heard": self._heard}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.z = state["z"]
        self._heard = self._heard if self._heard is None else state["heard"]


def _mixed(mixing: Mixing, z: FloatArray, heard: FloatArray | None, lost: BoolArray | None) -> FloatArray:
    """A Z, in which others' rows that were lost are as they were last heard, and one's own is what it is."""
    weights = mixing.dense
    if heard is None or lost is None or not lost.any():
        return np.asarray(weights @ z)
    own = np.diagonal(weights)
    return np.asarray((weights - np.diag(own)) @ np.where(lost[:, None], heard, z) + own[:, None] * z)


class Windowed(Product):
    """1 over the mean diag(Z) of finished windows; the running product until the first one ends."""

    def __init__(self, nodes: int, *, lossy: bool = False):
        super().__init__(nodes, lossy=lossy)
        self._sum, self._rounds = np.zeros(nodes), 0

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:
        value, finished = super().advance(mixing, sent, lost), self._rounds // WINDOW
        if finished:
            value = np.asarray(finished / self._sum)
        self._rounds += 1
        if self._rounds % WINDOW == 0:
            self._sum, self.z = self._sum + np.diagonal(self.z), np.eye(len(self.z))
            self._heard = self._heard if self._heard is None else self.z  # the unit matrix, which everybody knows
        return value

    def state(self) -> dict[str, NDArray[Any]]:
        return {**super().state(), "sum": self._sum, "rounds": np.array([self._rounds])}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        super().restore(state)
        self._sum, self._rounds = state["sum"], int(state["rounds"][0])


class Mean:
    """1/pi of the mean mixing so far."""

    def __init__(self, nodes: int):
        self._sum = np.zeros((nodes, nodes))
        self._count: IntArray = np.zeros(nodes, dtype=np.int64)  # rounds in each row's sum

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:  # noqa: ARG002
        weights = mixing.dense if lost is None else np.where(lost[:, None], 0.0, mixing.dense)
        self._sum, self._count = self._sum + weights, self._count + (1 if lost is None else ~lost)
        count = self._count[:, None]
        try:
            # of a row that nobody has heard yet nothing is known: all weights alike
            pi = perron_vector(np.where(count > 0, self._sum / np.maximum(count, 1), 1.0 / len(count)))
        except np.linalg.LinAlgError:  # so far the air falls apart: no pi, and theta caps what follows
            return np.full(len(self._sum), np.inf)
        return np.where(pi > 0, 1.0 / np.where(pi > 0, pi, 1.0), np.inf)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"sum": self._sum, "count": self._count}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._sum, self._count = state["sum"], state["count"]


class Tracked:
    """1 over the mean of p_t = A_t^T p_(t-1), the weight that the first models have by now."""

    def __init__(self, nodes: int):
        self._p, self._mean, self._count = np.full(nodes, 1.0 / nodes), np.full(nodes, 1.0 / nodes), 0

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:  # noqa: ARG002
        links, at = mixing.links, self._p
        # of a receiver whose number was lost, its senders use none: it keeps its share to itself
        given = mixing.link if lost is None else np.where(lost[links.rx], 0.0, mixing.link)
        own = mixing.own if lost is None else np.where(lost, 1.0, mixing.own)
        moved = own * at + np.bincount(links.tx, weights=given * at[links.rx], minlength=len(at))
        self._p = moved / moved.sum()  # rows sum to 1 but for errors of CSI
        self._count += 1
        self._mean = self._mean + (self._p - self._mean) / min(self._count, MEMORY)
        return np.asarray(1.0 / self._mean)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"p": self._p, "mean": self._mean, "count": np.array([self._count])}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._p, self._mean, self._count = state["p"], state["mean"], int(state["count"][0])


class SparseMean:
    """1/pi of the mean mixing so far, in a large network: of links that ever were, not of all pairs.

    Of a row that nobody has heard yet nothing is known: all its links of this round weigh alike.
    """

    def __init__(self, nodes: int):
        self._number = np.zeros(0, dtype=np.int64)  # rx * K + tx of every weight that was ever there, rising
        self._sum: FloatArray = np.zeros(0)
        self._count: IntArray = np.zeros(nodes, dtype=np.int64)

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:  # noqa: ARG002
        nodes, links = mixing.links.nodes, mixing.links
        diagonal = np.arange(nodes) * (nodes + 1)
        number = np.concatenate([links.number, diagonal])
        weight = np.concatenate([mixing.link, mixing.own])
        row = np.concatenate([links.rx, np.arange(nodes)])
        if lost is not None:
            weight = np.where(lost[row], 0.0, weight)
        every = np.union1d(self._number, number)
        total = np.zeros(len(every))
        total[np.searchsorted(every, self._number)] = self._sum
        total[np.searchsorted(every, number)] += weight
        self._number, self._sum = every, total
        self._count = self._count + (1 if lost is None else ~lost)
        rx, tx = np.divmod(every, nodes)
        unheard = self._count == 0
        alike = np.zeros(len(every))
        alike[np.searchsorted(every, number)] = 1.0 / (links.degree[row] + 1.0)
        mean = np.where(unheard[rx], alike, total / np.maximum(self._count, 1)[rx])
        weights = scipy.sparse.csr_array((mean, (rx, tx)), shape=(nodes, nodes))
        try:
            pi = perron_vector(weights)
        except RuntimeError:  # singular: so far the air falls apart
            return np.full(nodes, np.inf)
        return np.where(pi > 0, 1.0 / np.where(pi > 0, pi, 1.0), np.inf)

    def state(self) -> dict[str, NDArray[Any]]:
        # one array: numbers up to 2^53 are whole in float64, too
        return {"weights": np.stack([self._number.astype(np.float64), self._sum]), "count": self._count}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        number, self._sum = state["weights"]
        self._number, self._count = number.astype(np.int64), state["count"]
        last = len(self._count) ** 2 - 1
        if not (np.all(np.diff(self._number) > 0) and np.all((self._number >= 0) & (self._number <= last))):
            raise ContractError("the checkpoint names weights of links that do not exist; it was changed")


def make_multiplier(rule: Rule, nodes: int, *, lossy: bool = False, value: float = 1.0) -> Multiplier:
    """The multiplier of a rule. lossy: broadcasts of z may be lost; value: of a fixed one."""
    kinds: dict[Rule, Callable[[int], Multiplier]] = {
        "balanced": lambda nodes: Fixed(nodes, float(nodes)),
        "none": lambda nodes: Fixed(nodes, 1.0),
        "fixed": lambda nodes: Fixed(nodes, value),
        "product": lambda nodes: Product(nodes, lossy=lossy),
        "windowed": lambda nodes: Windowed(nodes, lossy=lossy),
        "tracked": Tracked,
        "mean": Mean if nodes <= _DENSE_MEAN else SparseMean,
    }
    return kinds[rule](nodes)


def rule_for(scenario: Scenario) -> Rule:
    """Which multiplier `auto` stands for; none where nobody mixes, and every node's model is its own."""
    given = scenario.power.multiplier
    if given == "nodes" or isinstance(given, float):
        return "fixed"
    if scenario.silent:
        return "none"
    if given != "auto":
        return given
    if scenario.power.balance:
        return "balanced"
    return "product" if scenario.privacy.protocol == "paper" else "mean"


def fixed_multiplier(scenario: Scenario) -> float | None:
    """What every gradient is multiplied by, where that is known beforehand; None where it follows from the mixing."""
    rule, given = rule_for(scenario), scenario.power.multiplier
    if rule == "fixed":
        return given if isinstance(given, float) else float(scenario.network.nodes)
    return 1.0 if rule == "none" else None


def least_multiplier(scenario: Scenario) -> float:
    """What gradients are multiplied by at least: weights of a row sum to 1, so 1/z_ii and 1/pi_i are 1 or more.

    Under a server it is the number of members.
    """
    balanced = rule_for(scenario) == "balanced" and scenario.network.server == "none"
    return float(scenario.network.nodes) if balanced else fixed_multiplier(scenario) or 1.0
