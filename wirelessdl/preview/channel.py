"""The channel of a run before any training: every frame's gains, value for value."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wirelessdl.access import CarryPreview, OpenFrame
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.contract import capability
from wirelessdl.links import Links
from wirelessdl.network.topology import Connectivity
from wirelessdl.preview.plan import preview_carry
from wirelessdl.radio.frame import Participation, Transmissions, subband_offset_hz
from wirelessdl.radio.frame_channel import FrameChannel, sinr_db
from wirelessdl.round.observe import Observer
from wirelessdl.run.build import World
from wirelessdl.run.wiring import make_carrier, make_observer
from wirelessdl.units import from_db, to_db, to_s

_Lasting = Callable[[int, int, FrameChannel, Participation], Transmissions | None]


@dataclass(frozen=True, eq=False)
class ChannelPreview:
    """The air frame by frame."""

    time_s: FloatArray
    frames: tuple[FrameChannel, ...]
    state: IntArray  # line of sight of the first frame's links
    connectivity: Connectivity  # of links that come and go; it has no frames where they do not
    slot_s: tuple[float, ...]  # when the slots of a frame begin, from its start
    outlines_m: tuple[FloatArray, ...]  # [corners, 2] of every building
    carry: CarryPreview | None  # what the access says of itself, from the first frame

    @property
    def links(self) -> Links:
        return self.frames[0].links

    def heard(self) -> tuple[FloatArray, IntArray, IntArray, FloatArray]:
        """time_s, tx, rx, gain: one row for all that is heard, of every slot of every frame.

        gain: [rows], or [rows, subbands] where the band is divided.
        """
        slots = [
            (time_s + offset_s, frame.heard, _by_link(frame, slot))
            for time_s, frame in zip(self.time_s.tolist(), self.frames)
            for slot, offset_s in enumerate(self.slot_s)
        ]
        return (
            np.repeat([time_s for time_s, _, _ in slots], [len(links) for _, links, _ in slots]),
            np.concatenate([links.tx for _, links, _ in slots]),
            np.concatenate([links.rx for _, links, _ in slots]),
            np.concatenate([gain for _, _, gain in slots]),
        )

    def rows(self) -> tuple[FloatArray, IntArray, IntArray, FloatArray]:
        """time_s, tx, rx, gain: one row per link and frame, its first slot's over all subbands."""
        sizes = [len(frame.links) for frame in self.frames]
        return (
            np.repeat(self.time_s, sizes),
            np.concatenate([frame.links.tx for frame in self.frames]),
            np.concatenate([frame.links.rx for frame in self.frames]),
            np.concatenate([frame.gain for frame in self.frames]),
        )

    def over_time(self, tx: int, rx: int) -> tuple[FloatArray, FloatArray]:
        """Instants at which a link exists, and its |h| then."""
        time_s, senders, receivers, gain = self.rows()
        chosen = (senders == tx) & (receivers == rx)
        return time_s[chosen], gain[chosen]


@dataclass(frozen=True, eq=False)
class LinkFacts:
    """Statistics of every link over the frames in which it exists, in order of links."""

    tx: IntArray
    rx: IntArray
    frames: IntArray
    distance_m: FloatArray
    gain_db: FloatArray  # mean power gain
    deepest_db: FloatArray  # least gain met, against the mean
    snr_db: FloatArray  # of the mean gain at full power
    sinr_db: FloatArray  # the same over non-neighbours, jammers and residual self-interference too, mean over frames


def _by_link(frame: FrameChannel, slot: int) -> FloatArray:
    """|h| in a slot, `[heard]` or `[heard, subbands]`."""
    blocks = [block.gain for block in frame.slots[slot * frame.subbands : (slot + 1) * frame.subbands]]
    return blocks[0] if frame.subbands == 1 else np.stack(blocks, axis=1)


