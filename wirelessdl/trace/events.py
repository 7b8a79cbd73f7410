"""Trace events: listeners are called as the engine reaches each stage of a frame.

    engine.trace.connect("phy.rx", lambda event: print(event.time_s, event.rx, event.tx, event.gain))

One event per frame with arrays, but for states of nodes, which come one by one; what is decided when a frame opens is
said then, with the time at which it takes effect. The Parquet tables are written by a listener like any other. An
event without listeners costs a look-up.

    event             fields
    node.state        node, state (computed, crash, rejoin, late, control, budget, battery, hub, process), detail
    net.state         state (frame, plan, violation, process), detail
    mobility.move     position_m, velocity_mps [K, 3]
    channel.gain      rx, tx, gain, gain_est per link that is heard (of the first slot, over its subbands)
    power.plan        alpha, power_w [K], theta
    privacy.release   round, on_air, own_mu [K], link_rx, link_tx, link_mu
    phy.tx            round, node, alpha, noise_std of every sender
    phy.rx            round, rx, tx, gain, weight, epsilon per link that is heard
    learning.update   round, decision, result (tensors that nobody has waited for yet), record

The log, `--log sim=debug,channel=info`, is one more listener: lines on the standard error, simulation time in front.
`info` is a line for what happens now and then, `debug` a line per frame and node with figures. `--log wandb` writes the
rounds table to Weights & Biases, offline.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wirelessdl.arrays import read_only
from wirelessdl.contract import Guard
from wirelessdl.errors import ScenarioError, TraceError, nearest
from wirelessdl.units import format_range

if TYPE_CHECKING:
    from wirelessdl.scenario.part import Catalog

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

    def has_listeners(self, source: str) -> bool:
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


def user_listeners(catalog: "Catalog", connect: Mapping[str, str | list[str]]) -> list[tuple[str, Listener]]:
    """The functions that a scenario connects, found in the user's files; a mistake in one becomes one line."""
    from wirelessdl.scenario.part import Part

    found: list[tuple[str, Listener]] = []
    for source, names in connect.items():
        where = f'trace.connect."{source}"'
        if source not in TRACE_EVENTS:
            raise ScenarioError(f"{catalog.origin}: unknown key {where}{nearest(source, TRACE_EVENTS)}")
        for name in [names] if isinstance(names, str) else names:
            part = Part(kind=name)  # type: ignore[call-arg]
            function = catalog.find(where, part, {}) if part.is_user_class else None
            if not callable(function):
                raise ScenarioError(f'{catalog.origin}: {where} is "{name}"; must name a function, "file.py:function"')

            def call(event: Event, name: str = name, function: Listener = function) -> None:
                with Guard(name, detail=f" on {event.source} at {event.time_s:g} s"):
                    function(event)

            found.append((source, call))
    return found


_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
_STATES = {
    **dict.fromkeys(("violation", "budget", "battery"), logging.WARNING),
    **dict.fromkeys(("computed", "frame", "late", "control", "hub"), logging.DEBUG),
}
_INFO = ("channel.gain", "privacy.release", "learning.update")
_COMPONENTS = {
    "sim": ("node.state", "net.state"),
    "network": ("mobility.move",),
    "channel": ("channel.gain",),
    "power": ("power.plan",),
    "privacy": ("privacy.release",),
    "phy": ("phy.tx", "phy.rx"),
    "learning": ("learning.update",),
}


WANDB = "wandb"  # in --log: the rounds table to Weights & Biases, see `WandbLog`


def wants_wandb(text: str) -> bool:
    return WANDB in (part.strip() for part in text.split(","))


def parse_log(text: str) -> dict[str, int]:
    """Levels by component: `sim=debug,channel=info`, or `debug` for all."""
    levels: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        if entry == WANDB:
            continue
        name, equals, level = entry.partition("=")
        if not equals:
            name, level = "all", name
        if name != "all" and name not in _COMPONENTS:
            raise ScenarioError(f"--log is {text!r}; no component {name!r}{nearest(name, ('all', *_COMPONENTS))}")
        if level not in _LEVELS:
            raise ScenarioError(f"--log is {text!r}; no level {level!r}: use debug, info or warning")
        levels.update(dict.fromkeys(_COMPONENTS if name == "all" else [name], _LEVELS[level]))
    return levels


def connect_log(trace: TraceEvents, levels: dict[str, int]) -> None:
    """Write events at the levels asked for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(sim_s)15.9f s  %(name)s  %(message)s"))
    for component, least in levels.items():
        logger = logging.Logger(component, least)  # of this run alone: nothing global is touched
        logger.addHandler(handler)
        for source in _COMPONENTS[component]:
            trace.connect(source, partial(_write, logger))


def _write(logger: logging.Logger, event: Event) -> None:
    if event.source.endswith(".state"):
        node = f"node {event.node}: " if event.source == "node.state" else ""
        level = _STATES.get(event.state, logging.INFO)
        message = f"{node}{event.state}{f': {event.detail}' if event.detail else ''}"
    else:
        level = logging.INFO if event.source in _INFO else logging.DEBUG
        figures = (_figure(name, value) for name, value in event.fields.items())
        message = ", ".join([event.source, *filter(None, figures)])
    logger.log(level, message, extra={"sim_s": event.time_s})


def _figure(name: str, value: Any) -> str:
    """A field of an event: a number as it is, an array by its size and ends."""
    if isinstance(value, np.ndarray):
        return f"{name} {format_range(value)} ({len(value)})" if value.size else f"no {name}"
    return f"{name} {value:.4g}" if isinstance(value, int | float) else ""


class WandbLog:
    """`--log wandb`: the rounds table, as it is written, to an offline run of Weights & Biases in ./wandb.

    No key, and nothing is sent: `wandb sync` is the user's own decision. Every column by its name, step: the round.
    """

    def __init__(self) -> None:
        try:
            import wandb
        except ImportError:
            raise TraceError(
                "--log wandb needs a package that is not installed; install it with: pip install wirelessdl[wandb]"
            ) from None
        self._wandb = wandb
        self._run: Any = None

    def begin(self, folder: Path, scenario: dict[str, Any]) -> None:
        """The run in this directory begins, or goes on."""
        settings = self._wandb.Settings(silent=True, console="off", disable_git=True, save_code=False)
        self._run = self._wandb.init(
            project="wirelessdl", name=folder.name, config=scenario, mode="offline", settings=settings
        )

    def rounds(self, columns: Mapping[str, Any]) -> None:
        """Rows of the rounds table; what is null there is left out."""
        for n, round in enumerate(np.asarray(columns["round"]).tolist()):
            row = {name: np.ma.asarray(values)[n] for name, values in columns.items() if name != "round"}
            numbers = {name: value for name, value in row.items() if value is not np.ma.masked and _is_number(value)}
            self._run.log({name: float(value) for name, value in numbers.items()}, step=int(round))

    def finish(self, *, sound: bool) -> None:
        if self._run is not None:
            self._run.finish(exit_code=0 if sound else 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and bool(np.isfinite(value))
