"""Trace events: what the engine says as it goes, to whoever listens.

    engine.trace.connect("phy.rx", lambda event: print(event.time_s, event.rx, event.tx, event.gain))

One event per frame with arrays, but for states of nodes, which come one by one. The Parquet tables are written by a
listener like any other. An event without listeners costs a look-up.

    event             fields
    node.state        node, state (computed, crash, rejoin, late, control, budget, battery), detail
    net.state         state (frame, plan, violation), detail
    mobility.move     position_m, velocity_mps [K, 3]
    channel.gain      rx, tx, gain, gain_est per link that is heard (of the first slot, over its subbands)
    power.plan        alpha, power_w [K], theta
    privacy.release   round, on_air, own_mu [K], link_rx, link_tx, link_mu
    phy.tx            round, node, alpha, noise_std of every sender
    phy.rx            round, rx, tx, gain, weight, epsilon per link that is heard
    learning.update   round, decision, result (tensors that nobody has waited for yet), record
"""

from collections.abc import Callable, Mapping
from typing import Any

from wirelessdl.arrays import read_only
from wirelessdl.errors import nearest

TRACE_EVENTS = (
    "node.state",
    "net.state",
    "mobility.move",
    "channel.gain",
    "power.plan",
    "privacy.release",
    "phy.tx",
    "phy.rx",
    "learning.update",
)


class Event:
    """Something that happened; its fields are attributes."""

    __slots__ = ("fields", "source", "time_ns")

    def __init__(self, source: str, time_ns: int, fields: Mapping[str, Any]):
        self.source, self.time_ns, self.fields = source, time_ns, fields

    @property
    def time_s(self) -> float:
        return self.time_ns / 1e9

    def __getattr__(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(f"{self.source} has no field {name}{nearest(name, self.fields)}") from None


Listener = Callable[[Event], object]


class TraceEvents:
    """Which listeners hear what."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = {name: [] for name in TRACE_EVENTS}
        self.muted = False  # while time is replayed, everything has been said already

    def connect(self, source: str, listener: Listener) -> None:
        """Call `listener(event)` at every event of this name."""
        if source not in self._listeners:
            raise ValueError(f'no trace event "{source}"{nearest(source, TRACE_EVENTS)}')
        self._listeners[source].append(listener)

    def wanted(self, source: str) -> bool:
        """Whether anybody listens: what is costly to work out is worked out only then."""
        return bool(self._listeners[source]) and not self.muted

    def fire(self, source: str, time_ns: int, **fields: Any) -> None:
        if self.muted:
            return
        listeners = self._listeners[source]
        if listeners:
            # every listener hears the same arrays, and the run goes on with them
            event = Event(source, time_ns, {name: read_only(value) for name, value in fields.items()})
            for listener in listeners:
                listener(event)