class _Watch:
    """Looks when a frame opens, and does nothing else. lasting: of frames that an access lays out; None: as planned."""

    def __init__(self, observer: Observer, on_frame: Callable[[int], None] | None, lasting: _Lasting | None):
        self._observer, self._on_frame, self._lasting = observer, on_frame, lasting
        self.time_s: list[float] = []
        self.frames: list[FrameChannel] = []

    def open_frame(self, round: int, now_ns: int, participation: Participation) -> Transmissions | None:
        self.time_s.append(to_s(now_ns))
        self.frames.append(self._observer.observe(round, to_s(now_ns)))
        if self._on_frame is not None:
            self._on_frame(round)
        return None if self._lasting is None else self._lasting(round, now_ns, self.frames[-1], participation)

    def close_frame(self, round: int, now_ns: int, fallen: BoolArray) -> None:
        pass


def preview_channel(world: World, on_frame: Callable[[int], None] | None = None) -> ChannelPreview:
    """Every frame of the run, without learning."""
    scenario = world.scenario
    observer = make_observer(world)
    watch = _Watch(observer, on_frame, _laid_out(world, observer) if world.access.lays_out_frames else None)
    world.simulation.run(scenario.scenario.rounds, watch)
    state = world.condition.state(watch.frames[0].links)
    joint = Connectivity(scenario.network.joint_window)
    for frame in watch.frames if capability(world.topology, "follows_motion") else ():
        joint.add(frame.links)
    slot_s = tuple(to_s(world.frame.opens_ns(slot)) for slot in range(world.frame.slots))
    return ChannelPreview(
        np.array(watch.time_s),
        tuple(watch.frames),
        state,
        joint,
        slot_s,
        world.outlines_m,
        preview_carry(world, watch.frames[0]),
    )


def _laid_out(world: World, observer: Observer) -> _Lasting:
    """How long frames last whose turns are decided as time goes on: as when a run is replayed, without budgets."""
    access, carrier = world.access, make_carrier(world, observer)
    still_heard = capability(world.blockage, "still_heard")

    def lasting(round: int, now_ns: int, seen: FrameChannel, participation: Participation) -> Transmissions | None:
        turns, ready, on_air = access.schedule(round, seen.links), participation.ready, participation.willing
        channel = access.audible(seen.unblocked(still_heard=still_heard), turns)
        component = access.reached(channel.among(on_air, ready), on_air, world.power_w, world.thermal_w)
        reached = on_air if component is None else on_air & (component >= 0)
        opened = OpenFrame(
            round=round,
            now_ns=now_ns,
            channel=channel.among(reached, ready),
            on_air=reached,
            receivers=ready & ~on_air,
            turns=turns,
        )
        found = carrier.lasting(opened)
        return None if found is None else Transmissions(reached, reached, turns.count, *found)

    return lasting


def link_facts(world: World, found: ChannelPreview) -> LinkFacts:
    """Statistics of all links that ever exist."""
    _, tx, rx, gain = found.rows()
    number = np.concatenate([frame.links.number for frame in found.frames])
    key, first, inverse = np.unique(number, return_index=True, return_inverse=True)
    frames = np.bincount(inverse)
    power = np.bincount(inverse, weights=gain**2) / frames
    distance = np.concatenate([frame.links.distance_m for frame in found.frames])
    deepest = np.full(len(key), np.inf)
    np.minimum.at(deepest, inverse, gain**2)
    noise_w = world.noise_w
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(power > 0, deepest / power, 0.0)
    return LinkFacts(
        tx=tx[first],
        rx=rx[first],
        frames=frames,
        distance_m=np.bincount(inverse, weights=distance) / frames,
        gain_db=to_db(power),
        deepest_db=to_db(relative),
        snr_db=to_db(power * world.power_w[tx[first]] / noise_w),
        sinr_db=to_db(np.bincount(inverse, weights=from_db(_sinr_db(world, found))) / frames),
    )


