"""A server: a hub without a model, data or noise of its own (`network.server`, `radio.alignment = "server"`).

    collected   mean = (sum_{j in M} w_j + N(0, N0) / eta) / n,    n = |M|,   eta = min_j |v^H h_j| sqrt(P_j) / rho_j
    sent back   s_j <- mean + noise of variance N0 rms(mean)^2 / (P |h_j|^2),   j in M;     gradients times n

    M    nodes that the server hears with `radio.truncate_snr_db` or more, and that hear it so, by pilots of the frame
    v    its beam, of unit norm (`channel/antennas.py`); P: its power; everything else as of a hub (`access/hubs.py`)

Members invert their channel to the server and send at once; who would need more than their power stays out (truncated
inversion, device selection by SNR). The server holds nothing when a frame opens, adds nothing, and shares no noise: it
counts in no K, theta or c. It is the row after the last node while payloads are carried.

**Privacy.** Each member sends w_j once, charged before; what the server holds and sends back is a function of what was
sent and of receiver noise. So it may be anybody: own totals hold against it, and coalition totals count it among those
who hear everything. Pairs are formed among members, all of which are collected: their noise cancels.

**Failure** (`down`): in these rounds nodes keep models and gradients and send nothing (`without = "wait"`), or hubs
take over (`"hubs"`). A failure between collecting and sending back is `radio.hub_failure`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wirelessdl import counter_rng
from wirelessdl.access import AirSettings, Carried, CarryPreview, MeanErrors, Sending
from wirelessdl.access.hubs import Errors, HubCarrier, Star, reached
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.channel.antennas import heard_through
from wirelessdl.learning.announced import AnnouncedStep
from wirelessdl.radio.frame import AirTime
from wirelessdl.radio.frame_channel import FrameChannel, ServerSight
from wirelessdl.units import dbm_to_w, to_s

if TYPE_CHECKING:
    from wirelessdl.access.oac import Keys
    from wirelessdl.radio.participation import Turns
    from wirelessdl.scenario.schema import Scenario, Server
    from wirelessdl.streams import Streams


def refuse(scenario: "Scenario") -> None:
    """Raise ValueError for what a server has no use for."""
    if scenario.network.server == "none":
        raise ValueError(
            'radio.alignment is "server" without a network.server: add network.server = { at = "center" }, or set '
            'alignment = "hubs"'
        )
    for key, given, fine in (
        ("radio.mixing_passes", scenario.radio.mixing_passes, 0),
        ("learning.closing_passes", scenario.learning.closing_passes, 0),
        ("power.multiplier", scenario.power.multiplier, "auto"),
    ):
        if given != fine:
            raise ValueError(
                f'{key} is {given!r} under radio.alignment "server"; all members end a round with the mean of those '
                f"that were collected, and their number is the multiplier: leave it at {fine!r}"
            )


def server_power_w(server: "Server") -> float:
    return float(dbm_to_w(np.array(server.power_dbm)))


def selected(sight: ServerSight, power_w: FloatArray, server_w: float, thermal_w: float, near_snr: float) -> BoolArray:
    """Which nodes the server collects, and that hear it, `[K]`."""
    noise_w = max(thermal_w, np.finfo(np.float64).tiny)
    back = sight.downlink**2 * server_w / noise_w
    return heard_through(sight.uplink * np.sqrt(power_w / noise_w), back, near_snr) >= near_snr


def reached_by_server(
    channel: FrameChannel,
    on_air: BoolArray,
    power_w: FloatArray,
    thermal_w: float,
    near_snr: float,
    server: "Server",
) -> IntArray:
    """0 for nodes on air that the server collects, `[K]`, -1 for others; while it is down, groups of hubs or none."""
    if channel.server is None:
        if server.without == "hubs":
            return reached(channel, on_air, power_w, thermal_w, near_snr)
        return np.full(len(on_air), -1)
    found = np.full(len(on_air), -1)
    among = np.flatnonzero(on_air)
    sight = channel.server
    part = ServerSight(sight.uplink[:, among], sight.downlink[among], sight.mean[among])
    found[among[selected(part, power_w[among], server_power_w(server), thermal_w, near_snr)]] = 0
    return found


class ServerCarrier(HubCarrier):
    """One turn of the server, or hubs while it has failed."""

    choice_numbers = 1  # what each node holds, rms; the server's choice goes out with its pilot

    def __init__(self, keys: "Keys", given: AirSettings, near_snr: float, streams: "Streams", server: "Server"):
        super().__init__(keys, given, near_snr, streams)
        self._hubs = HubCarrier(keys, given, near_snr, streams) if server.without == "hubs" else None
        self._server_w = server_power_w(server)
        self._power_w = np.append(given.power_w, self._server_w)

    def carry(self, given: Sending) -> Carried:
        if given.channel.server is None and self._hubs is not None:
            return self._hubs.carry(given)
        carried = super().carry(given)
        count = float(given.on_air.sum())
        own_ns = self._payload_ns + (2 * self._slots + 1) * self._given.frame.own_pilot_ns + self._hub_numbers_ns
        rounds = {
            "uncollected": carried.rounds["uncollected"],
            "server_members": count,
            "server_j": self._server_w * to_s(own_ns) if count else 0.0,
        }
        nodes = {name: carried.nodes[name] for name in ("collected", "component")}
        multiplier = np.full(len(given.on_air), count)
        return replace(carried, rounds=rounds, nodes=nodes, states=(), multiplier=multiplier)

    def lasting(
        self,
        round: int,
        now_ns: int,
        channel: FrameChannel,
        on_air: BoolArray,
        receivers: BoolArray,
        schedule: "Turns",
    ) -> tuple[tuple[int, ...], AirTime] | None:
        if channel.server is None and self._hubs is not None:
            return self._hubs.lasting(round, now_ns, channel, on_air, receivers, schedule)
        return super().lasting(round, now_ns, channel, on_air, receivers, schedule)

    def _turns(
        self, round: int, now_ns: int, channel: FrameChannel, on_air: BoolArray, receivers: BoolArray
    ) -> Iterator[tuple[Star, tuple[AnnouncedStep, AnnouncedStep]]]:
        sight, nodes = channel.server, len(on_air)
        if sight is None or not on_air.any():
            return
        jammed = np.zeros(nodes) if channel.jammer_w is None else channel.jammer_w
        noise_w = np.append(jammed, 0.0) + self._given.thermal_w
        heard_w = sight.downlink**2 * self._server_w
        hears = on_air | (receivers & (heard_w > 0) & (heard_w >= self._near_snr * noise_w[:nodes]))
        draw = Errors(counter_rng.key(self._streams.draws("radio.server", round)))
        failed = draw.uniform() < self._keys.hub_failure
        star = Star(nodes, on_air, hears, failed, holds=False)
        yield star, self._sent(star, channel, now_ns, np.pad(sight.uplink, ((0, 0), (0, 1))), noise_w, draw)

    def _ways(
        self, star: Star, channel: FrameChannel, opens_ns: int
    ) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        assert self._given.server_at is not None
        times_ns, place = self._times_ns(opens_ns)
        to, fro = (np.pad(h[place], ((0, 0), (0, 0), (0, 1))) for h in self._given.server_at(times_ns))
        return to, fro

    def errors(self, size: FloatArray, server: FloatArray | None = None) -> MeanErrors:
        """By mean gains of one antenna to the server, `[K]`."""
        assert server is not None
        given, nodes = self._given, len(size)
        snr = server**2 * np.minimum(given.power_w, self._server_w) / max(given.thermal_w, 1e-300)
        near = snr[snr >= self._near_snr]
        if not len(near):
            return MeanErrors(0.0, 0.0, 1.0)
        estimates = float(np.mean(1.0 / near)) / (given.pilots or np.inf)
        return MeanErrors(1.0 / (nodes * float(near.min())), estimates + given.phase_error_rad**2, 0.0)

    def preview(self, channel: FrameChannel, schedule: "Turns", pool: FloatArray) -> CarryPreview | None:
        sight, given = channel.server, self._given
        if sight is None:
            return None
        snr = sight.mean**2 * np.minimum(given.power_w, self._server_w) / max(given.thermal_w, 1e-300)
        count, nodes, round_s = int((snr >= self._near_snr).sum()), len(snr), to_s(self.period_ns)
        found = self.errors(channel.heard.matrix(channel.mean), sight.mean)
        return CarryPreview(
            {"members": count, "round_airtime_s": round_s, "airtime_s": given.rounds * round_s},
            f"{count} of {nodes} nodes reach it by mean gains of one antenna; {1e3 * round_s:.3g} ms on air a round, "
            f"{given.rounds * round_s:.3g} s in the run",
            float(np.sqrt(found.receiver / nodes)),
            title="server",
        )
