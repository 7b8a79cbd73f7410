"""A verdict before training: what the power plan promises and what its noise will do to learning.

The network's model is the pi-weighted mean of all models. In a round its noise has norm
gamma rho sqrt(m sum pi_j^2 beta_j/alpha_j), and its update at most gamma C sum pi_j mult_j, when every node's
gradient reaches the clip and all agree: gamma C K, or gamma C without multipliers. Their ratio says whether a
round moves towards the optimum or mostly at random; both shrink with gamma alike, so it holds for the whole run.
Noise that pairs of nodes share cancels in that mean, so only own_share of beta_j/alpha_j counts where there are pairs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from wirelessdl.access import CarryPreview, Sending
from wirelessdl.access.passes import noise_of_mean
from wirelessdl.arrays import FloatArray
from wirelessdl.contract import capability
from wirelessdl.gaussian import slot_epsilon, slot_mu
from wirelessdl.learning.clipping import sensitivity
from wirelessdl.mechanism import Protection
from wirelessdl.mechanism.gram import share_mu
from wirelessdl.power.allocate import PowerAllocator
from wirelessdl.power.joint import JointPlan
from wirelessdl.power.problem import TOLERANCE, PowerPlan
from wirelessdl.privacy.terms import Exposure, PrivacyAssumptions, kept_declaration
from wirelessdl.privacy.totals import release_mu
from wirelessdl.radio.frame import Turns
from wirelessdl.radio.frame_channel import FrameChannel, SlotChannel, sinr_db
from wirelessdl.round.releases import PendingGradients
from wirelessdl.run.build import World
from wirelessdl.run.summary import forecast, forecast_input
from wirelessdl.run.warnings import RECEIVER_NOISE_LIMIT, receiver_noise_warnings
from wirelessdl.run.wiring import make_carrier, make_observer, make_planner, make_releases
from wirelessdl.scenario.protection import PrivacySection
from wirelessdl.units import to_s

# Ratios of noise to update. Final accuracy of quickstart and urban_er_k20 over epsilon_max from 0.02 to 4
# falls on one curve of it: .76 at 0.6, .69 at 3, .60 at 6, .43 at 14, .24 at 28, .15 beyond 60.
MAX_RATIO_TRAINS, MAX_RATIO_STRUGGLES = 4.0, 20.0
_CARRY_REALISATIONS = 101  # realisations that frames of a preview draw from
_FRESH_REALISATIONS = 200  # realisations, none of them planned for, that a violation rate is counted on
# realisations of receiver noise, in networks of so many nodes at most
_NOISE_REALISATIONS, _MAX_AVERAGED_NODES = 20, 200


@dataclass(frozen=True)
class PassCost:
    """Mixing passes and their price: airtime of the whole run, and what passes add of it, in s.

    passes: after every payload. closing: further ones in the last round.
    """

    passes: int
    closing: int
    mixing: str
    airtime_s: float
    airtime_passes_s: float


@dataclass(frozen=True, eq=False)
class PlanPreview:
    """A plan and what to expect of it."""

    plan: PowerPlan
    noise_std: float  # of the network's model, per coordinate, in the first round
    node_noise_std: FloatArray  # of each node's transmission, per coordinate, in the first round
    sinr_db: FloatArray  # of the graph's links in the first frame, with the powers of the plan; empty under hubs
    thermal_std: float  # of receiver noise on the network's model, per coordinate in the first round with its passes
    receiver_ratio: float  # its variance over that of privacy noise, both of all rounds; 0 without privacy noise
    left_out: float  # share of receptions that radio.truncate_snr_db leaves out
    noise_to_update: float
    central: float | None  # the same of a trusted holder of all data, at the same promise; None without one
    # total of the worst node if the plan held for the whole run, by accountant: of the promised view, and of own
    forecast: dict[str, float]
    forecast_own: dict[str, float]
    terms: PrivacyAssumptions  # what is promised, and against whom
    privacy: PrivacySection
    protection: Protection  # with everyone on air
    joint: JointPlan | None  # pair ratio and amplitudes, with what they predict for weights of the plan
    passes: PassCost | None
    carry: CarryPreview | None  # what the access says of itself
    first_frame_only: bool  # whether later frames will have other plans
    violation_rate: float | None  # of links in frames the plan has not seen; None where there are none
    verdict: tuple[str, ...]


def preview_plan(world: World) -> PlanPreview:
    """The plan of the first frame, and a verdict; seconds, no training."""
    power, privacy = world.scenario.power, world.scenario.privacy
    channel = make_observer(world).observe(1, 0.0)
    planner = make_planner(world)
    plan = planner.first(channel)
    adaptive = power.schedule == "adaptive" and world.terms.sends
    if adaptive:
        plan = planner.solve_frame(channel)
    if planner.joint is not None:
        plan = replace(plan, notes=tuple(dict.fromkeys((*plan.notes, *planner.joint.notes))))
    alone = plan  # with noise of its own, a sender is hidden from everyone
    everyone, sigma = np.ones(world.nodes, dtype=bool), np.full(world.nodes, privacy.rho)
    protection = planner.protect(plan, everyone, channel.links, sigma)
    plan = protection.plan
    gamma = world.schedule.rate(1)
    parameters = world.learning.learner.size
    ratio = noise_to_update(plan, privacy.clip_norm, parameters)
    violation_rate = None
    if not adaptive and plan.problem.private and world.terms.counts_links:
        fresh = world.fading.gains(channel.heard, channel.mean, _FRESH_REALISATIONS, offset=power.samples)
        violation_rate = _violation_rate(plan, fresh)
    schedule = world.access.schedule(1, channel.links)
    audible = world.access.audible(channel, schedule)
    carry = preview_carry(world, channel)
    noise_std = gamma * plan.noise_per_step
    node_std = gamma * privacy.rho * np.sqrt(plan.beta / plan.alpha)
    if carry is not None and carry.receiver_share is not None:
        receiver_std, left_out = float(node_std.max()) * carry.receiver_share, 0.0
    else:
        receiver_std, left_out = _receiver_noise(world, audible, schedule, plan, gamma)
    receiver_ratio = 0.0
    if noise_std and receiver_std:  # privacy noise falls with the learning rate, receiver noise stays
        rates = np.array([world.schedule.rate(round + 1) for round in range(world.scenario.scenario.rounds)])
        receiver_ratio = float(len(rates) * receiver_std**2 / np.sum((rates * plan.noise_per_step) ** 2))
    # its weights and passes are those of frames that the plan lays out
    joint = None if world.access.lays_out_frames else planner.joint
    given = forecast_input(world)
    promised = forecast(given, plan)
    return PlanPreview(
        plan=plan,
        noise_std=noise_std,
        node_noise_std=node_std,
        sinr_db=np.zeros(0) if world.access.lays_out_frames else _sinr_db(world, audible, schedule, plan),
        thermal_std=receiver_std,
        receiver_ratio=receiver_ratio,
        left_out=left_out,
        noise_to_update=ratio,
        central=_central(world, plan),
        forecast=promised,
        forecast_own=promised if world.terms.promised == "own" else forecast(given, plan, "own"),
        terms=world.terms,
        privacy=privacy,
        protection=protection,
        joint=joint,
        passes=pass_cost(world),
        carry=carry,
        first_frame_only=adaptive and power.objective != "own-noise",
        violation_rate=violation_rate,
        verdict=(_alone(world.nodes),)
        if not world.terms.sends
        else (
            *([f"totals hold {kept_declaration(world.terms.update)}"] if world.terms.update else ()),
            *_verdict(plan, ratio, receiver_ratio, privacy, world.allocator),
            *receiver_noise_warnings(world.scenario, 1.0, receiver_ratio),
            *_cancelled(joint, world.terms, noise_to_update(alone, privacy.clip_norm, parameters)),
        ),
    )


def preview_carry(world: World, channel: FrameChannel) -> CarryPreview | None:
    """What the access says of a run that begins with this frame; None where it says nothing, or nothing is sent."""
    if world.scenario.alone:
        return None
    schedule = world.access.schedule(1, channel.links)
    audible = world.access.audible(channel, schedule)
    offset = world.scenario.power.samples + _FRESH_REALISATIONS
    pool = world.fading.gains(audible.heard, audible.mean, _CARRY_REALISATIONS, offset=offset)
    return make_carrier(world).preview(audible, schedule, pool)


def _alone(nodes: int) -> str:
    who = "the only node learns from all data" if nodes == 1 else "every node learns from its own data alone"
    return f"nothing is sent, so nothing leaks: {who}"


def _sinr_db(world: World, channel: FrameChannel, schedule: Turns, plan: PowerPlan) -> FloatArray:
    jammer_w = 0.0 if channel.jammer_w is None else channel.jammer_w
    found = sinr_db(
        channel.heard,
        channel.is_neighbour,
        channel.heard_gain,
        power_w=plan.power_w,
        noise_w=world.thermal_w + jammer_w + world.self_interference * plan.power_w,
        turn=schedule.turn,
    )
    return found[channel.is_neighbour]


def _receiver_noise(
    world: World, channel: FrameChannel, schedule: Turns, plan: PowerPlan, gamma: float
) -> tuple[float, float]:
    """Deviation that receivers add to the network's model in a frame, and the share of receptions that is left out.

    Both are means over realisations of the fading, for a receiver that divides by gains suffers from the weakest.
    """
    if world.thermal_w == 0 or world.scenario.alone or world.access.coded:  # a decoded message has no noise in it
        return 0.0, 0.0
    everyone = np.ones(world.nodes, dtype=bool)
    count = _NOISE_REALISATIONS if world.nodes <= _MAX_AVERAGED_NODES else 2
    drawn = world.fading.gains(channel.heard, channel.mean, count, offset=world.scenario.power.samples)
    slots = tuple(SlotChannel(gain, gain) for gain in drawn)
    passes = world.frame.in_round(1, world.scenario.scenario.rounds).passes
    frame = replace(channel, slots=slots, further=(slots,) * passes)
    sigma = np.full(world.nodes, world.scenario.privacy.rho * gamma)
    releases = make_releases(world, PendingGradients(world.nodes))
    carrier = make_carrier(world)
    carrier.expect(frame, plan, schedule)
    model_w, held_square = plan.alpha * releases.budget_w(plan, sigma), releases.held_square(plan, sigma, everyone)
    given = Sending(
        round=1,
        now_ns=0,
        channel=frame,
        on_air=everyone,
        receivers=~everyone,
        turns=schedule,
        plan=plan,
        model_w=model_w,
        listening=~everyone,
        held_square=held_square,
    )
    steps = carrier.carry(given).steps
    noise_w = np.full(world.nodes, world.thermal_w) + (0.0 if channel.jammer_w is None else channel.jammer_w)
    _, receiver = noise_of_mean(steps, everyone, np.zeros(world.nodes), noise_w)
    return float(np.sqrt(receiver)), float(np.mean([slot.known.link == 0 for slot in steps[0].weights.slots]))


def noise_to_update(plan: PowerPlan, clip_norm: float, parameters: int) -> float:
    """Norm of a round's noise over the norm of its largest update, both of the network's model."""
    update = float(np.sum(plan.perron * plan.multiplier)) * clip_norm
    return float(plan.noise_per_step * np.sqrt(parameters) / update)


def _central(world: World, plan: PowerPlan) -> float | None:
    """Norm of a round's noise over the norm of its largest update, of one holder of all data (baseline `central-dp`).

    sqrt(m) sens / (mu C): N samples in all have a sensitivity of 2C/N, and mu keeps the same promise.
    """
    privacy, sampler = world.scenario.privacy, world.learning.sampler
    if world.scenario.alone or not plan.problem.private:
        return None
    whole, drawn = float(np.sum(sampler.sizes)), np.array([float(sampler.divisor.sum())])
    moved = sensitivity(privacy.clipping, privacy.clip_norm, drawn, privacy.adjacency)
    terms, mu = replace(world.terms, coalition=0, promised="own"), slot_mu(privacy.epsilon_max, privacy.delta)
    if privacy.unit == "node":
        return None  # what it protects is all data of one node, and the holder has those of all
    if math.isfinite(privacy.epsilon_total):
        epochs = np.ceil(whole / drawn).astype(np.int64)
        exposure = Exposure(moved, np.minimum(drawn / whole, 1.0) if terms.amplified else np.ones(1), epochs)
        rounds, first = world.scenario.scenario.rounds, max(1, world.learning.frames_of_stage)
        mu = release_mu(privacy.epsilon_total, rounds, exposure, terms, first=first, beside=share_mu(world.scenario))
    return float(np.sqrt(world.learning.learner.size) * moved[0] / (mu * privacy.clip_norm))


def _violation_rate(plan: PowerPlan, fresh: FloatArray) -> float | None:
    """Share of links above epsilon_max over fresh realisations `[N, links]`; None without fading."""
    if len(fresh) == 1 or not fresh.shape[1]:
        return None
    over = slot_epsilon(
        replace(plan.problem, samples=fresh).mu(plan.alpha, plan.power_w, plan.theta), plan.problem.delta
    )
    return float(np.mean(over > plan.problem.epsilon_max * (1.0 + TOLERANCE)))


def _verdict(
    plan: PowerPlan, ratio: float, receiver_ratio: float, privacy: PrivacySection, allocator: PowerAllocator
) -> Iterator[str]:
    nodes, shared = len(plan.alpha), plan.own_share is not None
    looks = bool(capability(allocator, "keeps_epsilon_max"))  # others plan the same whatever noise is needed
    if not plan.problem.private:
        yield "no privacy noise: what limits training is data and channel noise"
        return
    size = f"noise{' that is left in the consensus' if shared else ''} is {ratio:.3g}x the update"
    whole = ratio
    if receiver_ratio > RECEIVER_NOISE_LIMIT:
        whole *= math.sqrt(1.0 + receiver_ratio)
        size += f", {whole:.3g}x with receiver noise"
    if whole <= MAX_RATIO_TRAINS:
        yield f"{size}: should train"
    elif whole <= MAX_RATIO_STRUGGLES:
        yield f"{size}: should train slowly and end well below what it would without noise"
    else:
        yield f"{size}: this will not train"
    if not shared and not _keeps(plan):
        leak = plan.link_epsilon.max()
        yield f"the worst link leaks {leak:.4g} in a slot, above epsilon_max {privacy.epsilon_max:g}"
    if looks and privacy.clipping == "batch" and privacy.unit == "sample" and ratio > MAX_RATIO_TRAINS:
        hint = " (with the hardened protocol)" if privacy.protocol == "paper" else ""
        yield f"per-sample clipping{hint} has a smaller sensitivity, and needs less noise"
    if looks and not plan.balance and plan.fixed is None and plan.theta > 1.05 * nodes:
        yield f"theta is {plan.theta:.3g}; receiver balancing would make it {nodes}"
    if not shared and plan.epsilon_own.max() > 10 * privacy.epsilon_max:
        node = int(np.argmax(plan.epsilon_own))
        other = "" if looks else 'allocator = "lp" with '
        leak = f"{plan.epsilon_own[node]:.3g}" if np.isfinite(plan.epsilon_own[node]) else "without bound"
        yield (
            f"node {node} hides behind others: alone, or against listeners who join forces, its slot leaks "
            f'{leak}; {other}objective = "own-noise" hides every sender by itself'
        )
    if privacy.credit_thermal:
        yield "thermal noise is credited on links: a better receiver than assumed hears more than epsilon says"
    yield from plan.notes


def _cancelled(joint: JointPlan | None, terms: PrivacyAssumptions, independent: float) -> Iterator[str]:
    """What shared noise gains and costs. independent: noise over update if nothing cancelled, with the same promise."""
    if not terms.shares_noise or independent == 0.0:
        return
    if terms.promised == "coalition":
        yield f"independent noise would be {independent:.3g}x, and keep the promise if all other nodes collude"
    else:
        yield "epsilon is promised against all other nodes, so pairs hide nothing; leave privacy.against at auto"
    if joint is not None and (apart := joint.best.apart) > (mean := joint.best.mean):
        yield (
            f"models are predicted to lie {np.sqrt(apart):.3g} per coordinate from their mean, which noise moves by "
            f"{np.sqrt(mean):.3g}: more radio.mixing_passes would help more than less noise"
        )


def _keeps(plan: PowerPlan) -> bool:
    return bool(plan.link_epsilon.max(initial=0.0) <= plan.problem.epsilon_max * (1.0 + TOLERANCE))


def pass_cost(world: World) -> PassCost | None:
    """Of the whole run; None without passes."""
    frame, rounds = world.frame, world.scenario.scenario.rounds
    if not (frame.passes or frame.closing):
        return None
    frames = (frame, frame.in_round(rounds, rounds), replace(frame, passes=0, closing=0))
    first_s, last_s, bare_s = (to_s(one.airtime_ns) for one in frames)
    closed = 1 + frame.opening  # rounds with closing passes
    airtime_s = (rounds - closed) * first_s + closed * last_s
    mixing = "plain" if world.access.separates else world.scenario.radio.mixing
    return PassCost(frame.passes, frame.closing, mixing, airtime_s, airtime_s - rounds * bare_s)
