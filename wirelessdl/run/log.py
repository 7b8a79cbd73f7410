"""A log on the standard error, simulation time in front: `--log sim=debug,channel=info`.

One more listener of the trace events. `info` is a line for what happens now and then, `debug` a line per
frame and node with figures.
"""

import logging
import sys
from collections.abc import Callable

import numpy as np

from wirelessdl.errors import ScenarioError, nearest
from wirelessdl.trace.events import Event, TraceEvents

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
_WARNINGS = ("violation", "budget", "battery")
_DEBUG = ("computed", "frame", "late", "control")


def parse_log(text: str) -> dict[str, int]:
    """Levels by component: `sim=debug,channel=info`, or `debug` for all."""
    levels: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, level = entry.partition("=")
        if not equals:
            name, level = "all", name
        if name != "all" and name not in _WORDS:
            raise ScenarioError(f"--log is {text!r}; no component {name!r}{nearest(name, ('all', *_WORDS))}")
        if level not in _LEVELS:
            raise ScenarioError(f"--log is {text!r}; no level {level!r}: use debug, info or warning")
        levels.update(dict.fromkeys(_WORDS if name == "all" else [name], _LEVELS[level]))
    return levels


def connect_log(trace: TraceEvents, levels: dict[str, int]) -> None:
    """Write events at the levels asked for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(sim_s)15.9f s  %(name)s  %(message)s"))
    for component, least in levels.items():
        logger = logging.Logger(component, least)  # of this run alone: nothing global is touched
        logger.addHandler(handler)
        for source, words in _WORDS[component].items():
            trace.connect(source, _writer(logger, words))


Words = Callable[[Event], tuple[int, str]]


def _writer(logger: logging.Logger, words: Words) -> Callable[[Event], None]:
    def write(event: Event) -> None:
        level, message = words(event)
        logger.log(level, message, extra={"sim_s": event.time_s})

    return write


def _node_state(event: Event) -> tuple[int, str]:
    level = logging.WARNING if event.state in _WARNINGS else logging.DEBUG if event.state in _DEBUG else logging.INFO
    return level, f"node {event.node}: {event.state}{f', {event.detail}' if event.detail else ''}"


def _net_state(event: Event) -> tuple[int, str]:
    level = logging.WARNING if event.state in _WARNINGS else logging.DEBUG if event.state in _DEBUG else logging.INFO
    return level, f"{event.state}: {event.detail}"


def _move(event: Event) -> tuple[int, str]:
    speed = np.linalg.norm(event.velocity_mps, axis=1)
    return logging.DEBUG, f"{np.count_nonzero(speed)} of {len(speed)} nodes move, {speed.max():.3g} m/s at most"


def _gain(event: Event) -> tuple[int, str]:
    if not len(event.gain):
        return logging.INFO, "nothing is heard"
    db = 20 * np.log10(np.maximum(event.gain, 1e-300))
    return logging.INFO, f"{len(db)} links, {db.min():.1f} to {db.max():.1f} dB, median {np.median(db):.1f}"


def _plan(event: Event) -> tuple[int, str]:
    return logging.DEBUG, f"alpha {event.alpha.min():.4g} to {event.alpha.max():.4g}, theta {event.theta:.4g}"


def _release(event: Event) -> tuple[int, str]:
    own, link = event.own_mu.max(initial=0.0), event.link_mu.max(initial=0.0)
    return logging.INFO, f"round {event.round}: {event.on_air.sum()} releases, mu {own:.4g} own, {link:.4g} on a link"


def _tx(event: Event) -> tuple[int, str]:
    return logging.DEBUG, f"round {event.round}: sent by {event.node.tolist()}"


def _rx(event: Event) -> tuple[int, str]:
    return logging.DEBUG, f"round {event.round}: {len(event.rx)} receptions by {len(np.unique(event.rx))} nodes"


def _update(event: Event) -> tuple[int, str]:
    return logging.INFO, f"round {event.round}: {int(event.record.stepped.sum())} gradient steps"


_WORDS: dict[str, dict[str, Words]] = {
    "sim": {"node.state": _node_state, "net.state": _net_state},
    "network": {"mobility.move": _move},
    "channel": {"channel.gain": _gain},
    "power": {"power.plan": _plan},
    "privacy": {"privacy.release": _release},
    "phy": {"phy.tx": _tx, "phy.rx": _rx},
    "learning": {"learning.update": _update},
}
