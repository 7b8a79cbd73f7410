"""Data sets: normalisation, splits, made-up data, and a source of one's own."""

import json

import numpy as np
import pytest
from conftest import tiny

from wirelessdl.errors import ContractError, ScenarioError
from wirelessdl.learning.data import DATASETS, Dataset, FashionSubset
from wirelessdl.learning.data.images import NAMES, Cifar10, Mnist, read_cached, write_cached
from wirelessdl.learning.data.synthetic import Synthetic, SyntheticRegression
from wirelessdl.run.build import build


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WIRELESSDL_DATA", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def test_embedded_data_is_the_balanced_subset():
    data = FashionSubset().load()
    assert data.train_x.shape == (12_000, 28, 28)
    assert data.shape == (28, 28)
    assert data.features == 784
    assert np.bincount(data.train_y).tolist() == [1200] * 10
    assert np.bincount(data.test_y).tolist() == [300] * 10
    assert data.train_x.mean() / 255 == pytest.approx(data.mean, abs=0.01)
    assert data.train_x.std() / 255 == pytest.approx(data.deviation, abs=0.01)


def test_bundled_data_are_unpacked_once_and_nobody_may_change_them():
    data = FashionSubset().load()
    assert FashionSubset().load() is data
    assert data.keys is data.keys
    for array in (data.train_x, data.train_y, data.test_x, data.test_y):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_normalisation_is_per_channel_and_equals_the_loop():
    x, y = rng().integers(0, 256, (5, 3, 4, 2)).astype(np.uint8), np.arange(5) % 2
    mean, deviation = (0.1, 0.2, 0.3), (0.5, 1.0, 2.0)
    data = Dataset("made", x, y, x, y, classes=2, scale=255.0, mean=mean, deviation=deviation)
    seen = data.normalised(x)
    for n, c, i, j in np.ndindex(x.shape):
        assert seen[n, c, i, j] == pytest.approx((x[n, c, i, j] / 255 - mean[c]) / deviation[c], rel=1e-14)
    one = Dataset("made", x, y, x, y, classes=2, mean=4.0, deviation=2.0)
    assert np.array_equal(one.normalised(x), (x - 4.0) / 2.0)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"train_y": np.array([0, 1])}, "one label for each sample"),
        ({"train_y": np.array([0, 1, 2])}, "must hold whole numbers from 0 to 1"),
        ({"train_y": np.array([0, 1, -1])}, "must hold whole numbers from 0 to 1"),
        ({"train_y": np.array([0.0, 1, 1])}, "must hold whole numbers from 0 to 1"),
        ({"test_x": np.zeros((3, 5))}, "they must be alike"),
        ({"test_x": np.full((3, 4), np.nan)}, "something other than finite numbers"),
        ({"test_x": np.zeros((0, 4)), "test_y": np.zeros(0, dtype=int)}, "test_x has no samples"),
        ({"mean": (0.1, 0.2)}, "must be one number, or one for each of 1 channels"),
        ({"deviation": 0.0}, "deviation is 0.0; must be finite and > 0"),
        ({"task": "regression"}, "something other than finite floats"),
    ],
)
def test_a_data_set_that_contradicts_itself_is_refused(changed, words):
    x, y = np.zeros((3, 4)), np.array([0, 1, 1])
    whole = {"name": "made", "train_x": x, "train_y": y, "test_x": x, "test_y": y, "classes": 2}
    with pytest.raises(ValueError, match=words):
        Dataset(**{**whole, **changed})


def fake(name, shape, train=100, test=20):
    """A small stand-in for a fetched data set, each image marked with its number."""
    x = np.zeros((train + test, *shape), dtype=np.uint8)
    x.reshape(len(x), -1)[:, 0] = np.arange(train + test)
    y = (np.arange(train + test) % 10).astype(np.uint8)
    write_cached(name, {"train_x": x[:train], "train_y": y[:train], "test_x": x[train:], "test_y": y[train:]})


def marks(data):
    return data.train_x.reshape(len(data.train_x), -1)[:, 0], data.test_x.reshape(len(data.test_x), -1)[:, 0]


@pytest.mark.usefixtures("cache")
def test_the_papers_split_is_four_fifths_of_everything():
    fake("cifar10", (3, 32, 32))
    train, test = marks(Cifar10(split="paper").load())
    assert len(train) == 96
    assert sorted([*train, *test]) == list(range(120))
    assert max(train) > 100  # test images of the standard split are among them
    assert np.array_equal(train, marks(Cifar10(split="paper").load())[0])
    assert not np.array_equal(train, marks(Cifar10(split="paper", seed=1).load())[0])
    standard = Cifar10().load()
    assert marks(standard)[0].tolist() == list(range(100))
    assert standard.mean == (0.49139968, 0.48215841, 0.44653091)
    assert standard.shape == (3, 32, 32)
    assert standard.normalised(standard.test_x).shape == (20, 3, 32, 32)


