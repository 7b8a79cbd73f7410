"""Parts by the names that scenarios use, and how they are built and asked."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wirelessdl.channel.catalog import CHANNELS
from wirelessdl.channel.csi import CSI
from wirelessdl.channel.los import ChannelCondition
from wirelessdl.channel.model import Chain
from wirelessdl.channel.pathloss.formulas import LOS_PROBABILITY
from wirelessdl.errors import ContractError, ScenarioError
from wirelessdl.learning.batch import sample_shape
from wirelessdl.learning.data import DATASETS, Dataset
from wirelessdl.learning.models import MODELS
from wirelessdl.learning.models.module import adapt, seeded
from wirelessdl.learning.partition import PARTITIONS
from wirelessdl.learning.schedule import SCHEDULES
from wirelessdl.network.mobility import MOBILITIES
from wirelessdl.network.placement import PLACEMENTS
from wirelessdl.network.topology import TOPOLOGIES, SnrDb
from wirelessdl.power.allocate import ALLOCATORS
from wirelessdl.radio.blockage import BLOCKAGES
from wirelessdl.radio.jammer import JAMMERS
from wirelessdl.scenario.loader import catalog_for
from wirelessdl.scenario.part import Catalog, Part, formatted
from wirelessdl.scenario.schema import Scenario
from wirelessdl.sim.compute import COMPUTE_TIMES
from wirelessdl.sim.crashes import CRASHES
from wirelessdl.sim.policy import POLICIES
from wirelessdl.sim.stragglers import STRAGGLERS
from wirelessdl.streams import Streams
from wirelessdl.units import thermal_noise_w, w_to_dbm

# every part a scenario may name, for `list` and `schema`
PARTS: dict[str, Mapping[str, Any]] = {
    "network.topology": TOPOLOGIES,
    "network.placement": PLACEMENTS,
    "network.mobility": MOBILITIES,
    "channel.models": CHANNELS,
    "radio.csi": CSI,
    "power.allocator": ALLOCATORS,
    "learning.dataset": DATASETS,
    "learning.model": MODELS,
    "learning.partition": PARTITIONS,
    "learning.learning_rate": SCHEDULES,
    "time.compute": COMPUTE_TIMES,
    "time.policy": POLICIES,
    "faults.crashes": CRASHES,
    "faults.blockage": BLOCKAGES,
    "faults.stragglers": STRAGGLERS,
    "faults.jammer": JAMMERS,
}

# the method by which each part is used
METHODS = {
    "network.topology": "links",
    "network.placement": "positions",
    "network.mobility": "geometry",
    "channel.models": "gain",
    "radio.csi": "estimate",
    "power.allocator": "allocate",
    "learning.dataset": "load",
    "learning.model": "gradient",
    "learning.partition": "split",
    "learning.learning_rate": "rate",
    "time.compute": "duration_s",
    "time.policy": "wait",
    "faults.crashes": "outages",
    "faults.blockage": "blocked",
    "faults.stragglers": "factor",
    "faults.jammer": "noise_w",
}

# what the simulator itself client_indices to a part's constructor, where it asks for it
SUPPLIED: dict[str, tuple[str, ...]] = {
    "network.placement": ("find_file",),
    "network.mobility": ("start_m", "rng", "find_file"),
    "network.topology": ("find_file",),
    "channel.models": ("frequency_hz", "condition", "find_file"),
    "power.allocator": ("objective",),
    "learning.dataset": ("folders",),
    "learning.model": ("features", "input_shape", "classes"),
    "learning.partition": ("folders",),
    "learning.learning_rate": ("rounds",),
    "time.compute": ("nodes", "rng", "world_rng", "samples", "model_flops"),
    "faults.crashes": ("nodes",),
    "faults.blockage": ("nodes",),
    "faults.stragglers": ("nodes", "rng"),
    "faults.jammer": ("nodes", "rng", "frequency_hz"),
}


class Builder:
    """Builds parts one by one and keeps their spelled-out form."""

    def __init__(self, scenario: Scenario, extra_folders: tuple[Path, ...]):
        self.scenario = scenario
        self.catalog: Catalog = catalog_for(scenario, extra_folders)
        self.resolved: dict[str, Part] = {}

    def part(self, where: str, part: Part, **given: Any) -> Any:
        registry = where.partition("[")[0]
        built, self.resolved[where] = self.catalog.build(where, part, PARTS[registry], **given)
        self.require(where, part, built, METHODS[registry])
        return built

    def learner(self, data: Dataset, streams: Streams) -> Any:
        """What learns: a class with gradients of its own, or any torch module."""
        where, part = "learning.model", self.scenario.learning.model
        shape = sample_shape(data)
        with seeded(streams.world("learning.initial")):
            built, self.resolved[where] = self.catalog.build(
                where, part, MODELS, features=data.features, input_shape=shape, classes=data.classes
            )
        learner = self.ask(where, part, lambda: adapt(built, shape, data.classes))
        self.require(where, part, learner, METHODS[where] if learner is built else "forward")
        return learner

    def require(self, where: str, part: Part, built: Any, method: str) -> None:
        if not callable(getattr(built, method, None)):
            raise self.fail(f'{where}.{part.key} is "{part.name}"; the class needs a method {method}(...)')

    def ask(self, where: str, part: Part, question: Callable[[], Any]) -> Any:
        """What a part answers; a ValueError of a built-in names its key, any error of the user's is told."""
        try:
            return question()
        except Exception as error:
            if part.is_user_class:
                raise ContractError(
                    f"{self.scenario.origin}: {where}: {part.name} raised {formatted(error)}"
                ) from error
            if isinstance(error, ValueError):
                raise self.fail(f"{where}.{error}") from error
            raise

    def fail(self, message: object) -> ScenarioError:
        return ScenarioError(f"{self.scenario.origin}: {message}")


def channel_condition(scenario: Scenario, streams: Streams) -> ChannelCondition:
    channel = scenario.channel
    standard = next((part.name for part in channel.models if part.name in LOS_PROBABILITY), "")
    return ChannelCondition(channel.condition, standard, streams)


def channel_models(builder: Builder, condition: ChannelCondition) -> list[tuple[str, Any]]:
    channel = builder.scenario.channel
    given = {
        "frequency_hz": channel.frequency_hz,
        "condition": condition,
        "find_file": builder.catalog.find_file,
    }
    return [(part.name, builder.part(f"channel.models[{n}]", part, **given)) for n, part in enumerate(channel.models)]


def mean_snr_db(scenario: Scenario, channel: Chain) -> SnrDb:
    radio = scenario.radio
    noise_dbm = w_to_dbm(thermal_noise_w(radio.bandwidth_hz, radio.noise_figure_db, radio.temperature_k))
    return lambda candidates: radio.power_dbm - noise_dbm - channel.loss_db(candidates)
