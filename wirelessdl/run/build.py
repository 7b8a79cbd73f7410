"""Builds the parts of a scenario: each is found, checked and constructed once.

What needs data or graphs is checked here; gains and the power plan when the first frame opens. Nobody carries a World
along: functions of `run` and `preview` take it apart and hand each stage its inputs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from zlib import crc32

import numpy as np

from wirelessdl.access import Access, UserAccess
from wirelessdl.arrays import FloatArray
from wirelessdl.channel.csi import Csi
from wirelessdl.channel.model import Chain
from wirelessdl.contract import capability
from wirelessdl.families import UpdateKind
from wirelessdl.gaussian import slot_epsilon
from wirelessdl.learning.clipping import sensitivity
from wirelessdl.learning.robust import groups_of
from wirelessdl.learning.runtime import own_settings
from wirelessdl.mechanism.gram import GramStage, share_mu
from wirelessdl.power.allocate import PowerAllocator
from wirelessdl.privacy.terms import SAMPLERS, Exposure, PrivacyAssumptions
from wirelessdl.privacy.totals import release_mu
from wirelessdl.radio.faults import Blockage, Jammer
from wirelessdl.radio.frame import Frame, subband_offset_hz
from wirelessdl.radio.live import LiveNetwork
from wirelessdl.radio.offsets import Offsets
from wirelessdl.run.build_learning import BuiltLearning, Plant, build_learning
from wirelessdl.run.build_network import BuiltNetwork, build_network
from wirelessdl.run.build_time import build_time
from wirelessdl.run.columns import sampling_rate
from wirelessdl.run.registry import PARTS, Builder
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.scenario.objects import UserPart, stream_name
from wirelessdl.scenario.part import PROCESSES, Part, UserFile
from wirelessdl.scenario.schema import Scenario
from wirelessdl.scenario.section import values_of
from wirelessdl.sim.medium import UserProcess, UserProcesses
from wirelessdl.sim.simulation import EventSimulation
from wirelessdl.streams import Streams
from wirelessdl.trace.events import Listener, user_listeners
from wirelessdl.units import from_db, thermal_noise_w


@dataclass(frozen=True, eq=False, kw_only=True)
class World(BuiltNetwork, BuiltLearning):
    """Everything that a scenario describes: its network, its learning, and the rest; `resolved` spells it all out.

    thermal_w: receiver noise in W, 0 where the scenario leaves it out; noise_w: kTBF all the same. self_interference:
    share of its own emission that a node hears. offsets: of carriers and timing, None where no two nodes differ.
    """

    scenario: Scenario
    resolved: Scenario
    streams: Streams
    csi: Csi
    allocator: PowerAllocator
    access: Access
    simulation: EventSimulation
    blockage: Blockage
    jammer: Jammer
    live: LiveNetwork | None  # what processes of the user's see and change; None without any
    coherence_s: float | None
    thermal_w: float
    noise_w: float
    self_interference: float
    offsets: Offsets | None
    listeners: tuple[tuple[str, Listener], ...]
    user_files: tuple[UserFile, ...]
    objects: Mapping[str, UserPart]  # parts that Python handed in, by key
    notes: tuple[str, ...]  # on those objects

    @property
    def nodes(self) -> int:
        return self.scenario.network.nodes

    @property
    def link_rate(self) -> float:
        """Share of links that are traced."""
        trace = self.scenario.trace
        return sampling_rate(trace.links, trace.link_rows, self.scenario.scenario.rounds, self.heard_links)

    @property
    def frame(self) -> Frame:
        return self.simulation.frame

    @property
    def always_complete(self) -> bool:
        """Whether every node takes part in every frame, come what may."""
        scenario = self.scenario
        planned = scenario.radio.control_failure == 0.0 or self.frame.feedback_ns == 0
        waited = scenario.time.policy.name == "barrier" and scenario.faults.crashes.name == "none"
        waited = waited and self.live is None and self.simulation.traffic is None
        return waited and planned and not self.simulation.energy.finite

    @property
    def largest_rate(self) -> float:
        return max(self.schedule.rate(round) for round in range(1, self.scenario.scenario.rounds + 1))

    @property
    def terms(self) -> PrivacyAssumptions:
        """What the ledger states its totals under."""
        privacy, sampling = self.scenario.privacy, self.scenario.learning.sampling
        return PrivacyAssumptions(
            privacy.protocol,
            SAMPLERS[sampling],
            privacy.clipping,
            privacy.delta_total,
            unit=privacy.unit,
            adjacency=privacy.adjacency,
            evaluated=self.learning.settings.evaluated,
            epoch_rounds=tuple(self.exposure.epoch_rounds.tolist()) if sampling == "shuffled" else (),
            coalition=self.mechanism.coalition,
            declared=privacy.noise.name if privacy.noise.is_user_class else "",
            kind=self.learning.kind,
            update=self.scenario.learning.update.name if self.learning.kind == "step" else "",
            promised=privacy.promised,
            passes=bool(self.scenario.radio.mixing_passes or self.scenario.learning.closing_passes),
            one_slot=not self.scenario.radio.access.is_user_class and self.access.one_slot,
            sends=not self.scenario.silent,
            gram=privacy.gram_share > 0,
            rounding=self.rounding_share,
            public=self.public,
        )

    @cached_property
    def mu_max(self) -> float | None:
        """mu of every release that keeps the promised total; None where epsilon_max is the target."""
        total = self.scenario.privacy.epsilon_total
        if math.isinf(total) or self.scenario.silent:
            return None
        rounds = self.scenario.scenario.rounds
        frames = max(self.learning.frames_of_stage, 1)
        if frames > rounds - 1:
            raise ValueError(
                f"gram_share is {self.scenario.privacy.gram_share:g}; its stage takes {frames} rounds of "
                f"scenario.rounds {rounds}: set at least {frames + 1}, or gram_share = 0"
            )
        return release_mu(total, rounds, self.exposure, self.terms, first=frames, beside=share_mu(self.scenario))

    @property
    def gram(self) -> GramStage | None:
        """The stage that training begins with."""
        stage, mu = self.learning.gram, share_mu(self.scenario)
        if stage is None or not mu or self.mu_max is None:
            return None
        samples = int(max(len(client) for client in self.client_indices))
        given = (self.exposure.sensitivity, samples, self.scenario.privacy.adjacency)
        return GramStage(stage.frames, mu, mu / self.mu_max, *given)

    @property
    def spans_run(self) -> bool:
        """Whether more rounds would have made it another run from the start, so that it cannot be extended.

        Noise is made for a promised total of all rounds; closing passes were sent in the last one; what is chosen by
        predicted error is chosen for so many rounds; a stopping rule ended the run, or could have.
        """
        scenario = self.scenario
        chosen = self.mechanism.ratio is None or (
            scenario.power.balance == "partial" and scenario.power.balance_exponent == "auto"
        )
        promised = math.isfinite(scenario.privacy.epsilon_total)
        stretched = bool(capability(self.schedule, "spans_run")) or scenario.learning.stop_after > 0
        if scenario.silent:  # nothing was sent by a plan for so many rounds
            return stretched
        return stretched or promised or chosen or scenario.learning.closing_passes > 0

    @property
    def exposure(self) -> Exposure:
        """How far and how often what epsilon protects enters gradients."""
        privacy, sampler, rounding = self.scenario.privacy, self.learning.sampler, self.learning.rounding
        once = np.ones(self.nodes)
        if privacy.unit == "sample" and self.learning.kind == "base":
            return Exposure(self.learning.sensitivity + rounding, sampler.rate, sampler.epoch_rounds)
        # no gradient is longer than the clip norm
        clipping = privacy.clipping if self.learning.kind == "base" else "batch"
        whole = self.learning.moves * sensitivity(clipping, privacy.clip_norm, once, privacy.adjacency)
        moved = whole if privacy.unit == "node" else self.learning.sensitivity
        return Exposure(moved + rounding, once, once.astype(np.int64))

    @property
    def rounding_share(self) -> float:
        """Largest share of a node's charged sensitivity that is rounding before the noise."""
        return float(np.max(self.learning.rounding / self.exposure.sensitivity))


