"""The sections on power and privacy: how transmissions are protected, and what is promised."""

import math
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, FiniteFloat, create_model

from wirelessdl.families import Family, member, modules
from wirelessdl.scenario.part import FamilyMember, Part
from wirelessdl.scenario.section import Fraction, Positive, Section, rule_text

ALPHA_MIN = 1e-3  # of networks of up to _SMALL_NETWORK_NODES nodes
_SMALL_NETWORK_NODES = 100


class PowerSection(Section):
    """Split of transmit power between model and privacy noise."""

    allocator: Part = Field(Part(kind="lp"), description="Solver of the split.")  # type: ignore[call-arg]
    objective: Literal["sum", "max-min", "min-noise", "own-noise"] = Field(
        "sum",
        description="sum: the paper's linear program; max-min: largest minimum alpha; min-noise: least noise on the "
        "models; own-noise: each node's own noise alone meets epsilon_max.",
    )
    balance: Literal["receiver", "partial", "power", False] = Field(
        "receiver",
        description="Make the mixing matrix doubly stochastic. receiver: by receiver weights; power: by reduced "
        "transmit power; partial: some of the way by power, the rest by receivers; false: not at all (the paper).",
    )
    balance_exponent: Literal["auto"] | Annotated[FiniteFloat, Field(ge=0, le=1)] = Field(
        "auto",
        json_schema_extra=rule_text('must be "auto" or a number from 0 (receivers alone) to 1 (power alone)'),
        description="How far partial balancing goes by power, from 0 to 1; auto: with the least predicted error.",
    )
    balance_from: Literal["block", "mean"] = Field(
        "block",
        description="Receiver balancing. block: from the gains of every frame; mean: once, from the mean gains.",
    )
    multiplier: (
        Literal["auto", "balanced", "product", "mean", "tracked", "windowed", "none", "nodes"]
        | Annotated[FiniteFloat, Field(ge=1e-6, le=1e6)]
    ) = Field(
        "auto",
        json_schema_extra=rule_text(
            'must be "auto", "balanced", "product", "mean", "tracked", "windowed", "none", "nodes" or a number from '
            "1e-6 to 1e6"
        ),
        description="Gradient multiplier. balanced: K; product: 1/z_ii (the paper); mean: 1/pi of the mean mixing "
        "matrix; tracked: 1 over the mean of A^T p; windowed: z in windows; none: 1; nodes: K, whatever the mixing; a "
        "number: itself. auto: balanced with balancing, else product (paper protocol) or mean (hardened); 1 where "
        "nothing is sent.",
    )
    schedule: Literal["static", "adaptive", "robust"] = Field(
        "static",
        description="static: one plan; adaptive: a plan for every frame; robust: one plan for many sampled "
        "realisations of the channel.",
    )
    reference: Literal["mean", "first"] = Field(
        "mean", description="Gains of a static plan. mean: mean over fading; first: those of the first frame."
    )
    samples: Annotated[int, Field(ge=1, le=10_000)] = Field(
        50, description="Realisations of the channel that a robust plan must satisfy."
    )
    csi_margin_db: Annotated[FiniteFloat, Field(ge=0, le=100)] = Field(
        0.0, description="Margin below epsilon_max for gain estimation errors."
    )
    alpha_min: Literal["auto"] | Fraction = Field(
        "auto",
        json_schema_extra=rule_text('must be "auto" or a number > 0 and < 1'),
        description="Smallest alpha: share of power for the model. auto: 1e-3, and 1e-3 (100 / K)^2 above 100 nodes, "
        "since noise must hide a gradient that is multiplied by K.",
    )
    beta_min: Fraction = Field(1e-6, description="Smallest beta: share of power for noise.")

    def least_alpha(self, nodes: int) -> float:
        """alpha_min in a network of so many nodes."""
        return ALPHA_MIN * min(1.0, (_SMALL_NETWORK_NODES / nodes) ** 2) if self.alpha_min == "auto" else self.alpha_min


