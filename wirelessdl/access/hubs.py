"""Hubs: one receiver aligned at a time, and its mean sent back (`radio.alignment = "hubs"`).

    collected   mean_k = (hold_k + sum_{j in M_k} hold_j + N(0, N0) / eta_k) / n_k,    n_k = |M_k| + 1
    sent back   hold_j <- mean_k + noise of variance N0 rms(mean_k)^2 / (P_k |h_jk|^2),   j in M_k;   hold_k <- mean_k

    M_k     members of hub k: nodes whose links with k have `radio.truncate_snr_db` or more both ways, by pilots
    hold_j  what node j holds: w_j when the round begins, then what it received; eta_k: see `learning/announced.py`

Members send at once, each turned and divided by its estimate of the one channel to the hub: a sender has one phase, and
here one is enough. Without noise a turn is the orthogonal projection onto "equal on M_k and k": doubly stochastic, so
products keep the network's mean. Half duplex is enough.

**Hubs of a round** are a greedy connected dominating set: the node that reaches most, then always a node that has been
reached already and reaches most others, until nobody is left that can be reached. Hub and members are chosen just
before each turn from pilots of all nodes at that time; gains change within a round. `radio.hub_order` "there-and-back"
visits the hubs a second time in reverse order. A pass (`radio.mixing_passes`, `learning.closing_passes`) is another
such sequence. A node whose links are too weak in its turn is taken over its best one.

**A turn in time**: pilots of all nodes, messages of the choice and of the hub (eta, rms of the mean), then per sub-slot
a pilot of the hub and a part of the payload; then the hub's broadcast, with a pilot before every sub-slot and after the
last. Members estimate h at each pilot; it ages until the middle of the sub-slot by itself. Receivers of the broadcast
lay a parabola through its pilots.

**Privacy.** A node that can be reached when the frame opens is on the roster, charged, and holds w. All that is sent
after that is a function of holdings, so of charged releases and receiver noise. Who cannot be reached keeps x and s,
sends nothing and takes no step. A hub that fails after collecting (`radio.hub_failure`) leaves members with what they
held, which is sent again as it is. Choices follow gains, pilots and who is on air. An overhearer of several turns gets
several equations: nobody else's noise hides a sender, link epsilons are null, and objectives that count on that noise
are refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl import counter_rng
from wirelessdl.access import AirSettings, Carried, Carrier, CarryPreview, MeanErrors, OpenFrame, Sending, Step
from wirelessdl.access.weights import FrameWeights, SlotWeights
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.channel.antennas import beam, combined, heard_through
from wirelessdl.learning.announced import AnnouncedStep, GroupValue
from wirelessdl.links import Links
from wirelessdl.mixing import Mixing
from wirelessdl.radio.frame import AirTime
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.units import to_ns, to_s

if TYPE_CHECKING:
    from wirelessdl.access.oac import Keys
    from wirelessdl.radio.frame import Turns
    from wirelessdl.streams import Streams

RESCUE_SNR = 2.0  # linear: below it a link carries more noise than the loss of one node does
HUB_NUMBERS = 2  # that a hub sends besides: by what members scale, and the rms of the mean
CHOICE_NUMBERS = 2  # that each node sends for a choice: how many it would newly reach, and the rms that it holds
_PILOTS = 256  # of a turn at most, each with draws of its own
_SHARE_OF_BEST = 0.8  # with rotation, of the reach of the best candidate, that a hub must have


def joined(near: BoolArray) -> IntArray:
    """Number of the group of each node, `[K]`, that links near[k, j] connect; -1 for a node without any."""
    label, number = np.full(len(near), -1), 0
    for node in range(len(near)):
        if label[node] < 0:
            ahead = np.arange(len(near)) == node
            while ahead.any():
                label[ahead] = number
                ahead = near[ahead].any(axis=0) & (label < 0)
            number += 1
    return np.where(near.any(axis=1), label, -1)


@dataclass(frozen=True, eq=False)
class HubCollection:
    """One turn: hub, members that are collected, `[K]`, and who hears the broadcast, `[K]`: members and listeners.

    holds: whether the hub has a model of its own, which a server has not.
    """

    hub: int
    members: BoolArray
    hears: BoolArray
    failed: bool
    holds: bool = True

    @property
    def size(self) -> int:
        return int(self.members.sum()) + self.holds

    def words(self, turn: int) -> str:
        """Turn, members, and whether the hub fails, as events say it and `analysis/timeline.py` reads it."""
        members = np.flatnonzero(self.members).tolist()
        failed = "; fails before it sends back" if self.failed else ""
        listed = " ".join(str(node) for node in members)
        return f"turn {turn}: {len(members)} member{'s' * (len(members) != 1)}: {listed}{failed}"


class Walk:
    """Chooses the hubs of one sequence from SNRs as they are before each turn.

    near_snr: linear, from which a link counts. senders: [K]. served: [K] how often each node was hub so far; None
    without rotation.
    """

    def __init__(self, near_snr: float, senders: BoolArray, served: IntArray | None = None):
        self._near_snr, self._senders, self._served = near_snr, senders, served
        self.reached = np.zeros(len(senders), dtype=bool)
        self.hubs: list[int] = []

    def next(self, snr: FloatArray) -> tuple[int, BoolArray] | None:
        """Hub and members of the next turn; None where nobody is left. snr: [K, K], the weaker of both directions."""
        among = self._senders[:, None] & self._senders[None, :]
        near = among & (snr >= self._near_snr)
        missing = self._senders & ~self.reached
        if not missing.any():
            return None
        gain = (near & missing[None, :]).sum(axis=1)  # newly reached; a first hub reaches itself besides
        candidates = self.reached if self.hubs else self._senders
        hub = self._best(np.where(candidates, gain, 0), near)
        if hub is None and self.hubs:  # nothing joins what is left to what was reached
            hub = self._best(np.where(missing, gain, 0), near)
        if hub is None:
            return self._rescue(snr, near, missing)
        return self._turn(hub, near[hub])

    def return_to(self, hub: int, snr: FloatArray) -> tuple[int, BoolArray] | None:
        """A turn of a hub that was chosen before; None where it reaches nobody now."""
        members = self._senders & (snr[hub] >= self._near_snr)
        return (hub, members) if members.any() else None

    def _turn(self, hub: int, members: BoolArray) -> tuple[int, BoolArray]:
        self.reached = self.reached | members
        self.reached[hub] = True
        self.hubs.append(hub)
        return hub, members

    def _best(self, gain: IntArray, near: BoolArray) -> int | None:
        """The node that newly reaches most, of those the one that reaches most at all, or that served least."""
        most = gain.max(initial=0)
        if most == 0:
            return None
        degree = near.sum(axis=1)
        if self._served is None:
            return int(np.lexsort((-degree, -gain))[0])
        good = np.flatnonzero(gain >= _SHARE_OF_BEST * most)
        return int(good[np.lexsort((-degree[good], self._served[good]))[0]])

    def _rescue(self, snr: FloatArray, near: BoolArray, missing: BoolArray) -> tuple[int, BoolArray] | None:
        """A node whose links have all become too weak, over its best one: pairs cancel only if all are collected."""
        others = self._senders & ~missing
        if not others.any():
            return None
        reach = np.where(others[:, None] & missing[None, :], snr, 0.0)
        hub, node = (int(end) for end in np.unravel_index(int(np.argmax(reach)), reach.shape))
        if reach[hub, node] < RESCUE_SNR:
            return None
        members = near[hub].copy()
        members[node] = True
        return self._turn(hub, members)


class HubCarrier(Carrier):
    """Collects and sends back, hub by hub. power_w: [K] budgets, and after them that of a server."""

    def __init__(self, keys: "Keys", given: AirSettings, near_snr: float, streams: "Streams"):
        self._power_w = given.power_w
        self._keys, self._given, self._near_snr, self._streams = keys, given, near_snr, streams
        self.rounds = given.rounds
        frame = given.frame
        self._slots = min(keys.subslots, frame.symbols)
        self._symbols = -(-frame.symbols // self._slots)
        self._sub_ns = to_ns(self._symbols / given.bandwidth_hz)
        self._payload_ns = self._slots * self._sub_ns
        self._hub_numbers_ns = to_ns(HUB_NUMBERS * given.number_s)
        self._choice_ns = to_ns(CHOICE_NUMBERS * len(given.power_w) * given.number_s) + self._hub_numbers_ns
        self._served: IntArray = np.zeros(len(given.power_w), dtype=np.int64)

    @property
    def _collect_ns(self) -> int:
        """Of a turn, after the pilots of all nodes and their guard, until the hub sends back."""
        frame, slots = self._given.frame, self._slots
        every = frame.own_pilot_ns + 2 * frame.guard_ns + self._sub_ns
        return self._choice_ns + frame.guard_ns + self._given.groups * slots * every

    @property
    def turn_ns(self) -> int:
        """A turn after the pilots of all nodes and their guard, until its last guard."""
        return self._collect_ns + (self._slots + 1) * self._given.frame.own_pilot_ns + self._slots * self._sub_ns

    @property
    def period_ns(self) -> int:
        """From the opening of a turn to that of the next."""
        return self._given.frame.pilot_ns + 2 * self._given.frame.guard_ns + self.turn_ns

    @cached_property
    def _instants_ns(self) -> list[int]:
        """From the opening of a turn: pilots of sub-slots and their middles, first of collection, then of broadcast."""
        frame, sub = self._given.frame, self._sub_ns
        half, now = frame.own_pilot_ns // 2, frame.pilot_ns + 2 * frame.guard_ns + self._choice_ns
        every = frame.own_pilot_ns + 2 * frame.guard_ns + sub
        many = self._given.groups * self._slots
        starts = [now + n * every for n in range(many)]
        sent = frame.own_pilot_ns + frame.guard_ns + sub // 2
        back = now + many * every
        again = [back + n * (frame.own_pilot_ns + sub) for n in range(self._slots + 1)]
        middles = [one + frame.own_pilot_ns + sub // 2 for one in again[:-1]]
        return [
            *(one + half for one in starts),
            *(one + sent for one in starts),
            *(one + half for one in again),
            *middles,
        ]

    @cached_property
    def _between(self) -> FloatArray:
        """What receivers of a broadcast make of its pilots for the middles of sub-slots, `[subslots, pilots]`.

        The parabola of least squares: h is smooth over a payload, and all pilots together are better than two.
        """
        pilots = np.arange(self._slots + 1) - 0.5 * self._slots
        degree = min(2, self._slots)
        return np.asarray(np.vander(pilots[:-1] + 0.5, degree + 1) @ np.linalg.pinv(np.vander(pilots, degree + 1)))

    def carry(self, given: Sending) -> Carried:
        assert given.component is not None
        nodes = len(given.on_air)
        known = actual = np.eye(nodes)
        took = np.zeros(nodes, dtype=bool)
        steps: list[AnnouncedStep] = []
        hub_turns, sent, collected = (np.zeros(len(self._power_w), dtype=np.int64) for _ in range(3))
        states: list[tuple[int, int, str, str]] = []
        turns = 0
        for turn, built in self._turns(given):
            states.append((given.now_ns + turns * self.period_ns, turn.hub, "hub", turn.words(turns + 1)))
            turns += 1
            hub_turns[turn.hub] += 1
            sent[:nodes] += turn.members
            collected[:nodes] |= turn.members
            steps += built[:-1]
            if turn.failed:
                continue
            steps.append(built[-1])
            sent[turn.hub] += 1
            collected[turn.hub] = 1
            took |= turn.hears
            known, actual = _turned(turn, known, None), _turned(turn, actual, built)
        hub_turns, sent, collected = (values[:nodes] for values in (hub_turns, sent, collected))
        weights = _weights(given.channel, known, actual, took)
        on_air = np.flatnonzero(given.on_air)
        apart = known[np.ix_(on_air, on_air)] - 1.0 / max(1, len(on_air))
        return Carried(
            (Step.release(weights, given.model_w),),
            self._payloads_ns(turns),
            self._airtime(turns, hub_turns, sent),
            announced=tuple(steps),
            nodes={
                "hub_turns": hub_turns,
                "collected": np.ma.masked_array(collected.astype(bool), ~given.on_air),
                "component": np.ma.masked_less(given.component, 0),
            },
            rounds={
                "hubs": float(turns),
                "uncollected": float((given.on_air & (collected == 0)).sum()),
                "disagreement": float(np.linalg.norm(apart, 2)) if len(on_air) else np.nan,
                "collect_s": to_s(self._collect_ns),
            },
            states=tuple(states),
        )

    def lasting(self, opened: OpenFrame) -> tuple[tuple[int, ...], AirTime] | None:
        nodes = len(opened.on_air)
        hub_turns, sent, turns = *(np.zeros(len(self._power_w), dtype=np.int64) for _ in range(2)), 0
        for turn, _ in self._turns(opened):
            turns += 1
            hub_turns[turn.hub] += 1
            sent[:nodes] += turn.members
            sent[turn.hub] += not turn.failed
        return self._payloads_ns(turns), self._airtime(turns, hub_turns[:nodes], sent[:nodes])

    def _payloads_ns(self, turns: int) -> tuple[int, ...]:
        """Of all turns; where nobody is reached, nodes wait for the pilots of one: time goes on."""
        return (self.turn_ns,) * turns or (0,)

    def _airtime(self, turns: int, hub_turns: IntArray, sent: IntArray) -> AirTime:
        """Pilots with the messages of choices, which go at the same power; who does not send listens."""
        frame = self._given.frame
        own_choice = (self._choice_ns - self._hub_numbers_ns) // max(1, len(sent))
        of_hub = ((1 + self._given.groups) * self._slots + 1) * frame.own_pilot_ns + self._hub_numbers_ns
        pilot_ns = turns * (frame.own_pilot_ns + own_choice) + hub_turns * of_hub
        payload_ns = sent * self._payload_ns
        all_ns = turns * (frame.pilot_ns + self.turn_ns)
        return AirTime(payload_ns, pilot_ns, np.maximum(all_ns - payload_ns - pilot_ns, 0))

    def _turns(self, opened: OpenFrame) -> Iterator[tuple[HubCollection, tuple[AnnouncedStep, ...]]]:
        """Turns of a frame as they are chosen, one after the other, with what each sends."""
        given, keys, channel, on_air = self._given, self._keys, opened.channel, opened.on_air
        noise_w = np.full(len(on_air), given.thermal_w) + (0.0 if channel.jammer_w is None else channel.jammer_w)
        number = 0
        for _ in range(1 + given.passes + (given.closing if given.frame.closes(opened.round, self.rounds) else 0)):
            walk = Walk(self._near_snr, on_air, self._served if keys.hub_rotation else None)
            back: list[int] | None = None  # hubs that are still to be visited again
            while back is None or back:
                draw = Errors(counter_rng.key(self._streams.draws("radio.hubs", opened.round, number)))
                opens_ns = opened.now_ns + number * self.period_ns
                h = self._estimated(channel, opens_ns, noise_w, draw, first=number == 0)
                size = np.abs(h[0]) if len(h) == 1 else np.sqrt(np.sum(np.abs(h) ** 2, axis=0))
                snr = self._snr(size, noise_w) if len(h) == 1 else self._through_beams(h, size, noise_w)
                chosen = walk.next(snr) if back is None else walk.return_to(back.pop(0), snr)
                if chosen is None:
                    if back is None:
                        back = walk.hubs[-2::-1] if keys.hub_order == "there-and-back" else []
                    continue
                hub, members = chosen
                heard_w = size[:, hub] ** 2 * given.power_w[hub]
                hears = members | (opened.receivers & (heard_w > 0) & (heard_w >= self._near_snr * noise_w))
                turn = HubCollection(hub, members, hears, draw.uniform() < keys.hub_failure)
                self._served[hub] += 1
                yield turn, self._sent(turn, channel, opens_ns, h[:, hub], noise_w, draw)
                number += 1

    def _estimated(
        self, channel: FrameChannel, opens_ns: int, noise_w: FloatArray, draw: "Errors", *, first: bool
    ) -> NDArray[Any]:
        """h[antenna, rx, tx] by the pilots with which a turn opens; the first turn opens with those of the frame.

        Of one antenna |h|.
        """
        heard = channel.heard
        if first:
            kept = channel.slots[0].antennas_est
            return _in_graph(channel, channel.heard_gain_est)[None] if kept is None else _of_antennas(channel, kept)
        h, symbols = self._h(heard, [opens_ns])[0], self._given.pilots
        if symbols is not None:
            deviation = np.sqrt(noise_w[heard.rx] / (self._given.power_w[heard.tx] * symbols))
            h = h + deviation * np.stack(
                [draw.complex_normal(0, heard.number, heard.nodes, antenna) for antenna in range(len(h))]
            )
        return _in_graph(channel, np.abs(h[0]))[None] if len(h) == 1 else _of_antennas(channel, h)

    def _through_beams(self, h: NDArray[np.complex128], size: FloatArray, noise_w: FloatArray) -> FloatArray:
        """SNR[hub, node] through each hub's best beam, and on the way back, the weaker; h: [M, K, K], size: [K, K]."""
        power_w = self._given.power_w
        scaled = h * np.sqrt(power_w / noise_w[:, None])
        back = (size**2 * power_w / noise_w[:, None]).T
        return np.stack([heard_through(scaled[:, hub], back[hub], self._near_snr) for hub in range(len(back))])

    def _snr(self, size: FloatArray, noise_w: FloatArray) -> FloatArray:
        """The weaker direction of each link, `[K, K]` linear. size: [K, K] |h|."""
        return weaker_snr(size, self._given.power_w, noise_w)

    def _h(self, links: Links, times_ns: list[int]) -> NDArray[np.complex128]:
        assert self._given.h_at is not None
        return self._given.h_at(links, times_ns)

    @cached_property
    def _in_order(self) -> tuple[IntArray, IntArray]:
        """`_instants_ns` in the order of time, in which models are asked, and the place of each in it."""
        times_ns = np.array(self._instants_ns)
        order = np.argsort(times_ns, kind="stable")
        return times_ns[order], np.argsort(order)

    def _sent(
        self,
        turn: HubCollection,
        channel: FrameChannel,
        opens_ns: int,
        known: NDArray[Any],
        noise_w: FloatArray,
        draw: "Errors",
    ) -> tuple[AnnouncedStep, ...]:
        """Collections and broadcast of a turn. known: [M, nodes] estimated h to the hub: beam and eta follow from it.

        With several antennas the hub collects and sends its pilots through one beam v, and sends back from its first
        antenna; receivers of the broadcast combine theirs.
        """
        given, hub, slots, nodes = self._given, turn.hub, self._slots, len(noise_w)
        members, hears = np.flatnonzero(turn.members), np.flatnonzero(turn.hears)
        amplitude, who = np.sqrt(self._power_w), np.arange(nodes)
        inward, fro = self._ways(turn, channel, opens_ns)
        if len(known) == 1:
            size, to, pilot = np.abs(known[0]), inward[:, 0], fro[:, 0].copy()
        else:
            v = beam(known[:, members] * amplitude[members]).conj()
            size, to = np.abs(v @ known), v @ inward
            pilot = to.copy()
        many = given.groups * slots
        pilots, middles, back_pilots, back_middles = (slice(*ends) for ends in _edges(many, many, slots + 1, slots))
        if given.pilots is not None:
            level = np.sqrt(noise_w / (self._power_w[hub] * given.pilots))
            number = who * nodes + hub
            pilot[pilots] += level * draw.complex_normal(1 + np.arange(many)[:, None], number, nodes)
            again = 1 + many + np.arange(slots + 1)[:, None]
            for antenna in range(fro.shape[1]):
                fro[back_pilots, antenna] += level * draw.complex_normal(again, number, nodes, antenna)
        apart_hz = self._apart_hz(hub, nodes)
        # receivers of the broadcast see in its pilots how carriers turn, too
        turning = np.exp(-2j * np.pi * np.outer(self._instants_ns[back_pilots.start :], apart_hz) / 1e9)
        fro[back_pilots.start :] *= turning[:, None]
        kept_by_turning = np.sinc(apart_hz * self._sub_ns / 1e9)
        estimate = pilot[pilots][:, members]  # members hear the hub's pilot; h is reciprocal
        wait_s = (0.5 * (given.frame.own_pilot_ns + self._sub_ns) + given.frame.guard_ns) / 1e9
        turned = np.exp(2j * np.pi * apart_hz * wait_s) * kept_by_turning
        turned = turned[members] * draw.phase(given.phase_error_rad, members, 0)
        # pilots see the same clocks: what these take of a symbol is in the estimate, and what they add to others is not
        late, back_late = (
            draw.late(given.timing_error_s * given.bandwidth_hz, who_else, leg)
            for leg, who_else in enumerate((members, hears))
        )
        kept, back_kept = (1.0 if one is None else 1.0 - np.abs(one) for one in (late, back_late))
        count = len(members)
        collect = AnnouncedStep(
            rx=np.full(count, hub),
            tx=members,
            aim=np.full(count, hub),
            weight=np.full(count, 1.0 / turn.size),
            ratio=to[middles][:, members] / estimate * turned / kept,
            announced=(1.0 / (size[members] * amplitude[members]))[None, :],
            needed=1.0 / (np.abs(estimate) * amplitude[members] * kept),
            own=np.where(who == hub, turn.holds / turn.size, 1.0),
            noise_w=noise_w,
            power_w=self._power_w,
            late=late,
            signs=None if late is None else draw.signs(slots, self._symbols, 0),
            reaches=float(turn.size),
        )
        if turn.failed:  # the hub is gone with all it heard; who sent did so
            nothing = np.zeros_like(collect.ratio)
            collect = replace(collect, ratio=nothing, noise_w=np.zeros(nodes), own=np.ones(nodes))
        collections = self._by_group(collect, turn, draw) if given.robust else (collect,)
        between = np.tensordot(self._between, fro[back_pilots][:, :, hears], 1)  # [subslots, M, hears]
        if between.shape[1] == 1:
            strength, back = np.abs(between[:, 0]), fro[back_middles][:, 0, hears] / between[:, 0]
        else:  # by maximum ratio
            gain, strength, phase = combined(fro[back_middles][:, :, hears], between)
            back = gain / strength * np.exp(1j * phase)
        broadcast = AnnouncedStep(
            rx=hears,
            tx=np.full(len(hears), hub),
            aim=hears,
            weight=np.ones(len(hears)),
            ratio=back * draw.phase(given.phase_error_rad, hears, 1) * (kept_by_turning[hears] / back_kept),
            announced=1.0 / (strength * amplitude[hub] * back_kept),
            needed=None,
            own=np.asarray(1.0 - np.bincount(hears, minlength=nodes)),
            noise_w=noise_w,
            power_w=self._power_w,
            late=back_late,
            signs=None if back_late is None else draw.signs(slots, self._symbols, 1),
        )
        return *collections, broadcast

    def _by_group(self, collect: AnnouncedStep, turn: HubCollection, draw: "Errors") -> tuple[AnnouncedStep, ...]:
        """A collection as one of each group of members, in sub-slots of their own. Groups are drawn anew."""
        count, slots = len(collect.tx), self._slots
        groups = min(self._given.groups, count)
        group = np.argsort(np.argsort(draw.order(collect.tx))) % groups
        found = []
        for number in range(groups):
            some, part = group == number, slice(number * slots, (number + 1) * slots)
            assert collect.needed is not None
            one = replace(
                collect,
                **{name: getattr(collect, name)[some] for name in ("rx", "tx", "aim")},
                weight=np.full(int(some.sum()), 1.0 / some.sum()),
                ratio=collect.ratio[part, some],
                announced=collect.announced[:, some],
                needed=collect.needed[part, some],
                late=None if collect.late is None else collect.late[some],
            )
            if not turn.failed:
                own = turn.holds / turn.size
                value = GroupValue(number == 0, number == groups - 1, own)
                one = replace(one, own=np.where(np.arange(len(one.own)) == turn.hub, 0.0, 1.0), value=value)
                one = replace(one, reaches=float(turn.size) * (1.0 - own) / groups)
            found.append(one)
        return tuple(found)

    def _apart_hz(self, hub: int, nodes: int) -> FloatArray:
        """Carrier of each node less that of the hub, `[K]`."""
        offsets = self._given.offsets
        if offsets is None or offsets.cfo_hz is None:
            return np.zeros(nodes)
        cfo_hz = np.append(offsets.cfo_hz, 0.0)[:nodes]  # a server has the mean of them
        return np.asarray(cfo_hz - cfo_hz[hub])

    def _ways(
        self, turn: HubCollection, channel: FrameChannel, opens_ns: int
    ) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """h between the hub and all others, `[instants, M, K]`: to its antennas, and from its first to theirs."""
        ends, (since_ns, place) = channel.heard.at_node(turn.hub), self._in_order
        h, back = self._h(ends, (opens_ns + since_ns).tolist())[place], ends.tx == turn.hub
        to, fro = (np.zeros((*h.shape[:2], ends.nodes), np.complex128) for _ in range(2))
        to[:, :, ends.tx[~back]], fro[:, :, ends.rx[back]] = h[:, :, ~back], h[:, :, back]
        return to, fro

    def preview(self, channel: FrameChannel, schedule: "Turns", pool: FloatArray) -> CarryPreview | None:
        """Turns and what they leave of disagreement, for mean gains."""
        size = _in_graph(channel, channel.mean)
        sequence, first, known = self._by_mean(size)
        given, nodes, hubs = self._given, len(known), [turn.hub for turn in sequence[:first]]
        known = np.linalg.matrix_power(known, 1 + given.passes)
        apart, left = float(np.linalg.norm(known - 1.0 / nodes, 2)), int((np.diagonal(known) == 1.0).sum())
        sequence_s = len(sequence) * to_s(self.period_ns)
        round_s = (1 + given.passes) * sequence_s
        run_s = given.rounds * round_s + given.closing * (1 + given.frame.opening) * sequence_s
        facts = {"hubs": hubs, "disagreement": apart, "unreached": left, "turn_s": to_s(self.period_ns)}
        where = " and the Gram stage" if given.frame.opening else ""
        closing = f", {given.closing} times more in the last round{where}" if given.closing else ""
        return CarryPreview(
            {**facts, "round_airtime_s": round_s, "airtime_s": run_s},
            f"{first} hub{'s' * (first != 1)} by mean gains ({', '.join(str(hub) for hub in hubs)}), "
            f"{len(sequence)} turn{'s' * (len(sequence) != 1)} of "
            f"{1e3 * to_s(self.period_ns):.3g} ms{f' {1 + given.passes} times' if given.passes else ''}{closing}: "
            f"{1e3 * round_s:.3g} ms on air a round, {run_s:.3g} s in the run; {apart:.2g} of disagreement left a round"
            + (f"; {left} node{'s' * (left != 1)} out of reach" if left else ""),
            float(np.sqrt(self.errors(size).receiver / nodes)),
            title="hubs",
            hub_members=tuple((turn.hub, np.flatnonzero(turn.members)) for turn in sequence[:first]),
            weights=known,
        )

    def errors(self, size: FloatArray, server: FloatArray | None = None) -> MeanErrors:
        """What the air adds to the network's mean, by mean gains. size: [K, K] |h|.

        A beam towards all members is taken to bring each of them in like one antenna.
        """
        given, nodes = self._given, len(size)
        snr = self._snr(size / np.sqrt(given.array.count), np.full(nodes, given.thermal_w))
        sequence, first, known = self._by_mean(size)
        receiver, estimates, reached = 0.0, 0.0, np.zeros(nodes, dtype=bool)
        for turn in sequence[:first]:
            receiver += 1.0 / float(snr[turn.hub][turn.members].min())
            new = turn.members & ~reached  # errors are largest in what is collected for the first time
            estimates += float(np.sum(1.0 / snr[turn.hub][new])) / (nodes * (given.pilots or np.inf))
            reached |= turn.members
        apart = float(np.linalg.norm(known - 1.0 / nodes, 2)) ** (1 + given.passes + given.closing)
        return MeanErrors(receiver / nodes, estimates + given.phase_error_rad**2, apart)

    def _by_mean(self, size: FloatArray) -> tuple[list[HubCollection], int, FloatArray]:
        """Turns of a sequence with everyone on air, how many of them go there, and its weights. size: [K, K] |h|."""
        nodes = len(size)
        snr = self._snr(size / np.sqrt(self._given.array.count), np.full(nodes, self._given.thermal_w))
        walk, sequence, known = Walk(self._near_snr, np.ones(nodes, dtype=bool)), list[HubCollection](), np.eye(nodes)
        while (found := walk.next(snr)) is not None:
            sequence.append(HubCollection(*found, found[1], False))
        first = len(sequence)
        if self._keys.hub_order == "there-and-back":
            again = (walk.return_to(hub, snr) for hub in walk.hubs[-2::-1])
            sequence += [HubCollection(*one, one[1], False) for one in again if one is not None]
        for turn in sequence:
            known = _turned(turn, known, None)
        return sequence, first, known


