"""What a round costs each node, and how long a battery lasts; the control channel.

    transmit   what was radiated in the payload, over the amplifier's efficiency
    pilot      the same of its pilots, sent at full power
    receive    receive_w while it listens
    control    both on the control channel: messages sent at full power, and receive_w while one is due
    compute    compute_w while it computes

A battery is drained by the *nominal* cost: payload at the full power budget, which emission never exceeds. What
is really radiated depends on ||x||, so on data, and so would the moment in which a node falls silent; the
nominal cost depends on durations alone, and a resumed run comes to the same end. Traces show both.

On the control channel a node sends at its power budget and listens only while a message for it is due:

    feedback   adaptive plans: a node reports the gain of every link into it in every subband, and is told its alpha
               and its weight in each
    exchange   z: a node broadcasts its K numbers, and listens to those of its neighbours

Messages are lost by their sender, each with the same probability, independently of all else: a report does not reach
the planner, a broadcast of z reaches nobody. The planner's answers are not lost: nodes that it plans for count on each
other's noise.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirelessdl import counter_rng
from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Links
from wirelessdl.radio.frame import AirTime, Frame
from wirelessdl.streams import Streams
from wirelessdl.units import NS, to_s


@dataclass(frozen=True, eq=False)
class ControlTimes:
    """How long each node sends and listens on the control channel in a frame, s, `[K]` each."""

    report_s: FloatArray
    answer_s: FloatArray
    z_send_s: FloatArray
    z_listen_s: FloatArray

    @staticmethod
    def from_links(
        links: Links, number_s: float, *, feedback: bool, exchange: bool, subbands: int = 1
    ) -> "ControlTimes":
        """For the graph at time zero, as the frame's own durations. number_s: of one number."""
        one = np.full(links.nodes, number_s)
        heard = np.bincount(links.rx, minlength=links.nodes) * one  # a number of every neighbour
        return ControlTimes(
            feedback * subbands * heard,
            feedback * (1 + subbands) * one,
            exchange * links.nodes * one,
            exchange * links.nodes * heard,
        )


@dataclass(frozen=True)
class ControlLosses:
    """Which messages are lost, by node and round. Whether there is any feedback or exchange is the frame's matter."""

    nodes: int
    probability: float
    streams: Streams

    def report(self, round: int) -> BoolArray:
        """Nodes whose report of gains would not reach the planner in this round, `[K]`."""
        return self._lost("radio.control.report", round)

    def z(self, round: int) -> BoolArray:
        """Nodes whose broadcast of z would reach nobody in this round, `[K]`."""
        return self._lost("radio.control.z", round)

    def _lost(self, component: str, round: int) -> BoolArray:
        if self.probability == 0.0:
            return np.zeros(self.nodes, dtype=bool)
        word = counter_rng.key(self.streams.draws(component, round))
        return np.asarray(counter_rng.uniform(word, np.arange(self.nodes))[0] < self.probability)


@dataclass(frozen=True, eq=False)
class Spent:
    """Joules of one round, `[K]` each."""

    transmit_j: FloatArray
    pilot_j: FloatArray
    receive_j: FloatArray
    control_j: FloatArray
    compute_j: FloatArray

    @property
    def total_j(self) -> FloatArray:
        return self.transmit_j + self.pilot_j + self.receive_j + self.control_j + self.compute_j


@dataclass(frozen=True, eq=False)
class EnergyModel:
    """Powers of a node's parts; `budget_w[K]` is what it may radiate, `battery_j[K]` what it may use, inf for all.

    planned: what taking part in a frame may take, where that is known only as time goes on; None: the frame says it.
    """

    budget_w: FloatArray
    battery_j: FloatArray
    control: ControlTimes
    efficiency: float = 1.0
    receive_w: float = 0.0
    compute_w: float = 0.0
    planned: AirTime | None = None

    @property
    def finite(self) -> bool:
        """Whether any battery can end."""
        return bool(np.isfinite(self.battery_j).any())

    def spent(
        self,
        frame: Frame,
        *,
        power_w: FloatArray,
        sends: BoolArray,
        hears: BoolArray,
        missed: BoolArray,
        compute_s: FloatArray,
        airtime: AirTime | None = None,
    ) -> Spent:
        """Of a round in which `sends` radiate power_w in the payload.

        missed: [K] nodes whose report was lost. They sent and heard the first pilots, and then took no part. airtime:
        of each node, where it is not the frame's.
        """
        took = airtime or frame.airtime
        pilot_s = sends * (took.pilot_ns / NS) + missed * to_s(frame.own_pilot_ns)
        listening_s = hears * (took.listening_ns / NS) + missed * to_s(frame.pilot_ns)
        return Spent(
            transmit_j=sends * power_w * (took.payload_ns / NS) / self.efficiency,
            pilot_j=pilot_s * self.budget_w / self.efficiency,
            receive_j=self.receive_w * listening_s,
            control_j=self._control_j(sends, hears, missed),
            compute_j=self.compute_w * compute_s,
        )

    def _control_j(self, sends: BoolArray, hears: BoolArray, missed: BoolArray) -> FloatArray:
        """Whoever hears the frame reports gains and waits for its answer; whoever sends in it broadcasts z."""
        times, reports = self.control, hears | missed
        sending_s = reports * times.report_s + sends * times.z_send_s
        listening_s = reports * times.answer_s + hears * times.z_listen_s
        return np.asarray(sending_s * self.budget_w / self.efficiency + listening_s * self.receive_w)

    def nominal_j(self, frame: Frame, **use: Any) -> FloatArray:
        """What a round takes from batteries, `[K]`: as `spent`, with everything that is sent at the power budget."""
        if use.get("airtime") is None:
            use["airtime"] = self.planned
        return self.spent(frame, power_w=self.budget_w, **use).total_j
