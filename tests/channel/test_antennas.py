"""Receive antennas: draws of their own, correlation, combining by maximum ratio, beams."""

import numpy as np
import pytest
from conftest import tiny

from wirelessdl.channel.antennas import Antennas, beam, combined, heard_through, towards_sum
from wirelessdl.channel.fading import Nakagami, Rayleigh, Rician
from wirelessdl.channel.model import Chain
from wirelessdl.channel.shadowing import Shadowing
from wirelessdl.links import Geometry, Instants, Links
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_observer
from wirelessdl.streams import Streams

CHAINS = {
    "rayleigh": lambda: [("rayleigh", Rayleigh())],
    "nakagami": lambda: [("nakagami", Nakagami(m=3.0))],
    "shadowing, rician, clarke": lambda: [("shadowing", Shadowing()), ("rician", Rician(process="clarke"))],
    "rayleigh, one way each": lambda: [("rayleigh", Rayleigh(reciprocal=False))],
}
NODES = 8


def heard(chain, count, correlation=0.0, frames=60):
    """Gains of moving nodes at several frames of two instants each."""
    rng = np.random.default_rng(0)
    place, speed = rng.uniform(0, 100, (NODES, 3)), rng.normal(size=(NODES, 3))
    links = Links.from_mask(np.ones((NODES, NODES), bool), Geometry(place, speed))
    air = Chain(CHAINS[chain](), Streams(1), phases=True, flight_hz=3.5e9, antennas=Antennas(count, correlation))
    times = 0.05 * np.arange(2 * frames).reshape(frames, 2)
    at = [[links.at(Geometry(place + speed * t, speed)) for t in pair] for pair in times.tolist()]
    return links, [air.gains(Instants(tuple(row), tuple(pair))) for row, pair in zip(at, times.tolist())]


def complex_normal(rng, *shape):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)) * np.sqrt(0.5)


@pytest.mark.parametrize("chain", CHAINS)
def test_more_antennas_leave_the_first_as_it_was_and_large_scale_is_common(chain):
    links, one = heard(chain, 1)
    _, four = heard(chain, 4, 0.6)
    for alone, several in zip(one, four):
        np.testing.assert_array_equal(several.now, alone.now)
        np.testing.assert_array_equal(several.phase_rad, alone.phase_rad)
        np.testing.assert_array_equal(several.mean, alone.mean)
        np.testing.assert_allclose(several.antennas[:, 0], alone.h, rtol=1e-12)
        assert alone.antennas.shape == (2, 1, len(links))
        assert len(np.unique(np.abs(several.antennas[0, 1:, 0]))) == 3


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_antennas_have_equal_power_and_the_correlation_that_is_asked_for(correlation):
    """60 frames of 56 links in 28 pairs: a mean of |h|^2 over antennas has a standard error below 2%, 4 are allowed."""
    _, found = heard("rayleigh", 4, correlation)
    h = np.concatenate([one.antennas for one in found])
    moment = np.einsum("tal,tbl->ab", h, h.conj()) / (h.shape[0] * h.shape[2])
    apart = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    np.testing.assert_allclose(moment, np.where(apart == 0, 1.0, correlation**apart), atol=0.08)


def test_first_antennas_are_reciprocal_and_others_are_other_ways():
    links, found = heard("rayleigh", 3, frames=1)
    back = np.searchsorted(links.number, links.reverse_number)
    h = found[0].antennas[0]
    np.testing.assert_array_equal(np.abs(h[0]), np.abs(h[0][back]))
    assert (np.abs(h[1:]) != np.abs(h[1:][:, back])).all()


def test_combining_is_the_loop_over_antennas():
    rng = np.random.default_rng(1)
    h, estimate = complex_normal(rng, 4, 7), complex_normal(rng, 4, 7)
    gain, size, phase = combined(h, estimate)
    for link in range(7):
        power = sum(abs(estimate[a, link]) ** 2 for a in range(4))
        whole = sum(estimate[a, link].conjugate() * h[a, link] for a in range(4))
        # what a receiver has after it divided by its estimate: g^H h / |g|^2
        assert gain[link] * np.exp(1j * phase[link]) / size[link] == pytest.approx(whole / power, abs=1e-12)
    exact, same, turned = combined(h, h)
    np.testing.assert_allclose(exact, same, rtol=1e-12)
    np.testing.assert_allclose(turned, 0.0, atol=1e-12)


