"""Pairs chosen over the graph: the predicted error by loops, the least of it, the bound that they are charged by."""

import numpy as np
import pytest
from conftest import tiny

from wirelessdl.errors import ScenarioError
from wirelessdl.mechanism.optimised import predicted_error, ratios
from wirelessdl.privacy.coalition import coalition_variance_of_pairs
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, run_rounds


def graph(nodes, share, seed=1):
    mask = np.triu(np.random.default_rng(seed).uniform(size=(nodes, nodes)) < share, 1)
    return np.nonzero(mask)


def slow_error(nodes, low, high, r):
    """Sum over averagings of the variance of W^t n, all nodes together, n with own noise of variance 1."""
    covariance = np.eye(nodes)
    for j, k, ratio in zip(low, high, r):
        covariance[j, j] += ratio**2
        covariance[k, k] += ratio**2
        covariance[j, k] -= ratio**2
        covariance[k, j] -= ratio**2
    degree = [sum(j in pair for pair in zip(low, high)) for j in range(nodes)]
    mixing = np.zeros((nodes, nodes))
    for j, k in zip(low, high):
        mixing[j, k] = mixing[k, j] = 1 / (1 + max(degree[j], degree[k]))
    for j in range(nodes):
        mixing[j, j] = 1 - mixing[j].sum()
    found, carried = 0.0, covariance
    for _ in range(50):
        carried = mixing @ carried @ mixing.T
        found += np.trace(carried)
    return found


CASES = [(6, 0.9, 1), (8, 0.7, 1), (10, 0.7, 2)]


@pytest.mark.parametrize(("nodes", "share", "coalition"), CASES)
def test_the_predicted_error_equals_the_loops_and_nothing_near_is_less(nodes, share, coalition):
    low, high = graph(nodes, share)
    own, shared = predicted_error(nodes, low, high)
    r = ratios(nodes, low, high, coalition)
    assert own + (r**2) @ shared == pytest.approx(slow_error(nodes, low, high, r), rel=1e-10)

    def error(r):
        hidden = coalition_variance_of_pairs(np.ones(nodes), low, high, r, coalition)
        return (own + (r**2) @ shared) / hidden.min() / own

    least, rng = error(r), np.random.default_rng(0)
    assert least < 0.95  # own noise alone: 1
    assert least < min(error(np.full(len(low), common)) for common in np.linspace(0, 4, 100))
    for _ in range(300):  # 1e-6: where the search ends
        assert error(r * np.exp(0.05 * rng.normal(size=len(r)))) > least * (1 - 1e-6)


def test_a_node_whose_partners_may_all_collude_leaves_own_noise():
    assert not ratios(4, np.array([0, 1, 2]), np.array([1, 2, 3]), 1).any()


def test_too_many_pairs_are_refused():
    low, high = np.nonzero(np.triu(np.ones((30, 30)), 1))
    with pytest.raises(
        ScenarioError, match='"optimised" on a graph of 435 pairs; must be at most 300: use "neighbours"'
    ):
        ratios(30, low, high, 1)


OPTIMISED = {"noise": "pairwise", "pairs": "optimised", "coalition": 1, "epsilon_max": 1.0, "rho": 2.0}
SECTIONS = {
    "network": {"nodes": 8, "topology": {"kind": "erdos-renyi", "p": 0.7}},
    "power": {"objective": "own-noise", "alpha_min": 1e-6},
}


def test_a_frame_is_charged_by_the_one_hop_bound_of_its_pairs():
    world = build(tiny(**SECTIONS, privacy=OPTIMISED), device="cpu")
    engine, decisions = make_engine(world), []
    engine.trace.connect("learning.update", lambda event: decisions.append(event.decision))
    run_rounds(world, engine)
    for decision in decisions:
        roster, plan = decision.air.protection.roster, decision.plan
        noise = decision.air.protection.noise(np.sqrt((1 - plan.alpha) / plan.alpha) * decision.sigma)
        hidden = coalition_variance_of_pairs(noise.own, noise.low, noise.high, noise.pair, 1)
        sent = (1 - plan.alpha) / plan.alpha * decision.sigma**2
        np.testing.assert_allclose(plan.coalition_share * sent, hidden, rtol=1e-9)
        assert len(np.unique(np.round(roster.ratio, 6))) > 3
    assert np.isfinite(decisions[-1].release.coalition_mu).all()
    assert (decisions[-1].release.coalition_mu <= decisions[-1].release.own_mu).all()


def test_a_graph_of_too_many_links_is_refused_in_one_line():
    crowd = {**SECTIONS, "network": {"nodes": 30}}
    world = build(tiny(**crowd, privacy=OPTIMISED), device="cpu")
    engine = make_engine(world)
    with pytest.raises(ScenarioError, match="must be at most 300") as caught:
        run_rounds(world, engine)
    assert len(str(caught.value).splitlines()) == 1
