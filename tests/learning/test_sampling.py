"""Samplers: sizes, chances, the gradients they define, and the accountant of each."""

import dataclasses

import numpy as np
import pytest
import torch
from conftest import tiny
from made_engines import bytes_data, make, order

import wirelessdl
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.records import ModelUpdate
from wirelessdl.learning.sampling import Sampler
from wirelessdl.streams import Streams

# --- sampling ---------------------------------------------------------------------------------------------


def test_poisson_batches_have_binomial_sizes_and_even_chances():
    sampler, draws = Sampler("poisson", 5, [20, 20]), NodeDraws(Streams(1), 2, torch.device("cpu"))
    counts, sizes = np.zeros(20), []
    for round in range(4000):
        batch = sampler.batch(draws, 1, round)
        assert len(set(batch.tolist())) == len(batch)
        counts[batch] += 1
        sizes.append(len(batch))
    # each sample takes part on its own with probability 1/4: binomial(20, 1/4), mean 5, variance 3.75
    assert np.abs(counts - 1000).max() < 4.5 * np.sqrt(4000 * 0.25 * 0.75)
    assert np.mean(sizes) == pytest.approx(5, abs=4.5 * np.sqrt(3.75 / 4000))
    # variance of a sample variance: about 2 var^2 / n, plus little for the kurtosis
    assert np.var(sizes) == pytest.approx(3.75, abs=5 * 3.75 * np.sqrt(2 / 4000))
    assert max(sizes) > 10  # never truncated


def test_shuffled_epochs_deal_every_sample_once_and_anew():
    sampler, draws = Sampler("shuffled", 5, [20, 23]), NodeDraws(Streams(1), 2, torch.device("cpu"))
    epochs = [np.concatenate([sampler.batch(draws, 0, 4 * e + r) for r in range(1, 5)]) for e in range(3)]
    for epoch in epochs:
        assert sorted(epoch.tolist()) == list(range(20))
    assert (epochs[0] != epochs[1]).any()
    rest = np.concatenate([sampler.batch(draws, 1, r) for r in range(1, 5)])
    assert len(set(rest.tolist())) == 20  # the last three wait for another order
    assert sampler.epoch_rounds.tolist() == [4, 4]
    again = Sampler("shuffled", 5, [20, 23])
    np.testing.assert_array_equal(again.batch(draws, 0, 7), epochs[1][10:15])  # whatever came before


@pytest.mark.parametrize(
    ("sampling", "rate", "divisor"),
    [
        ("without-replacement", [0.25, 0.2], [5, 5]),
        ("poisson", [0.25, 0.2], [5, 5]),
        ("full", [1, 1], [20, 25]),
        ("shuffled", [1, 1], [5, 5]),
    ],
)
def test_rates_and_divisors_do_not_depend_on_draws(sampling, rate, divisor):
    sampler = Sampler(sampling, 5, [20, 25])
    assert sampler.rate.tolist() == pytest.approx(rate)
    assert sampler.divisor.tolist() == divisor


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson", "full", "shuffled"])
@pytest.mark.parametrize("clipping", ["per-sample", "batch"])
def test_every_sampler_gives_the_gradient_of_its_definition(sampling, clipping):
    """Against a plain sum over the samples each node drew, divided by the fixed divisor."""
    data = bytes_data(123)
    engine = make(data, nodes=4, sampling=sampling, clipping=clipping, clip_norm=2.0)
    start = engine.x
    quiet = dataclasses.replace(
        order(4, weights=np.eye(4), thermal=0.0), noise_scale=np.zeros(4), update=ModelUpdate.everyone(np.ones(4))
    )
    engine.round(quiet)
    for node, client in enumerate(engine.client_indices):
        samples = client[engine.sampler.batch(engine.draws, node, 1)]
        weights = start[node].view(3, 37).numpy()
        total = np.zeros((3, 37))
        for sample in samples:
            pixels = data.train_x[sample].reshape(-1) / data.scale
            a = np.append((pixels - data.mean) / data.deviation, 1.0)
            p = np.exp(weights @ a)
            error = p / p.sum()
            error[data.train_y[sample]] -= 1.0
            g = np.outer(error, a)
            total += g * min(1.0, 2.0 / np.linalg.norm(g)) if clipping == "per-sample" else g
        total /= len(client) if sampling == "full" else 8
        if clipping == "batch":
            total *= min(1.0, 2.0 / np.linalg.norm(total))
        np.testing.assert_allclose(engine.x[node].numpy(), start[node].numpy() - total.reshape(-1), atol=1e-12)
    divisor = np.array([len(client) for client in engine.client_indices]) if sampling == "full" else 8
    np.testing.assert_allclose(engine.sensitivity, 4.0 if clipping == "batch" else 4.0 / divisor)


