"""Checksums of every file of a run: `checksums.txt`, as `sha256sum` writes it, one line per file written.

Lines are appended and synced as files are written; of two lines for one file the later holds. A file that a run
removes (an old checkpoint) gets a line of dashes. At the end of a run the list is written anew, one line per file, so
that `sha256sum -c checksums.txt` checks it without wirelessdl. A process may be killed after it wrote a file and before
it wrote the line: at most the newest file of each kind is then unlisted, and whoever goes on with the run lists it.
"""

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from wirelessdl.errors import TraceError, shown
from wirelessdl.trace.files import read_regular, sha256_of, write_text

NAME = "checksums.txt"
_GONE = "-" * 64
_DOCUMENTS = ("scenario.toml", "provenance.json", "summary.json")
_LINE = re.compile(r"([0-9a-f]{64}|-{64})  (\S.*)")


class Checksums:
    """The list of one run directory, while it is written."""

    def __init__(self, folder: Path):
        self._folder, self._path = folder, folder / NAME

    def wrote(self, *paths: Path) -> None:
        """These files were written."""
        self._append(f"{sha256_of(path)}  {path.relative_to(self._folder).as_posix()}" for path in paths)

    def removed(self, *paths: Path) -> None:
        """These files were removed."""
        self._append(f"{_GONE}  {path.relative_to(self._folder).as_posix()}" for path in paths)

    def adopt(self, *paths: Path) -> None:
        """List files that are not listed: a killed process wrote them, and did not come to list them."""
        listed, _ = read_checksums(self._folder)
        self.wrote(*(path for path in paths if path.relative_to(self._folder).as_posix() not in listed))

    def compact(self) -> None:
        """One line per file that is there."""
        listed, _ = read_checksums(self._folder)
        write_text(self._path, _text({name: listed[name] for name in listed if (self._folder / name).is_file()}))

    def is_left_open(self) -> bool:
        """Whether a killed process did not come to write the list anew. A damaged list, or run, is left as it is."""
        listed, problems = read_checksums(self._folder)
        if problems or not all((self._folder / name).is_file() for name in listed):
            return False
        aside = any(path.name.startswith(f".{NAME}") for path in self._folder.iterdir())
        return aside or read_regular(self._path) != _text(listed).encode()

    def _append(self, lines: Iterable[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        if not text:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            handle = os.open(self._path, flags, 0o666)
            try:
                os.write(handle, text.encode())
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise TraceError(f"{shown(self._path)}: cannot be written: {error.strerror}") from error


def _text(listed: Mapping[str, str]) -> str:
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(listed.items()))


def changed_documents(folder: Path) -> list[str]:
    """A line for each of a run's documents that is not what its checksum says; none where they are not listed."""
    listed, _ = read_checksums(folder)
    found = []
    for name in _DOCUMENTS:
        with suppress(OSError):
            if name in listed and sha256_of(folder / name) != listed[name]:
                found.append(f"{name} differs from its checksum: it was changed since the run wrote it")
    return found


def _is_name(name: str) -> bool:
    """A file within the run, by a name that a file system takes."""
    parts = name.split("/")
    return len(name) <= 500 and "\0" not in name and all(part not in ("", ".", "..") for part in parts)


def read_checksums(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Digest by file name, and a line for each entry that cannot be read; a last line cut short is nothing."""
    try:
        text = read_regular(folder / NAME).decode(errors="replace")
    except FileNotFoundError:
        return {}, [f"{shown(folder / NAME)}: is missing"]
    except OSError as error:
        return {}, [f"{shown(folder / NAME)}: cannot be read: {error.strerror}"]
    listed: dict[str, str] = {}
    problems = []
    *whole, _cut = text.split("\n")
    for number, line in enumerate(whole, start=1):
        found = _LINE.fullmatch(line)
        if found is None or not _is_name(found[2]):
            problems.append(f"{shown(folder / NAME)}: line {number} is damaged")
        elif found[1] == _GONE:
            listed.pop(found[2], None)
        else:
            listed[found[2]] = found[1]
    return listed, problems
