"""The access in channel_models/energy_detection.py does what its equations say, and a run takes it."""

import numpy as np
import pytest
from conftest import tiny
from test_clarke import worked_example

from wirelessdl import simulate
from wirelessdl.links import Geometry, Links

NODES, NOISE_W, FULL_SCALE = 5, 10 ** (-100 / 10 - 3), 2.0


def links():
    position = np.random.default_rng(2).uniform(0, 50, (NODES, 3))
    return Links.from_mask(np.ones((NODES, NODES), bool), Geometry.at_rest(position))


def mixed(gain, reference_dbm=-50.0, on_air=None, amplitude=None):
    model = worked_example("energy_detection").EnergyDetection(reference_dbm, FULL_SCALE, noise_dbm=-100.0)
    on_air = np.ones(NODES, bool) if on_air is None else on_air
    return model.mix(links(), gain, np.full(NODES, 0.3) if amplitude is None else amplitude, on_air)


def reciprocal(level):
    size = np.random.default_rng(3).uniform(0.5, 2.0, (NODES, NODES)) * level
    return links().vector(np.minimum(size, size.T))


def test_weights_follow_energies_and_keep_the_mean_where_no_receiver_is_turned_down():
    gain = reciprocal(1e-4)
    weight, own, _ = mixed(gain)
    np.testing.assert_allclose(weight, gain**2 * 0.09 / 1e-8)
    whole = links().matrix(weight) + np.diag(own)
    np.testing.assert_allclose(whole.sum(axis=0), 1.0)
    np.testing.assert_allclose(whole.sum(axis=1), 1.0)


def test_a_receiver_that_hears_much_is_turned_down_and_silent_nodes_add_nothing():
    weight, own, _ = mixed(reciprocal(1e-2))
    np.testing.assert_allclose(own, 0.5)
    np.testing.assert_allclose(links().matrix(weight).sum(axis=1), 0.5)
    weight, own, _ = mixed(reciprocal(1e-4), on_air=np.arange(NODES) > 0)
    assert (links().matrix(weight)[:, 0] == 0).all()
    np.testing.assert_allclose(links().matrix(weight).sum(axis=1) + own, 1.0)


def test_mean_and_noise_are_those_of_energies_under_random_phases():
    """Both resources drawn 200,000 times; the variance lacks the senders' own fourth powers, 1 / senders of it."""
    rng, gain, draws = np.random.default_rng(4), reciprocal(1e-4), 200_000
    w = rng.normal(0.0, 0.02, NODES)
    weight, own, noise = mixed(gain)
    q = links().matrix(gain)[0] ** 2 * 0.09  # what node 0 hears
    energies = []
    for sign in (1.0, -1.0):
        phase = np.exp(2j * np.pi * rng.uniform(size=(draws, NODES)))
        thermal = np.sqrt(NOISE_W / 2) * (rng.normal(size=draws) + 1j * rng.normal(size=draws))
        energies.append(np.abs(phase @ np.sqrt(q * (1 + sign * w / FULL_SCALE) / 2) + thermal) ** 2)
    more, less = energies
    step = FULL_SCALE * (more - less) - w[0] * (more + less - 2 * NOISE_W)
    found = w[0] + step / 1e-8
    expected = own[0] * w[0] + links().matrix(weight)[0] @ w
    assert found.mean() == pytest.approx(expected, abs=4 * found.std() / draws**0.5)
    bound = noise[0] ** 2 * NOISE_W
    lacking = 2 * FULL_SCALE**2 * np.sum(q**2) / 4 / 1e-16
    assert found.var() == pytest.approx(bound - lacking, rel=0.02)  # 200,000 draws: 1% at two deviations


def test_a_run_takes_it_and_its_totals_are_proven(tmp_path):
    access = {"kind": "channel_models/energy_detection.py:EnergyDetection", "reference_dbm": -40, "full_scale": 0.01}
    given = tiny(
        scenario={"rounds": 4},
        network={"nodes": 5, "placement": {"kind": "disc", "radius_m": 30}},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        radio={"access": access, "thermal_noise": True},
        power={"objective": "own-noise"},
    )
    run = simulate(given, out=tmp_path)
    assert run.summary["epsilon_status"] == "proven"
    assert np.isfinite(run.rounds["loss_mean"]).all()
    first = run.links[run.links["round"] == 1]
    nodes = run.nodes[run.nodes["round"] == 1]
    np.testing.assert_allclose(nodes["row_sum"], 1.0)
    one, two = first.iloc[0], first[first["rx"] == first["rx"].iloc[0]].iloc[1]
    alpha = nodes["alpha"].to_numpy()
    shares = [link["gain"] ** 2 * alpha[int(link["tx"])] for link in (one, two)]
    assert one["weight"] / two["weight"] == pytest.approx(shares[0] / shares[1])
