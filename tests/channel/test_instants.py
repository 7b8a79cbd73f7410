"""Several instants at once give what one instant after the other gives, bit for bit; `gain` is the slow twin."""

from functools import partial

import numpy as np
import pytest

from wirelessdl.channel.antennas import Antennas
from wirelessdl.channel.fading import Nakagami, Rayleigh, Rician, Uniform
from wirelessdl.channel.los import ChannelCondition
from wirelessdl.channel.model import Chain
from wirelessdl.channel.pathloss.distance import Friis, LogDistance, Matrix, Range, ThreeLogDistance, TwoRay
from wirelessdl.channel.pathloss.standard import SidelinkUrban, StandardLoss
from wirelessdl.channel.shadowing import Shadowing
from wirelessdl.channel.tdl import Tdl
from wirelessdl.links import Geometry, Instants, Links
from wirelessdl.run.registry import PARTS
from wirelessdl.streams import Streams

TIMES_S = (0.0, 0.01, 0.02, 0.5, 0.5, 2.0)
NODES = 7


def condition(spatial=False):
    return ChannelCondition("auto", "sidelink-urban", Streams(3), spatial=spatial)


def urban(spatial=False):
    where = condition(spatial)
    return [
        ("sidelink-urban", SidelinkUrban(3.5e9, where)),
        ("shadowing", Shadowing(where)),
        ("rician", Rician(where, process="clarke", by_condition=True)),
    ]


class FromRayleigh(Rayleigh):
    """A class of the user's that changes `gain` and nothing else."""

    def gain(self, links, time_s, rng):
        return 0.5 * super().gain(links, time_s, rng)


MODELS = {
    "urban": urban,
    "urban, spatial": partial(urban, spatial=True),
    "one way": lambda: [("rayleigh", Rayleigh(process="clarke", reciprocal=False))],
    "block": lambda: [("rayleigh", Rayleigh()), ("nakagami", Nakagami(coherence_s=0.015)), ("rician", Rician())],
    "static": lambda: [("friis", Friis(3.5e9)), ("uniform", Uniform())],
    "derived": lambda: [("derived", FromRayleigh(process="clarke"))],
    "distances": lambda: [
        ("log-distance", LogDistance(3.5e9)),
        ("three-log-distance", ThreeLogDistance()),
        ("two-ray", TwoRay(3.5e9)),
        ("range", Range(1e4)),
    ],
    "matrix": lambda: [("matrix", Matrix([[60.0 + 7 * tx + rx for tx in range(NODES)] for rx in range(NODES)]))],
    "delays": lambda: [("tdl", Tdl(process="clarke"))],
    **{
        name: lambda name=name, kind=kind: [
            (name, kind(3.5e9, ChannelCondition("auto", name, Streams(3)), enforce_range=False))
        ]
        for name, kind in PARTS["channel.models"].classes.items()
        if issubclass(kind, StandardLoss)
    },
}


def moving_links(nodes=NODES):
    rng = np.random.default_rng(5)
    start = np.column_stack([rng.uniform(0, 200, (nodes, 2)), np.full(nodes, 1.5)])
    velocity = np.column_stack([rng.normal(0, 10, (nodes, 2)), np.zeros(nodes)])
    velocity[0] = 0.0
    links = Links.from_mask(rng.random((nodes, nodes)) < 0.6, Geometry(start, velocity))
    return [links.at(Geometry(start + time_s * velocity, velocity)) for time_s in TIMES_S]


@pytest.mark.parametrize("name", MODELS)
def test_instants_together_equal_one_after_the_other(name):
    together, alone = (Chain(MODELS[name](), Streams(1)) for _ in range(2))
    links = moving_links()
    for part in (slice(0, 4), slice(4, 6)):  # two frames: state goes on from one to the next
        found = together.gains(Instants(tuple(links[part]), TIMES_S[part]))
        expected = [alone.gain(here, time_s) for here, time_s in zip(links[part], TIMES_S[part])]
        np.testing.assert_array_equal(found.now, [air.now for air in expected])
        np.testing.assert_array_equal(found.mean, [air.mean for air in expected])
    assert together.checksums == alone.checksums


@pytest.mark.parametrize(
    ("name", "antennas"), [*((name, 1) for name in MODELS), ("urban", 100), ("block", 3), ("one way", 3), ("delays", 3)]
)
def test_gains_of_chosen_links_are_those_of_all(name, antennas):
    """Whatever was asked before: all links of a first instant, some at two more, then all. Paths of the scatter to 100
    antennas are summed in pieces, in the same order for some links.
    """
    links, chosen = moving_links(), np.array([1, 2, 5])
    instants = [Instants(tuple(links[part]), TIMES_S[part]) for part in (slice(0, 1), slice(1, 3), slice(3, None))]
    every, some = (Chain(MODELS[name](), Streams(1), phases=True, antennas=Antennas(antennas, 0.5)) for _ in range(2))
    for number, given in enumerate(instants):
        few, one = number == 1 or (number == 0 and antennas == 1), given.links[0]
        wanted = Links(one.rx[chosen], one.tx[chosen], one.geometry) if few else None
        whole, asked = every.gains(given), some.gains(given, wanted)
        for field in ("now", "mean", "phase_rad", "antennas"):
            expected = getattr(whole, field)
            expected = expected[..., chosen] if few else expected
            np.testing.assert_array_equal(getattr(asked, field), expected)


