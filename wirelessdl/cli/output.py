"""Standard output that fails: its disk is full, or the reader of a pipe has left.

A write that fails ends a command: with one line and exit code 2, or, where a pipe has no reader, like programs that
SIGPIPE ends, without a word and with 141. A run is not ended in the middle of a round: it stops after it and keeps its
state (`going_on`). What the stream's encoding lacks is escaped.
"""

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from typing import Any, TextIO

from wirelessdl.errors import WirelessdlError

BROKEN_PIPE = 128 + signal.SIGPIPE
_current: "list[Output | None]" = []  # standard output of the command that runs, whatever sys.stdout is meanwhile


class OutputError(WirelessdlError):
    """Standard output that cannot be written to."""


class Output:
    """A text stream that notes the first write that failed. Behaves like the stream in all else."""

    def __init__(self, stream: TextIO):
        self._stream, self._raises = stream, True
        self.lost: OSError | None = None
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            return self._lose(error)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    @contextmanager
    def is_kept(self) -> Iterator[None]:
        """Failures are noted and not raised: whoever runs on looks at `lost`."""
        before, self._raises = self._raises, False
        try:
            yield
        finally:
            self._raises = before

    def _lose(self, error: OSError) -> int:
        if self.lost is None:
            self.lost = error
            nowhere = os.open(os.devnull, os.O_WRONLY)  # for what is buffered, when Python ends
            with suppress(OSError, ValueError):
                os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        if self._raises:
            raise output_error(error)
        return 0


def output_error(error: OSError, then: str = "") -> OutputError:
    """The line for a write that failed. then: what became of the work."""
    raised = OutputError(f"standard output: {os.strerror(error.errno or errno.EIO)}{then and f'; {then}'}")
    raised.__cause__ = error
    return raised


@contextmanager
def guarded() -> Iterator[None]:
    """Standard output and standard error as `Output`, those of the two that are open."""
    before = sys.stdout, sys.stderr
    out, err = (None if stream is None else Output(stream) for stream in before)
    sys.stdout, sys.stderr = out, err
    _current.append(out)
    try:
        with nullcontext() if err is None else err.is_kept():  # nobody is left who could be told
            yield
    finally:
        _current.pop()
        sys.stdout, sys.stderr = before


def standard_output() -> "Output | None":
    """Where results go, also while what others print is sent elsewhere; None where it is closed."""
    return _current[-1] if _current else None if sys.stdout is None else Output(sys.stdout)


def finish() -> None:
    """Write what is buffered. Raises what could not be written, now or before."""
    out = standard_output()
    if out is not None:
        out.flush()
    lost = lost_output()
    if lost is not None:
        raise output_error(lost)


def lost_output() -> OSError | None:
    """Why standard output takes nothing any more; None while it does."""
    out = standard_output()
    return None if out is None else out.lost


@contextmanager
def json_alone(as_json: bool) -> Iterator[None]:
    """Where results are JSON, whatever the user's code prints meanwhile goes to standard error."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        yield


@contextmanager
def going_on() -> Iterator[None]:
    """Standard output that fails ends nothing by itself: the caller looks at `lost_output`."""
    out = standard_output()
    with nullcontext() if out is None else out.is_kept():
        yield