class Errors:
    """Draws of one turn, all from one key."""

    def __init__(self, word: int):
        self._word = word

    def complex_normal(
        self, pilot: int | IntArray, number: IntArray, nodes: int, antenna: int = 0
    ) -> NDArray[np.complex128]:
        """CN(0, 1) of links with these numbers at one pilot of the turn, or at several, `[pilots, 1]`."""
        places = np.asarray(number + (pilot + antenna * _PILOTS) * nodes**2)
        return counter_rng.complex_normal(self._word, places.reshape(-1)).reshape(places.shape)

    def order(self, nodes: IntArray) -> FloatArray:
        """By which nodes are dealt to groups."""
        return np.asarray(counter_rng.uniform(self._word ^ 8, nodes)[0])

    def uniform(self) -> float:
        return float(counter_rng.uniform(self._word ^ 1, np.zeros(1, dtype=np.int64))[0, 0])

    def phase(self, deviation: float, nodes: IntArray, leg: int) -> NDArray[np.complex128] | float:
        """What alignment leaves of each node's phase, of the collection (leg 0) or the broadcast (1)."""
        if deviation == 0:
            return 1.0
        return np.asarray(np.exp(1j * deviation * counter_rng.normal(self._word ^ (2 + leg), nodes)))

    def signs(self, subslots: int, symbols: int, leg: int) -> FloatArray:
        """Of scrambled symbols, each times the one before, `[subslots, symbols]`."""
        drawn = counter_rng.uniform(self._word ^ (6 + leg), np.arange(subslots * symbols))[0]
        return np.where(drawn < 0.5, -1.0, 1.0).reshape(subslots, symbols)

    def late(self, deviation: float, nodes: IntArray, leg: int = 0) -> FloatArray | None:
        """How late each node's symbols arrive, in symbols, within half of one."""
        if deviation == 0:
            return None
        return np.clip(deviation * counter_rng.normal(self._word ^ (4 + leg), nodes), -0.5, 0.5)