@own_settings()
def build(
    scenario: Scenario,
    *,
    device: str = "auto",
    extra_folders: tuple[Path, ...] = (),
    run: Path | None = None,
    plant: Plant | None = None,
) -> World:
    """The world a scenario describes. Raises one clear line where it cannot be.

    extra_folders: searched last for the user's model files, but for the copies that `run`, a run directory, keeps.
    plant: what an audit does to data and clients once they are drawn.
    """
    builder = Builder(scenario, extra_folders, run)
    streams = Streams(scenario.scenario.seed, scenario.scenario.run)
    nodes, radio, faults = scenario.network.nodes, scenario.radio, scenario.faults
    network = build_network(builder, streams)
    built = build_learning(builder, streams, device, network.heard_links, plant)
    csi = builder.part("radio.csi", radio.csi)
    access = _access(builder, streams)
    simulation, coherence_s = build_time(builder, network, built.learning, access, capability(csi, "symbols"), streams)
    live = _processes(builder, network, streams)
    if live is not None:
        simulation = replace(simulation, processes=live)
    noise_w = thermal_noise_w(radio.bandwidth_hz, radio.noise_figure_db, radio.temperature_k)
    world = World(
        **vars(network),
        **vars(built),
        scenario=scenario,
        streams=streams,
        csi=csi,
        allocator=builder.part("power.allocator", scenario.power.allocator, objective=scenario.power.objective),
        access=access,
        simulation=simulation,
        blockage=builder.part("faults.blockage", faults.blockage, nodes=nodes),
        jammer=builder.part(
            "faults.jammer",
            faults.jammer,
            nodes=nodes,
            rng=streams.draws("faults.jammer"),
            frequency_hz=scenario.channel.frequency_hz,
        ),
        live=None if live is None else live.network,
        coherence_s=coherence_s,
        thermal_w=noise_w if radio.thermal_noise else 0.0,
        noise_w=noise_w,
        # of its own emission a node hears nothing where it does not send while it listens
        self_interference=from_db(-radio.cancellation_db) if access.hears_itself else 0.0,
        offsets=None if access.coded else _offsets(builder, streams, simulation.frame, network.channel, access),
        listeners=tuple(user_listeners(builder.catalog, scenario.trace.connect)),
        resolved=_resolved(scenario, builder.resolved, built.learning.kind),
        user_files=tuple(builder.catalog.files.values()),
        objects=dict(builder.catalog.handed),
        notes=tuple(builder.catalog.notes),
    )
    return _with_target(builder, world)


