"""Builds model, data and partition, and checks them against each other before anything is allocated."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from wirelessdl.arrays import IntArray
from wirelessdl.contract import capability
from wirelessdl.families import kind_of_update, member
from wirelessdl.gaussian import analytic_mu
from wirelessdl.learning.batch import sample_shape
from wirelessdl.learning.byzantine import Attackers, chosen_attackers
from wirelessdl.learning.clipping import sensitivity, step_rounding
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.draws import most_rounds
from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.evaluation import RunLearner
from wirelessdl.learning.features import Map, side_by_side
from wirelessdl.learning.gram import frames_of
from wirelessdl.learning.models.module import adapt, seeded
from wirelessdl.learning.partition import split_data
from wirelessdl.learning.records import Settings
from wirelessdl.learning.robust import Robust
from wirelessdl.learning.runtime import own_settings
from wirelessdl.learning.schedule import ROUNDED_ONE, CheckedSchedule, Schedule, ScoreScale
from wirelessdl.mechanism import Mechanism, UserMechanism
from wirelessdl.round.multiplier import least_multiplier
from wirelessdl.run.registry import PARTS, Builder
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.scenario.objects import UserPart
from wirelessdl.scenario.part import Part
from wirelessdl.scenario.schema import Scenario
from wirelessdl.streams import Streams
from wirelessdl.trace.run import Run

_MAX_ROUNDING = 0.1  # share of the sensitivity in real arithmetic
_USUAL_RATIO = math.sqrt(2.0)  # of pairs, where the first plan chooses it
_MIN_SIGMA = 1e-100  # of noise: its square is still a number
# changes data and clients before anything is built on them: an audit plants its samples so
Plant: TypeAlias = Callable[[Dataset, list[IntArray]], tuple[Dataset, list[IntArray]]]


@dataclass(frozen=True, eq=False, kw_only=True)
class BuiltLearning:
    """Data, how it is split, what learns from it, and the learning rates. client_indices: samples of each node."""

    data: Dataset
    client_indices: list[IntArray]
    learning: LearningEngine
    schedule: Schedule
    mechanism: Mechanism
    public: tuple[str, ...]  # maps of features that everyone knows


def build_learning(
    builder: Builder, streams: Streams, device: str, links: int, plant: Plant | None = None
) -> BuiltLearning:
    """Learning rates, data, partition, learner, engine. links: that are heard in a slot."""
    scenario = builder.scenario
    noise = scenario.privacy.noise
    mechanism: Mechanism = builder.part("privacy.noise", noise, privacy=scenario.privacy)
    if noise.is_user_class:
        mechanism = UserMechanism(noise.name, mechanism)
    data, maps = _data(builder)
    client_indices = _client_indices(builder, data, streams)
    rate, learner = scenario.learning.learning_rate, _learner(builder, data, streams)
    scale = _score_scale(builder, maps, mechanism, sum(map(len, client_indices))) if rate.name == "auto" else None
    frames = frames_of(data.features, learner.size) if scenario.privacy.gram_share else 1
    training = max(scenario.scenario.rounds + 1 - frames, 1)  # a stage takes rounds of its own, before
    schedule = builder.part("learning.learning_rate", rate, rounds=training, scale=scale)
    least_step = _least_rate(builder, schedule) * least_multiplier(scenario)
    if rate.is_user_class:
        schedule = CheckedSchedule(schedule, scenario.privacy.rho, _MIN_SIGMA)
    if plant is not None:
        data, client_indices = plant(data, client_indices)
    _check_counters(builder, learner.size, pairs=mechanism.draws_pairs)
    engine = _engine(builder, learner, data, client_indices, streams, device, links, least_step)
    return BuiltLearning(
        data=data,
        client_indices=client_indices,
        learning=engine,
        schedule=schedule,
        mechanism=mechanism,
        public=tuple(one.public for one in maps),
    )


def _check_counters(builder: Builder, size: int, *, pairs: bool) -> None:
    """Noise that repeats is no noise: every number of a round needs a counter of its own. size: of a model."""
    scenario = builder.scenario
    rounds, nodes = scenario.scenario.rounds, scenario.network.nodes
    most = most_rounds(nodes, size, pairs=pairs, passes=_most_passes(scenario))
    if rounds > most:
        raise builder.fail(
            f"scenario.rounds is {rounds}; with {nodes} nodes noise would repeat after {most} rounds: lower it, or "
            "network.nodes"
        )


def _most_passes(scenario: Scenario) -> int:
    """Payloads of a round after the first, at most: each has receiver noise of its own."""
    passes = scenario.radio.mixing_passes + scenario.learning.closing_passes
    if scenario.learning.robust.name != "none":  # receiver noise of every value
        passes += scenario.network.nodes
    access = member("access", scenario.radio.access.name)
    count = getattr(access, "payloads_of_pass", None)
    each = 1 if count is None else count(scenario.radio, scenario.network.nodes)
    return passes if each == 1 else each * (1 + passes)


def _least_rate(builder: Builder, schedule: Schedule) -> float:
    """Learning rates must be positive numbers, and rho times the largest must leave noise within the budget."""
    rounds, rho = builder.scenario.scenario.rounds, builder.scenario.privacy.rho
    part = builder.scenario.learning.learning_rate
    rates: list[float] = builder.ask(
        "learning.learning_rate", part, lambda: [float(schedule.rate(round)) for round in range(1, rounds + 1)]
    )
    for round, rate in enumerate(rates, start=1):
        if not (math.isfinite(rate) and rate > 0):
            raise builder.fail(f"learning.learning_rate is {rate} in round {round}; must be a finite number > 0")
    if builder.scenario.silent:  # no noise
        return min(rates)
    largest = max(rates)
    if rho * min(rates) < _MIN_SIGMA:
        raise builder.fail(
            f"privacy.rho is {rho:g}; rho times the smallest learning rate is {rho * min(rates):.3g}, must be >= "
            f"{_MIN_SIGMA:g}, or noise cannot be told from 0: raise rho or the learning rate"
        )
    if rho * largest > ROUNDED_ONE:
        raise builder.fail(
            f"privacy.rho is {rho:g}; rho times the largest learning rate is {rho * largest:.3g}, must be <= 1 so "
            f"that noise stays within the power budget: lower rho to {1 / largest:.4g}, or the learning rate"
        )
    return min(rates)


def _data(builder: Builder) -> tuple[Dataset, list[Map]]:
    """Samples as a model gets them, and the maps that made them."""
    part = builder.scenario.learning.dataset
    source = builder.part("learning.dataset", part, folders=builder.catalog.folders)

    def load() -> Dataset:
        loaded = source.load()
        if not isinstance(loaded, Dataset):
            raise TypeError(f"load() returned {type(loaded).__name__}, expected a wirelessdl.learning.data.Dataset")
        return loaded

    data: Dataset = builder.ask("learning.dataset", part, load)
    parts = builder.scenario.learning.features
    if len(parts) == 1 and parts[0].name == "none":
        return data, []
    if builder.scenario.learning.augment != "none":
        raise builder.fail(
            f'learning.augment is "{builder.scenario.learning.augment}" with learning.features "{parts[0].name}"; '
            'features are no images: set augment = "none"'
        )

    def find_class(name: str) -> tuple[Any, str]:
        """A class in a user's file, and what identifies its source and that of files it imports."""
        found = builder.catalog.find("learning.features", Part(kind=name), {})  # type: ignore[call-arg]
        return found, " ".join(sorted(file.sha256 for file in builder.catalog.files.values()))

    maps = []
    for n, part in enumerate(parts):
        where = "learning.features" if len(parts) == 1 else f"learning.features[{n}]"
        built = builder.part(where, part, find_class=find_class)
        maps.append(Map(built, part.name, part.is_user_class))
    mapped: Dataset = builder.check("learning.features", lambda: side_by_side(data, maps))
    return mapped, maps


