"""From a scenario to the things that will move: every part found, checked and wired.

What needs data, graphs or gains is checked here, so that a run that starts can finish.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.channel.catalog import CHANNELS
from wirelessdl.channel.csi import CSI, Csi
from wirelessdl.channel.model import Chain
from wirelessdl.errors import ScenarioError
from wirelessdl.learning.clipping import sensitivity
from wirelessdl.learning.data import DATASETS, Dataset
from wirelessdl.learning.engine import LearningEngine, Settings
from wirelessdl.learning.models import MODELS
from wirelessdl.learning.partition import PARTITIONS
from wirelessdl.learning.schedule import SCHEDULES, Schedule
from wirelessdl.links import Geometry, Links
from wirelessdl.network.mobility import MOBILITIES, Mobility
from wirelessdl.network.placement import PLACEMENTS
from wirelessdl.network.topology import TOPOLOGIES, Topology, require_connected
from wirelessdl.power.allocate import ALLOCATORS, PowerAllocator
from wirelessdl.power.problem import PowerPlan, PowerProblem
from wirelessdl.privacy.ledger import Terms
from wirelessdl.scenario.loader import catalog_for
from wirelessdl.scenario.part import Catalog, Part, UserFile
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

# what the simulator itself hands to a part's constructor, where it asks for it
SUPPLIED = ("frequency_hz", "start_m", "features", "classes", "objective")


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
        return self.allocator.allocate(self.problem(links, gain, samples), theta)

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
        return built

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
    start_m = placement.positions(nodes, streams.world("network.placement"))
    mobility = builder.part("network.mobility", scenario.network.mobility, start_m=start_m)
    channel = _channel(builder, streams)
    topology = builder.part("network.topology", scenario.network.topology)
    links = _links(builder, topology, mobility.geometry(0.0), channel, streams)

    schedule = builder.part("learning.learning_rate", scenario.learning.learning_rate)
    _check_rho(builder, schedule)
    data, hands = _data(builder, streams)
    learner = builder.part("learning.model", scenario.learning.model, features=data.features, classes=data.classes)
    privacy, radio = scenario.privacy, scenario.radio
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
        csi=builder.part("radio.csi", radio.csi),
        allocator=builder.part("power.allocator", scenario.power.allocator, objective=scenario.power.objective),
        schedule=schedule,
        compute=builder.part("time.compute", scenario.time.compute),
        data=data,
        hands=hands,
        learning=learning,
        frame=Frame.of(
            parameters=learner.size,
            pilots=max(radio.pilot_symbols, nodes),
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
    channel = builder.scenario.channel
    return [
        (part.name, builder.part(f"channel.models[{n}]", part, frequency_hz=channel.frequency_hz))
        for n, part in enumerate(channel.models)
    ]


def _channel(builder: _Builder, streams: Streams) -> Chain:
    models = _models(builder)
    for name, model in models:
        if not hasattr(model, "gain"):
            raise builder.fail(f'channel.models names "{name}", which has no method gain(links, time_s, rng)')
    return Chain(models, streams)


def _links(builder: _Builder, topology: Topology, geometry: Geometry, channel: Chain, streams: Streams) -> Links:
    radio = builder.scenario.radio
    noise_dbm = w_to_dbm(thermal_noise_w(radio.bandwidth_hz, radio.noise_figure_db, radio.temperature_k))

    def snr_db(candidates: Links) -> FloatArray:
        return radio.power_dbm - noise_dbm - channel.loss_db(candidates)

    try:
        links = topology.links(geometry, snr_db, streams.world("network.topology"))
        require_connected(links)
    except ValueError as error:
        raise builder.fail(f"network.topology.{error}") from error
    return links


def _check_rho(builder: _Builder, schedule: Schedule) -> None:
    rounds, rho = builder.scenario.scenario.rounds, builder.scenario.privacy.rho
    largest = max(schedule.rate(round) for round in range(1, rounds + 1))
    if rho * largest > 1.0 + 1e-12:
        raise builder.fail(
            f"privacy.rho is {rho:g}; rho times the largest learning rate is {rho * largest:.3g}, must be <= 1 so "
            f"that noise stays within the power budget: lower rho to {1 / largest:.4g}, or the learning rate"
        )


def _data(builder: _Builder, streams: Streams) -> tuple[Dataset, list[IntArray]]:
    learning, nodes = builder.scenario.learning, builder.scenario.network.nodes
    data: Dataset = builder.part("learning.dataset", learning.dataset).load()
    partition = builder.part("learning.partition", learning.partition)
    try:
        hands = partition.split(data.train_y, nodes, streams.world("learning.partition"))
    except ValueError as error:
        raise builder.fail(f"learning.partition.{error}") from error
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
