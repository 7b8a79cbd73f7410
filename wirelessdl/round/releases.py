"""Step 5 of a round: what a frame will leak, by the gradients that are pending.

Between two frames a node's model x holds a gradient step that no transmission has carried yet. Three things must
agree on it, or an epsilon is wrong: the charge of the next transmission (learning rate and multiplier of that
gradient), the noise aligned with it, and the model itself. `PendingGradients` keeps the first two and is the only
maker of `ModelUpdate`, which tells the learning engine what becomes of the third:

    withdraw   the step will never be sent: x goes back to Proj(s), what the node held before it
    keep       the node takes no part: x and s stay, and so does what is pending
    step       gamma * multiplier of the gradient that x takes now; 0 leaves x at Proj(s), nothing pending
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.leakage import link_mu, own_mu
from wirelessdl.learning.records import ModelUpdate
from wirelessdl.power.problem import PowerPlan
from wirelessdl.privacy.ledger import FrameRelease, add_to_stage
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.radio.offsets import masking_share


@dataclass(frozen=True)
class ReleaseSettings:
    """What decides how much a release leaks, the same in every round.

    sensitivity: [K] of each node's gradient. credited_thermal_w: receiver noise that hides senders on links, 0 where
    none is credited. full_power_radius: projection radius per coordinate where transmissions are scaled up to the full
    budget, None where they are not. promised: the view in which epsilon is promised. counts_links: whether what one
    receiver hears is accounted for. radius: projection radius per coordinate. step_rms: root mean square of a
    coordinate of the longest clipped gradient. coded: models go in messages, which tell all of a release or nothing,
    whatever the gain. least_step: gamma * multiplier that a gradient is charged with at least.
    """

    protocol: Literal["hardened", "paper"]
    rho: float
    sensitivity: FloatArray
    credited_thermal_w: float
    orthogonal: bool
    full_power_radius: float | None
    promised: Literal["own", "coalition"] = "own"
    counts_links: bool = True
    radius: float = 1.0
    step_rms: float = 1.0
    coded: bool = False
    least_step: float = 0.0

    @property
    def hardened(self) -> bool:
        return self.protocol == "hardened"


class PendingGradients:
    """Learning rate and multiplier of the gradient in each node's model that it has not sent, `[K]`; 0 for none."""

    def __init__(self, nodes: int, *, stage: bool = False):
        """stage: whether training begins with a Gram stage."""
        self.gamma: FloatArray = np.zeros(nodes)
        self.multiplier: FloatArray = np.zeros(nodes)
        self._withdrawn: BoolArray = np.zeros(nodes, dtype=bool)
        # of a Gram stage: mu that each node is charged with so far, by view
        self.stage = {view: np.zeros(nodes) for view in ("own", "coalition") if stage}

    def begin(self, learning_rate: FloatArray, multiplier: FloatArray) -> None:
        """A Gram stage begins: every node holds its triangle, charged as a gradient, `[K]` each."""
        self._settle(learning_rate, multiplier)

    def hold(self, absent: BoolArray) -> ModelUpdate:
        """A frame of the stage ends, and others follow: nobody takes a step, and what is pending stays."""
        withdrawn, self._withdrawn = self._withdrawn, np.zeros_like(self._withdrawn)
        return ModelUpdate(withdraw=withdrawn, keep=absent, step=self.gamma * self.multiplier)

    def beyond(self, view: str, mu: FloatArray) -> FloatArray:
        """What a frame of the stage adds to its charge, `[K]`: frames are one release with the largest mu of them."""
        self.stage[view], added = add_to_stage(self.stage[view], mu)
        return added

    def withdraw(self, nodes: BoolArray) -> None:
        """The gradients of these nodes, `[K]`, will never be sent; their models lose them with the next update."""
        self._withdrawn = self._withdrawn | nodes
        self._settle(np.where(nodes, 0.0, self.gamma), np.where(nodes, 0.0, self.multiplier))

    def update(
        self, *, stepped: BoolArray, absent: BoolArray, learning_rate: float, multiplier: FloatArray
    ) -> ModelUpdate:
        """A frame ends: who takes a gradient step, who took no part, `[K]` each; everyone else only mixes.

        A node that mixed without a step holds a function of what was sent: nothing is pending there.
        """
        withdrawn, self._withdrawn = self._withdrawn, np.zeros_like(self._withdrawn)
        self._settle(
            np.where(stepped, learning_rate, np.where(absent, self.gamma, 0.0)),
            np.where(stepped, multiplier, np.where(absent, self.multiplier, 0.0)),
        )
        return ModelUpdate(withdraw=withdrawn, keep=absent, step=stepped * learning_rate * multiplier)

    def state(self) -> dict[str, NDArray[Any]]:
        stage = {f"stage_{view}": charged for view, charged in self.stage.items()}
        return {"gamma": self.gamma, "multiplier": self.multiplier, **stage}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._settle(state["gamma"], state["multiplier"])
        self.stage = {view: state[f"stage_{view}"].copy() for view in self.stage}

    def _settle(self, gamma: FloatArray, multiplier: FloatArray) -> None:
        # new arrays, never edited: a release that was written down keeps what it was made from
        self.gamma, self.multiplier = gamma, multiplier


