"""What the printed epsilon rests on: whose data a gradient holds, and how far one sample can move it."""

import dataclasses

import numpy as np
import pytest
import tomli_w
import torch
from conftest import refusal, tiny_table
from made_engines import bytes_data, order

from wirelessdl.errors import ContractError
from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.models.closed_form import Softmax
from wirelessdl.learning.models.module import ModuleLearner, seeded
from wirelessdl.learning.models.nets import Cnn
from wirelessdl.learning.records import ModelUpdate, Settings
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.streams import Streams

SIZES = (12, 5, 9)  # uneven clients: two of three batches are padded


def batch_norm(data):
    with seeded(np.random.default_rng(0)):
        return ModuleLearner(Cnn((1, 6, 6), data.classes, channels=4, hidden=6, norm="batch"), (1, 6, 6), data.classes)


def uneven(data, learner, sizes=SIZES, **settings):
    """An engine whose nodes hold `sizes` samples of a data set, in its order."""
    client_indices = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    given = {"batch_size": 4, "clipping": "batch", "clip_norm": 1.0, "projection_radius": 9.0, "gradient_at": "mixed"}
    chosen = Settings(**{**given, "dtype": "float64", **settings})
    return LearningEngine(learner, data, client_indices, Streams(3), chosen)


def alone(nodes, **changes):
    """A round in which every node hears only itself, without noise, and takes a whole gradient."""
    quiet = order(nodes, weights=np.eye(nodes), thermal=0.0)
    return dataclasses.replace(
        quiet, noise_scale=np.zeros(nodes), update=ModelUpdate.everyone(np.ones(nodes)), **changes
    )


def gradients(engine):
    """Every node's gradient of round 1, `[K, m]`."""
    before = engine.x
    engine.round(alone(engine.nodes))
    return (before - engine.x).numpy()


# --- padding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["threads", "vmap", "loop"])
def test_batch_statistics_of_uneven_full_batches_see_no_padding(strategy):
    """Sample 0 is node 0's: another in its place moves node 0's gradient, and nobody else's."""
    data = bytes_data(sum(SIZES))
    other = dataclasses.replace(data, train_x=data.train_x.copy())
    other.train_x[0] = 255 - other.train_x[0]
    found, moved = (gradients(uneven(d, batch_norm(d), sampling="full", strategy=strategy)) for d in (data, other))
    assert np.linalg.norm(found[0] - moved[0]) > 1e-3
    np.testing.assert_array_equal(found[1:], moved[1:])
    # each node's gradient is that of its own samples and no others
    for node, (begin, end) in enumerate([(0, 12), (12, 17), (17, 26)]):
        own = dataclasses.replace(data, train_x=data.train_x[begin:end], train_y=data.train_y[begin:end])
        expected = gradients(uneven(own, batch_norm(own), (end - begin,), sampling="full", strategy=strategy))
        np.testing.assert_allclose(found[node], expected[0], rtol=1e-9, atol=1e-12)


class Flat(torch.nn.Module):
    """Batch normalisation of plain features: one sample has no variance."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(36), torch.nn.Linear(36, 3))

    def forward(self, images):
        return self.net(images)


def test_batch_statistics_of_a_single_sample_are_refused_where_they_do_not_exist():
    data = bytes_data(10)
    engine = uneven(data, ModuleLearner(Flat(), (1, 6, 6), 3), (1, 9), sampling="full")
    with pytest.raises(ContractError, match=r"Flat\.forward raised ValueError: Expected more than 1 value per channel"):
        engine.round(alone(2))
    uneven(data, batch_norm(data), (1, 9), sampling="full").round(alone(2))  # an image has positions


def test_statistics_of_a_node_that_takes_no_step_stand_still():
    data = bytes_data(sum(SIZES))
    engine = uneven(data, batch_norm(data), gradient_at="own")
    engine.round(alone(3))
    before = engine.state()["remembered"]
    silent = ModelUpdate(np.zeros(3, dtype=bool), np.array([False, True, False]), np.array([1.0, 0.0, 0.0]))
    engine.round(dataclasses.replace(alone(3), round=2, update=silent))
    after = engine.state()["remembered"]
    assert (after[0] != before[0]).any()
    np.testing.assert_array_equal(after[1:], before[1:])


# --- gradients that are no numbers ------------------------------------------------------------------------


def outlier(folder, *, feature=0.0, label=0.0, **learning):
    """A scenario on a file of real features and real labels, one sample of which is far out."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    x[7, 2], y[7] = x[7, 2] + feature, y[7] + label
    np.savez(folder / "data.npz", train_x=x, train_y=y, test_x=x[8:20], test_y=y[8:20])
    table = tiny_table(
        learning={
            "dataset": {"kind": "file", "path": "data.npz", "task": "regression"},
            "model": "ridge",
            "partition": {"kind": "iid"},
            "batch_size": 12,
            **learning,
        },
        privacy={"epsilon_max": float("inf")},
    )
    (folder / "x.toml").write_text(tomli_w.dumps(table))
    return parse_scenario(table, folder=str(folder))


@pytest.mark.parametrize("far", [{"feature": 3e38}, {"label": 3e38}])
def test_one_sample_without_a_finite_gradient_leaves_models_finite_and_is_counted(tmp_path, far):
    run = simulate(outlier(tmp_path, **far, sampling="full"), out=tmp_path, device="cpu")
    counted = run.nodes.groupby("node")["nonfinite_gradients"].sum()
    assert sorted(counted.tolist()) == [0, 0, 0, 2]  # in each of two rounds, one sample of the node that holds it
    for name in ("loss", "grad_norm"):
        assert np.isfinite(run.nodes[name]).all()
    assert np.isfinite(run.rounds["consensus_distance"]).all()


def test_data_that_overflow_float32_are_refused_at_load(tmp_path):
    outlier(tmp_path, label=1e39)
    words = (
        'a label of train sample 7 is 1e+39, too large for float32: rescale the data, or set learning.dtype = "float64"'
    )
    assert words in refusal(tmp_path / "x.toml")
    build(outlier(tmp_path, label=1e39, dtype="float64"), device="cpu")
    outlier(tmp_path, feature=1e39)
    assert "sample 7 holds nan, infinity, or a number too large for float32" in refusal(tmp_path / "x.toml")
    data = bytes_data(30)
    with pytest.raises(ValueError, match=r"a feature of train sample \d+ is 255, too large for float32: rescale"):
        uneven(dataclasses.replace(data, deviation=1e-39), Softmax(36, 3), (15, 15), dtype="float32")