def test_every_model_that_takes_instants_is_among_those_tested():
    tested = {type(model) for models in MODELS.values() for _, model in models()}
    assert {kind for kind in PARTS["channel.models"].classes.values() if hasattr(kind, "gains")} <= tested


def test_many_links_are_summed_in_the_same_order_at_once():
    """Beyond what the cache holds paths are summed in pieces, and single precision shows in which."""
    nodes = 80
    place = Geometry.at_rest(np.column_stack([np.random.default_rng(0).uniform(0, 99, (nodes, 2)), np.ones(nodes)]))
    links = Links.from_mask(np.ones((nodes, nodes), bool), Geometry(place.position_m, np.ones((nodes, 3))))
    together, alone = (Chain([("rayleigh", Rayleigh(process="clarke"))], Streams(1)) for _ in range(2))
    found = together.gains(Instants((links, links, links), (0.0, 0.01, 0.02))).now
    np.testing.assert_array_equal(found, [alone.gain(links, time_s).now for time_s in (0.0, 0.01, 0.02)])


def test_stacked_links_have_the_lengths_and_numbers_of_each_instant():
    links = moving_links()
    stacked = Instants(tuple(links), TIMES_S).stacked
    np.testing.assert_array_equal(stacked.distance_m, np.concatenate([here.distance_m for here in links]))
    np.testing.assert_array_equal(stacked.number, np.tile(links[0].number, len(links)))
    np.testing.assert_array_equal(stacked.pair, np.tile(links[0].pair, len(links)))


def test_frames_without_links_have_no_gains():
    nobody = Links.from_mask(np.zeros((3, 3), bool), Geometry.at_rest(np.ones((3, 3))))
    air = Chain(urban(), Streams(1)).gains(Instants((nobody, nobody), (0.0, 1.0)))
    assert air.now.shape == air.mean.shape == (2, 0)


def walk(step_m, steps=200, nodes=12):
    """All links among nodes that each go step_m along a direction of their own from instant to instant."""
    rng = np.random.default_rng(2)
    start = np.column_stack([rng.uniform(0, 200, (nodes, 2)), np.full(nodes, 1.5)])
    angle = rng.uniform(0, 2 * np.pi, nodes)
    way = step_m * np.column_stack([np.cos(angle), np.sin(angle), np.zeros(nodes)])
    links = Links.from_mask(np.ones((nodes, nodes), bool), Geometry.at_rest(start))
    return tuple(links.at(Geometry(start + n * way, way)) for n in range(steps))


@pytest.mark.parametrize("spatial", [True, False])
def test_large_scale_state_that_is_held_is_within_half_a_decibel_of_what_it_would_be(spatial):
    """Shadowing of 3 dB and 10 m along paths of 1 cm a step, both ends; a bound of one end is 0.42 dB rms."""
    links, times = walk(0.01), tuple(0.01 * n for n in range(200))
    models = urban(spatial)[1:2] if spatial else [("shadowing", Shadowing(sigma_db=3.0, correlation_m=10.0))]
    held = 20 * np.log10(Chain(models, Streams(1)).gains(Instants(links, times)).mean)
    changes = np.any(np.diff(held, axis=0) != 0, axis=1)
    assert 30 <= changes.sum() <= 40  # every sixth step leaves 5 cm
    if spatial:  # a field is a function of places: what it would be is known
        every = [Chain(urban(True)[1:2], Streams(1)).gain(here, 0.0).mean for here in links]
        assert 0.05 < np.sqrt(np.mean((held - 20 * np.log10(every)) ** 2)) < 0.6  # both ends move
    level = held / 3.0
    lag = 100  # 1 m at both ends
    assert np.mean((level[lag:] - level[:-lag]) ** 2) == pytest.approx(2 * (1 - np.exp(-2 * 1.0 / 10)), rel=0.35)


def test_places_that_nobody_leaves_are_asked_about_once():
    class Counting(Friis):
        __module__ = "wirelessdl.channel.pathloss.distance"  # as a built-in one
        asked = 0

        def loss_db(self, links):
            Counting.asked += links.instants
            return super().loss_db(links)

    links = walk(0.0, steps=4)
    chain = Chain([("friis", Counting(3.5e9))], Streams(1))
    for _ in range(3):
        chain.gains(Instants(links, (0.0, 1.0, 2.0, 3.0)))
    assert Counting.asked == 1
    chain.gains(Instants((links[0].at(Geometry.at_rest(links[0].geometry.position_m + 1.0)),), (4.0,)))
    assert Counting.asked == 2


