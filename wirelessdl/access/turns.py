"""Receivers in turn: every receiver is aligned once, one after another (`radio.alignment = "turns"`).

    s_i = W_ii w_i + sum_j W_ij (cos e_ij w_j + sin e_ij J w_j) + N(0, N0 / eta_i^2)

    N_i     neighbours whose links with i have `radio.truncate_snr_db` or more both ways, by pilots as the pass opens
    W       Metropolis weights on N: 1 / (1 + max(d_i, d_j)), the rest on the own model; doubly stochastic
    eta_i   min_j |h_ij| sqrt(P_j) / (W_ij rho_j), rho_j the announced rms of what j holds (`learning/announced.py`)
    e_ij    phase that estimation and ageing leave

In receiver i's turn its neighbours send eta_i W_ij e^(-i phi_ij) / |h_ij| times what they hold, in sub-slots, each
after a pilot of the receiver. Two receivers share a turn only if they share no sender and neither sends: on symmetric
graphs that is the distance-2 colouring of TDMA, so there are **exactly as many turns**, and what is gained is noise:
that of the weakest neighbour instead of the sum over neighbours. Receivers of one turn hear each other's senders with
the phase that these happen to have there.

All turns of a pass send what nodes held when it opened, w in the first: bit for bit the same, so one release. An
overhearer gets one equation in every turn, and solves for single senders: nobody else's noise hides them, link epsilons
are null.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wirelessdl import counter_rng
from wirelessdl.access import AirSettings, Carried, Carrier, CarryPreview, MeanErrors, OpenFrame, Sending, Step
from wirelessdl.access.hubs import CHOICE_NUMBERS, Errors, weaker_snr
from wirelessdl.access.tdma import coloring
from wirelessdl.access.weights import FrameWeights, SlotWeights
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.learning.announced import AnnouncedStep
from wirelessdl.mixing import Mixing
from wirelessdl.radio.frame import AirTime
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.units import to_ns

if TYPE_CHECKING:
    from wirelessdl.access.oac import Keys
    from wirelessdl.radio.frame import Turns
    from wirelessdl.streams import Streams


def metropolis_weights(near: BoolArray, receivers: BoolArray) -> FloatArray:
    """W[rx, tx] on links near[rx, tx], its own weight on the diagonal; receivers: [K] who only listen take the mean."""
    both = near & near.T
    degree = both.sum(axis=1)
    weights = np.where(both, 1.0 / (1.0 + np.maximum(degree[:, None], degree[None, :])), 0.0)
    np.fill_diagonal(weights, 0.0)
    np.fill_diagonal(weights, 1.0 - weights.sum(axis=1))
    for node in np.flatnonzero(receivers):
        heard = near[node].sum()
        weights[node] = near[node] / heard if heard else np.eye(len(near))[node]
    return weights


class TurnCarrier(Carrier):
    """One pass over all receivers, and as many again as the frame has passes."""

    def __init__(self, keys: "Keys", given: AirSettings, near_snr: float, streams: "Streams"):
        self._given, self._near_snr, self._streams = given, near_snr, streams
        frame, nodes = given.frame, len(given.power_w)
        self._slots = min(keys.subslots, frame.symbols)
        self._symbols = -(-frame.symbols // self._slots)
        self._sub_ns = to_ns(self._symbols / given.bandwidth_hz)
        # pilots of all nodes, and what they announce
        self._opening_ns = nodes * frame.own_pilot_ns + to_ns(CHOICE_NUMBERS * nodes * given.number_s) + frame.guard_ns

    def carry(self, given: Sending) -> Carried:
        nodes = len(given.on_air)
        known = np.eye(nodes)
        steps: list[AnnouncedStep] = []
        took, payloads, passes = np.zeros(nodes, dtype=bool), [], 0
        for lasts_ns, step, weights in self._turns(given):
            payloads.append(lasts_ns)
            passes += step is None or step.opens
            if weights is not None:
                known = weights @ known
                took |= (weights - np.diag(np.diag(weights))).any(axis=1)
            if step is not None:
                steps.append(step)
        scale, links, heard = took.astype(np.float64), given.channel.links, given.channel.heard
        planned = Mixing(links, links.vector(known), np.diagonal(known).copy(), scale)
        found = Mixing(heard, heard.vector(known), np.diagonal(known).copy(), scale)
        return Carried(
            (Step.release(FrameWeights((SlotWeights(planned, found, None),)), given.model_w),),
            tuple(payloads),
            self._airtime(payloads, steps, passes),
            announced=tuple(steps),
        )

    def lasting(self, opened: OpenFrame) -> tuple[tuple[int, ...], AirTime] | None:
        found = list(self._turns(opened))
        payloads = [lasts_ns for lasts_ns, _, _ in found]
        steps = [step for _, step, _ in found if step is not None]
        passes = sum(step is None or step.opens for _, step, _ in found)
        return tuple(payloads), self._airtime(payloads, steps, passes)

    def errors(self, size: FloatArray, server: FloatArray | None = None) -> MeanErrors:
        given, nodes = self._given, len(size)
        snr = weaker_snr(size, given.power_w, np.full(nodes, given.thermal_w))
        weights = metropolis_weights(snr >= self._near_snr, np.zeros(nodes, dtype=bool))
        others = (weights > 0) & ~np.eye(nodes, dtype=bool)
        inverse = np.divide(1.0, snr, out=np.zeros_like(snr), where=others)
        pilots = np.inf if given.pilots is None else given.pilots
        apart = float(np.linalg.norm(weights - 1.0 / nodes, 2)) ** (1 + given.passes + given.closing)
        return MeanErrors(
            receiver=float(np.sum(np.max(weights**2 * inverse, axis=1))) / nodes,
            alignment=float(np.sum(weights**2 * others * (inverse / pilots + given.phase_error_rad**2))) / nodes,
            apart=apart,
        )

    def preview(self, channel: FrameChannel, schedule: "Turns", pool: FloatArray) -> CarryPreview | None:
        found, turns = self.errors(channel.heard.matrix(channel.mean)), int(coloring(channel.links).max(initial=0)) + 1
        frame, slots = self._given.frame, self._slots
        turn_ns = slots * (frame.own_pilot_ns + 2 * frame.guard_ns + self._sub_ns) + frame.pilot_ns + 2 * frame.guard_ns
        airtime_s = (self._opening_ns + turns * turn_ns) * (1 + self._given.passes) / 1e9
        return CarryPreview(
            {"turns": turns, "airtime_s": airtime_s},
            f"{turns} receivers in turn, as many turns as TDMA; {1e3 * airtime_s:.3g} ms on air a round",
            float(np.sqrt(found.receiver / channel.heard.nodes)),
        )

    def _airtime(self, payloads_ns: list[int], steps: list[AnnouncedStep], passes: int) -> AirTime:
        frame, nodes = self._given.frame, len(self._given.power_w)
        sent, heard = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
        for step in steps:
            sent[np.unique(step.tx)] += 1
            heard[np.unique(step.rx)] += 1
        payload_ns = sent * self._slots * self._sub_ns
        pilot_ns = passes * self._opening_ns // max(1, nodes) + heard * self._slots * frame.own_pilot_ns
        return AirTime(payload_ns, pilot_ns, np.maximum(sum(payloads_ns) - payload_ns - pilot_ns, 0))

    def _turns(self, opened: OpenFrame) -> Iterator[tuple[int, AnnouncedStep | None, FloatArray | None]]:
        """Turn by turn: how long its payload takes, what is sent, and, with the first of a pass, the weights of it."""
        given, frame, channel, receivers = self._given, self._given.frame, opened.channel, opened.receivers
        heard, on_air = channel.heard, opened.on_air
        noise_w = np.full(len(on_air), given.thermal_w) + (0.0 if channel.jammer_w is None else channel.jammer_w)
        color = coloring(channel.links)
        closing = given.closing if frame.closes(opened.round, given.rounds) else 0
        clock_ns, passes = opened.now_ns, 1 + given.passes + closing
        for number in range(passes):
            draw = self._errors(opened.round, number, 0)
            size = self._estimated_size(channel, clock_ns, noise_w, draw, first=number == 0)
            audible = size**2 * given.power_w >= self._near_snr * noise_w[:, None]
            near = audible & (size > 0) & on_air[None, :]
            near &= np.where(receivers[:, None], True, (weaker_snr(size, given.power_w, noise_w) >= self._near_snr))
            weights = metropolis_weights(near, receivers)
            linked = weights[heard.rx, heard.tx] > 0
            lead_ns, pending = self._opening_ns, True
            for turn in range(int(color.max(initial=0)) + 1):
                wanted = linked & (color[heard.rx] == turn)
                if not wanted.any():
                    continue
                aligned = np.unique(heard.rx[wanted])
                sub_ns = len(aligned) * frame.own_pilot_ns + 2 * frame.guard_ns + self._sub_ns
                lasts_ns = lead_ns + self._slots * sub_ns
                opens_ns = clock_ns + frame.pilot_ns + frame.guard_ns + lead_ns
                draw = self._errors(opened.round, number, 1 + turn)
                starts = [opens_ns + slot * sub_ns for slot in range(self._slots)]
                middle_ns = len(aligned) * frame.own_pilot_ns + frame.guard_ns + self._sub_ns // 2
                step = self._sent(channel, wanted, aligned, weights, size, starts, middle_ns, noise_w, draw, pending)
                yield lasts_ns, step, weights if pending else None
                clock_ns += lasts_ns + frame.pilot_ns + 2 * frame.guard_ns
                lead_ns, pending = 0, False
            if lead_ns:  # nobody hears anybody: pilots only
                yield lead_ns, None, None
                clock_ns += lead_ns + frame.pilot_ns + 2 * frame.guard_ns

    def _errors(self, round: int, number: int, turn: int) -> Errors:
        return Errors(counter_rng.key(self._streams.draws("radio.turns", round, number, turn)))

    def _estimated_size(
        self, channel: FrameChannel, opens_ns: int, noise_w: FloatArray, draw: Errors, *, first: bool
    ) -> FloatArray:
        heard = channel.heard
        if first:
            return heard.matrix(channel.heard_gain_est)
        assert self._given.h_at is not None
        h, symbols = self._given.h_at(heard, [opens_ns])[0, 0], self._given.pilots
        if symbols is not None:
            deviation = np.sqrt(noise_w[heard.rx] / (self._given.power_w[heard.tx] * symbols))
            h = h + deviation * draw.complex_normal(0, heard.number, heard.nodes)
        return heard.matrix(np.abs(h))

    def _sent(
        self,
        channel: FrameChannel,
        wanted: BoolArray,
        aligned: IntArray,
        weights: FloatArray,
        size: FloatArray,
        starts_ns: list[int],
        middle_ns: int,
        noise_w: FloatArray,
        draw: Errors,
        opens: bool,
    ) -> AnnouncedStep:
        """One turn. wanted: [heard] links of the receivers that are aligned in it; opens: whether it is the first."""
        given, heard, slots = self._given, channel.heard, self._slots
        assert given.h_at is not None
        h = given.h_at(heard, [time for start in starts_ns for time in (start, start + middle_ns)])[:, 0]
        dense: NDArray[np.complex128] = np.zeros((len(h), heard.nodes, heard.nodes), np.complex128)
        dense[:, heard.rx, heard.tx] = h
        pilots, middles = dense[0::2], dense[1::2]
        aim = np.full(heard.nodes, -1)
        aim[heard.tx[wanted]] = heard.rx[wanted]  # receivers of a turn share no sender
        # also what the receivers hear of each other's senders
        beside = np.isin(heard.rx, aligned) & (aim[heard.tx] >= 0)
        rx, tx = heard.rx[beside], heard.tx[beside]
        to = aim[tx]
        own = np.ones(heard.nodes)
        own[aligned] = np.diagonal(weights)[aligned]
        amplitude = np.sqrt(given.power_w)
        estimate = pilots[:, to, tx]
        if given.pilots is not None:  # senders hear the receiver's pilot; h is reciprocal
            level = np.sqrt(noise_w[tx] / (given.power_w[to] * given.pilots))
            places = to * heard.nodes + tx
            estimate = estimate + level * draw.complex_normal(1 + np.arange(slots)[:, None], places, heard.nodes)
        phase = draw.phase(given.phase_error_rad, tx, 0)
        if given.offsets is not None and given.offsets.cfo_hz is not None:
            apart_hz = given.offsets.cfo_hz[tx] - given.offsets.cfo_hz[to]
            phase = phase * np.exp(2j * np.pi * apart_hz * middle_ns / 1e9) * np.sinc(apart_hz * self._sub_ns / 1e9)
        late = draw.late(given.timing_error_s * given.bandwidth_hz, tx)
        kept = 1.0 if late is None else 1.0 - np.abs(late)  # as pilots see it
        return AnnouncedStep(
            rx=rx,
            tx=tx,
            aim=to,
            weight=weights[to, tx],
            ratio=middles[:, rx, tx] / estimate * phase / kept,
            announced=(1.0 / (size[to, tx] * amplitude[tx]))[None, :],
            needed=1.0 / (np.abs(estimate) * amplitude[tx] * kept),
            own=own,
            noise_w=noise_w,
            power_w=given.power_w,
            late=late,
            signs=None if late is None else draw.signs(slots, self._symbols, 0),
            together=True,
            opens=opens,
        )