class Releases:
    """Turns a decided frame into what leaves the antennas."""

    def __init__(self, settings: ReleaseSettings, pending: PendingGradients):
        self._settings, self._pending = settings, pending

    def sigma(self, gamma: float) -> FloatArray:
        """Deviation of eta, `[K]`: aligned with the pending gradient (hardened), or as printed, rho gamma_t."""
        rho, pending = self._settings.rho, self._pending.gamma
        if not self._settings.hardened:
            return np.full(len(pending), rho * gamma)
        return rho * np.where(pending > 0, pending, gamma)

    def promised_mu(self, plan: PowerPlan, sigma: FloatArray) -> FloatArray:
        """What each transmission would leak to those against whom it is promised, by the pending gradient, `[K]`."""
        share = plan.coalition_share if self._settings.promised == "coalition" else plan.own_share
        noise_w = plan.beta * plan.power_w * sigma**2 * (1.0 if share is None else share)
        return own_mu(plan.alpha * plan.power_w, noise_w, self._shift())

    def budget_w(self, plan: PowerPlan, sigma: FloatArray) -> FloatArray:
        """Power that amplitudes are measured against, `[K]`: the plan's, or scaled up to use all of it."""
        radius = self._settings.full_power_radius
        if radius is None:
            return plan.power_w
        peak = np.max(plan.alpha * radius**2 + plan.beta * sigma**2)
        return plan.power_w / peak

    def held_square(self, plan: PowerPlan, sigma: FloatArray, on_air: BoolArray) -> float:
        """Mean square of a coordinate at which what a node holds and sends on takes all its power, none for noise.

        What nodes hold after averaging is at most the ball's radius plus the noise that was sent, on average: public
        numbers. Interference, receiver noise and a polynomial's overshoot come on top: who holds more scales it down.
        """
        noise = np.max(np.where(on_air, plan.beta / plan.alpha * sigma**2, 0.0), initial=0.0)
        peak = float(self._settings.radius**2 + noise)
        return max(1.0, peak) if self._settings.full_power_radius is None else peak

    def apart_square(self, plan: PowerPlan, sigma: FloatArray, gamma: float, on_air: BoolArray) -> float:
        """D: mean square of a coordinate by which what nodes send differs; public, from the plan and the schedule.

        Variance of the noise, own and shared, mean over those on air, and the square of a step, gamma theta C: models
        that were equal before it differ by no more. It is never measured on models.
        """
        noise = np.where(on_air, plan.beta / plan.alpha * sigma**2, 0.0).sum() / max(1, int(on_air.sum()))
        return float(noise + (gamma * plan.theta * self._settings.step_rms) ** 2)

    def release(
        self,
        round: int,
        on_air: BoolArray,
        channel: FrameChannel,
        plan: PowerPlan,
        budget_w: FloatArray,
        sigma: FloatArray,
        gamma: float,
        *,
        stage: bool = False,
        attackers: BoolArray | None = None,
    ) -> FrameRelease:
        """What this frame will leak: by the pending gradients, or on links as the paper prints it.

        Blocks (slots, and subbands of each) carry disjoint coordinates, so a sample's shift is shared among them and
        the worst block bounds all: sum of |shift_b|^2 / sigma_b^2 <= |shift|^2 / min sigma_b^2.
        A jammer's noise hides nothing: it is never counted, nor on links is what attackers, `[K]`, may not have sent.
        stage: whether this is a frame of a Gram stage.
        """
        settings = self._settings
        model_w, noise_w = plan.alpha * budget_w, plan.beta * budget_w * sigma**2
        shift = self._shift(stage=stage)
        hidden = {
            name: np.where(on_air, own_mu(model_w, noise_w * (1.0 if share is None else share), shift), 0.0)
            for name, share in (("own", plan.own_share), ("coalition", plan.coalition_share))
        }
        if stage:
            hidden = {name: self._pending.beyond(name, mu) for name, mu in hidden.items()}
        printed = settings.sensitivity * gamma * plan.theta
        on_links = np.full((1, len(channel.heard)), np.nan)
        if settings.counts_links:
            gains = np.stack([slot.gain for slot in channel.slots])
            moved = shift if settings.hardened else printed
            on_links = self._on_links(channel, gains, model_w, noise_w, moved, attackers)
        return FrameRelease(
            round=round,
            on_air=on_air,
            gamma=self._pending.gamma,
            multiplier=self._pending.multiplier,
            own_mu=hidden["own"],
            coalition_mu=None if plan.coalition_share is None else hidden["coalition"],
            link_rx=channel.heard.rx,
            link_tx=channel.heard.tx,
            link_mu=np.max(on_links, axis=0) if len(on_links) > 1 else on_links[0],
            block_mu=on_links,
            stage=stage,
            counts_links=settings.counts_links,
        )

    def _shift(self, *, stage: bool = False) -> FloatArray:
        """How far one sample that changes moves what each node sends, `[K]`. stage: of a Gram stage."""
        step = np.abs(self._pending.gamma * self._pending.multiplier)
        # the share of rounding in the sensitivity is that of the least step; a triangle has its own
        least = 0.0 if stage else self._settings.least_step
        return np.asarray(self._settings.sensitivity * np.where(step > 0, np.maximum(step, least), 0.0))

    def _on_links(
        self,
        channel: FrameChannel,
        gain: FloatArray,
        model_w: FloatArray,
        noise_w: FloatArray,
        shift: FloatArray,
        attackers: BoolArray | None,
    ) -> FloatArray:
        """mu of every link in every block, `[blocks, links]`. gain: likewise."""
        thermal_w = self._settings.credited_thermal_w
        if self._settings.coded:  # a message that the first attempt did not bring may come with the next
            gain = np.ones_like(gain)
        if self._settings.orthogonal:  # nobody else sends when a sender is heard
            tx = channel.heard.tx
            return own_mu(gain**2 * model_w[tx], gain**2 * noise_w[tx] + thermal_w, shift[tx])
        late = [slot.late for slot in channel.slots if slot.late is not None]
        masks_others = None if len(late) < len(channel.slots) else masking_share(np.stack(late))
        if attackers is not None and attackers.any():
            masks_others = np.where(attackers[channel.heard.tx], 0.0, 1.0 if masks_others is None else masks_others)
        return link_mu(
            channel.heard,
            gain,
            model_w=model_w,
            noise_w=noise_w,
            step_sensitivity=shift,
            thermal_w=thermal_w,
            masks_others=masks_others,
        )
