"""What a round costs each node, and how long a battery lasts.

    transmit   what was radiated in the payload, over the amplifier's efficiency
    pilot      the same of its pilots, sent at full power
    receive    receive_w while it listens
    control    both on the control channel: messages sent at full power, and receive_w while one is due
    compute    compute_w while it computes

A battery is drained by the *nominal* cost: payload at the full power budget, which emission never exceeds. What
is really radiated depends on ||x||, so on data, and so would the moment in which a node falls silent; the
nominal cost depends on durations alone, and a resumed run comes to the same end. Traces show both.
"""

from dataclasses import dataclass

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.radio.control import ControlTimes
from wirelessdl.radio.frame import AirTime, Frame
from wirelessdl.units import NS, to_s


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
    """Powers of a node's parts; `budget_w[K]` is what it may radiate, `battery_j[K]` what it may use, inf for all."""

    budget_w: FloatArray
    battery_j: FloatArray
    control: ControlTimes
    efficiency: float = 1.0
    receive_w: float = 0.0
    compute_w: float = 0.0

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

    def nominal_j(
        self,
        frame: Frame,
        *,
        sends: BoolArray,
        hears: BoolArray,
        missed: BoolArray,
        compute_s: FloatArray,
        airtime: AirTime | None = None,
    ) -> FloatArray:
        """What a round takes from batteries, `[K]`: as `spent`, with payload and passes at the power budget."""
        spent = self.spent(
            frame,
            power_w=self.budget_w,
            sends=sends,
            hears=hears,
            missed=missed,
            compute_s=compute_s,
            airtime=airtime,
        )
        return spent.total_j