def test_an_empty_poisson_batch_is_a_step_of_nothing():
    engine = make(bytes_data(), nodes=5, sampling="poisson", batch_size=1)
    empty = [(n, r) for r in range(1, 50) for n in range(5) if not len(engine.sampler.batch(engine.draws, n, r))]
    node, round = empty[0]
    outcome = engine.round(order(5, round=round))
    assert outcome.loss[node] == 0
    assert outcome.grad_norm[node] == 0
    assert torch.isfinite(engine.x).all()


@pytest.mark.parametrize(
    ("sampling", "sampler", "accountant"),
    [
        ("without-replacement", "without-replacement", "pld"),
        ("poisson", "poisson", "pld"),
        ("full", "full-batch", "gdp"),
        ("shuffled", "shuffled", "gdp"),
    ],
)
def test_the_sampler_reaches_the_privacy_table(sampling, sampler, accountant, tmp_path):
    run = wirelessdl.simulate(tiny(learning={"batch_size": 8, "sampling": sampling, "eval_every": 2}), out=tmp_path)
    own = run.privacy[run.privacy["view"] == "own"]
    assert set(own["sampler"]) == {sampler}
    assert set(own["accountant"]) == {accountant}
    assert run.provenance["strategy"] == "closed-form"


def many_nodes(size, batch):
    nodes = 2001
    return Sampler("without-replacement", batch, [size] * nodes), NodeDraws(Streams(2), nodes, torch.device("cpu"))


def test_batches_of_many_nodes_are_drawn_together_and_do_not_depend_on_pieces():
    sampler, draws = many_nodes(30, 7)
    whole = np.array(sampler.batches(draws, range(2001), 3))
    assert whole.min() >= 0
    assert whole.max() < 30
    assert (np.sort(whole, axis=1)[:, 1:] > np.sort(whole, axis=1)[:, :-1]).all()  # no sample twice
    pieces = [sampler.batches(draws, range(start, min(start + 300, 2001)), 3) for start in range(0, 2001, 300)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    np.testing.assert_array_equal(sampler.batch(draws, 1234, 3), whole[1234])
    assert (np.array(sampler.batches(draws, range(2001), 4)) != whole).any(axis=1).mean() > 0.99


def test_every_subset_is_equally_likely_when_drawn_together():
    """All 15 pairs of 6 samples, over nodes and rounds: chi-squared with 14 degrees of freedom."""
    sampler, draws = many_nodes(6, 2)
    found = np.concatenate([np.sort(sampler.batches(draws, range(2001), r), axis=1) for r in range(1, 31)])
    _, counts = np.unique(found @ [6, 1], return_counts=True)
    assert len(counts) == 15
    expected = len(found) / 15
    assert ((counts - expected) ** 2 / expected).sum() < 36.1  # one in a thousand
    for node in range(3):  # each node by itself, over rounds
        mine = np.array([sampler.batch(draws, node, r) for r in range(1, 601)])
        share = np.bincount(mine.ravel(), minlength=6) / 600
        np.testing.assert_allclose(share, 1 / 3, atol=4 * np.sqrt(2 / 9 / 600))
