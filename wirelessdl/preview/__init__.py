"""Previews of a scenario before it runs: what would run, in words, against whom what is promised, and the cost."""

import math
from collections.abc import Collection

import numpy as np

from wirelessdl.contract import capability
from wirelessdl.learning.models.module import gradient_flops
from wirelessdl.learning.partition import class_histogram
from wirelessdl.links import Links
from wirelessdl.network.topology.physical import heard_within
from wirelessdl.preview.plan import PassCost, PlanPreview
from wirelessdl.privacy.terms import PrivacyAssumptions, kept_declaration
from wirelessdl.run.build import World
from wirelessdl.scenario.protection import PowerSection, PrivacySection
from wirelessdl.units import format_range, prefixed, to_s, w_to_dbm


def coherence(world: World) -> str:
    """How long the channel holds still, against how long a payload takes."""
    payload_s = to_s(world.frame.slots * world.frame.payload_ns)
    if world.scenario.alone:
        return "not used: no node hears another"
    if world.coherence_s is None:
        return "no fading by motion: a gain holds for its payload"
    share = payload_s / world.coherence_s
    if world.access.lays_out_frames:
        return f"coherence {1e3 * world.coherence_s:.3g} ms, a payload {share:.2g} of it"
    slots = world.frame.slots
    sent = "in one slot" if slots == 1 else f"in {slots} slots, each with its own pilots and gains"
    return f"coherence {1e3 * world.coherence_s:.3g} ms, payload {share:.2g} of it: sent {sent}"


def describe(world: World) -> dict[str, str]:
    """What would run, one fact per line, as far as the scenario does not say it in the same words."""
    scenario, links, frame = world.scenario, world.links, world.frame
    degree = links.degree
    sizes = [len(client) for client in world.client_indices]
    privacy, learning = scenario.privacy, scenario.learning
    q = world.learning.sampler.rate
    chain = " + ".join(part.name for part in scenario.channel.models)
    radio = scenario.radio
    interference = "" if world.self_interference == 0 else f", own emission cancelled by {radio.cancellation_db:g} dB"
    passes = f" with {frame.passes} mixing passes" if frame.passes else ""
    turns = "" if scenario.alone else world.access.words(frame.turns)
    divided = f" in {radio.subbands} subbands of {radio.bandwidth_hz / radio.subbands / 1e6:.4g} MHz"
    subbands = divided if radio.subbands > 1 else ""
    thermal = f"{w_to_dbm(world.thermal_w):.1f} dBm thermal noise" if world.thermal_w else "no thermal noise"
    return {
        "network": (
            f"{world.nodes} nodes, {scenario.network.topology.name}, {len(links)} links, "
            f"{_span(degree)} neighbours{_apart(world)}"
            if not scenario.alone
            else f"{world.nodes} node{'s' * (world.nodes > 1)} without links"
        ),
        "heard": _heard(world),
        "channel": f"{chain} at {scenario.channel.frequency_hz / 1e9:g} GHz",
        "radio": f"{_power(world)}, {radio.bandwidth_hz / 1e6:g} MHz{subbands}, {thermal}{interference}",
        **_offsets(world),
        "model": (
            f"{learning.model.name}, {world.learning.learner.size:,} parameters, {learning.dtype}, "
            f"{prefixed(gradient_flops(world.learning.learner), 'FLOP')} for a sample's gradient"
        ),
        "data": (
            f"{world.data.name}, {learning.partition.name}: {_span(sizes)} samples per node, "
            f"{_batches(world)} (q {_span(q, '.3g')})"
        ),
        "engine": (
            f"{world.learning.strategy.name} gradients on {world.learning.device}, {_calls(world)}, "
            f"needs {world.learning.need().formatted()} of memory"
        ),
        "labels": _labels(world),
        "frame": (
            f"{to_s(frame.slots * frame.turns * frame.pilot_ns) * 1e3:.3g} ms pilots, "
            f"{to_s(frame.slots * frame.turns * frame.payload_ns) * 1e3:.3g} ms payload, "
            f"{to_s(frame.airtime_ns) * 1e3:.3g} ms on air per round{passes}{turns}"
            if not world.access.lays_out_frames
            else f"as many turns as gains need, each after {to_s(frame.pilot_ns) * 1e3:.3g} ms pilots of all nodes"
            f"{turns}; {to_s(frame.payload_ns) * 1e3:.3g} ms to send a model once"
        ),
        "time": _time(world),
        "channel in time": coherence(world),
        "privacy": (
            f"{privacy.protocol} protocol, {privacy.noise.name + ' noise' if not scenario.silent else 'no noise'}, "
            f"{privacy.clipping} clipping at "
            f"{privacy.clip_norm:g}, {promise(world.terms, privacy)}{_as_far_as(world)}"
        ),
    }