@dataclass(frozen=True)
class FadingFacts:
    """How the received power of links varies over frames, each link against its own mean; motion is part of it.

    nakagami_m: m of the Nakagami distribution of the same variance, 1 / var(P / mean P); infinity: no variation.
    correlation: of P / mean P in a frame with the same link's in the next; None where nothing varies.
    """

    nakagami_m: float
    correlation: float | None


def fading_facts(found: ChannelPreview) -> FadingFacts | None:
    """Over all links with power that exist in two frames or more; None without any."""
    _, _, _, gain = found.rows()
    number = np.concatenate([frame.links.number for frame in found.frames])
    of_link = np.unique(number, return_inverse=True)[1]
    frames = np.bincount(of_link)
    mean = np.bincount(of_link, weights=gain**2) / frames
    counted = (frames > 1)[of_link] & (mean > 0)[of_link]
    if not counted.any():
        return None
    from_mean = gain[counted] ** 2 / mean[of_link[counted]] - 1.0
    # an unbiased variance: each link's own mean has been taken off
    variance = np.sum(from_mean**2) / np.sum(frames[np.unique(of_link[counted])] - 1)
    if variance < 1e-20:
        return FadingFacts(np.inf, None)
    frame = np.repeat(np.arange(len(found.frames)), [len(seen.links) for seen in found.frames])[counted]
    order = np.lexsort((frame, of_link[counted]))
    value, frame, of = from_mean[order], frame[order], of_link[counted][order]
    follows = (of[1:] == of[:-1]) & (frame[1:] == frame[:-1] + 1)
    before, after = value[:-1][follows], value[1:][follows]
    scale = np.sqrt(np.sum(before**2) * np.sum(after**2))
    return FadingFacts(float(1 / variance), float(np.sum(before * after) / scale) if scale > 0 else None)


def _sinr_db(world: World, found: ChannelPreview) -> FloatArray:
    """SINR of every link in every frame's first slot, everyone at full power; alone where an access lays out frames."""
    noise_w = np.full(world.nodes, world.noise_w) + world.self_interference * world.power_w
    rows, access = [], world.access
    for round, frame in enumerate(found.frames, start=1):
        turn = access.schedule(round, frame.links).turn
        disturbed_w = noise_w if frame.jammer_w is None else noise_w + frame.jammer_w
        meant = np.ones_like(frame.is_neighbour) if access.lays_out_frames else frame.is_neighbour
        heard = sinr_db(frame.heard, meant, frame.heard_gain, power_w=world.power_w, noise_w=disturbed_w, turn=turn)
        rows.append(heard[frame.is_neighbour])
    return np.concatenate(rows)


@dataclass(frozen=True, eq=False)
class FrequencyPreview:
    """The band of a run. gain: [subbands, links] |h| in the first slot of the first frame, by offset_hz.

    delay_spread_s: of the fading models with taps, None without any.
    """

    offset_hz: FloatArray
    gain: FloatArray
    bandwidth_hz: float
    delay_spread_s: float | None

    @property
    def subband_hz(self) -> float:
        return self.bandwidth_hz / len(self.offset_hz)

    @property
    def weakest_db(self) -> FloatArray:
        """Power of each link's weakest subband against its mean over subbands, `[links]` dB."""
        power = self.gain**2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(10.0 * np.log10(power.min(axis=0) / power.mean(axis=0)))


def preview_frequency(world: World, found: ChannelPreview) -> FrequencyPreview | None:
    """None where no channel model depends on frequency and the band is not divided."""
    radio, frame = world.scenario.radio, found.frames[0]
    fading = [model for _, model in world.fading.models if capability(model, "response") is not None]
    if radio.subbands == 1 and not fading:
        return None
    spreads = [s for model in fading if (s := capability(model, "delay_spread_s")) is not None]
    return FrequencyPreview(
        subband_offset_hz(radio.bandwidth_hz, radio.subbands),
        np.stack([frame.of_links(block.gain) for block in frame.slots[: radio.subbands]]),
        radio.bandwidth_hz,
        float(np.sqrt(np.sum(np.square(spreads)))) if spreads else None,
    )
