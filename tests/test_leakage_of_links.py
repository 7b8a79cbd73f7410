"""What one slot leaks, against plain loops over links."""

import math

import numpy as np
import pytest

from wirelessdl.leakage import link_mu, own_mu
from wirelessdl.links import Geometry, Links

MODEL_W = np.array([0.4, 0.9, 2.5, 0.0])
NOISE_W = np.array([3.0, 0.7, 0.2, 1.1])
STEP = np.array([0.3, 0.5, 1.0, 2.0])


def four_nodes() -> Links:
    """0 hears 1 and 2; 1 hears 3; 2 hears 0 and 3; 3 hears nobody."""
    return Links.from_pairs(np.array([0, 0, 1, 2, 2]), np.array([1, 2, 3, 0, 3]), Geometry.at_rest(np.zeros((4, 3))))


@pytest.mark.parametrize("thermal_w", [0.0, 0.6])
def test_a_link_leaks_its_shift_over_all_noise_that_its_receiver_hears(thermal_w):
    links, gain = four_nodes(), np.array([0.5, 1.7, 0.8, 1.2, 0.3])
    heard = list(zip(links.rx.tolist(), links.tx.tolist(), gain.tolist()))
    expected = []
    for rx, tx, h in heard:
        masking = thermal_w + sum(g**2 * NOISE_W[other] for receiver, other, g in heard if receiver == rx)
        expected.append(STEP[tx] * h * math.sqrt(MODEL_W[tx]) / math.sqrt(masking))
    terms = {"model_w": MODEL_W, "noise_w": NOISE_W, "step_sensitivity": STEP}
    found = link_mu(links, gain, **terms, **({"thermal_w": thermal_w} if thermal_w else {}))
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert found[2] == 0.0  # node 3 gives its model no power


def test_a_late_sender_is_masked_by_all_of_its_own_noise_and_by_a_share_of_others():
    links, gain, share = four_nodes(), np.array([0.5, 1.7, 0.8, 1.2, 0.3]), np.array([0.25, 0.6, 0.1, 0.0, 1.0])
    heard = list(zip(links.rx.tolist(), links.tx.tolist(), gain.tolist(), share.tolist()))
    expected = []
    for rx, tx, h, _ in heard:
        masking = 0.6 + h**2 * NOISE_W[tx]
        masking += sum(m * g**2 * NOISE_W[k] for receiver, k, g, m in heard if receiver == rx and k != tx)
        expected.append(STEP[tx] * h * math.sqrt(MODEL_W[tx]) / math.sqrt(masking))
    terms = {"model_w": MODEL_W, "noise_w": NOISE_W, "step_sensitivity": STEP, "thermal_w": 0.6}
    np.testing.assert_allclose(link_mu(links, gain, **terms, masks_others=share), expected, rtol=1e-14)


def test_a_sender_leaks_its_shift_over_its_own_noise():
    expected = [s * math.sqrt(m) / math.sqrt(n) for s, m, n in zip(STEP, MODEL_W, NOISE_W)]
    np.testing.assert_allclose(own_mu(MODEL_W, NOISE_W, STEP), expected, rtol=1e-14)


def test_without_noise_a_gradient_leaks_without_bound_and_no_gradient_leaks_nothing():
    nothing, one = np.zeros(4), np.ones(4)
    links, gain = four_nodes(), np.ones(5)
    step = np.array([1.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(own_mu(one, nothing, step), [np.inf, np.inf, 0.0, 0.0])
    found = link_mu(links, gain, model_w=one, noise_w=nothing, step_sensitivity=step)
    np.testing.assert_array_equal(found, [np.inf, 0.0, 0.0, np.inf, 0.0])
