"""What a frame leaks by the gradients that are pending, against plain numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest

from wirelessdl.links import Geometry, Links
from wirelessdl.power import plan_power
from wirelessdl.radio.frame_channel import FrameChannel, SlotChannel
from wirelessdl.round.releases import PendingGradients, Releases, ReleaseSettings

K, RHO, GAMMA, THETA, RADIUS, THERMAL_W = 3, 1.7, 0.3, 2.6, 1.4, 0.25
SENSITIVITY = np.array([0.5, 0.8, 1.3])
PENDING = np.array([0.2, 0.45, 0.0])
MULTIPLIER = np.array([1.5, 2.5, 0.0])
ALPHA = np.array([0.3, 0.6, 0.8])
POWER_W = np.array([0.7, 2.0, 1.2])
# 0 hears 1 and 2, 1 hears 0, 2 hears 1; in two slots
LINKS = Links.from_pairs(np.array([0, 0, 1, 2]), np.array([1, 2, 0, 1]), Geometry.at_rest(np.zeros((K, 3))))
GAINS = [np.array([0.5, 0.9, 1.4, 0.2]), np.array([1.1, 0.3, 0.6, 0.7])]


def releases(
    protocol="hardened", credited_thermal_w=0.0, orthogonal=False, full_power_radius=None, stage=False, **more
):
    pending = PendingGradients(K, stage=stage)
    pending.restore(
        {"gamma": PENDING, "multiplier": MULTIPLIER, "stage_own": np.zeros(K), "stage_coalition": np.zeros(K)}
    )
    return Releases(
        ReleaseSettings(protocol, RHO, SENSITIVITY, credited_thermal_w, orthogonal, full_power_radius, **more), pending
    )


def plan():
    made = plan_power(np.ones((K, K)), rho=RHO, sensitivity=1.0, delta=1e-4, epsilon_max=1.0)
    return replace(made, alpha=ALPHA, power_w=POWER_W, theta=THETA)


def frame(slots=2, late=None):
    every = tuple(SlotChannel(gain, gain, late=late) for gain in GAINS[:slots])
    return FrameChannel(LINKS, LINKS, None, GAINS[0], every)


def released(terms, sigma, on_air=(True, True, True), slots=2, late=None):
    return terms.release(7, np.array(on_air), frame(slots, late), plan(), POWER_W, sigma, GAMMA)


def expected_links(shift, sigma, thermal_w=0.0, slots=2, alone=False):
    """Shift over noise of each link, the worst of the slots."""
    worst = []
    for link, (rx, tx) in enumerate(zip(LINKS.rx.tolist(), LINKS.tx.tolist())):
        found = []
        for gain in GAINS[:slots]:
            masking = thermal_w
            for other, (receiver, sender) in enumerate(zip(LINKS.rx.tolist(), LINKS.tx.tolist())):
                if receiver == rx and (sender == tx or not alone):
                    masking += gain[other] ** 2 * (1 - ALPHA[sender]) * POWER_W[sender] * sigma[sender] ** 2
            found.append(shift[tx] * gain[link] * math.sqrt(ALPHA[tx] * POWER_W[tx] / masking))
        worst.append(max(found))
    return worst


def assert_pending(pending, gamma, multiplier):
    np.testing.assert_array_equal((pending.gamma, pending.multiplier), (gamma, multiplier))


def test_a_gradient_is_pending_from_its_step_until_it_is_sent_or_withdrawn():
    nobody, pending = np.zeros(4, dtype=bool), PendingGradients(4)
    assert_pending(pending, np.zeros(4), np.zeros(4))
    assert pending.stage == {}
    first = pending.update(
        stepped=np.array([True, True, True, False]), absent=nobody, learning_rate=0.5, multiplier=np.arange(2.0, 6.0)
    )
    assert_pending(pending, [0.5, 0.5, 0.5, 0.0], [2.0, 3.0, 4.0, 0.0])
    assert first.withdraw.tolist() == first.keep.tolist() == [False] * 4
    assert first.step.tolist() == [1.0, 1.5, 2.0, 0.0]
    pending.withdraw(np.array([False, True, False, False]))
    pending.withdraw(np.array([False, False, False, True]))
    assert_pending(pending, [0.5, 0.0, 0.5, 0.0], [2.0, 0.0, 4.0, 0.0])
    absent = np.array([False, False, True, False])
    mixed = pending.update(stepped=nobody, absent=absent, learning_rate=0.25, multiplier=np.arange(6.0, 10.0))
    assert_pending(pending, [0.0, 0.0, 0.5, 0.0], [0.0, 0.0, 4.0, 0.0])  # who mixed holds what was sent
    assert mixed.withdraw.tolist() == [False, True, False, True]
    assert mixed.keep.tolist() == absent.tolist()
    assert mixed.step.tolist() == [0.0] * 4
    last = pending.update(stepped=nobody, absent=nobody, learning_rate=0.25, multiplier=np.ones(4))
    assert not last.withdraw.any()  # once


def test_noise_that_attackers_may_not_have_sent_hides_nobody_on_links():
    """Node 2 attacks: 1 is masked at 0 by its own noise alone; nobody else is masked by 0. The own view stays."""
    sigma, given = np.array([0.34, 0.77, 0.5]), (np.ones(K, dtype=bool), frame(), plan(), POWER_W)
    plain, found, other = (
        releases().release(7, *given, sigma, GAMMA, attackers=np.arange(K) == attacker) for attacker in (-1, 2, 0)
    )
    shift = SENSITIVITY * PENDING * MULTIPLIER
    every, alone = (expected_links(shift, sigma, alone=alone) for alone in (False, True))
    np.testing.assert_allclose(plain.link_mu, every, rtol=1e-12)
    np.testing.assert_allclose(found.link_mu, [alone[0], *every[1:]], rtol=1e-12)
    np.testing.assert_allclose(other.link_mu, every, rtol=1e-12)
    apart = (given[0], frame(late=np.full(4, 0.6)), *given[2:], sigma, GAMMA)  # so late that nobody masks another
    late, both = (releases().release(7, *apart, attackers=np.arange(K) == attacker) for attacker in (-1, 0))
    np.testing.assert_array_equal(both.link_mu, late.link_mu)
    assert found.link_mu[0] > plain.link_mu[0]
    np.testing.assert_array_equal(found.own_mu, plain.own_mu)


def test_frames_of_a_gram_stage_are_one_release_and_its_charges_are_part_of_the_state():
    pending = PendingGradients(2, stage=True)
    pending.begin(np.array([0.5, 0.25]), np.array([3.0, 2.0]))
    pending.withdraw(np.array([False, True]))
    held = pending.hold(absent=np.array([True, False]))
    assert_pending(pending, [0.5, 0.0], [3.0, 0.0])
    assert (held.withdraw.tolist(), held.keep.tolist(), held.step.tolist()) == (
        [False, True],
        [True, False],
        [1.5, 0.0],
    )
    assert not pending.hold(absent=np.zeros(2, dtype=bool)).withdraw.any()
    # a billionth more than the largest is charged
    np.testing.assert_allclose(pending.beyond("own", np.array([3.0, 0.0])), [3.0, 0.0], rtol=2e-9)
    stored = pending.state()
    assert sorted(stored) == ["gamma", "multiplier", "stage_coalition", "stage_own"]
    restored = PendingGradients(2, stage=True)
    restored.restore(stored)
    stored["stage_own"][:] = 9.0
    for each in (pending, restored):
        assert_pending(each, [0.5, 0.0], [3.0, 0.0])
    np.testing.assert_allclose(restored.beyond("own", np.array([5.0, 1.0])), [4.0, 1.0], rtol=1e-8)
    np.testing.assert_array_equal(restored.beyond("own", np.array([5.0, 1.0])), [0.0, 0.0])
    np.testing.assert_allclose(restored.beyond("coalition", np.array([5.0, 1.0])), [5.0, 1.0], rtol=1e-8)


def test_a_frame_of_a_gram_stage_is_charged_with_what_it_adds_and_without_the_least_step():
    sigma = np.array([0.9, 1.6, 0.4])
    terms = releases(least_step=10.0, stage=True)
    frames = [
        terms.release(7, np.ones(K, dtype=bool), frame(), plan(), POWER_W, sigma, GAMMA, stage=True) for _ in range(2)
    ]
    np.testing.assert_allclose(frames[0].own_mu, releases().promised_mu(plan(), sigma), rtol=2e-9)
    np.testing.assert_array_equal(frames[1].own_mu, np.zeros(K))  # one release
    assert frames[0].stage


def test_models_are_apart_by_noise_on_air_and_a_step():
    sigma, on_air, step = np.array([0.9, 1.6, 0.4]), np.array([True, False, True]), (GAMMA * THETA * 0.7) ** 2
    noise = sum(on_air * (1 - ALPHA) / ALPHA * sigma**2) / 2
    found = releases(step_rms=0.7).apart_square(plan(), sigma, GAMMA, on_air)
    assert found == pytest.approx(noise + step, rel=1e-14)
    one = releases(step_rms=0.7).apart_square(plan(), sigma, GAMMA, np.array([True, False, False]))
    assert one == pytest.approx((1 - ALPHA[0]) / ALPHA[0] * sigma[0] ** 2 + step, rel=1e-14)
    assert releases(step_rms=0.7).apart_square(plan(), sigma, GAMMA, np.zeros(K, dtype=bool)) == pytest.approx(step)


def test_noise_is_aligned_with_the_pending_gradient_or_printed():
    np.testing.assert_allclose(releases().sigma(GAMMA), [RHO * 0.2, RHO * 0.45, RHO * GAMMA], rtol=1e-15)
    np.testing.assert_allclose(releases("paper").sigma(GAMMA), np.full(K, RHO * GAMMA), rtol=1e-15)


def test_what_a_transmission_would_leak_is_the_pending_step_over_its_own_noise():
    sigma = np.array([0.9, 1.6, 0.4])
    shift = SENSITIVITY * PENDING * MULTIPLIER
    expected = shift * np.sqrt(ALPHA * POWER_W) / np.sqrt((1 - ALPHA) * POWER_W * sigma**2)
    np.testing.assert_allclose(releases().promised_mu(plan(), sigma), expected, rtol=1e-14)
    assert releases().promised_mu(plan(), sigma)[2] == 0.0  # nothing is pending there


def test_of_shared_noise_each_view_counts_its_share_and_links_are_left_out():
    sigma, on_air = np.array([0.9, 1.6, 0.4]), np.array([True, True, False])
    own, coalition = np.array([0.25, 0.04, 1.0]), np.array([0.64, 0.16, 1.0])
    shared = replace(plan(), own_share=own, coalition_share=coalition)
    alone = releases().promised_mu(plan(), sigma)
    for promised, share in (("own", own), ("coalition", coalition)):
        terms = releases(promised=promised, counts_links=False)
        np.testing.assert_allclose(terms.promised_mu(shared, sigma), alone / np.sqrt(share), rtol=1e-14)
        found = terms.release(7, on_air, frame(), shared, POWER_W, sigma, GAMMA)
        np.testing.assert_allclose(found.own_mu, on_air * alone / np.sqrt(own), rtol=1e-14)
        np.testing.assert_allclose(found.coalition_mu, on_air * alone / np.sqrt(coalition), rtol=1e-14)
        assert np.isnan(found.link_mu).all()
        assert len(found.link_mu) == len(LINKS)
    assert released(releases(), sigma).coalition_mu is None


def test_power_of_passes_is_set_by_public_numbers():
    sigma, on_air = np.array([0.9, 1.6, 0.4]), np.array([True, False, True])
    noise = np.max(on_air * (1 - ALPHA) / ALPHA * sigma**2)
    for radius in (0.1, 2.0):
        found = releases(radius=radius).held_square(plan(), sigma, on_air)
        assert found == pytest.approx(max(1.0, radius**2 + noise), rel=1e-14)
        loud = releases(radius=radius, full_power_radius=radius).held_square(plan(), sigma, on_air)
        assert loud == pytest.approx(radius**2 + noise, rel=1e-14)
    # less than the budget: without full power nobody is scaled up
    quiet = releases(radius=0.1).held_square(plan(), 0.01 * sigma, on_air)
    assert quiet == 1.0
    louder = releases(radius=0.1, full_power_radius=0.1).held_square(plan(), 0.01 * sigma, on_air)
    assert louder == pytest.approx(0.01 + 1e-4 * noise, rel=1e-14)
    silent = releases(radius=0.1, full_power_radius=0.1).held_square(plan(), sigma, np.zeros(K, dtype=bool))
    assert silent == pytest.approx(0.01, rel=1e-14)


def test_a_step_is_charged_with_the_least_at_least_and_no_step_with_nothing():
    sigma = np.array([0.9, 1.6, 0.4])
    found, more = releases().promised_mu(plan(), sigma), releases(least_step=10.0).promised_mu(plan(), sigma)
    np.testing.assert_allclose(more[:2] / found[:2], 10.0 / (PENDING * MULTIPLIER)[:2], rtol=1e-14)
    assert more[2] == 0.0


def test_a_message_tells_all_of_a_release_whatever_the_gain():
    sigma = np.array([0.9, 1.6, 0.4])
    found = released(releases(orthogonal=True, coded=True, credited_thermal_w=THERMAL_W), sigma)
    shift = SENSITIVITY * PENDING * MULTIPLIER
    noise = (1 - ALPHA) * POWER_W * sigma**2 + THERMAL_W
    np.testing.assert_allclose(found.link_mu, (shift * np.sqrt(ALPHA * POWER_W / noise))[LINKS.tx], rtol=1e-14)


def test_a_late_senders_noise_hides_others_less():
    sigma = np.array([0.9, 1.6, 0.4])
    late = np.where(LINKS.tx == 2, 0.25, 0.0)  # symbols, of which a quarter of the noise power is sure to mask
    found, plain = (released(releases(), sigma, late=given).link_mu for given in (late, None))
    heard_with_2 = (LINKS.rx == 0) & (LINKS.tx == 1)
    assert (found[heard_with_2] > plain[heard_with_2]).all()
    np.testing.assert_allclose(found[LINKS.rx != 0], plain[LINKS.rx != 0], rtol=1e-14)


def test_unaccounted_links_have_one_row_of_nan():
    found = released(releases(counts_links=False), np.array([0.9, 1.6, 0.4]))
    assert found.block_mu.shape == (1, len(LINKS))
    assert np.isnan(found.link_mu).all()


def test_full_power_scales_everybody_so_that_the_loudest_uses_its_budget():
    sigma = np.array([0.9, 1.6, 0.4])
    np.testing.assert_array_equal(releases().budget_w(plan(), sigma), POWER_W)
    scaled = releases(full_power_radius=RADIUS).budget_w(plan(), sigma)
    radiated = scaled * (ALPHA * RADIUS**2 + (1 - ALPHA) * sigma**2) / POWER_W
    assert radiated.max() == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_allclose(scaled / POWER_W, scaled[0] / POWER_W[0], rtol=1e-14)


def test_own_leaks_in_a_frame_are_those_of_the_power_sent_and_of_nodes_on_air():
    sigma = np.array([0.9, 1.6, 0.4])
    found = releases().release(7, np.array([True, False, True]), frame(), plan(), 3.0 * POWER_W, sigma, GAMMA)
    shift = SENSITIVITY[0] * PENDING[0] * MULTIPLIER[0]
    alone = shift * math.sqrt(ALPHA[0]) / math.sqrt((1 - ALPHA[0]) * sigma[0] ** 2)  # power cancels
    np.testing.assert_allclose(found.own_mu, [alone, 0.0, 0.0], rtol=1e-14)
    assert found.round == 7
    assert found.on_air.tolist() == [True, False, True]
    np.testing.assert_array_equal(found.gamma, PENDING)
    np.testing.assert_array_equal(found.multiplier, MULTIPLIER)
    np.testing.assert_array_equal((found.link_rx, found.link_tx), (LINKS.rx, LINKS.tx))


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("thermal_w", [0.0, THERMAL_W])
def test_links_leak_the_pending_step_in_the_worst_slot(slots, thermal_w):
    sigma = np.array([0.9, 1.6, 0.4])
    found = released(releases(credited_thermal_w=thermal_w), sigma, slots=slots).link_mu
    expected = expected_links(SENSITIVITY * PENDING * MULTIPLIER, sigma, thermal_w, slots)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_the_paper_prints_links_by_this_rounds_rate_and_the_bound_of_multipliers():
    sigma = np.array([0.9, 1.6, 0.4])
    found = released(releases("paper"), sigma)
    np.testing.assert_allclose(found.link_mu, expected_links(SENSITIVITY * GAMMA * THETA, sigma), rtol=1e-14)
    np.testing.assert_allclose(found.own_mu, releases().promised_mu(plan(), sigma), rtol=1e-14)  # own: what is pending


def test_in_turns_nobody_hides_a_sender_but_itself_and_credited_noise():
    sigma = np.array([0.9, 1.6, 0.4])
    found = released(releases(credited_thermal_w=THERMAL_W, orthogonal=True), sigma).link_mu
    expected = expected_links(SENSITIVITY * PENDING * MULTIPLIER, sigma, THERMAL_W, alone=True)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
