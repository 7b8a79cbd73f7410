"""What places cost: links within a range against all pairs, and motion against a loop over nodes."""

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from bench.suites import Contest
from wirelessdl.arrays import FloatArray
from wirelessdl.links import Geometry, Links
from wirelessdl.network.mobility import Mobility
from wirelessdl.network.mobility.walk import GaussMarkov
from wirelessdl.network.mobility.waypoint import RandomWaypoint
from wirelessdl.network.topology.physical import links_within

_SIDE_M, _RANGE_M = 3000.0, 150.0  # about 39 neighbours each at K = 5,000


def contests() -> Iterator[Contest]:
    many = Geometry.at_rest(_places(5000))
    yield Contest(
        "links within a range, K=5,000: k-d tree against all pairs",
        ours=lambda: links_within(many, _RANGE_M),
        other=lambda: all_pairs_within(many, _RANGE_M),
        at_least=10.0,
    )
    few, rng = _places(200), np.random.default_rng(0)
    waypoint = RandomWaypoint(few, rng, speed_mps=(10.0, 20.0))
    times = np.linspace(0.0, 10_000.0, 500)
    waypoint.geometry(10_000.0)
    legs = loop_legs(waypoint, times)
    yield Contest(
        "500 instants of random waypoint, K=200: arrays against a loop over nodes",
        ours=lambda: _ask(waypoint, times),
        other=lambda: [loop_geometry(legs, time) for time in times],
        at_least=3.0,
    )
    swarm = GaussMarkov(few, rng, speed_mps=10.0)
    yield Contest(
        "500 instants of Gauss-Markov, K=200, 20 s apart, against random waypoint",
        ours=lambda: _ask(swarm, times),
        other=lambda: _ask(waypoint, times),
    )


def _places(nodes: int) -> FloatArray:
    ground = _SIDE_M * np.random.default_rng(1).random((nodes, 2))
    return np.column_stack([ground, np.full(nodes, 1.5)])


def _ask(mobility: Mobility, times: FloatArray) -> None:
    for time in times:
        mobility.geometry(float(time))


def all_pairs_within(geometry: Geometry, range_m: float) -> Links:
    """Every distance, a row at a time so that memory does not decide."""
    mask = np.zeros((geometry.nodes, geometry.nodes), dtype=bool)
    for rx, here in enumerate(geometry.position_m):
        mask[rx] = np.linalg.norm(geometry.position_m - here, axis=1) <= range_m
    return Links.from_mask(mask, geometry)


def loop_legs(mobility: Mobility, times: FloatArray) -> list[tuple[list[float], FloatArray, FloatArray]]:
    """Per node: begin, place and velocity of straight pieces through the given instants."""
    asked = [mobility.geometry(float(time)) for time in times]
    return [
        (times.tolist(), np.array([g.position_m[k] for g in asked]), np.array([g.velocity_mps[k] for g in asked]))
        for k in range(asked[0].nodes)
    ]


def loop_geometry(legs: list[tuple[list[float], FloatArray, FloatArray]], time_s: float) -> Geometry:
    """One node after another."""
    position, velocity = np.zeros((2, len(legs), 3))
    for node, (begin, place, pace) in enumerate(legs):
        leg = bisect_right(begin, time_s) - 1
        position[node] = place[leg] + pace[leg] * (time_s - begin[leg])
        velocity[node] = pace[leg]
    return Geometry(position, velocity)
