"""Blind reception: weights by loops, unit sums, noise by the formula, and noise of pairs that does not cancel."""

import numpy as np
import pytest
import torch
from conftest import over, tiny

from wirelessdl.access.blind import BlindCarrier, _columns, receive
from wirelessdl.errors import ScenarioError
from wirelessdl.links import Geometry, Links
from wirelessdl.preview.plan import preview_plan
from wirelessdl.radio.frame import Participation
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_carrier, make_engine


def blind(antennas=4, **sections):
    base = {
        "network": {"nodes": 6, "placement": {"kind": "disc", "radius_m": 60}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"alignment": "none", "antennas": antennas, "power_dbm": 10, "thermal_noise": True},
        "power": {"objective": "own-noise"},
        "learning": {"sampling": "full", "dtype": "float64"},
    }
    return tiny(**over(base, sections))


def first_frame(scenario):
    world = build(scenario, device="cpu")
    engine = make_engine(world)
    engine.open_frame(1, 0, Participation.everyone(world.nodes))
    return world, engine, engine._decision


def made(rng, antennas, mask):
    links = Links.from_mask(mask, Geometry.at_rest(np.zeros((len(mask), 3))))
    h = rng.normal(size=(2, antennas, len(links)))
    return links, h[0] + 1j * h[1]


def by_loops(links, h_est, h, noise, listening):
    """MATH as it reads, receiver by receiver: weights [rx, tx] known and actual, own, and scale of receiver noise."""
    nodes, antennas = links.nodes, len(h)
    known, actual = np.zeros((2, nodes, nodes), dtype=complex)
    own, scale = np.ones(nodes), np.zeros(nodes)
    for i in range(nodes):
        heard = [k for k in range(len(links)) if links.rx[k] == i]
        if not heard:
            continue
        matrix, total = noise[i] * np.eye(antennas, dtype=complex), np.zeros(antennas, dtype=complex)
        for k in heard:
            matrix += np.outer(h_est[:, k], h_est[:, k].conj())
            total += h_est[:, k] / len(heard)
        v = np.linalg.solve(matrix, total)
        whole = sum(np.vdot(v, h_est[:, k]) for k in heard)
        u = {k: np.vdot(v, h_est[:, k]) / whole for k in heard}
        noisy = np.vdot(v, v).real / abs(whole) ** 2
        a = min(0.5, 1.0 / (1.0 + sum(abs(value) ** 2 for value in u.values()) + noisy * noise[i]))
        a = 1.0 if listening[i] else a
        own[i], scale[i] = 1.0 - a, a * np.sqrt(noisy)
        for k in heard:
            known[i, links.tx[k]] = a * u[k]
            actual[i, links.tx[k]] = a * np.vdot(v, h[:, k]) / whole
    return known, actual, own, scale


@pytest.mark.parametrize("antennas", [1, 3, 8])
def test_weights_are_those_of_the_loops(antennas):
    rng = np.random.default_rng(antennas)
    mask = rng.uniform(size=(7, 7)) < 0.7
    mask[5] = False  # hears nobody
    links, h_est = made(rng, antennas, mask)
    h = h_est + 0.1 * made(rng, antennas, mask)[1]
    noise, listening = rng.uniform(0.05, 2.0, 7), np.arange(7) == 2
    found = receive(links, links, h_est, h, noise, listening)
    known, actual, own, scale = by_loops(links, h_est, h, noise, listening)
    np.testing.assert_allclose(found.known, known[links.rx, links.tx], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.actual, actual[links.rx, links.tx], rtol=0, atol=1e-12)
    np.testing.assert_allclose(1.0 - found.share, own, atol=1e-12)
    np.testing.assert_allclose(found.scale, scale, atol=1e-12)


