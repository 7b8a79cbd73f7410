"""The network of a scenario: places, motion, channel and graph, each asked once and held to its contract.

Memory that a network takes is asked for before it is allocated, by name, with what would help:

    nodes    processes of the event simulation, positions, tables of a frame
    links    gains of every slot, estimates, weights, what the recorder buffers
    pairs    z of the multipliers `product` and `windowed`, which fills up whatever the graph

How many links a graph will have is known beforehand for graphs by rule; links by distance are counted in a k-d tree
before they are listed (`links_within`).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.antennas import Antennas
from wirelessdl.channel.fading_samples import FadingSamples
from wirelessdl.channel.los import ChannelCondition
from wirelessdl.channel.model import Chain
from wirelessdl.channel.pathloss.formulas import LOS_PROBABILITY
from wirelessdl.channel.server import ServerParts
from wirelessdl.contract import Guard, capability
from wirelessdl.errors import ScenarioError
from wirelessdl.families import member
from wirelessdl.links import Geometry, Links
from wirelessdl.memory import require_free
from wirelessdl.network.mobility import Mobility, require_geometry
from wirelessdl.network.placement import require_apart, require_positions
from wirelessdl.network.streets import CheckedMap, StreetMap, outlines, require_outdoors
from wirelessdl.network.topology import (
    NoLinks,
    SnrDb,
    Topology,
    drawn_links,
    require_connected,
    require_links,
    takes_time,
)
from wirelessdl.network.topology.physical import Reach, heard_within, reach_of, require_pairs_fit
from wirelessdl.radio.frame import subband_offset_hz
from wirelessdl.round.multiplier import rule_for
from wirelessdl.run.registry import Builder
from wirelessdl.scenario.objects import stream_name
from wirelessdl.scenario.part import Part
from wirelessdl.scenario.schema import Scenario
from wirelessdl.scenario.section import values_of
from wirelessdl.streams import Streams
from wirelessdl.units import dbm_to_w, thermal_noise_w, w_to_dbm

_NODE_BYTES = 6_000.0  # measured: docs/scale.md
_LINK_BYTES, _BLOCK_BYTES = 300.0, 150.0  # of a link that is heard, and more of it for every slot
_TAPS_BYTES = 12.0 * 8 * 24  # of a link whose taps follow Doppler: three numbers per path and tap, for both directions
_PAIR_BYTES = 24.0  # of a multiplier that keeps Z: Z, what is heard of it, and their product


@dataclass(frozen=True, eq=False, kw_only=True)
class BuiltNetwork:
    """Where nodes are, what lies between them, and who hears whom at the start.

    power_w: [K] budgets in W. outlines_m: [corners, 2] of every building of the map.
    """

    power_w: FloatArray
    mobility: Mobility
    topology: Topology
    links: Links
    channel: Chain
    fading: FadingSamples
    condition: ChannelCondition
    snr_db: SnrDb
    reach: Reach | None  # how far non-neighbours are heard, where that ends
    heard_links: int  # at the start, non-neighbours included
    outlines_m: tuple[FloatArray, ...]
    server: ServerParts | None


def build_network(builder: Builder, streams: Streams) -> BuiltNetwork:
    """Places, motion, channel, graph."""
    require_memory(builder)
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

    # the user's parts get the map as it is; what the simulator asks of it is checked
    checked = streets
    if streets is not None and network.map.is_user_class:
        checked = CheckedMap(streets, f"network.map: {network.map.name}")
    if checked is not None:
        builder.check("network.placement", lambda: require_outdoors(checked, geometry.position_m))
    outlines_m = builder.check("network.map", lambda: outlines(checked))
    condition = channel_condition(builder.scenario, streams, checked)
    given: dict[str, Any] = {
        "frequency_hz": builder.scenario.channel.frequency_hz,
        "condition": condition,
        "find_file": find_file,
    }
    models = [
        (part.name, builder.part(f"channel.models[{n}]", part, **given))
        for n, part in enumerate(builder.scenario.channel.models)
    ]
    radio = builder.scenario.radio
    offset_hz = subband_offset_hz(radio.bandwidth_hz, radio.subbands) if radio.subbands > 1 else None
    access = member("access", radio.access.name)
    if access is None:
        phases = "fading" if radio.flight_time else "no"
    else:
        phases = access.needs_phases(radio) if hasattr(access, "needs_phases") else "no"
    flight_hz = builder.scenario.channel.frequency_hz if phases == "flight" else None
    array = Antennas(radio.antennas, radio.antenna_correlation)
    phased = phases != "no" or array.count > 1
    channel = Chain(models, streams, offset_hz=offset_hz, phases=phased, flight_hz=flight_hz, antennas=array)
    for named in channel.models:
        if array.count > 1 and named.response is not None and not named.small_scale:
            raise builder.fail(
                f"radio.antennas is {array.count} with channel model {named.name}; it has h of one antenna: set "
                "antennas = 1"
            )
    fading = FadingSamples(models, condition, streams, array)
    power_dbm = builder.check(
        "radio",
        lambda: values_of(
            "power_dbm", builder.scenario.radio.power_dbm, nodes, streams.world("radio.power_dbm"), low=-200, high=200
        ),
    )
    snr_db = mean_snr_db(builder.scenario, channel, power_dbm)
    topology = builder.part("network.topology", network.topology, find_file=find_file)
    if builder.scenario.alone:
        topology = NoLinks()  # a node alone has no links, whatever graph is asked for
    drawn = builder.ask(
        "network.topology",
        network.topology,
        lambda: drawn_links(topology, geometry, snr_db, streams.world("network.topology"), 0.0),
    )
    links = builder.check(
        "network.topology", lambda: require_links(drawn, geometry, is_user_class=network.topology.is_user_class)
    )
    # where links come and go, staying connected is a matter of many frames, watched as they pass
    changes = capability(topology, "follows_motion") and (network.mobility.name != "static" or takes_time(topology))
    if not (builder.scenario.alone or changes):
        builder.check("network.topology", lambda: require_connected(links, topology))
    reach = _reach(builder, geometry, links, snr_db)
    physical = builder.scenario.radio.interference == "physical" and not builder.scenario.alone
    heard = nodes * (nodes - 1) if physical else len(links)
    if reach is not None:
        heard = len(heard_within(links, reach.radius_m)[0])
    require_memory_for_links(builder, heard)
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
        outlines_m=outlines_m,
        server=_server(builder, streams, geometry, checked, fading, flight_hz),
    )


def _server(
    builder: Builder,
    streams: Streams,
    geometry: Geometry,
    streets: StreetMap | None,
    fading: FadingSamples,
    flight_hz: float | None,
) -> ServerParts | None:
    """The server, in its place, with copies of the channel models; None without one."""
    given, radio = builder.scenario.network.server, builder.scenario.radio
    if given == "none":
        return None
    places = geometry.position_m
    if given.at == "center":
        ground = (places.min(axis=0) + places.max(axis=0))[:2] / 2
        if streets is not None:  # the outdoor place nearest to it, by metres
            reach_m = int(np.ceil(np.ptp(places[:, :2], axis=0).max() / 2)) + 1
            steps = np.mgrid[-reach_m : reach_m + 1, -reach_m : reach_m + 1].reshape(2, -1).T
            outdoors = steps[~np.asarray(streets.indoors(ground + steps))]
            ground = ground + outdoors[np.argmin(np.hypot(*outdoors.T))]
    else:
        ground = np.array(given.at)
        if streets is not None and streets.indoors(ground[None]).any():
            raise builder.fail(f"network.server.at is {given.at}; that is in a building of network.map: use a street")
    position = np.array([*ground, given.height_m])
    if (same := (places == position).all(axis=1)).any():
        raise builder.fail(
            f"network.server is where node {int(np.argmax(same))} starts; a link needs a length: set another height_m"
        )
    array = Antennas(max(given.antennas, radio.antennas), radio.antenna_correlation)
    chain = Chain(fading.copies_of_all(), streams, prefix="server", phases=True, flight_hz=flight_hz, antennas=array)
    return ServerParts(
        position, chain, given.antennas, radio.antennas, float(dbm_to_w(np.array(given.power_dbm))), given.up
    )


def _reach(builder: Builder, geometry: Geometry, links: Links, snr_db: SnrDb) -> Reach | None:
    """How far non-neighbours are heard; None where none is, or all are."""
    radio = builder.scenario.radio
    if builder.scenario.alone or radio.interference != "physical" or math.isinf(radio.interference_cutoff_db):
        return None
    cutoff_db = radio.interference_cutoff_db
    where = f"{builder.scenario.origin}: channel.models: "
    # a user's loss has a guard of its own
    with Guard(f"{where}loss_db", is_user_class=False, built_in=where, built_in_error=ScenarioError):
        reach = reach_of(geometry, links, snr_db, cutoff_db)
    what = (
        f"interference_cutoff_db is {cutoff_db:g}, by which non-neighbours are heard from {reach.radius_m:.4g} m away"
    )
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


def require_memory(builder: Builder) -> None:
    """Everything that follows from the numbers of a scenario, before any of it is allocated."""
    scenario = builder.scenario
    nodes = scenario.network.nodes
    remedy = "use fewer nodes, or a sparser network"
    if scenario.radio.interference == "physical" and not scenario.radio.interference_cutoff_db < float("inf"):
        remedy = "use fewer nodes, or set radio.interference_cutoff_db"
    _require(builder, f"nodes is {nodes}", _NODE_BYTES * nodes + _LINK_BYTES * _expected_links(scenario), remedy)
    rule = rule_for(scenario)
    if rule in ("product", "windowed"):
        needed = _PAIR_BYTES * nodes**2
        words = f'nodes is {nodes} with power.multiplier "{rule}", which keeps a number for every pair of nodes'
        _require(builder, words, needed, 'use power.balance = "receiver", or fewer nodes')


def require_memory_for_links(builder: Builder, heard: int) -> None:
    """So many links that are heard, those of neighbours and of others."""
    scenario = builder.scenario
    remedy = "use fewer nodes, or a sparser network"
    if scenario.radio.interference_cutoff_db < float("inf"):
        remedy = "use fewer nodes, or a lower radio.interference_cutoff_db"
    radio, models = scenario.radio, scenario.channel.models
    slots = 1 if radio.payload_slots == "auto" else radio.payload_slots  # as far as they are known beforehand
    blocks = slots * radio.subbands * (1 + radio.mixing_passes)
    moving_taps = sum(part.name == "tdl" and part.parameters.get("process") == "clarke" for part in models)
    needed = heard * (_LINK_BYTES + _BLOCK_BYTES * blocks + _TAPS_BYTES * moving_taps)
    _require(builder, f"nodes is {scenario.network.nodes} with {heard} links that are heard", needed, remedy)


def _require(builder: Builder, what: str, needed: float, remedy: str) -> None:
    builder.check("network", lambda: require_free(what, needed, remedy))


def _expected_links(scenario: Scenario) -> float:
    """Links of graphs that are made by a rule; 0 where places decide, or a file or a user's class."""
    nodes, topology = float(scenario.network.nodes), scenario.network.topology
    if scenario.alone:
        return 0.0
    if scenario.radio.interference == "physical" and not scenario.radio.interference_cutoff_db < float("inf"):
        return nodes**2
    rule = {"full": ("", 1.0), "erdos-renyi": ("p", 1.0), "k-regular": ("degree", 4), "small-world": ("k", 4)}
    if topology.name not in rule:
        return 0.0
    key, default = rule[topology.name]
    value = topology.parameters.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0  # a mistake that its class will name
    return nodes * value * (nodes if topology.name in ("full", "erdos-renyi") else 1.0)