def _score_scale(builder: Builder, maps: Sequence[Map], mechanism: Mechanism, samples: int) -> ScoreScale:
    """What an automatic rate follows from. samples: of all nodes."""
    scenario = builder.scenario
    privacy, learning, nodes = scenario.privacy, scenario.learning, scenario.network.nodes
    norms = [capability(one.features, "norm") for one in maps]
    refused = (
        (learning.sampling != "full", f'learning.sampling "{learning.sampling}"', 'sampling = "full"'),
        (math.isfinite(privacy.epsilon_max), "privacy.epsilon_max alone", "privacy.epsilon_total"),
        (privacy.clipping != "per-sample", f'privacy.clipping "{privacy.clipping}"', 'clipping = "per-sample"'),
        (learning.update.name != "sgd", f'learning.update "{learning.update.name}"', 'update = "sgd"'),
        (not norms or None in norms, "learning.features of no declared norm", 'features = "random-patches", say'),
    )
    for wrong, what, remedy in refused:
        if wrong:
            raise builder.fail(
                f'learning.learning_rate is "auto" with {what}; its rule does not hold there: set {remedy}'
            )
    shared = mechanism.chosen(_USUAL_RATIO if mechanism.ratio is None else mechanism.ratio)
    kappa = math.sqrt(nodes * shared.least_own(nodes))
    protected = samples if privacy.unit == "sample" else nodes
    mu = math.inf if scenario.silent else analytic_mu(privacy.epsilon_total, privacy.delta_total)
    moved = (1.0 if privacy.adjacency == "zero-out" and privacy.unit == "sample" else 2.0) * privacy.clip_norm
    noise = kappa * moved / (protected * mu * math.sqrt(1.0 - privacy.gram_share))
    even = privacy.gram_share > 0 or any(capability(one.features, "whitened") for one in maps)
    return ScoreScale(math.hypot(*norms), privacy.clip_norm, noise, least_multiplier(scenario), even)


