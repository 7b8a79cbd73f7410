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
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.errors import ContractError
from wirelessdl.mixing import Mixing, perron_vector
from wirelessdl.scenario.schema import Scenario

_DENSE_MEAN = 200  # nodes up to which the mean mixing is a matrix
MEMORY = 300  # rounds that a tracked weight is a mean of
WINDOW = 30  # rounds of one Z of `windowed`
Rule: TypeAlias = Literal["balanced", "product", "mean", "tracked", "windowed", "none", "fixed"]


class Multiplier:
    """A rule, and what it remembers: arrays by name, which a checkpoint holds."""

    def __init__(self, **memory: NDArray[Any]):
        self.memory = memory

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:
        """Multipliers of this round, given what receivers believe its mixing to be.

        sent: [K] nodes that broadcast; lost: [K] those of them that nobody heard; None: all, and none of them.
        """
        raise NotImplementedError

    def state(self) -> dict[str, NDArray[Any]]:
        return dict(self.memory)

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.memory = dict(state)


class Fixed(Multiplier):
    """The same for everyone, always."""

    def __init__(self, nodes: int, value: float):
        super().__init__()
        self._value = np.full(nodes, value)

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:  # noqa: ARG002
        return self._value


class Product(Multiplier):
    """1/z_ii, round t using Z of the rounds before (paper eq. 14). heard: each row as the others last heard it."""

    def __init__(self, nodes: int, *, lossy: bool = False, **memory: NDArray[Any]):
        super().__init__(z=np.eye(nodes), **({"heard": np.eye(nodes)} if lossy else {}), **memory)

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:
        z, heard = self.memory["z"], self.memory.get("heard")
        if heard is not None and sent is not None and lost is not None:
            heard = self.memory["heard"] = np.where((sent & ~lost)[:, None], z, heard)
        self.memory["z"] = _mixed(mixing, z, heard, lost)
        return np.asarray(1.0 / np.diagonal(z))


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
        super().__init__(nodes, lossy=lossy, sum=np.zeros(nodes), rounds=np.zeros(1, dtype=np.int64))

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:
        value, now, done = super().advance(mixing, sent, lost), self.memory, int(self.memory["rounds"][0])
        if done // WINDOW:
            value = np.asarray(done // WINDOW / now["sum"])
        now["rounds"] = np.array([done + 1])
        if (done + 1) % WINDOW == 0:
            unit = np.eye(len(now["z"]))  # which everybody knows
            now.update(sum=now["sum"] + np.diagonal(now["z"]), z=unit, **({"heard": unit} if "heard" in now else {}))
        return value


class Mean(Multiplier):
    """1/pi of the mean mixing so far. count: rounds in each row's sum."""

    def __init__(self, nodes: int):
        super().__init__(sum=np.zeros((nodes, nodes)), count=np.zeros(nodes, dtype=np.int64))

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:  # noqa: ARG002
        weights = mixing.dense if lost is None else np.where(lost[:, None], 0.0, mixing.dense)
        total = self.memory["sum"] = self.memory["sum"] + weights
        self.memory["count"] = self.memory["count"] + (1 if lost is None else ~lost)
        count = self.memory["count"][:, None]
        try:
            # of a row that nobody has heard yet nothing is known: all weights alike
            pi = perron_vector(np.where(count > 0, total / np.maximum(count, 1), 1.0 / len(count)))
        except np.linalg.LinAlgError:  # so far the air falls apart: no pi, and theta caps what follows
            return np.full(len(total), np.inf)
        return np.where(pi > 0, 1.0 / np.where(pi > 0, pi, 1.0), np.inf)


class Tracked(Multiplier):
    """1 over the mean of p_t = A_t^T p_(t-1), the weight that the first models have by now."""

    def __init__(self, nodes: int):
        super().__init__(p=np.full(nodes, 1 / nodes), mean=np.full(nodes, 1 / nodes), count=np.zeros(1, dtype=np.int64))

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:  # noqa: ARG002
        links, at, mean, count = mixing.links, self.memory["p"], self.memory["mean"], self.memory["count"] + 1
        # of a receiver whose number was lost, its senders use none: it keeps its share to itself
        given = mixing.link if lost is None else np.where(lost[links.rx], 0.0, mixing.link)
        own = mixing.own if lost is None else np.where(lost, 1.0, mixing.own)
        moved = own * at + np.bincount(links.tx, weights=given * at[links.rx], minlength=len(at))
        p = moved / moved.sum()  # rows sum to 1 but for errors of CSI
        mean = mean + (p - mean) / min(int(count[0]), MEMORY)
        self.memory.update(p=p, mean=mean, count=count)
        return np.asarray(1.0 / mean)


class SparseMean(Multiplier):
    """1/pi of the mean mixing so far, in a large network: of links that ever were, not of all pairs.

    weights: rx * K + tx of every weight that was ever there, rising (up to 2^53 whole in float64, too), and its sum. Of
    a row that nobody has heard yet nothing is known: all its links of this round weigh alike.
    """

    def __init__(self, nodes: int):
        super().__init__(weights=np.zeros((2, 0)), count=np.zeros(nodes, dtype=np.int64))

    def advance(self, mixing: Mixing, sent: BoolArray | None = None, lost: BoolArray | None = None) -> FloatArray:  # noqa: ARG002
        nodes, links = mixing.links.nodes, mixing.links
        diagonal = np.arange(nodes) * (nodes + 1)
        number = np.concatenate([links.number, diagonal])
        weight = np.concatenate([mixing.link, mixing.own])
        row = np.concatenate([links.rx, np.arange(nodes)])
        if lost is not None:
            weight = np.where(lost[row], 0.0, weight)
        before = self.memory["weights"][0].astype(np.int64)
        every = np.union1d(before, number)
        total = np.zeros(len(every))
        total[np.searchsorted(every, before)] = self.memory["weights"][1]
        total[np.searchsorted(every, number)] += weight
        count = self.memory["count"] + (1 if lost is None else ~lost)
        self.memory.update(weights=np.stack([every.astype(np.float64), total]), count=count)
        rx, tx = np.divmod(every, nodes)
        unheard = count == 0
        alike = np.zeros(len(every))
        alike[np.searchsorted(every, number)] = 1.0 / (links.degree[row] + 1.0)
        mean = np.where(unheard[rx], alike, total / np.maximum(count, 1)[rx])
        weights = scipy.sparse.csr_array((mean, (rx, tx)), shape=(nodes, nodes))
        try:
            pi = perron_vector(weights)
        except RuntimeError:  # singular: so far the air falls apart
            return np.full(nodes, np.inf)
        return np.where(pi > 0, 1.0 / np.where(pi > 0, pi, 1.0), np.inf)

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        super().restore(state)
        number = self.memory["weights"][0].astype(np.int64)
        last = len(self.memory["count"]) ** 2 - 1
        if not (np.all(np.diff(number) > 0) and np.all((number >= 0) & (number <= last))):
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
