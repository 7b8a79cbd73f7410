"""Carrier and timing offsets of nodes, and flight time: what they do to a link's symbols after alignment by pilots.

    phase of symbol n on j -> i    2 pi (f_j - f_i) (t_n - p_j)  =  constant[i, j] + theta_j(n) - theta_i(n)
    constant[i, j]                 2 pi (f_j - f_i) (t_mid - p_j)
    theta_j(n)                     2 pi f_j (n - (N - 1)/2) / B
    symbol n as received           (1 - f) w_(n-k) + f w_(n-k-1),   k + f = b = (d_j - d_i + e_j + l_ij / c) B
    phase on j -> i in flight      phi_ij - phi_i*j,   phi_ij = phase of h_ij - 2 pi F l_ij / c

    f_j, d_j   carrier offset in Hz and lateness in s of node j; only differences between nodes matter
    e_j        timing error of the round, s; l_ij: length of the link, m, where flight time counts; k: whole symbols
    i*         the neighbour whose estimate of j is strongest: a sender has one phase, and removes that of one receiver
    p_j        middle of node j's own pilots in the turn; t_mid: middle of its payload; B: bandwidth of a subband
    N          symbols of a resource block; w_n: what j sends, zero outside the block

A delay turns a subband whose centre lies F from the carrier by -2 pi F (d_j - d_i): a phase ramp over subbands. Pilots
are sent in every subband and see it there, so it is aligned like any other phase. In flight F is the frequency of the
subband; with fading that has phases, which include the carrier's along the way, F counts from the carrier.

Flight time and timing errors concern senders that are superposed. A receiver that hears one sender at a time (TDMA)
compensates its phase and its delay; a decoder does so for every message. There they change nothing, and non-neighbours
arrive with a phase uniform on the circle as before.

A phase is constant over a symbol, pulses are rectangular, and the receiver's filter is matched to them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.links import Links
from wirelessdl.radio.frame import Frame, Turns
from wirelessdl.radio.frame_channel import FrameChannel, SlotChannel
from wirelessdl.units import SPEED_OF_LIGHT_MPS, to_s

_MAX_CFO_SHARE = 0.1  # of the bandwidth: over a symbol a phase turns by 0.6 rad at most, and 0.14 dB are lost


@dataclass(frozen=True, eq=False)
class Offsets:
    """Offsets of all nodes, `[K]` each, and the frame they show in; None where all nodes have the same.

    flight_hz: [subbands] F, by which flight time turns phases; None where nothing takes time to arrive. error_s:
    deviation of the timing error of a node in a round.
    """

    cfo_hz: FloatArray | None
    timing_s: FloatArray | None
    bandwidth_hz: float
    frame: Frame
    flight_hz: FloatArray | None = None
    error_s: float = 0.0

    @staticmethod
    def from_nodes(
        cfo_hz: FloatArray,
        timing_s: FloatArray,
        bandwidth_hz: float,
        frame: Frame,
        *,
        flight_hz: FloatArray | None = None,
        error_s: float = 0.0,
    ) -> "Offsets | None":
        """None where everything is in step. Raises ValueError where nodes differ by too much for a symbol.

        bandwidth_hz: of the whole band, which the subbands of the frame share.
        """
        symbol_hz, each = bandwidth_hz / frame.subbands, " / subbands" if frame.subbands > 1 else ""
        period = "subbands / bandwidth_hz" if each else "1 / bandwidth_hz"
        for key, values, most, words in (
            (
                "cfo_hz",
                cfo_hz,
                _MAX_CFO_SHARE * symbol_hz,
                f"a tenth of bandwidth_hz{each}, so that phases hold over a symbol",
            ),
            ("timing_offset_s", timing_s, 1.0 / symbol_hz, f"a symbol, {period}"),
        ):
            high, low = int(np.argmax(values)), int(np.argmin(values))
            apart = float(values[high] - values[low])
            if apart >= most:
                raise ValueError(
                    f"{key} of nodes {high} and {low} differs by {apart:.4g}; must be below {most:.4g}, {words}: lower "
                    "either"
                )
        carrier, timing = (values if np.ptp(values) > 0 else None for values in (cfo_hz, timing_s))
        if carrier is None and timing is None and flight_hz is None and error_s == 0:
            return None
        centred = None if carrier is None else carrier - carrier.mean()
        return Offsets(centred, timing, bandwidth_hz, frame, flight_hz, error_s)

    @property
    def symbol_hz(self) -> float:
        """Symbols of a subband per second: its bandwidth."""
        return self.bandwidth_hz / self.frame.subbands

    @cached_property
    def ramp_rad(self) -> FloatArray | None:
        """Phase by which each node's carrier advances from symbol to symbol, `[K]`; None without carrier offsets."""
        return None if self.cfo_hz is None else 2.0 * np.pi * self.cfo_hz / self.symbol_hz

    @cached_property
    def late(self) -> FloatArray | None:
        """How late each node is, `[K]` in symbols; None without timing offsets."""
        return None if self.timing_s is None else self.timing_s * self.symbol_hz

    @property
    def delayed(self) -> bool:
        """Whether anything arrives late or early."""
        return self.timing_s is not None or self.flight_hz is not None or self.error_s > 0

    def lateness(self, links: Links, error_s: FloatArray | None = None) -> FloatArray:
        """b of each link, `[links]`: how late its sender is for its receiver, in symbols. error_s: [K] of the round."""
        late = np.zeros(len(links)) if self.late is None else self.late[links.tx] - self.late[links.rx]
        if self.flight_hz is not None:
            late = late + links.distance_m * (self.symbol_hz / SPEED_OF_LIGHT_MPS)
        return late if error_s is None else late + self.symbol_hz * error_s[links.tx]

    def flight_rad(self, links: Links) -> FloatArray:
        """Phase that the way of each link takes, `[subbands, links]`."""
        assert self.flight_hz is not None
        return np.asarray(-2.0 * np.pi * np.multiply.outer(self.flight_hz, links.distance_m / SPEED_OF_LIGHT_MPS))

    def attenuation(self, links: Links) -> FloatArray:
        """Mean of cos(theta_j - theta_i) over the symbols of a slot, `[links]`: sin(N x) / (N sin x), nearly a sinc."""
        if self.ramp_rad is None:
            return np.ones(len(links))
        half = 0.5 * (self.ramp_rad[links.tx] - self.ramp_rad[links.rx])
        count = self.frame.block_symbols
        # a tenth of the bandwidth keeps |half| below pi/10, so only zero is singular
        kept: FloatArray = np.divide(
            np.sin(count * half), count * np.sin(half), out=np.ones(len(links)), where=half != 0
        )
        return kept

    def aligned(self, channel: FrameChannel, turns: Turns) -> FrameChannel:
        """The channel with the phases that carriers gain in every block, from pilots to the middle of its payload."""
        if self.cfo_hz is None:
            return channel
        heard, subbands = channel.heard, channel.subbands
        relative_hz = self.cfo_hz[heard.tx] - self.cfo_hz[heard.rx]

        def turned(blocks: tuple[SlotChannel, ...], first_slot: int) -> Iterator[SlotChannel]:
            for number, block in enumerate(blocks):
                if number % subbands == 0:  # the same in all subbands of a slot
                    wait_s = self.wait_s(turns.turn, first_slot + number // subbands)
                    gained = 2.0 * np.pi * relative_hz * wait_s[heard.tx]
                yield replace(block, phase_rad=gained if block.phase_rad is None else block.phase_rad + gained)

        return replace(
            channel,
            slots=tuple(turned(channel.slots, 0)),
            further=tuple(tuple(turned(blocks, 1)) for blocks in channel.further),
        )

    def wait_s(self, turn: IntArray, slot: int) -> FloatArray:
        """From the middle of each node's pilots to the middle of its payload, `[K]` s. turn: [K] in which each sends.

        Pilots of a turn follow each other in the order of the nodes that send in it; under TDMA all have the same.
        """
        frame = self.frame
        places = frame.pilot_ns // max(1, frame.own_pilot_ns)
        place = np.zeros(len(turn), dtype=np.int64)
        for number in np.unique(turn).tolist():
            together = turn == number
            place[together] = np.arange(together.sum()) % max(1, places)
        feedback_ns = np.where((turn == 0) & (slot == 0), frame.feedback_ns, 0)
        after_ns = frame.pilot_ns - (place + 0.5) * frame.own_pilot_ns + frame.guard_ns + feedback_ns
        return np.asarray((after_ns + 0.5 * frame.payload_ns) / 1e9)

    def in_words(self, links: Links, *, of_frames: bool = True) -> str:
        """The worst of these links: phase across a payload slot, and what it costs.

        of_frames: False where the access lays out payloads and pilots itself; how carriers turn then is its own matter.
        """
        found: list[str] = []
        if self.cfo_hz is not None:
            apart_hz = np.abs(self.cfo_hz[links.tx] - self.cfo_hz[links.rx]).max(initial=0.0)
            across = 2.0 * np.pi * apart_hz * to_s(self.frame.payload_ns)
            gained = 2.0 * np.pi * apart_hz * float(self.wait_s(np.zeros(links.nodes, dtype=np.int64), 0).max())
            kept = np.abs(self.attenuation(links)).min(initial=1.0)
            cost = (
                f", {across:.3g} rad across a payload slot ({_loss(kept)} by sinc), up to {gained:.3g} rad from pilots "
                "to its middle"
            )
            found.append(f"carriers up to {apart_hz:.3g} Hz apart{cost if of_frames else ''}")
        if self.delayed and not of_frames:
            found.append("clocks apart, which senders advance towards the receiver they are aligned to")
        elif self.delayed:
            share = np.abs(self.lateness(links)).max(initial=0.0)
            if self.flight_hz is None:
                found.append(f"timing up to {share:.2g} of a symbol apart ({_loss(1.0 - share)})")
            else:
                found.append(f"arrivals up to {share:.3g} symbols late; each sender's phase aligned at one neighbour")
        if self.error_s > 0:
            found.append(f"timing errors of {self.error_s * self.symbol_hz:.2g} of a symbol")
        return "; ".join(found)


def symbol_shares(late: FloatArray) -> dict[int, FloatArray]:
    """Share of the symbol itself (0) and of those so many symbols earlier in what each link brings, `[links]` each.

    late: [links] b in symbols. A rectangular pulse that is k + f symbols late falls into two symbols of its receiver.
    """
    whole = np.trunc(late)
    part, beyond = np.abs(late - whole), whole + np.copysign(1.0, late)
    delays = {0, *np.unique(whole).astype(int).tolist(), *np.unique(beyond[part > 0]).astype(int).tolist()}
    return {
        delay: np.where(whole == delay, 1.0 - part, np.where(beyond == delay, part, 0.0))
        for delay in sorted(delays, key=lambda delay: (abs(delay), -delay))
    }


def masking_share(late: FloatArray) -> FloatArray:
    """Least share of each sender's noise power that masks others at the receiver, of the shape of late: b in symbols.

    The smallest singular value of (1 - |b|) w_n + |b| w_(n-1) is at least 1 - 2|b|: noise cancels there. From a whole
    symbol on, the receiver's first symbols hold none of that sender's noise.
    """
    return np.asarray(np.maximum(1.0 - 2.0 * np.abs(late), 0.0) ** 2)


def one_phase(links: Links, aligned: BoolArray | None, gain_est: FloatArray, phase_rad: FloatArray) -> FloatArray:
    """What is left of phases, `[links]`, where each sender removes that of the neighbour with the best estimate of it.

    aligned: [links] which of them are the graph's, None where all are. A sender without neighbours removes nothing.
    """
    strength = gain_est if aligned is None else np.where(aligned, gain_est, -1.0)
    strongest_first = np.lexsort((-strength, links.tx))
    chosen = strongest_first[np.unique(links.tx[strongest_first], return_index=True)[1]]
    chosen = chosen[strength[chosen] >= 0]
    removed = np.zeros(links.nodes)
    removed[links.tx[chosen]] = phase_rad[chosen]
    return np.asarray(np.remainder(phase_rad - removed[links.tx] + np.pi, 2.0 * np.pi) - np.pi)


def _loss(factor: float) -> str:
    return f"{max(0.0, -20.0 * np.log10(factor)):.2g} dB lost" if factor > 0 else "all lost"
