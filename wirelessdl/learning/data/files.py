"""A user's own data: npz, Parquet, CSV, or a folder of images.

npz      arrays train_x, train_y, test_x, test_y; or x, y, of which `test_share` becomes the test set
Parquet, CSV   a column of labels, all others numbers; `test_path` names a second file, or `test_share` splits
folder   one folder of images per class; or train/ and test/ with such folders in each

uint8 stays uint8; other numbers become float32. Labels of a classification may be anything that sorts:
classes are numbered in that order. Mean and deviation are what the user says: taken from private data
they would leak.
"""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any
from zipfile import BadZipFile

import numpy as np
from annotated_types import Ge, Gt, Lt
from numpy.typing import NDArray

from wirelessdl.errors import ScenarioError, nearest, require_name
from wirelessdl.learning.data.dataset import Dataset, Task
from wirelessdl.memory import require_room_unpacked

_PAIRS = (("train_x", "train_y"), ("test_x", "test_y"))
_IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
_CHANNELS = (1, 3, 4)

Samples = tuple[NDArray[Any], NDArray[Any]]


class File:
    """Your own data: .npz, .parquet, .csv, or a folder with one folder of images per class."""

    def __init__(
        self,
        path: str,
        label: str = "label",
        task: Task = "classification",
        classes: int | list[str] | None = None,
        test_path: str | None = None,
        test_share: Annotated[float, Gt(0), Lt(1)] = 0.2,
        scale: Annotated[float, Gt(0)] | None = None,
        mean: float | list[float] = 0.0,
        deviation: float | list[float] = 1.0,
        image_size: Annotated[int, Ge(1)] | None = None,
        grey: bool = False,
        seed: Annotated[int, Ge(0)] = 0,
        folders: Sequence[Path] = (),
    ):
        self.path, self.test_path, self.folders = path, test_path, folders or (Path.cwd(),)
        self.label, self.task, self.test_share, self.seed = label, task, test_share, seed
        self.classes = classes
        if isinstance(classes, bool) or (
            classes is not None and (classes if isinstance(classes, int) else len(classes)) < 2
        ):
            raise ValueError(f"classes is {classes!r}; must be a number of at least 2, or the names of two or more")
        self.scale, self.mean, self.deviation = scale, mean, deviation
        self.image_size, self.grey = image_size, grey

    def load(self) -> Dataset:
        place = find_file("path", self.path, self.folders)
        parts = self._read("path", self.path, place)
        if self.test_path is not None:
            if len(parts) == 2:
                raise ValueError(
                    f'test_path is "{self.test_path}"; {self.path} has a test set of its own: leave it out'
                )
            parts += self._read("test_path", self.test_path, find_file("test_path", self.test_path, self.folders))[:1]
        x, y = zip(*parts, strict=True)
        labels, classes = self._labels(y)
        samples = [_stored(part) for part in x]
        for part in samples:
            if part.dtype.kind == "f" and not np.isfinite(part).all():
                sample = int(np.argwhere(~np.isfinite(part))[0, 0])
                raise ValueError(
                    f'path is "{self.path}"; sample {sample} holds nan, infinity, or a number too large for float32: '
                    "features must be finite, fill, rescale or drop it"
                )
        if len(parts) == 1:
            samples, labels = self._split(samples[0], labels[0])
        bytes_of_images = samples[0].dtype == np.uint8 and samples[0].ndim > 2
        return Dataset(
            place.stem,
            samples[0],
            labels[0],
            samples[1],
            labels[1],
            classes=classes,
            scale=self.scale if self.scale is not None else 255.0 if bytes_of_images else 1.0,
            mean=tuple(self.mean) if isinstance(self.mean, list) else self.mean,
            deviation=tuple(self.deviation) if isinstance(self.deviation, list) else self.deviation,
            task=self.task,
        )

    def _read(self, key: str, path: str, place: Path) -> list[Samples]:
        """One pair of samples and labels, or two where a test set is beside them."""
        kind = "folder" if place.is_dir() else place.suffix.lower()
        readers: dict[str, Callable[[Path], list[Samples]]] = {
            ".npz": self._npz,
            ".parquet": self._table,
            ".csv": self._table,
            "folder": self._folder,
        }
        if kind not in readers:
            raise ValueError(f'{key} is "{path}"; must be an .npz, .parquet or .csv file, or a folder of images')
        try:
            if kind == ".npz":
                require_room_unpacked(f'{key} is "{path}"', place)
            parts = readers[kind](place)
        except MemoryError:
            raise ValueError(f'{key} is "{path}"; does not fit into memory: bring fewer samples') from None
        except (OSError, BadZipFile, EOFError, zlib.error) as error:
            raise ValueError(f'{key} is "{path}"; cannot be read: {error}') from None
        for x, y in parts:
            if len(x) != len(y) or not len(x):
                raise ValueError(f'{key} is "{path}"; holds {len(x)} samples and {len(y)} labels: needs one label each')
        return parts

    def _npz(self, place: Path) -> list[Samples]:
        try:
            with np.load(place, allow_pickle=False) as arrays:
                kept = {name: arrays[name] for name in {*(n for p in _PAIRS for n in p), "x", "y"} & {*arrays.files}}
                names = arrays.files
        except (ValueError, AttributeError, TypeError):  # no zip of arrays, or arrays of objects
            raise ValueError(
                f'path is "{self.path}"; cannot be read as plain arrays: write it with numpy.savez, without objects'
            ) from None
        pairs = _PAIRS if "train_x" in kept else (("x", "y"),)
        for name in (name for pair in pairs for name in pair):
            if name not in kept:
                raise ValueError(
                    f'path is "{self.path}"; has no array {name}{nearest(name, names)}; it must hold x and y, or '
                    "train_x, train_y, test_x and test_y"
                )
        return [(_channels_first(kept[x]), kept[y]) for x, y in pairs]

    def _table(self, place: Path) -> list[Samples]:
        import pyarrow as pa
        from pyarrow import csv, parquet

        try:
            table = (csv.read_csv if place.suffix.lower() == ".csv" else parquet.read_table)(place)
        except pa.ArrowException as error:
            raise ValueError(f'path is "{self.path}"; cannot be read: {str(error).splitlines()[0]}') from None
        if self.label not in table.column_names:
            shown = table.column_names[:20]
            raise ValueError(f'label is "{self.label}"; {place.name} has no such column{nearest(self.label, shown)}')
        columns = [name for name in table.column_names if name != self.label]
        if not columns:
            raise ValueError(f'path is "{self.path}"; has no column beside the labels: features are missing')
        features = []
        for name in columns:
            kind, column = table.schema.field(name).type, table.column(name)
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
                raise ValueError(f'path is "{self.path}"; column {name} holds {kind}, not numbers: encode or drop it')
            with np.errstate(over="ignore"):  # what leaves float32 is refused afterwards
                features.append(column.to_numpy().astype(np.float32))
        if table.column(self.label).null_count:
            raise ValueError(f'label is "{self.label}"; {place.name} has rows without one: fill or drop them')
        return [(np.column_stack(features), np.asarray(table.column(self.label).to_pylist()))]

    def _folder(self, place: Path) -> list[Samples]:
        parts = [place / "train", place / "test"]
        return [self._classes(part) for part in (parts if all(part.is_dir() for part in parts) else [place])]

    def _classes(self, place: Path) -> Samples:
        folders = sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith("."))
        images, labels = [], []
        for folder in folders:
            for file in sorted(file for file in folder.iterdir() if file.suffix.lower() in _IMAGES):
                images.append(self._image(file))
                labels.append(folder.name)
                if images[-1].shape != images[0].shape:
                    found, others = ("x".join(map(str, images[place].shape)) for place in (-1, 0))
                    raise ValueError(
                        f'path is "{self.path}"; {folder.name}/{file.name} is {found}, others {others}: set '
                        "image_size to bring all to one size"
                    )
        if len(set(labels)) < 2:
            raise ValueError(
                f'path is "{self.path}"; {place.name} has {len(set(labels))} folder(s) with images: '
                "needs one for each of at least two classes"
            )
        return np.stack(images), np.asarray(labels)

    def _image(self, file: Path) -> NDArray[np.uint8]:
        from PIL import Image

        try:
            with Image.open(file) as opened:
                image = opened.convert("L" if self.grey else "RGB")
                if self.image_size is not None:
                    image = image.resize((self.image_size, self.image_size))
                pixels = np.asarray(image)
        except (OSError, SyntaxError, ValueError) as error:
            raise ValueError(f'path is "{self.path}"; {file.parent.name}/{file.name} is no image: {error}') from None
        return pixels if self.grey else pixels.transpose(2, 0, 1)

    def _labels(self, parts: Sequence[NDArray[Any]]) -> tuple[list[NDArray[Any]], int]:
        """Real numbers, or class numbers in the order of the labels."""
        for part in parts:
            if part.ndim != 1:
                raise ValueError(f'path is "{self.path}"; labels have shape {part.shape}: must be one for each sample')
        if self.task == "regression":
            if any(part.dtype.kind not in "iuf" for part in parts):
                raise ValueError('task is "regression"; labels are not numbers: use "classification", or encode them')
            return [part.astype(np.float64) for part in parts], 1
        whole = all(part.dtype.kind != "f" or np.array_equal(part, np.round(part)) for part in parts)
        if not whole:
            raise ValueError('task is "classification"; labels are not whole numbers or words: is it a "regression"?')
        if self.classes is not None:
            count = self.classes if isinstance(self.classes, int) else len(self.classes)
            return [self._stated(part, self.classes) for part in parts], count
        known, number = np.unique(np.concatenate(parts), return_inverse=True)
        if len(known) < 2:
            raise ValueError(f'path is "{self.path}"; all labels are {known[0]!r}: needs at least two classes')
        cuts = np.cumsum([len(part) for part in parts])[:-1]
        return [part.astype(np.int64) for part in np.split(number, cuts)], len(known)

    def _stated(self, labels: NDArray[Any], classes: int | list[str]) -> NDArray[np.int64]:
        """Class numbers, where the scenario says which classes there are: no label adds one."""
        if isinstance(classes, int):
            numeric = labels.dtype.kind in "iuf"
            inside = (labels >= 0) & (labels < classes) if numeric else np.zeros(len(labels), dtype=bool)
            rule, number = f"must be 0 to {classes - 1}", labels
            if not numeric:
                rule = "a number counts classes of numbers; name them, classes = [...]"
        else:
            order = {name: place for place, name in enumerate(classes)}
            number = np.array([order.get(str(label), -1) for label in labels.tolist()])
            inside, rule = number >= 0, "must be one of the classes that are named"
        if not inside.all():
            wrong = labels[~inside][0]
            raise ValueError(f'path is "{self.path}"; label {wrong!r} is none of learning.dataset.classes: {rule}')
        return number.astype(np.int64)

    def _split(self, x: NDArray[Any], y: NDArray[Any]) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        tests = round(self.test_share * len(x))
        if not 0 < tests < len(x):
            raise ValueError(
                f"test_share is {self.test_share:g}; of {len(x)} samples that leaves {tests} to test on and "
                f"{len(x) - tests} to train on: bring more samples, or change it"
            )
        order = np.random.default_rng(self.seed).permutation(len(x))
        test, train = np.sort(order[:tests]), np.sort(order[tests:])
        return [x[train], x[test]], [y[train], y[test]]


def find_file(key: str, path: str, folders: Sequence[Path]) -> Path:
    """The file or folder a user named, looked up like model files are."""
    require_name(path, ScenarioError)
    for folder in folders:
        if (folder / path).exists():
            return folder / path
    looked = ", ".join(dict.fromkeys(str(folder) for folder in folders))
    raise ValueError(f'{key} is "{path}"; no such file or folder in {looked}')


def _channels_first(x: NDArray[Any]) -> NDArray[Any]:
    """[N, H, W, C] as [N, C, H, W], where the shape leaves no doubt."""
    last = x.ndim == 4 and x.shape[3] in _CHANNELS and x.shape[1] not in _CHANNELS
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if last else x


def _stored(x: NDArray[Any]) -> NDArray[Any]:
    if x.ndim == 1:
        x = x[:, None]
    if x.dtype.kind not in "fiub":
        raise ValueError(f"path holds samples of type {x.dtype}; must be numbers")
    with np.errstate(over="ignore"):  # what leaves float32 is refused afterwards
        return x if x.dtype in (np.uint8, np.float32) else x.astype(np.uint8 if x.dtype.kind == "b" else np.float32)
