"""The scenario: every key a TOML file may hold, with its default and its rule.

Pydantic checks single keys and what sections say about each other; what needs data, graphs or gains
is checked when the world is built.
"""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PrivateAttr, model_validator

from wirelessdl.scenario.part import Model, Part

# bounds keep products and powers of any two of them within what a float can hold
Positive = Annotated[FiniteFloat, Field(gt=0, ge=1e-18, le=1e18)]
Fraction = Annotated[FiniteFloat, Field(ge=1e-30, lt=1)]
Count = Annotated[int, Field(ge=1)]
Battery = Annotated[float, Field(gt=0)]


def _rule(text: str) -> dict[str, Any]:
    """A remedy to print instead of pydantic's words."""
    return {"rule": text}


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ScenarioSection(Section):
    """Which run this is."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}$",
        json_schema_extra=_rule("must be at most 100 letters, digits, '_', '-' or '.': it names the run directory"),
        description="Name of the scenario and of its run directories.",
    )
    description: str = Field("", description="What the scenario shows, for people.")
    seed: Annotated[int, Field(ge=0)] = Field(
        0, description="The world: placement, topology, partition, initial weights."
    )
    run: Count = Field(1, description="The draws: fading, batches, noise, faults.")
    rounds: Annotated[int, Field(ge=1, le=999_999)] = Field(
        json_schema_extra=_rule("must be an integer from 1 to 999999"), description="Communication rounds."
    )


class NetworkSection(Section):
    """Who hears whom, and where they are."""

    nodes: Annotated[int, Field(ge=2, le=20_000)] = Field(
        json_schema_extra=_rule("must be an integer from 2 to 20000: a node alone has nobody to talk to"),
        description="Number of nodes K.",
    )
    topology: Part = Field(Part(kind="full"), description="Which links exist.")  # type: ignore[call-arg]
    placement: Part = Field(Part(kind="disc"), description="Where nodes start.")  # type: ignore[call-arg]
    mobility: Part = Field(Part(kind="static"), description="How nodes move.")  # type: ignore[call-arg]
    joint_window: Count = Field(
        10, description="Frames within which a graph that follows motion is watched for staying connected."
    )


class ChannelSection(Section):
    """A chain of models: losses add in dB, fading multiplies."""

    models: Annotated[list[Model], Field(min_length=1)] = Field(description="Channel models, applied in turn.")
    condition: Literal["auto", "los", "nlos"] = Field(
        "auto", description="Line of sight: by the loss model's probability, always, or never."
    )
    frequency_hz: Positive = Field(3.5e9, description="Carrier frequency.")


class RadioSection(Section):
    """Transmitter, receiver, frame."""

    power_dbm: Annotated[FiniteFloat, Field(ge=-200, le=200)] = Field(
        23.0, description="Transmit power budget of every node."
    )
    bandwidth_hz: Positive = Field(1e6, description="Bandwidth; one complex symbol per hertz and second.")
    noise_figure_db: Annotated[FiniteFloat, Field(ge=0, le=200)] = Field(7.0, description="Receiver noise figure.")
    temperature_k: Positive = Field(290.0, description="Receiver temperature.")
    thermal_noise: bool = Field(True, description="Whether receivers add thermal noise (the paper: no).")
    access: Literal["oac", "tdma"] = Field(
        "oac",
        description="oac: neighbours send at once and the air adds them up; tdma: each is heard alone, in turns by a "
        "distance-2 colouring, and mixed by Metropolis weights.",
    )
    duplex: Literal["full", "half"] = Field(
        "full",
        description="full: nodes send and receive at once (the paper); half: two classes, anew each frame, take turns.",
    )
    control_bps: Positive = Field(1e7, description="Rate of the control channel, which nodes share.")
    control_bits: Annotated[int, Field(ge=1, le=64)] = Field(16, description="Bits of a number on the control channel.")
    z_exchange: Literal["control", "air"] = Field(
        "control",
        description="How nodes tell each other z, where a multiplier needs it: over the control channel, or as K more "
        "coordinates of the payload.",
    )
    cancellation_db: Annotated[float, Field(ge=0)] = Field(
        math.inf,
        json_schema_extra=_rule("must be >= 0, or inf for no self-interference"),
        description="How far a node's own emission is cancelled at its receiver; inf: nothing of it remains.",
    )
    csi: Part = Field(Part(kind="perfect"), description="How receivers learn |h|.")  # type: ignore[call-arg]
    phase_error_rad: Annotated[FiniteFloat, Field(ge=0, le=3.2)] = Field(
        0.0, description="Deviation of the phase error per link and slot; it shrinks a coordinate and adds its pair's."
    )
    interference: Literal["none", "physical"] = Field(
        "none",
        description="none: only the graph's links are heard (the paper); physical: every transmitter adds up at "
        "every receiver.",
    )
    payload_slots: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = Field(
        "auto", description="Slots a payload goes in, each with its own pilots and gains; auto: by coherence time."
    )
    guard_s: Annotated[FiniteFloat, Field(ge=0, le=3600)] = Field(1e-5, description="Silence after each slot.")
    use_full_power: bool = Field(
        False,
        description="Scale all transmissions by one known factor so that emission may reach the budget.",
    )


class PowerSection(Section):
    """How transmit power is split between model and DP noise."""

    allocator: Part = Field(Part(kind="lp"), description="What solves the split.")  # type: ignore[call-arg]
    objective: Literal["sum", "max-min", "min-noise", "own-noise"] = Field(
        "sum",
        description="sum: the paper's LP; max-min: the worst node first; min-noise: least noise on the models; "
        "own-noise: each node's own noise alone meets epsilon_max.",
    )
    balance: Literal["receiver", "power", False] = Field(
        "receiver",
        description="Make the mixing doubly stochastic: receivers weigh air against self, or senders back off; "
        "false: the paper.",
    )
    balance_from: Literal["block", "mean"] = Field(
        "block", description="Receiver balancing anew for every frame, or once from the mean gains."
    )
    multiplier: Literal["auto", "balanced", "product", "mean", "windowed", "none"] = Field(
        "auto",
        description="Gradient multiplier: K when balanced, the paper's 1/z_ii, 1/pi of the mean mixing, or z in "
        "windows; none: 1. auto: balanced; unbalanced, product for the paper protocol, mean for hardened.",
    )
    schedule: Literal["static", "adaptive", "robust"] = Field(
        "static",
        description="Solve once, anew for every frame, or once for many sampled realisations of the channel.",
    )
    reference: Literal["mean", "first"] = Field(
        "mean", description="Gains a static plan is made for: their mean over fading, or the first frame's."
    )
    samples: Count = Field(50, description="Realisations that a robust plan must hold for.")
    csi_margin_db: Annotated[FiniteFloat, Field(ge=0)] = Field(
        0.0, description="Room a plan leaves below epsilon_max, for gains that were estimated."
    )
    alpha_min: Fraction = Field(1e-3, description="Least share of power for the model.")
    beta_min: Fraction = Field(1e-6, description="Least share of power for noise.")


class PrivacySection(Section):
    """What is promised."""

    protocol: Literal["hardened", "paper"] = Field(
        "hardened", description="Gradient at the received mix (provable), or at the own model (as printed)."
    )
    epsilon_max: float = Field(
        ge=1e-9,
        json_schema_extra=_rule("must be > 0, or inf for no privacy noise"),
        description="Most that a link may leak in one slot.",
    )
    delta: Fraction = Field(
        1e-4, json_schema_extra=_rule("must be > 0 and < 1"), description="delta of one slot's epsilon."
    )
    delta_total: Fraction = Field(
        1e-4, json_schema_extra=_rule("must be > 0 and < 1"), description="delta of totals over the run."
    )
    budget_total: float = Field(
        math.inf,
        gt=0,
        json_schema_extra=_rule("must be > 0, or inf for no budget"),
        description="A node falls silent before its own proven total would exceed this; inf for no budget.",
    )
    clipping: Literal["per-sample", "batch"] = Field("per-sample", description="What is clipped.")
    clip_norm: Positive = Field(1.0, description="Gradient norm bound, C per sample or G per batch.")
    credit_thermal: bool = Field(
        False, description="Count thermal noise as masking on links. It is not the sender's, so nothing proves it."
    )
    rho: Positive = Field(10.0, description="sigma / gamma: deviation of the noise per unit learning rate.")


class LearningSection(Section):
    """The task."""

    dataset: Part = Field(Part(kind="fashion-mnist-subset"), description="Data set.")  # type: ignore[call-arg]
    model: Model = Field(Model(model="softmax"), description="Learner.")  # type: ignore[call-arg]
    partition: Part = Field(Part(kind="iid"), description="How data falls to nodes.")  # type: ignore[call-arg]
    batch_size: Count = Field(64, description="Samples per node and round; their mean number under poisson sampling.")
    sampling: Literal["without-replacement", "poisson", "full", "shuffled"] = Field(
        "without-replacement",
        description="How batches are drawn: B of n; each sample with probability B/n; all samples; or dealt from a "
        "fresh order every epoch. Decides what the accountants may prove.",
    )
    strategy: Literal["auto", "closed-form", "threads", "vmap", "loop"] = Field(
        "auto", description="How gradients of all nodes are computed; auto: by model, device and number of nodes."
    )
    augment: Literal["none", "flip-crop"] = Field(
        "none", description="Images mirrored and shifted by up to four pixels, drawn anew for every batch."
    )
    regret: bool = Field(
        False, description="Trace F(x) - F(x*) of every node and round, where the optimum is known (ridge, logistic)."
    )
    stop_after: Annotated[int, Field(ge=0)] = Field(
        0, description="Stop once mean accuracy stays within stop_within over so many evaluations; 0: never."
    )
    stop_within: Annotated[FiniteFloat, Field(ge=0, le=1)] = Field(
        0.001, description="Width of the band that mean accuracy must stay in for stop_after (the paper: 0.001 for 15)."
    )
    learning_rate: Part = Field(Part(kind="inverse-sqrt"), description="gamma_t.")  # type: ignore[call-arg]
    projection_radius: Annotated[FiniteFloat, Field(ge=1e-12, le=1)] = Field(
        0.5,
        json_schema_extra=_rule("must be > 0 and <= 1, so that models stay within the power budget"),
        description="Radius of the feasible ball over sqrt(m).",
    )
    dtype: Literal["float32", "float64"] = Field("float32", description="Precision of models.")
    eval_every: Count = Field(10, description="Rounds between evaluations on the common test set.")


class TimeSection(Section):
    """What takes how long, and who is waited for."""

    compute: Part = Field(Part(kind="constant"), description="Gradient time per node.")  # type: ignore[call-arg]
    policy: Part = Field(
        Part(kind="barrier"),  # type: ignore[call-arg]
        description="When a frame opens: barrier, all are ready; deadline, or a cap has passed; clocked, every period.",
    )


class FaultsSection(Section):
    """What goes wrong."""

    crashes: Part = Field(Part(kind="none"), description="Nodes that go down, and come back.")  # type: ignore[call-arg]
    rejoin: Literal["keep", "listen"] = Field(
        "keep",
        description="What a node comes back with: the model it had, or the mean of what it hears in one frame.",
    )
    blockage: Part = Field(Part(kind="none"), description="Links that carry nothing.")  # type: ignore[call-arg]
    stragglers: Part = Field(Part(kind="none"), description="Nodes that compute slowly.")  # type: ignore[call-arg]
    jammer: Part = Field(Part(kind="none"), description="Noise that somebody adds at receivers.")  # type: ignore[call-arg]


class EnergySection(Section):
    """What a node's parts draw, and its battery."""

    efficiency: Annotated[FiniteFloat, Field(gt=0, le=1)] = Field(
        1.0, description="Share of the amplifier's power that is radiated."
    )
    receive_w: Annotated[FiniteFloat, Field(ge=0, le=1e6)] = Field(0.0, description="Power of a node that listens.")
    compute_w: Annotated[FiniteFloat, Field(ge=0, le=1e6)] = Field(0.0, description="Power of a node that computes.")
    battery_j: Battery | Annotated[list[Battery], Field(min_length=1)] = Field(
        math.inf,
        json_schema_extra=_rule("must be > 0, inf for no limit, or a list with one such number per node"),
        description="Energy after which a node is gone, one number or one per node; inf: none.",
    )


