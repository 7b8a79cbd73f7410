"""Messages of digital access before a run: rates of the first frame, and what fading will make of them.

Frames are delivered with realisations of the fading that the run will not see, each attempt and slot with its own. A
channel that holds still from one attempt to the next has fewer repetitions that help.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.radio.frame_channel import FrameChannel, SlotChannel
from wirelessdl.run.wiring import make_access, make_messages
from wirelessdl.run.world import World
from wirelessdl.units import to_s

_FRAMES, _POOL = 50, 101  # frames that are delivered, realisations that they draw from


@dataclass(frozen=True, eq=False)
class MessagePreview:
    """Means over frames like the first. rate_bps_hz: [K]; first_outage: links without the message after one attempt."""

    bits: int
    rate_bps_hz: FloatArray
    attempts_mean: float
    first_outage: float
    outage_rate: float
    airtime_s: float


def preview_messages(world: World, channel: FrameChannel, offset: int) -> MessagePreview | None:
    """None where models are not sent in messages. channel: the first frame's; offset: samples used before."""
    messages = make_messages(world)
    if messages is None:
        return None
    access, everyone = make_access(world), np.ones(world.nodes, dtype=bool)
    turns = access.turns(1, channel.links)
    channel = access.audible(channel, turns)
    pool = world.fading.gains(channel.heard, channel.mean, _POOL, offset=offset)
    place = 0

    def drawn(times: Sequence[int]) -> Sequence[FloatArray]:
        nonlocal place
        place += len(times)
        return [pool[(place + n) % len(pool)] for n in range(len(times))]

    found = []
    for _ in range(1 if len(pool) == 1 else _FRAMES):
        slots = tuple(SlotChannel(gain, gain) for gain in drawn(range(world.frame.slots)))
        found.append(messages.deliver(replace(channel, slots=slots), everyone, turns, drawn))
    decoded = np.stack([one.decoded_in for one in found])
    frames = [world.frame.taking(turns.count, one.payloads_ns) for one in found]
    return MessagePreview(
        bits=messages.bits,
        rate_bps_hz=found[0].rate_bps_hz,
        attempts_mean=float(np.mean([one.attempts for one in found])),
        first_outage=float(np.mean(decoded != 1)),
        outage_rate=float(np.mean(decoded == 0)),
        airtime_s=float(np.mean([to_s(frame.airtime_ns) for frame in frames])),
    )