def _client_indices(builder: Builder, data: Dataset, streams: Streams) -> list[IntArray]:
    """The samples of each node: each sample there once, and enough for a batch."""
    learning, nodes = builder.scenario.learning, builder.scenario.network.nodes
    partition = builder.part("learning.partition", learning.partition, folders=builder.catalog.folders)
    clients: list[IntArray] = builder.ask(
        "learning.partition",
        learning.partition,
        lambda: split_data(partition, data, nodes, streams.world("learning.partition")),
    )
    if len(clients) != nodes:
        raise builder.fail(f"learning.partition gave {len(clients)} clients, expected one for each of {nodes} nodes")
    for node, client in enumerate(clients):
        inside = len(client) == 0 or (client.min() >= 0 and client.max() < len(data.train_y))
        if not inside or len(np.unique(client)) < len(client):
            raise builder.fail(
                f"learning.partition gave node {node} a sample twice or one that does not exist; "
                "epsilon protects samples, so each must be there once"
            )
    _require_disjoint(builder, clients)
    fewest = min(range(nodes), key=lambda node: len(clients[node]))
    share = learning.sampling == "full" or learning.batch_fraction > 0  # of whatever a node has
    needed, held = 1 if share else learning.batch_size, len(clients[fewest])
    if held < needed <= len(data.train_y) // nodes:  # an even split would do
        takes = builder.resolved["learning.partition"].parameters
        evener = f"set its min_samples to {needed}" if "min_samples" in takes else "make it more even"
        raise builder.fail(
            f"learning.partition gives node {fewest} only {held} of {len(data.train_y)} samples; must be at least "
            f"{needed}, a batch: {evener}" + ("" if share else ", lower learning.batch_size, or use batch_fraction")
        )
    if held < needed:
        raise builder.fail(
            f"learning.batch_size is {learning.batch_size}; node {fewest} has only {held} samples: "
            "lower batch_size, use batch_fraction, fewer nodes, or a more even partition"
        )
    return clients


def _require_disjoint(builder: Builder, clients: list[IntArray]) -> None:
    """A sample that two nodes hold is sent by both, and the total of one of them is not its epsilon."""
    samples = np.concatenate(clients)
    owner = np.repeat(np.arange(len(clients)), [len(client) for client in clients])
    order = np.argsort(samples, kind="stable")
    twice = np.flatnonzero(np.diff(samples[order]) == 0)
    if len(twice):
        first, second = owner[order[twice[0] : twice[0] + 2]]
        raise builder.fail(
            f"learning.partition gave sample {samples[order[twice[0]]]} to nodes {first} and {second}; epsilon counts "
            "what one node sends, so no two nodes may hold the same sample: make clients disjoint"
        )


def _learner(builder: Builder, data: Dataset, streams: Streams) -> Any:
    """What learns: a class with gradients of its own, or any torch module."""
    where, part = "learning.model", builder.scenario.learning.model
    shape = sample_shape(data)
    with seeded(streams.world("learning.initial")):
        built = builder.construct(where, part, features=data.features, input_shape=shape, classes=data.classes)
    learner = builder.ask(where, part, lambda: adapt(built, shape, data.classes))
    builder.require(where, part, learner, PARTS[where].call if learner is built else "forward(...)")
    return learner