class TraceSection(Section):
    """What is written down."""

    links: Literal["all", "evaluated", "none"] = Field(
        "all", description="Rounds whose links are traced: all, those with an evaluation, or none."
    )
    flush_every: Annotated[int, Field(ge=20)] = Field(
        50, description="Rounds buffered before a Parquet part is written."
    )
    checkpoint_every: Annotated[int, Field(ge=20)] = Field(
        50, description="Rounds between checkpoints, from which a run can be resumed."
    )
    checkpoint_minutes: Positive = Field(5.0, description="A checkpoint is written after so long at the latest.")
    connect: dict[str, str | list[str]] = Field(
        {}, description='Functions of yours that trace sources call: { "phy.rx" = "file.py:function" }.'
    )


class Scenario(Section):
    """A complete, checked scenario."""

    scenario: ScenarioSection
    network: NetworkSection
    channel: ChannelSection
    radio: RadioSection = RadioSection()
    power: PowerSection = PowerSection()
    privacy: PrivacySection
    learning: LearningSection = LearningSection()
    time: TimeSection = TimeSection()
    faults: FaultsSection = FaultsSection()
    energy: EnergySection = EnergySection()
    trace: TraceSection = TraceSection()

    _origin: str = PrivateAttr("scenario")
    _folder: str = PrivateAttr("")

    @property
    def origin(self) -> str:
        """The file this came from, for messages."""
        return self._origin

    @property
    def folder(self) -> str:
        """The folder this came from, for the user's model files; empty when there is none."""
        return self._folder

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        if self.privacy.protocol == "paper" and self.privacy.clipping == "per-sample":
            raise ValueError(
                'privacy.clipping is "per-sample" under privacy.protocol "paper"; its sensitivity 2C/B does not hold '
                'there: use clipping = "batch", or protocol = "hardened"'
            )
        if self.privacy.credit_thermal and self.radio.use_full_power:
            raise ValueError(
                "radio.use_full_power is true under privacy.credit_thermal; scaling transmissions up drowns the "
                "thermal noise that is credited: set one of them to false"
            )
        if self.power.alpha_min >= 1.0 - self.power.beta_min:
            raise ValueError(
                f"power.alpha_min is {self.power.alpha_min:g}; must be below 1 - power.beta_min, which is "
                f"{1.0 - self.power.beta_min:g}: lower either"
            )
        self._access_agrees()
        if self.power.multiplier == "balanced" and not self.power.balance:
            raise ValueError(
                'power.multiplier is "balanced" while power.balance is false; set balance = "receiver" or "power", '
                'or multiplier = "auto"'
            )
        return self

    def _access_agrees(self) -> None:
        """Senders that are heard alone hide behind their own noise, and Metropolis weights need no balancing."""
        if self.radio.access == "oac":
            return
        if self.power.objective != "own-noise":
            raise ValueError(
                f'power.objective is "{self.power.objective}" under radio.access "tdma"; a sender that is heard alone '
                'hides behind its own noise only: set objective = "own-noise"'
            )
        if self.power.balance != "receiver":
            raise ValueError(
                f'power.balance is {self.power.balance!r} under radio.access "tdma"; Metropolis weights are doubly '
                'stochastic as they are: leave it at "receiver"'.replace("False", "false")
            )
        if self.radio.interference == "physical" or self.radio.duplex == "half":
            key = "duplex" if self.radio.duplex == "half" else "interference"
            raise ValueError(
                f'radio.{key} is "{getattr(self.radio, key)}" under radio.access "tdma"; turns are made such that '
                "nobody is heard but one neighbour, and no node sends while it listens: leave it at its default"
            )

    def to_table(self) -> dict[str, Any]:
        """The scenario as nested tables that TOML can hold."""
        return self.model_dump(mode="python")
