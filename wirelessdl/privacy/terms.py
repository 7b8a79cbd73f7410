"""What totals assume: what is protected from whom, how far data enter a gradient, and which accountants are valid.

unit     what is replaced                              sensitivity      sampling
sample   one sample of one node                        2C/B_j, or 2G    amplifies
node     all samples of one node, by as many others    2C, or 2G        amplifies nothing: some are always there

C is the clip norm of each sample and B_j the divisor of node j's sum; G is the clip norm of a mini-batch. A mean of B_j
clipped samples is no longer than C, whatever the samples are. A Poisson batch may hold more samples than its divisor,
so with per-sample clipping nothing bounds what a node contributes. What rounding before the noise may add to a
sensitivity (`learning/clipping.py`) is in it.

nu is noise deviation over replace-one sensitivity (2C/B per sample, 2G per batch). Adding or removing a sample moves a
per-sample clipped sum half as far, so nu is doubled there. Combinations that the table does not hold have no proof and
are refused.

zero-out: a record against a null record, whose gradient is zero; how many records there are, and the divisor of the
sum, are public. A null record is a record, so whatever holds for replace-one neighbours holds here, with the same nu.
Where each sample is clipped, a given batch moves by C/B, half as far: 2 nu without amplification. With it, it depends
on the sampler. Poisson: the record is added to the rest of the batch or not, whatever else is in it, so the two laws
are those of add-remove neighbours: 2 nu. Without replacement: the record, where it is drawn, takes the place of another
one, so batches with it and without it are 2C/B apart; amplification compares just these, and nothing better than nu
holds (`tests/privacy/test_zero_out.py` has the two laws that 2 nu would break). A gradient clipped as one may turn
around when a record is zeroed: nu.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.errors import UnsoundError
from wirelessdl.families import UPDATE_TWINS, UpdateKind
from wirelessdl.privacy.pld import Sampled

Accountant: TypeAlias = Literal["rdp-wang19", "rdp", "pld", "gdp"]
Sampler: TypeAlias = Literal["without-replacement", "poisson", "full-batch", "shuffled"]
Adjacency: TypeAlias = Literal["replace-one", "add-remove", "zero-out"]
Clipping: TypeAlias = Literal["per-sample", "batch"]

ACCOUNTANTS: tuple[Accountant, ...] = ("rdp-wang19", "rdp", "pld", "gdp")
# the accountants' names of what `learning.sampling` names
SAMPLERS: dict[str, Sampler] = {
    "without-replacement": "without-replacement",
    "poisson": "poisson",
    "full": "full-batch",
    "shuffled": "shuffled",
}

# (sampler, adjacency, clipping) -> accountant -> factor of nu
_VALID: dict[tuple[Sampler, Adjacency, Clipping], dict[Accountant, float]] = {
    ("without-replacement", "replace-one", "per-sample"): {"rdp-wang19": 1, "rdp": 1, "pld": 1, "gdp": 1},
    ("without-replacement", "replace-one", "batch"): {"rdp-wang19": 1, "rdp": 1, "pld": 1, "gdp": 1},
    ("poisson", "replace-one", "per-sample"): {"rdp-wang19": 1, "pld": 1, "gdp": 1},
    ("poisson", "replace-one", "batch"): {"rdp-wang19": 1, "pld": 1, "gdp": 1},
    ("poisson", "add-remove", "per-sample"): {"rdp-wang19": 2, "rdp": 2, "pld": 2, "gdp": 2},
    ("poisson", "add-remove", "batch"): {"rdp-wang19": 1, "rdp": 1, "pld": 1, "gdp": 1},
    ("full-batch", "replace-one", "per-sample"): {"gdp": 1},
    ("full-batch", "replace-one", "batch"): {"gdp": 1},
    ("full-batch", "add-remove", "per-sample"): {"gdp": 2},
    ("shuffled", "replace-one", "per-sample"): {"gdp": 1},  # rounds are epochs
    ("shuffled", "replace-one", "batch"): {"gdp": 1},
    ("without-replacement", "zero-out", "per-sample"): {"rdp-wang19": 1, "rdp": 1, "pld": 1, "gdp": 2},
    ("without-replacement", "zero-out", "batch"): {"rdp-wang19": 1, "rdp": 1, "pld": 1, "gdp": 1},
    ("poisson", "zero-out", "per-sample"): {"rdp-wang19": 2, "rdp": 2, "pld": 2, "gdp": 2},
    ("poisson", "zero-out", "batch"): {"rdp-wang19": 1, "pld": 1, "gdp": 1},
    ("full-batch", "zero-out", "per-sample"): {"gdp": 2},
    ("full-batch", "zero-out", "batch"): {"gdp": 1},
    ("shuffled", "zero-out", "per-sample"): {"gdp": 2},
    ("shuffled", "zero-out", "batch"): {"gdp": 1},
}


def valid_accountants(sampler: Sampler, adjacency: Adjacency, clipping: Clipping) -> tuple[Accountant, ...]:
    """The accountants that are valid for such releases, tightest last except for `gdp`."""
    return tuple(_VALID.get((sampler, adjacency, clipping), {}))


def noise_factor(accountant: Accountant, sampler: Sampler, adjacency: Adjacency, clipping: Clipping) -> float:
    """Factor of nu for this accountant; raises where it is not valid."""
    for what, value, known in (
        ("accountant", accountant, ACCOUNTANTS),
        ("sampler", sampler, get_args(Sampler)),
        ("adjacency", adjacency, get_args(Adjacency)),
        ("clipping", clipping, get_args(Clipping)),
    ):
        if value not in known:
            raise ValueError(f"{what} is {value!r}; must be one of {', '.join(known)}")
    factors = _VALID.get((sampler, adjacency, clipping), {})
    if accountant not in factors:
        what = f"{sampler} sampling, {adjacency} neighbours and {clipping} clipping"
        remedy = f"valid there: {', '.join(factors)}" if factors else f"nothing is; {_remedy(sampler)}"
        raise UnsoundError(f"{accountant} proves nothing for {what}; {remedy}")
    return factors[accountant]


def profile_of(sampler: Sampler, clipping: Clipping, adjacency: Adjacency) -> Sampled:
    """The privacy profile; clipped as one, a Poisson batch is treated as any other.

    So is one whose sample is zeroed: (1-q) N(0, s^2) + q N(1, s^2) against N(0, s^2), in either direction, has no
    larger profile than sampling without replacement with noise s.
    """
    both = sampler == "poisson" and clipping == "per-sample" and adjacency == "replace-one"
    return "poisson" if both else "without-replacement"


def _remedy(sampler: Sampler) -> str:
    if sampler == "without-replacement":
        return "use replace-one neighbours, or poisson sampling"
    return "use replace-one neighbours"


Unit: TypeAlias = Literal["sample", "node"]
_NEIGHBOURS = {
    ("replace-one", "sample"): "replaced by another",
    ("replace-one", "node"): "replaced by as many others",
    ("zero-out", "sample"): "replaced by a null record, whose gradient is zero",
    ("zero-out", "node"): "replaced by as many null records, whose gradients are zero",
}


@dataclass(frozen=True, eq=False)
class Exposure:
    """Of each node, `[K]`: sensitivity of its gradient, sampling rate q (1: no amplification), rounds of an epoch."""

    sensitivity: FloatArray
    sampling_rate: FloatArray
    epoch_rounds: IntArray


Proven = Literal["own", "coalition"]
View = Literal[Proven, "link"]

NOBODY_SENDS = "all other nodes: nothing is ever sent"  # the adversary of nodes that keep to themselves
OUTSIDE = "tuning, choice of features and repeated runs on the same data are outside epsilon; published runs compose"
AMPLIFIED = "few batches hold a sample: the whole run counts that (amplification by sampling), one slot does not"


def adversary(view: Proven, coalition: int, declared: str = "", *, update: str = "", sends: bool = True) -> str:
    """Against whom a total of a proven view holds, in words. coalition: most nodes that collude.

    declared: the user's mechanism, whose word is all there is; update: likewise an update. sends: whether anything
    leaves a node.
    """
    if update and sends:
        return f"{adversary(view, coalition, declared)}, {kept_declaration(update)}"
    if not sends:
        return NOBODY_SENDS
    if declared:
        return f"all other nodes as {declared} states it, which is not proven"
    if view == "own":
        return "all other nodes colluding"
    if coalition == 1:
        return "any one node that hears every transmission"
    return f"any {coalition} colluding nodes that hear every transmission"


def kept_declaration(update: str) -> str:
    """What a total rests on where an update only declares how far a sample moves a model."""
    return f"if {update} keeps its declaration; {UPDATE_TWINS} twins did not refute it; not proven"


def adversary_in_short(coalition: int | None, *, declared: bool = False) -> str:
    """The same for tables and legends: any so many nodes, or, for None, all other nodes. declared: not proven."""
    found = "all other nodes" if coalition is None else "any one node" if coalition == 1 else f"any {coalition} nodes"
    return f"{found} (not proven)" if declared else found


def protected(unit: str, adjacency: str) -> str:
    """What an epsilon protects, and its adjacency."""
    return f"{'all data of one node' if unit == 'node' else 'one sample'} ({adjacency})"


@dataclass(frozen=True)
class PrivacyAssumptions:
    """The assumptions of the totals; the same for every row of the privacy table."""

    protocol: Literal["hardened", "paper"]
    sampler: Sampler
    clipping: Clipping
    delta: float
    unit: Unit = "sample"
    adjacency: Adjacency = "replace-one"
    epoch_rounds: tuple[int, ...] = ()  # of every sender, where batches are shuffled
    evaluated: Literal["mixed", "own"] = "mixed"  # whether accuracy is of what was received, or of the last update too
    coalition: int = 0  # most nodes that collude, under noise that nodes share; 0: every node's noise is its own
    promised: Proven = "own"
    declared: str = ""  # mechanism of the user's: what its noise hides is its own statement, and no total is proven
    kind: UpdateKind = "base"  # how the update of models uses data
    update: str = ""  # name of an update that declares how far a sample moves a model: no total is proven
    passes: bool = False  # whether what was received is sent on, and averaged again
    one_slot: bool = True  # whether a receiver's share of a slot is known: not under an access of the user's
    sends: bool = True  # whether anything leaves a node at all
    gram: bool = False  # whether training begins with a Gram stage, one release that nothing amplifies
    rounding: float = 0.0  # largest share of a charged sensitivity that is rounding before the noise
    public: tuple[str, ...] = ()  # maps of features, which everyone knows

    @property
    def amplified(self) -> bool:
        """Whether subsampling amplifies privacy."""
        drawn = self.sampler in ("without-replacement", "poisson")
        return self.protocol == "hardened" and self.unit == "sample" and drawn and self.kind == "base"

    @property
    def replaced(self) -> float:
        """Replace-one sensitivity over that of the adjacency, where amplification goes by the former; else 1."""
        return self.factor("gdp") if self.amplified else 1.0

    @property
    def link_scale(self) -> float:
        """By what mu of a link is multiplied for Theorem 9."""
        return self.replaced / self.factor("rdp-wang19") if self.amplified else 1.0

    def factor(self, accountant: Accountant) -> float:
        """By what noise over replace-one sensitivity is multiplied for this accountant."""
        return noise_factor(accountant, self.sampler, self.adjacency, self.clipping)

    @property
    def by_epoch(self) -> bool:
        """Whether shuffled epochs are charged, not rounds: a sample takes part once in each."""
        fresh = self.unit == "sample" and self.kind == "base"
        return self.protocol == "hardened" and fresh and bool(self.epoch_rounds)

    @property
    def status(self) -> Literal["proven", "declared", "unproven"]:
        """What totals of senders are worth: an update's declaration is tried with twins, a mechanism's is not."""
        return "unproven" if self.declared else "declared" if self.update else "proven"

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
        return adversary(view, self.coalition, self.declared, update=self.update, sends=self.sends)

    @property
    def protects(self) -> str:
        """What the totals protect, in a few words."""
        return protected(self.unit, self.adjacency)

    @property
    def conditions(self) -> list[str]:
        """What the proven total assumes; the engine guarantees all but what learner and update remember."""
        if not self.sends:
            return [
                "nothing is sent: models never leave their nodes, and there is nothing to hide",
                "the figures of this run are read off models without noise: who publishes them, or a model, is not "
                "covered",
            ]
        kept = [f"not proven: {self.declared} states what its noise hides"] if self.declared else []
        if self.update:
            kept.append(f"not proven: {kept_declaration(self.update)}")
        if self.kind == "change":
            kept.append("what a round adds to what was received is clipped as a whole, so that nodes may remember")
        kept += [
            f"{'one sample of one node is' if self.unit == 'sample' else 'all data of one node are'} protected: "
            f"{_NEIGHBOURS[self.adjacency, self.unit]}, everything else the same",
            "clients and their sizes are fixed and public",
            "gains, mixing, plan, faults and compute times do not depend on data",
            "the own term holds the noise that was sent",
            "a learner remembers nothing but its weights, and an update knows nothing but what it is given (a class of "
            "your own is tried, not proven)",
            "batches are drawn anew each round, keyed by node and round"
            if self.sampler != "shuffled"
            else f"batches follow an order drawn anew each epoch; {'epochs' if self.by_epoch else 'rounds'} count",
            *(f"public, and the same whatever the data are: {known}" for known in self.public),
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
        if self.gram:
            kept.append("the Gram stage is one release of its own; preconditioners come from what was received of it")
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
