"""Loss, fading and what is demanded of a user's model."""

import numpy as np
import pytest

from wirelessdl.channel.csi import Pilots
from wirelessdl.channel.fading import Nakagami, Rayleigh, Rician, Uniform
from wirelessdl.channel.los import ChannelCondition
from wirelessdl.channel.model import Chain
from wirelessdl.channel.pathloss.distance import Friis, LogDistance
from wirelessdl.channel.pathloss.formulas import LOS_PROBABILITY
from wirelessdl.channel.shadowing import Shadowing
from wirelessdl.links import Geometry, Links
from wirelessdl.streams import Streams
from wirelessdl.units import thermal_noise_w, to_db, w_to_dbm

SIGHT = ChannelCondition("los", "", Streams(1))


def full_links(nodes=3, spacing=100.0):
    positions = np.column_stack([spacing * np.arange(nodes), np.zeros(nodes), np.full(nodes, 1.5)])
    return Links.from_mask(np.ones((nodes, nodes), bool), Geometry.at_rest(positions))


def rng(seed=0):
    return np.random.default_rng(seed)


def test_thermal_noise_of_one_megahertz():
    assert w_to_dbm(thermal_noise_w(1e6, 7.0)) == pytest.approx(-106.98, abs=0.005)


def test_log_distance_starts_in_free_space_and_never_amplifies():
    near, far = full_links(2, 0.5), full_links(2, 100.0)
    model = LogDistance(3.5e9, exponent=3.0)
    assert model.loss_db(near)[0] == pytest.approx(Friis(3.5e9).loss_db(full_links(2, 1.0))[0])
    assert model.loss_db(far)[0] == pytest.approx(model.loss_db(near)[0] + 60.0)


@pytest.mark.parametrize(
    ("model", "moment", "expected", "variance"),
    [
        (Rayleigh(), 2, 1.0, 1.0),
        (Rayleigh(), 1, np.sqrt(np.pi) / 2, 1 - np.pi / 4),
        (Rayleigh(), 4, 2.0, 20.0),  # E p^4 - (E p^2)^2 = 24 - 4 for p ~ Exp(1)
        (Rician(SIGHT, k_db=6.0), 2, 1.0, 0.3605),  # (1 + 2K)/(1 + K)^2, K = 10^0.6
    ],
)
def test_fading_moments(model, moment, expected, variance):
    draws = model.gain(full_links(500), 0.0, rng(1))
    links = full_links(500)
    once = draws[links.rx < links.tx]  # reciprocal: half of them are copies
    error = np.sqrt(variance / len(once))
    assert abs(np.mean(once**moment) - expected) < 4 * error


def test_fading_is_reciprocal_unless_asked_otherwise():
    links = full_links(6)
    matrix = links.matrix(Rayleigh().gain(links, 0.0, rng()))
    np.testing.assert_array_equal(matrix, matrix.T)
    matrix = links.matrix(Rayleigh(reciprocal=False).gain(links, 0.0, rng()))
    assert (matrix != matrix.T).sum() == 30


def test_a_block_holds_for_its_coherence_time():
    links, model = full_links(), Rayleigh(coherence_s=0.1)
    first = model.gain(links, 0.01, rng(1))
    np.testing.assert_array_equal(model.gain(links, 0.09, rng(2)), first)
    assert (model.gain(links, 0.11, rng(3)) != first).any()


def test_pruned_graphs_inherit_the_full_graphs_draws():
    whole = full_links(6)
    pruned = whole.where((whole.rx + whole.tx) % 2 == 1)
    for make in (Uniform, Rayleigh):
        full = whole.matrix(make().gain(whole, 0.0, rng()))
        np.testing.assert_array_equal(make().gain(pruned, 0.0, rng()), pruned.vector(full))


def test_uniform_stays_put_and_in_range():
    links, model = full_links(40), Uniform(0.3, 1.0)
    gain = model.gain(links, 0.0, rng())
    assert 0.3 <= gain.min() < 0.31
    assert 0.99 < gain.max() <= 1.0
    np.testing.assert_array_equal(model.gain(links, 9.0, rng(9)), gain)


def test_losses_add_in_decibels_and_fading_multiplies():
    links = full_links()
    chain = Chain([("friis", Friis(3.5e9)), ("log-distance", LogDistance(3.5e9)), ("rayleigh", Rayleigh())], Streams(1))
    air = chain.gain(links, 0.0)
    np.testing.assert_allclose(-to_db(air.mean**2), chain.loss_db(links))
    fading = Chain([("rayleigh", Rayleigh())], Streams(1)).gain(links, 0.0).now
    np.testing.assert_allclose(air.now, air.mean * fading)


def test_adding_a_model_leaves_the_others_draws_unchanged():
    links = full_links()
    alone = Chain([("rayleigh", Rayleigh())], Streams(1))
    between = Chain([("rician", Rician(SIGHT)), ("friis", Friis(1e9)), ("rayleigh", Rayleigh())], Streams(1))
    only_rician = Chain([("rician", Rician(SIGHT))], Streams(1))
    for time_s in (0.0, 1.0):
        friis = Friis(1e9).gain(links, 0.0, rng())
        expected = alone.gain(links, time_s).now * only_rician.gain(links, time_s).now * friis
        np.testing.assert_allclose(between.gain(links, time_s).now, expected)


