"""`--set section.key=value`: any key of a scenario, also inside lists and parts; in Python, values by key.

A baseline is a named set of overrides: what else the same nodes could do with the same data.

A baseline changes what it is about and, beyond that, only what would not go together with it; the task, the data and
their partition, the schedule and the rounds are the scenario's. `central` alone changes the partition: one node has all
data. Overrides of the user's own come after it and win.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel

from wirelessdl.errors import ScenarioError, nearest, quote
from wirelessdl.scenario.objects import UserPart, plain_value
from wirelessdl.scenario.part import Part
from wirelessdl.scenario.schema import Scenario

_NAMES = ("kind", "model")  # keys that name a part
LONG_NUMBER = "a whole number in it has thousands of digits; no key takes one"
_MAX_BITS = 10_000  # numbers up to here can be written in decimal

Overrides: TypeAlias = Mapping[str, Any] | Sequence[str]


def apply_overrides(table: dict[str, Any], overrides: Overrides, objects: dict[str, UserPart]) -> None:
    """Set keys: texts as `--set` takes them, or values by key. objects: where those among the values are kept."""
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            _set(table, str(key).split("."), plain_value(str(key), value, objects), f"overrides: {quote(key)}")
        return
    listed = list(overrides) if isinstance(overrides, Iterable) and not isinstance(overrides, str) else [None]
    if not all(isinstance(override, str) for override in listed):
        raise ScenarioError(
            f"overrides is {quote(repr(overrides), 60)}; must be values by key, "
            '{"scenario.rounds": 100}, or a list of texts'
        )
    for override in listed:
        apply_override(table, str(override))


def has_long_number(value: Any) -> bool:
    """Whether a whole number is in it that Python does not write out."""
    if isinstance(value, Mapping):
        return any(map(has_long_number, value.values()))
    if isinstance(value, list | tuple):
        return any(map(has_long_number, value))
    return isinstance(value, int) and value.bit_length() > _MAX_BITS


def apply_override(table: dict[str, Any], override: str) -> None:
    """Set one dotted key. List entries are numbers; naming another kind drops the old one's parameters."""
    key, equals, text = override.partition("=")
    option = f"--set {quote(override)}"
    if not equals:
        raise ScenarioError(f'{option}: must be section.key=value, as in "scenario.rounds=100"')
    _set(table, key.strip().split("."), parse_value(text.strip()), option)


def _set(table: dict[str, Any], path: list[str], value: Any, option: str) -> None:
    if has_long_number(value):
        raise ScenarioError(f"{option}: {LONG_NUMBER}")
    if len(path) < 2 or not all(path):
        raise ScenarioError(f'{option}: must be section.key=value, as in "scenario.rounds=100"')
    place: Any = table
    for depth, step in enumerate(path[:-1]):
        place = _enter(place, step, option, path[:depth])
    last = path[-1]
    if isinstance(place, list):
        place[_index(place, last, option)] = value
    elif last in _NAMES and len(path) > 2:
        named = next((place[name] for name in _NAMES if name in place), value)
        if named != value:
            place.clear()  # parameters of another kind
        for name in _NAMES:
            place.pop(name, None)
        place[last] = value
    else:
        place[last] = value


def _enter(place: Any, step: str, option: str, above: list[str]) -> Any:
    """The table or list one step down; a part written as its bare name, or not at all, becomes a table."""
    index: Any = _index(place, step, option) if isinstance(place, list) else step
    if isinstance(place, dict) and step not in place:
        place[step] = _default(above, step)
    child = place[index]
    if isinstance(child, str):
        child = place[index] = {"model" if isinstance(place, list) else "kind": child}
    if not isinstance(child, dict | list):
        raise ScenarioError(f"{option}: {quote(step)} is a value, not a section")
    return child


def _index(place: list[Any], step: str, option: str) -> int:
    if not (step.isascii() and step.isdigit()) or len(step) > 9 or int(step) >= len(place):
        raise ScenarioError(f"{option}: {quote(step)} is no entry of a list of {len(place)}; count from 0")
    return int(step)


def _default(above: list[str], step: str) -> dict[str, Any]:
    """What a key that the file leaves out stands for: the part it defaults to, or an empty section."""
    section = (
        Scenario.model_fields[above[0]].annotation if len(above) == 1 and above[0] in Scenario.model_fields else None
    )
    if isinstance(section, type) and issubclass(section, BaseModel) and step in section.model_fields:
        default = section.model_fields[step].default
        if isinstance(default, list):  # of one part
            default = next((one for one in default if len(default) == 1), None)
        if isinstance(default, Part):
            return default.to_table()
    return {}


