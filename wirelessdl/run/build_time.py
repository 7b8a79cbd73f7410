"""Time of a scenario: the frame, how long nodes compute, who waits, what fails, what batteries hold."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from wirelessdl.access import Access
from wirelessdl.arrays import FloatArray
from wirelessdl.channel.model import Chain
from wirelessdl.channel.replay import shorter
from wirelessdl.contract import capability
from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.models.module import gradient_flops
from wirelessdl.links import Links
from wirelessdl.radio.energy import ControlLosses, ControlTimes, EnergyModel
from wirelessdl.radio.frame import Frame, coherence_s, payload_slots
from wirelessdl.round.multiplier import rule_for
from wirelessdl.run.build_network import BuiltNetwork
from wirelessdl.run.registry import Builder
from wirelessdl.scenario.schema import RadioSection, Scenario
from wirelessdl.sim.simulation import EventSimulation, LastFrame
from wirelessdl.sim.timing import Clocked, per_node
from wirelessdl.streams import Streams
from wirelessdl.units import to_s

_ESTIMATED_ROUNDS = 20  # rounds from which the length of a run is estimated


def build_time(
    builder: Builder,
    network: BuiltNetwork,
    learning: LearningEngine,
    access: Access,
    pilots: int,
    streams: Streams,
) -> tuple[EventSimulation, float | None]:
    """Everything that decides when things happen, checked against each other, and the channel's coherence time in s.

    The coherence time cuts a payload into slots, and depends on how far nodes get in the run's time; that is estimated
    with a frame of one slot. pilots: pilot symbols of each sender.
    """
    links = network.links
    frame = _frame(builder, access, learning, pilots, links, None)
    simulation = _simulation(builder, frame, streams, learning, network)
    simulation = replace(simulation, energy=replace(simulation.energy, planned=access.planned_airtime(frame)))
    if builder.scenario.alone:  # no payload, so nothing to cut into slots and no recording to outlast
        _check_battery(builder, simulation)
        return simulation, None
    coherence = _coherence_s(builder, network, simulation)
    if coherence is not None:
        simulation = replace(simulation, frame=_frame(builder, access, learning, pilots, links, coherence))
    _check_period(builder, simulation.policy, simulation.frame)
    _check_battery(builder, simulation)
    _check_balance(builder, simulation)
    _check_recordings(builder, network.channel, simulation)
    return simulation, coherence


def _simulation(
    builder: Builder, frame: Frame, streams: Streams, learning: LearningEngine, network: BuiltNetwork
) -> EventSimulation:
    scenario = builder.scenario
    nodes, faults = scenario.network.nodes, scenario.faults
    needs_flops = scenario.time.compute.name == "flops" or scenario.time.compute.is_user_class
    return EventSimulation(
        nodes=nodes,
        frame=frame,
        parallel=scenario.privacy.protocol == "paper",
        compute=builder.part(
            "time.compute",
            scenario.time.compute,
            nodes=nodes,
            rng=streams.draws("time.compute"),
            world_rng=streams.world("time.compute"),
            samples=learning.sampler.width,
            model_flops=gradient_flops(learning.learner) if needs_flops else 0.0,
        ),
        policy=builder.part("time.policy", scenario.time.policy),
        crashes=builder.part("faults.crashes", faults.crashes, nodes=nodes),
        stragglers=builder.part(
            "faults.stragglers", faults.stragglers, nodes=nodes, rng=streams.draws("faults.stragglers")
        ),
        energy=_energy(builder, network.power_w, _control_times(builder, network.links)),
        control=ControlLosses(nodes, scenario.radio.control_failure, streams),
        rejoin="keep" if scenario.alone else faults.rejoin,  # there is nobody to listen to
        streams=streams,
        traffic=capability(network.mobility, "outages"),
    )


def _frame(
    builder: Builder, access: Access, learning: LearningEngine, pilots: int, links: Links, coherence: float | None
) -> Frame:
    """The frame, in as many slots as the channel's coherence asks for."""
    scenario = builder.scenario
    radio, nodes, parameters = scenario.radio, scenario.network.nodes, learning.learner.size
    if scenario.alone:
        return Frame.silent(parameters)
    extra = nodes if _exchanges_z(scenario) and radio.z_exchange == "air" else 0
    message = access.message_symbols(parameters)
    payload_s = (math.ceil((parameters + extra) / 2) if message is None else message) / radio.bandwidth_hz
    try:
        slots = 1 if access.lays_out_frames else radio.payload_slots
        slots = payload_slots(payload_s, coherence) if slots == "auto" else slots
    except ValueError as error:
        raise builder.fail(f"radio.{error}") from error
    number_s = _number_s(radio)
    turns, senders = access.planned_turns(links)
    frame = Frame.from_settings(
        parameters=parameters,
        nodes=nodes,
        pilots=pilots,
        bandwidth_hz=radio.bandwidth_hz,
        guard_s=radio.guard_s,
        slots=slots,
        turns=turns,
        senders=senders,
        extra=extra,
        # receivers report the gains they hear in every subband; senders learn alpha, receivers their weight in each
        feedback_s=(
            (radio.subbands * (len(links) + nodes) + nodes) * number_s if scenario.power.schedule == "adaptive" else 0.0
        ),
        exchange_s=nodes**2 * number_s if _exchanges_z(scenario) and not extra else 0.0,
        passes=0 if access.lays_out_frames else radio.mixing_passes,
        closing=0 if access.lays_out_frames else scenario.learning.closing_passes,
        message=message,
        subbands=radio.subbands,
    )
    frame = replace(frame, opening=learning.frames_of_stage)
    if radio.subbands > frame.symbols:
        raise builder.fail(
            f"radio.subbands is {radio.subbands}; a slot carries {frame.symbols} symbols, and every subband needs one: "
            "lower it, or payload_slots"
        )
    return frame