def test_pilots_are_unbiased_with_the_error_theory_gives():
    links = full_links(300)
    gain = np.full(len(links), 0.5)
    estimate = Pilots(symbols=4).estimate(links, gain, np.full(300, 2.0), 0.08, rng())
    variance = 0.08 / (2 * 2.0 * 4)  # each part of CN(0, N0 / (P L))
    count = len(links)
    for part, mean in ((estimate.real, 0.5), (estimate.imag, 0.0)):
        assert abs(part.mean() - mean) < 4 * np.sqrt(variance / count)
        assert abs(part.var() - variance) < 4 * variance * np.sqrt(2 / count)
    # 1 / sqrt(2 L SNR) = 0.1414 rad at an SNR of 6.25; the next term of its series adds 1%
    assert np.angle(estimate).std() == pytest.approx(np.sqrt(0.08 / (2 * 4 * 0.25 * 2.0)), rel=0.03)


# --- condition and shadowing


def walk(links, shift_m):
    """The same links with every node moved along y."""
    position = links.geometry.position_m.copy()
    position[:, 1] += shift_m
    return links.at(Geometry.at_rest(position))


def test_line_of_sight_is_as_frequent_as_its_probability_and_shared_by_both_directions():
    links = full_links(400, spacing=0.5)  # distances from 0.5 to 200 m
    condition = ChannelCondition("auto", "umi-street-canyon", Streams(2))
    los = condition.los(links)
    matrix = links.matrix(los.astype(float))
    np.testing.assert_array_equal(matrix, matrix.T)
    once = links.rx < links.tx
    for low, high in ((20.0, 40.0), (60.0, 80.0), (120.0, 160.0)):
        inside = once & (links.distance_2d_m >= low) & (links.distance_2d_m < high)
        expected = np.mean(LOS_PROBABILITY["umi-street-canyon"](links.distance_2d_m[inside]))
        error = np.sqrt(expected * (1 - expected) / inside.sum())
        assert abs(los[inside].mean() - expected) < 4 * error
    np.testing.assert_array_equal(condition.los(links), los)  # asked again, nothing moved: the same


def test_condition_may_be_fixed():
    links = full_links(5)
    assert ChannelCondition("los", "uma", Streams(1)).los(links).all()
    assert not ChannelCondition("nlos", "uma", Streams(1)).los(links).any()
    assert ChannelCondition("auto", "log-distance", Streams(1)).los(links).all()


def test_shadowing_has_its_deviation_and_is_symmetric():
    links = full_links(300)
    shadowing = Shadowing(SIGHT, sigma_db=6.0)
    loss = -20 * np.log10(shadowing.gain(links, 0.0, rng(1)))
    matrix = links.matrix(loss)
    np.testing.assert_allclose(matrix, matrix.T)
    once = loss[links.rx < links.tx]
    assert abs(once.mean()) < 4 * 6 / np.sqrt(len(once))
    assert abs(once.std() - 6.0) < 4 * 6 / np.sqrt(2 * len(once))


@pytest.mark.parametrize("lag_m", [2.0, 5.0, 15.0])
def test_shadowing_forgets_along_the_way_as_gudmundson_says(lag_m):
    """Both ends move by lag/2: correlation exp(-lag / d_corr)."""
    links = full_links(300)
    shadowing = Shadowing(SIGHT, sigma_db=6.0, correlation_m=10.0)
    once = links.rx < links.tx
    before = np.log(shadowing.gain(links, 0.0, rng(1)))[once]
    after = np.log(shadowing.gain(walk(links, lag_m / 2), 1.0, rng(2)))[once]
    expected = np.exp(-lag_m / 10.0)
    error = (1 - expected**2) / np.sqrt(len(before))
    assert abs(np.corrcoef(before, after)[0, 1] - expected) < 4 * error


@pytest.mark.parametrize("m", [0.7, 2.0, 5.0])
def test_nakagami_power_has_unit_mean_and_variance_one_over_m(m):
    links = full_links(500)
    power = Nakagami(m).gain(links, 0.0, rng(3))[links.rx < links.tx] ** 2
    count = len(power)
    assert abs(power.mean() - 1) < 4 * np.sqrt(1 / m / count)
    fourth = (6 / m + 3) / m**2  # fourth central moment of Gamma(m, 1/m)
    assert abs(power.var() - 1 / m) < 4 * np.sqrt((fourth - 1 / m**2) / count)


def test_rician_by_condition_is_rayleigh_out_of_sight():
    links = full_links(300)
    blocked = Rician(ChannelCondition("nlos", "", Streams(1)), by_condition=True)
    np.testing.assert_allclose(blocked.gain(links, 0.0, rng(1)), Rayleigh().gain(links, 0.0, rng(1)))
    assert Rician(SIGHT, k_db=20.0, by_condition=True).gain(links, 0.0, rng(1)).std() < 0.1


def test_a_distance_the_standard_knows_nothing_about_is_one_line(wirelessdl_command):
    def run(models):
        close = ("--set", "network.placement.radius_m=4", "--set", f"channel.models=[{models}]")
        return wirelessdl_command("run", "quickstart", "--rounds", "2", "--quiet", *close)

    result = run("{model='umi-street-canyon'}")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "umi-street-canyon holds from 10 to 5000" in result.err
    assert run("{model='umi-street-canyon', enforce_range=false}, {model='shadowing'}, {model='nakagami'}").code == 0
    assert run("{model='sidelink-urban'}, {model='shadowing'}, {model='rician', by_condition=true}").code == 0