@pytest.mark.parametrize("name", ["urban, spatial", "block", "static", "delays"])
def test_phases_leave_amplitudes_as_they_are_and_agree_in_both_directions(name):
    links = tuple(walk(0.1, steps=5))
    times = tuple(0.1 * n for n in range(5))
    plain = Chain(MODELS[name](), Streams(1)).gains(Instants(links, times))
    found = Chain(MODELS[name](), Streams(1), phases=True).gains(Instants(links, times))
    np.testing.assert_allclose(found.now, plain.now, rtol=1e-12)
    np.testing.assert_allclose(np.abs(found.h), plain.now, rtol=1e-12)
    back = np.searchsorted(links[0].number, links[0].reverse_number)
    np.testing.assert_allclose(np.exp(1j * found.phase_rad[:, back]), np.exp(1j * found.phase_rad), atol=1e-9)
    assert abs(np.mean(np.exp(1j * found.phase_rad[0]))) < 0.4  # 66 pairs: uniform on the circle has 0.12 +- 0.06


def test_the_phase_of_a_line_of_sight_follows_its_length():
    """A line of sight alone (K = 100 dB): one cycle per wavelength, and the phase of the pair on top of it."""
    links, wavelength_m = walk(0.002, steps=10), 299792458 / 3.5e9
    chain = Chain([("rician", Rician(k_db=100, process="clarke"))], Streams(1), phases=True)
    phase = chain.gains(Instants(links, tuple(range(10)))).phase_rad
    way_m = np.array([here.distance_m - links[0].distance_m for here in links])
    turned = np.exp(1j * (phase - phase[0]))
    np.testing.assert_allclose(turned, np.exp(-2j * np.pi * way_m / wavelength_m), atol=1e-4)  # the scatter: 1e-5


@pytest.mark.parametrize("offset_hz", [None, np.array([-4e6, 0.0, 4e6])])
def test_flight_time_turns_phases_by_length_and_frequency(offset_hz):
    links, times = walk(0.02, steps=4), tuple(range(4))

    def phase(flight_hz):
        chain = Chain([("friis", Friis(3.5e9))], Streams(1), offset_hz=offset_hz, phases=True, flight_hz=flight_hz)
        return chain.gains(Instants(links, times)).phase_rad

    length_m = np.array([here.distance_m for here in links])
    frequency_hz = 3.5e9 + (np.zeros((1, 1)) if offset_hz is None else offset_hz[:, None])
    turned = np.exp(-2j * np.pi * frequency_hz * length_m[:, None] / 299792458.0)
    found = np.exp(1j * (phase(3.5e9) - phase(None)))
    np.testing.assert_allclose(found.reshape(turned.shape), turned, atol=1e-9)


def test_flight_time_is_not_counted_twice():
    links, times = walk(0.02, steps=4), tuple(range(4))
    found = [
        Chain(MODELS["urban"](), Streams(1), phases=True, flight_hz=hz).gains(Instants(links, times)).phase_rad
        for hz in (None, 3.5e9)
    ]
    np.testing.assert_array_equal(*found)


def test_a_users_model_is_asked_instant_by_instant_and_gets_a_phase_of_each_pair():
    class Users:
        def __init__(self):
            self.asked = []

        def gain(self, links, time_s, rng):
            assert links.distance_m.shape == (len(links),)
            self.asked.append((time_s, rng.random()))
            return 1.0 / links.distance_m

    links, times, mine = walk(0.02, steps=4), (0.0, 0.5, 1.0, 1.5), Users()
    found = Chain([("users.py:Users", mine)], Streams(1), phases=True).gains(Instants(links, times))
    assert [time_s for time_s, _ in mine.asked] == list(times)
    assert len({draw for _, draw in mine.asked}) == 4
    np.testing.assert_array_equal(found.now, [1.0 / here.distance_m for here in links])
    np.testing.assert_array_equal(found.phase_rad, np.broadcast_to(found.phase_rad[0], found.phase_rad.shape))


def test_the_state_of_links_is_worked_out_once_for_all_models_of_a_chain(monkeypatch):
    asked, inner = [], ChannelCondition._look
    monkeypatch.setattr(ChannelCondition, "_look", lambda self, links: asked.append(links) or inner(self, links))
    chain, links = Chain(urban(spatial=True), Streams(1)), walk(1.0, steps=6)
    for frame in (slice(0, 3), slice(3, 6)):
        chain.gains(Instants(links[frame], (0.0, 1.0, 2.0)))
    assert len(asked) == 2  # of three models, in two frames of three instants
