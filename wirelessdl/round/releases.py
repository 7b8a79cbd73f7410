"""Step 5 of a round: what a frame will leak, by the gradients that models carry."""

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.leakage import link_mu, own_mu
from wirelessdl.power.problem import PowerPlan
from wirelessdl.privacy.release import FrameRelease
from wirelessdl.radio.frame_channel import Carried, FrameChannel
from wirelessdl.run.world import World


class Releases:
    """Turns a decided frame into what leaves the antennas."""

    def __init__(self, world: World):
        self._world = world
        self._hardened = world.scenario.privacy.protocol == "hardened"

    def sigma(self, gamma: float, carried: Carried) -> FloatArray:
        """Deviation of eta: aligned with the gradient carried (hardened), or as printed, rho gamma_t."""
        rho = self._world.scenario.privacy.rho
        if not self._hardened:
            return np.full(self._world.nodes, rho * gamma)
        return rho * np.where(carried.gamma > 0, carried.gamma, gamma)

    def own_mu(self, plan: PowerPlan, sigma: FloatArray, carried: Carried) -> FloatArray:
        """What each transmission would leak behind its own noise, by the gradient it carries."""
        shift = self._world.sensitivity * carried.gamma * carried.multiplier
        return own_mu(plan.alpha * plan.power_w, plan.beta * plan.power_w * sigma**2, shift)

    def budget_w(self, plan: PowerPlan, sigma: FloatArray) -> FloatArray:
        """Power that amplitudes are measured against: the plan's, or scaled up to use all of it."""
        if not self._world.scenario.radio.use_full_power:
            return plan.power_w
        radius = self._world.scenario.learning.projection_radius
        peak = np.max(plan.alpha * radius**2 + plan.beta * sigma**2)
        return plan.power_w / peak

    def release(
        self,
        round: int,
        on_air: BoolArray,
        seen: FrameChannel,
        plan: PowerPlan,
        budget_w: FloatArray,
        sigma: FloatArray,
        gamma: float,
        carried: Carried,
    ) -> FrameRelease:
        """What this frame will leak: by the gradients carried, or on links as the paper prints it.

        Slots carry disjoint coordinates, so a sample's shift is shared among them and the worst slot bounds all.
        A jammer's noise hides nothing: it is never counted.
        """
        world = self._world
        model_w, noise_w = plan.alpha * budget_w, plan.beta * budget_w * sigma**2
        shift = world.sensitivity * carried.gamma * carried.multiplier
        printed = np.full(world.nodes, world.sensitivity * gamma * plan.theta)
        on_links = [
            self._on_links(seen, slot.gain, model_w, noise_w, shift if self._hardened else printed)
            for slot in seen.slots
        ]
        return FrameRelease(
            round=round,
            on_air=on_air,
            gamma=carried.gamma,
            multiplier=carried.multiplier,
            own_mu=np.where(on_air, own_mu(model_w, noise_w, shift), 0.0),
            link_rx=seen.heard.rx,
            link_tx=seen.heard.tx,
            link_mu=np.max(on_links, axis=0) if len(on_links) > 1 else on_links[0],
        )

    def _on_links(
        self, seen: FrameChannel, gain: FloatArray, model_w: FloatArray, noise_w: FloatArray, shift: FloatArray
    ) -> FloatArray:
        world = self._world
        thermal_w = world.thermal_w if world.scenario.privacy.credit_thermal else 0.0
        if world.orthogonal:  # nobody else sends when a sender is heard
            tx = seen.heard.tx
            return own_mu(gain**2 * model_w[tx], gain**2 * noise_w[tx] + thermal_w, shift[tx])
        return link_mu(seen.heard, gain, model_w=model_w, noise_w=noise_w, step_sensitivity=shift, thermal_w=thermal_w)