def _with_target(builder: Builder, world: World) -> World:
    """The world with epsilon_max of a slot, where only the total was given."""
    mu_max = builder.check("privacy", lambda: world.mu_max)
    if mu_max is None:
        return world
    privacy = world.scenario.privacy
    epsilon_max = float(slot_epsilon(np.array([mu_max]), privacy.delta)[0])
    scenario = world.scenario.model_copy(update={"privacy": privacy.model_copy(update={"epsilon_max": epsilon_max})})
    found = replace(world, scenario=scenario)
    found.__dict__["mu_max"] = mu_max  # worked out already, which may take a second
    return found


def superposed_at_all(access: Access) -> bool:
    """Whether senders are superposed, and aligned at all receivers at once as far as the scenario says."""
    return not (access.orthogonal or access.coded or access.lays_out_frames or access.separates)


def _offsets(builder: Builder, streams: Streams, frame: Frame, channel: Chain, access: Access) -> Offsets | None:
    """Carrier and timing offsets of the nodes, drawn with the world, and flight time where senders are superposed."""
    radio, nodes = builder.scenario.radio, builder.scenario.network.nodes
    if builder.scenario.alone:
        return None
    flight_hz, superposed = None, superposed_at_all(access)
    if radio.flight_time and superposed:
        carrier_hz = 0.0 if channel.has_carrier_phase else builder.scenario.channel.frequency_hz
        flight_hz = carrier_hz + subband_offset_hz(radio.bandwidth_hz, radio.subbands)
    error_s = radio.timing_error_s if superposed else 0.0

    def drawn(key: str, most: float) -> FloatArray:
        return values_of(key, getattr(radio, key), nodes, streams.world(f"radio.{key}"), low=-most, high=most)

    def found() -> Offsets | None:
        cfo_hz, timing_s = drawn("cfo_hz", 1e12), drawn("timing_offset_s", 1e3)
        return Offsets.from_nodes(cfo_hz, timing_s, radio.bandwidth_hz, frame, flight_hz=flight_hz, error_s=error_s)

    offsets: Offsets | None = builder.check("radio", found)
    return offsets