def _in_graph(channel: FrameChannel, gain: FloatArray) -> FloatArray:
    """|h| of links of the graph, `[K, K]`: what is heard besides them, as of blocked links, is not for hubs to use."""
    return channel.heard.matrix(np.where(channel.is_neighbour, gain, 0.0))


def _of_antennas(channel: FrameChannel, h: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """h[antenna, rx, tx] of links of the graph, from `[M, heard]`."""
    heard, dense = channel.heard, np.zeros((len(h), channel.heard.nodes, channel.heard.nodes), np.complex128)
    dense[:, heard.rx, heard.tx] = np.where(channel.is_neighbour, h, 0.0)
    return dense


def weaker_snr(size: FloatArray, power_w: FloatArray, noise_w: FloatArray) -> FloatArray:
    """SNR of every pair by the weaker of its directions, `[K, K]` linear. size: [rx, tx] |h|; power_w, noise_w: [K]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        snr = np.where(size > 0, size**2 * power_w / noise_w[:, None], 0.0)
    return np.minimum(snr, snr.T)


def reached(
    channel: FrameChannel, on_air: BoolArray, power_w: FloatArray, thermal_w: float, near_snr: float
) -> IntArray:
    """Group of nodes that hubs can join, by the pilots of the frame, `[K]`; -1: out of reach, or not on air."""
    noise_w = np.full(len(on_air), thermal_w) + (0.0 if channel.jammer_w is None else channel.jammer_w)
    near = weaker_snr(_in_graph(channel, channel.heard_gain_est), power_w, noise_w) >= near_snr
    return joined(near & on_air[:, None] & on_air[None, :])


def _edges(*counts: int) -> Iterator[tuple[int, int]]:
    ends = np.cumsum(counts).tolist()
    return zip([0, *ends[:-1]], ends)


def _turned(turn: HubCollection, before: FloatArray, built: tuple[AnnouncedStep, ...] | None) -> FloatArray:
    """Weights after a turn, `[K, K]`; built: with what gains leave of them on average, None: as planned."""
    after = before.copy()
    collect, members = np.ones(int(turn.members.sum())), np.flatnonzero(turn.members)
    for step in () if built is None else built[:-1]:
        collect[np.searchsorted(members, step.tx)] = step.ratio.real.mean(axis=0)
    back = np.ones(int(turn.hears.sum())) if built is None else built[-1].ratio.real.mean(axis=0)
    mean = collect @ before[turn.members] / turn.size
    if turn.holds:
        mean = (before[turn.hub] + collect @ before[turn.members]) / turn.size
        after[turn.hub] = mean
    after[turn.hears] = back[:, None] * mean
    return after


def _weights(channel: FrameChannel, known: FloatArray, actual: FloatArray, took: BoolArray) -> FrameWeights:
    """The weights of the whole frame, as tables show them."""
    scale = took.astype(np.float64)
    own, links, heard = np.diagonal(known).copy(), channel.links, channel.heard
    planned = Mixing(links, links.vector(known), own, scale)
    found = Mixing(heard, heard.vector(actual), np.diagonal(actual).copy(), scale)
    return FrameWeights((SlotWeights(planned, found, None),))
