"""Published packages become arrays; corrupt ones say where, and copies are held to the published facts."""

from dataclasses import replace

import numpy as np
import pytest
from made_packages import CIFAR, DIGITS, archive, cifar_files, facts_of, idx, mnist_files, rows

from wirelessdl.learning.data.convert import Corrupt, cifar10_package, idx_array, mnist_package
from wirelessdl.learning.data.images import find_fault


def silent(*_):
    pass


@pytest.mark.parametrize(
    ("convert", "files", "arrays"),
    [(cifar10_package, cifar_files, CIFAR), (mnist_package, mnist_files, DIGITS)],
)
def test_packages_become_the_arrays_they_were_made_from(convert, files, arrays, tmp_path):
    steps = []
    found = convert(archive(tmp_path / "p.tgz", files(*arrays)), lambda *step: steps.append(step))
    for name, expected in zip(("train_x", "train_y", "test_x", "test_y"), arrays, strict=True):
        assert np.array_equal(found[name], expected), name
        assert found[name].dtype == np.uint8
    assert steps[-1][1] == steps[-1][2]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("package/data_batch_3.png", None, "it has no data_batch_3.png"),
        ("package/data_batch_3.png", b"junk", "data_batch_3.png is no readable PNG"),
        ("package/data_batch_3.png", rows(CIFAR[0][:10])[:-2000], "data_batch_3.png is no readable PNG"),
        ("package/test_lables.json", b"[1, 2", "test_lables.json is no list of labels"),
        ("package/test_lables.json", b'["cat"]', "test_lables.json is no list of labels"),
        ("package/test_lables.json", b"[300]", "test_lables.json is no list of labels"),
    ],
)
def test_corrupt_packages_say_where(name, content, words, tmp_path):
    files = cifar_files(*CIFAR)
    files[name] = content
    if content is None:
        del files[name]
    with pytest.raises(Corrupt) as told:
        cifar10_package(archive(tmp_path / "p.tgz", files), silent)
    assert words in str(told.value)


def test_cut_off_archives_and_idx_files_are_corrupt(tmp_path):
    whole = archive(tmp_path / "p.tgz", mnist_files(*DIGITS)).read_bytes()
    for content in (b"junk", whole[: len(whole) // 2]):
        (tmp_path / "p.tgz").write_bytes(content)
        with pytest.raises(Corrupt):
            mnist_package(tmp_path / "p.tgz", silent)
    for content in (b"", b"\0\0\x0d\1", b"\0\0\x08\3\0", idx(DIGITS[0])[:-1]):
        with pytest.raises(Corrupt):
            idx_array("x", content)


def test_what_is_published_is_asked_of_every_copy():
    x, y, test_x, test_y = CIFAR
    facts = facts_of("cifar10", x, y, test_y)
    whole = {"train_x": x, "train_y": y, "test_x": test_x, "test_y": test_y}
    assert find_fault(facts, whole) == ""
    assert "train images are uint8 of shape (49, 3, 32, 32)" in find_fault(facts, {**whole, "train_x": x[1:]})
    assert "test images per class" in find_fault(facts, {**whole, "test_y": np.zeros(10, dtype=np.uint8)})
    assert "mean of the channels" in find_fault(facts, {**whole, "train_x": x[:, ::-1]})
    other = replace(facts, deviation=(0.1, 0.1, 0.1))
    assert "deviation of the channels" in find_fault(other, whole)
