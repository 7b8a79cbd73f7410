"""What noise that cancels, mixing passes and partial balancing will do, and what they cost, before a run.

Airtime is exact where turns do not change; energy is the most that the plan's powers can take.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.power.joint import RATIOS, Forecast, JointPlan, predict, shapes
from wirelessdl.radio.frame import Frame
from wirelessdl.run.build import World
from wirelessdl.units import to_s

PASSES = (0, 2, 5, 10, 20)  # that a scenario's own number is compared with


@dataclass(frozen=True)
class PassCost:
    """Mixing passes and their price. Times in s, energies of all nodes in J; `*_passes_*`: what passes add of it.

    passes: after every payload. closing: further ones in the last round.
    """

    passes: int
    closing: int
    mixing: str
    round_airtime_s: float
    round_passes_s: float
    airtime_s: float
    airtime_passes_s: float
    energy_j: float
    energy_passes_j: float


def pass_cost(world: World, power_w: FloatArray) -> PassCost | None:
    """Of the whole run with everyone on air; None without passes. power_w: [K] W that nodes radiate at most."""
    frame, rounds = world.frame, world.scenario.scenario.rounds
    if not (frame.passes or frame.closing):
        return None
    last = frame.in_round(rounds, rounds)
    bare = replace(frame, passes=0, closing=0)
    first_s, last_s, bare_s = (to_s(one.airtime_ns) for one in (frame, last, bare))
    airtime_s = (rounds - 1) * first_s + last_s
    radiated = {one: _energy_j(world, one, power_w) for one in (frame, last, bare)}
    energy_j = (rounds - 1) * radiated[frame] + radiated[last]
    return PassCost(
        passes=frame.passes,
        closing=frame.closing,
        mixing=world.scenario.radio.mixing,
        round_airtime_s=first_s,
        round_passes_s=first_s - bare_s,
        airtime_s=airtime_s,
        airtime_passes_s=airtime_s - rounds * bare_s,
        energy_j=energy_j,
        energy_passes_j=energy_j - rounds * radiated[bare],
    )


def trade(joint: JointPlan, counts: Sequence[int] = PASSES) -> tuple[tuple[int, tuple[Forecast, ...]], ...]:
    """Predicted error at every pair ratio, by number of passes: with the best of the exponents that were tried."""
    exponents = sorted({one.exponent for one in joint.tried})
    ratios = sorted({*RATIOS, joint.best.ratio})
    possible, _ = shapes(joint.problem, exponents)
    found = []
    for count in sorted({*counts, joint.problem.passes}):
        problem = replace(joint.problem, passes=count)
        rows = zip(*(predict(problem, shape, ratios) for shape in possible))
        found.append((count, tuple(min(row, key=lambda one: one.error) for row in rows)))
    return tuple(found)


def _energy_j(world: World, frame: Frame, power_w: FloatArray) -> float:
    everyone, nodes = np.ones(world.nodes, dtype=bool), range(world.nodes)
    spent = world.simulation.energy.spent(
        frame,
        power_w=power_w,
        sends=everyone,
        hears=everyone,
        missed=~everyone,
        compute_s=np.array([to_s(world.simulation.duration_ns(node, 1)) for node in nodes]),
    )
    return float(spent.total_j.sum())
