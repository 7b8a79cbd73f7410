"""The scenario: every key a TOML file may hold, with its default and its rule.

Pydantic checks single keys and what sections say about each other; what needs data, graphs or gains
is checked when the world is built.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, FiniteFloat, PrivateAttr, WithJsonSchema, model_validator

from wirelessdl.gaussian import analytic_mu
from wirelessdl.scenario.agreement import require_agreement
from wirelessdl.scenario.objects import UserPart
from wirelessdl.scenario.part import FamilyMember, Model, Part, PartOrList
from wirelessdl.scenario.protection import PowerSection, PrivacySection, with_keys
from wirelessdl.scenario.section import RULE, Battery, Count, PerNode, Positive, Section, rule_text

_LEAST_ROUNDS, _ROUNDS_PER_MU = 40, 140.0
_ROUNDS_SCHEMA = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 999_999}, {"const": "auto"}]}


def auto_rounds(epsilon_total: float, delta_total: float) -> int:
    """Rounds of a promised total: max(40, 140 mu), mu the total as one Gaussian release; 40 without one.

    At a fixed total only rounds times learning rate decides how far models go and how noisy they end, and the less
    noise there is, the farther they may go; more rounds keep the single step stable. Airtime grows with them.
    """
    if math.isinf(epsilon_total):
        return _LEAST_ROUNDS
    return max(_LEAST_ROUNDS, math.ceil(_ROUNDS_PER_MU * analytic_mu(epsilon_total, delta_total)))


class ScenarioSection(Section):
    """Name, seeds and length of the run."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}$",
        json_schema_extra=rule_text("must be at most 100 letters, digits, '_', '-' or '.': it names the run directory"),
        description="Name of the scenario and of its run directories.",
    )
    description: str = Field("", description="What the scenario shows; free text.")
    seed: Annotated[int, Field(ge=0)] = Field(
        0, description="Seed of placement, topology, partition and initial weights."
    )
    run: Count = Field(1, description="Run number: seed of fading, batches, noise and faults.")
    rounds: Annotated[int, Field(ge=1, le=999_999), WithJsonSchema(_ROUNDS_SCHEMA)] = Field(
        json_schema_extra=rule_text('must be an integer from 1 to 999999, or "auto"'),
        description="Number of rounds. auto: from privacy.epsilon_total and delta_total alone, at least 40; not with a "
        "Gram stage.",
    )


class Server(Section):
    """A node without data that everyone may hear: `network.server`."""

    at: Literal["center"] | Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)] = "center"
    antennas: Annotated[int, Field(ge=1, le=256)] = 1
    power_dbm: Annotated[FiniteFloat, Field(ge=-200, le=200)] = 23.0
    height_m: Annotated[FiniteFloat, Field(gt=0, le=1000)] = 1.5
    down: list[Annotated[list[Count], Field(min_length=2, max_length=2)]] = Field([])
    without: Literal["wait", "hubs"] = "wait"

    def up(self, round: int) -> bool:
        """Whether it works in a round."""
        return not any(first <= round <= last for first, last in self.down)


class NetworkSection(Section):
    """Nodes, their positions and the links between them."""

    nodes: Annotated[int, Field(ge=1, le=10**9)] = Field(
        json_schema_extra=rule_text("must be an integer from 1 to 1e9"),
        description="Number of nodes K, as many as memory holds; 1: all data at one node, which sends nothing.",
    )
    topology: Part = Field(Part(kind="full"), description="Rule that decides which links exist.")  # type: ignore[call-arg]
    map: Part = Field(Part(kind="none"), description="Streets and buildings, for placement, motion and sight.")  # type: ignore[call-arg]
    placement: Part = Field(Part(kind="disc"), description="Positions at time zero.")  # type: ignore[call-arg]
    mobility: Part = Field(Part(kind="static"), description="Motion of the nodes.")  # type: ignore[call-arg]
    server: Literal["none"] | Server = Field(
        "none",
        json_schema_extra=rule_text(
            'must be "none", or a table of at ("center" or [x, y] in m), antennas (1 to 256), power_dbm, height_m, '
            'down (a list of [first, last] rounds) and without ("wait" or "hubs")'
        ),
        description='A node without data that collects and sends back, with radio.alignment "server". '
        '{ at = "center" or [x, y] in m, antennas = 1, power_dbm = 23, height_m = 1.5, down = [[first, last], ...], '
        'without = "wait" or "hubs" }: down are rounds in which it has failed, without what nodes then do.',
    )
    joint_window: Count = Field(
        10,
        description="Frames over which the union of links is checked for connectivity, if the graph follows motion.",
    )


