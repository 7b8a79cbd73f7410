"""From a built world to the stages of a round: each is handed its inputs, nothing more."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.access import AirSettings, Carrier
from wirelessdl.arrays import FloatArray
from wirelessdl.contract import capability
from wirelessdl.learning.robust import groups_of
from wirelessdl.links import Links
from wirelessdl.power.allocate import LinearProgram
from wirelessdl.power.joint import JointSettings
from wirelessdl.power.problem import PowerSettings
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.round.engine import Engine, Hooks, RoundSettings, Stages
from wirelessdl.round.multiplier import fixed_multiplier, make_multiplier, rule_for
from wirelessdl.round.observe import ObservedParts, Observer, RadioSettings
from wirelessdl.round.planning import Arriving, BudgetGate, JointChoice, Planner, PlanSchedule
from wirelessdl.round.releases import PendingGradients, Releases, ReleaseSettings
from wirelessdl.run.build import World
from wirelessdl.run.columns import LinkSample
from wirelessdl.run.recorder import Recorder
from wirelessdl.trace.events import TraceEvents
from wirelessdl.units import to_s


def make_observer(world: World) -> Observer:
    """Steps 1 and 2 of this world's rounds, from its start."""
    scenario = world.scenario
    faults = scenario.faults
    parts = ObservedParts(
        mobility=world.mobility,
        topology=world.topology,
        links=world.links,
        channel=None if scenario.silent else world.channel,
        csi=world.csi,
        blockage=world.blockage if faults.blockage.name != "none" else None,
        jammer=world.jammer if faults.jammer.name != "none" else None,
        server=None if scenario.silent else world.server,
        live=world.live,
        labels={
            "network.mobility": scenario.network.mobility,
            "network.topology": scenario.network.topology,
            "radio.csi": scenario.radio.csi,
        },
    )
    radio = RadioSettings(
        power_w=world.power_w,
        thermal_w=world.thermal_w,
        noise_w=world.noise_w,
        phase_error_rad=0.0 if world.access.coded else scenario.radio.phase_error_rad,
        physical=scenario.radio.interference == "physical" and not scenario.silent,
        reach_m=None if world.reach is None else world.reach.radius_m,
        offsets=world.offsets,
        arrays=world.access.separates or (world.access.lays_out_frames and scenario.radio.antennas > 1),
    )
    return Observer(
        parts,
        radio,
        world.frame,
        world.streams,
        rounds=scenario.scenario.rounds,
        snr_db=world.snr_db,
        joint_window=scenario.network.joint_window,
    )


def make_carrier(world: World, observer: Observer | None = None) -> Carrier:
    """What takes models across the air. observer: None in previews, where time does not go on."""

    def later(channel: FrameChannel, times_ns: Sequence[int]) -> Sequence[FloatArray]:
        assert observer is not None
        return tuple(observer.gains_at(channel.heard, [to_s(time_ns) for time_ns in times_ns])[0])

    def h_at(links: Links, times_ns: Sequence[int]) -> NDArray[np.complex128]:
        assert observer is not None
        h = observer.gains_at(links, [to_s(time_ns) for time_ns in times_ns], goes_on=True)[1]
        assert h is not None
        return h

    def server_at(times_ns: Sequence[int]) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        assert observer is not None
        return observer.server_at([to_s(time_ns) for time_ns in times_ns])

    scenario = world.scenario
    radio, pilots = scenario.radio, capability(world.csi, "symbols")
    return world.access.carrier(
        AirSettings(
            frame=world.frame,
            coordinates=world.learning.learner.size,
            bandwidth_hz=world.scenario.radio.bandwidth_hz,
            power_w=world.power_w,
            thermal_w=world.thermal_w,
            balance_from=world.scenario.power.balance_from,
            mixing=world.scenario.radio.mixing,
            offsets=world.offsets,
            rounds=scenario.scenario.rounds,
            passes=radio.mixing_passes,
            closing=scenario.learning.closing_passes,
            pilots=None if radio.csi.name == "perfect" else pilots,
            phase_error_rad=radio.phase_error_rad,
            timing_error_s=radio.timing_error_s,
            number_s=radio.control_bits / radio.control_bps,
            array=world.channel.array,
            half_duplex=radio.duplex == "half",
            groups=groups_of(scenario.learning.robust.parameters),
            robust=scenario.learning.robust.name != "none",
            later=later,
            h_at=h_at,
            server_at=server_at,
        )
    )


def make_planner(world: World) -> Planner:
    """Step 4: power plans."""
    power, privacy = world.scenario.power, world.scenario.privacy
    if world.scenario.silent:
        return _silent_planner(world)
    settings = PowerSettings(
        power_w=world.power_w,
        rho=privacy.rho,
        sensitivity=world.exposure.sensitivity,
        delta=privacy.delta,
        epsilon_max=privacy.epsilon_max,
        balance="receiver" if power.balance == "partial" else power.balance,
        thermal_w=world.thermal_w / world.largest_rate**2 if privacy.credit_thermal else 0.0,
        alpha_min=power.least_alpha(world.nodes),
        beta_min=power.beta_min,
        margin_db=power.csi_margin_db,
        orthogonal=world.access.orthogonal,
        least_gain=world.access.least_gain(world.power_w, world.thermal_w),
        fixed_theta=fixed_multiplier(world.scenario),
        mu_max=world.mu_max,
    )
    return Planner(
        settings,
        world.allocator,
        PlanSchedule(power.schedule, power.reference, power.samples),
        mechanism=world.mechanism,
        samples=world.fading.gains,
        origin=world.scenario.origin,
        choice=_joint_choice(world),
        arriving=Arriving(
            0.0 if world.access.coded else world.thermal_w,
            world.scenario.learning.projection_radius,
        ),
    )