@pytest.mark.usefixtures("cache")
def test_a_cut_down_set_is_even_over_classes():
    fake("mnist", (28, 28))
    data = Mnist(train_samples=35, test_samples=10).load()
    assert np.bincount(data.train_y, minlength=10).tolist().count(4) == 5
    assert set(np.bincount(data.train_y, minlength=10).tolist()) == {3, 4}
    assert np.bincount(data.test_y).tolist() == [1] * 10
    assert len(set(marks(data)[0].tolist())) == 35
    with pytest.raises(ValueError, match="train_samples is 101; there are only 100"):
        Mnist(train_samples=101).load()


def test_what_is_not_fetched_or_damaged_says_how_to_get_it(cache):
    with pytest.raises(ScenarioError, match=r'learning\.dataset\.kind is "cifar10"; not in .*data fetch cifar10`'):
        build(tiny(learning={"dataset": {"kind": "cifar10"}}), device="cpu")
    fake("mnist", (28, 28))
    content = bytearray((cache / "mnist.npz").read_bytes())
    content[2000] ^= 1  # one bit
    (cache / "mnist.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"mnist\.npz is damaged .*CRC.*--force"):
        read_cached("mnist")
    (cache / "mnist.npz").write_bytes(content[:5000])
    with pytest.raises(ValueError, match=r"mnist\.npz is damaged"):
        read_cached("mnist")


def test_the_mixture_is_the_one_described():
    data = Synthetic(classes=4, features=8, separation=5.0, samples=8000, test_samples=400).load()
    assert np.bincount(data.train_y).tolist() == [2000] * 4
    for label in range(4):
        members = data.train_x[data.train_y == label].astype(np.float64)
        assert abs(np.linalg.norm(members.mean(axis=0)) - 5.0) < 4.5 / np.sqrt(2000) + 8 / 2000
        # a variance of 2000 unit normals scatters by sqrt(2/2000)
        assert np.abs(members.var(axis=0) - 1).max() < 4.5 * np.sqrt(2 / 2000)
    same, other = (Synthetic(seed=seed).load() for seed in (0, 1))
    assert np.array_equal(same.train_x, Synthetic().load().train_x)
    assert not np.array_equal(same.train_x, other.train_x)
    with pytest.raises(ValueError, match="samples is 3; must be at least one for each of 4 classes"):
        Synthetic(classes=4, samples=3)


@pytest.mark.parametrize("condition", [1.0, 100.0])
def test_the_optimum_of_the_regression_is_its_truth(condition):
    data = SyntheticRegression(features=6, noise=0.5, condition=condition, samples=500, weight_norm=2.0).load()
    design = np.hstack([data.train_x, np.ones((500, 1))])
    found, *_ = np.linalg.lstsq(design, data.train_y, rcond=None)
    assert found == pytest.approx(data.truth, abs=1e-10)
    assert np.linalg.norm(data.truth) == pytest.approx(2.0)
    residual = data.train_y - design @ data.truth
    assert residual.std() == pytest.approx(0.5, abs=4.5 * 0.5 / np.sqrt(2 * 493) + 0.5 * 7 / 500)
    variance = data.train_x.var(axis=0)
    assert variance[0] / variance[-1] == pytest.approx(condition, rel=4.5 * np.sqrt(4 / 500))
    assert data.task == "regression"


# a user's own files

YOURS = """
import numpy as np
from wirelessdl.learning.data import Dataset

class Waves:
    def __init__(self, samples: int = 400):
        self.samples = samples
    def load(self):
        y = np.arange(self.samples) % 2
        x = np.sin(np.arange(16) * (1 + y[:, None])).astype(np.float32)
        return Dataset("waves", x, y, x[:10], y[:10], classes=2)

class Tuple:
    def load(self):
        return np.zeros(3), np.zeros(3)

class Wrong:
    def load(self):
        return Dataset("wrong", np.zeros((3, 2)), np.arange(3), np.zeros((3, 2)), np.arange(3), classes=2)
"""


def test_a_source_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(YOURS)
    world = build(tiny(learning={"dataset": {"kind": "mine.py:Waves", "samples": 200}}), device="cpu")
    assert (world.data.name, len(world.data.train_y)) == ("waves", 200)
    with pytest.raises(ContractError, match=r"load\(\) returned tuple, expected a wirelessdl\.learning\.data\.Dataset"):
        build(tiny(learning={"dataset": {"kind": "mine.py:Tuple"}}), device="cpu")
    with pytest.raises(ContractError, match="must hold whole numbers from 0 to 1"):
        build(tiny(learning={"dataset": {"kind": "mine.py:Wrong"}}), device="cpu")


def test_list_says_what_is_there(wirelessdl_command, cache):
    fake("mnist", (28, 28))
    found = {row["name"]: row for row in map(json.loads, wirelessdl_command("data", "list", "--json").out.splitlines())}
    assert list(found) == list(DATASETS)
    assert found["mnist"]["state"] == "ready"
    assert found["mnist"]["path"] == str(cache / "mnist.npz")
    assert found["cifar10"]["state"] == "absent"
    assert "absent: wirelessdl data fetch cifar10" in wirelessdl_command("data", "list").out
    assert set(read_cached("mnist")) == set(NAMES)