class ChannelSection(Section):
    """A chain of channel models: losses add in dB, fading multiplies."""

    models: Annotated[list[Model], Field(min_length=1)] = Field(
        description="Channel models, applied in the order given."
    )
    condition: Literal["auto", "los", "nlos", "nlosv"] = Field(
        "auto",
        description="Line of sight. auto: by network.map and the loss model's probability; los: always; nlos: never; "
        "nlosv: a vehicle in the way of every link (sidelink models).",
    )
    spatial_consistency: bool = Field(
        False,
        description="Whether line of sight and shadowing follow the places of both ends, so that links whose ends lie "
        "close together agree; otherwise each pair of nodes has draws of its own.",
    )
    frequency_hz: Positive = Field(3.5e9, description="Carrier frequency.")


class RadioKeys(Section):
    """Transmitter, receiver and frame."""

    power_dbm: PerNode = Field(
        23.0,
        json_schema_extra=rule_text(f"must be {RULE}"),
        description="Transmit power budget: one number for all nodes, a list with one for each, or a distribution: "
        '{ kind = "uniform", low, high } or { kind = "choice", values }.',
    )
    bandwidth_hz: Positive = Field(1e6, description="Bandwidth; one complex symbol per second and hertz.")
    subbands: Annotated[int, Field(ge=1, le=1024)] = Field(
        1,
        description="Subbands into which the bandwidth is divided. A payload is a grid of resource blocks, slot by "
        "subband, each with its own pilots, gains, weights and coordinates. Only channel models that depend on "
        "frequency (tdl, replay) give subbands different gains.",
    )
    antennas: Annotated[int, Field(ge=1, le=256)] = Field(
        1,
        description="Receive antennas of each node; it sends with one. tdma and digital combine by maximum ratio, hubs "
        'collect through a beam, alignment "none" separates senders.',
    )
    antenna_correlation: Annotated[FiniteFloat, Field(ge=0, lt=1)] = Field(
        0.0,
        json_schema_extra=rule_text("must be >= 0 and < 1"),
        description="Correlation r of h at adjacent antennas, r^n at n antennas apart.",
    )
    noise_figure_db: Annotated[FiniteFloat, Field(ge=0, le=200)] = Field(7.0, description="Receiver noise figure.")
    temperature_k: Positive = Field(290.0, description="Receiver temperature.")
    thermal_noise: bool = Field(True, description="Whether receivers add thermal noise (the paper: false).")
    access: FamilyMember = Field(
        FamilyMember(kind="oac"),  # type: ignore[call-arg]
        description="oac: over-the-air computation, all neighbours send at once and the channel adds them; tdma: a "
        "receiver hears one neighbour per turn (distance-2 graph coloring) and mixes with Metropolis "
        "weights; digital: the same turns with quantised, coded messages that are repeated until they arrive; or your "
        "class, file.py:Class.",
    )
    truncate_snr_db: Literal["auto"] | Annotated[float, Field(le=200)] = Field(
        "auto",
        json_schema_extra=rule_text('must be "auto", or a number of at most 200; -inf leaves out no link'),
        description="SNR (estimated gain, sender's power budget, thermal noise) below which a receiver that divides by "
        "gains leaves a link out, in the slots in which it is that weak: neither end uses it, and both keep the weight "
        "for their own models. auto: 10 under tdma, where each reception is divided by its gain; elsewhere nothing "
        "is left out.",
    )
    duplex: Literal["full", "half"] = Field(
        "full",
        description="full: nodes send and receive at once (the paper); half: two classes of nodes, drawn for every "
        "frame, send in two turns.",
    )
    control_bps: Positive = Field(1e7, description="Bit rate of the control channel that all nodes share.")
    control_bits: Annotated[int, Field(ge=1, le=64)] = Field(16, description="Bits per number on the control channel.")
    control_failure: Annotated[FiniteFloat, Field(ge=0, lt=1)] = Field(
        0.0,
        json_schema_extra=rule_text("must be >= 0 and < 1"),
        description="Probability that a node's message on the control channel is lost in a frame. Its report of gains "
        "(adaptive plans): the node takes no part in the frame; its z (the paper's estimates of nodes' weights): the "
        "others use the last they received.",
    )
    z_exchange: Literal["control", "air"] = Field(
        "control",
        description="How nodes exchange z, if the multiplier needs it. control: over the control channel; air: as K "
        "more coordinates of the payload.",
    )
    cancellation_db: Annotated[float, Field(ge=0)] = Field(
        math.inf,
        json_schema_extra=rule_text("must be >= 0, or inf for no self-interference"),
        description="Self-interference cancellation at a node's own receiver; inf: no self-interference.",
    )
    csi: Part = Field(Part(kind="perfect"), description="Channel state information: how receivers estimate |h|.")  # type: ignore[call-arg]
    phase_error_rad: Annotated[FiniteFloat, Field(ge=0, le=3.2)] = Field(
        0.0,
        description="Standard deviation of the phase error per link and slot. A phase error attenuates a coordinate "
        "and adds crosstalk from the other coordinate of its symbol.",
    )
    cfo_hz: PerNode = Field(
        0.0,
        json_schema_extra=rule_text(f"must be {RULE}"),
        description="Carrier frequency offset of each node: one number, a list or a distribution, as power_dbm. Only "
        "differences between nodes matter, so one number for all changes nothing. Phases turn from a sender's pilots "
        "to the end of its payload.",
    )
    timing_offset_s: PerNode = Field(
        0.0,
        json_schema_extra=rule_text(f"must be {RULE}"),
        description="How late each node is, likewise; any two nodes within a symbol, 1 / bandwidth_hz. A receiver "
        "hears a part of the symbol before (a late sender) or after (an early one).",
    )
    flight_time: bool = Field(
        False,
        description="Whether signals take time to arrive (the paper: false). Superposed senders are then d / c late, "
        "whole symbols and fractions of one, and each aligns its phase at one receiver, the neighbour with the largest "
        "estimated gain; all others receive the difference of phases. Nothing changes under tdma and digital, where a "
        "receiver compensates phase and delay of each sender.",
    )
    timing_error_s: Annotated[FiniteFloat, Field(ge=0, le=1)] = Field(
        0.0,
        description="Standard deviation of the timing error of a node in a round: what is left after a sender has "
        "advanced its clock to the receiver it is aligned to. Where it is aligned to all at once it advances to none, "
        "and the error adds to arrival times. Under turns, hubs and server at most a sixth of a symbol, 1 / "
        "bandwidth_hz. Nothing changes under none, tdma and digital.",
    )
    interference: Literal["none", "physical"] = Field(
        "none",
        description="none: a receiver hears only its neighbours (the paper); physical: every transmitter reaches every "
        "receiver.",
    )
    interference_cutoff_db: Annotated[float, Field(ge=0)] = Field(
        math.inf,
        json_schema_extra=rule_text("must be >= 0, or inf to neglect nobody"),
        description="Physical interference: non-neighbours beyond a radius are neglected. Such that all of "
        "them together arrive this many dB below thermal noise and the non-neighbours that are heard; inf: none is.",
    )
    mixing_passes: Annotated[int, Field(ge=0, le=64)] = Field(
        0,
        description="Passes after the payload in which nodes send what they hold, without noise, and average again: "
        "they cost airtime and energy, not epsilon.",
    )
    mixing: Literal["chebyshev", "plain"] = Field(
        "chebyshev",
        description="How passes follow each other. chebyshev: weighted such that disagreement falls fastest; plain: "
        "each averages what the one before gave.",
    )
    payload_slots: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = Field(
        "auto",
        description="Slots into which a payload is divided, each with its own pilots and gains; auto: from the "
        "coherence time.",
    )
    guard_s: Annotated[FiniteFloat, Field(ge=0, le=3600)] = Field(
        1e-5, description="Guard interval after the pilots and after the payload of every turn."
    )
    use_full_power: bool = Field(
        False,
        description="Scale all transmissions by one known factor so that the radiated power may reach the budget.",
    )