@pytest.mark.parametrize("antennas", [1, 2, 16])
def test_real_parts_of_weights_sum_to_one_and_imaginary_parts_to_zero(antennas):
    _, _, decision = first_frame(blind(antennas, radio={"csi": {"kind": "pilots", "symbols": 4}, "duplex": "half"}))
    for slot in decision.weights.slots:
        np.testing.assert_allclose(slot.known.dense.sum(axis=1), 1.0, atol=1e-12)
    world, _, decision = first_frame(blind(antennas))  # receivers that know h: what arrives is what they believe
    for slot in decision.weights.slots:
        np.testing.assert_allclose(slot.actual.dense.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_allclose(slot.crosstalk.dense.sum(axis=1), 0.0, atol=1e-12)
        assert (np.abs(slot.crosstalk.link) > 1e-6).any() or antennas >= world.nodes


def test_as_many_antennas_as_senders_weigh_them_alike_without_noise():
    _, _, decision = first_frame(blind(5, radio={"thermal_noise": False}))
    slot = decision.weights.slots[0]
    np.testing.assert_allclose(slot.actual.link, 0.5 / 5, atol=1e-9)
    np.testing.assert_allclose(slot.crosstalk.link, 0.0, atol=1e-9)
    _, _, decision = first_frame(blind(4, radio={"thermal_noise": False}))
    assert np.ptp(decision.weights.slots[0].actual.link) > 1e-3


def test_receiver_noise_is_that_of_the_formula_in_the_engine():
    """Models of zeros: what is held is own and receiver noise; 2 x 2,000 coordinates and more, 5% is 4.5 errors."""
    world, engine, decision = first_frame(blind(3, radio={"power_dbm": -30}))
    assert decision.weights.actual.scale.min() > 0
    learning, given = world.learning, engine._input(decision, decision.computes)
    learning._mixed.zero_()
    quiet = given.noise_scale * 0.0
    sent, out = torch.zeros_like(learning._mixed), torch.zeros_like(learning._mixed)
    from dataclasses import replace

    learning.exchange.payload(
        replace(given, noise_scale=quiet, pairs=None), learning._draws, lambda part: sent[part].double(), sent, out
    )
    slot = decision.weights.slots[0]
    expected = world.thermal_w * slot.actual.scale**2
    found = out.square().mean(dim=1).numpy()
    np.testing.assert_allclose(found, expected, rtol=4 * np.sqrt(2 / out.shape[1]))


def test_what_differs_is_public_and_falls_from_pass_to_pass():
    """D is made of plan and schedule: the same whatever nodes hold; passes find less of it."""
    world, engine, decision = first_frame(blind(radio={"mixing_passes": 2}))
    plan, gamma = decision.plan, decision.learning_rate
    noise = plan.beta / plan.alpha * decision.sigma**2
    step = gamma * plan.theta * world.scenario.privacy.clip_norm / np.sqrt(world.learning.learner.size)
    releases, everyone = engine.stages.releases, np.ones(world.nodes, dtype=bool)
    apart = releases.apart_square(plan, decision.sigma, gamma, everyone)
    assert apart == pytest.approx(float(noise.mean()) + step**2, rel=1e-12)
    carrier = engine.stages.carrier
    assert isinstance(carrier, BlindCarrier)
    assert 0 < carrier._apart < 0.8 * apart
    assert len(decision.carried.steps) == 3
    assert all((step.heard == 1).all() for step in decision.carried.steps)


def test_columns_are_those_of_the_product_of_all_steps():
    _, _, decision = first_frame(blind(2, radio={"mixing_passes": 2}))
    product = np.eye(6, dtype=complex)
    for step in decision.carried.steps:
        slot = step.weights.slots[0]
        product = (slot.actual.dense + 1j * slot.crosstalk.dense) @ product
    columns = _columns(decision.carried.steps, np.ones(6, dtype=bool))
    np.testing.assert_allclose(columns[0], product.sum(axis=0), atol=1e-12)
    missed = decision.carried.rounds["column_error"]
    assert missed == pytest.approx(np.sqrt(np.mean(np.abs(columns - 1.0) ** 2)))
    assert missed > 0.01  # not doubly stochastic


def test_the_forecast_of_noise_that_pairs_leave_in_the_mean_is_that_of_frames():
    """12 realisations each, which differ by half of their mean; one in three is allowed."""
    scenario = blind(
        3,
        privacy={"noise": "pairwise", "coalition": 2, "pair_ratio": 2.0},
        channel={"models": [{"model": "uniform", "low": 1e-4, "high": 1.0001e-4}, {"model": "rayleigh"}]},
        radio={"thermal_noise": False},
    )
    world, engine, decision = first_frame(scenario)
    channel = decision.channel
    forecast = make_carrier(world).errors(channel.links.matrix(channel.mean_gain))
    found = [decision.carried.rounds["column_error"] ** 2]
    for round in range(2, 40):
        engine.open_frame(round, round * 10**8, Participation.everyone(world.nodes))
        found.append(engine._decision.carried.rounds["column_error"] ** 2)
    assert forecast.alignment == pytest.approx(np.mean(found), rel=0.35)
    preview = preview_plan(world)
    assert preview.carry.facts["mean_noise_share"] == forecast.alignment
    assert "stays in the mean" in preview.carry.words


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"radio": {"phase_error_rad": 0.1}}, "nobody aligns"),
        ({"radio": {"truncate_snr_db": 5}}, "none of them can be left out"),
        ({"radio": {"subbands": 2}}, "subbands"),
        ({"power": {"objective": "sum"}}, "solves for single senders"),
        ({"radio": {"alignment": "all"}}, "aligns to single antennas"),
        ({"radio": {"alignment": "turns"}}, "aligns to single antennas"),
    ],
)
def test_what_does_not_go_together_is_refused(section, words):
    with pytest.raises(ScenarioError, match=words):
        blind(**section)
