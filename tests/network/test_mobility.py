"""Motion: deterministic at any time, its velocity its derivative, its long run what theory says."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad

from wirelessdl.network.mobility import MOBILITIES
from wirelessdl.network.mobility.paths import Paths
from wirelessdl.network.mobility.streets import Streets
from wirelessdl.network.mobility.track import Track
from wirelessdl.network.mobility.walk import _STEPS_PER_BLOCK, GaussMarkov, RandomWalk
from wirelessdl.network.mobility.waypoint import RandomWaypoint
from wirelessdl.network.parameters import Circle, KeyedDraws, Rectangle, fold
from wirelessdl.network.streets import Manhattan

CITY = Manhattan(blocks=(1, 2), block_m=(80.0, 30.0), street_m=20.0)  # streets along x = -50 and 50

CSV = "time_s,node,x_m,y_m\n" + "".join(
    f"{3.7 * step + 0.1 * node * (step > 0)},{node},{(17 * step + 5 * node) % 31},{(7 * step * node) % 23}\n"
    for node in range(12)
    for step in range(9)
)

FCD = "<fcd-export>{}</fcd-export>".format(
    "".join(
        f'<timestep time="{3.7 * step}">'
        + "".join(
            f'<person id="{node}" x="{(17 * step + 5 * node) % 31}" y="{(7 * step * node) % 23}"/>'
            for node in range(12)
        )
        + "</timestep>"
        for step in range(9)
    )
)


def rng(seed=0):
    return np.random.default_rng(seed)


def starts(nodes=12, height=1.5, side=100.0):
    return np.column_stack([side * (rng(5).random((nodes, 2)) - 0.5), np.full(nodes, height)])


@pytest.fixture
def made(tmp_path):
    """A fresh mobility of every kind, the same each time."""
    (tmp_path / "walks.csv").write_text(CSV)
    (tmp_path / "walks.xml").write_text(FCD)

    def make(name):
        start, low = starts(), starts(height=30.0)
        return {
            "static": lambda: MOBILITIES["static"](start),
            "random-waypoint": lambda: RandomWaypoint(start, rng(1), speed_mps=(1.0, 9.0), pause_s=(0.0, 4.0)),
            "random-walk": lambda: RandomWalk(start, rng(2), speed_mps=(1.0, 9.0), step_s=0.7),
            "gauss-markov": lambda: GaussMarkov(
                low, rng(3), alpha=0.8, speed_mps=8.0, step_s=0.5, pitch_std_rad=0.5, heights_m=(25.0, 35.0)
            ),
            "streets": lambda: Streets(np.minimum(start, [[-50, 50, 9]]), rng(7), CITY, speed_mps=(1.0, 9.0)),
            "track": lambda: Track(start, rng(4), speed_mps=(10.0, 20.0), lanes=3, both_ways=True),
            "waypoints": lambda: MOBILITIES["waypoints"](start, lambda name: tmp_path / name, file="walks.csv"),
            "sumo-fcd": lambda: MOBILITIES["sumo-fcd"](start, lambda name: tmp_path / name, file="walks.xml"),
        }[name]()

    return make


@pytest.mark.parametrize("name", MOBILITIES)
def test_answers_do_not_depend_on_what_was_asked_before(name, made):
    times = [0.0, 33.3, 2.0, 700.0, 33.3, 701.5, 12.25, 1e-9, 300.0]
    one = made(name)
    for time in times:
        asked, fresh = one.geometry(time), made(name).geometry(time)
        np.testing.assert_array_equal(asked.position_m, fresh.position_m)
        np.testing.assert_array_equal(asked.velocity_mps, fresh.velocity_mps)


@pytest.mark.parametrize("name", MOBILITIES)
def test_velocity_is_the_derivative_of_position(name, made):
    mobility, half = made(name), 1e-5
    checked = 0
    for time in rng(6).uniform(0.1, 200.0, 60):
        before, now, after = (mobility.geometry(time + step) for step in (-half, 0.0, half))
        # a node that turns within the step has two velocities: leave it out
        straight = (before.velocity_mps == after.velocity_mps).all(axis=1) | (name == "track")
        slope = (after.position_m - before.position_m) / (2 * half)
        np.testing.assert_allclose(slope[straight], now.velocity_mps[straight], atol=2e-4)
        checked += int(straight.sum())
    assert checked >= 0.98 * 60 * 12


@pytest.mark.parametrize("name", ["random-waypoint", "random-walk", "gauss-markov"])
def test_nodes_stay_in_the_box_they_started_in_and_go_everywhere_in_it(name, made):
    low, high = starts()[:, :2].min(axis=0), starts()[:, :2].max(axis=0)
    mobility = made(name)
    seen = np.concatenate([mobility.geometry(time).position_m for time in np.arange(0.0, 3000.0, 7.0)])
    assert (seen[:, :2] >= low - 1e-9).all()
    assert (seen[:, :2] <= high + 1e-9).all()
    quarter = (high - low) / 4
    assert (seen[:, :2].min(axis=0) < low + quarter).all()
    assert (seen[:, :2].max(axis=0) > high - quarter).all()
    if name == "gauss-markov":
        assert 25.0 <= seen[:, 2].min() < 26.0
        assert 34.0 < seen[:, 2].max() <= 35.0


def test_times_before_the_start_are_refused(made):
    for bad in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"time_s is .*; must be a finite number >= 0"):
            made("random-walk").geometry(bad)


def test_paths_are_looked_up_as_a_loop_would():
    generator, nodes, legs = rng(7), 5, 37
    duration = generator.random((legs, nodes)) * (generator.random((legs, nodes)) < 0.8)  # some legs take no time
    velocity = generator.standard_normal((legs, nodes, 3))
    paths, start = Paths.from_places(np.zeros((nodes, 3))), np.zeros((nodes, 3))
    for step in range(legs):
        paths.add(duration[step], velocity[step])
    times = np.append(generator.uniform(0, duration.sum(axis=0).min(), 40), 0.0)
    for found, time in zip(map(paths.motion(times).at, range(len(times))), times):
        for node in range(nodes):
            here, left = start[node].copy(), time
            for leg in range(legs):
                if left < duration[leg, node]:
                    break
                here += velocity[leg, node] * duration[leg, node]
                left -= duration[leg, node]
            np.testing.assert_allclose(found.position_m[node], here + velocity[leg, node] * left, atol=1e-9)


# --- random waypoint


def test_waypoint_trips_equal_a_walk_told_step_by_step():
    start, nodes = starts(6), 6
    mobility = RandomWaypoint(start, rng(8), speed_mps=(1.0, 3.0), pause_s=(2.0, 5.0), radius_m=80.0, steady=False)
    draws = KeyedDraws(rng(8))
    centre = (start[:, :2].min(axis=0) + start[:, :2].max(axis=0)) / 2
    for node in range(nodes):
        time, here, log = 0.0, start[node, :2], []
        for trip in range(1, 12):
            a, b, c, d = draws.rng(trip).random((nodes, 4))[node]
            reach, angle = 80.0 * math.sqrt(a), 2 * math.pi * b
            target = centre + reach * np.array([math.cos(angle), math.sin(angle)])
            arrival = time + math.dist(here, target) / (1.0 + 2.0 * c)
            pause = 2.0 + 3.0 * d
            log += [(time, here, arrival, target), (arrival, target, arrival + pause, target)]
            time, here = arrival + pause, target
        for begin, origin, end, target in log:
            middle = mobility.geometry((begin + end) / 2)
            np.testing.assert_allclose(middle.position_m[node, :2], (origin + target) / 2, atol=1e-9)
            np.testing.assert_allclose(middle.velocity_mps[node, :2], (target - origin) / (end - begin), atol=1e-9)
    np.testing.assert_array_equal(mobility.geometry(0.0).position_m, start)


def many_waypoint_nodes(nodes=30_000, **parameters):
    start = np.tile([0.5, 0.5, 1.5], (nodes, 1))
    return RandomWaypoint(start, rng(9), **{"area_m": (1.0, 1.0), "centre_m": (0.5, 0.5), **parameters})


def assert_mean(values, expected, errors=4.5):
    """Within so many standard errors of the mean."""
    error = np.std(values) / math.sqrt(len(values))
    assert abs(np.mean(values) - expected) < errors * error, (np.mean(values), expected, error)


# at the start, the exact sampler; later, what the process makes of it; unsteady, the process alone
LONG_RUN = [(True, 0.0), (True, 0.4), (True, 3.0), (False, 30.0)]


@pytest.mark.parametrize(("steady", "time"), LONG_RUN)
def test_waypoint_speed_in_the_long_run(steady, time):
    low, high = 0.4, 2.0
    mobility = many_waypoint_nodes(speed_mps=(low, high), steady=steady)
    speed = np.linalg.norm(mobility.geometry(time).velocity_mps, axis=1)
    assert_mean(speed, (high - low) / math.log(high / low))
    assert_mean(speed**2, (high**2 - low**2) / (2 * math.log(high / low)))
    assert_mean(speed < 1.0, math.log(1.0 / low) / math.log(high / low))


def waypoint_moment(width, height, of):
    """E[of] over positions: trips weighted by length; given |dx|, x is a uniform midpoint plus a uniform part of dx."""

    def weight(dy, dx):
        return 4 * (1 - dx) * (1 - dy) * math.hypot(width * dx, height * dy)

    total = dblquad(weight, 0, 1, 0, 1)[0]
    return dblquad(lambda dy, dx: weight(dy, dx) * of(dx, dy), 0, 1, 0, 1)[0] / total


def second(d):
    return ((1 - d) ** 2 + d**2) / 12


def fourth(d):
    a, b = (1 - d) / 2, d / 2
    return a**4 / 5 + 6 * (a**2 / 3) * (b**2 / 3) + b**4 / 5


def cross(dx, dy):
    """E[x^2 y^2]: midpoints are independent, the part of the trip (fourth moment 1/80) is shared."""
    return ((1 - dx) * (1 - dy) / 12) ** 2 + ((1 - dx) * dy / 12) ** 2 + (dx * (1 - dy) / 12) ** 2 + (dx * dy) ** 2 / 80


@pytest.mark.parametrize(("width", "height"), [(1.0, 1.0), (3.0, 1.0)])
@pytest.mark.parametrize(("steady", "time"), LONG_RUN)
def test_waypoint_positions_in_the_long_run(steady, time, width, height):
    mobility = many_waypoint_nodes(speed_mps=(0.4, 2.0), steady=steady, area_m=(width, height))
    x, y = ((mobility.geometry(time).position_m[:, :2] - 0.5) / [width, height]).T
    assert_mean(x, 0.0)
    assert_mean(x**2, waypoint_moment(width, height, lambda dx, _: second(dx)))
    assert_mean(y**2, waypoint_moment(width, height, lambda _, dy: second(dy)))
    assert_mean(x**4, waypoint_moment(width, height, lambda dx, _: fourth(dx)))
    assert_mean(x**2 * y**2, waypoint_moment(width, height, cross))


@pytest.mark.parametrize(("steady", "time"), LONG_RUN)
def test_waypoint_pauses_in_the_long_run(steady, time):
    mobility = many_waypoint_nodes(speed_mps=(0.5, 1.5), pause_s=(0.1, 0.9), steady=steady)
    geometry = mobility.geometry(time)
    resting = (geometry.velocity_mps == 0).all(axis=1)
    travel = 0.521405433 * math.log(3.0)  # mean distance in the unit square times E[1 / v]
    assert_mean(resting, 0.5 / (0.5 + travel))
    # who rests is uniform on the square
    assert_mean(geometry.position_m[resting, 0] < 0.25, 0.25)


@pytest.mark.parametrize(
    "area",
    [Rectangle(np.zeros(2), np.ones(2)), Rectangle(np.zeros(2), np.array([5.0, 0.5])), Circle(np.ones(2), 3.0)],
)
def test_mean_distance_of_two_points(area):
    one, other = area.spread(rng(10).random((200_000, 2))), area.spread(rng(11).random((200_000, 2)))
    assert_mean(np.linalg.norm(one - other, axis=1), area.mean_distance_m)


# --- steps


@given(st.floats(-50, 50), st.floats(-5, 5), st.floats(0, 40), st.floats(0.5, 9), st.floats(0, 1, exclude_min=True))
@settings(max_examples=200, deadline=None)
def test_folding_is_bouncing(low, speed, duration, width, share):
    """Against a ball that is turned round at each wall it meets."""
    here, left, direction = low + share * width, duration, speed
    while direction:
        wall = low + width if direction > 0 else low
        until = (wall - here) / direction
        if until >= left:
            here += direction * left
            break
        here, left, direction = wall, left - until, -direction
    folded, sign = fold(np.array([low + share * width + speed * duration]), low, low + width)
    assert folded[0] == pytest.approx(here, abs=1e-9)
    if min(here - low, low + width - here) > 1e-6:
        assert sign[0] * speed == direction


def test_random_walk_spreads_like_one():
    """E|d|^2 = n E[v^2] step^2 after n steps, far from any border."""
    start = np.tile([0.0, 0.0, 1.5], (3_000, 1))
    walk = RandomWalk(start, rng(12), speed_mps=(0.5, 1.5), step_s=2.0, area_m=(1e6, 1e6))
    for steps in (1, 10, 300):
        moved = walk.geometry(2.0 * steps).position_m - start
        assert_mean((moved**2).sum(axis=1), steps * 4.0 * (1.5**3 - 0.5**3) / 3)


def test_gauss_markov_steps_equal_a_loop():
    mobility = GaussMarkov(starts(4), rng(13), alpha=0.7, speed_mps=2.0, speed_std_mps=0.9, heading_std_rad=0.4)
    draws = KeyedDraws(rng(13))
    heading = 2 * math.pi * draws.rng(1).random(4)
    deviation = np.array([0.9, 0.4, 0.1])[:, None] * draws.rng(0).standard_normal((3, 4))
    fresh = draws.rng(0, 0).standard_normal((_STEPS_PER_BLOCK, 3, 4))
    velocity, state = mobility.velocities(deviation.copy(), draws.rng(0, 0))
    for step in range(_STEPS_PER_BLOCK):
        for node in range(4):
            speed = max(2.0 + deviation[0, node], 0.0)
            angle = heading[node] + deviation[1, node]
            expected = [speed * math.cos(angle), speed * math.sin(angle), 0.0]
            np.testing.assert_allclose(velocity[step, node], expected, atol=1e-12)
            for n, sigma in enumerate((0.9, 0.4, 0.1)):
                noise = math.sqrt(1 - 0.7**2) * sigma * fresh[step, n, node]
                deviation[n, node] = 0.7 * deviation[n, node] + noise
    np.testing.assert_allclose(state, deviation, atol=1e-12)


@pytest.fixture(scope="module")
def swarm():
    start = np.tile([0.0, 0.0, 5e5], (10_000, 1))
    return GaussMarkov(
        start, rng(14), alpha=0.9, speed_mps=10.0, pitch_std_rad=0.2, area_m=(1e6, 1e6), heights_m=(1.0, 1e6)
    )


@pytest.mark.parametrize("lag", [1, 5, 20])
@pytest.mark.parametrize("begin", [0, 250])  # the second pair of instants lies across a block's end
def test_gauss_markov_remembers_alpha_to_the_lag(lag, begin, swarm):
    alpha, nodes = 0.9, 10_000
    one, other = (swarm.geometry(begin + step + 0.5).velocity_mps for step in (0, lag))
    error = (1 - alpha ** (2 * lag)) / math.sqrt(nodes)  # of the correlation of normal pairs
    speed = [np.linalg.norm(velocity, axis=1) for velocity in (one, other)]
    assert_mean(speed[1], 10.0)
    assert np.std(speed[1]) == pytest.approx(2.0, abs=4.5 * 2.0 / math.sqrt(2 * nodes))
    assert np.corrcoef(*speed)[0, 1] == pytest.approx(alpha**lag, abs=4.5 * error)
    pitch = [np.arcsin(velocity[:, 2] / pace) for velocity, pace in zip((one, other), speed)]
    assert np.corrcoef(*pitch)[0, 1] == pytest.approx(alpha**lag, abs=4.5 * error)


# --- tracks


def test_a_ring_road_comes_round():
    track = Track(starts(8), rng(), speed_mps=20.0, radius_m=100.0, centre_m=(5.0, 0.0))
    begin, quarter = track.geometry(0.0), track.geometry(2 * math.pi * 100 / 20 / 4)
    np.testing.assert_allclose(np.linalg.norm(begin.position_m[:, :2] - [5.0, 0.0], axis=1), 100.0)
    np.testing.assert_allclose(np.linalg.norm(begin.velocity_mps, axis=1), 20.0)
    np.testing.assert_allclose(quarter.position_m, np.roll(begin.position_m, -2, axis=0), atol=1e-9)
    np.testing.assert_allclose(track.geometry(10 * math.pi).position_m, begin.position_m, atol=1e-9)


def test_lanes_lie_side_by_side_and_run_both_ways():
    square = [(0.0, 0.0), (100.0, 0.0), (100.0, 100.0), (0.0, 100.0)]
    track = Track(starts(40), rng(), speed_mps=10.0, path_m=square, lanes=2, lane_width_m=4.0, both_ways=True)
    # counterclockwise: lane 0 lies left of the track, inside, and runs clockwise
    for time in (0.0, 3.3, 50.0):
        geometry = track.geometry(time)
        reach = np.abs(geometry.position_m[:, :2] - 50.0).max(axis=1)
        np.testing.assert_allclose(reach, np.where(np.arange(40) % 2 == 0, 48.0, 52.0))
        (x, y), (vx, vy) = (geometry.position_m[:, :2] - 50.0).T, geometry.velocity_mps[:, :2].T
        assert (np.sign(x * vy - y * vx) == np.where(np.arange(40) % 2 == 0, -1, 1)).all()
    np.testing.assert_allclose(track.geometry(416 / 10).position_m[1::2], track.geometry(0).position_m[1::2], atol=1e-9)


def test_an_open_road_wraps():
    track = Track(starts(4), rng(), speed_mps=10.0, path_m=[(0.0, 0.0), (300.0, 0.0), (300.0, 100.0)], closed=False)
    np.testing.assert_allclose(track.geometry(0.0).position_m[:, 0], [0, 100, 200, 300])
    np.testing.assert_allclose(track.geometry(5.0).position_m[:, :2], [[50, 0], [150, 0], [250, 0], [300, 50]])
    np.testing.assert_allclose(track.geometry(15.0).position_m[3, :2], [50, 0])


def test_nodes_can_join_the_track_where_they_were_placed():
    start = np.array([[10.0, 5.0, 1.5], [90.0, -3.0, 2.0], [120.0, 60.0, 1.0]])
    track = Track(start, rng(), path_m=[(0.0, 0.0), (100.0, 0.0), (100.0, 90.0)], closed=False, start="placed")
    np.testing.assert_allclose(track.geometry(0.0).position_m, [[10, 0, 1.5], [90, 0, 2], [100, 60, 1]])
    ring = Track(start, rng(), radius_m=50.0, start="placed").geometry(0.0).position_m
    np.testing.assert_allclose(ring[:, :2], 50 * start[:, :2] / np.linalg.norm(start[:, :2], axis=1)[:, None])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"path_m": [(0, 0), (1, 0)]}, "a closed track has three corners or more"),
        ({"path_m": [(0, 0), (0, 0), (1, 0)], "closed": False}, "corner 1 repeats the one before"),
        ({"path_m": [(0, 0), (9, 0), (1, 0)], "closed": False}, "turns back on itself at corner 1"),
        ({"path_m": [(0, 0), (9, 0), (9, 1), (0, 1)], "lanes": 4}, "cross at its corners"),
        ({"radius_m": 3.0, "lanes": 4}, "the innermost lane has none left"),
        ({"both_ways": True}, "set lanes = 2 or more"),
        ({"speed_mps": (9.0, 1.0)}, r"speed_mps is \[9, 1\]; must be \[low, high\]"),
    ],
)
def test_roads_that_cannot_be(parameters, words):
    with pytest.raises(ValueError, match=words):
        Track(starts(), rng(), **parameters)


@pytest.mark.parametrize(
    ("kind", "parameters", "words"),
    [
        (RandomWalk, {"start_m": np.array([[0.0, 0.0, 1.5], [9.0, 0.0, 1.5]])}, r"area_m is missing; nodes start on"),
        (RandomWalk, {"area_m": (10.0, 10.0)}, r"area_m is \[10.0, 10.0\]; node \d+ starts outside"),
        (RandomWaypoint, {"radius_m": 5.0, "steady": False}, r"radius_m is 5; node \d+ starts outside"),
        (RandomWaypoint, {"radius_m": 5.0, "area_m": (5.0, 5.0)}, "area_m is given too: keep one"),
        (RandomWaypoint, {"centre_m": (5.0, 5.0)}, "it places area_m or radius_m"),
        (GaussMarkov, {"heights_m": (5.0, 9.0)}, r"heights_m is \[5, 9\]; node 0 starts at 1.5 m"),
        (GaussMarkov, {"heights_m": (1.5, 1.5)}, "no room to climb"),
    ],
)
def test_areas_that_cannot_be(kind, parameters, words):
    with pytest.raises(ValueError, match=words):
        kind(**{"start_m": starts(), "rng": rng(), **parameters})
