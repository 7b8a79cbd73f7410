"""What a decided frame tells the trace sources, as far as anybody listens."""

import numpy as np

from wirelessdl.run.recorder import Slot
from wirelessdl.trace.events import TraceEvents


def fire_frame(trace: TraceEvents, time_ns: int, slot: Slot) -> None:
    """Everything that is known when a frame opens, causes first."""
    seen, geometry = slot.seen, slot.seen.links.geometry
    if trace.wanted("mobility.move"):
        trace.fire(
            "mobility.move", time_ns, position_m=geometry.position_m.copy(), velocity_mps=geometry.velocity_mps.copy()
        )
    if trace.wanted("channel.gain"):
        first = seen.slots[0]
        trace.fire(
            "channel.gain", time_ns, rx=seen.heard.rx, tx=seen.heard.tx, gain=first.gain, gain_est=first.gain_est
        )
    if trace.wanted("power.plan"):
        trace.fire("power.plan", time_ns, alpha=slot.alpha, power_w=slot.plan.power_w, theta=slot.plan.theta)
    if trace.wanted("privacy.release"):
        release = slot.release
        names = ("round", "on_air", "own_mu", "link_rx", "link_tx", "link_mu")
        trace.fire("privacy.release", time_ns, **{name: getattr(release, name) for name in names})
    if trace.wanted("phy.tx"):
        sender = np.flatnonzero(slot.on_air)
        trace.fire(
            "phy.tx",
            time_ns,
            round=slot.round,
            node=sender,
            alpha=slot.alpha[sender],
            noise_std=slot.sigma[sender],
        )
    if trace.wanted("phy.rx"):
        trace.fire(
            "phy.rx",
            time_ns,
            round=slot.round,
            rx=seen.heard.rx,
            tx=seen.heard.tx,
            gain=seen.slots[0].gain,
            weight=slot.weights.actual.link,
            epsilon=slot.link_epsilon,
        )
