"""Powers between full and balanced: within every budget, balanced with receivers, faster than by receivers alone."""

import numpy as np
import pytest
from test_allocate import urban_gain

from wirelessdl.links import Links
from wirelessdl.mixing import balanced_mixing, balancing_amplitudes, mixing_matrix, part_of_the_way, spectral_gap

LIMITS = {"equal": 0.2, "unequal": np.geomspace(0.01, 1.0, 20)}


def amplitudes(gain, limit_w, exponent):
    links = Links.from_gain(gain)
    weight, reason = balancing_amplitudes(links, links.vector(gain))
    assert not reason
    most = np.sqrt(np.broadcast_to(limit_w, links.nodes))
    return most * part_of_the_way(weight, most, exponent)


@pytest.mark.parametrize("limit_w", LIMITS.values(), ids=LIMITS)
def test_the_whole_exponent_makes_the_papers_weights_doubly_stochastic(limit_w):
    gain = urban_gain(1)
    A = mixing_matrix(gain, amplitudes(gain, limit_w, 1.0) ** 2, 1.0)
    np.testing.assert_allclose(A.sum(axis=0), 1.0, atol=1e-10)
    np.testing.assert_allclose(A.sum(axis=1), 1.0, atol=1e-10)


@pytest.mark.parametrize("limit_w", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("exponent", [0.0, 1 / 3, 0.7, 1.0])
def test_nobody_exceeds_its_limit_and_somebody_reaches_it(limit_w, exponent):
    share = amplitudes(urban_gain(2), limit_w, exponent) ** 2 / limit_w
    assert share.max() == pytest.approx(1.0, rel=1e-12)
    assert share.min() > 0


@pytest.mark.parametrize("exponent", [0.0, 1 / 3, 1.0])
def test_receivers_balance_what_is_left(exponent):
    gain = urban_gain(4)
    A = balanced_mixing(gain, amplitudes(gain, 0.2, exponent) ** 2, 1.0)
    np.testing.assert_allclose(A.sum(axis=0), 1.0, atol=1e-9)
    np.testing.assert_allclose(A.sum(axis=1), 1.0, atol=1e-9)


def test_a_third_widens_the_gap_and_keeps_more_of_the_power_than_the_whole():
    """Twenty urban instances: the median says it of the kind, the smallest gap of the weak node that is left behind."""
    gaps, heard = [], []
    for seed in range(20):
        gain = urban_gain(seed)
        found = [amplitudes(gain, 0.2, exponent) for exponent in (0.0, 1 / 3, 1.0)]
        gaps.append([spectral_gap(balanced_mixing(gain, one**2, 1.0)) for one in found])
        heard.append([np.min(gain**2 @ one**2) for one in found])
    none, third, whole = np.median(gaps, axis=0)
    assert none < third < whole
    assert np.min(gaps, axis=0)[1] > 2 * np.min(gaps, axis=0)[0]
    none_w, third_w, whole_w = np.median(heard, axis=0)
    assert none_w > third_w > whole_w
