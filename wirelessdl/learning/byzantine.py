"""Byzantine nodes: attackers that follow the protocol but for what they send (`faults.byzantine`).

    honest      w_a = x_a + noise, or what a holds where nodes send on what they hold; in a message Q(w_a), and v_a is
             rounded again
    sign-flip   v_a = -factor w_a
    noise       v_a = sqrt(factor L_a) n, n standard normal: with factor 1 all the power there is
    zero        v_a = 0
    replay      v_a = the first payload under attack, again and again
    kept        v_a <- v_a min(1, sqrt(L_a m) / ||v_a||),    L_a = P_a / (alpha_a P'_a)

    L_a      mean square of a coordinate that takes all power of a. P_a: its budget; alpha_a P'_a: the power that the
             plan gives to a model of mean square 1. The same limit holds under every access: where senders announce
             what they hold (hubs, turns, server), or send messages, receivers refuse more than the plan leaves room for
    from_round   the first round in which they attack; a node that is off air attacks nobody

v_a takes the place of the payload in all that the round makes of it, the attacker's own mean and its mixing passes
included. As a hub it adds v_a, and sends back the v_a of what it collected. Attackers know each other's payloads.

**Totals of honest nodes stay.** What j sends is x_j with its noise, whatever j received: given everything that the
others sent, s_j is known and the next release of j is the same Gaussian about a known centre (`mechanism/own.py`,
`privacy/coalition.py`). The theorems let all others, or any c, send what they like, and charges follow from plan, gains
and who is on air. What attackers do changes none of them. Pairs do not cancel in the mean where a partner attacks:
accuracy suffers, the coalition total does not, as long as attackers and those who listen with them are c or fewer.

Your class, `kind = "file.py:Class"`, needs the method below, and remembers nothing in self. It is given payloads of the
n attackers on air, `[n, m]`, their first ones, and L, `[n]`, and returns what they send, `[n, m]`:

    def send(self, honest, first, limit, round, rng):
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Gt, Le

from wirelessdl.arrays import FloatArray, IntArray, read_only
from wirelessdl.contract import Guard, Memory, checked_array
from wirelessdl.streams import Streams

if TYPE_CHECKING:
    from torch import Tensor


class NoAttack:
    """Nobody attacks."""

    def send(self, honest: Any, first: Any, limit: Any, round: int, rng: Any) -> Any:  # noqa: ARG002
        return honest


class SignFlip:
    """The payload with the other sign, `factor` times as large as far as there is power."""

    def __init__(self, factor: Annotated[float, Gt(0), Le(1e6)] = 1.0):
        self._factor = factor

    def send(self, honest: Any, first: Any, limit: Any, round: int, rng: Any) -> Any:  # noqa: ARG002
        return -self._factor * honest


class GaussianAttack:
    """Gaussian numbers that take `factor` of the power."""

    def __init__(self, factor: Annotated[float, Gt(0), Le(1)] = 1.0):
        self._factor = factor

    def send(self, honest: Any, first: Any, limit: Any, round: int, rng: Any) -> Any:  # noqa: ARG002
        return np.sqrt(self._factor * limit)[:, None] * rng.standard_normal(honest.shape)


class Zero:
    """Nothing: receivers take it for a model of zeros."""

    def send(self, honest: Any, first: Any, limit: Any, round: int, rng: Any) -> Any:  # noqa: ARG002
        return np.zeros_like(honest)


class Replayed:
    """The first payload under attack, in every later one."""

    def send(self, honest: Any, first: Any, limit: Any, round: int, rng: Any) -> Any:  # noqa: ARG002
        return first


ATTACKS = {"none": NoAttack, "sign-flip": SignFlip, "noise": GaussianAttack, "zero": Zero, "replay": Replayed}


@dataclass(frozen=True, eq=False)
class Attackers:
    """Who attacks, and how. nodes: rising; from_round: the first round under attack."""

    name: str
    attack: Any
    nodes: IntArray
    from_round: int


def chosen_attackers(given: Mapping[str, Any], nodes: int, rng: np.random.Generator) -> tuple[IntArray, int]:
    """Nodes that attack, rising, and the first round in which they do. Raises ValueError for what makes no sense.

    A share is that of a random order of nodes: whoever attacks at a small share does so at a larger one.
    """
    listed, share, first = given.get("nodes"), given.get("share"), given.get("from_round", 1)
    if (listed is None) == (share is None):
        raise ValueError(f"nodes and share: {'neither is' if share is None else 'both are'} given; set one of them")
    if type(first) is not int or first < 1:
        raise ValueError(f"from_round is {first!r}; must be an integer >= 1")
    order: IntArray = rng.permutation(nodes)
    if listed is None:
        if not isinstance(share, int | float) or not 0 <= share < 1:
            raise ValueError(f"share is {share!r}; must be >= 0 and < 1")
        return np.sort(order[: int(share * nodes + 0.5)]), first
    if not isinstance(listed, list) or not all(type(node) is int and 0 <= node < nodes for node in listed):
        raise ValueError(f"nodes is {listed!r}; must be a list of node numbers from 0 to {nodes - 1}")
    if len(set(listed)) < len(listed) or len(listed) == nodes:
        what = "names a node twice" if len(set(listed)) < len(listed) else "names every node, so nobody is honest"
        raise ValueError(f"nodes {what}: leave one out")
    return np.sort(np.asarray(listed, dtype=np.int64)), first


@dataclass(frozen=True, eq=False)
class AttackInput:
    """Of one round: attackers on air, rising, and the mean square of a coordinate that each may send, `[n]`."""

    nodes: IntArray
    limit: FloatArray


class RunningAttack:
    """Attackers at work: puts what they send in the place of what they would have sent. `first` is in checkpoints."""

    def __init__(self, attackers: Attackers, size: int, streams: Streams):
        self._attackers, self._size, self._streams = attackers, size, streams
        user = ":" in attackers.name
        self._guard = Guard(f"faults.byzantine: {attackers.name}.send", is_user_class=user)
        self._memory = Memory(f"faults.byzantine: {attackers.name}.send", attackers.attack, "use what it is given")
        self.first, self.began = np.zeros((len(attackers.nodes), size)), np.zeros(len(attackers.nodes), dtype=bool)

    def replace_(self, given: AttackInput, round: int, step: int, sent: "Tensor") -> None:
        """In place, `[K, m]`; step: of the round's payloads, from 0."""
        if not len(given.nodes):
            return
        import torch  # parts are listed without it

        rows = torch.as_tensor(given.nodes, device=sent.device)
        honest = sent.index_select(0, rows).double().cpu().numpy()
        place = np.searchsorted(self._attackers.nodes, given.nodes)
        new = ~self.began[place]
        self.first[place[new]], self.began[place[new]] = honest[new], True
        rng = self._streams.draws("faults.byzantine", round, step)
        with self._guard:
            found = self._attackers.attack.send(
                read_only(honest), read_only(self.first[place]), read_only(given.limit), round, rng
            )
        self._memory.require_none()
        name = f"faults.byzantine: {self._attackers.name}.send"
        found = checked_array(name, found, honest.shape, "one payload per attacker on air")
        found = np.clip(found, -1e100, 1e100)  # squares of larger numbers overflow
        found = (
            found * np.sqrt(np.minimum(1.0, given.limit / np.maximum(np.square(found).mean(axis=1), 1e-300)))[:, None]
        )
        sent.index_copy_(0, rows, torch.from_numpy(found).to(sent))
