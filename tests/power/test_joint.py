"""The joint plan's forecast, worked out again in plain loops, and against models that are mixed and never trained."""

from dataclasses import replace

import numpy as np
import pytest

from wirelessdl.chebyshev import fitted, plain, response
from wirelessdl.links import Geometry, Links
from wirelessdl.mixing import balanced_air, mix
from wirelessdl.power.joint import (
    EXPONENTS,
    RATIOS,
    JointProblem,
    JointSettings,
    choose,
    choose_by_mean,
    forecast,
)

NODES = 6


def problem(**changes):
    rng = np.random.default_rng(4)
    rx, tx = np.nonzero(~np.eye(NODES, dtype=bool))
    links = Links(rx, tx, Geometry.at_rest(rng.uniform(0, 100, (NODES, 2))))
    gain = 10 ** rng.uniform(-5.5, -3.5, len(links))
    given = JointProblem(
        links=links,
        gain=gain,
        power_w=np.full(NODES, 0.2),
        hidden=0.3,
        sigma=0.5,
        partners=NODES - 1,
        coalition=2,
        settings=JointSettings(passes=3, chebyshev=True, thermal_w=1e-13, rounds=40, full_power=False, radius=0.5),
    )
    settings = {name: changes.pop(name) for name in list(changes) if hasattr(given.settings, name)}
    return replace(given, settings=replace(given.settings, **settings), **changes)


def parts(given, exponent=0.0):
    """Weights, receivers' scale and coefficients at full power."""
    assert exponent == 0.0
    amplitude = np.sqrt(given.power_w)
    mixing = mix(given.links, given.gain, amplitude, air=balanced_air(given.links, given.gain, amplitude))
    count = 1 + given.settings.passes
    passes = fitted(count, np.linalg.eigvals(mixing.dense)) if given.settings.chebyshev else plain(count)
    return mixing.dense, mixing.scale, passes


def in_loops(given, ratio):
    """mean and apart of J(r, 0): every entry, pass and round written out."""
    weights, scale, passes = parts(given)
    K, p, c = NODES, given.partners, given.coalition
    a2 = given.hidden / (1 + max(p - c, 0) * ratio**2 / (1 + ratio**2))
    sent = a2 * (1 + p * ratio**2)
    alpha = 1 / (1 + sent / given.sigma**2)
    payload = (
        alpha * given.settings.radius**2 + (1 - alpha) * given.sigma**2 if given.settings.full_power else 1.0
    ) / alpha
    again = given.settings.radius**2 + sent if given.settings.full_power else max(1.0, given.settings.radius**2 + sent)
    # what each node's own number, and each receiver's noise in each pass, become: one unit after the other
    count = len(passes.heard)

    def through(start, noise):
        before, y = np.zeros(K), start
        for k in range(count):
            heard = weights @ y + noise[k]
            before, y = y, passes.heard[k] * heard + passes.before[k] * before
        return y

    silence = np.zeros((count, K))
    whole = np.stack([through(np.eye(K)[j], silence) for j in range(K)], axis=1)
    variance, of_mean = np.zeros(K), 0.0
    for k in range(count):
        for j in range(K):
            unit = silence.copy()
            unit[k, j] = scale[j] * np.sqrt(given.settings.thermal_w * (payload if k == 0 else again))
            got = through(np.zeros(K), unit)
            variance += got**2
            of_mean += got.mean() ** 2
    S = np.zeros((K, K))
    for i in range(K):
        for j in range(K):
            S[i, j] = a2 * ((i == j) * (1 + (p + 1) * ratio**2) - (p + 1) * ratio**2 / K)
    Q = whole - 1 / K
    D = np.zeros((K, K))
    for _ in range(4096):
        D = Q @ (D + S) @ Q.T + np.diag(np.maximum(variance - of_mean, 0.0))
    return given.settings.rounds * (a2 / K + of_mean), sum(D[i, i] for i in range(K)) / K, alpha


@pytest.mark.parametrize("ratio", [0.0, 0.7, 2.0])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"chebyshev": False},
        {"passes": 0},
        {"full_power": True},
        {"coalition": 5},
        {"partners": 2, "coalition": 1},
        {"thermal_w": 0.0, "hidden": 3.0},
    ],
    ids=str,
)
def test_the_forecast_is_the_formula_in_plain_loops(changes, ratio):
    given = problem(**changes)
    weights, scale, passes = parts(given)
    found = forecast(given, response(passes, weights), scale, ratio, 0.0)
    mean, apart, alpha = in_loops(given, ratio)
    assert found.mean == pytest.approx(mean, rel=1e-9)
    assert found.apart == pytest.approx(apart, rel=1e-9)
    assert found.alpha == pytest.approx(alpha, rel=1e-12)
    assert found.error == found.mean + found.apart


def test_the_choice_is_the_least_of_all_that_were_tried():
    plan = choose(problem())
    assert len(plan.tried) == len(RATIOS) * len(EXPONENTS)
    assert plan.best.error == min(one.error for one in plan.tried)
    assert plan.best in plan.tried
    assert (plan.share <= 1.0 + 1e-12).all()
    assert plan.share.max() == pytest.approx(1.0)
    again = choose(problem(), (plan.best.ratio,), (plan.best.exponent,))
    assert again.best.error == plan.best.error
    np.testing.assert_array_equal(again.share, plan.share)


