"""From a scenario to the things that will move: every part found, checked and wired.

What needs data or graphs is checked here; gains and the power plan when the first frame opens.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.channel.catalog import CHANNELS
from wirelessdl.channel.condition import ChannelCondition
from wirelessdl.channel.csi import CSI, Csi
from wirelessdl.channel.model import Chain
from wirelessdl.channel.standard import LOS_PROBABILITY
from wirelessdl.errors import ContractError, InfeasiblePowerError, ScenarioError
from wirelessdl.learning.clipping import sensitivity
from wirelessdl.learning.data import DATASETS, Dataset
from wirelessdl.learning.engine import LearningEngine, Settings
from wirelessdl.learning.models import MODELS
from wirelessdl.learning.partition import PARTITIONS, deal
from wirelessdl.learning.schedule import SCHEDULES, Schedule
from wirelessdl.links import Geometry, Links
from wirelessdl.network.mobility import MOBILITIES, Mobility
from wirelessdl.network.placement import PLACEMENTS
from wirelessdl.network.topology import TOPOLOGIES, Topology, require_connected
from wirelessdl.power.allocate import ALLOCATORS, PowerAllocator
from wirelessdl.power.problem import PowerPlan, PowerProblem
from wirelessdl.privacy.ledger import Terms
from wirelessdl.scenario.loader import catalog_for
from wirelessdl.scenario.part import Catalog, Part, UserFile, told
from wirelessdl.scenario.schema import Scenario
from wirelessdl.sim.clock import Frame
from wirelessdl.sim.node import COMPUTE_TIMES, ComputeTime
from wirelessdl.streams import Streams
from wirelessdl.units import dbm_to_w, thermal_noise_w, w_to_dbm

# every part a scenario may name, for `list` and `schema`
PARTS: dict[str, Mapping[str, Any]] = {
    "network.topology": TOPOLOGIES,
    "network.placement": PLACEMENTS,
    "network.mobility": MOBILITIES,
    "channel.models": CHANNELS,
    "radio.csi": CSI,
    "power.allocator": ALLOCATORS,
    "learning.dataset": DATASETS,
    "learning.model": MODELS,
    "learning.partition": PARTITIONS,
    "learning.learning_rate": SCHEDULES,
    "time.compute": COMPUTE_TIMES,
}

# the method by which each part is used
METHODS = {
    "network.topology": "links",
    "network.placement": "positions",
    "network.mobility": "geometry",
    "channel.models": "gain",
    "radio.csi": "estimate",
    "power.allocator": "allocate",
    "learning.dataset": "load",
    "learning.model": "gradient",
    "learning.partition": "split",
    "learning.learning_rate": "rate",
    "time.compute": "duration_s",
}

# what the simulator itself hands to a part's constructor, where it asks for it
SUPPLIED: dict[str, tuple[str, ...]] = {
    "network.mobility": ("start_m",),
    "channel.models": ("frequency_hz", "condition"),
    "power.allocator": ("objective",),
    "learning.dataset": ("folders",),
    "learning.model": ("features", "classes"),
    "learning.partition": ("folders",),
    "learning.learning_rate": ("rounds",),
}


@dataclass(frozen=True, eq=False)
class World:
    """Everything a run needs, built and checked; `resolved` spells every parameter out."""

    scenario: Scenario
    resolved: Scenario
    streams: Streams
    mobility: Mobility
    topology: Topology
    links: Links
    channel: Chain
    csi: Csi
    allocator: PowerAllocator
    schedule: Schedule
    compute: ComputeTime
    data: Dataset
    hands: list[IntArray]
    learning: LearningEngine
    frame: Frame
    power_w: FloatArray
    thermal_w: float
    sensitivity: float
    user_files: tuple[UserFile, ...]
    extra_folders: tuple[Path, ...] = ()

    @property
    def nodes(self) -> int:
        return self.scenario.network.nodes

    @property
    def sampling_rate(self) -> FloatArray:
        """q_j = B / n_j of every node."""
        return np.array([self.scenario.learning.batch_size / len(hand) for hand in self.hands])

    @property
    def terms(self) -> Terms:
        privacy = self.scenario.privacy
        return Terms(privacy.protocol, "without-replacement", privacy.clipping, privacy.delta_total)

    def problem(self, links: Links, gain: FloatArray, samples: FloatArray | None = None) -> PowerProblem:
        """The power problem of these gains, to hold for `samples` too."""
        power, privacy = self.scenario.power, self.scenario.privacy
        return PowerProblem(
            links=links,
            gain=gain,
            power_w=self.power_w,
            rho=privacy.rho,
            sensitivity=self.sensitivity,
            delta=privacy.delta,
            epsilon_max=privacy.epsilon_max,
            balance=power.balance,
            thermal_w=self.thermal_w / self.largest_rate**2 if privacy.credit_thermal else 0.0,
            alpha_min=power.alpha_min,
            beta_min=power.beta_min,
            margin_db=power.csi_margin_db,
            samples=samples,
        )

    def plan(
        self, links: Links, gain: FloatArray, theta: float | None = None, samples: FloatArray | None = None
    ) -> PowerPlan:
        try:
            return self.allocator.allocate(self.problem(links, gain, samples), theta)
        except InfeasiblePowerError as error:
            raise InfeasiblePowerError(f"{self.scenario.origin}: {error}") from error

    @property
    def largest_rate(self) -> float:
        return max(self.schedule.rate(round) for round in range(1, self.scenario.scenario.rounds + 1))

    def sample_gains(self, links: Links, mean_gain: FloatArray, count: int, offset: int = 0) -> FloatArray:
        """Realisations of the fading around the mean gains that the run will not see, `[count, links]`.

        Fresh models on streams of another name; without small-scale fading there is only the one.
        """
        builder = _Builder(self.scenario, self.extra_folders)
        rows = []
        for number in range(offset, offset + count):
            fading = [(name, model) for name, model in _models(builder) if getattr(model, "small_scale", False)]
            if not fading:
                return mean_gain[None]
            rows.append(mean_gain * Chain(fading, self.streams, prefix=f"robust.{number}").gain(links, 0.0).now)
        return np.stack(rows)


class _Builder:
    """Builds parts one by one and keeps their spelled-out form."""

    def __init__(self, scenario: Scenario, extra_folders: tuple[Path, ...]):
        self.scenario = scenario
        self.catalog: Catalog = catalog_for(scenario, extra_folders)
        self.resolved: dict[str, Part] = {}

    def part(self, where: str, part: Part, **given: Any) -> Any:
        registry = where.partition("[")[0]
        built, self.resolved[where] = self.catalog.build(where, part, PARTS[registry], **given)
        method = METHODS[registry]
        if not callable(getattr(built, method, None)):
            raise self.fail(f'{where}.{part.key} is "{part.name}"; the class needs a method {method}(...)')
        return built

    def ask(self, where: str, part: Part, question: Callable[[], Any]) -> Any:
        """What a part answers; a ValueError of a built-in names its key, any error of the user's is told."""
        try:
            return question()
        except Exception as error:
            if part.yours:
                raise ContractError(f"{self.scenario.origin}: {where}: {part.name} raised {told(error)}") from error
            if isinstance(error, ValueError):
                raise self.fail(f"{where}.{error}") from error
            raise

    def fail(self, message: object) -> ScenarioError:
        return ScenarioError(f"{self.scenario.origin}: {message}")


