"""What a round costs each node, and how long a battery lasts.

    transmit   what was radiated in the payload, over the amplifier's efficiency
    pilot      the same of its pilots, sent at full power
    receive    receive_w while it listens
    compute    compute_w while it computes

A battery is drained by the *nominal* cost: payload at the full power budget, which emission never exceeds. What
is really radiated depends on ||x||, so on data, and so would the moment in which a node falls silent; the
nominal cost depends on durations alone, and a resumed run comes to the same end. Traces show both.
"""

from dataclasses import dataclass

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.radio.frame import Frame
from wirelessdl.units import to_s


@dataclass(frozen=True, eq=False)
class Spent:
    """Joules of one round, `[K]` each."""

    transmit_j: FloatArray
    pilot_j: FloatArray
    receive_j: FloatArray
    compute_j: FloatArray

    @property
    def total_j(self) -> FloatArray:
        return self.transmit_j + self.pilot_j + self.receive_j + self.compute_j


@dataclass(frozen=True, eq=False)
class EnergyModel:
    """Powers of a node's parts; `budget_w[K]` is what it may radiate, `battery_j[K]` what it may use, inf for all."""

    budget_w: FloatArray
    battery_j: FloatArray
    efficiency: float = 1.0
    receive_w: float = 0.0
    compute_w: float = 0.0

    @property
    def finite(self) -> bool:
        """Whether any battery can end."""
        return bool(np.isfinite(self.battery_j).any())

    def spent(
        self, frame: Frame, *, power_w: FloatArray, sends: BoolArray, hears: BoolArray, compute_s: FloatArray
    ) -> Spent:
        """Of a round in which `sends` radiate power_w in the payload."""
        payload_ns, pilot_ns = frame.sending_ns
        return Spent(
            transmit_j=sends * power_w * to_s(payload_ns) / self.efficiency,
            pilot_j=sends * self.budget_w * to_s(pilot_ns) / self.efficiency,
            receive_j=np.where(hears, self.receive_w * to_s(frame.listening_ns), 0.0),
            compute_j=self.compute_w * compute_s,
        )

    def nominal_j(self, frame: Frame, sends: BoolArray, hears: BoolArray, compute_s: FloatArray) -> FloatArray:
        """What a round takes from batteries."""
        return self.spent(frame, power_w=self.budget_w, sends=sends, hears=hears, compute_s=compute_s).total_j
