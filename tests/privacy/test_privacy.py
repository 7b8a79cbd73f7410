"""Accountants and ledger."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import comb

from wirelessdl.privacy import AmplifiedAccountant, FrameRelease, GaussianAccountant, Ledger, Terms, total_epsilon
from wirelessdl.privacy.counts import GRID, ReleaseCounts
from wirelessdl.privacy.rdp import ALL_ORDERS, SPARSE_ORDERS, subsampled_rdp
from wirelessdl.privacy.terms import NOBODY_SENDS, adversary, adversary_in_short


def theorem_9(order, q, nu):
    """The bound as printed, term by term in exact integers and floats."""
    epsilon = lambda k: k / (2 * nu**2)  # noqa: E731
    total = 1.0 + q**2 * comb(order, 2, exact=True) * min(4 * math.expm1(epsilon(2)), 2 * math.exp(epsilon(2)))
    for k in range(3, order + 1):
        total += 2 * q**k * comb(order, k, exact=True) * math.exp((k - 1) * epsilon(k))
    return math.log(total) / (order - 1)


@given(st.integers(2, 24), st.floats(0.001, 0.9), st.floats(0.8, 20.0))
def test_log_domain_equals_the_printed_sum(order, q, nu):
    assert subsampled_rdp(order, q, nu) == pytest.approx(theorem_9(order, q, nu), rel=1e-9)


def test_large_orders_stay_finite():
    assert np.isfinite(subsampled_rdp(1024, 0.5, 0.5))


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 0.5), st.floats(0.3, 30.0), st.integers(1, 400))
def test_running_total_is_that_of_fewer_orders_and_coarser_noise(q, nu, rounds):
    """So it is never below the exact one. Above it by 25% at most in 907 draws of these, and by 3% in nine of ten."""
    exact = total_epsilon(nu, q, rounds, delta=1e-5, accountant="rdp-wang19")
    coarse = 1e-3 * 1.01 ** math.floor(math.log(nu / 1e-3) / math.log(1.01))
    spent = rounds * subsampled_rdp(SPARSE_ORDERS, q, coarse) + math.log(1e5) / (SPARSE_ORDERS - 1)
    running = AmplifiedAccountant(np.array([q]))
    for _ in range(3):
        running.record(np.array([0]), np.array([1 / nu]))
    running.total *= rounds / 3
    assert set(SPARSE_ORDERS) < set(ALL_ORDERS)
    assert nu / 1.01 * (1 - 1e-9) <= coarse <= nu * (1 + 1e-9)
    assert running.epsilon(1e-5)[0] == pytest.approx(min(spent), rel=1e-9)
    assert running.epsilon(1e-5)[0] >= exact * (1 - 1e-12)


@pytest.mark.parametrize(("q", "nu", "rounds"), [(0.05, 1.5, 100), (0.1, 3.0, 200), (0.25, 8.0, 80), (0.5, 20.0, 400)])
def test_running_total_of_a_whole_run_is_close(q, nu, rounds):
    exact = total_epsilon(nu, q, rounds, delta=1e-5, accountant="rdp-wang19")
    running = AmplifiedAccountant(np.array([q]))
    for _ in range(rounds):
        running.record(np.array([0]), np.array([1 / nu]))
    assert exact < running.epsilon(1e-5)[0] < 1.03 * exact


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 1.0), st.floats(0.5, 10.0), st.integers(1, 100))
def test_more_rounds_cost_more_and_more_noise_costs_less(q, nu, rounds):
    def total(nu, rounds):
        return total_epsilon(nu, q, rounds, delta=1e-5, accountant="rdp-wang19")

    assert total(nu, rounds + 1) >= total(nu, rounds)
    assert total(nu * 1.1, rounds) <= total(nu, rounds)


def test_gaussian_releases_add_in_squares():
    accountant = GaussianAccountant(2)
    for _ in range(9):
        accountant.record(np.array([1]), np.array([0.1]))
    np.testing.assert_allclose(
        accountant.epsilon(1e-5), [0.0, total_epsilon(10 / 3, 1.0, 1, delta=1e-5, accountant="gdp")]
    )


def test_no_noise_is_infinite_and_nothing_sent_is_zero():
    accountant = AmplifiedAccountant(np.array([0.1, 0.1]))
    accountant.record(np.array([0, 1]), np.array([np.inf, 0.0]))
    np.testing.assert_array_equal(accountant.epsilon(1e-5), [np.inf, 0.0])
    assert total_epsilon(1.0, 0.1, 0, delta=1e-5, accountant="rdp-wang19") == 0.0


@pytest.mark.parametrize(("q", "order"), [(0.0, 2), (1.1, 2), (0.1, 1)])
def test_rates_and_orders_out_of_range_are_refused(q, order):
    with pytest.raises(ValueError, match="must be"):
        subsampled_rdp(order, q, 1.0)


def release(round, own, links):
    rx, tx, mu = (np.array(v) for v in zip(*links))
    carried = np.ones(len(own))
    return FrameRelease(round, np.array(own) >= 0, carried, carried, np.maximum(own, 0.0), rx, tx, mu.astype(float))


def test_ledger_counts_links_that_come_and_go():
    ledger = Ledger(Terms("hardened", "without-replacement", "per-sample", 1e-5), np.array([0.1, 0.2, 0.1]))
    ledger.record(release(1, [0.0, 0.0, 0.0], [(0, 1, 0.0), (1, 0, 0.0)]))
    ledger.record(release(2, [0.5, 0.5, 0.0], [(0, 1, 0.3), (1, 0, 0.2)]))
    ledger.record(release(3, [0.5, 0.0, 0.0], [(2, 0, 0.4), (1, 0, 0.2)]))
    own, link = ledger.statements()
    assert (own.view, own.status, link.view, link.status) == ("own", "proven", "link", "unproven")
    assert own.rounds.tolist() == [2, 1, 0]
    assert own.epsilon_total[2] == 0.0
    pairs = {(int(rx), int(tx)): int(n) for rx, tx, n in zip(link.rx, link.tx, link.rounds)}
    assert pairs == {(0, 1): 1, (1, 0): 2, (2, 0): 1}
    exact = total_epsilon(1 / 0.3, 0.2, 1, delta=1e-5, accountant="rdp-wang19")
    assert exact <= link.epsilon_total[0] <= 1.05 * exact  # nu rounded down by at most 2%, fewer orders


def test_paper_protocol_proves_only_without_amplification():
    ledger = Ledger(Terms("paper", "without-replacement", "batch", 1e-5), np.array([0.1, 0.1]))
    for t in range(4):
        ledger.record(release(t, [0.5, 0.5], [(0, 1, 0.3), (1, 0, 0.2)]))
    own, _ = ledger.statements()
    assert own.accountant == "gdp"
    assert own.epsilon_total[0] == pytest.approx(total_epsilon(2.0, 1.0, 4, delta=1e-5, accountant="gdp"))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 150))
def test_counts_equal_a_loop_over_releases(seed, slots):
    rng, streams = np.random.default_rng(seed), 4
    counts, expected = ReleaseCounts(), [{} for _ in range(streams)]
    for slot in range(slots):
        stream = np.flatnonzero(rng.random(streams) < 0.7)
        mu = rng.choice([0.0, 0.1, 0.1004, 0.3, 2000.0, np.inf], len(stream))
        counts.record(stream, mu)
        for node, value in zip(stream.tolist(), mu.tolist()):
            if value > 0:
                cell = -1 if value > 1e3 else math.floor(math.log(1 / value / 1e-3) / math.log(1.01))
                expected[node][cell] = expected[node].get(cell, 0) + 1
        if slot == 20:  # as a resumed run finds them
            kept, counts = counts.state(), ReleaseCounts()
            counts.restore(kept)
    assert counts.by_stream(streams) == expected
    assert counts.rounds(streams).tolist() == [sum(cells.values()) for cells in expected]
    stream, cell, number = counts.entries()
    rows = sorted((node, cell, n) for node, cells in enumerate(expected) for cell, n in cells.items())
    assert list(zip(stream.tolist(), cell.tolist(), number.tolist())) == rows


def test_noise_is_rounded_down_by_less_than_a_cell():
    nu = np.geomspace(1.001e-3, 9.9e3, 10_000)
    kept = GRID.nu(GRID.cell(nu))
    assert (kept <= nu * (1 + 1e-12)).all()
    assert (kept > nu / GRID.ratio * (1 - 1e-12)).all()
    assert GRID.cell(np.array([0.0, 5e-4, 1e9, np.inf])).tolist() == [-1, -1, GRID.cells - 1, GRID.cells - 1]


def test_the_adversary_has_the_same_words_wherever_it_is_named():
    assert adversary("coalition", 1) == "any one node that hears every transmission"
    assert adversary("own", 1) == "everyone else, all nodes colluding"
    assert adversary("own", 0, sends=False) == adversary("coalition", 4, "mine.py:Mine", sends=False) == NOBODY_SENDS
    assert [adversary_in_short(most) for most in (None, 1, 4)] == ["everyone", "any one node", "any 4 nodes"]
