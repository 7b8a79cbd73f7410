"""Gradients and draws; torchvision under a CPU torch."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from wirelessdl.learning.clipping import sensitivity
from wirelessdl.learning.draws import NodeDraws, _scramble
from wirelessdl.learning.models.closed_form import Softmax
from wirelessdl.learning.superposition import consensus_distance, project_
from wirelessdl.streams import Streams

CPU = torch.device("cpu")


def loop_gradient(weights, features, labels, clipping, clip_norm):
    """Autograd, one node and one sample at a time."""
    gradients = []
    for node in range(len(weights)):
        samples = []
        for a, y in zip(features[node], labels[node]):
            w = weights[node].clone().requires_grad_()
            scores = w.view(-1, len(a)) @ a
            torch.nn.functional.cross_entropy(scores[None], y[None]).backward()
            g = w.grad
            if clipping == "per-sample":
                g = g * min(1.0, clip_norm / float(g.norm()))
            samples.append(g)
        g = torch.stack(samples).mean(0)
        if clipping == "batch":
            g = g * min(1.0, clip_norm / float(g.norm()))
        gradients.append(g)
    return torch.stack(gradients)


@pytest.mark.parametrize("clipping", ["per-sample", "batch"])
@pytest.mark.parametrize("clip_norm", [0.1, 1.0, 100.0])
def test_batched_gradients_equal_the_loop(clipping, clip_norm):
    generator = torch.Generator().manual_seed(0)
    learner = Softmax(features=6, classes=3)
    weights = torch.randn(4, learner.size, generator=generator, dtype=torch.float64)
    features = torch.randn(4, 5, 7, generator=generator, dtype=torch.float64)
    labels = torch.randint(3, (4, 5), generator=generator)
    gradient, loss = learner.gradient(weights, features, labels, clipping, clip_norm)
    expected = loop_gradient(weights, features, labels, clipping, clip_norm)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-14)
    scores = learner.scores(weights, features[2])[2]
    expected_loss = torch.nn.functional.cross_entropy(scores, labels[2])
    torch.testing.assert_close(loss[2], expected_loss)


def test_replacing_one_sample_moves_the_gradient_by_no_more_than_the_sensitivity():
    generator = torch.Generator().manual_seed(1)
    learner = Softmax(features=6, classes=3)
    weights = torch.zeros(50, learner.size, dtype=torch.float64)
    features = torch.randn(50, 5, 7, generator=generator, dtype=torch.float64)
    features[:, 0] *= 1000.0  # one sample outweighs the batch, and is replaced by its opposite
    labels = torch.randint(3, (50, 5), generator=generator)
    other = features.clone()
    other[:, 0] *= -1.0
    for clipping in ("per-sample", "batch"):
        moved = (
            learner.gradient(weights, features, labels, clipping, 1.0)[0]
            - learner.gradient(weights, other, labels, clipping, 1.0)[0]
        ).norm(dim=1)
        bound = sensitivity(clipping, 1.0, np.array([5.0]))[0]
        assert moved.max() <= bound * (1 + 1e-12)
        assert moved.max() > 0.99 * bound


def test_projection_keeps_the_inside_and_shortens_the_outside():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    torch.testing.assert_close(project_(x, 1.0), torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))


def test_consensus_distance_of_two_opposite_models():
    assert consensus_distance(torch.tensor([[3.0, 0.0], [-3.0, 0.0]])) == 3.0
    four = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert consensus_distance(four) == pytest.approx(2.0**0.5)  # root of the mean square, not the mean


def test_draws_depend_on_node_and_round_alone():
    draws = NodeDraws(Streams(1, 1), 4, CPU)
    batch = draws.batch(2, 7, 100, 10)
    noise = torch.empty(4, 50)
    draws.fill_normal(noise, 7, "noise")
    other = NodeDraws(Streams(1, 1), 4, CPU)
    later = torch.empty(4, 50)
    other.fill_normal(later, 8, "noise")
    other.fill_normal(later, 7, "noise")
    np.testing.assert_array_equal(other.batch(2, 7, 100, 10), batch)
    torch.testing.assert_close(later, noise, rtol=0, atol=0)
    thermal = torch.empty(4, 50)
    draws.fill_normal(thermal, 7, "thermal")
    assert (thermal != noise).all()


def test_batches_are_uniform_without_replacement():
    draws = NodeDraws(Streams(1, 1), 4, CPU)
    counts = np.zeros(20)
    for round in range(2000):
        batch = draws.batch(0, round, 20, 5)
        assert len(set(batch.tolist())) == 5
        counts[batch] += 1
    # each sample is in a batch with probability 1/4
    assert np.abs(counts - 500).max() < 4.5 * np.sqrt(2000 * 0.25 * 0.75)


def test_noise_is_standard_normal_and_rows_are_uncorrelated():
    out = torch.empty(40, 5000, dtype=torch.float64)
    NodeDraws(Streams(1, 1), 40, CPU).fill_normal(out, 1, "noise")
    values = out.numpy()
    assert abs(values.mean()) < 4 / np.sqrt(values.size)
    assert abs(values.var() - 1) < 4 * np.sqrt(2 / values.size)
    correlation = np.corrcoef(values)[np.triu_indices(40, 1)]
    assert np.abs(correlation).max() < 4.5 / np.sqrt(5000)


def test_seeds_of_nodes_and_rounds_never_collide():
    words = {_scramble(base) for base in range(100_000)}
    assert len(words) == 100_000


def test_torchvision_imports_under_any_torch():
    """In a process of its own: a failed import would leave traces in this one."""
    code = """
from wirelessdl.learning.data.fetch import import_torchvision
torchvision = import_torchvision()
import numpy as np, torch
from torchvision.transforms.v2.functional import horizontal_flip
assert horizontal_flip(torch.arange(3.0).view(1, 1, 3)).flatten().tolist() == [2, 1, 0]
assert import_torchvision() is torchvision
print(torchvision.datasets.FashionMNIST.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "FashionMNIST", done.stderr
