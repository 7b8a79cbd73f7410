"""Files that are whole or absent: written aside, synced, renamed; and folders that are ours.

The file aside is hidden and bears a name that no other writer has, so that two of one file do not share it. A killed
process leaves it; whoever goes on with the run removes it, and no other hidden file.

A run directory may come from an untrusted source. Nothing is written through a symbolic link in it: the file aside is
created (O_EXCL, O_NOFOLLOW), the rename replaces whatever bears the final name, and a table's folder must be a folder.
Only regular files are opened for reading: a pipe would never end.

One process writes a run at a time. Its lock is the kernel's (flock), so it falls with the process that held it,
however that ended; the text of the lock's file only says who it was.
"""

import errno
import fcntl
import hashlib
import json
import math
import os
import re
import secrets
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from wirelessdl.errors import TraceError, quote, require_name

LOCK = "lock"
_LOCK_PATIENCE_S = 0.3
_MAX_NAME_CHARACTERS = 48  # characters of a file's name in that of the file aside: a file system takes 255 bytes
_MARK = "\0inf"  # stands for infinity while JSON is made: no text of a run holds a zero byte
_MAX_REPORT_WRITING_S = 60.0  # a page is rendered before its file is opened: writing takes a moment
_STUDY_FILES = ("study.json", "scenario.toml", "index.parquet", "runs", "models", "errors", "stop", "lock")


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a hidden new file beside `path`, then move it there; readers never see half of it."""
    aside = path.with_name(f".{path.name[:_MAX_NAME_CHARACTERS]}.{secrets.token_hex(4)}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(aside, flags, 0o666), "wb") as handle:
            write(handle)
            handle.flush()
            os.fsync(handle.fileno())
        aside.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise TraceError(f"{quote(path)}: cannot be written: {error.strerror or error}") from error


def remove_asides(folder: Path, names: str, *, older_s: float = 0.0) -> None:
    """Remove what killed processes left half-written in a folder of ours: files aside of names that match `names`.

    names: a regular expression. older_s: younger ones stay, for what is written without a lock may be in the making.
    """
    aside = re.compile(rf"\.(?:{names})\.[0-9a-f]{{8}}")
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in folder.iterdir():
        if aside.fullmatch(path.name) and (path.is_symlink() or path.is_file()):
            with suppress(FileNotFoundError):  # its writer has just finished, or another removed it
                if not older_s or time.time() - path.lstat().st_mtime > older_s:
                    path.unlink()


def remove_left_report(folder: Path) -> None:
    """Remove what killed processes left of the report of a run or study; reports are written without a lock."""
    remove_asides(folder, r"report\.html", older_s=_MAX_REPORT_WRITING_S)


def write_bytes(path: Path, content: bytes) -> None:
    write_whole(path, lambda handle: handle.write(content))


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, content: Any) -> None:
    write_text(path, json_text(content))


def json_text(content: Any) -> str:
    """JSON in which infinities are the text "inf", for what is written down and read again by key."""
    return json.dumps(plain(content), indent=2, allow_nan=False) + "\n"


def figures_text(content: Any, indent: int | None = None) -> str:
    """JSON in which infinities are numbers: 1e999, which Python and JavaScript read as infinity. NaN is null."""
    text = json.dumps(
        plain(content, infinity=_MARK),
        indent=indent,
        allow_nan=False,
        default=lambda value: plain(value.tolist(), infinity=_MARK),  # a number or an array of NumPy
    )
    return text.replace(json.dumps(_MARK), "1e999").replace(json.dumps(f"-{_MARK}"), "-1e999")


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises TraceError where it is none."""
    try:
        content = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError) as error:
        raise TraceError(f"{quote(path)}: cannot be read: {quote(error)}") from None
    if not isinstance(content, dict):
        raise TraceError(f"{quote(path)}: holds no JSON object")
    return content