def build(scenario: Scenario, *, device: str = "auto", extra_folders: tuple[Path, ...] = ()) -> World:
    """The world a scenario describes. Raises one clear line where it cannot be.

    extra_folders: looked through last for the user's model files.
    """
    builder = _Builder(scenario, extra_folders)
    streams = Streams(scenario.scenario.seed, scenario.scenario.run)
    nodes = scenario.network.nodes

    placement = builder.part("network.placement", scenario.network.placement)
    start_m = _positions(builder, placement, nodes, streams)
    mobility = builder.part("network.mobility", scenario.network.mobility, start_m=start_m)
    channel = _channel(builder, streams)
    topology = builder.part("network.topology", scenario.network.topology)
    links = _links(builder, topology, mobility.geometry(0.0), channel, streams)

    schedule = builder.part("learning.learning_rate", scenario.learning.learning_rate, rounds=scenario.scenario.rounds)
    _check_rates(builder, schedule)
    data, hands = _data(builder, streams)
    learner = builder.part("learning.model", scenario.learning.model, features=data.features, classes=data.classes)
    privacy, radio = scenario.privacy, scenario.radio
    csi = builder.part("radio.csi", radio.csi)
    learning = LearningEngine(
        learner,
        data,
        hands,
        streams,
        Settings(
            batch_size=scenario.learning.batch_size,
            clipping=privacy.clipping,
            clip_norm=privacy.clip_norm,
            projection_radius=scenario.learning.projection_radius,
            gradient_at="mixed" if privacy.protocol == "hardened" else "own",
            dtype=scenario.learning.dtype,
            device=device,
        ),
    )
    return World(
        scenario=scenario,
        streams=streams,
        mobility=mobility,
        topology=topology,
        links=links,
        channel=channel,
        csi=csi,
        allocator=builder.part("power.allocator", scenario.power.allocator, objective=scenario.power.objective),
        schedule=schedule,
        compute=builder.part("time.compute", scenario.time.compute),
        data=data,
        hands=hands,
        learning=learning,
        frame=Frame.of(
            parameters=learner.size,
            nodes=nodes,
            pilots=csi.symbols,
            bandwidth_hz=radio.bandwidth_hz,
            guard_s=radio.guard_s,
        ),
        power_w=np.full(nodes, dbm_to_w(radio.power_dbm)),
        thermal_w=(
            thermal_noise_w(radio.bandwidth_hz, radio.noise_figure_db, radio.temperature_k)
            if radio.thermal_noise
            else 0.0
        ),
        sensitivity=sensitivity(privacy.clipping, privacy.clip_norm, scenario.learning.batch_size),
        resolved=_resolved(scenario, builder.resolved),
        user_files=tuple(builder.catalog.files.values()),
        extra_folders=extra_folders,
    )


