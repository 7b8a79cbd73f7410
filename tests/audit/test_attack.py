"""What rates of an attack prove: confidence, Gaussian mechanisms, totals that sampling amplifies."""

import numpy as np
import pytest
from scipy.stats import binom

from wirelessdl.audit.canary import attack_epsilon, largest_rate, least_rate, sender_claim, weigh
from wirelessdl.gaussian import analytic_epsilon, analytic_mu
from wirelessdl.privacy.terms import PrivacyAssumptions

TERMS = PrivacyAssumptions("hardened", "without-replacement", "per-sample", 1e-4)


@pytest.mark.parametrize(("hits", "trials"), [(0, 50), (3, 50), (25, 50), (50, 50)])
def test_rates_are_bounded_by_the_binomial_tail(hits, trials):
    low, high = least_rate(hits, trials, 0.05), largest_rate(hits, trials, 0.05)
    assert low <= hits / trials <= high
    if hits:
        assert binom.sf(hits - 1, trials, low) == pytest.approx(0.05)
    if hits < trials:
        assert binom.cdf(hits, trials, high) == pytest.approx(0.05)


def gaussian_scores(rng, mu, trials):
    """Exact log-likelihood ratios of one Gaussian release."""
    coin = rng.integers(0, 2, trials).astype(bool)
    return mu * (rng.standard_normal(trials) + mu * coin) - mu**2 / 2, coin


def test_the_bound_of_a_gaussian_release_lies_below_mu_and_close_to_it():
    rng, mu = np.random.default_rng(1), 1.0
    found = np.array([weigh(*gaussian_scores(rng, mu, 4000), doubt=0.05).mu for _ in range(200)])
    # 5% of 200 bounds may fail: 10, with a deviation of 3
    assert np.sum(found > mu) <= 19
    assert np.median(found) > 0.9 * mu
    assert attack_epsilon(weigh(*gaussian_scores(rng, mu, 4000), doubt=0.05), 1e-4) < analytic_epsilon(1.2, 1e-4)


def test_short_audits_of_an_attack_that_attains_the_proof_exceed_it_in_some_of_a_hundred():
    """200 trials at exactly the mu of epsilon 7.81: a bound may be wrong in 5%, and is then wrong by much."""
    rng, mu = np.random.default_rng(5), analytic_mu(7.81, 1e-4)
    found = np.array([weigh(*gaussian_scores(rng, mu, 200), doubt=0.05).mu for _ in range(500)])
    assert 5 <= np.sum(found > mu) <= 25
    assert analytic_epsilon(float(found.max()), 1e-4) > 8.09


def test_scores_that_say_nothing_prove_nothing():
    rng = np.random.default_rng(2)
    coin = rng.integers(0, 2, 1000).astype(bool)
    found = [weigh(rng.standard_normal(1000), coin, doubt=0.01) for _ in range(20)]
    assert max(one.mu for one in found) < 0.2
    assert weigh(np.zeros(1000), coin, doubt=0.05).mu == 0.0
    everywhere = weigh(np.zeros(1000), np.ones(1000, dtype=bool), doubt=0.05)
    assert everywhere.mu == 0.0  # no trial without the canary: no false positive rate is known
    with pytest.raises(ValueError, match="trials is 10; must be at least 50"):
        weigh(np.zeros(10), coin[:10], doubt=0.05)


def sampled_scores(rng, q, mu, rounds, trials, *, reused):
    """A canary in a share q of batches, all other samples alike; the declared law's likelihood ratio."""
    coin = rng.integers(0, 2, trials).astype(bool)
    inside = rng.random((trials, 1 if reused else rounds)) < q
    seen = rng.standard_normal((trials, rounds)) + mu * (coin[:, None] & inside)
    return np.log1p(q * np.expm1(mu * seen - mu**2 / 2)).sum(axis=1), coin


@pytest.mark.parametrize("reused", [False, True])
def test_amplified_totals_hold_for_fresh_batches_and_are_refuted_by_one_batch_for_all(reused):
    q, mu, rounds, delta = 0.25, 0.4, 40, 1e-4
    score, coin = sampled_scores(np.random.default_rng(3), q, mu, rounds, 20_000, reused=reused)
    claim = sender_claim(TERMS, q, np.arange(1, rounds + 1), np.full(rounds, mu), None)
    proven = claim(1.0, delta)
    attack = attack_epsilon(weigh(score, coin, doubt=0.05), delta, claim)
    assert (attack > 1.5 * proven) if reused else (0.7 * proven < attack < proven)


def test_a_claim_without_sampling_is_that_of_mu():
    full = PrivacyAssumptions("hardened", "full-batch", "per-sample", 1e-4)
    claim = sender_claim(full, 1.0, np.arange(1, 5), np.full(4, 0.5), None)
    assert claim(1.0, 1e-4) == pytest.approx(analytic_epsilon(1.0, 1e-4))
    assert claim(2.0, 1e-5) == pytest.approx(analytic_epsilon(2.0, 1e-5))
    shuffled = PrivacyAssumptions("hardened", "shuffled", "per-sample", 1e-4)
    claim = sender_claim(shuffled, 1.0, np.arange(1, 6), np.array([0.0, 0.5, 0.5, 0.5, 0.5]), 2)
    assert claim(1.0, 1e-4) == pytest.approx(analytic_epsilon(np.sqrt(0.5), 1e-4))  # four rounds are two epochs
