"""Noise of pairs has the covariance that the proof assumes; the quantiser of messages is unbiased."""

import numpy as np
import pytest
import torch

from wirelessdl.learning.draws import NodeDraws, most_rounds
from wirelessdl.learning.exchange import edge_noise_, group_noise_
from wirelessdl.learning.records import PairInput
from wirelessdl.learning.superposition import Quantizer, single_above
from wirelessdl.streams import Streams

CPU = torch.device("cpu")


def covariance(own, pair, on_air):
    """diag(a^2) + Laplacian(b^2) of those on air; partners off air stay on the diagonal. pair: [K, K]."""
    sigma = np.diag(own**2 + (pair**2).sum(axis=1)) - pair**2
    return sigma * np.outer(on_air, on_air)


def complete(pair, group):
    """b of every pair, [K, K], from b per node and groups."""
    same = (group[:, None] == group) & (group[:, None] >= 0)
    return np.where(same & ~np.eye(len(group), dtype=bool), pair[:, None], 0.0)


def slow_twin(own, pair, on_air, samples, rng):
    """Every u_j and v_jk in plain loops, [K, samples]."""
    nodes = len(own)
    noise = np.zeros((nodes, samples))
    for j in range(nodes):
        noise[j] += own[j] * rng.standard_normal(samples)
    for j in range(nodes):
        for k in range(j + 1, nodes):
            shared = rng.standard_normal(samples)
            noise[j] += pair[j, k] * shared
            noise[k] -= pair[j, k] * shared
    noise[~on_air] = 0.0
    return noise


NOBODY = np.zeros(0, dtype=np.int64)


def grouped(own, pair, group, on_air):
    return PairInput(own, pair, on_air, group, NOBODY, NOBODY)


def group_map(own, pair, group, on_air):
    """The linear map of groups as a matrix."""
    matrix = torch.eye(len(own), dtype=torch.float64)
    group_noise_(matrix, grouped(own, pair, group, on_air))
    return matrix.numpy()


def assert_sampled(noise, sigma):
    """A product of two normals of covariance S has variance S_ii S_jj + S_ij^2; 4 deviations, 36 entries at most."""
    found = noise @ noise.T / noise.shape[1]
    error = np.sqrt((np.outer(np.diag(sigma), np.diag(sigma)) + sigma**2) / noise.shape[1])
    assert (np.abs(found - sigma) <= 4 * error).all()


