"""Parts that a scenario may name, and the builder that constructs and queries them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirelessdl.channel import CHANNELS
from wirelessdl.channel.csi import CSI
from wirelessdl.contract import Guard
from wirelessdl.errors import ContractError, ScenarioError
from wirelessdl.families import classes
from wirelessdl.learning.byzantine import ATTACKS
from wirelessdl.learning.data import DATASETS
from wirelessdl.learning.features import FEATURES
from wirelessdl.learning.models import MODELS
from wirelessdl.learning.partition import PARTITIONS
from wirelessdl.learning.robust import rules
from wirelessdl.learning.schedule import SCHEDULES
from wirelessdl.network.mobility import MOBILITIES
from wirelessdl.network.placement import PLACEMENTS
from wirelessdl.network.streets import MAPS
from wirelessdl.network.topology import TOPOLOGIES
from wirelessdl.power.allocate import ALLOCATORS
from wirelessdl.radio.faults import BLOCKAGES, JAMMERS
from wirelessdl.scenario.loader import catalog_for
from wirelessdl.scenario.part import PROCESSES, Catalog, Part
from wirelessdl.scenario.schema import Scenario
from wirelessdl.sim.faults import CRASHES, STRAGGLERS
from wirelessdl.sim.timing import COMPUTE_TIMES, POLICIES


@dataclass(frozen=True)
class PartKind:
    """A kind of part: built-in classes by name, the method it is used by, and what constructors may ask for.

    call: the method as it is called, `gain(links, time_s, rng)`; in brackets, what it may take besides.
    """

    classes: Mapping[str, Any]
    call: str
    supplied: tuple[str, ...] = ()


# every part a scenario may name, by its key
PARTS: dict[str, PartKind] = {
    "network.map": PartKind(MAPS, "obstructed(links)", ("find_file",)),
    "network.placement": PartKind(PLACEMENTS, "positions(nodes, rng)", ("streets", "find_file")),
    "network.mobility": PartKind(MOBILITIES, "geometry(time_s)", ("start_m", "rng", "streets", "find_file")),
    "network.topology": PartKind(TOPOLOGIES, "links(geometry, snr_db, rng[, time_s])", ("find_file",)),
    "channel.models": PartKind(CHANNELS, "gain(links, time_s, rng)", ("frequency_hz", "condition", "find_file")),
    "radio.csi": PartKind(CSI, "estimate(links, gain, pilot_w, noise_w, rng)"),
    "radio.access": PartKind(
        classes("access"),
        "mix(links, gain, amplitude, on_air)",
        ("radio", "nodes", "streams", "silent", "server", "groups"),
    ),
    "power.allocator": PartKind(ALLOCATORS, "allocate(problem, theta)", ("objective",)),
    "privacy.noise": PartKind(classes("mechanism"), "protect(plan, on_air, links, sigma)", ("privacy",)),
    "learning.dataset": PartKind(DATASETS, "load()", ("folders",)),
    "learning.features": PartKind(FEATURES, "transform(samples)", ("find_class",)),
    "learning.model": PartKind(MODELS, "gradient(...)", ("features", "input_shape", "classes")),
    "learning.partition": PartKind(PARTITIONS, "split(labels, nodes, rng)", ("folders",)),
    "learning.learning_rate": PartKind(SCHEDULES, "rate(round)", ("rounds", "scale")),
    "learning.update": PartKind(classes("update"), "base(received, state, round)", ("learning",)),
    "learning.robust": PartKind(rules(), "combine(values, weight, limit)"),
    "time.compute": PartKind(
        COMPUTE_TIMES, "duration_s(node, round)", ("nodes", "rng", "world_rng", "samples", "model_flops")
    ),
    "time.policy": PartKind(POLICIES, "wait(gate)"),
    PROCESSES: PartKind({}, "process(env, network, rng)"),
    "faults.crashes": PartKind(CRASHES, "outages(node, rng)", ("nodes",)),
    "faults.blockage": PartKind(BLOCKAGES, "blocked(links, time_s, snr_db)", ("nodes",)),
    "faults.stragglers": PartKind(STRAGGLERS, "factor(node, round)", ("nodes", "rng")),
    "faults.jammer": PartKind(JAMMERS, "noise_w(geometry, time_s)", ("nodes", "rng", "frequency_hz")),
    "faults.byzantine": PartKind(ATTACKS, "send(honest, first, limit, round, rng)"),
}


class Builder:
    """Builds parts one by one, each once, and keeps their spelled-out form."""

    def __init__(self, scenario: Scenario, extra_folders: tuple[Path, ...], run: Path | None):
        self.scenario = scenario
        self.catalog: Catalog = catalog_for(scenario, extra_folders, run)
        self.resolved: dict[str, Part] = {}

    def part(self, where: str, part: Part, **given: Any) -> Any:
        """The part under a key, checked to have the method it is used by. given: what its constructor may ask for."""
        built = self.construct(where, part, **given)
        self.require(where, part, built, PARTS[where.partition("[")[0]].call)
        return built

    def construct(self, where: str, part: Part, **given: Any) -> Any:
        """The part under a key, as its class made it."""
        kind = PARTS[where.partition("[")[0]]
        assert tuple(given) == kind.supplied, f"{where} is given {tuple(given)}, declared {kind.supplied}"
        built, self.resolved[where] = self.catalog.build(where, part, kind.classes, **given)
        return built

    def require(self, where: str, part: Part, built: Any, call: str) -> None:
        """Raise unless a part has a method that can be called so: `gain(links, time_s, rng)`, or `forward(...)`."""
        name, _, arguments = call.removesuffix(")").partition("(")
        method, said = getattr(built, name, None), f'{where}.{part.key} is "{part.name}"'
        if not callable(method):
            raise self.fail(f"{said}; the class needs a method {name}({arguments})")
        if arguments == "..." or not part.is_user_class:
            return
        arguments, _, optional = arguments.removesuffix("]").partition("[, ")
        expected = arguments.split(", ") if arguments else []
        try:
            taken = inspect.signature(method).parameters.values()
            expected += [parameter.name for parameter in taken if optional and parameter.name == optional]
            inspect.signature(method).bind(*expected)
        except ValueError:  # a callable that has no signature
            return
        except TypeError:
            given = ", ".join(["self", *(str(parameter.replace(annotation=parameter.empty)) for parameter in taken)])
            wanted = ", ".join(["self", *expected])
            raise self.fail(f"{said}; its method {name}({given}) must be {name}({wanted})") from None

    def ask(self, where: str, part: Part, question: Callable[[], Any]) -> Any:
        """What a part answers; a ValueError of a built-in names its key, any error of the user's its class and line."""
        origin = self.scenario.origin
        with Guard(
            f"{origin}: {where}: {part.name}",
            is_user_class=part.is_user_class,
            built_in=f"{origin}: {where}.",
            built_in_error=ScenarioError,
        ):
            return question()

    def check(self, where: str, question: Callable[[], Any]) -> Any:
        """What a check of ours makes of a part's answer; its errors are given the scenario's name."""
        try:
            return question()
        except ContractError as error:
            raise ContractError(f"{self.scenario.origin}: {error}") from error
        except ValueError as error:
            raise self.fail(f"{where}.{error}") from error

    def fail(self, message: object) -> ScenarioError:
        return ScenarioError(f"{self.scenario.origin}: {message}")
