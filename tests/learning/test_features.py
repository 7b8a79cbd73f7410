"""Features come from each sample alone, nothing is fitted, and they are worth having."""

from dataclasses import replace

import numpy as np
import pytest

from wirelessdl.errors import ContractError
from wirelessdl.learning.data import Dataset, FashionSubset
from wirelessdl.learning.features import OrientedGradients, featured


@pytest.fixture(scope="module")
def images():
    return FashionSubset().load().test_x[:700]  # more than one block


def slow_twin(image, grid, orientations, norm):
    """One grey image, pixel by pixel."""
    height, width = image.shape
    pixel = image.astype(float) / max(image.max(), 1)
    intensity, gradient = np.zeros((grid, grid)), np.zeros((orientations, grid, grid))
    area = np.zeros((grid, grid))
    for y in range(height):
        for x in range(width):
            cell = (y * grid // height, x * grid // width)
            right = pixel[y, min(x + 1, width - 1)] - pixel[y, max(x - 1, 0)]
            down = pixel[min(y + 1, height - 1), x] - pixel[max(y - 1, 0), x]
            angle = np.degrees(np.arctan2(down, right))
            nearest = round(angle / (360 / orientations)) % orientations
            intensity[cell] += pixel[y, x]
            gradient[(nearest, *cell)] += np.hypot(right, down)
            area[cell] += 1
    groups = []
    for maps in ([intensity], gradient):
        pooled = [np.sqrt(one / area) for one in maps]
        centred = np.concatenate([(one - one.mean()).ravel() for one in pooled])
        groups.append(np.sqrt(len(maps)) * centred / (np.linalg.norm(centred) or 1.0))
    features = np.concatenate(groups)
    return norm * features / (np.linalg.norm(features) or 1.0)


@pytest.mark.parametrize(("grid", "orientations", "norm"), [(7, 8, 10.0), (5, 6, 1.0)])
def test_features_equal_the_pixel_by_pixel_twin(images, grid, orientations, norm):
    found = OrientedGradients(norm=norm, grid=grid, orientations=orientations).transform(images[:6])
    expected = [slow_twin(image, grid, orientations, norm) for image in images[:6]]
    assert found.shape == (6, grid**2 * (1 + orientations))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-6 * norm)  # float32


def test_a_row_depends_on_its_own_sample_alone(images):
    features, rng = OrientedGradients(), np.random.default_rng(0)
    together = features.transform(images)
    for row in (0, 1, 499, 500, 699):
        assert np.array_equal(features.transform(images[row : row + 1])[0], together[row])
    order = rng.permutation(len(images))
    assert np.array_equal(features.transform(images[order]), together[order])
    others = rng.integers(0, 256, images.shape, dtype=np.uint8)
    others[3] = images[3]
    assert np.array_equal(features.transform(others)[3], together[3])


def test_stored_pixels_fractions_and_flat_rows_are_the_same_image(images):
    features, few = OrientedGradients(), images[:20]
    stored = features.transform(few)
    np.testing.assert_allclose(features.transform(few / 255.0), stored, atol=1e-5)
    np.testing.assert_allclose(features.transform(few / 255.0 * 1e200), stored, atol=1e-5)
    assert np.array_equal(features.transform(few.reshape(20, -1)), stored)
    assert np.array_equal(features.transform(few[:, None]), stored)


def test_colour_images_of_other_sizes_have_intensity_per_channel_and_gradients_of_their_mean():
    colour = np.random.default_rng(1).integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)
    found = OrientedGradients().transform(colour)
    assert found.shape == (4, 49 * 11)
    assert np.array_equal(OrientedGradients().transform(colour.reshape(4, -1)), found)
    grey = OrientedGradients().transform(colour.mean(axis=1))
    # gradients weigh 8 of 11 maps here, and 8 of 9 there
    np.testing.assert_allclose(np.sqrt(11 / 9) * found[:, 147:], grey[:, 49:], atol=1e-5)
    swapped = OrientedGradients().transform(colour[:, [1, 0, 2]])
    np.testing.assert_allclose(swapped[:, :49], found[:, 49:98], atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "words"), [((2, 50), "not an image"), ((2, 6, 28), "smaller than the grid"), ((2, 1, 1, 28, 28), "not")]
)
def test_what_is_no_image_is_refused(shape, words):
    with pytest.raises(ValueError, match=words):
        OrientedGradients().transform(np.ones(shape))