def _exchanges_z(scenario: Scenario) -> bool:
    return rule_for(scenario) in ("product", "mean", "tracked", "windowed")


def _number_s(radio: RadioSection) -> float:
    """Duration of one number on the control channel."""
    return radio.control_bits / radio.control_bps


def _control_times(builder: Builder, links: Links) -> ControlTimes:
    scenario = builder.scenario
    return ControlTimes.from_links(
        links,
        _number_s(scenario.radio),
        feedback=scenario.power.schedule == "adaptive" and not scenario.alone,
        exchange=_exchanges_z(scenario) and scenario.radio.z_exchange == "control",
        subbands=scenario.radio.subbands,
    )


def _coherence_s(builder: Builder, network: BuiltNetwork, simulation: EventSimulation) -> float | None:
    """Shortest coherence time of the run; how long it will last is estimated from its first rounds."""
    scenario, rounds = builder.scenario, builder.scenario.scenario.rounds
    horizon_s = 0.0
    if scenario.network.mobility.name != "static":
        last, few = LastFrame(), min(rounds, _ESTIMATED_ROUNDS)
        simulation.run(few, last)
        horizon_s = (last.time_s + to_s(simulation.frame.airtime_ns)) * rounds / few
    models = [named.model for named in network.channel.models]
    return coherence_s(models, network.mobility.geometry, scenario.channel.frequency_hz, horizon_s)


def _check_recordings(builder: Builder, channel: Chain, simulation: EventSimulation) -> None:
    """A recorded channel must last as long as the run, as far as that is known beforehand."""
    scenario = builder.scenario
    recorded = [(n, named) for n, named in enumerate(channel.models) if np.isfinite(capability(named.model, "ends_s"))]
    parts = (scenario.time.compute, scenario.time.policy, scenario.faults.crashes, scenario.faults.stragglers)
    if not recorded or any(part.is_user_class for part in parts) or scenario.events.processes:
        return
    last = LastFrame()
    simulation.run(scenario.scenario.rounds, last)
    frame = simulation.frame
    needed_s = last.time_s + to_s(frame.opens_ns(frame.all_slots - 1))
    for n, named in recorded:
        ends_s = capability(named.model, "ends_s")
        if needed_s > ends_s + 1e-12:
            file = scenario.channel.models[n].parameters.get("file", named.name)
            raise builder.fail(f"channel.models[{n}].file is {file!r}; ends at {ends_s:g} s, {shorter(needed_s)}")


def _energy(builder: Builder, power_w: FloatArray, control: ControlTimes) -> EnergyModel:
    section, nodes = builder.scenario.energy, builder.scenario.network.nodes
    try:
        battery_j = per_node("battery_j", section.battery_j, nodes)
    except ValueError as error:
        raise builder.fail(f"energy.{error}") from error
    return EnergyModel(
        budget_w=power_w,
        battery_j=battery_j,
        control=control,
        efficiency=section.efficiency,
        receive_w=section.receive_w,
        compute_w=section.compute_w,
    )


def _check_period(builder: Builder, policy: Any, frame: Frame) -> None:
    if isinstance(policy, Clocked) and policy.period_ns < frame.airtime_ns:
        raise builder.fail(
            f"time.policy.period_s is {policy.period_s:g}; a frame takes {to_s(frame.airtime_ns):.4g} s: raise it "
            "to at least that, or radio.bandwidth_hz"
        )


def _check_battery(builder: Builder, simulation: EventSimulation) -> None:
    """A battery must carry at least the first round."""
    energy, nodes = simulation.energy, simulation.nodes
    if not energy.finite:
        return
    everyone, nobody = np.ones(nodes, dtype=bool), np.zeros(nodes, dtype=bool)
    compute_s = np.array([to_s(simulation.duration_ns(node, 1)) for node in range(nodes)])
    costs_j = energy.nominal_j(simulation.frame, sends=everyone, hears=everyone, missed=nobody, compute_s=compute_s)
    short = np.flatnonzero(costs_j > energy.battery_j)
    if len(short):
        node = int(short[0])
        raise builder.fail(
            f"energy.battery_j is {energy.battery_j[node]:g} for node {node}; one round takes {costs_j[node]:.4g} J: "
            "raise it, or lower radio.power_dbm, energy.receive_w or energy.compute_w"
        )


def _check_balance(builder: Builder, simulation: EventSimulation) -> None:
    """Senders that back off for each other need the whole graph, every time."""
    power, faults, time = builder.scenario.power, builder.scenario.faults, builder.scenario.time
    whole = {
        "faults.crashes": faults.crashes.name == "none",
        "faults.blockage": faults.blockage.name == "none",
        "events.processes": not builder.scenario.events.processes,
        "network.mobility": simulation.traffic is None,
        "time.policy": time.policy.name == "barrier",
        "radio.duplex": builder.scenario.radio.duplex == "full",
        "radio.control_failure": builder.scenario.radio.control_failure == 0.0,
        "energy.battery_j": not simulation.energy.finite,
    }
    cause = next((key for key, fine in whole.items() if not fine), None)
    if power.schedule != "adaptive" or cause is None:
        return
    if power.balance == "power":
        raise builder.fail(
            f'power.balance is "power" with schedule = "adaptive" while {cause} takes links away; back-off is worked '
            'out for a whole graph: use balance = "receiver", or schedule = "static"'
        )
    if power.allocator.name == "aligned":
        raise builder.fail(
            f'power.allocator is "aligned" with schedule = "adaptive" while {cause} takes links away; back-off is '
            'worked out for a whole graph: use schedule = "static"'
        )
