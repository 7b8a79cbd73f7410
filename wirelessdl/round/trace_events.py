"""What a decided frame says to the trace events, as far as anybody listens."""

import numpy as np

from wirelessdl.round.records import FrameDecision
from wirelessdl.trace.events import TraceEvents


def fire_frame(trace: TraceEvents, time_ns: int, decision: FrameDecision) -> None:
    """Everything that is known when a frame opens, causes first."""
    channel, geometry, plan = decision.channel, decision.channel.links.geometry, decision.plan
    if trace.wanted("mobility.move"):
        trace.fire(
            "mobility.move", time_ns, position_m=geometry.position_m.copy(), velocity_mps=geometry.velocity_mps.copy()
        )
    if trace.wanted("channel.gain"):
        links = channel.heard
        gain, gain_est = channel.heard_gain, channel.heard_gain_est
        trace.fire("channel.gain", time_ns, rx=links.rx, tx=links.tx, gain=gain, gain_est=gain_est)
    if trace.wanted("power.plan"):
        trace.fire("power.plan", time_ns, alpha=plan.alpha, power_w=plan.power_w, theta=plan.theta)
    if trace.wanted("privacy.release"):
        release = decision.release
        trace.fire(
            "privacy.release",
            time_ns,
            round=release.round,
            on_air=release.on_air,
            own_mu=release.own_mu,
            link_rx=release.link_rx,
            link_tx=release.link_tx,
            link_mu=release.link_mu,
        )
    if trace.wanted("phy.tx"):
        sender = np.flatnonzero(decision.on_air)
        trace.fire(
            "phy.tx",
            time_ns,
            round=decision.round,
            node=sender,
            alpha=plan.alpha[sender],
            noise_std=decision.sigma[sender],
        )
    if trace.wanted("phy.rx"):
        trace.fire(
            "phy.rx",
            time_ns,
            round=decision.round,
            rx=channel.heard.rx,
            tx=channel.heard.tx,
            gain=channel.heard_gain,
            weight=decision.weights.actual.link,
            epsilon=decision.link_epsilon,
        )
