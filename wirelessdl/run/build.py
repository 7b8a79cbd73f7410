"""From a scenario to the things that will move: every part found, checked and wired.

What needs data or graphs is checked here; gains and the power plan when the first frame opens.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.channel.model import Chain
from wirelessdl.channel.replay import shorter
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.engine import LearningEngine, Settings
from wirelessdl.learning.partition import deal
from wirelessdl.learning.schedule import Schedule
from wirelessdl.links import Geometry, Links
from wirelessdl.network.mobility import Mobility
from wirelessdl.network.placement import require_apart
from wirelessdl.network.topology import Topology, require_connected
from wirelessdl.radio.access import coloring
from wirelessdl.radio.coherence import coherence_s, payload_slots
from wirelessdl.radio.frame import Frame
from wirelessdl.round.multiplier import rule_for
from wirelessdl.run.build_time import build_simulation
from wirelessdl.run.registry import Builder, channel_condition, channel_models, mean_snr_db
from wirelessdl.run.world import World
from wirelessdl.scenario.part import Part
from wirelessdl.scenario.schema import Scenario
from wirelessdl.sim.simulation import EventSimulation, Last
from wirelessdl.streams import Streams
from wirelessdl.trace.events import user_callbacks
from wirelessdl.units import dbm_to_w, thermal_noise_w, to_s

_FEW = 20  # rounds from which the length of a run is evaluated


def build(scenario: Scenario, *, device: str = "auto", extra_folders: tuple[Path, ...] = ()) -> World:
    """The world a scenario describes. Raises one clear line where it cannot be.

    extra_folders: looked through last for the user's model files.
    """
    builder = Builder(scenario, extra_folders)
    streams = Streams(scenario.scenario.seed, scenario.scenario.run)
    nodes = scenario.network.nodes

    files = {"find_file": builder.catalog.find_file}
    placement = builder.part("network.placement", scenario.network.placement, **files)
    start_m = _positions(builder, placement, nodes, streams)
    mobility = builder.part(
        "network.mobility", scenario.network.mobility, start_m=start_m, rng=streams.draws("network.mobility"), **files
    )
    geometry = _at_start(builder, mobility, nodes)
    condition = channel_condition(scenario, streams)
    channel = Chain(channel_models(builder, condition), streams)
    topology = builder.part("network.topology", scenario.network.topology, **files)
    links = _links(builder, topology, geometry, channel, streams)

    schedule = builder.part("learning.learning_rate", scenario.learning.learning_rate, rounds=scenario.scenario.rounds)
    _check_rates(builder, schedule)
    data, client_indices = _data(builder, streams)
    learner = builder.learner(data, streams)
    radio = scenario.radio
    csi = builder.part("radio.csi", radio.csi)
    learning = _learning(builder, learner, data, client_indices, streams, device)
    coherence = None
    frame = _frame(builder, learner.size, csi.symbols, links, coherence)
    simulation = build_simulation(builder, frame, streams, learning)
    coherence = _coherence_s(builder, channel, mobility, simulation)
    if coherence is not None:
        frame = _frame(builder, learner.size, csi.symbols, links, coherence)
        simulation = build_simulation(builder, frame, streams, learning)
    given = {"nodes": nodes, "frequency_hz": scenario.channel.frequency_hz, "rng": streams.draws("faults.jammer")}
    jammer = builder.part("faults.jammer", scenario.faults.jammer, **given)
    blockage = builder.part("faults.blockage", scenario.faults.blockage, nodes=nodes)
    _check_traces(builder, channel, simulation)
    return World(
        scenario=scenario,
        streams=streams,
        mobility=mobility,
        topology=topology,
        links=links,
        channel=channel,
        condition=condition,
        csi=csi,
        allocator=builder.part("power.allocator", scenario.power.allocator, objective=scenario.power.objective),
        schedule=schedule,
        data=data,
        client_indices=client_indices,
        learning=learning,
        simulation=simulation,
        blockage=blockage,
        jammer=jammer,
        coherence_s=coherence,
        power_w=np.full(nodes, dbm_to_w(radio.power_dbm)),
        thermal_w=(
            thermal_noise_w(radio.bandwidth_hz, radio.noise_figure_db, radio.temperature_k)
            if radio.thermal_noise
            else 0.0
        ),
        callbacks=tuple(user_callbacks(builder.catalog, scenario.trace.connect)),
        resolved=_resolved(scenario, builder.resolved),
        user_files=tuple(builder.catalog.files.values()),
        extra_folders=extra_folders,
    )


def _learning(
    builder: Builder, learner: Any, data: Dataset, client_indices: list[IntArray], streams: Streams, device: str
) -> LearningEngine:
    learning, privacy = builder.scenario.learning, builder.scenario.privacy
    settings = Settings(
        batch_size=learning.batch_size,
        clipping=privacy.clipping,
        clip_norm=privacy.clip_norm,
        projection_radius=learning.projection_radius,
        gradient_at="mixed" if privacy.protocol == "hardened" else "own",
        dtype=learning.dtype,
        device=device,
        sampling=learning.sampling,
        strategy=learning.strategy,
        augment=learning.augment,
        regret=learning.regret,
    )
    try:
        return LearningEngine(learner, data, client_indices, streams, settings)
    except ValueError as error:
        raise builder.fail(error) from error


def _check_traces(builder: Builder, channel: Chain, simulation: EventSimulation) -> None:
    """A recorded channel must last as long as the run, as far as that can be told beforehand."""
    scenario = builder.scenario
    recorded = [(n, named) for n, named in enumerate(channel.models) if np.isfinite(_ends_s(named.model))]
    yours = (scenario.time.compute, scenario.time.policy, scenario.faults.crashes, scenario.faults.stragglers)
    if not recorded or any(part.is_user_class for part in yours):
        return
    last = Last()
    simulation.run(scenario.scenario.rounds, last)
    frame = simulation.frame
    needed_s = last.time_s + to_s(frame.opens_ns(frame.slots - 1))
    for n, named in recorded:
        ends_s = _ends_s(named.model)
        if needed_s > ends_s + 1e-12:
            file = scenario.channel.models[n].parameters.get("file", named.name)
            raise builder.fail(f"channel.models[{n}].file is {file!r}; ends at {ends_s:g} s, {shorter(needed_s)}")


def _ends_s(model: object) -> float:
    return float(getattr(model, "ends_s", math.inf))


def _links(builder: Builder, topology: Topology, geometry: Geometry, channel: Chain, streams: Streams) -> Links:
    snr_db, part = mean_snr_db(builder.scenario, channel), builder.scenario.network.topology

    def draw() -> Links:
        links = topology.links(geometry, snr_db, streams.world("network.topology"))
        if not isinstance(links, Links):
            raise TypeError(f"links() returned {type(links).__name__}, expected a wirelessdl.Links")
        if not _changes(builder.scenario, topology):
            require_connected(links, topology, snr_db)
        return links

    drawn: Links = builder.ask("network.topology", part, draw)
    return drawn


def _changes(scenario: Scenario, topology: Topology) -> bool:
    """Whether links come and go: then staying connected is a matter of many frames, watched as they pass."""
    return bool(getattr(topology, "follows_motion", False)) and scenario.network.mobility.name != "static"


def _coherence_s(builder: Builder, channel: Chain, mobility: Mobility, simulation: EventSimulation) -> float | None:
    """Shortest coherence time of the run; how long it will last is evaluated by its first rounds."""
    scenario, rounds = builder.scenario, builder.scenario.scenario.rounds
    horizon_s = 0.0
    if scenario.network.mobility.name != "static":
        last, few = Last(), min(rounds, _FEW)
        simulation.run(few, last)
        horizon_s = (last.time_s + to_s(simulation.frame.airtime_ns)) * rounds / few
    models = [named.model for named in channel.models]
    return coherence_s(models, mobility, scenario.channel.frequency_hz, horizon_s)


def _frame(builder: Builder, parameters: int, pilots: int, links: Links, coherence: float | None) -> Frame:
    """The frame, in as many slots as the channel's coherence asks for."""
    scenario = builder.scenario
    radio, nodes = scenario.radio, scenario.network.nodes
    exchanged = rule_for(scenario) != "balanced"
    extra = nodes if exchanged and radio.z_exchange == "air" else 0
    payload_s = math.ceil((parameters + extra) / 2) / radio.bandwidth_hz
    try:
        slots = payload_slots(payload_s, coherence) if radio.payload_slots == "auto" else radio.payload_slots
    except ValueError as error:
        raise builder.fail(f"radio.{error}") from error
    number_s = radio.control_bits / radio.control_bps  # of one number on the control channel
    turns, senders = 1, nodes
    if radio.duplex == "half":
        turns, senders = 2, (nodes + 1) // 2
    if radio.access == "tdma":
        turns, senders = int(coloring(links).max()) + 1, 1
    return Frame.of(
        parameters=parameters,
        nodes=nodes,
        pilots=pilots,
        bandwidth_hz=radio.bandwidth_hz,
        guard_s=radio.guard_s,
        slots=slots,
        turns=turns,
        senders=senders,
        extra=extra,
        # receivers report the gains they hear; senders learn alpha, receivers their weight
        feedback_s=(len(links) + 2 * nodes) * number_s if scenario.power.schedule == "adaptive" else 0.0,
        exchange_s=nodes**2 * number_s if exchanged and not extra else 0.0,
    )