def _engine(
    builder: Builder,
    learner: Any,
    data: Dataset,
    client_indices: list[IntArray],
    streams: Streams,
    device: str,
    links: int,
    least_step: float,
) -> LearningEngine:
    learning, privacy = builder.scenario.learning, builder.scenario.privacy
    update = builder.construct("learning.update", learning.update, learning=learning)
    kind = builder.check("learning", lambda: kind_of_update(learning.update.name, update, learning.update_kind))
    oracle = "" if kind == "base" else "gradient, "
    builder.require("learning.update", learning.update, update, f"{kind}(received, state, {oracle}round)")
    settings = Settings(
        batch_size=learning.batch_size,
        clipping=privacy.clipping,
        clip_norm=privacy.clip_norm,
        adjacency=privacy.adjacency,
        gram=privacy.gram_share > 0,
        projection_radius=learning.projection_radius,
        gradient_at="mixed" if privacy.protocol == "hardened" else "own",
        evaluated="mixed" if privacy.protocol == "hardened" or learning.stop_after else "own",
        dtype=learning.dtype,
        device=device,
        sampling=learning.sampling,
        batch_fraction=learning.batch_fraction,
        strategy=learning.strategy,
        augment=learning.augment,
        regret=learning.regret,
        passes=_most_passes(builder.scenario),
        update=None if learning.update.name == "sgd" else (learning.update.name, update, kind),
        eval_samples=learning.eval_samples,
        links=links,
        least_step=least_step,
        attackers=_attackers(builder, streams),
        robust=_robust(builder),
    )
    try:
        engine = LearningEngine(learner, data, client_indices, streams, settings)
    except ValueError as error:
        raise builder.fail(error) from error
    _check_rounding(builder, engine)
    return engine


def _without(builder: Builder, where: str, part: Part, keys: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """A part, and what stands in its table that its class does not take."""
    ours = {key: value for key, value in part.parameters.items() if key in keys}
    rest = {key: value for key, value in part.parameters.items() if key not in ours}
    built = builder.part(where, Part(**{part.key: part.name, **rest}))
    builder.resolved[where] = Part(**{**builder.resolved[where].to_table(), **ours})
    return built, ours


def _robust(builder: Builder) -> Robust | None:
    """How receivers combine several values; None: by the plain mean of the access."""
    part = builder.scenario.learning.robust
    rule, _ = _without(builder, "learning.robust", part, ("groups",))
    return None if part.name == "none" or builder.scenario.silent else Robust(part.name, rule)


def _attackers(builder: Builder, streams: Streams) -> Attackers | None:
    """Who attacks, and how: keys of the first, and parameters of the kind, stand in one table."""
    where, part, nodes = "faults.byzantine", builder.scenario.faults.byzantine, builder.scenario.network.nodes
    if part.name == "none":
        builder.part(where, part)
        return None
    if builder.scenario.silent:
        raise builder.fail(f'{where} is "{part.name}" where nothing is sent, so nobody can attack: set it to "none"')
    built, who = _without(builder, where, part, ("nodes", "share", "from_round"))
    try:
        chosen, first = chosen_attackers(who, nodes, streams.world(where))
    except ValueError as error:
        raise builder.fail(f"{where}.{error}") from error
    return Attackers(part.name, built, chosen, first)


def _check_rounding(builder: Builder, engine: LearningEngine) -> None:
    """What rounding may add before the noise is charged; where it is much of a step, the step is the mistake."""
    privacy, settings = builder.scenario.privacy, engine.settings
    moved = engine.sensitivity.min()
    if privacy.unit == "node":
        moved = sensitivity(privacy.clipping, privacy.clip_norm, np.ones(1), privacy.adjacency)[0]
    share = float(engine.rounding.max() / moved)
    without_noise = math.isinf(privacy.epsilon_max) and math.isinf(privacy.epsilon_total)
    if builder.scenario.silent or without_noise or share <= _MAX_ROUNDING:
        return
    if step_rounding(engine.radius, engine.learner.size) / settings.least_step > engine.rounding.max() / 2:
        raise builder.fail(
            f"learning.learning_rate times the multiplier is {settings.least_step:.3g} at its smallest; rounding "
            f"before the noise would add {share:.0%} to what one sample moves, must be <= {_MAX_ROUNDING:.0%}: raise "
            "it, or lower learning.projection_radius"
        )
    raise builder.fail(
        f"learning.batch_size makes batches of {engine.sampler.width} samples on {engine.device}; rounding of sums "
        f"would add {share:.0%} to what one sample moves, must be <= {_MAX_ROUNDING:.0%}: use the CPU, or smaller "
        "batches"
    )


@own_settings()
def learner_of(run: Run, objects: Mapping[str, UserPart], device: str = "auto") -> RunLearner:
    """Data set and model of a run that is over, to evaluate its models with: no network, channel or time.

    objects: what names in its scenario stand for.
    """
    home = Path(run.provenance.get("folder", "") or run.path)
    scenario = parse_scenario(run.scenario, origin=f"{run.path}/scenario.toml", folder=str(home), objects=objects)
    builder = Builder(scenario, (home, home.parent), run.path)
    streams = Streams(scenario.scenario.seed, scenario.scenario.run)
    built = build_learning(builder, streams, device, links=0)
    return RunLearner(built.learning, built.data)