def _models(builder: _Builder) -> list[tuple[str, Any]]:
    channel, section = builder.scenario.channel, builder.scenario.scenario
    standard = next((part.name for part in channel.models if part.name in LOS_PROBABILITY), "")
    condition = ChannelCondition(channel.condition, standard, Streams(section.seed, section.run))
    given = {"frequency_hz": channel.frequency_hz, "condition": condition}
    return [(part.name, builder.part(f"channel.models[{n}]", part, **given)) for n, part in enumerate(channel.models)]


def _channel(builder: _Builder, streams: Streams) -> Chain:
    models = _models(builder)
    return Chain(models, streams)


def _links(builder: _Builder, topology: Topology, geometry: Geometry, channel: Chain, streams: Streams) -> Links:
    radio = builder.scenario.radio
    noise_dbm = w_to_dbm(thermal_noise_w(radio.bandwidth_hz, radio.noise_figure_db, radio.temperature_k))

    def snr_db(candidates: Links) -> FloatArray:
        return radio.power_dbm - noise_dbm - channel.loss_db(candidates)

    part = builder.scenario.network.topology

    def draw() -> Links:
        links = topology.links(geometry, snr_db, streams.world("network.topology"))
        if not isinstance(links, Links):
            raise TypeError(f"links() returned {type(links).__name__}, expected a wirelessdl.Links")
        require_connected(links)
        return links

    drawn: Links = builder.ask("network.topology", part, draw)
    return drawn


