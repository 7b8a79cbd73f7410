"""Links that carry nothing for a while.

    blocked(links, time_s, snr_db) -> which links are blocked in the frame that opens now, `[links]`

A blockage that says `still_heard = True` only takes the link out of the graph: where interference is physical, the
receiver still hears the sender as a stranger.
"""

import math
from typing import Protocol

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Links
from wirelessdl.scenario.section import Schedule, checked


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