def _calls(world: World) -> str:
    """How often gradients are asked for in a round, and of how many nodes at once."""
    calls, at_once = world.learning.gradient_calls, world.learning.strategy.chunk
    if calls == 1:
        return "all nodes in one call"
    return f"{calls} calls per round" + (f" of {at_once} nodes" if at_once > 1 else ", node by node")


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
    return {"offsets": world.offsets.in_words(links, of_frames=not world.access.lays_out_frames)}


def _batches(world: World) -> str:
    size = _span(world.learning.sampler.batch_sizes)
    return {
        "full": "all samples in every batch",
        "poisson": f"poisson batches of {size} on average",
        "shuffled": f"batches of {size} from shuffled epochs, which amplify nothing",
    }.get(world.scenario.learning.sampling, f"batches of {size}")


def _time(world: World) -> str:
    """Who waits for whom, by the first round's compute times."""
    time, nodes = world.scenario.time, world.nodes
    first_ms = [1e3 * to_s(world.simulation.duration_ns(node, 1)) for node in range(nodes)]
    return f"{time.policy.name} rounds, {time.compute.name} compute time, {_span(first_ms, '.3g')} ms in the first"


def _span(values: Collection[float], form: str = "") -> str:
    """The least and the largest of some numbers; one where they read the same."""
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least} to {most}"


def _heard(world: World) -> str:
    if world.scenario.alone:
        return "nobody: nothing is sent" if world.scenario.silent else "any reader: the model is published"
    if world.access.lays_out_frames:
        physical = world.scenario.radio.interference == "physical"
        return f"{'everyone' if physical else 'neighbours only'}: who sends to whom follows from gains, turn by turn"
    if world.reach is not None:
        return (
            f"everyone near: what is not a neighbour's adds up as interference, and leaks, without {world.reach.words}"
        )
    if world.scenario.radio.interference == "physical":
        return "everyone: what is not a neighbour's adds up as interference, and leaks"
    return "neighbours only: the air adds up the graph's links and nothing else (as in the paper)"


def _labels(world: World) -> str:
    """How labels fall to nodes: the extremes; `plot --figure partition` of a run draws all."""
    data = world.data
    if data.task == "regression":
        means = [float(data.train_y[client].mean()) for client in world.client_indices]
        return f"real numbers, {min(means):.3g} to {max(means):.3g} in the mean of a node"
    counts = class_histogram(data.train_y, world.client_indices, data.classes)
    held, most = (counts > 0).sum(axis=1), (counts / counts.sum(axis=1, keepdims=True)).max(axis=1)
    return f"{_span(held)} of {data.classes} classes per node; its largest class is {_span(most, '.0%')} of what it has"


EVERYONE = "all other nodes colluding"