def test_what_the_air_adds_to_the_mean_decides_between_ratios():
    """Twenty nodes of which five collude, links of 12 dB: worked out by hand beside kappa^2 = (K / F) (1 + ...)."""
    nodes, receiver = 20, 0.26 / 77
    links = Links.from_mask(~np.eye(nodes, dtype=bool), Geometry.at_rest(np.zeros((nodes, 2))))
    given = problem(links=links, partners=nodes - 1, coalition=5)

    def chosen(ratios, *errors):
        plan = choose_by_mean(given, ratios, *errors)
        kappa = [np.sqrt(one.mean * nodes**2 / (given.settings.rounds * given.hidden)) for one in plan.tried]
        return plan.best.ratio, kappa

    best, kappa = chosen((2.0, 4.0), receiver, 0.0, 0.0)
    assert best == 2.0
    np.testing.assert_allclose(
        kappa, [(20 / 12.2 * 1.26) ** 0.5, (20 / (1 + 14 * 16 / 17) * (1 + 305 * receiver)) ** 0.5]
    )
    np.testing.assert_allclose(kappa, [1.43, 1.69], atol=0.01)
    assert chosen(RATIOS, 0.0, 0.0, 0.0)[0] == max(RATIOS)
    falling = [chosen(RATIOS, receiver, worse, 0.0)[0] for worse in (0.0, 0.01, 0.1, 10.0)]
    assert falling == sorted(falling, reverse=True)
    assert falling[0] > falling[-1] == 0.0
    assert chosen(RATIOS, 0.0, 0.0, 1.0)[0] < max(RATIOS)


def test_noise_that_nobody_hides_is_not_shared():
    """Where all partners may collude, pairs only cost power; where few do, they pay."""
    assert choose(problem(coalition=NODES - 1)).best.ratio == 0.0
    assert choose(problem(coalition=1, passes=8)).best.ratio > 0.5


@pytest.mark.parametrize("thermal_w", [1e-16, 1e-12])
@pytest.mark.parametrize("ratio", [0.0, 1.4])
@pytest.mark.parametrize("chebyshev", [True, False])
def test_mixed_models_part_as_far_as_predicted(ratio, thermal_w, chebyshev):
    """Models that are sent with noise, mixed and never trained; ten percent: receivers' covariance is a diagonal."""
    given = problem(thermal_w=thermal_w, chebyshev=chebyshev)
    weights, scale, passes = parts(given)
    found = forecast(given, response(passes, weights), scale, ratio, 0.0)
    rng, size = np.random.default_rng(1), 4000
    own = np.sqrt(given.own(ratio))
    payload, again = 1 / found.alpha, max(1.0, given.settings.radius**2 + given.sent(ratio))
    x, apart = np.zeros((NODES, size)), []
    for t in range(60):
        noise = own * rng.standard_normal((NODES, size))
        for j in range(NODES):
            for k in range(j):
                shared = ratio * own * rng.standard_normal(size)
                noise[j] += shared
                noise[k] -= shared
        before, y = np.zeros_like(x), x + noise
        for k in range(len(passes.heard)):
            deviation = scale * np.sqrt(given.settings.thermal_w * (again if k else payload))
            heard = weights @ y + deviation[:, None] * rng.standard_normal((NODES, size))
            before, y = y, passes.heard[k] * heard + passes.before[k] * before
        x = y
        if t >= 40:
            apart.append(np.mean((x - x.mean(axis=0)) ** 2))
    assert np.mean(apart) == pytest.approx(found.apart, rel=0.1)


@pytest.mark.parametrize("passes", [0, 3])
def test_large_networks_are_forecast_by_draws_as_small_ones_are(passes, monkeypatch):
    """190 nodes, 43 vectors of signs: about 2% of deviation; receiver noise of passes keeps its covariances: 5%."""
    rng = np.random.default_rng(8)
    pair = rng.integers(0, 190, (900, 2))
    links = Links.from_pairs(pair[:, 0], pair[:, 1], Geometry.at_rest(np.zeros((190, 3))), both_ways=True)
    gain = 1e-4 * rng.uniform(0.5, 1.5, len(links.pairs))[links.pairs.of_link]
    given = problem(links=links, gain=gain, power_w=np.full(190, 0.2), partners=18, passes=passes, thermal_w=1e-10)
    dense = choose(given, RATIOS, (0.0,))
    monkeypatch.setattr("wirelessdl.power.joint._MAX_DENSE_NODES", 100)
    drawn = choose(given, RATIOS, (0.0,))
    assert drawn.best.ratio == dense.best.ratio
    for one, other in zip(drawn.tried, dense.tried, strict=True):
        assert (one.ratio, one.alpha) == (other.ratio, other.alpha)
        assert one.mean == pytest.approx(other.mean, rel=1e-9)
        assert one.apart == pytest.approx(other.apart, rel=0.07)