if TYPE_CHECKING:

    class RadioSection(RadioKeys):
        """With the keys of every access, which that access alone reads."""

else:
    RadioSection = with_keys(RadioKeys, "RadioSection", "access")


class LearningKeys(Section):
    """Data, model and training."""

    dataset: Part = Field(Part(kind="fashion-mnist-subset"), description="Data set.")  # type: ignore[call-arg]
    model: Model = Field(Model(model="softmax"), description="Model that is trained.")  # type: ignore[call-arg]
    partition: Part = Field(Part(kind="iid"), description="How training samples are distributed to nodes.")  # type: ignore[call-arg]
    update: FamilyMember = Field(
        FamilyMember(kind="sgd"),  # type: ignore[call-arg]
        description="What a node does between receptions: sgd, or any of docs/learning.md; or your class, "
        "file.py:Class, whose kind decides what is proven of totals.",
    )
    update_kind: Literal["auto", "base", "change", "step"] = Field(
        "auto",
        description="How the update uses data. base: sees none, the engine takes one clipped gradient (proven, "
        "amplified); change: as it likes, the whole change is clipped (proven, 2C, not amplified); step: it gives the "
        "next model itself (declared, not proven); auto: the first of these that it has.",
    )
    robust: Part = Field(
        Part(kind="none"),  # type: ignore[call-arg]
        description="How a receiver combines several values, where senders may lie: none (the mean), power-limit, "
        "median or trimmed-mean. groups: into how many the senders are divided where signals add on air, each with "
        "airtime of its own; under tdma and digital each message is a value.",
    )
    batch_size: Count = Field(64, description="Samples per node and round; under poisson sampling, their mean number.")
    batch_fraction: Annotated[FiniteFloat, Field(ge=0, le=1)] = Field(
        0.0,
        description="Share of its samples that each node's batch holds, so that all sampling rates are equal and the "
        "smallest client is protected like the others; 0: batch_size samples.",
    )
    sampling: Literal["without-replacement", "poisson", "full", "shuffled"] = Field(
        "without-replacement",
        description="How batches are drawn. without-replacement: B of n; poisson: each sample with probability B/n; "
        "full: all samples; shuffled: from a new random order every epoch. It decides which accountants "
        "are valid.",
    )
    strategy: Literal["auto", "closed-form", "threads", "vmap", "loop"] = Field(
        "auto", description="How the gradients of all nodes are computed; auto: by model, device and number of nodes."
    )
    augment: Literal["none", "flip-crop"] = Field(
        "none",
        description="flip-crop: images are mirrored and shifted by up to four pixels, at random for every batch.",
    )
    regret: bool = Field(
        False, description="Trace F(x) - F(x*) of every node and round, if the optimum is known (ridge, logistic)."
    )
    stop_after: Annotated[int, Field(ge=0)] = Field(
        0, description="Stop when mean accuracy stays within stop_within over this many evaluations; 0: never."
    )
    stop_within: Annotated[FiniteFloat, Field(ge=0, le=1)] = Field(
        0.001, description="Width of the band of mean accuracy for stop_after (the paper: 0.001 over 15)."
    )
    stop_rule: Literal["window", "anchored"] = Field(
        "window",
        description="window: stop_after evaluations within stop_within of each other; anchored: stop_after evaluations "
        "within stop_within of the one before them (the paper).",
    )
    features: PartOrList = Field(
        [Part(kind="none")],  # type: ignore[call-arg]
        description="Map of every sample by itself, before training; a list: the features of several maps, side by "
        "side.",
    )
    closing_passes: Annotated[int, Field(ge=0, le=256)] = Field(
        0, description="Mixing passes after the last round, so that all nodes end with nearly the same model."
    )
    learning_rate: Part = Field(Part(kind="inverse-sqrt"), description="Schedule of the learning rate gamma_t.")  # type: ignore[call-arg]
    projection_radius: Annotated[FiniteFloat, Field(ge=1e-12, le=1)] = Field(
        0.5,
        json_schema_extra=rule_text("must be > 0 and <= 1, so that models stay within the power budget"),
        description="Radius of the feasible ball, divided by sqrt(m).",
    )
    dtype: Literal["float32", "float64"] = Field("float32", description="Floating-point type of the models.")
    eval_every: Count = Field(10, description="Rounds between evaluations on the common test set.")
    eval_samples: Annotated[int, Field(ge=0)] = Field(
        0,
        description="Test samples that an evaluation takes, drawn once; 0: all. The last round is evaluated on all of "
        "them.",
    )


