"""Where fetched data sets are kept: one npz each, whole or absent."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from wirelessdl.errors import DataError

NAMES = ("train_x", "train_y", "test_x", "test_y")


def cache_folder() -> Path:
    """$WIRELESSDL_DATA, else wirelessdl in the user's cache folder."""
    own = os.environ.get("WIRELESSDL_DATA")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "wirelessdl"


def cached(name: str) -> Path:
    """The file that keeps a fetched data set, there or not."""
    return cache_folder() / f"{name}.npz"


def read_cached(name: str) -> dict[str, NDArray[Any]]:
    """Arrays of a fetched data set. A ValueError says how to get it."""
    path = cached(name)
    try:
        with np.load(path) as arrays:
            return {key: arrays[key] for key in NAMES}  # zip checksums are verified on the way
    except FileNotFoundError:
        raise ValueError(
            f'kind is "{name}"; not in {path.parent} yet: fetch it with `wirelessdl data fetch {name}`'
        ) from None
    except (OSError, BadZipFile, KeyError, ValueError, EOFError) as error:
        raise ValueError(
            f'kind is "{name}"; {path} is damaged ({error}): fetch it anew with `wirelessdl data fetch {name} --force`'
        ) from None


def write_cached(name: str, arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Write arrays aside, sync, rename: readers see all or nothing."""
    path = cached(name)
    aside = path.with_name(f".{path.name}")
    try:
        with aside.open("wb") as handle:
            np.savez(handle, **arrays)  # type: ignore[arg-type]
            handle.flush()
            os.fsync(handle.fileno())
        aside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
    return path


@contextmanager
def fetching(name: str) -> Iterator[Path]:
    """The folder for downloads, locked against other processes that fetch the same data set."""
    folder = cache_folder() / "downloads"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / f".{name}.lock").open("w")
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror}; set WIRELESSDL_DATA to a folder") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DataError(f"{folder}: another process is fetching {name}; wait for it") from None
        yield folder