def _positions(builder: Builder, placement: Any, nodes: int, streams: Streams) -> FloatArray:
    def place() -> FloatArray:
        start_m = np.asarray(placement.positions(nodes, streams.world("network.placement")), dtype=np.float64)
        if start_m.shape != (nodes, 3) or not np.isfinite(start_m).all():
            raise TypeError(f"positions() returned shape {start_m.shape}, expected finite metres of shape {(nodes, 3)}")
        require_apart(start_m)
        return start_m

    placed: FloatArray = builder.ask("network.placement", builder.scenario.network.placement, place)
    return placed


def _at_start(builder: Builder, mobility: Mobility, nodes: int) -> Geometry:
    """Where nodes are at time 0, which a mobility may choose against the placement."""

    def ask() -> Geometry:
        geometry = mobility.geometry(0.0)
        if not isinstance(geometry, Geometry):
            raise TypeError(f"geometry() returned {type(geometry).__name__}, expected a wirelessdl.Geometry")
        for name, value in (("position_m", geometry.position_m), ("velocity_mps", geometry.velocity_mps)):
            if np.shape(value) != (nodes, 3) or not np.isfinite(value).all():
                raise TypeError(f"{name} has shape {np.shape(value)}, expected finite numbers of shape {(nodes, 3)}")
        require_apart(geometry.position_m)
        return geometry

    asked: Geometry = builder.ask("network.mobility", builder.scenario.network.mobility, ask)
    return asked


