"""A verdict before training: what the power plan promises and what its noise will do to learning.

The network's model is the pi-weighted mean of all models. In a round its noise has norm
gamma rho sqrt(m sum pi_j^2 beta_j/alpha_j), and its update at most gamma K C, when every node's gradient
reaches the clip and all agree. Their ratio says whether a round moves towards the optimum or
mostly at random; both shrink with gamma alike, so it holds for the whole run.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.errors import WirelessdlError
from wirelessdl.gaussian import analytic_epsilon, slot_epsilon
from wirelessdl.leakage import own_mu
from wirelessdl.learning.clipping import sensitivity
from wirelessdl.power.problem import TOLERANCE, PowerPlan
from wirelessdl.privacy import total_epsilon, valid_accountants
from wirelessdl.privacy.combinations import Accountant, Sampler
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.round.observe import Observer
from wirelessdl.round.planning import Planner, heard_more
from wirelessdl.run.world import World

# Ratios of noise to update. Final accuracy of quickstart and urban_er_k20 over epsilon_max from 0.02 to 4
# falls on one curve of it: .76 at 0.6, .69 at 3, .60 at 6, .43 at 14, .24 at 28, .15 beyond 60.
TRAINS, STRUGGLES = 4.0, 20.0
_FRESH = 200  # realisations, none of them planned for, that a violation rate is counted on


@dataclass(frozen=True, eq=False)
class Preview:
    """A plan and what to expect of it."""

    plan: PowerPlan
    noise_std: float  # of the network's model, per coordinate, in the first round
    node_noise_std: FloatArray  # of each node's transmission, per coordinate, in the first round
    thermal_std: float  # on the network's model, per coordinate and round
    noise_to_update: float
    forecast: dict[str, float]  # own total of the worst node if the plan held for the whole run, by accountant
    first_frame_only: bool  # whether later frames will have other plans
    violation_rate: float | None  # of links in frames the plan has not seen; None where there are none
    verdict: tuple[str, ...]


def preview(world: World) -> Preview:
    """The plan of the first frame, and a verdict; seconds, no training."""
    seen = Observer(world).look(1, 0.0)
    adaptive = world.scenario.power.schedule == "adaptive"
    plan = Planner(world).first(seen)
    if adaptive:
        heard = heard_more(seen, seen.slots[0].gain_est)
        plan = world.plan(seen.links, seen.gain_est, None if plan.balance else plan.theta, heard=heard)
    gamma = world.schedule.rate(1)
    ratio = noise_to_update(world, plan)
    return Preview(
        plan=plan,
        noise_std=gamma * plan.noise_per_step,
        node_noise_std=gamma * world.scenario.privacy.rho * np.sqrt(plan.beta / plan.alpha),
        thermal_std=float(np.sqrt(world.thermal_w * np.sum((plan.perron * plan.weights.scale) ** 2))),
        noise_to_update=ratio,
        forecast=forecast(world, plan),
        first_frame_only=adaptive and world.scenario.power.objective != "own-noise",
        violation_rate=None if adaptive or not plan.problem.private else _violation_rate(world, plan, seen),
        verdict=tuple(_verdict(world, plan, ratio)),
    )


def forecast(world: World, plan: PowerPlan) -> dict[str, float]:
    """Own-noise total of the worst node after all rounds, under every accountant that may count it.

    The paper protocol proves nothing with amplification, and its noise lags behind the gradient it masks.
    """
    privacy, releases = world.scenario.privacy, world.scenario.scenario.rounds - 1
    step = np.full(world.nodes, world.sensitivity * plan.theta)
    mu = own_mu(plan.alpha * plan.power_w, plan.beta * plan.power_w * privacy.rho**2, step)
    if privacy.protocol == "paper":
        rates = np.array([world.schedule.rate(round) for round in range(1, releases + 2)])
        spread = float(np.sqrt(np.sum((rates[:-1] / rates[1:]) ** 2)))
        return {"gdp": float(analytic_epsilon(float(mu.max()) * spread, privacy.delta_total))}
    sampler: Sampler = world.terms.sampler
    names = valid_accountants(sampler, "replace-one", privacy.clipping)
    if not np.isfinite(mu).all():
        return dict.fromkeys(names, math.inf)
    epochs = world.learning.sampler.epoch_rounds  # 1 unless shuffled, where epochs are charged
    charged = [math.ceil(releases / rounds) for rounds in epochs.tolist()]
    triples = sorted({(1.0 / float(m), float(q), n) for m, q, n in zip(mu, world.sampling_rate, charged)})

    def total(name: Accountant, triple: tuple[float, float, int]) -> float:
        return total_epsilon(
            *triple, delta=privacy.delta_total, accountant=name, sampler=sampler, clipping=privacy.clipping
        )

    # dp-accounting takes a second a call: only where the tightest of the quick ones is largest
    slow = {"rdp", "pld"} if sampler == "poisson" else {"rdp"}
    quick: list[Accountant] = [name for name in names if name not in slow]
    tightest: Accountant = "pld" if "pld" in quick else quick[0]
    worst = max(triples, key=lambda triple: total(tightest, triple))
    return {name: total(name, worst) if name in slow else max(total(name, t) for t in triples) for name in names}


def noise_to_update(world: World, plan: PowerPlan) -> float:
    """Norm of a round's noise over the norm of its largest update, both of the network's model."""
    update = world.nodes * world.scenario.privacy.clip_norm
    return float(plan.noise_per_step * np.sqrt(world.learning.learner.size) / update)


def _violation_rate(world: World, plan: PowerPlan, seen: FrameChannel) -> float | None:
    """Share of links above epsilon_max over fresh realisations; None without fading."""
    fresh = world.sample_gains(seen.heard, seen.mean, _FRESH, offset=world.scenario.power.samples)
    if len(fresh) == 1 or not len(seen.heard):
        return None
    over = slot_epsilon(
        replace(plan.problem, samples=fresh).mu(plan.alpha, plan.power_w, plan.theta), plan.problem.delta
    )
    return float(np.mean(over > plan.problem.epsilon_max * (1.0 + TOLERANCE)))


def _verdict(world: World, plan: PowerPlan, ratio: float) -> Iterator[str]:
    privacy, nodes = world.scenario.privacy, world.nodes
    if not plan.problem.private:
        yield "no privacy noise: what limits training is the task and the air"
        return
    size = f"noise is {ratio:.3g}x the update"
    if ratio <= TRAINS:
        yield f"{size}: this trains"
    elif ratio <= STRUGGLES:
        yield f"{size}: this trains slowly and ends well below what it would without noise"
    else:
        yield f"{size}: this will not train"
    if privacy.clipping == "batch" and ratio > TRAINS:
        per_sample = sensitivity("per-sample", privacy.clip_norm, float(world.learning.sampler.divisor.min()))
        other = _try(world, plan, sensitivity=per_sample)
        if other is not None:
            hint = " (with the hardened protocol)" if privacy.protocol == "paper" else ""
            yield f"per-sample clipping{hint} would give {noise_to_update(world, other):.3g}x"
    if not plan.balance and plan.theta > 1.05 * nodes:
        other = _try(world, plan, balance="receiver")
        gain = "" if other is None else f", and the noise {noise_to_update(world, other):.3g}x the update"
        yield f"theta is {plan.theta:.3g}; receiver balancing would make it {nodes}{gain}"
    if plan.epsilon_own.max() > 10 * privacy.epsilon_max:
        node = int(np.argmax(plan.epsilon_own))
        yield (
            f"node {node} hides behind others: alone, or against listeners who join forces, its slot leaks "
            f'{plan.epsilon_own[node]:.3g}; objective = "own-noise" would keep it within {privacy.epsilon_max:g}'
        )
    if privacy.credit_thermal:
        yield "thermal noise is credited on links: a better receiver than assumed hears more than epsilon says"
    yield from plan.notes


def _try(world: World, plan: PowerPlan, **changes: object) -> PowerPlan | None:
    """The plan under other circumstances, where there is one."""
    try:
        return world.allocator.allocate(replace(plan.problem, **changes), None)  # type: ignore[arg-type]
    except WirelessdlError:
        return None