def small():
    data = FashionSubset().load()
    parts = (data.train_x[:30], data.train_y[:30], data.test_x[:20], data.test_y[:20])
    return Dataset("small", *parts, classes=10, scale=255.0, mean=0.286, deviation=0.353)


def test_a_data_set_of_features_is_used_as_it_is():
    data, features = small(), OrientedGradients()
    found = featured(data, features, "oriented-gradients", is_user_class=False)
    assert found.shape == (441,)
    assert np.array_equal(found.normalised(found.train_x), features.transform(data.train_x))
    assert np.array_equal(found.test_x, features.transform(data.test_x))
    assert np.array_equal(found.train_y, data.train_y)


class Rows:
    """The first four pixels, or what a test makes of them."""

    def __init__(self, change=lambda rows: rows):
        self.change = change

    def transform(self, samples):
        return self.change(samples.reshape(len(samples), -1)[:, 300:304].astype(float))


def test_a_users_class_is_used():
    data = small()
    found = featured(data, Rows(), "my.py:Rows", is_user_class=True)
    assert np.array_equal(found.train_x, data.train_x.reshape(30, -1)[:, 300:304])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows - rows.mean(axis=0), "by itself than among others"),
        (lambda rows: rows + np.random.default_rng().normal(size=rows.shape), "by itself than among others"),
        (lambda rows: rows[:, :, None], r"shape \(16, 4, 1\)"),
        (lambda rows: rows[:-1], r"shape \(15, 4\)"),
        (lambda rows: rows * np.nan, "not finite"),
        (lambda rows: rows + 1e300, "not finite"),
        (lambda rows: rows.astype(str), "expected numbers"),
        (lambda rows: rows / None, "my.py:Rows.transform raised TypeError"),
        (lambda rows: rows[:, : 2 + (len(rows) == 30)], "3 features of training samples and 2 of test"),
    ],
)
def test_a_users_class_that_leaks_or_breaks_is_refused(change, words):
    with pytest.raises(ContractError, match=words):
        featured(small(), Rows(change), "my.py:Rows", is_user_class=True)


class Remembers:
    """Takes off the mean of the most samples that it has met."""

    most, mean = 16, 0.0

    def __call__(self, rows):
        if len(rows) > self.most:
            self.most, self.mean = len(rows), rows.mean(axis=0)
        return rows - self.mean


@pytest.mark.parametrize(
    "change", [lambda rows: rows - rows.mean(axis=0) if len(rows) > 16 else rows, Remembers()], ids=["fits", "keeps"]
)
def test_a_users_class_that_fits_once_there_are_enough_samples_is_refused(change):
    with pytest.raises(ContractError, match="by itself than among others"):
        featured(small(), Rows(change), "my.py:Rows", is_user_class=True)


def test_a_built_in_class_that_cannot_read_the_samples_names_its_key():
    data = Dataset("flat", np.ones((4, 50)), np.zeros(4, int), np.ones((4, 50)), np.zeros(4, int), classes=2)
    with pytest.raises(ContractError, match=r"^learning\.features: samples have shape"):
        featured(data, OrientedGradients(), "oriented-gradients", is_user_class=False)


def test_features_are_kept_by_content_and_mapped_again_where_the_file_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("WIRELESSDL_DATA", str(tmp_path))
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (1500, 28, 28), dtype=np.uint8)
    data = Dataset("kept", images, np.zeros(1500, np.int64), images[:10], np.zeros(10, np.int64), 10)
    asked = []

    class Counted(OrientedGradients):
        def transform(self, samples):
            asked.append(len(samples))
            return super().transform(samples)

    def mapped(given=data, **parameters):
        return featured(given, Counted(**parameters), "counted", is_user_class=False).train_x

    first = mapped()
    (kept,) = (tmp_path / "features").iterdir()
    np.testing.assert_array_equal(mapped(), first)
    assert asked == [1500, 10, 10]  # few samples are mapped anew
    mapped(norm=2.0)
    other = replace(data, train_x=255 - images)
    mapped(other)
    assert asked[3:] == [1500, 10, 1500, 10]
    raw = bytearray(kept.read_bytes())
    raw[len(raw) // 2] ^= 1
    kept.write_bytes(raw)
    np.testing.assert_array_equal(mapped(), first)
    assert asked[7:] == [1500, 10]
    np.testing.assert_array_equal(mapped(), first)
    monkeypatch.setenv("WIRELESSDL_DATA", "/proc/none")  # nowhere to keep them
    np.testing.assert_array_equal(mapped(), first)