ONE = np.zeros(6, dtype=np.int64)
TWO = np.array([0, 1, 0, 1, 1, -1])
ALL = np.ones(6, dtype=bool)
SOME = np.array([True, False, True, True, True, True])
EQUAL = np.full(6, 0.4)
UNEQUAL = np.array([0.4, 0.1, 1.0, 0.4, 2.0, 0.7])
CASES = {
    "complete": (EQUAL, np.full(6, 0.6), ONE, ALL),
    "complete, unequal own noise": (UNEQUAL, np.full(6, 0.6), ONE, ALL),
    "complete, one fell silent": (UNEQUAL, np.full(6, 0.6), ONE, SOME),
    "groups": (EQUAL, np.array([0.3, 0.9, 0.3, 0.9, 0.9, 0.9]), TWO, ALL),
    "groups, unequal, one fell silent": (UNEQUAL, np.array([0.3, 0.9, 0.3, 0.9, 0.9, 0.9]), TWO, SOME),
    "no pairs": (UNEQUAL, np.full(6, 0.6), np.full(6, -1), SOME),
    "nothing shared": (UNEQUAL, np.zeros(6), ONE, ALL),
    "no own noise": (np.zeros(6), np.full(6, 0.6), ONE, ALL),
    "no noise": (np.zeros(6), np.zeros(6), ONE, ALL),
    "nobody": (EQUAL, np.full(6, 0.6), ONE, ~ALL),
    "a group of one": (EQUAL, np.full(6, 0.6), np.arange(6), ALL),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_draw_per_node_has_the_covariance_of_all_pairs(case):
    own, pair, group, on_air = case
    matrix = group_map(own, pair, group, on_air)
    np.testing.assert_allclose(matrix @ matrix.T, covariance(own, complete(pair, group), on_air), atol=1e-12)


def test_what_the_whole_network_adds_is_own_noise_alone():
    """Pairs cancel in the sum: its variance is that of own noise, also where b is a million times a."""
    for ratio in (1.0, 1e3, 1e6):
        matrix = group_map(UNEQUAL, np.full(6, ratio), ONE, ALL)
        assert np.sum(matrix.sum(axis=0) ** 2) == pytest.approx(np.sum(UNEQUAL**2), rel=1e-15 * ratio**2 + 1e-12)


@pytest.mark.parametrize("name", ["complete", "complete, one fell silent", "groups, unequal, one fell silent"])
def test_samples_of_both_ways_have_the_covariance_of_the_formula(name):
    own, pair, group, on_air = CASES[name]
    sigma, rng, samples = covariance(own, complete(pair, group), on_air), np.random.default_rng(2), 20_000
    draws = torch.as_tensor(rng.standard_normal((6, samples)), dtype=torch.float32)
    group_noise_(draws, grouped(own, pair, group, on_air))
    assert_sampled(draws.double().numpy(), sigma)
    assert_sampled(slow_twin(own, complete(pair, group), on_air, samples, rng), sigma)


def test_unequal_pairs_within_a_group_are_refused():
    with pytest.raises(ValueError, match="differs within a group"):
        group_noise_(torch.zeros(6, 1), grouped(EQUAL, np.arange(6.0), ONE, ALL))


LOW, HIGH, SHARED = np.array([0, 0, 1, 2, 4]), np.array([1, 3, 2, 5, 5]), np.array([0.5, 1.0, 0.2, 2.0, 0.7])


def edges(on_air=ALL, order=slice(None)):
    return PairInput(UNEQUAL, SHARED[order], on_air, None, HIGH[order], LOW[order])


@pytest.mark.parametrize("on_air", [ALL, SOME])
def test_noise_of_edges_is_an_exact_map_of_the_draws(on_air):
    """Own draws and pair draws are unit vectors: the rows are the coefficients of every u and v."""
    width = 6 + len(LOW)
    draws = torch.eye(6, width, dtype=torch.float64)
    pairs = list(zip(LOW, HIGH))

    def unit(out, low, high):
        out.zero_()
        for row, pair in enumerate(zip(low, high)):
            out[row, 6 + pairs.index(pair)] = 1.0

    edge_noise_(draws, edges(on_air), unit)
    matrix, dense = draws.numpy(), np.zeros((6, 6))
    dense[LOW, HIGH] = dense[HIGH, LOW] = SHARED
    np.testing.assert_allclose(matrix @ matrix.T, covariance(UNEQUAL, dense, on_air), atol=1e-12)


def keyed(round, streams=None, order=slice(None), size=50):
    """Noise of edges from keyed draws."""
    source = NodeDraws(streams or Streams(3), 6, CPU)
    draws = torch.empty(6, size)
    source.fill_normal(draws, round, "noise")
    edge_noise_(draws, edges(order=order), lambda out, low, high: source.fill_pairs(out, round, low, high))
    return draws


def test_keyed_noise_does_not_depend_on_order_or_earlier_rounds():
    together = keyed(4)
    assert torch.equal(keyed(4), together)
    assert torch.equal(keyed(4, order=slice(None, None, -1)), together)
    assert not torch.equal(keyed(5), together)
    assert not torch.equal(keyed(4, streams=Streams(3, run=2)), together)


def test_keyed_noise_has_the_covariance_of_the_formula():
    dense = np.zeros((6, 6))
    dense[LOW, HIGH] = dense[HIGH, LOW] = SHARED
    assert_sampled(keyed(1, size=20_000).double().numpy(), covariance(UNEQUAL, dense, ALL))


def test_draws_of_nodes_and_pairs_are_all_different():
    """No counter is used twice: the first numbers of every node, purpose, pair and round differ."""
    source, rounds, out = NodeDraws(Streams(1), 5, CPU), 40, torch.empty(1, 2)
    seen = []
    for round in range(1, rounds + 1):
        for node in range(5):
            for purpose in ("noise", "thermal"):
                source.fill_normal(out, round, purpose, [node])
                seen.append(tuple(out[0].tolist()))
        low, high = np.triu_indices(5, 1)
        shared = torch.empty(10, 2)
        source.fill_pairs(shared, round, low, high)
        seen += [tuple(row) for row in shared.tolist()]
    assert len(set(seen)) == len(seen) == rounds * (10 + 10)


def test_counters_of_nodes_pairs_and_dither_never_meet(monkeypatch):
    """The last counter of the last round lies below the first of the next kind; one more round would not fit."""
    nodes, size, passes = 7, 9, 3
    rounds = most_rounds(nodes, size, pairs=True, passes=passes)
    draws, seen = NodeDraws(Streams(1), nodes, CPU, passes), []
    monkeypatch.setattr(draws._generator, "fill_normal", lambda out, first, _: seen.append((first, out.shape[1])))
    monkeypatch.setattr(draws._generator, "fill_uniform", lambda out, first, _: seen.append((first, out.shape[1])))
    for round in (0, rounds):
        draws.fill_normal(torch.empty(nodes, size), round, passes - 1)
        draws.fill_pairs(torch.empty(1, size), round, np.array([nodes - 2]), np.array([nodes - 1]))
        draws.fill_dither(torch.empty(nodes, size, dtype=torch.float64), round)
    for place, begin in enumerate((0, 2**61, 2**62)):
        (first, _), (last, width) = seen[place], seen[3 + place]
        assert first.min() >= begin
        assert last.max() + width <= begin + 2**61
    assert (rounds + 2) * nodes * nodes * size > 2**61


def test_what_pairs_share_is_standard_normal_and_differs_by_pair_and_round():
    draws = NodeDraws(Streams(3), 5000, CPU)
    rows = torch.zeros(4, 20_000)
    for row, (round, low, high) in zip(rows, ((1, 0, 1), (1, 0, 2), (2, 0, 1), (1, 4998, 4999))):
        draws.fill_pairs(row[None], round, np.array([low]), np.array([high]))
    again = torch.zeros(1, 20_000)
    NodeDraws(Streams(3), 5000, CPU).fill_pairs(again, 2, np.array([0]), np.array([1]))
    assert torch.equal(again[0], rows[2])
    # correlations and deviations of 20,000 draws: five standard errors of 1 / sqrt(20,000)
    np.testing.assert_allclose(np.cov(rows.numpy()), np.eye(4), atol=5 * np.sqrt(2 / 20_000))


def test_many_groups_are_the_map_of_few(monkeypatch):
    for own, pair, group, on_air in ((EQUAL, np.full(6, 0.3), TWO, ALL), (UNEQUAL, np.full(6, 0.5), TWO, SOME)):
        dense = group_map(own, pair, group, on_air)
        monkeypatch.setattr("wirelessdl.learning.exchange._MAX_DENSE", 0)
        np.testing.assert_allclose(group_map(own, pair, group, on_air), dense, atol=1e-14)
        monkeypatch.undo()


def test_a_pair_named_twice_is_refused():
    for one, other in (([0, 1, 3], [1, 0, 4]), ([2, 0, 3], [2, 1, 4])):
        with pytest.raises(ValueError, match="twice"):
            edge_noise_(
                torch.zeros(6, 1), PairInput(UNEQUAL, np.ones(3), ALL, None, np.array(one), np.array(other)), None
            )


def rounded(values, bits, block, draws, seed=1):
    """`draws` independent roundings of the same values, `[draws, m]`."""
    w = torch.tensor(values, dtype=torch.float64).repeat(draws, 1)
    dither = torch.rand(w.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    Quantizer(bits, block).apply_(w, dither)
    return w.numpy()


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_the_mean_over_dither_is_the_value(bits):
    values = np.random.default_rng(3).normal(size=37) * np.geomspace(1e-3, 10, 37)
    draws = 20_000
    found = rounded(values, bits, 10, draws)
    largest = torch.tensor(np.repeat([np.abs(values[n : n + 10]).max() for n in range(0, 37, 10)], 10)[:37])
    scale = single_above(largest).numpy()
    step = 2 * scale / (2**bits - 1)
    up = (values + scale) / step % 1  # how often a value goes to the level above it
    standard_error = step * np.sqrt(up * (1 - up) / draws)
    error = np.abs(found.mean(axis=0) - values)
    # three standard errors each; of 37 values one in ten seeds has one beyond it, this one has none
    assert (error <= 3 * standard_error + 1e-15).all()
    assert (np.abs(found - values) <= step * (1 + 1e-9)).all()


def test_levels_and_scale_by_hand():
    w = torch.tensor([[0.0, 3.0, -1.0, 0.5, 0.0, 0.0]], dtype=torch.float64)
    Quantizer(2, 4).apply_(w, torch.full((1, 6), 0.5, dtype=torch.float64))
    # levels -3 -1 1 3; (w + 3) / 2 = 1.5 3 1 1.75, plus a half and rounded down 2 3 1 2; a block of zeros stays
    assert w.tolist() == [[1.0, 3.0, -1.0, 1.0, 0.0, 0.0]]


def test_scales_are_single_precision_and_never_below_the_largest():
    values = torch.tensor(np.random.default_rng(5).normal(size=1000) ** 3)
    above = single_above(values.abs())
    assert (above >= values.abs()).all()
    assert (above.to(torch.float32).to(torch.float64) == above).all()
    assert ((above - values.abs()) <= 2**-23 * values.abs()).all()