def test_reception_towards_the_sum_is_the_closed_form_by_loops():
    """For fewer and for more senders than antennas; the forms are equal, and without noise M >= d gives 1 / d."""
    rng = np.random.default_rng(2)
    for antennas, senders in ((1, 3), (4, 2), (4, 9), (6, 6)):
        h, noise = complex_normal(rng, antennas, senders), 0.3
        matrix, total = noise * np.eye(antennas, dtype=complex), np.zeros(antennas, dtype=complex)
        for j in range(senders):
            matrix += np.outer(h[:, j], h[:, j].conj())
            total += h[:, j] / senders
        np.testing.assert_allclose(towards_sum(h, noise), np.linalg.inv(matrix) @ total, rtol=1e-9)
        if antennas >= senders:
            np.testing.assert_allclose(towards_sum(h, 0.0).conj() @ h, 1.0 / senders, atol=1e-9)


def test_a_beam_is_no_worse_than_any_antenna_and_brings_in_all_as_well_as_all_together_can():
    rng, gained = np.random.default_rng(3), []
    for _ in range(60):
        antennas, senders = rng.integers(1, 9), rng.integers(1, 12)
        h = 10.0 * complex_normal(rng, antennas, senders)
        v = beam(h)
        least = np.abs(v.conj() @ h).min()
        assert np.linalg.norm(v) == pytest.approx(1.0)
        assert least >= np.abs(h).min(axis=1).max() * (1 - 1e-12)
        assert least <= np.linalg.norm(h, axis=0).min() * (1 + 1e-12)
        gained.append((antennas, least / np.abs(h).min(axis=1).max()))
    assert np.median([ratio for antennas, ratio in gained if antennas >= 4]) > 1.5


def test_senders_that_no_beam_brings_in_are_left_out_and_the_others_reach_the_threshold():
    rng = np.random.default_rng(4)
    for _ in range(20):
        h = complex_normal(rng, 3, 10) * 10.0 ** rng.uniform(-0.5, 1.5, 10)
        back = 10.0 ** rng.uniform(0, 3, 10)
        snr = heard_through(h, back, 10.0)
        chosen = snr >= 10.0
        assert not (chosen & (back < 10.0)).any()
        if chosen.any():
            through = np.abs(beam(h[:, chosen]).conj() @ h[:, chosen]) ** 2
            np.testing.assert_allclose(snr[chosen], np.minimum(through, back[chosen]), rtol=1e-9)
        one = heard_through(h[:1], back, 10.0)  # with one antenna everyone is heard by itself
        np.testing.assert_array_equal(one >= 10.0, np.minimum(np.abs(h[0]) ** 2, back) >= 10.0)


@pytest.mark.parametrize("access", ["tdma", "digital"])
@pytest.mark.parametrize("csi", ["perfect", {"kind": "pilots", "symbols": 2}])
def test_frames_hold_links_combined_by_maximum_ratio(access, csi):
    """Nothing but gains changes: mean gain by sqrt(M), gains by the root of their sum of squares."""
    found = {}
    for count in (1, 4):
        scenario = tiny(
            network={"placement": {"kind": "disc", "radius_m": 60}},
            channel={"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
            radio={"access": access, "antennas": count, "csi": csi, "thermal_noise": True},
            power={"objective": "own-noise"},
        )
        found[count] = make_observer(build(scenario, device="cpu")).observe(1, 0.0)
    one, four = found[1].slots[0], found[4].slots[0]
    np.testing.assert_allclose(found[4].mean, 2.0 * found[1].mean, rtol=1e-12)
    assert (four.gain_est > one.gain_est).all()
    assert four.antennas is None
    if csi == "perfect":
        np.testing.assert_array_equal(four.gain, four.gain_est)
        assert four.phase_rad is None
        assert (four.gain > one.gain).all()
    else:
        assert (np.abs(four.phase_rad) > 0).all()
