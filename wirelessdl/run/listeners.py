"""Functions of the user's that a scenario connects to trace events."""

from collections.abc import Mapping

from wirelessdl.contract import Guard
from wirelessdl.errors import ScenarioError, nearest
from wirelessdl.scenario.part import Catalog, Part
from wirelessdl.trace.events import TRACE_EVENTS, Event, Listener


def user_listeners(catalog: Catalog, connect: Mapping[str, str | list[str]]) -> list[tuple[str, Listener]]:
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


def _guarded(name: str, function: Listener) -> Listener:
    """A mistake of the user's becomes one line."""

    def call(event: Event) -> None:
        with Guard(name, detail=f" on {event.source} at {event.time_s:g} s"):
            function(event)

    return call
