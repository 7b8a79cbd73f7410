"""From a scenario to the parts that will run: every one found, checked and constructed once.

What needs data or graphs is checked here; gains and the power plan when the first frame opens.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from wirelessdl.access import Access, UserAccess
from wirelessdl.contract import capability
from wirelessdl.gaussian import slot_epsilon
from wirelessdl.learning.runtime import own_settings
from wirelessdl.radio.frame import Frame
from wirelessdl.radio.offsets import Offsets
from wirelessdl.run.build_learning import Plant, build_learning
from wirelessdl.run.build_network import build_network
from wirelessdl.run.build_time import build_time
from wirelessdl.run.listeners import user_listeners
from wirelessdl.run.registry import PARTS, Builder
from wirelessdl.run.world import World
from wirelessdl.scenario.part import Part
from wirelessdl.scenario.schema import Scenario
from wirelessdl.scenario.section import values_of
from wirelessdl.streams import Streams
from wirelessdl.units import from_db, thermal_noise_w


@own_settings()
def build(
    scenario: Scenario,
    *,
    device: str = "auto",
    extra_folders: tuple[Path, ...] = (),
    run: Path | None = None,
    plant: Plant | None = None,
) -> World:
    """The world a scenario describes. Raises one clear line where it cannot be.

    extra_folders: searched last for the user's model files, but for the copies that `run`, a run directory, keeps.
    plant: what an audit does to data and clients once they are drawn.
    """
    builder = Builder(scenario, extra_folders, run)
    streams = Streams(scenario.scenario.seed, scenario.scenario.run)
    nodes, radio, faults = scenario.network.nodes, scenario.radio, scenario.faults
    network = build_network(builder, streams)
    built = build_learning(builder, streams, device, network.heard_links, plant)
    csi = builder.part("radio.csi", radio.csi)
    access = _access(builder, streams)
    simulation, coherence_s = build_time(builder, network, built.learning, access, capability(csi, "symbols"), streams)
    noise_w = thermal_noise_w(radio.bandwidth_hz, radio.noise_figure_db, radio.temperature_k)
    world = World(
        **vars(network),
        **vars(built),
        scenario=scenario,
        streams=streams,
        csi=csi,
        allocator=builder.part("power.allocator", scenario.power.allocator, objective=scenario.power.objective),
        access=access,
        simulation=simulation,
        blockage=builder.part("faults.blockage", faults.blockage, nodes=nodes),
        jammer=builder.part(
            "faults.jammer",
            faults.jammer,
            nodes=nodes,
            rng=streams.draws("faults.jammer"),
            frequency_hz=scenario.channel.frequency_hz,
        ),
        coherence_s=coherence_s,
        thermal_w=noise_w if radio.thermal_noise else 0.0,
        noise_w=noise_w,
        # of its own emission a node hears nothing where it does not send while it listens
        self_interference=from_db(-radio.cancellation_db) if access.hears_itself else 0.0,
        offsets=None if access.coded else _offsets(builder, streams, simulation.frame),
        listeners=tuple(user_listeners(builder.catalog, scenario.trace.connect)),
        resolved=_resolved(scenario, builder.resolved),
        user_files=tuple(builder.catalog.files.values()),
        objects=dict(builder.catalog.handed),
        notes=tuple(builder.catalog.notes),
    )
    return _with_target(builder, world)


def _with_target(builder: Builder, world: World) -> World:
    """The world with epsilon_max of a slot, where only the total was given."""
    mu_max = builder.check("privacy", lambda: world.mu_max)
    if mu_max is None:
        return world
    privacy = world.scenario.privacy
    epsilon_max = float(slot_epsilon(np.array([mu_max]), privacy.delta)[0])
    scenario = world.scenario.model_copy(update={"privacy": privacy.model_copy(update={"epsilon_max": epsilon_max})})
    found = replace(world, scenario=scenario)
    found.__dict__["mu_max"] = mu_max  # worked out already, which may take a second
    return found


def _offsets(builder: Builder, streams: Streams, frame: Frame) -> Offsets | None:
    """Carrier and timing offsets of the nodes, drawn with the world."""
    radio, nodes = builder.scenario.radio, builder.scenario.network.nodes
    if builder.scenario.silent:
        return None

    def found() -> Offsets | None:
        carrier_rng, timing_rng = streams.world("radio.cfo_hz"), streams.world("radio.timing_offset_s")
        cfo_hz = values_of("cfo_hz", radio.cfo_hz, nodes, carrier_rng, low=-1e12, high=1e12)
        timing_s = values_of("timing_offset_s", radio.timing_offset_s, nodes, timing_rng, low=-1e3, high=1e3)
        return Offsets.of(cfo_hz, timing_s, radio.bandwidth_hz, frame)

    offsets: Offsets | None = builder.check("radio", found)
    return offsets


def _access(builder: Builder, streams: Streams) -> Access:
    """The way across the air, built in or the user's."""
    scenario = builder.scenario
    part, radio = scenario.radio.access, scenario.radio
    given = {"radio": radio, "nodes": scenario.network.nodes, "streams": streams, "silent": scenario.silent}
    built: Access = builder.construct("radio.access", part, **given)
    if not part.is_user_class:
        return built
    builder.require("radio.access", part, built, PARTS["radio.access"].call)
    return UserAccess(part.name, built)


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
    resolved._origin, resolved._folder, resolved._objects = scenario.origin, scenario.folder, dict(scenario.objects)
    return resolved
