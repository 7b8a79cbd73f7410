"""One writer per run directory.

The lock is the kernel's (flock), so it falls with the process that held it, however that ended; the
file's text only says who it was. A link in place of the file is refused, not followed.
"""

import errno
import fcntl
import os
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path

from wirelessdl.errors import TraceError, shown
from wirelessdl.trace.files import StablePath

LOCK = "lock"
_PATIENCE_S = 0.3


class LockedError(TraceError):
    """Somebody else holds the lock."""


class RunLock:
    """Held while a process writes a run; or, under another file name, whatever that stands for."""

    def __init__(self, folder: Path, name: str = LOCK):
        self._path, self._name, self._folder = folder / name, name, StablePath(folder)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                # open for reading only: a disk may turn read-only under a run, and must be able to
                handle = _open(self._path, os.O_RDONLY | os.O_CREAT)
            except OSError as error:
                reason = "is a link, which is not followed" if error.errno == errno.ELOOP else error.strerror
                raise TraceError(f"{shown(self._path)}: cannot be written: {reason}") from error
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_this_file(handle):
                    break
            except OSError:
                if time.monotonic() > deadline:
                    owner = os.read(handle, 200).decode(errors="replace").strip() or "another process"
                    os.close(handle)
                    raise LockedError(
                        f"{shown(folder)}: is being written by {shown(owner)}; wait for it, or stop it"
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
            raise TraceError(f"{shown(self._path)}: cannot be written: {error.strerror}") from error

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
