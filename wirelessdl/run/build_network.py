"""The network of a scenario: places, motion, channel and graph, each asked once and held to its contract."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.fading_samples import FadingSamples
from wirelessdl.channel.los import ChannelCondition
from wirelessdl.channel.model import Chain
from wirelessdl.channel.pathloss.formulas import LOS_PROBABILITY
from wirelessdl.contract import Guard, capability
from wirelessdl.errors import ScenarioError
from wirelessdl.links import Geometry, Links
from wirelessdl.network.mobility import Mobility, require_geometry
from wirelessdl.network.placement import require_apart, require_positions
from wirelessdl.network.streets import CheckedMap, StreetMap, require_outdoors
from wirelessdl.network.topology import NoLinks, SnrDb, Topology, require_connected, require_links
from wirelessdl.network.topology.physical import Reach, heard_within, reach_of, require_pairs_fit
from wirelessdl.radio.frame import subband_offset_hz
from wirelessdl.run.registry import Builder
from wirelessdl.run.room import require_room, require_room_for_links
from wirelessdl.scenario.objects import stream_name
from wirelessdl.scenario.part import Part
from wirelessdl.scenario.schema import Scenario
from wirelessdl.scenario.section import values_of
from wirelessdl.streams import Streams
from wirelessdl.units import dbm_to_w, thermal_noise_w, w_to_dbm


@dataclass(frozen=True, eq=False, kw_only=True)
class BuiltNetwork:
    """Where nodes are, what lies between them, and who hears whom at the start.

    power_w: [K] budgets in W. buildings_m: [n, 4] left, bottom, width and depth of every building of the map.
    """

    power_w: FloatArray
    mobility: Mobility
    topology: Topology
    links: Links
    channel: Chain
    fading: FadingSamples
    condition: ChannelCondition
    snr_db: SnrDb
    reach: Reach | None  # how far strangers are heard, where that ends
    heard_links: int  # at the start, strangers included
    buildings_m: FloatArray


def build_network(builder: Builder, streams: Streams) -> BuiltNetwork:
    """Places, motion, channel, graph."""
    require_room(builder)
    network, nodes = builder.scenario.network, builder.scenario.network.nodes
    find_file = builder.catalog.find_file
    streets = _map(builder, network.map)
    placement = builder.part("network.placement", network.placement, streets=streets, find_file=find_file)
    answer = builder.ask(
        "network.placement",
        network.placement,
        lambda: placement.positions(nodes, streams.world("network.placement")),
    )
    start_m = builder.check("network.placement", lambda: require_positions(answer, nodes, network.placement.name))
    mobility = builder.part(
        "network.mobility",
        network.mobility,
        start_m=start_m,
        rng=streams.draws("network.mobility"),
        streets=streets,
        find_file=find_file,
    )
    found = builder.ask("network.mobility", network.mobility, lambda: mobility.geometry(0.0))
    geometry = builder.check("network.mobility", lambda: require_geometry(found, nodes, 0.0, network.mobility.name))
    builder.check("network.mobility", lambda: require_apart(geometry.position_m))

    # parts of the user's get the map as it is; what the simulator asks of it is checked
    checked = streets
    if streets is not None and network.map.is_user_class:
        checked = CheckedMap(streets, f"network.map: {network.map.name}")
    if checked is not None:
        builder.check("network.placement", lambda: require_outdoors(checked, geometry.position_m))
    buildings_m = (
        np.zeros((0, 4)) if checked is None else builder.check("network.map", capability(checked, "buildings"))
    )
    condition = channel_condition(builder.scenario, streams, checked)
    models = _channel_models(builder, condition)
    radio = builder.scenario.radio
    offset_hz = subband_offset_hz(radio.bandwidth_hz, radio.subbands) if radio.subbands > 1 else None
    channel, fading = Chain(models, streams, offset_hz=offset_hz), FadingSamples(models, condition, streams)
    power_dbm = builder.check(
        "radio",
        lambda: values_of(
            "power_dbm", builder.scenario.radio.power_dbm, nodes, streams.world("radio.power_dbm"), low=-200, high=200
        ),
    )
    snr_db = mean_snr_db(builder.scenario, channel, power_dbm)
    topology = builder.part("network.topology", network.topology, find_file=find_file)
    if builder.scenario.silent:
        topology = NoLinks()  # a node alone has no links, whatever graph is asked for
    drawn = builder.ask(
        "network.topology",
        network.topology,
        lambda: topology.links(geometry, snr_db, streams.world("network.topology")),
    )
    links = builder.check(
        "network.topology", lambda: require_links(drawn, geometry, is_user_class=network.topology.is_user_class)
    )
    if not (builder.scenario.silent or _changes(builder.scenario, topology)):
        builder.check("network.topology", lambda: require_connected(links, topology, snr_db))
    reach = _reach(builder, geometry, links, snr_db)
    strangers = builder.scenario.radio.interference == "physical" and not builder.scenario.silent
    heard = nodes * (nodes - 1) if strangers else len(links)
    if reach is not None:
        heard = len(heard_within(links, reach.radius_m)[0])
    require_room_for_links(builder, heard)
    return BuiltNetwork(
        power_w=dbm_to_w(power_dbm),
        mobility=mobility,
        topology=topology,
        links=links,
        channel=channel,
        fading=fading,
        condition=condition,
        snr_db=snr_db,
        reach=reach,
        heard_links=heard,
        buildings_m=buildings_m,
    )


def _reach(builder: Builder, geometry: Geometry, links: Links, snr_db: SnrDb) -> Reach | None:
    """How far strangers are heard; None where nobody is a stranger, or everyone is heard."""
    radio = builder.scenario.radio
    if builder.scenario.silent or radio.interference != "physical" or math.isinf(radio.interference_cutoff_db):
        return None
    cutoff_db = radio.interference_cutoff_db
    where = f"{builder.scenario.origin}: channel.models: "
    # a loss of the user's has a guard of its own
    with Guard(f"{where}loss_db", is_user_class=False, built_in=where, built_in_error=ScenarioError):
        reach = reach_of(geometry, links, snr_db, cutoff_db)
    what = f"interference_cutoff_db is {cutoff_db:g}, by which strangers are heard from {reach.radius_m:.4g} m away"
    builder.check("radio", lambda: require_pairs_fit(geometry, reach.radius_m, what, "lower it, or use fewer nodes"))
    return reach


def channel_condition(scenario: Scenario, streams: Streams, streets: StreetMap | None = None) -> ChannelCondition:
    """Line of sight by the rule of the scenario, or by its map and the probability that belongs to its loss model."""
    channel = scenario.channel
    names = [stream_name(part.name) for part in channel.models]
    standard = next((name for name in names if name in LOS_PROBABILITY), "")
    return ChannelCondition(channel.condition, standard, streams, streets, spatial=channel.spatial_consistency)


def _map(builder: Builder, part: Part) -> StreetMap | None:
    """The map, which nodes that wander through buildings would make nonsense of; None on open ground."""
    streets: StreetMap = builder.part("network.map", part, find_file=builder.catalog.find_file)
    if part.name == "none":
        return None
    builder.require("network.map", part, streets, "indoors(ground_m)")
    mobility = builder.scenario.network.mobility
    if mobility.name in ("random-waypoint", "random-walk", "gauss-markov"):
        raise builder.fail(
            f'network.mobility.kind is "{mobility.name}"; it walks through the buildings of network.map: '
            'use mobility = { kind = "streets" }'
        )
    return streets


def mean_snr_db(scenario: Scenario, channel: Chain, power_dbm: FloatArray) -> SnrDb:
    """Mean SNR of candidate links at the full power of their senders, `[K]` dBm, by the loss models."""
    radio = scenario.radio
    noise_dbm = w_to_dbm(thermal_noise_w(radio.bandwidth_hz, radio.noise_figure_db, radio.temperature_k))
    return lambda candidates: power_dbm[candidates.tx] - noise_dbm - channel.loss_db(candidates)


def _channel_models(builder: Builder, condition: ChannelCondition) -> list[tuple[str, Any]]:
    channel = builder.scenario.channel
    return [
        (
            part.name,
            builder.part(
                f"channel.models[{n}]",
                part,
                frequency_hz=channel.frequency_hz,
                condition=condition,
                find_file=builder.catalog.find_file,
            ),
        )
        for n, part in enumerate(channel.models)
    ]


def _changes(scenario: Scenario, topology: Topology) -> bool:
    """Whether links come and go: then staying connected is a matter of many frames, watched as they pass."""
    return capability(topology, "follows_motion") and scenario.network.mobility.name != "static"
