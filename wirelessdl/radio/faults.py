"""Links that carry nothing for a while, and jammers.

    blocked(links, time_s, snr_db) -> which links are blocked in the frame that opens now, `[links]`
    noise_w(geometry, time_s) -> jamming power at each receiver in W, `[K]`

A blockage that says `still_heard = True` only takes the link out of the graph: where interference is physical, the
receiver still hears the sender as interference. A jammer's noise hides nobody: its power is the adversary's choice, so
privacy never counts on it.
"""

import math
from typing import Annotated, Protocol

import numpy as np
from annotated_types import Ge, Gt, Le

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Geometry, Links
from wirelessdl.scenario.section import Schedule, checked
from wirelessdl.units import SPEED_OF_LIGHT_MPS, dbm_to_w, from_db


class Blockage(Protocol):
    def blocked(self, links: Links, time_s: float, snr_db: FloatArray) -> BoolArray: ...


class NoBlockage:
    """No blocked links."""

    def blocked(self, links: Links, time_s: float, snr_db: FloatArray) -> BoolArray:  # noqa: ARG002
        return np.zeros(len(links), dtype=bool)


class SnrBlockage:
    """A link whose SNR at full power is below threshold_db in a frame is lost for that frame."""

    still_heard = True  # the air goes on adding it up, where interference is physical

    def __init__(self, threshold_db: float):
        self._threshold_db = threshold_db

    def blocked(self, links: Links, time_s: float, snr_db: FloatArray) -> BoolArray:  # noqa: ARG002
        return np.asarray(snr_db < self._threshold_db)


class ScheduledBlockage:
    """Events { tx, rx, from_s, until_s, both_ways }; without until_s a link stays blocked."""

    def __init__(self, events: Schedule, *, nodes: int):
        self._events = checked(events, ("tx", "rx", "from_s"), {"until_s": math.inf, "both_ways": True}, nodes)
        for number, event in enumerate(self._events):
            if event["tx"] == event["rx"]:
                raise ValueError(f"events[{number}] blocks node {event['tx']} from itself; name two nodes")
            if event["until_s"] <= event["from_s"]:
                raise ValueError(
                    f"events[{number}].until_s is {event['until_s']:g}; must be after from_s, {event['from_s']:g}"
                )

    def blocked(self, links: Links, time_s: float, snr_db: FloatArray) -> BoolArray:  # noqa: ARG002
        found = []
        for event in self._events:
            if event["from_s"] <= time_s < event["until_s"]:
                found.append(event["rx"] * links.nodes + event["tx"])
                if event["both_ways"]:
                    found.append(event["tx"] * links.nodes + event["rx"])
        return np.isin(links.number, found)


BLOCKAGES = {"none": NoBlockage, "snr": SnrBlockage, "schedule": ScheduledBlockage}


Share = Annotated[float, Ge(0), Le(1)]


class Jammer(Protocol):
    def noise_w(self, geometry: Geometry, time_s: float) -> FloatArray: ...


class NoJammer:
    """No jammer."""

    def noise_w(self, geometry: Geometry, time_s: float) -> FloatArray:  # noqa: ARG002
        return np.zeros(geometry.nodes)


class _Pulses:
    """When a jammer is on: from_s to until_s, and of every period_s the first on_share."""

    def __init__(self, from_s: float, until_s: float | None, period_s: float | None, on_share: float):
        if until_s is not None and until_s <= from_s:
            raise ValueError(f"until_s is {until_s:g}; must be > from_s, which is {from_s:g}")
        self._from_s, self._until_s = from_s, math.inf if until_s is None else until_s
        self._period_s, self._on_share = period_s, on_share

    def on(self, time_s: float) -> bool:
        if not self._from_s <= time_s < self._until_s:
            return False
        return self._period_s is None or (time_s - self._from_s) % self._period_s < self._on_share * self._period_s


class NoiseJammer(_Pulses):
    """power_dbm of noise at every receiver, wherever it comes from."""

    def __init__(
        self,
        power_dbm: Annotated[float, Ge(-300), Le(200)],
        from_s: Annotated[float, Ge(0)] = 0.0,
        until_s: Annotated[float, Gt(0)] | None = None,
        period_s: Annotated[float, Gt(0)] | None = None,
        on_share: Share = 0.5,
    ):
        super().__init__(from_s, until_s, period_s, on_share)
        self._received_w = dbm_to_w(power_dbm)

    def noise_w(self, geometry: Geometry, time_s: float) -> FloatArray:
        return np.full(geometry.nodes, self._received_w if self.on(time_s) else 0.0)


class PlacedJammer(_Pulses):
    """A transmitter of power_dbm at a place; free-space loss to 1 m, then 10 exponent lg d."""

    def __init__(
        self,
        power_dbm: Annotated[float, Ge(-300), Le(200)],
        x_m: float = 0.0,
        y_m: float = 0.0,
        height_m: float = 1.5,
        exponent: Annotated[float, Gt(0)] = 2.0,
        from_s: Annotated[float, Ge(0)] = 0.0,
        until_s: Annotated[float, Gt(0)] | None = None,
        period_s: Annotated[float, Gt(0)] | None = None,
        on_share: Share = 0.5,
        *,
        frequency_hz: float,
    ):
        super().__init__(from_s, until_s, period_s, on_share)
        first_db = 20.0 * math.log10(4.0 * math.pi * frequency_hz / SPEED_OF_LIGHT_MPS)
        self._at_one_metre_w = dbm_to_w(power_dbm) * from_db(-first_db)
        self._place_m, self._exponent = np.array([x_m, y_m, height_m]), exponent

    def noise_w(self, geometry: Geometry, time_s: float) -> FloatArray:
        if not self.on(time_s):
            return np.zeros(geometry.nodes)
        distance_m = np.maximum(np.linalg.norm(geometry.position_m - self._place_m, axis=1), 1.0)
        return np.asarray(self._at_one_metre_w * distance_m**-self._exponent)


JAMMERS = {"none": NoJammer, "noise": NoiseJammer, "transmitter": PlacedJammer}
