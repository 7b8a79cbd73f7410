"""A built world in words, for people who want to know before they wait."""

import math

import numpy as np

from wirelessdl.contract import capability
from wirelessdl.learning.models.module import gradient_flops
from wirelessdl.learning.partition import class_histogram
from wirelessdl.links import Links
from wirelessdl.network.topology.physical import heard_within
from wirelessdl.preview.words import promise
from wirelessdl.run.build import World
from wirelessdl.units import prefixed, to_s, w_to_dbm

_MOST_NODES, _MOST_CLASSES = 20, 20  # shown one by one


def coherence(world: World) -> str:
    """How long the channel holds still, against how long a payload takes."""
    payload_s = to_s(world.frame.slots * world.frame.payload_ns)
    if world.scenario.silent:
        return "not used: nothing is sent"
    if world.coherence_s is None:
        return "no fading by motion: a gain holds for its payload"
    share = payload_s / world.coherence_s
    slots = world.frame.slots
    sent = "in one slot" if slots == 1 else f"in {slots} slots, each with its own pilots and gains"
    return f"coherence {1e3 * world.coherence_s:.3g} ms, payload {share:.2g} of it: sent {sent}"


def _subbands(world: World) -> str:
    radio = world.scenario.radio
    if radio.subbands == 1:
        return ""
    return f" in {radio.subbands} subbands of {radio.bandwidth_hz / radio.subbands / 1e6:.4g} MHz"


def describe(world: World) -> dict[str, str]:
    """What would run, one fact per line."""
    scenario, links, frame = world.scenario, world.links, world.frame
    degree = links.degree
    sizes = [len(client) for client in world.client_indices]
    privacy, learning = scenario.privacy, scenario.learning
    q = world.learning.sampler.rate
    chain = " + ".join(part.name for part in scenario.channel.models)
    radio = scenario.radio
    interference = "" if world.self_interference == 0 else f", own emission cancelled by {radio.cancellation_db:g} dB"
    thermal = f"{w_to_dbm(world.thermal_w):.1f} dBm thermal noise" if world.thermal_w else "no thermal noise"
    return {
        "network": (
            f"{world.nodes} nodes, {scenario.network.topology.name}, {len(links)} links, "
            f"{degree.min()} to {degree.max()} neighbours{_apart(world)}"
            if not scenario.silent
            else f"{world.nodes} node{'s' * (world.nodes > 1)} without links"
        ),
        "heard": _heard(world),
        "channel": f"{chain} at {scenario.channel.frequency_hz / 1e9:g} GHz",
        "radio": f"{_power(world)}, {radio.bandwidth_hz / 1e6:g} MHz{_subbands(world)}, {thermal}{interference}",
        **_offsets(world),
        "model": (
            f"{learning.model.name}, {world.learning.learner.size:,} parameters, {learning.dtype}, "
            f"{_flops(gradient_flops(world.learning.learner))} for a sample's gradient"
        ),
        "data": (
            f"{world.data.name}, {learning.partition.name}: {min(sizes)} to {max(sizes)} samples a node, "
            f"{_batches(world)} (q {q.min():.3g} to {q.max():.3g})"
        ),
        "engine": (
            f"{world.learning.strategy.name} gradients on {world.learning.device}, "
            f"needs {world.learning.need().formatted()} of memory"
        ),
        "labels": _labels(world),
        "frame": (
            f"{to_s(frame.slots * frame.turns * frame.pilot_ns) * 1e3:.3g} ms pilots, "
            f"{to_s(frame.slots * frame.turns * frame.payload_ns) * 1e3:.3g} ms payload, "
            f"{to_s(frame.airtime_ns) * 1e3:.3g} ms on air a round{_passes(world)}{_turns(world)}"
        ),
        "time": _time(world),
        "faults": _faults(world),
        "channel in time": coherence(world),
        "power": (
            f"{scenario.power.objective} objective, {scenario.power.schedule}, "
            f"balance {scenario.power.balance or 'none'}, split by {scenario.power.allocator.name}"
            if not scenario.silent
            else "none is radiated"
        ),
        "privacy": (
            f"{privacy.protocol} protocol, {privacy.noise.name + ' noise' if not scenario.silent else 'no noise'}, "
            f"{privacy.clipping} clipping at "
            f"{privacy.clip_norm:g}, {promise(world.terms, privacy)}{_as_far_as(world)}"
        ),
        "rounds": f"{scenario.scenario.rounds}, seed {scenario.scenario.seed}, run {scenario.scenario.run}",
    }


