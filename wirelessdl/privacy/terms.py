"""The assumptions of the totals, in one record: what is promised, to whom, and under which conditions."""

from dataclasses import dataclass
from typing import Literal

from wirelessdl.privacy.combinations import Adjacency, Clipping, Sampler
from wirelessdl.privacy.exposure import Unit

Proven = Literal["own", "coalition"]
View = Literal[Proven, "link"]

ADJACENCY: Adjacency = "replace-one"  # of every epsilon of a run
NOBODY_SENDS = "everyone else: nothing is ever sent"  # the adversary of nodes that keep to themselves
OUTSIDE = "tuning, choice of features and repeated runs on the same data are outside epsilon; published runs compose"
AMPLIFIED = "few batches hold a sample: the whole run counts that (amplification by sampling), one slot does not"


def adversary(view: Proven, coalition: int, declared: str = "", *, sends: bool = True) -> str:
    """Against whom a total of a proven view holds, in words. coalition: most nodes that collude.

    declared: the user's mechanism, whose word is all there is. sends: whether anything leaves a node.
    """
    if not sends:
        return NOBODY_SENDS
    if declared:
        return f"everyone else as {declared} states it, which is not proven"
    if view == "own":
        return "everyone else, all nodes colluding"
    if coalition == 1:
        return "any one node that hears every transmission"
    return f"any {coalition} colluding nodes that hear every transmission"


def adversary_in_short(coalition: int | None) -> str:
    """The same for tables and legends: any so many nodes, or, for None, everyone else."""
    return "everyone" if coalition is None else "any one node" if coalition == 1 else f"any {coalition} nodes"


def protected(unit: str) -> str:
    """What an epsilon protects, and its adjacency."""
    return f"{'all data of one node' if unit == 'node' else 'one sample'} ({ADJACENCY})"


@dataclass(frozen=True)
class Terms:
    """The assumptions of the totals; the same for every row of the privacy table."""

    protocol: Literal["hardened", "paper"]
    sampler: Sampler
    clipping: Clipping
    delta: float
    unit: Unit = "sample"
    adjacency: Adjacency = ADJACENCY
    epoch_rounds: tuple[int, ...] = ()  # of every sender, where batches are shuffled
    evaluated: Literal["mixed", "own"] = "mixed"  # whether accuracy is of what was received, or of the last update too
    coalition: int = 0  # most nodes that collude, under noise that nodes share; 0: every node's noise is its own
    promised: Proven = "own"
    declared: str = ""  # mechanism of the user's: what its noise hides is its own statement, and no total is proven
    passes: bool = False  # whether what was received is sent on, and averaged again
    one_slot: bool = True  # whether a receiver's share of a slot is known: not under an access of the user's
    sends: bool = True  # whether anything leaves a node at all
    rounding: float = 0.0  # largest share of a charged sensitivity that is rounding before the noise

    @property
    def amplified(self) -> bool:
        """Whether subsampling amplifies privacy."""
        drawn = self.sampler in ("without-replacement", "poisson")
        return self.protocol == "hardened" and self.unit == "sample" and drawn

    @property
    def by_epoch(self) -> bool:
        """Whether shuffled epochs are charged, not rounds: a sample takes part once in each."""
        return self.protocol == "hardened" and self.unit == "sample" and bool(self.epoch_rounds)

    @property
    def shares_noise(self) -> bool:
        """Whether nodes share noise, so that there is a view against a coalition."""
        return self.coalition > 0

    @property
    def counts_links(self) -> bool:
        """Whether the paper's sum over what one receiver hears in each slot means anything.

        It adds variances of independent noise, and knows nothing of what passes hand on.
        """
        return self.one_slot and not (self.shares_noise or self.passes or self.declared)

    @property
    def adversary(self) -> str:
        """Against whom the promised total holds, in words."""
        return self.against(self.promised)

    def against(self, view: Proven) -> str:
        """Against whom the total of a proven view holds, in words."""
        return adversary(view, self.coalition, self.declared, sends=self.sends)

    @property
    def protects(self) -> str:
        """What the totals protect, in a few words."""
        return protected(self.unit)

    @property
    def conditions(self) -> list[str]:
        """What the proven total assumes; the engine guarantees all of it except for the learner's memory."""
        if not self.sends:
            return [
                "nothing is sent: models never leave their nodes, and there is nothing to hide",
                "the figures of this run are read off models without noise: who publishes them, or a model, is not "
                "covered",
            ]
        kept = [f"not proven: {self.declared} states what its noise hides"] if self.declared else []
        kept += [
            "one sample of one node is protected: replaced by another, everything else the same"
            if self.unit == "sample"
            else "all data of one node are protected: replaced by as many others, everything else the same",
            "clients and their sizes are fixed and public",
            "gains, mixing, plan, faults and compute times do not depend on data",
            "the own term holds the noise that was sent",
            "a learner remembers nothing but its weights (a class of your own is tried before the run, not proven)",
            "batches are drawn anew each round, keyed by node and round"
            if self.sampler != "shuffled"
            else f"batches follow an order drawn anew each epoch; {'epochs' if self.by_epoch else 'rounds'} count",
            "the test set is public: accuracy is read from it, and where it decides anything nothing covers that",
            "x_1 comes from no data: the first transmission is not charged",
            "noise stays secret: the run directory, with its seed, is not a private release",
            f"this run alone: {OUTSIDE}",
            "noise is Gaussian, and not the floating-point numbers that stand for it; rounding before it is charged, "
            f"{self.rounding:.2g} of the sensitivity at most",
        ]
        if self.shares_noise:
            kept += [
                f"at most {self.coalition} nodes collude, counting all that are compromised before seeds are erased "
                "(view coalition; view own: everyone)",
                "pairs share fresh noise from a secret seed each, authenticated, and are formed from the roster that "
                "the frame opens with",
                "batches of different nodes are independent, and a record is at one node only",
            ]
        if self.passes:
            kept.append("mixing passes carry what was received, never a step that was not sent with its noise")
        if self.protocol == "hardened":
            return [
                *kept,
                "noise is aligned with the learning rate of the gradient that is sent",
                "accuracy and final model are those of what was received; the last update is never shown",
            ]
        return [
            *kept,
            "no amplification by sampling: gradients are taken at a noiseless point",
            "accuracy is of what was received"
            if self.evaluated == "mixed"
            else "reported accuracy is of the last update, which the total does not cover",
        ]