def promise(terms: PrivacyAssumptions, privacy: PrivacySection) -> str:
    """The promise as the scenario makes it: of the whole run, or of a slot."""
    if not terms.sends:
        return f"epsilon 0 for {terms.protects}: nothing is sent"
    if math.isfinite(privacy.epsilon_total):
        return (
            f"epsilon {privacy.epsilon_total:g} over the whole run at delta {privacy.delta_total:g} for "
            f"{terms.protects}, against {terms.adversary}"
        )
    if terms.counts_links:
        rests = f", {kept_declaration(terms.update)}" if terms.update else ""
        slot = f"epsilon_max {privacy.epsilon_max:g} per link and slot at delta {privacy.delta:g}"
        return f"{slot} for {terms.protects}{rests}"
    return (
        f"epsilon_max {privacy.epsilon_max:g} per slot at delta {privacy.delta:g} for {terms.protects}, against "
        f"{terms.adversary}"
    )


def cancelling(found: PlanPreview, power: PowerSection) -> dict[str, str]:
    """One fact per line on a promised total, pairwise noise, passes, messages, amplitudes; empty without any."""
    rows: dict[str, str] = {}
    if not found.terms.sends:
        return {"whole run": promise(found.terms, found.privacy)}
    private = found.plan.problem.private
    if private and (math.isfinite(found.privacy.epsilon_total) or not found.terms.counts_links):
        rows["one slot"] = _slot(found)
        rows["whole run"] = _whole(found)
    shared = found.protection.words(found.node_noise_std) if private else ""
    if shared:
        rows["pairs"] = shared
    if found.passes is not None:
        rows["passes"] = _pass_cost(found.passes)
    if found.carry is not None:
        rows[found.carry.title] = found.carry.words
    if power.balance == "partial" and found.joint is not None:
        given = "chosen for the least predicted error" if power.balance_exponent == "auto" else "as set"
        rows["amplitudes"] = (
            f"balanced by power to the exponent {found.joint.best.exponent:.3g} ({given}; 0: by receivers alone, 1: by "
            "power alone)"
        )
    if found.joint is not None:
        best = found.joint.best
        when = " before the closing passes" if found.passes is not None and found.passes.closing else " at the end"
        rows["predicted error"] = (
            f"variance {best.error:.3g} per coordinate of a node's model{when}: {best.mean:.3g} of the consensus, "
            f"{best.apart:.3g} of nodes from it"
        )
    return rows


def _slot(found: PlanPreview) -> str:
    plan, delta = found.plan, found.privacy.delta
    coalition = found.terms.promised == "coalition"
    promised = plan.epsilon_coalition if coalition else plan.epsilon_own
    words = (
        f"epsilon {format_range(promised)} by Theorem 1 at delta {delta:g} for {found.terms.protects}, against "
        f"{found.terms.adversary}"
    )
    count = found.terms.coalition
    if not count:
        return words
    other = (
        f"{format_range(plan.epsilon_own)} against {EVERYONE}"
        if coalition
        else f"{format_range(plan.epsilon_coalition)} against any {count} of them"
    )
    return f"{words}; {other}"


def _whole(found: PlanPreview) -> str:
    first = "; by the first frame's plan" if found.first_frame_only else ""
    words = (
        f"epsilon {totals(found.forecast)} at delta {found.privacy.delta_total:g} for {found.terms.protects}, against "
        f"{found.terms.adversary}"
    )
    if found.terms.promised == "coalition":
        words += f"; {totals(found.forecast_own)} against {EVERYONE}"
    return words + first


def totals(forecast: dict[str, float]) -> str:
    """Totals by accountant, the tightest first."""
    return ", ".join(f"{value:.3g} ({name})" for name, value in sorted(forecast.items(), key=lambda t: t[1]))


def _pass_cost(cost: PassCost) -> str:
    closing = f"{cost.closing} more in the last round" if cost.passes else f"{cost.closing} in the last round"
    counts = [f"{cost.passes} after every payload"] if cost.passes else []
    counts += [closing] if cost.closing else []
    return (
        f"{', '.join(counts)} ({cost.mixing}): {cost.airtime_passes_s:.3g} of {cost.airtime_s:.3g} s on air in the "
        "whole run; they cost no epsilon"
    )