def _positions(builder: _Builder, placement: Any, nodes: int, streams: Streams) -> FloatArray:
    def place() -> FloatArray:
        start_m = np.asarray(placement.positions(nodes, streams.world("network.placement")), dtype=np.float64)
        if start_m.shape != (nodes, 3) or not np.isfinite(start_m).all():
            raise TypeError(f"positions() returned shape {start_m.shape}, expected finite metres of shape {(nodes, 3)}")
        return start_m

    placed: FloatArray = builder.ask("network.placement", builder.scenario.network.placement, place)
    return placed


def _check_rates(builder: _Builder, schedule: Schedule) -> None:
    """Learning rates must be positive numbers, and rho times the largest must leave noise within the budget."""
    rounds, rho = builder.scenario.scenario.rounds, builder.scenario.privacy.rho
    part = builder.scenario.learning.learning_rate
    rates = builder.ask(
        "learning.learning_rate", part, lambda: [float(schedule.rate(round)) for round in range(1, rounds + 1)]
    )
    for round, rate in enumerate(rates, start=1):
        if not (math.isfinite(rate) and rate > 0):
            raise builder.fail(f"learning.learning_rate is {rate} in round {round}; must be a finite number > 0")
    largest = max(rates)
    if rho * largest > 1.0 + 1e-12:
        raise builder.fail(
            f"privacy.rho is {rho:g}; rho times the largest learning rate is {rho * largest:.3g}, must be <= 1 so "
            f"that noise stays within the power budget: lower rho to {1 / largest:.4g}, or the learning rate"
        )


def _data(builder: _Builder, streams: Streams) -> tuple[Dataset, list[IntArray]]:
    learning, nodes = builder.scenario.learning, builder.scenario.network.nodes
    folders = builder.catalog.folders  # where the user's files are looked up
    source = builder.part("learning.dataset", learning.dataset, folders=folders)

    def load() -> Dataset:
        loaded = source.load()
        if not isinstance(loaded, Dataset):
            raise TypeError(f"load() returned {type(loaded).__name__}, expected a wirelessdl.learning.data.Dataset")
        return loaded

    data: Dataset = builder.ask("learning.dataset", learning.dataset, load)
    partition = builder.part("learning.partition", learning.partition, folders=folders)
    hands: list[IntArray] = builder.ask(
        "learning.partition",
        learning.partition,
        lambda: [
            np.asarray(hand, dtype=np.int64)
            for hand in deal(partition, data, nodes, streams.world("learning.partition"))
        ],
    )
    if len(hands) != nodes:
        raise builder.fail(f"learning.partition gave {len(hands)} hands, expected one for each of {nodes} nodes")
    for node, hand in enumerate(hands):
        inside = len(hand) == 0 or (hand.min() >= 0 and hand.max() < len(data.train_y))
        if not inside or len(np.unique(hand)) < len(hand):
            raise builder.fail(
                f"learning.partition gave node {node} a sample twice or one that does not exist; "
                "epsilon protects samples, so each must be there once"
            )
    fewest = min(range(nodes), key=lambda node: len(hands[node]))
    if len(hands[fewest]) < learning.batch_size:
        raise builder.fail(
            f"learning.batch_size is {learning.batch_size}; node {fewest} has only {len(hands[fewest])} samples: "
            "lower batch_size, use fewer nodes, or a more even partition"
        )
    return data, hands


def _resolved(scenario: Scenario, parts: Mapping[str, Part]) -> Scenario:
    """The scenario with every part's parameters spelled out."""
    table = scenario.to_table()
    for where, part in parts.items():
        section, _, key = where.partition(".")
        if "[" in key:
            name, _, index = key.rstrip("]").partition("[")
            table[section][name][int(index)] = part.to_table()
        else:
            table[section][key] = part.to_table()
    resolved = Scenario.model_validate(table)
    resolved._origin, resolved._folder = scenario.origin, scenario.folder
    return resolved