def read_object_if_whole(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is none, for a damaged run is listed too."""
    with suppress(TraceError):
        return read_object(path)
    return {}


def own_folder(path: Path) -> Path:
    """A folder within a run directory, made if it is not there; a link to somewhere else is refused."""
    try:
        path.mkdir(exist_ok=True)
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise TraceError(f"{quote(path)}: is not a folder of this run but a link; nothing is written through it")
    except OSError as error:
        raise TraceError(f"{quote(path)}: cannot be written: {error.strerror}") from error
    return path


def require_outside(path: Path, *, but: str = "") -> None:
    """Raise where a path is a run directory or lies in one, or is what a study wrote: neither could be verified.

    but: a file that may lie in a run all the same. A folder with a scenario alone is no run. Beside its own files a
    study's folder takes others, such as figures.
    """
    require_name(path, TraceError)
    whole = path.resolve()
    for folder in (whole, *whole.parents):
        if not (folder / "scenario.toml").is_file():
            continue
        if (folder / "study.json").is_file():
            if whole != folder and whole.relative_to(folder).parts[0] in _STUDY_FILES:
                raise TraceError(f"{quote(path)}: belongs to the study {quote(folder)}; choose another place")
        elif (folder / "provenance.json").is_file():
            if but and whole == folder / but:
                return  # whatever the run lies in
            where = "is a run" if whole == folder else f"lies in the run {quote(folder)}"
            raise TraceError(f"{quote(path)}: {where}, which holds its own files only; choose another place")


def read_regular(path: Path) -> bytes:
    """The content of a regular file. Raises OSError for anything else, such as a pipe, without waiting for it."""
    with open_regular(path) as handle:
        return handle.read()


def open_regular(path: Path) -> BufferedReader:
    """A regular file, for reading; links are followed, as everywhere."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def sha256_of(path: Path) -> str:
    """Hex digest of a regular file."""
    with open_regular(path) as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def plain(value: Any, infinity: str = "inf") -> Any:
    """A value JSON can hold: infinities become the text 'inf', NaN becomes null."""
    if isinstance(value, dict):
        return {key: plain(item, infinity) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, infinity) for item in value]
    if type(value).__module__ == "numpy":  # arrays and their numbers
        return plain(value.tolist(), infinity)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else (infinity if value > 0 else f"-{infinity}")
    return value


def sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of nested tables, dotted, with its value."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            yield from leaves({str(n): item for n, item in enumerate(value)}, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


class StablePath:
    """A path as the user named it, though their code changes the working folder while a run goes on."""

    def __init__(self, named: Path):
        self._named, self._folder = named, _working_folder()
        self.absolute = Path(self._folder) / named

    @property
    def path(self) -> Path:
        """A name that leads there from the working folder: as it was named, else absolute."""
        return self._named if _working_folder() == self._folder else self.absolute


def _working_folder() -> str:
    """Its name; an empty one where it is gone."""
    with suppress(OSError):
        return os.getcwd()
    return ""


class LockedError(TraceError):
    """Somebody else holds the lock."""


class RunLock:
    """Held while a process writes a run; or, under another file name, whatever that stands for."""

    def __init__(self, folder: Path, name: str = LOCK):
        self._path, self._name, self._folder = folder / name, name, StablePath(folder)
        deadline = time.monotonic() + _LOCK_PATIENCE_S
        while True:
            try:
                # open for reading only: a disk may turn read-only under a run, and must be able to
                handle = _open(self._path, os.O_RDONLY | os.O_CREAT)
            except OSError as error:
                reason = "is a link, which is not followed" if error.errno == errno.ELOOP else error.strerror
                raise TraceError(f"{quote(self._path)}: cannot be written: {reason}") from error
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_this_file(handle):
                    break
            except OSError:
                if time.monotonic() > deadline:
                    owner = os.read(handle, 200).decode(errors="replace").strip() or "another process"
                    os.close(handle)
                    raise LockedError(
                        f"{quote(folder)}: is being written by {quote(owner)}; wait for it, or stop it"
                    ) from None
                time.sleep(0.02)  # somebody may only be looking
            os.close(handle)
        self._handle = handle
        try:
            text = _open(self._path, os.O_WRONLY | os.O_TRUNC)
            os.write(text, f"process {os.getpid()} on {socket.gethostname()}".encode())
            os.close(text)
        except OSError as error:
            os.close(handle)
            raise TraceError(f"{quote(self._path)}: cannot be written: {error.strerror}") from error

    def _is_this_file(self, handle: int) -> bool:
        """Whether the file locked is still the one in the folder: its last owner removes it."""
        try:
            return os.path.samestat(os.fstat(handle), self._path.lstat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        with suppress(OSError):
            (self._folder.path / self._name).unlink(missing_ok=True)
        os.close(self._handle)

    def __enter__(self) -> "RunLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_locked(folder: Path, name: str = LOCK) -> bool:
    """Whether a running process writes this run."""
    try:
        handle = _open(folder / name, os.O_RDONLY)
    except OSError:
        return False  # no lock, or nothing that one of our processes could hold
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _open(path: Path, flags: int) -> int:
    """A regular file, never a link, never waiting for a pipe."""
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a file")
    return handle