def _as_far_as(world: World) -> str:
    """Where an allocator of its own mind decides, a target is no promise."""
    private = math.isfinite(world.scenario.privacy.epsilon_max) and not world.scenario.silent
    if not private or capability(world.allocator, "keeps_epsilon_max"):
        return ""
    return f", which {world.scenario.power.allocator.name} need not keep"


def _apart(world: World) -> str:
    distance = world.links.distance_m
    return f", {distance.min():.0f} to {distance.max():.0f} m apart" if len(distance) else " at the start"


def _power(world: World) -> str:
    least, most = (w_to_dbm(float(power_w)) for power_w in (world.power_w.min(), world.power_w.max()))
    return f"{most:g} dBm" if world.power_w.min() == world.power_w.max() else f"{least:.3g} to {most:.3g} dBm"


def _offsets(world: World) -> dict[str, str]:
    """Only where there are any; of every pair that is heard."""
    if world.offsets is None:
        return {}
    links = world.links
    if world.reach is not None:
        links, _ = heard_within(links, world.reach.radius_m)
    elif world.scenario.radio.interference == "physical":
        links = Links.from_mask(np.ones((world.nodes, world.nodes), dtype=bool), links.geometry)
    return {"offsets": world.offsets.in_words(links)}


def _flops(count: float) -> str:
    for size, name in ((1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count:.0f} FLOP"


def _batches(world: World) -> str:
    least, most = world.learning.sampler.batch_sizes.min(), world.learning.sampler.batch_sizes.max()
    size = f"{least}" if least == most else f"{least} to {most}"
    return {
        "full": "all samples in every batch",
        "poisson": f"poisson batches of {size} on average",
        "shuffled": f"batches of {size} from shuffled epochs, which amplify nothing",
    }.get(world.scenario.learning.sampling, f"batches of {size}")


def _passes(world: World) -> str:
    return f" with {world.frame.passes} mixing passes" if world.frame.passes else ""


def _turns(world: World) -> str:
    return "" if world.scenario.silent else world.access.words(world.frame.turns)


def _time(world: World) -> str:
    """Who waits for whom, by the first round's compute times."""
    time, nodes = world.scenario.time, world.nodes
    first_ms = [1e3 * to_s(world.simulation.duration_ns(node, 1)) for node in range(nodes)]
    return (
        f"{time.policy.name} rounds, {time.compute.name} compute time, "
        f"{min(first_ms):.3g} to {max(first_ms):.3g} ms in the first"
    )


def _faults(world: World) -> str:
    """What may go wrong, in the scenario's words."""
    faults, energy = world.scenario.faults, world.simulation.energy
    named = {"crashes": faults.crashes, "blockage": faults.blockage, "stragglers": faults.stragglers}
    named["jammer"] = faults.jammer
    found = [f"{key} ({part.name})" for key, part in named.items() if part.name != "none"]
    if faults.crashes.name != "none":
        found.append(f"rejoin by {'listening' if faults.rejoin == 'listen' else 'keeping the model'}")
    if energy.finite:
        found.append(f"batteries of {prefixed(energy.battery_j.min(), 'J')} to {prefixed(energy.battery_j.max(), 'J')}")
    return ", ".join(found) or "none"


def _heard(world: World) -> str:
    if world.scenario.silent:
        return "nobody: nothing is sent"
    if world.reach is not None:
        return (
            f"everyone near: what is not a neighbour's adds up as interference, and leaks, without {world.reach.words}"
        )
    if world.scenario.radio.interference == "physical":
        return "everyone: what is not a neighbour's adds up as interference, and leaks"
    return "neighbours only: the air adds up the graph's links and nothing else (as in the paper)"


def _labels(world: World) -> str:
    """How labels fall to nodes: counts of each class where that is short, else the extremes."""
    data = world.data
    if data.task == "regression":
        means = [float(data.train_y[client].mean()) for client in world.client_indices]
        return f"real numbers, {min(means):.3g} to {max(means):.3g} in the mean of a node"
    counts = class_histogram(data.train_y, world.client_indices, data.classes)
    held, most = (counts > 0).sum(axis=1), (counts / counts.sum(axis=1, keepdims=True)).max(axis=1)
    lines = [
        f"{held.min()} to {held.max()} of {data.classes} classes a node; "
        f"its commonest is {most.min():.0%} to {most.max():.0%} of what it has"
    ]
    if data.classes <= _MOST_CLASSES:
        width = len(str(counts.max()))
        lines += [
            f"node {node:>{len(str(world.nodes))}}: " + " ".join(f"{count:>{width}}" for count in row)
            for node, row in enumerate(counts[:_MOST_NODES])
        ]
        if len(counts) > _MOST_NODES:
            lines.append(f"and {len(counts) - _MOST_NODES} more nodes")
    return "\n".join(lines)
