"""Data in files of the user's: npz, Parquet, CSV and image folders, bad ones included."""

import numpy as np
import pandas as pd
import pytest
from conftest import tiny, tiny_table
from PIL import Image

from wirelessdl.errors import ScenarioError
from wirelessdl.learning.data.files import File
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import parse_scenario


def rng(seed=0):
    return np.random.default_rng(seed)


X, Y = rng(3).standard_normal((60, 4)), np.arange(60) % 3


def table(**columns):
    return pd.DataFrame({**{f"f{n}": X[:, n] for n in range(4)}, "label": Y, **columns})


def images(folder, classes=("cat", "dog"), count=6, size=(8, 8)):
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for n in range(count):
            Image.new("RGB", size, (40 * number, 10 * n, 5)).save(folder / name / f"{n}.png")


def test_npz_with_its_own_test_set_is_taken_as_it_is(tmp_path):
    np.savez(tmp_path / "mine.npz", train_x=X[:40], train_y=Y[:40], test_x=X[40:], test_y=Y[40:])
    data = File("mine.npz", folders=[tmp_path]).load()
    assert np.array_equal(data.train_x, X[:40].astype(np.float32))
    assert np.array_equal(data.test_y, Y[40:])
    assert (data.name, data.classes, data.task) == ("mine", 3, "classification")


def test_npz_parquet_and_csv_give_the_same_samples(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=Y)
    table().to_parquet(tmp_path / "a.parquet")
    table().to_csv(tmp_path / "a.csv", index=False)
    loaded = [File(f"a.{kind}", folders=[tmp_path]).load() for kind in ("npz", "parquet", "csv")]
    for data in loaded:
        assert len(data.test_x) == 12
        assert np.array_equal(data.train_y, loaded[0].train_y)
        assert data.train_x == pytest.approx(loaded[0].train_x, rel=1e-6)
        every = np.concatenate([data.train_x, data.test_x])
        assert sorted(every[:, 0].tolist()) == pytest.approx(sorted(X[:, 0].tolist()), rel=1e-6)


def test_a_second_file_is_the_test_set_and_words_are_classes(tmp_path):
    names = np.array(["ant", "bee", "cow"])[Y]
    table(label=names).to_csv(tmp_path / "train.csv", index=False)
    table(label=names[::-1]).head(9).to_csv(tmp_path / "test.csv", index=False)
    data = File("train.csv", test_path="test.csv", folders=[tmp_path]).load()
    assert len(data.train_y) == 60
    assert data.test_y.tolist() == Y[::-1][:9].tolist()


def test_image_folders_become_bytes_with_channels_first(tmp_path):
    images(tmp_path / "pets")
    data = File("pets", folders=[tmp_path], test_share=0.25, mean=[0.5, 0.5, 0.4], deviation=[0.2, 0.2, 0.2]).load()
    assert data.train_x.shape == (9, 3, 8, 8)
    assert data.train_x.dtype == np.uint8
    assert (data.scale, data.mean) == (255.0, (0.5, 0.5, 0.4))
    assert (data.train_x[:, 0, 0, 0] == 40 * data.train_y).all()
    grey = File("pets", folders=[tmp_path], grey=True, image_size=4).load()
    assert grey.shape == (4, 4)
    images(tmp_path / "split" / "train")
    images(tmp_path / "split" / "test", count=2)
    assert len(File("split", folders=[tmp_path]).load().test_y) == 4


def test_channels_last_are_turned(tmp_path):
    x = rng().integers(0, 256, (20, 6, 5, 3)).astype(np.uint8)
    np.savez(tmp_path / "c.npz", x=x, y=np.arange(20) % 2)
    assert File("c.npz", folders=[tmp_path]).load().shape == (3, 6, 5)


