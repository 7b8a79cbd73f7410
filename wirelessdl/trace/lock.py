"""One writer per run directory.

The lock is the kernel's (flock), so it is released when its process ends, however that happens; the file's text only
names the process.
"""

import fcntl
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from wirelessdl.errors import TraceError

_NAME = "lock"
_PATIENCE_S = 0.3


class RunLock:
    """Held while a process writes a run."""

    def __init__(self, folder: Path):
        self._path = folder / _NAME
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self._path.touch()
                # open for reading only: a disk may turn read-only under a run, and must be able to
                handle: IO[str] = self._path.open("r", encoding="utf-8")
            except OSError as error:
                raise TraceError(f"{self._path}: cannot be written: {error.strerror}") from error
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_this_file(handle):
                    break
            except OSError:
                if time.monotonic() > deadline:
                    owner = handle.read().strip() or "another process"
                    handle.close()
                    raise TraceError(f"{folder}: is being written by {owner}; wait for it, or stop it") from None
                time.sleep(0.02)  # a reader may hold it for a moment
            handle.close()
        self._handle = handle
        self._path.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")

    def _is_this_file(self, handle: IO[str]) -> bool:
        """Whether the file locked is still the one in the folder: its last owner removes it."""
        try:
            return os.path.samestat(os.fstat(handle.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        self._handle.close()

    def __enter__(self) -> "RunLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_locked(folder: Path) -> bool:
    """Whether a running process writes this run."""
    try:
        with (folder / _NAME).open("r", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
