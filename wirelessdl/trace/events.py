"""Trace sources: places in the engine that tell whoever asks.

    engine.trace.connect("phy.rx", lambda event: print(event.time_s, event.rx, event.tx, event.gain))

One event per frame with arrays, but for states of nodes, which come one by one. The Parquet tables are written by a
subscriber like any other. A source without subscribers costs a look-up.

    source            fields
    node.state        node, state (computed, crash, rejoin, late, budget, battery), detail
    net.state         state (frame, plan, violation), detail
    mobility.move     position_m, velocity_mps [K, 3]
    channel.gain      rx, tx, gain, gain_est per link that is heard (several slots: of the first)
    power.plan        alpha, power_w [K], theta
    privacy.release   round, on_air, own_mu [K], link_rx, link_tx, link_mu
    phy.tx            round, node, alpha, noise_std of every sender
    phy.rx            round, rx, tx, gain, weight, epsilon per link that is heard
    learning.update   round, slot, outcome (tensors that nobody has waited for yet), entry
"""

from collections.abc import Callable, Mapping
from typing import Any

from wirelessdl.errors import ContractError, ScenarioError, nearest
from wirelessdl.scenario.part import Catalog, Part, formatted

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


Callback = Callable[[Event], object]


class TraceEvents:
    """Who listens to what."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callback]] = {name: [] for name in TRACE_EVENTS}
        self.muted = False  # while time is replayed, everything has been told already

    def connect(self, source: str, callback: Callback) -> None:
        """Call `callback(event)` whenever a source has something to tell."""
        if source not in self._listeners:
            raise ValueError(f'no trace source "{source}"{nearest(source, TRACE_EVENTS)}')
        self._listeners[source].append(callback)

    def wanted(self, source: str) -> bool:
        """Whether anybody listens: what is costly to say is said only then."""
        return bool(self._listeners[source]) and not self.muted

    def fire(self, source: str, time_ns: int, **fields: Any) -> None:
        if self.muted:
            return
        listeners = self._listeners[source]
        if listeners:
            event = Event(source, time_ns, fields)
            for listener in listeners:
                listener(event)


def user_callbacks(catalog: Catalog, connect: Mapping[str, str | list[str]]) -> list[tuple[str, Callback]]:
    """The functions that a scenario connects, found in the user's files."""
    found = []
    for source, names in connect.items():
        where = f'trace.connect."{source}"'
        if source not in TRACE_EVENTS:
            raise ScenarioError(f"{catalog.origin}: unknown key {where}{nearest(source, TRACE_EVENTS)}")
        for name in [names] if isinstance(names, str) else names:
            part = Part(kind=name)  # type: ignore[call-arg]
            function = catalog.find(where, part, {}) if part.is_user_class else None
            if not callable(function):
                raise ScenarioError(f'{catalog.origin}: {where} is "{name}"; must name a function, "file.py:function"')
            found.append((source, _guarded(name, function)))
    return found


def _guarded(name: str, function: Callback) -> Callback:
    """A mistake of the user's is told in one line."""

    def call(event: Event) -> None:
        try:
            function(event)
        except Exception as error:
            raise ContractError(f"{name} raised {formatted(error)} on {event.source} at {event.time_s:g} s") from error

    return call