def write_bad(folder):
    np.savez(folder / "letters.npz", x=X, labels=Y)
    np.savez(folder / "nan.npz", x=np.where(np.arange(60)[:, None] == 7, np.nan, X), y=Y)
    np.savez(folder / "one.npz", x=X, y=np.zeros(60, dtype=int))
    np.savez(folder / "few.npz", x=X[:2], y=Y[:2])
    np.savez(folder / "short.npz", x=X, y=Y[:50])
    np.savez(folder / "real.npz", x=X, y=X[:, 0])
    np.savez(folder / "objects.npz", x=X, y=np.array([{}] * 60))
    np.savez(folder / "words.npz", x=np.array([["a"]] * 60), y=Y)
    (folder / "junk.npz").write_text("junk")
    with (folder / "bare.npz").open("wb") as handle:
        np.save(handle, X)
    (folder / "junk.parquet").write_text("junk")
    (folder / "notes.txt").write_text("hello")
    table(colour="red").to_csv(folder / "words.csv", index=False)
    table(f1=np.where(np.arange(60) == 5, np.inf, 1.0)).to_csv(folder / "inf.csv", index=False)
    table(f2=[None, *X[1:, 2]]).to_parquet(folder / "null.parquet")
    table(label=["a", None] * 30).to_parquet(folder / "unlabelled.parquet")
    table().rename(columns={"label": "lable"}).to_csv(folder / "lable.csv", index=False)
    table()[["label"]].to_csv(folder / "bare.csv", index=False)
    images(folder / "single", classes=("cat",))
    (folder / "empty").mkdir()
    images(folder / "sizes")
    Image.new("RGB", (9, 8)).save(folder / "sizes" / "dog" / "wide.png")
    images(folder / "broken")
    (folder / "broken" / "cat" / "z.png").write_text("no image")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"path": "none.npz"}, 'learning.dataset.path is "none.npz"; no such file or folder in '),
        ({}, "missing key learning.dataset.path; file needs it"),
        ({"path": "notes.txt"}, "must be an .npz, .parquet or .csv file, or a folder of images"),
        ({"path": "junk.npz"}, 'path is "junk.npz"; cannot be read'),
        ({"path": "bare.npz"}, "cannot be read as plain arrays"),
        ({"path": "junk.parquet"}, 'path is "junk.parquet"; cannot be read'),
        ({"path": "letters.npz"}, "has no array y; known: labels, x"),
        ({"path": "nan.npz"}, "sample 7 holds nan, infinity, or a number too large for float32: features must be"),
        ({"path": "one.npz"}, "needs at least two classes"),
        ({"path": "few.npz"}, "test_share is 0.2; of 2 samples that leaves 0 to test on and 2 to train on"),
        ({"path": "short.npz"}, "holds 60 samples and 50 labels"),
        ({"path": "real.npz"}, 'labels are not whole numbers or words: is it a "regression"?'),
        ({"path": "objects.npz"}, "cannot be read as plain arrays: write it with numpy.savez, without objects"),
        ({"path": "words.npz"}, "must be numbers"),
        ({"path": "words.csv"}, "column colour holds string, not numbers: encode or drop it"),
        ({"path": "words.csv", "label": "colour", "task": "regression"}, "labels are not numbers"),
        ({"path": "inf.csv"}, "sample 5 holds nan, infinity, or a number"),
        ({"path": "null.parquet"}, "sample 0 holds nan, infinity, or a number"),
        ({"path": "unlabelled.parquet"}, "has rows without one: fill or drop them"),
        ({"path": "lable.csv"}, 'label is "label"; lable.csv has no such column; did you mean lable?'),
        ({"path": "bare.csv"}, "has no column beside the labels"),
        ({"path": "single"}, "single has 1 folder(s) with images: needs one for each of at least two classes"),
        ({"path": "empty"}, "empty has 0 folder(s) with images"),
        ({"path": "sizes"}, "dog/wide.png is 3x8x9, others 3x8x8: set image_size"),
        ({"path": "broken"}, "cat/z.png is no image"),
        ({"path": "sizes", "image_size": 8, "mean": [0.1, 0.2]}, "one for each of 3 channels"),
        ({"path": "few.npz", "test_share": 1.5}, "learning.dataset.test_share is 1.5; must be < 1"),
        ({"path": "lable.csv", "lable": "lable"}, "unknown key learning.dataset.lable; did you mean label?"),
    ],
)
def test_bad_files_are_told_in_one_line(part, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_bad(tmp_path)
    with pytest.raises(ScenarioError) as told:
        build(tiny(learning={"dataset": {"kind": "file", **part}}), device="cpu")
    assert words in str(told.value)
    assert "\n" not in str(told.value)


def test_files_are_looked_up_beside_the_scenario(tmp_path, monkeypatch):
    (tmp_path / "study").mkdir()
    (tmp_path / "elsewhere").mkdir()
    np.savez(tmp_path / "study" / "mine.npz", x=np.tile(X, (4, 1)), y=np.tile(Y, 4))
    monkeypatch.chdir(tmp_path / "elsewhere")
    table = tiny_table(learning={"dataset": {"kind": "file", "path": "mine.npz"}})
    world = build(parse_scenario(table, folder=str(tmp_path / "study")), device="cpu")
    assert world.data.name == "mine"
    assert world.resolved.learning.dataset.parameters["path"] == "mine.npz"
    assert "folders" not in world.resolved.learning.dataset.parameters
