"""Time's parts from a scenario: how long, who waits, what fails, what batteries hold."""

from typing import Any

import numpy as np

from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.models.flops import gradient_flops
from wirelessdl.radio.energy import EnergyModel
from wirelessdl.radio.frame import Frame
from wirelessdl.run.registry import Builder
from wirelessdl.sim.compute import per_node
from wirelessdl.sim.policy import Clocked
from wirelessdl.sim.simulation import EventSimulation
from wirelessdl.streams import Streams
from wirelessdl.units import dbm_to_w, to_s


def build_simulation(builder: Builder, frame: Frame, streams: Streams, learning: LearningEngine) -> EventSimulation:
    """Everything that decides when things happen, checked against each other."""
    scenario = builder.scenario
    nodes, faults = scenario.network.nodes, scenario.faults
    needs_flops = scenario.time.compute.name == "flops" or scenario.time.compute.is_user_class
    simulation = EventSimulation(
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
        energy=_energy(builder),
        rejoin=faults.rejoin,
        streams=streams,
    )
    _check_period(builder, simulation.policy, frame)
    _check_battery(builder, simulation)
    _check_balance(builder, simulation)
    return simulation


def _energy(builder: Builder) -> EnergyModel:
    section, nodes = builder.scenario.energy, builder.scenario.network.nodes
    try:
        battery_j = per_node("battery_j", section.battery_j, nodes)
    except ValueError as error:
        raise builder.fail(f"energy.{error}") from error
    return EnergyModel(
        budget_w=np.full(nodes, dbm_to_w(builder.scenario.radio.power_dbm)),
        battery_j=battery_j,
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
    everyone = np.ones(nodes, dtype=bool)
    compute_s = np.array([to_s(simulation.duration_ns(node, 1)) for node in range(nodes)])
    costs_j = energy.nominal_j(simulation.frame, everyone, everyone, compute_s)
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
        "time.policy": time.policy.name == "barrier",
        "radio.duplex": builder.scenario.radio.duplex == "full",
        "energy.battery_j": not simulation.energy.finite,
    }
    cause = next((key for key, fine in whole.items() if not fine), None)
    if power.balance == "power" and power.schedule == "adaptive" and cause is not None:
        raise builder.fail(
            f'power.balance is "power" with schedule = "adaptive" while {cause} takes links away; back-off is worked '
            'out for a whole graph: use balance = "receiver", or schedule = "static"'
        )