if TYPE_CHECKING:

    class LearningSection(LearningKeys):
        """With the keys of every update, which that update alone reads."""

else:
    LearningSection = with_keys(LearningKeys, "LearningSection", "update")


class TimeSection(Section):
    """Compute times, and when a frame opens."""

    compute: Part = Field(Part(kind="constant"), description="Time to compute a gradient, per node.")  # type: ignore[call-arg]
    policy: Part = Field(
        Part(kind="barrier"),  # type: ignore[call-arg]
        description="When a frame opens. barrier: all nodes are ready; deadline: the same, or after a cap; clocked: "
        "every period.",
    )


class FaultsSection(Section):
    """Crashes, blocked links, slow nodes, jammers and attackers."""

    crashes: Part = Field(Part(kind="none"), description="Outages of nodes.")  # type: ignore[call-arg]
    rejoin: Literal["keep", "listen"] = Field(
        "keep",
        description="Model of a node after an outage. keep: the one it had; listen: the mean of what it receives in "
        "one frame.",
    )
    blockage: Part = Field(Part(kind="none"), description="Links that are blocked.")  # type: ignore[call-arg]
    stragglers: Part = Field(Part(kind="none"), description="Nodes whose gradient takes longer.")  # type: ignore[call-arg]
    jammer: Part = Field(Part(kind="none"), description="Interference power at receivers.")  # type: ignore[call-arg]
    byzantine: Part = Field(
        Part(kind="none"),  # type: ignore[call-arg]
        description="Nodes that send something else than their model, within their power. { kind, nodes = [...] or "
        "share, from_round = 1 }, and parameters of the kind: who attacks, numbers or a share drawn with the seed.",
    )