def _check_rates(builder: Builder, schedule: Schedule) -> None:
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


def _data(builder: Builder, streams: Streams) -> tuple[Dataset, list[IntArray]]:
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
    client_indices: list[IntArray] = builder.ask(
        "learning.partition",
        learning.partition,
        lambda: [
            np.asarray(client, dtype=np.int64)
            for client in deal(partition, data, nodes, streams.world("learning.partition"))
        ],
    )
    if len(client_indices) != nodes:
        raise builder.fail(
            f"learning.partition gave {len(client_indices)} client_indices, expected one for each of {nodes} nodes"
        )
    for node, client in enumerate(client_indices):
        inside = len(client) == 0 or (client.min() >= 0 and client.max() < len(data.train_y))
        if not inside or len(np.unique(client)) < len(client):
            raise builder.fail(
                f"learning.partition gave node {node} a sample twice or one that does not exist; "
                "epsilon protects samples, so each must be there once"
            )
    fewest = min(range(nodes), key=lambda node: len(client_indices[node]))
    if len(client_indices[fewest]) < (1 if learning.sampling == "full" else learning.batch_size):
        raise builder.fail(
            f"learning.batch_size is {learning.batch_size}; node {fewest} has only {len(client_indices[fewest])} "
            "samples: lower batch_size, use fewer nodes, or a more even partition"
        )
    return data, client_indices


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