def parse_value(text: str) -> Any:
    """A TOML value; anything else is a text."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # also a number of more digits than Python reads
        return text
    return parsed["value"] if len(parsed) == 1 and not has_long_number(parsed) else text


@dataclass(frozen=True)
class Baseline:
    """A named set of overrides, `section.key=value`, and what it stands for."""

    name: str
    summary: str
    overrides: tuple[str, ...]
    scale: Callable[[Scenario], tuple[str, ...]] | None = None  # further ones, by the scenario's numbers

    def all_for(self, scenario: Callable[[], Scenario]) -> tuple[str, ...]:
        """All overrides of a scenario."""
        return self.overrides if self.scale is None else (*self.overrides, *self.scale(scenario()))


def _as_one_node(scenario: Scenario) -> tuple[str, ...]:
    """Step and sampling rate of K nodes together: their mean moves by gamma K times the mean of all gradients."""
    nodes, power, batch = scenario.network.nodes, scenario.power, scenario.learning.batch_size
    given = power.multiplier if isinstance(power.multiplier, float) else float(nodes)
    multiplier = 1.0 if power.multiplier == "none" else given
    return (f"power.multiplier={multiplier!r}", f"learning.batch_size={nodes * batch}")


_NO_STAGE = "privacy.gram_share=0.0"
_INDEPENDENT = ("privacy.noise=independent", "privacy.against=auto")
_NO_PASSES = ("radio.mixing_passes=0", "learning.closing_passes=0")
_NO_NOISE = (
    *_INDEPENDENT,
    "privacy.epsilon_max=inf",
    "privacy.epsilon_total=inf",
    "privacy.budget_total=inf",
    _NO_STAGE,
)
_SILENT = (
    "faults.byzantine=none",
    "network.topology=none",
    "network.server=none",
    *_INDEPENDENT,
    *_NO_PASSES,
    "power.multiplier=auto",
    _NO_STAGE,
)
# a sender that is heard alone hides behind its own noise, and Metropolis weights need no balancing
_TDMA = (
    "radio.access=tdma",
    "network.server=none",
    "radio.duplex=full",
    "power.allocator=lp",
    "power.objective=own-noise",
    "power.balance=receiver",
)
_IDEAL = (
    "radio.thermal_noise=false",
    "radio.csi=perfect",
    "radio.phase_error_rad=0.0",
    "radio.cfo_hz=0.0",
    "radio.timing_offset_s=0.0",
    "radio.flight_time=false",
    "radio.timing_error_s=0.0",
    "radio.interference=none",
    "radio.control_failure=0.0",
    "faults.jammer=none",
    "privacy.credit_thermal=false",
)
# one node alone: all that a scenario may say of each of K nodes
_ONE_NODE = (
    "network.nodes=1",
    "network.map=none",
    "network.placement=disc",
    "network.mobility=static",
    "channel.condition=auto",
    "radio.power_dbm=23.0",
    "radio.cfo_hz=0.0",
    "radio.timing_offset_s=0.0",
    "learning.partition=iid",
    "faults.crashes=none",
    "faults.blockage=none",
    "faults.stragglers=none",
    "faults.jammer=none",
    "events.processes=[]",
    "energy.battery_j=inf",
)

_PUBLISHED = (
    "faults.byzantine=none",
    "network.topology=none",
    "network.server=none",
    "radio.access=published",
    "power.allocator=lp",
    "power.objective=own-noise",
    "power.balance=receiver",
    "power.schedule=static",
    "power.beta_min=1e-12",
    "privacy.credit_thermal=false",
)

BASELINES: dict[str, Baseline] = {
    baseline.name: baseline
    for baseline in (
        Baseline("local", "Every node learns from its own data alone; nothing is sent, nothing leaks.", _SILENT),
        Baseline("central", "All data at one node, which sends nothing.", (*_SILENT, *_ONE_NODE)),
        Baseline(
            "central-dp",
            "All data at one trusted node that publishes its model with noise every round.",
            (*_INDEPENDENT, *_NO_PASSES, *_ONE_NODE, *_PUBLISHED),
            _as_one_node,
        ),
        Baseline(
            "d-psgd",
            "Decentralized SGD on ideal links: TDMA, Metropolis weights, no noise, no multiplier.",
            (*_TDMA, *_NO_NOISE, *_NO_PASSES, *_IDEAL, "power.multiplier=none", "power.schedule=static"),
        ),
        Baseline("no-privacy", "The scenario without privacy noise.", _NO_NOISE),
        Baseline(
            "own-noise",
            "Independent noise per node meets the scenario's target.",
            (*_INDEPENDENT, "power.allocator=lp", "power.objective=own-noise"),
        ),
        Baseline(
            "tdma", "One sender after another instead of over-the-air computation.", (*_TDMA, "power.multiplier=auto")
        ),
        Baseline(
            "server",
            "A server in the middle collects and sends back, in place of any other alignment.",
            (
                *_NO_PASSES,
                "radio.access=oac",
                "radio.alignment=server",
                "network.server={ at = 'center' }",
                "radio.subbands=1",
                "radio.payload_slots=auto",
                "radio.use_full_power=false",
                "radio.truncate_snr_db=auto",
                "power.allocator=lp",
                "power.objective=own-noise",
                "power.balance=receiver",
                "power.multiplier=auto",
                "power.schedule=static",
                "privacy.protocol=hardened",
                "privacy.credit_thermal=false",
            ),
        ),
        Baseline(
            "digital",
            "Quantised, coded messages, one sender after another, repeated until they arrive.",
            (
                *_TDMA,
                *_NO_PASSES,
                "radio.access=digital",
                "radio.subbands=1",
                "radio.truncate_snr_db=auto",
                "radio.z_exchange=control",
                "power.multiplier=auto",
                "privacy.credit_thermal=false",
                "energy.battery_j=inf",
            ),
        ),
    )
}


def baseline_overrides(name: str, scenario: Callable[[], Scenario]) -> tuple[str, ...]:
    """The overrides that a name stands for. scenario: what they are made for, if they depend on it."""
    if name not in BASELINES:
        raise ScenarioError(f"no baseline {quote(name)}{nearest(name, BASELINES)}")
    return BASELINES[name].all_for(scenario)
