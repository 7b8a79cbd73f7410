"""Steps 1 and 2 of a round: where nodes are, who hears whom, |h| of every link, and its estimate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from wirelessdl import counter_rng
from wirelessdl.arrays import BoolArray, FloatArray, read_only
from wirelessdl.channel.antennas import combined
from wirelessdl.channel.csi import Csi, Perfect
from wirelessdl.channel.model import Chain, ChannelGains
from wirelessdl.channel.server import ServerParts
from wirelessdl.contract import NON_NEGATIVE, Guard, capability, checked_array, of_node
from wirelessdl.errors import ContractError
from wirelessdl.links import Geometry, Instants, Links, MovingLinks
from wirelessdl.network.mobility import Mobility, has_motion, require_geometry, require_motion
from wirelessdl.network.topology import Connectivity, SnrDb, Topology, drawn_links, require_links
from wirelessdl.network.topology.physical import heard_within
from wirelessdl.radio.faults import Blockage, Jammer
from wirelessdl.radio.frame import Frame
from wirelessdl.radio.frame_channel import FrameChannel, ServerSight, SlotChannel, root_mean_square
from wirelessdl.radio.live import LiveNetwork
from wirelessdl.radio.offsets import Offsets, one_phase
from wirelessdl.scenario.part import Part
from wirelessdl.streams import Streams
from wirelessdl.units import to_db, to_s


@dataclass(frozen=True, eq=False)
class ObservedParts:
    """The parts that are asked as frames open. channel: None where nothing is sent; blockage, jammer: where none is.

    labels: how the scenario names mobility, topology and CSI, by their keys, for messages.
    """

    mobility: Mobility
    topology: Topology
    links: Links  # at the start
    channel: Chain | None
    csi: Csi
    blockage: Blockage | None
    jammer: Jammer | None
    server: ServerParts | None
    labels: Mapping[str, Part]
    live: LiveNetwork | None = None  # what processes change; None without any


@dataclass(frozen=True, eq=False)
class RadioSettings:
    """Powers and habits of the radio: power_w [K] budgets; thermal_w as it is added to what is heard; noise_w kTBF."""

    power_w: FloatArray
    thermal_w: float
    noise_w: float
    phase_error_rad: float
    physical: bool  # whether non-neighbours are heard too
    reach_m: float | None = None  # how far away they are heard; None: everywhere
    offsets: Offsets | None = None  # of carriers and timing, and flight time
    arrays: bool = False  # whether h of every antenna is kept: receivers do more with it than combine


class Observer:
    """Observes the channel as frames open; the only one to ask mobility, topology, channel, CSI and faults."""

    def __init__(
        self,
        parts: ObservedParts,
        radio: RadioSettings,
        frame: Frame,
        streams: Streams,
        *,
        rounds: int,
        snr_db: SnrDb,
        joint_window: int,
    ):
        """snr_db: mean SNR of candidate links; joint_window: frames over which links must connect everyone."""
        self.rounds = rounds
        self._parts, self._radio, self._frame, self._streams, self._snr_db = parts, radio, frame, streams, snr_db
        links = parts.links.precomputed()
        self._nodes = links.nodes
        self._follows = capability(parts.topology, "follows_motion")
        self._everyone = links
        self._moving = parts.mobility if has_motion(parts.mobility) else None
        self._near: tuple[Links, Links, BoolArray] | None = None  # the graph's links, all that is heard, which is which
        if radio.physical and radio.reach_m is None:
            self._everyone = Links.from_mask(np.ones((links.nodes, links.nodes), bool), links.geometry).precomputed()
        self._last_geometry = links.geometry
        self._links = links
        self._apart: Links | None = None  # links whose ends were last found apart
        self._heard = links  # all that is heard in the frame that is open
        self._latest_s = 0.0  # for which the channel was asked
        self.connectivity = Connectivity(joint_window)
        self._checksums = {
            "network.topology": crc32(np.concatenate([links.rx, links.tx]).tobytes()),
            "network.mobility": 0,
            "radio.csi": 0,
            "faults.blockage": 0,
            "faults.jammer": 0,
        }
        if parts.live is not None:
            self._checksums["events.processes"] = 0

    def observe(self, round: int, time_s: float) -> FrameChannel:
        """The channel of the frame that opens now. Slots of the frame follow each other at fixed times.

        A frame may end before the fixed time of its last slot: with fewer turns, or messages that nobody has to send.
        The next one is then observed at that time, for models follow links in time, which never goes back.
        """
        time_s = max(time_s, self._latest_s)
        geometry = self._geometry(time_s)
        self._note("network.mobility", geometry.position_m)
        if self._parts.live is not None:
            self._checksums["events.processes"] = crc32(self._parts.live.state(), self._checksums["events.processes"])
        links = self._graph(geometry, time_s)
        channel = self._parts.channel
        if channel is None:  # no links, and nothing to ask about them
            nothing = np.zeros(0)
            return FrameChannel(links, links, None, nothing, (SlotChannel(nothing, nothing),))
        heard, neighbour = self._all_heard(links, geometry) if self._radio.physical else (links, None)
        self._require_apart(heard, time_s)
        self._heard = heard
        jammer_w = self._jammer_w(geometry, time_s)
        noise_w = self._radio.thermal_w if jammer_w is None else self._radio.thermal_w + jammer_w[heard.rx]
        frame = self._frame.in_round(round, self.rounds)
        times_s = [time_s + to_s(frame.opens_ns(slot)) for slot in range(frame.all_slots)]
        self._latest_s = times_s[-1]
        instants = Instants((heard,), (time_s,)) if len(times_s) == 1 else self._instants(heard, times_s)
        air = self._lowered(channel.gains(instants), heard)
        now = air.now.reshape(len(instants), frame.subbands, len(heard))
        first = root_mean_square(list(now[0]))
        mean, aligned, blocked = air.mean[0], neighbour, self._blocked(heard, time_s, first, jammer_w)
        several = channel.array.count > 1
        if several:
            mean = mean * np.where(True if neighbour is None else neighbour, np.sqrt(channel.array.count), 1.0)
        if neighbour is not None and blocked is not None:
            aligned = neighbour & ~blocked  # whom the graph has lost nobody aligns
        phases = self._phases_in_flight(instants, air.phase_rad)
        late_s = self._timing_error_s(round)
        blocks: list[SlotChannel] = []
        for slot, (here, gains) in enumerate(zip(instants.links, now)):
            error_rad, late = self._phase_error_rad(here, _key(round, slot, 0)), self._late(here, late_s)
            for subband, gain in enumerate(gains):
                key = _key(round, slot, subband)
                if several or self._radio.arrays:
                    assert air.antennas is not None
                    blocks.append(self._array(here, neighbour, air.antennas[slot], noise_w, key, error_rad, late))
                    continue
                # noise of a subband and power in it are both 1/N of the band's: their ratio is the band's
                estimate, off_rad = self._estimate(here, gain, noise_w, key)
                self._note("radio.csi", estimate)
                if error_rad is not None:
                    off_rad = error_rad if off_rad is None else off_rad + error_rad
                if phases is None:
                    phase_rad = self._phase_rad(here, aligned, off_rad, key)
                else:
                    graph = aligned if neighbour is not None or blocked is None else ~blocked
                    phase_rad = one_phase(here, graph, estimate, phases[slot, subband])
                    phase_rad = phase_rad if off_rad is None else phase_rad + off_rad
                blocks.append(SlotChannel(gain, estimate, phase_rad, late))
        each = frame.blocks
        payload = tuple(blocks[:each])
        further = tuple(tuple(blocks[n : n + each]) for n in range(each, len(blocks), each))
        server = None
        if self._parts.server is not None and self._parts.server.up(round):
            server = self._sight(self._parts.server, round, time_s, jammer_w)
        return FrameChannel(links, heard, neighbour, mean, payload, jammer_w, blocked, further, frame.subbands, server)

    def _sight(self, server: ServerParts, round: int, time_s: float, jammer_w: FloatArray | None) -> ServerSight:
        """h to and from the server by the pilots of the frame."""
        up, down, mean = server.h_at([self._geometry(time_s)], [time_s])
        lowered = self._amplitude()
        if lowered is not None:
            up, mean = up * lowered, mean * lowered
        noise_w: float | FloatArray = self._radio.thermal_w
        up = self._by_pilots(up[0], "network.server.up", (round,), noise_w, self._radio.power_w)
        at_nodes_w = noise_w if jammer_w is None else noise_w + jammer_w
        down = self._by_pilots(down[0], "network.server.down", (round,), at_nodes_w, server.power_w)
        self._note("radio.csi", up)
        return ServerSight(up, np.sqrt(np.sum(np.abs(down) ** 2, axis=0)), mean)

    def server_at(self, times_s: Sequence[float]) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """h of the frame that is open at later instants, `[instants, M, K]`: to the server's antennas, and from its
        first to those of every node.
        """
        assert self._parts.server is not None
        times_s = [max(when_s, self._latest_s) for when_s in times_s]
        self._latest_s = times_s[-1]
        up, down, _ = self._parts.server.h_at([self._geometry(when_s) for when_s in times_s], times_s)
        lowered = self._amplitude()
        return (up if lowered is None else up * lowered), down

    def _by_pilots(
        self,
        h: NDArray[np.complex128],
        stream: str,
        key: tuple[int, ...],
        noise_w: float | FloatArray,
        power_w: float | FloatArray,
        links: Links | None = None,
    ) -> NDArray[np.complex128]:
        """Estimate of h of several antennas, `[M, n]`; links: whose numbers select draws."""
        if type(self._parts.csi) is Perfect:
            return h
        own = np.arange(h.shape[1]) if links is None else links.number
        number = own + (h.shape[1] if links is None else links.nodes**2) * np.arange(len(h))[:, None]
        error = counter_rng.complex_normal(counter_rng.key(self._streams.draws(stream, *key)), number.reshape(-1))
        deviation = np.sqrt(noise_w / (power_w * capability(self._parts.csi, "symbols")))
        return np.asarray(h + error.reshape(h.shape) * deviation)

    def _array(
        self,
        links: Links,
        neighbour: BoolArray | None,
        h: NDArray[np.complex128],
        noise_w: float | FloatArray,
        key: tuple[int, ...],
        error_rad: FloatArray | None,
        late: FloatArray | None,
    ) -> SlotChannel:
        """A block as several antennas hear it, h: [M, links]; combined, and antenna by antenna where that is kept."""
        estimate = self._by_pilots(h, "radio.csi", key, noise_w, self._radio.power_w[links.tx], links)
        gain, size, off_rad = combined(h, estimate)
        gain = size if estimate is h else gain
        self._note("radio.csi", size)
        if neighbour is not None:  # a combiner that is matched to somebody else
            gain, size = (np.where(neighbour, of, np.abs(one[0])) for of, one in ((gain, h), (size, estimate)))
            gain = size if estimate is h else gain
        if self._radio.arrays:
            return SlotChannel(gain, size, None, late, h, estimate)
        exact = estimate is h and error_rad is None
        turned = self._phase_rad(links, neighbour, off_rad if error_rad is None else off_rad + error_rad, key)
        return SlotChannel(gain, size, None if exact and neighbour is None else turned, late)

    def gains_at(
        self, wanted: Links, times_s: Sequence[float], *, goes_on: bool = False
    ) -> tuple[FloatArray, NDArray[np.complex128] | None]:
        """|h| of some links that are heard in the open frame, at later instants of it, `[instants, links]`, several
        antennas combined; and complex h, `[instants, M, links]`.

        The graph is that of its opening. goes_on: whether blocks without a duration are as long as the frame.
        """
        channel = self._parts.channel
        assert channel is not None
        times_s = [max(when_s, self._latest_s) for when_s in times_s]
        self._latest_s = times_s[-1]
        found = self._lowered(channel.gains(self._instants(self._heard, times_s), wanted, goes_on=goes_on), wanted)
        h = found.antennas
        if h is None or channel.array.count == 1:
            return found.now, h
        return np.sqrt(np.sum(np.abs(h) ** 2, axis=1)), h

    def _amplitude(self) -> FloatArray | None:
        """By how much processes lowered each node's amplitude, `[K]`; None where none did."""
        return None if self._parts.live is None else self._parts.live.amplitude()

    def _lowered(self, air: ChannelGains, links: Links) -> ChannelGains:
        """Gains of links whose senders processes told to send below their budget."""
        lowered = self._amplitude()
        if lowered is None:
            return air
        factor = lowered[links.tx]
        h = None if air.antennas is None else air.antennas * factor
        return ChannelGains(air.now * factor, air.mean * factor, air.phase_rad, h)

    def _instants(self, links: Links, times_s: Sequence[float]) -> Instants:
        """The same links at several instants."""
        if self._moving is None or (self._parts.live is not None and self._parts.live.moved):
            return Instants(tuple(links.at(self._geometry(when_s)) for when_s in times_s), tuple(times_s))
        with self._guard("network.mobility"):
            motion = self._moving.motion(times_s)
        motion = require_motion(motion, self._nodes, times_s, self._parts.labels["network.mobility"].name)
        return Instants(MovingLinks(links, motion), tuple(times_s))

    def checksums(self) -> dict[str, int]:
        """Of everything that was observed so far, by what gave it; causes before what they affect."""
        own = self._checksums
        processes = {name: own[name] for name in own if name == "events.processes"}
        first, last = ("network.mobility", "network.topology"), ("faults.jammer", "faults.blockage", "radio.csi")
        return {
            **processes,
            **{name: own[name] for name in first},
            **({} if self._parts.channel is None else self._parts.channel.checksums),
            **({} if self._parts.server is None else self._parts.server.channel.checksums),
            **{name: own[name] for name in last},
        }

    def _geometry(self, time_s: float) -> Geometry:
        part = self._parts.labels["network.mobility"]
        with self._guard("network.mobility"):
            geometry = self._parts.mobility.geometry(time_s)
        if part.is_user_class or geometry is not self._last_geometry:
            found = require_geometry(geometry, self._nodes, time_s, part.name)
            if not (part.is_user_class and found.equals(self._last_geometry)):  # what follows from it holds
                self._last_geometry = found
        live = self._parts.live
        return self._last_geometry if live is None else live.placed(self._last_geometry, time_s)

    def _graph(self, geometry: Geometry, time_s: float) -> Links:
        """The graph as drawn, or what motion makes of it."""
        if not self._follows:
            return self._parts.links.at(geometry)
        rng = self._streams.world("network.topology")
        with self._guard("network.topology"):
            links = drawn_links(self._parts.topology, geometry, self._snr_db, rng, time_s)
        links = require_links(links, geometry, is_user_class=self._parts.labels["network.topology"].is_user_class)
        if np.array_equal(links.rx, self._links.rx) and np.array_equal(links.tx, self._links.tx):
            links = self._links.at(geometry)  # what was worked out of the same links holds
        self._links = links
        self._note("network.topology", np.concatenate([links.rx, links.tx]))
        self.connectivity.add(links)
        return links

    def _require_apart(self, links: Links, time_s: float) -> None:
        """Raise where motion has brought both ends of a link to one point: it would have no length."""
        if links is self._apart:
            return
        together = np.flatnonzero(links.distance_m == 0)
        if len(together):
            rx, tx = int(links.rx[together[0]]), int(links.tx[together[0]])
            moved = self._parts.live is not None and self._parts.live.moved
            what = "events.processes" if moved else f"network.mobility: {self._parts.labels['network.mobility'].name}"
            raise ContractError(f"{what} has nodes {tx} and {rx} at one point at {time_s:g} s; a link needs a length")
        self._apart = links

    def _all_heard(self, links: Links, geometry: Geometry) -> tuple[Links, BoolArray]:
        """All that is heard, and which of it is the graph's: every pair, or those within reach."""
        if self._radio.reach_m is not None:
            if self._near is None or self._near[0] is not links:
                self._near = (links, *heard_within(links, self._radio.reach_m))
            return self._near[1:]
        # receiver-major order without the diagonal
        self._everyone = self._everyone.at(geometry)
        neighbour = np.zeros(len(self._everyone), dtype=bool)
        neighbour[links.rx * (links.nodes - 1) + links.tx - (links.tx > links.rx)] = True
        return self._everyone, neighbour

    def _estimate(
        self, links: Links, gain: FloatArray, noise_w: float | FloatArray, key: tuple[int, ...]
    ) -> tuple[FloatArray, FloatArray | None]:
        """Estimate of |h| and the phase by which alignment to it is off, `[links]` each; None: it is not."""
        if type(self._parts.csi) is Perfect:
            return gain, None
        rng = self._streams.draws("radio.csi", *key)
        part = self._parts.labels["radio.csi"]
        with Guard(f"radio.csi: {part.name}", is_user_class=part.is_user_class):
            given, pilot_w = read_only(gain), read_only(self._radio.power_w)
            noise_w = noise_w if isinstance(noise_w, float) else read_only(noise_w)
            estimate = self._parts.csi.estimate(links, given, pilot_w, noise_w, rng)
            if estimate is given:
                return gain, None
            complex_valued = np.iscomplexobj(estimate)
        rules: dict[str, Any] = {"place": links.place, "is_user_class": part.is_user_class}
        name, each = f"radio.csi: {part.name}", "one estimate per link"
        if not complex_valued:
            return checked_array(name, estimate, gain.shape, each, NON_NEGATIVE, **rules), None
        found = checked_array(name, estimate, gain.shape, each, dtype=np.complex128, **rules)
        return np.maximum(found.real, 0.0), np.angle(found)

    def _phase_error_rad(self, links: Links, key: tuple[int, ...]) -> FloatArray | None:
        """What alignment leaves of each link's phase in a slot, `[links]`, the same in all subbands; None for none."""
        deviation = self._radio.phase_error_rad
        if deviation == 0:
            return None
        word = counter_rng.key(self._streams.draws("radio.phase", *key))
        return np.asarray(deviation * counter_rng.normal(word, links.number))

    def _phase_rad(
        self, links: Links, neighbour: BoolArray | None, error_rad: FloatArray | None, key: tuple[int, ...]
    ) -> FloatArray | None:
        """Phase of each link in a block, `[links]`; None where all are aligned. Nobody aligns to a non-neighbour."""
        if neighbour is None or (error_rad is None and neighbour.all()):
            return error_rad
        word = counter_rng.key(self._streams.draws("radio.stranger_phase", *key))
        strange = 2.0 * np.pi * counter_rng.uniform(word, links.number)[0]
        return np.where(neighbour, 0.0 if error_rad is None else error_rad, strange)

    def _phases_in_flight(self, instants: Instants, phase_rad: FloatArray | None) -> FloatArray | None:
        """Phases of the channel and of the way, `[instants, subbands, links]`; None where each receiver has its own."""
        offsets = self._radio.offsets
        if offsets is None or offsets.flight_hz is None:
            return None
        assert phase_rad is not None
        way = np.stack([offsets.flight_rad(links) for links in instants.links])
        return np.asarray(phase_rad.reshape(way.shape) + way)

    def _timing_error_s(self, round: int) -> FloatArray | None:
        """Timing error of every node in a round, `[K]` s; None without any."""
        if self._radio.offsets is None or self._radio.offsets.error_s == 0:
            return None
        word = counter_rng.key(self._streams.draws("radio.timing_error", round))
        return np.asarray(self._radio.offsets.error_s * counter_rng.normal(word, np.arange(self._nodes)))

    def _late(self, links: Links, error_s: FloatArray | None) -> FloatArray | None:
        """By how many symbols each link is late, `[links]`; None where everything is in step."""
        offsets = self._radio.offsets
        return None if offsets is None or not offsets.delayed else offsets.lateness(links, error_s)

    def _jammer_w(self, geometry: Geometry, time_s: float) -> FloatArray | None:
        jammer = self._parts.jammer
        own_w = None if self._parts.live is None else self._parts.live.jam_w()
        if jammer is None:
            return own_w
        with Guard(name := f"faults.jammer: {type(jammer).__name__}.noise_w"):
            answer = jammer.noise_w(geometry, time_s)
        jammer_w = checked_array(
            name, answer, (geometry.nodes,), "one power in W per node", NON_NEGATIVE, place=of_node
        )
        self._note("faults.jammer", jammer_w)
        return jammer_w if own_w is None else jammer_w + own_w

    def _blocked(self, heard: Links, time_s: float, gain: FloatArray, jammer_w: FloatArray | None) -> BoolArray | None:
        blockage, radio = self._parts.blockage, self._radio
        own = None if self._parts.live is None else self._parts.live.blocked(heard)
        if blockage is None:
            return own
        noise_w = radio.noise_w if jammer_w is None else radio.noise_w + jammer_w[heard.rx]
        snr_db = to_db(np.asarray(gain**2 * radio.power_w[heard.tx] / noise_w))
        with Guard(name := f"faults.blockage: {type(blockage).__name__}.blocked"):
            answer = blockage.blocked(heard, time_s, snr_db)
        found = checked_array(
            name, answer, (len(heard),), "whether each link is blocked", NON_NEGATIVE, place=heard.place
        )
        self._note("faults.blockage", found)
        return found.astype(bool) if own is None else found.astype(bool) | own

    def _guard(self, where: str) -> Guard:
        part = self._parts.labels[where]
        name = f"{where}: {part.name}"
        return Guard(name, is_user_class=part.is_user_class, built_in=f"{name}: ")

    def _note(self, name: str, values: NDArray[Any]) -> None:
        self._checksums[name] = crc32(values.tobytes(), self._checksums[name])


def _key(round: int, slot: int, subband: int) -> tuple[int, ...]:
    """Key of a block's draws; dividing the band or the payload leaves the draws of the first block as they are."""
    if subband:
        return (round, slot, subband)
    return (round, slot) if slot else (round,)
