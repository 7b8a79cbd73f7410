"""Loss, fading and what is demanded of a user's model."""

import numpy as np
import pytest

from wirelessdl.channel.condition import ChannelCondition
from wirelessdl.channel.csi import Pilots
from wirelessdl.channel.fading import Rayleigh, Rician, Uniform
from wirelessdl.channel.model import Chain
from wirelessdl.channel.pathloss import Friis, LogDistance
from wirelessdl.errors import ContractError
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


def test_friis_at_100_m_and_3_5_ghz():
    loss = -20 * np.log10(Friis(3.5e9).gain(full_links(2), 0.0, rng()))
    assert loss[0] == pytest.approx(20 * np.log10(4 * np.pi * 100 * 3.5e9 / 299792458), abs=1e-9)


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


def test_rician_k_is_recovered_from_its_moments():
    links = full_links(800)
    power = Rician(SIGHT, k_db=6.0).gain(links, 0.0, rng(2))[links.rx < links.tx] ** 2
    root = np.sqrt(1 - power.var() / power.mean() ** 2)
    assert root / (1 - root) == pytest.approx(10**0.6, rel=0.03)  # 320,000 samples: about 1% of error


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


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (np.ones((3, 3)), r"returned shape \(3, 3\), expected \(6,\), one \|h\| per link"),
        (np.full(6, np.nan), r"returned nan for link 1 -> 0, expected a finite amplitude >= 0 \(6 of 6 links\)"),
        (-np.ones(6), "returned -1 for link 1 -> 0"),
        ("loud", "returned str"),
        (None, r"returned shape \(\)|returned NoneType"),
    ],
)
def test_a_model_that_breaks_the_contract_is_named(returned, words):
    class Bad:
        def gain(self, links, time_s, rng):
            return returned

    with pytest.raises(ContractError, match=r"bad\.py:Bad\.gain " + words):
        Chain([("bad.py:Bad", Bad())], Streams(1)).gain(full_links(), 0.0)


def test_pilots_are_unbiased_with_the_error_theory_gives():
    links = full_links(300)
    gain = np.full(len(links), 0.5)
    estimate = Pilots(symbols=4).estimate(links, gain, np.full(300, 2.0), 0.08, rng())
    variance = 0.08 / (2 * 2.0 * 4)  # the real part of CN(0, N0 / (P L))
    count = len(links)
    assert abs(estimate.mean() - 0.5) < 4 * np.sqrt(variance / count)
    assert abs(estimate.var() - variance) < 4 * variance * np.sqrt(2 / count)