def _silent_planner(world: World) -> Planner:
    """Of nodes that send nothing: no sample moves what they send, and there is nothing to split."""
    settings = PowerSettings(
        power_w=world.power_w,
        rho=world.scenario.privacy.rho,
        sensitivity=np.zeros(world.nodes),
        delta=world.scenario.privacy.delta,
        epsilon_max=math.inf,
        balance="receiver",
        alpha_min=world.scenario.power.least_alpha(world.nodes),
        beta_min=world.scenario.power.beta_min,
        fixed_theta=fixed_multiplier(world.scenario),
    )
    schedule = PlanSchedule("static", "mean", 1)
    given: dict[str, Any] = {"samples": world.fading.gains, "origin": world.scenario.origin}
    return Planner(settings, LinearProgram(), schedule, mechanism=world.mechanism, **given)


def _joint_choice(world: World) -> JointChoice | None:
    """What the first frame is to choose; None where noise is independent and amplitudes are not balanced by power."""
    scenario = world.scenario
    power = scenario.power
    if not world.mechanism.coalition and power.balance != "partial":
        return None
    exponent = power.balance_exponent if power.balance == "partial" else 0.0
    carrier = make_carrier(world)
    return JointChoice(
        JointSettings(
            passes=scenario.radio.mixing_passes,
            chebyshev=scenario.radio.mixing == "chebyshev",
            thermal_w=world.thermal_w,
            rounds=scenario.scenario.rounds,
            full_power=scenario.radio.use_full_power,
            radius=scenario.learning.projection_radius,
        ),
        exponent=None if exponent == "auto" else exponent,
        promises_coalition=scenario.privacy.promised == "coalition",
        largest_rate=world.largest_rate,
        # where errors follow from weights nobody makes [K, K] numbers of gains
        errors=None if type(carrier).errors is Carrier.errors else carrier.errors,
    )


def make_engine(world: World, recorder: Recorder | None = None, hooks: Hooks | None = None) -> Engine:
    """The engine of a run. Its trace events reach the recorder, then the listeners that the scenario connects."""
    trace = TraceEvents()
    if recorder is not None:
        recorder.listen(trace)
    for source, listener in world.listeners:
        trace.connect(source, listener)
    scenario, nodes = world.scenario, world.nodes
    radio, privacy = scenario.radio, scenario.privacy
    pending = PendingGradients(nodes, stage=world.gram is not None)
    planner, releases, observer = make_planner(world), make_releases(world, pending), make_observer(world)
    ledger = Ledger(world.terms, world.exposure.sampling_rate)
    stages = Stages(
        observer=observer,
        access=world.access,
        planner=planner,
        gate=BudgetGate(
            nodes,
            privacy.budget_total,
            planner,
            releases,
            ledger,
            silent=scenario.silent,
            reached=partial(world.access.reached, power_w=world.power_w, thermal_w=world.thermal_w),
        ),
        carrier=make_carrier(world, observer),
        multiplier=make_multiplier(
            rule_for(scenario), nodes, lossy=radio.control_failure > 0, value=fixed_multiplier(scenario) or 1.0
        ),
        releases=releases,
        ledger=ledger,
        pending=pending,
        learning=world.learning,
    )
    settings = RoundSettings(
        rounds=scenario.scenario.rounds,
        eval_every=scenario.learning.eval_every,
        schedule=world.schedule,
        frame=world.frame,
        delta=privacy.delta,
        epsilon_max=privacy.epsilon_max,
        thermal_w=world.thermal_w,
        self_interference=world.self_interference,
        blocked_heard=capability(world.blockage, "still_heard"),
        z_over_air=radio.z_exchange == "air",
        control=world.simulation.control,
        offsets=world.offsets,
        gram=world.gram,
    )
    return Engine(stages, settings, trace, hooks)


def run_rounds(world: World, engine: Engine) -> None:
    """Let time pass from zero to the end of the last round."""
    world.simulation.run(world.scenario.scenario.rounds, engine, engine.node_state)


def make_recorder(world: World) -> Recorder:
    """What writes this world's tables."""
    trace = world.scenario.trace
    return Recorder(
        energy=world.simulation.energy,
        thermal_w=world.thermal_w,
        self_interference=world.self_interference,
        links=trace.links,
        flush_every=trace.flush_every,
        sample=LinkSample(world.link_rate, world.streams),
        blocks_delta=world.scenario.privacy.delta if trace.blocks else None,
    )


def make_releases(world: World, pending: PendingGradients) -> Releases:
    """What a frame will leak, and the power that amplitudes are measured against."""
    scenario = world.scenario
    radio, privacy, learning = scenario.radio, scenario.privacy, scenario.learning
    settings = ReleaseSettings(
        protocol=privacy.protocol,
        rho=0.0 if scenario.silent else privacy.rho,
        sensitivity=world.exposure.sensitivity,
        credited_thermal_w=world.thermal_w if privacy.credit_thermal else 0.0,
        orthogonal=world.access.orthogonal,
        full_power_radius=learning.projection_radius if radio.use_full_power else None,
        promised=privacy.promised,
        counts_links=world.terms.counts_links,
        radius=learning.projection_radius,
        step_rms=privacy.clip_norm / math.sqrt(world.learning.learner.size),
        coded=world.access.coded,
        least_step=world.learning.settings.least_step,
    )
    return Releases(settings, pending)