def _processes(builder: Builder, network: BuiltNetwork, streams: Streams) -> UserProcesses | None:
    """The user's processes; None without any."""
    found: list[UserProcess] = []
    for n, part in enumerate(builder.scenario.events.processes):
        where, stream = f"{PROCESSES}[{n}]", f"events.{stream_name(part.name)}"
        built = builder.construct(where, part)
        if not isinstance(built, partial):
            builder.require(where, part, built, PARTS[PROCESSES].call)
            built = built.process
        # keyed by name and occurrence, as channel models are
        found.append(UserProcess(part.name, built, (stream, sum(one.stream[0] == stream for one in found))))
    if not found:
        return None
    live = LiveNetwork(builder.scenario.network.nodes, network.mobility.geometry)
    return UserProcesses(found, live, streams)


def _access(builder: Builder, streams: Streams) -> Access:
    """The way across the air, built in or the user's."""
    scenario = builder.scenario
    part, radio = scenario.radio.access, scenario.radio
    given = {"radio": radio, "nodes": scenario.network.nodes, "streams": streams}
    given |= {"silent": scenario.alone, "server": scenario.network.server}
    given["groups"] = groups_of(scenario.learning.robust.parameters)
    built: Access = builder.construct("radio.access", part, **given)
    if not part.is_user_class:
        return built
    builder.require("radio.access", part, built, PARTS["radio.access"].call)
    return UserAccess(part.name, built)


def _resolved(scenario: Scenario, parts: Mapping[str, Part], kind: UpdateKind) -> Scenario:
    """The scenario with every part's parameters spelled out, and the kind of a user's update."""
    table = scenario.to_table()
    for where, part in parts.items():
        section, _, key = where.partition(".")
        if "[" in key:
            name, _, index = key.rstrip("]").partition("[")
            table[section][name][int(index)] = part.to_table()
        else:
            table[section][key] = part.to_table()
    if scenario.learning.update.is_user_class:  # readers of the run import no file of the user's
        table["learning"]["update_kind"] = kind
    return parse_scenario(table, origin=scenario.origin, folder=scenario.folder, objects=scenario.objects)


def values_given(world: World) -> dict[str, list[float]]:
    """Numbers by which parts of learning that Python handed in are known again, by key, before the first round.

    The way to a checkpoint asks every part of network, channel and time once more; it asks nothing of learning.
    """
    data, engine = world.data, world.learning
    every = [array[:: 1 + len(array) // 1000] for array in (data.train_x, data.train_y, data.test_x, data.test_y)]
    found = {}
    for key in world.objects:
        if key.partition("[")[0] in ("learning.dataset", "learning.features"):
            found[key] = [float(crc32(b"".join(array.tobytes() for array in every)))]
        elif key == "learning.learning_rate":
            last = min(100, world.scenario.scenario.rounds)
            found[key] = [float(world.schedule.rate(round)) for round in range(1, last + 1)]
        elif key == "learning.model":
            nodes = {} if engine.remembered is None else {"nodes": range(1)}
            scores = engine.scores(0, engine.held[:1], engine.ready(data.test_x[:4]), **nodes)
            found[key] = np.ravel(scores.cpu().numpy()).astype(float).tolist()[:100]
    return found
