"""Tapped delay lines: correlation over frequency and time, delay spread, and which draws depend on what."""

import numpy as np
import pytest
from scipy.special import j0

from wirelessdl.channel import Tdl
from wirelessdl.channel.tdl import delay_profile
from wirelessdl.links import Geometry, Links

SPREAD_S = 1e-7
PROFILES = ("tdl-a", "tdl-c", "two-ray", "exponential")
LAGS_HZ = np.array([0.0, 0.03, 0.1, 0.2, 0.35, 0.6, 1.0]) / SPREAD_S


def ring(nodes, speed_mps=0.0):
    """Everyone hears the next node: as many pairs as nodes."""
    turn = 2 * np.pi * np.arange(nodes) / nodes
    place = 100 * np.column_stack([np.cos(turn), np.sin(turn), np.zeros(nodes)])
    geometry = Geometry(place, speed_mps * np.column_stack([-np.sin(turn), np.cos(turn), np.zeros(nodes)]))
    return Links.from_pairs(np.arange(nodes), (np.arange(nodes) + 1) % nodes, geometry)


def closed_form(profile, lag_hz):
    """R written out per profile, not by the taps that the package holds where there is another way."""
    if profile == "two-ray":  # equal powers: delays 2 S apart
        return np.exp(-2j * np.pi * lag_hz * SPREAD_S) * np.cos(2 * np.pi * lag_hz * SPREAD_S)
    if profile == "exponential":  # a geometric series of 20 taps; its variance fixes their distance
        q, L = np.exp(-0.4), 20
        variance = q / (1 - q) ** 2 - L**2 * q**L / (1 - q**L) ** 2
        root = np.exp(-1j * np.pi * lag_hz * SPREAD_S / np.sqrt(variance))
        qz = q * root**2
        return root * (1 - q) * (1 - qz**L) / ((1 - q**L) * (1 - qz))
    found = delay_profile(profile, SPREAD_S)
    return sum(p * np.exp(-2j * np.pi * lag_hz * d) for p, d in zip(found.power, found.delay_s))


@pytest.mark.parametrize("process", ["block", "clarke"])
@pytest.mark.parametrize("profile", PROFILES)
def test_correlation_over_frequency_is_that_of_the_profile(profile, process):
    """Real and imaginary part of the mean of h(F) h*(0) over 4,000 pairs, each within three standard errors."""
    speed = {"speed_mps": 1.0} if process == "clarke" else {}
    links = ring(4000)
    h = Tdl(profile, SPREAD_S, process=process, **speed).response(links, 0.0, LAGS_HZ, np.random.default_rng(5))
    product = h * np.conj(h[0])
    expected = closed_form(profile, LAGS_HZ)
    for part in (np.real, np.imag):
        error = part(product).std(axis=1) / np.sqrt(len(links))
        assert (np.abs(part(product).mean(axis=1) - part(expected)) <= 3 * error + 1e-12).all()
    power = np.abs(h) ** 2
    np.testing.assert_allclose(power.mean(axis=1), 1.0, atol=3 / np.sqrt(len(links)))  # |h|^2 of CN(0, 1) deviates by 1


@pytest.mark.parametrize("profile", PROFILES)
def test_the_delay_spread_is_as_asked(profile):
    """To 1%; the standard's tables are normalised to four digits, the others exactly."""
    found = delay_profile(profile, SPREAD_S)
    assert found.power.sum() == pytest.approx(1.0)
    mean_s = sum(p * d for p, d in zip(found.power, found.delay_s))
    spread_s = np.sqrt(sum(p * (d - mean_s) ** 2 for p, d in zip(found.power, found.delay_s)))
    assert spread_s == pytest.approx(SPREAD_S, rel=1e-4 if profile.startswith("tdl") else 1e-12)
    assert Tdl(profile, SPREAD_S).delay_spread_s == pytest.approx(spread_s)


def test_an_exponential_profile_is_close_to_its_continuous_limit():
    """Within 0.05 of 1 / (1 + 2 pi j F S) up to |R| = 0.5, and |R| = 0.5 at sqrt(3) / (2 pi S) within 3%."""
    lag_hz = np.linspace(0, 1.0, 401) / SPREAD_S
    R = delay_profile("exponential", SPREAD_S).correlation(lag_hz)
    limit = 1 / (1 + 2j * np.pi * lag_hz * SPREAD_S)
    assert np.abs(R - limit)[np.abs(limit) >= 0.5].max() < 0.05
    assert lag_hz[np.argmax(np.abs(R) <= 0.5)] == pytest.approx(np.sqrt(3) / (2 * np.pi * SPREAD_S), rel=0.03)


def test_taps_follow_doppler_and_stay_independent():
    """In time every subband has Clarke's correlation, with the Doppler of both ends."""
    links, lag_s = ring(6000, speed_mps=10.0), 2e-3
    model = Tdl("tdl-a", SPREAD_S, process="clarke")
    rng, offset_hz = np.random.default_rng(2), np.array([-5e6, 5e6])
    first, later = (model.response(links, t, offset_hz, rng) for t in (0.0, lag_s))
    doppler_hz = 10.0 * 3.5e9 / 299792458.0
    expected = j0(2 * np.pi * doppler_hz * lag_s) ** 2
    product = later * np.conj(first)
    error = product.real.std(axis=1) / np.sqrt(len(links))
    assert (np.abs(product.real.mean(axis=1) - expected) <= 3 * error).all()


@pytest.mark.parametrize("process", ["block", "clarke"])
def test_a_draw_depends_on_its_pair_alone(process):
    speed = {"speed_mps": 1.0} if process == "clarke" else {}
    every, offset_hz = ring(9), np.array([-1e6, 0.0, 3e6])
    fewer = every.where(np.arange(len(every)) != 4)

    def drawn(links):
        return Tdl("tdl-a", process=process, **speed).response(links, 0.0, offset_hz, np.random.default_rng(7))

    # taps are added by a product of matrices, whose order of sums depends on their size: rounding of some 23 terms
    np.testing.assert_allclose(np.delete(drawn(every), 4, axis=1), drawn(fewer), rtol=0, atol=1e-14)
    both = Links.from_pairs(np.array([0]), np.array([1]), Geometry.at_rest(np.zeros((2, 3))), both_ways=True)
    there, back = drawn(both).T
    np.testing.assert_array_equal(there, back)
    one_way = Tdl("tdl-a", process=process, reciprocal=False, **speed)
    there, back = one_way.response(both, 0.0, offset_hz, np.random.default_rng(7)).T
    assert (there != back).all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"profile": "tdl-a", "taps": 4}, 'taps is 4; goes with profile = "exponential"'),
        ({"profile": "exponential", "second_db": -3.0}, 'second_db is -3; goes with profile = "two-ray"'),
        ({"process": "clarke", "coherence_s": 1.0}, "coherence_s goes with process"),
        ({"paths": 8}, 'paths is 8; goes with process = "clarke"'),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        Tdl(**given)
