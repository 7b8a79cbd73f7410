"""The parts that a scenario may name, and how they are built and asked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirelessdl.channel import CHANNELS
from wirelessdl.channel.csi import CSI
from wirelessdl.contract import Guard
from wirelessdl.errors import ContractError, ScenarioError
from wirelessdl.families import classes
from wirelessdl.learning.data import DATASETS
from wirelessdl.learning.features import FEATURES
from wirelessdl.learning.models import MODELS
from wirelessdl.learning.partition import PARTITIONS
from wirelessdl.learning.schedule import SCHEDULES
from wirelessdl.network.mobility import MOBILITIES
from wirelessdl.network.placement import PLACEMENTS
from wirelessdl.network.streets import MAPS
from wirelessdl.network.topology import TOPOLOGIES
from wirelessdl.power.allocate import ALLOCATORS
from wirelessdl.radio.blockage import BLOCKAGES
from wirelessdl.radio.jammer import JAMMERS
from wirelessdl.scenario.loader import catalog_for
from wirelessdl.scenario.part import Catalog, Part
from wirelessdl.scenario.schema import Scenario
from wirelessdl.sim.compute import COMPUTE_TIMES
from wirelessdl.sim.crashes import CRASHES
from wirelessdl.sim.policy import POLICIES
from wirelessdl.sim.stragglers import STRAGGLERS


@dataclass(frozen=True)
class PartKind:
    """A kind of part: built-in classes by name, the method it is used by, and what constructors may ask for."""

    classes: Mapping[str, Any]
    method: str
    supplied: tuple[str, ...] = ()


# every part a scenario may name, by its key
PARTS: dict[str, PartKind] = {
    "network.map": PartKind(MAPS, "obstructed", ("find_file",)),
    "network.placement": PartKind(PLACEMENTS, "positions", ("streets", "find_file")),
    "network.mobility": PartKind(MOBILITIES, "geometry", ("start_m", "rng", "streets", "find_file")),
    "network.topology": PartKind(TOPOLOGIES, "links", ("find_file",)),
    "channel.models": PartKind(CHANNELS, "gain", ("frequency_hz", "condition", "find_file")),
    "radio.csi": PartKind(CSI, "estimate"),
    "radio.access": PartKind(classes("access"), "carrier", ("radio", "nodes", "streams", "silent")),
    "power.allocator": PartKind(ALLOCATORS, "allocate", ("objective",)),
    "privacy.noise": PartKind(classes("mechanism"), "protect", ("privacy",)),
    "learning.dataset": PartKind(DATASETS, "load", ("folders",)),
    "learning.features": PartKind(FEATURES, "transform"),
    "learning.model": PartKind(MODELS, "gradient", ("features", "input_shape", "classes")),
    "learning.partition": PartKind(PARTITIONS, "split", ("folders",)),
    "learning.learning_rate": PartKind(SCHEDULES, "rate", ("rounds",)),
    "time.compute": PartKind(COMPUTE_TIMES, "duration_s", ("nodes", "rng", "world_rng", "samples", "model_flops")),
    "time.policy": PartKind(POLICIES, "wait"),
    "faults.crashes": PartKind(CRASHES, "outages", ("nodes",)),
    "faults.blockage": PartKind(BLOCKAGES, "blocked", ("nodes",)),
    "faults.stragglers": PartKind(STRAGGLERS, "factor", ("nodes", "rng")),
    "faults.jammer": PartKind(JAMMERS, "noise_w", ("nodes", "rng", "frequency_hz")),
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
        self.require(where, part, built, PARTS[where.partition("[")[0]].method)
        return built

    def construct(self, where: str, part: Part, **given: Any) -> Any:
        """The part under a key, as its class made it."""
        kind = PARTS[where.partition("[")[0]]
        assert tuple(given) == kind.supplied, f"{where} is given {tuple(given)}, declared {kind.supplied}"
        built, self.resolved[where] = self.catalog.build(where, part, kind.classes, **given)
        return built

    def require(self, where: str, part: Part, built: Any, method: str) -> None:
        if not callable(getattr(built, method, None)):
            raise self.fail(f'{where}.{part.key} is "{part.name}"; the class needs a method {method}(...)')

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
