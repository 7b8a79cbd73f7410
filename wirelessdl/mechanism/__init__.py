"""Mechanisms: what noise a sender adds, and from whom it hides the sender.

A plan gives every sender the noise that would hide it if all of it were its own. A mechanism decides what is really
sent in a frame, once it is known who is on air: `protect` returns the plan with the power that this takes, and from
whom which share of the noise variance hides each sender. It is pure: the budget gate calls it until nobody else falls
silent, and its answer depends on gains, learning rates and who is on air, on nothing that depends on data.

To add one: a module here with `Member`, `Keys`, `refuse` (see `wirelessdl/families.py`); `COALITION`, whether epsilon
is promised against a coalition by default; and `recount(run, coalition, promised_coalition)`, a line for each share of
noise in a run's tables that is not what the mechanism gives (`wirelessdl verify`). Its docstring is its proof: what is
sent, what the adversary sees and knows, the statement, its conditions. A line in `families.MEMBERS`, a test, a section
of docs/noise.md. Your class, `privacy.noise = "mine.py:Mine"`, is drawn and charged as it says; its totals are "not
proven".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wirelessdl.arrays import BoolArray, FloatArray, IntArray, read_only
from wirelessdl.contract import SHARES, checked_array, guarded, of_node
from wirelessdl.errors import ContractError

if TYPE_CHECKING:
    from wirelessdl.learning.records import PairInput
    from wirelessdl.links import Links
    from wirelessdl.power.problem import PowerPlan


@dataclass(frozen=True, eq=False)
class Protection:
    """How the senders of a frame are hidden.

    plan: with the noise that this takes: alpha, and own_share and coalition_share, [K] shares of the noise variance
    that hide a sender from everyone, and from a coalition; None: all of it. note: what was done otherwise than asked.
    """

    plan: "PowerPlan"
    note: str = ""

    def noise(self, deviation: FloatArray) -> "PairInput | None":
        """What is drawn beside each node's own noise; None: nothing. deviation: [K] of all that each node sends."""
        return None

    def facts(self) -> dict[str, Any] | None:
        """What `plan --json` says of it; None where there is nothing to say."""
        return None

    def words(self, deviation: FloatArray) -> str:
        """The same in words; empty where there is nothing to say. deviation: [K] of all that each node sends."""
        return ""


class Mechanism:
    """A way to hide senders; every member extends it. What it does not say is as where all noise is a node's own.

    coalition: most nodes that collude, against whom the view `coalition` holds; 0 where there is no such view, since
    all noise of a node is its own. ratio: deviation of shared noise over own, as the scenario fixes it; None: the first
    plan chooses it, for the least predicted error (`power.joint`). draws_pairs: whether shared noise is drawn pair by
    pair.
    """

    coalition: int = 0
    draws_pairs: bool = False
    ratio: float | None = 0.0

    def chosen(self, ratio: float) -> "Mechanism":
        """The mechanism with the ratio that the first plan chose."""
        return self

    def partners(self, links: "Links") -> int:
        """With how many others each node shares noise, at least, when everyone is on air."""
        return 0

    def protect(self, plan: "PowerPlan", on_air: BoolArray, links: "Links", sigma: FloatArray) -> Protection:
        """Of a frame in which these nodes send, `[K]`. sigma: [K] deviation of eta; links: of those on air."""
        raise NotImplementedError

    def protect_groups(
        self, plan: "PowerPlan", on_air: BoolArray, links: "Links", sigma: FloatArray, component: IntArray
    ) -> Protection:
        """The same where what is sent joins only nodes of one group. component: [K] group of each node on air."""
        return self.protect(plan, on_air, links, sigma)

    def feasibility(self, plan: "PowerPlan", links: "Links") -> str:
        """When it cannot keep to the plan, in words; empty: never. Raises InfeasiblePowerError where it never can."""
        return ""

    def least_own(self, nodes: int) -> float:
        """Own variance over the variance that must stay hidden, at least, whoever is on air of so many nodes."""
        return 1.0

    def figures(self) -> dict[str, Any]:
        """What summary.json holds of it."""
        return {"pair_ratio": None}

    def warnings(self, notes: Sequence[str]) -> Iterator[str]:
        """Lines for the summary. notes: those of all frames of the run."""
        yield from ()


class UserMechanism(Mechanism):
    """A class of the user's with `protect`, held to its contract; totals under it are what it states, not proven."""

    def __init__(self, name: str, given: Any):
        self.name, self._protect = name, guarded("privacy.noise", given, "protect")

    def protect(self, plan: "PowerPlan", on_air: BoolArray, links: "Links", sigma: FloatArray) -> Protection:
        found = self._protect(plan, read_only(on_air), links, read_only(sigma))
        where = f"privacy.noise: {self.name}.protect"
        if not isinstance(found, Protection):
            raise ContractError(f"{where} returned {type(found).__name__}, expected a wirelessdl.mechanism.Protection")
        alpha, share = found.plan.alpha, found.plan.own_share
        for field, values in (("alpha", alpha), ("own_share", alpha if share is None else share)):
            checked_array(where, values, (len(on_air),), "one share per node", SHARES, field=field, place=of_node)
        return replace(found, plan=replace(found.plan, coalition_share=None))

    def least_own(self, nodes: int) -> float:
        return 0.0

    def warnings(self, notes: Sequence[str]) -> Iterator[str]:
        yield f"totals are not proven: {self.name} states what its noise hides, and nothing checks that"