class EventsSection(Section):
    """Processes of your own."""

    processes: list[Part] = Field(
        [],
        description="Your own processes, which change the network while time passes: "
        '["file.py:function", { kind = "file.py:Class", ... }].',
    )


class EnergySection(Section):
    """Power draw of a node, and its battery."""

    efficiency: Annotated[FiniteFloat, Field(gt=0, le=1)] = Field(
        1.0, description="Efficiency of the amplifier: radiated power over consumed power."
    )
    receive_w: Annotated[FiniteFloat, Field(ge=0, le=1e6)] = Field(0.0, description="Power drawn while a node listens.")
    compute_w: Annotated[FiniteFloat, Field(ge=0, le=1e6)] = Field(
        0.0, description="Power drawn while a node computes."
    )
    battery_j: Battery | Annotated[list[Battery], Field(min_length=1)] = Field(
        math.inf,
        json_schema_extra=rule_text("must be > 0, inf for no limit, or a list with one such number per node"),
        description="Energy after which a node stops for good, one number or one per node; inf: no limit.",
    )


class TraceSection(Section):
    """Tables, checkpoints and trace events."""

    links: Literal["all", "auto", "evaluated", "none"] = Field(
        "all",
        description="Links that are traced: all, in every round; evaluated: all, in rounds with an evaluation; auto: "
        "all while they stay within link_rows, else a sample of them in every round; none.",
    )
    link_rows: Count = Field(
        20_000_000, description="Rows of the links table up to which links = auto traces every link and round."
    )
    blocks: bool = Field(
        False,
        description="Whether the blocks table is written: gains, weights and epsilon of the traced links in every "
        "resource block (slot and subband) of the payload.",
    )
    flush_every: Annotated[int, Field(ge=20)] = Field(
        50, description="Rounds buffered before a Parquet part is written."
    )
    checkpoint_every: Annotated[int, Field(ge=20)] = Field(
        50, description="Rounds between checkpoints. A run resumes from its newest checkpoint."
    )
    checkpoint_minutes: Positive = Field(5.0, description="Longest wall-clock time between checkpoints, in minutes.")
    connect: dict[str, str | list[str]] = Field(
        {}, description='Your functions that receive trace events: { "phy.rx" = "file.py:function" }.'
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
    events: EventsSection = EventsSection()
    energy: EnergySection = EnergySection()
    trace: TraceSection = TraceSection()

    _origin: str = PrivateAttr("scenario")
    _folder: str = PrivateAttr("")
    _objects: dict[str, UserPart] = PrivateAttr(default_factory=dict)

    @property
    def origin(self) -> str:
        """The file this came from, for messages."""
        return self._origin

    @property
    def folder(self) -> str:
        """The folder this came from, for the user's model files; empty when there is none."""
        return self._folder

    @property
    def objects(self) -> Mapping[str, UserPart]:
        """Parts that Python handed in, by the names that stand for them here."""
        return self._objects

    def replace(self, overrides: Mapping[str, Any] | Sequence[str] = (), /, **parts: Any) -> "Scenario":
        """A checked copy with other values: `scenario.replace({"privacy.epsilon_max": 2}, channel=Street())`.

        overrides: values by dotted key, or texts as `--set` takes them. parts: objects, classes or names by what the
        part is called: channel, mobility, topology, model, dataset, ... (docs/python.md).
        """
        from wirelessdl.scenario.loader import replaced  # reads and checks tables, of which a scenario is made

        return replaced(self, overrides, parts)

    @property
    def alone(self) -> bool:
        """Whether no node has anyone to talk to."""
        return self.network.nodes == 1 or self.network.topology.name == "none"

    @property
    def silent(self) -> bool:
        """Whether nothing is sent, and nothing leaks: every node is alone, and none publishes its model."""
        return self.alone and self.radio.access.name != "published"

    @model_validator(mode="before")
    @classmethod
    def _automatic_rounds(cls, table: Any) -> Any:
        """The table with a number of rounds; where its total is not a number, its own rule says so."""
        section, privacy = (
            (table.get(key) for key in ("scenario", "privacy")) if isinstance(table, dict) else (None, None)
        )
        if not isinstance(section, dict) or section.get("rounds") != "auto" or not isinstance(privacy, dict):
            return table
        epsilon, delta = privacy.get("epsilon_total", math.inf), privacy.get("delta_total", 1e-4)
        if not isinstance(epsilon, int | float) or epsilon < 1e-6 or not isinstance(delta, float) or not 0 < delta < 1:
            return table
        rounds = auto_rounds(epsilon, delta)
        if privacy.get("gram_share"):
            raise ValueError(
                f'scenario.rounds is "auto" with privacy.gram_share, whose stage takes rounds of its own: set {rounds} '
                "and its frames, as many as D (D + 1) / 2 numbers of D features take in payloads of a model"
            )
        return {**table, "scenario": {**section, "rounds": rounds}}

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        require_agreement(self)
        return self

    def to_table(self) -> dict[str, Any]:
        """The scenario as nested tables that TOML can hold."""
        return self.model_dump(mode="python")
