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
from wirelessdl.access import AirSettings, Carried, CarryPreview, MeanErrors, OpenFrame, Sending
from wirelessdl.access.hubs import Errors, HubCarrier, HubCollection, reached
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.channel.antennas import heard_through
from wirelessdl.learning.announced import AnnouncedStep
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.units import dbm_to_w, to_s

if TYPE_CHECKING:
    from wirelessdl.access.oac import Keys
    from wirelessdl.radio.frame import Turns
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


def reached_by_server(
    channel: FrameChannel,
    on_air: BoolArray,
    power_w: FloatArray,
    thermal_w: float,
    near_snr: float,
    server: "Server",
) -> IntArray:
    """0 for nodes on air that the server collects, `[K]`, -1 for others; while it is down, groups of hubs or none."""
    sight, found = channel.server, np.full(len(on_air), -1)
    if sight is None:
        return reached(channel, on_air, power_w, thermal_w, near_snr) if server.without == "hubs" else found
    noise_w, among = max(thermal_w, np.finfo(np.float64).tiny), np.flatnonzero(on_air)
    to = sight.uplink[:, among] * np.sqrt(power_w[among] / noise_w)
    jammed_w = 0.0 if channel.jammer_w is None else channel.jammer_w[among]
    back = sight.downlink[among] ** 2 * server_power_w(server) / (noise_w + jammed_w)
    found[among[heard_through(to, back, near_snr) >= near_snr]] = 0
    return found


class ServerCarrier(HubCarrier):
    """One turn of the server, or hubs while it has failed. Nodes report how well they hear it."""

    def __init__(self, keys: "Keys", given: AirSettings, near_snr: float, streams: "Streams", server: "Server"):
        super().__init__(keys, given, near_snr, streams)
        self._power_w = np.append(given.power_w, server_power_w(server))

    def carry(self, given: Sending) -> Carried:
        carried, count = super().carry(given), float(given.on_air.sum())
        if given.channel.server is None and count:  # hubs
            return carried
        pilots_ns = ((1 + self._given.groups) * self._slots + 1) * self._given.frame.own_pilot_ns
        own_s = to_s(self._payload_ns + pilots_ns + self._hub_numbers_ns)
        rounds = {
            "uncollected": carried.rounds["uncollected"],
            "server_members": count,
            "server_j": self._power_w[-1] * own_s if count else 0.0,
        }
        nodes = {name: carried.nodes[name] for name in ("collected", "component")}
        return replace(carried, rounds=rounds, nodes=nodes, states=(), multiplier=np.full(len(given.on_air), count))

    def _turns(self, opened: OpenFrame) -> Iterator[tuple[HubCollection, tuple[AnnouncedStep, ...]]]:
        channel, on_air = opened.channel, opened.on_air
        sight, nodes = channel.server, len(on_air)
        if sight is None or not on_air.any():
            yield from super()._turns(opened)
            return
        jammed = np.zeros(nodes) if channel.jammer_w is None else channel.jammer_w
        noise_w = np.append(jammed, 0.0) + self._given.thermal_w
        heard_w = sight.downlink**2 * self._power_w[-1]
        hears = on_air | (opened.receivers & (heard_w > 0) & (heard_w >= self._near_snr * noise_w[:nodes]))
        draw = Errors(counter_rng.key(self._streams.draws("radio.server", opened.round)))
        failed = draw.uniform() < self._keys.hub_failure
        turn = HubCollection(nodes, on_air, hears, failed, holds=False)
        yield turn, self._sent(turn, channel, opened.now_ns, np.pad(sight.uplink, ((0, 0), (0, 1))), noise_w, draw)

    def _ways(
        self, turn: HubCollection, channel: FrameChannel, opens_ns: int
    ) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        if turn.holds:
            return super()._ways(turn, channel, opens_ns)
        assert self._given.server_at is not None
        since_ns, place = self._in_order
        found = self._given.server_at((opens_ns + since_ns).tolist())
        to, fro = (np.pad(h[place], ((0, 0), (0, 0), (0, 1))) for h in found)
        return to, fro

    def errors(self, size: FloatArray, server: FloatArray | None = None) -> MeanErrors:
        """By mean gains of one antenna to the server, `[K]`; None while it is down: as at the threshold."""
        given, nodes = self._given, len(size)
        near = np.full(1, self._near_snr) if server is None else self._near(server)
        if not len(near):
            return MeanErrors(0.0, 0.0, 1.0)
        estimates = float(np.mean(1.0 / near)) / (given.pilots or np.inf)
        return MeanErrors(1.0 / (nodes * float(near.min())), estimates + given.phase_error_rad**2, 0.0)

    def _near(self, mean: FloatArray) -> FloatArray:
        """SNR of nodes that reach the threshold both ways by mean gains."""
        snr = mean**2 * np.minimum(self._power_w[:-1], self._power_w[-1]) / max(self._given.thermal_w, 1e-300)
        return np.asarray(snr[snr >= self._near_snr])

    def preview(self, channel: FrameChannel, schedule: "Turns", pool: FloatArray) -> CarryPreview | None:
        sight, given, nodes, round_s = channel.server, self._given, channel.heard.nodes, to_s(self.period_ns)
        found = self.errors(np.zeros((nodes, nodes)), None if sight is None else sight.mean)
        count = 0 if sight is None else len(self._near(sight.mean))
        reach = (
            f"{count} of {nodes} nodes reach it by mean gains of one antenna" if sight else "down in the first round"
        )
        return CarryPreview(
            {"members": count, "round_airtime_s": round_s, "airtime_s": given.rounds * round_s},
            f"{reach}; {1e3 * round_s:.3g} ms on air a round, {given.rounds * round_s:.3g} s in the run",
            float(np.sqrt(found.receiver / nodes)),
            title="server",
        )