class PrivacyKeys(Section):
    """Protocol, epsilon targets and clipping."""

    protocol: Literal["hardened", "paper"] = Field(
        "hardened",
        description="hardened: gradient at the received mix, for which amplification by sampling is proven; paper: "
        "gradient at the node's own model, as printed.",
    )
    unit: Literal["sample", "node"] = Field(
        "sample",
        description="What every epsilon protects. sample: one sample of one node; node: all data of one node, without "
        "amplification by sampling and with the noise that this takes.",
    )
    adjacency: Literal["replace-one", "zero-out"] = Field(
        "replace-one",
        description="Which data sets are neighbours, in every epsilon. replace-one: a sample (or all of a node) "
        "replaced by another; zero-out: by a null record, whose gradient is zero. Numbers of the two do not compare.",
    )
    epsilon_max: float = Field(
        math.inf,
        ge=1e-9,
        json_schema_extra=rule_text("must be > 0, or inf for no privacy noise"),
        description="Largest one-slot epsilon that the plan allows a link, or a sender against those to whom it is "
        "promised; inf: no privacy noise, or as epsilon_total says. Required without epsilon_total.",
    )
    epsilon_total: float = Field(
        math.inf,
        ge=1e-6,
        json_schema_extra=rule_text("must be > 0, or inf where epsilon_max is given"),
        description="Promised epsilon of the whole run at delta_total; the noise of every round follows from it.",
    )
    noise: FamilyMember = Field(
        FamilyMember(kind="independent"),  # type: ignore[call-arg]
        description="Mechanism. independent: every node's noise is its own; pairwise: nodes also add noise that they "
        "share in pairs and that cancels in the network; or your class, file.py:Class (not proven).",
    )
    coalition: Annotated[int, Field(ge=0)] = Field(
        1,
        description="Most nodes that collude, and pool all they know, against which pairwise noise protects; a curious "
        "receiver is a coalition of one.",
    )
    against: Literal["auto", "everyone", "coalition"] = Field(
        "auto",
        description="Against whom epsilon is promised. everyone: all other nodes may collude; coalition: at most "
        "privacy.coalition of them; auto: coalition under pairwise noise, else everyone.",
    )
    delta: Fraction = Field(
        1e-4, json_schema_extra=rule_text("must be > 0 and < 1"), description="delta of one-slot epsilons."
    )
    delta_total: Fraction = Field(
        1e-4, json_schema_extra=rule_text("must be > 0 and < 1"), description="delta of totals over the whole run."
    )
    budget_total: float = Field(
        math.inf,
        gt=0,
        json_schema_extra=rule_text("must be > 0, or inf for no budget"),
        description="A node stops sending before its promised total would exceed this; inf: no budget.",
    )
    clipping: Literal["per-sample", "batch"] = Field(
        "per-sample", description="What is clipped: each sample's gradient, or the mini-batch gradient."
    )
    clip_norm: Annotated[Positive, Field(ge=1e-9)] = Field(
        1.0, description="Bound on the gradient norm: C (per-sample) or G (batch)."
    )
    credit_thermal: bool = Field(
        False,
        description="Count thermal noise as masking in link epsilons. Not proven: a better receiver has less of it.",
    )
    gram_share: Annotated[FiniteFloat, Field(ge=0, le=0.5)] = Field(
        0.0,
        description="Share of the run's mu^2 for a Gram stage: second moments of features, released once in the first "
        "rounds, before training, from which every node makes a preconditioner; 0: none.",
    )
    rho: Positive = Field(10.0, description="sigma / gamma: noise standard deviation per unit of learning rate.")

    @property
    def promised(self) -> Literal["own", "coalition"]:
        """The view of the ledger that is promised."""
        if self.against == "auto":
            module = member("mechanism", self.noise.name)
            return "coalition" if module is not None and module.COALITION else "own"
        return "own" if self.against == "everyone" else "coalition"


def with_keys(section: type[Section], name: str, family: Family) -> type[Section]:
    """A section with the keys of all members of a family."""
    keys = (module.Keys for module in modules(family) if hasattr(module, "Keys"))
    bases = (*keys, section)  # fields of the last come first
    return create_model(name, __base__=bases, __doc__=section.__doc__, __module__=section.__module__)


if TYPE_CHECKING:

    class PrivacySection(PrivacyKeys):
        """With the keys of every mechanism, which that mechanism alone reads."""

else:
    PrivacySection = with_keys(PrivacyKeys, "PrivacySection", "mechanism")
