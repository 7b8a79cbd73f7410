"""Memory that a network takes, asked for before it is allocated: by name, with what would help.

    nodes    processes of the event simulation, positions, tables of a frame
    links    gains of every slot, estimates, weights, what the recorder buffers
    pairs    z of the multipliers `product` and `windowed`, which fills up whatever the graph

How many links a graph will have is known beforehand for graphs by rule; links by distance are counted in a k-d tree
before they are listed (`links_within`).
"""

from wirelessdl.memory import require_free
from wirelessdl.round.multiplier import rule_for
from wirelessdl.run.registry import Builder
from wirelessdl.scenario.schema import Scenario

_NODE = 6_000.0  # bytes, measured: docs/scale.md
_LINK, _SLOT = 300.0, 150.0  # bytes of a link that is heard, and more of it for every slot
_TAPS = 12.0 * 8 * 24  # of a link whose taps follow Doppler: three numbers per path and tap, shared by both directions
_PAIR = 24.0  # of a multiplier that keeps Z: Z, what is heard of it, and their product


def require_room(builder: Builder) -> None:
    """Everything that follows from the numbers of a scenario, before any of it is allocated."""
    scenario = builder.scenario
    nodes = scenario.network.nodes
    remedy = "use fewer nodes, or a sparser network"
    if scenario.radio.interference == "physical" and not scenario.radio.interference_cutoff_db < float("inf"):
        remedy = "use fewer nodes, or set radio.interference_cutoff_db"
    _require(builder, f"nodes is {nodes}", _NODE * nodes + _LINK * _expected_links(scenario), remedy)
    rule = rule_for(scenario)
    if rule in ("product", "windowed"):
        needed = _PAIR * nodes**2
        words = f'nodes is {nodes} with power.multiplier "{rule}", which keeps a number for every pair of nodes'
        _require(builder, words, needed, 'use power.balance = "receiver", or fewer nodes')


def require_room_for_links(builder: Builder, heard: int) -> None:
    """So many links that are heard, the graph's and those of strangers."""
    scenario = builder.scenario
    remedy = "use fewer nodes, or a sparser network"
    if scenario.radio.interference_cutoff_db < float("inf"):
        remedy = "use fewer nodes, or a lower radio.interference_cutoff_db"
    needed = heard * (_LINK + _SLOT * _slots(scenario) + _TAPS * _moving_taps(scenario))
    _require(builder, f"nodes is {scenario.network.nodes} with {heard} links that are heard", needed, remedy)


def _require(builder: Builder, what: str, needed: float, remedy: str) -> None:
    builder.check("network", lambda: require_free(what, needed, remedy))


def _slots(scenario: Scenario) -> int:
    """Resource blocks of a frame that are known beforehand, passes included."""
    slots = 1 if scenario.radio.payload_slots == "auto" else scenario.radio.payload_slots
    return slots * scenario.radio.subbands * (1 + scenario.radio.mixing_passes)


def _moving_taps(scenario: Scenario) -> int:
    """Channel models that keep the paths of every tap."""
    return sum(part.name == "tdl" and part.parameters.get("process") == "clarke" for part in scenario.channel.models)


def _expected_links(scenario: Scenario) -> float:
    """Links of graphs that are made by a rule; 0 where places decide, or a file or a class of the user's."""
    nodes, topology = float(scenario.network.nodes), scenario.network.topology
    if scenario.silent:
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
