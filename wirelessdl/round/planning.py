"""Step 4 of a round: the power plan, static or for this frame alone."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Links
from wirelessdl.power.allocate import hide_unheard
from wirelessdl.power.problem import PowerPlan, PowerProblem
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.run.world import World

Tell = Callable[[str], None]


class Planner:
    """Plans. The first, for the whole graph, gives theta and serves for good unless plans are adaptive."""

    def __init__(self, world: World, tell: Tell = lambda _: None):
        self._world, self._tell = world, tell
        self._adaptive = world.scenario.power.schedule == "adaptive"
        self._first: PowerPlan | None = None
        self._last: tuple[PowerPlan, FloatArray] | None = None

    @property
    def latest(self) -> PowerPlan:
        """The plan in force."""
        plan = self._first if self._last is None else self._last[0]
        assert plan is not None
        return plan

    def first(self, seen: FrameChannel) -> PowerPlan:
        """The plan that theta comes from: for the mean gains, the first ones, or many samples, of all links."""
        if self._first is None:
            power = self._world.scenario.power
            every = seen.slots[0].gain_est if power.reference == "first" else seen.mean
            robust = power.schedule == "robust"
            samples = self._world.sample_gains(seen.heard, seen.mean, power.samples) if robust else None
            heard = heard_more(seen, every)
            self._first = self._world.plan(seen.links, seen.of_links(every), samples=samples, heard=heard)
        return self._first

    def plan(self, seen: FrameChannel, sigma: FloatArray) -> PowerPlan:
        """The plan of a frame in which this is heard, once the first is made. Adaptive: from its estimates.

        After silence a node carries an older gradient, and with it more noise, than its neighbours: sigma_k varies.
        Shift and noise of a sender grow alike, so the program is the one of powers P_k sigma_k^2.
        """
        first = self._first
        assert first is not None
        if not self._adaptive:
            return first
        if not len(seen.heard):  # no link binds anyone; whoever listens all the same meets each one's own noise
            nobody = replace(first.problem, links=seen.links, heard=None)
            return replace(first, alpha=hide_unheard(nobody, first.alpha, first.theta))
        loudness = _loudness(seen, sigma)
        if self._last is not None:
            plan, before = self._last
            if _unchanged(plan.problem, seen) and np.array_equal(before, loudness):
                self._say(plan)
                return plan
        world = self._world
        theta = None if world.scenario.power.balance else first.theta
        heard = heard_more(seen, seen.slots[0].gain_est)
        uneven = bool((loudness != 1.0).any())
        power_w = world.power_w * loudness if uneven else None
        plan = world.plan(seen.links, seen.gain_est, theta, heard=heard, power_w=power_w)
        if uneven:
            plan = replace(plan, problem=replace(plan.problem, power_w=world.power_w), power_w=world.power_w)
        self._say(plan)
        self._last = (plan, loudness)
        return plan

    def _say(self, plan: PowerPlan) -> None:
        """What was done otherwise than in the first plan; said every time, so that it depends on no memory."""
        assert self._first is not None
        if plan.notes and plan.notes != self._first.notes:
            self._tell("; ".join(plan.notes))


def heard_more(seen: FrameChannel, gain: FloatArray) -> tuple[Links, FloatArray] | None:
    """All that is heard, where that is more than the graph's links."""
    return None if seen.inside is None else (seen.heard, gain)


def _loudness(seen: FrameChannel, sigma: FloatArray) -> FloatArray:
    """sigma^2 of each sender over the largest of any that is heard."""
    heard: BoolArray = np.bincount(seen.heard.tx, minlength=len(sigma)) > 0
    if not heard.any():
        return np.ones_like(sigma)
    return np.where(heard, (sigma / sigma[heard].max()) ** 2, 1.0)


def _unchanged(problem: PowerProblem, seen: FrameChannel) -> bool:
    """Whether a plan is for what is seen now."""
    same = _alike(problem.audible, seen.heard) and _alike(problem.links, seen.links)
    return same and np.array_equal(problem.gains[0], seen.slots[0].gain_est)


def _alike(one: Links, other: Links) -> bool:
    return one is other or (np.array_equal(one.rx, other.rx) and np.array_equal(one.tx, other.tx))
