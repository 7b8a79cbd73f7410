"""The writer of a run directory: Parquet parts, whole or absent, one per table and flush.

A part is named by the last round it holds, so parts written after a round can be found by name. Columns become Arrow
arrays from their buffers: `pa.array` would do the same, but imports pandas first, which a run that only writes does
without (0.4 s).

`checksums.txt` has a line for every file, as `sha256sum` writes it. Lines are appended and synced as files are written;
of two lines for one file the later holds. A file that a run removes (an old checkpoint) gets a line of dashes. At the
end of a run the list is written anew, one line per file, so that `sha256sum -c checksums.txt` checks it without
wirelessdl. A process may be killed after it wrote a file and before it wrote the line: at most the newest file of each
kind is then unlisted, and whoever goes on with the run lists it.
"""

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
from numpy.typing import NDArray

from wirelessdl.errors import TraceError, quote
from wirelessdl.trace.files import (
    StablePath,
    figures_text,
    json_text,
    own_folder,
    read_regular,
    remove_asides,
    remove_left_report,
    sha256_of,
    sync_folder,
    write_bytes,
    write_text,
    write_whole,
)
from wirelessdl.trace.schema import TABLES, part_schema

if TYPE_CHECKING:  # readers of runs load this module, and none that loads scenarios
    from wirelessdl.scenario.part import UserFile

CHECKSUMS = "checksums.txt"
_DOCUMENTS = ("scenario.toml", "provenance.json", "summary.json")
_ASIDES = "|".join(map(re.escape, (*_DOCUMENTS, CHECKSUMS)))
_NUMBERS: dict[pa.DataType, Any] = {pa.int32(): np.int32, pa.int64(): np.int64, pa.float64(): np.float64}
_GONE = "-" * 64
_LINE = re.compile(r"([0-9a-f]{64}|-{64})  (\S.*)")


def create_run_folder(parent: Path, name: str, prepare: Callable[[Path], None]) -> Path:
    """A new folder `name`, or `name-2`, `name-3`, ... where that exists; nothing is ever overwritten.

    `prepare` fills it under a hidden name first: under its own name a run is there with its scenario, or not at all.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        aside = parent / f".{name}.{secrets.token_hex(4)}"
        aside.mkdir()
        try:
            prepare(aside)
            sync_folder(aside)
            folder, number = parent / name, 1
            while not _renamed(aside, folder):
                number += 1
                folder = parent / f"{name}-{number}"
            sync_folder(parent)
            return folder
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    except OSError as error:
        raise TraceError(
            f"--out is {quote(parent)}; cannot be written to: {error.strerror}: choose another folder"
        ) from None


def _renamed(aside: Path, folder: Path) -> bool:
    """Rename a folder, unless another process has taken the name."""
    try:
        if not folder.exists() and not folder.is_symlink():
            aside.rename(folder)
            return True
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise
    return False


class Checksums:
    """The list of one run directory, while it is written."""

    def __init__(self, folder: Path):
        self._folder, self._path = folder, folder / CHECKSUMS

    def wrote(self, *paths: Path) -> None:
        """These files were written."""
        self._append({path: sha256_of(path) for path in paths})

    def removed(self, *paths: Path) -> None:
        """These files were removed."""
        self._append(dict.fromkeys(paths, _GONE))

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
        aside = any(path.name.startswith(f".{CHECKSUMS}") for path in self._folder.iterdir())
        return aside or read_regular(self._path) != _text(listed).encode()

    def _append(self, digests: Mapping[Path, str]) -> None:
        if not digests:
            return
        text = "".join(f"{digest}  {path.relative_to(self._folder).as_posix()}\n" for path, digest in digests.items())
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            handle = os.open(self._path, flags, 0o666)
            try:
                os.write(handle, text.encode())
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise TraceError(f"{quote(self._path)}: cannot be written: {error.strerror}") from error


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
        text = read_regular(folder / CHECKSUMS).decode(errors="replace")
    except FileNotFoundError:
        return {}, [f"{quote(folder / CHECKSUMS)}: is missing"]
    except OSError as error:
        return {}, [f"{quote(folder / CHECKSUMS)}: cannot be read: {error.strerror}"]
    listed: dict[str, str] = {}
    problems = []
    *whole, _cut = text.split("\n")
    for number, line in enumerate(whole, start=1):
        found = _LINE.fullmatch(line)
        if found is None or not _is_name(found[2]):
            problems.append(f"{quote(folder / CHECKSUMS)}: line {number} is damaged")
        elif found[1] == _GONE:
            listed.pop(found[2], None)
        else:
            listed[found[2]] = found[1]
    return listed, problems


class RunWriter:
    """Everything that goes into one run directory."""

    def __init__(self, folder: Path):
        self._folder = StablePath(folder)

    @property
    def folder(self) -> Path:
        return self._folder.path

    @property
    def _sums(self) -> Checksums:
        return Checksums(self.folder)

    def scenario(self, table: Mapping[str, Any]) -> None:
        self._document("scenario.toml", tomli_w.dumps(dict(table)))

    def provenance(self, content: Mapping[str, Any]) -> None:
        self._document("provenance.json", json_text(content))

    def summary(self, content: Mapping[str, Any]) -> None:
        self._document("summary.json", figures_text(content, indent=2) + "\n")

    def _document(self, name: str, text: str) -> None:
        write_text(self.folder / name, text)
        self._sums.wrote(self.folder / name)

    def user_file(self, file: "UserFile") -> None:
        """Keep a copy of a user's file that the run loaded, under a flat name."""
        try:
            content = file.path.read_bytes() if file.content is None else file.content
        except OSError as error:
            raise TraceError(f"{quote(file.path)}: cannot be read any more: {error.strerror}") from error
        from wirelessdl.scenario.part import MODELS

        path = own_folder(self.folder / MODELS) / file.stored_name
        write_bytes(path, content)
        self._sums.wrote(path)

    def finish(self) -> None:
        """Nothing more will be written: the list of checksums becomes one line per file."""
        remove_asides(self.folder, _ASIDES)
        self._sums.compact()

    def snapshot(self, name: str, columns: Mapping[str, Any]) -> None:
        """The whole of a table, in place of what was there."""
        self.part(name, columns, 0, 0)

    def discard_after(self, round: int) -> None:
        """Remove the parts that hold rounds after this one, and what a killed process left half-written."""
        from wirelessdl.scenario.part import MODELS

        gone = [path for path in (self.folder / "summary.json",) if path.is_file()]
        for name in TABLES:
            if (self.folder / name).is_symlink():
                continue  # refused where it is written to
            for path in (self.folder / name).glob("part-*.parquet"):
                number = path.stem.removeprefix("part-")
                if number.isdecimal() and int(number) > round:
                    gone.append(path)
            remove_asides(self.folder / name, r"part-\d+\.parquet")
        for path in gone:
            path.unlink()
        self._sums.removed(*gone)
        remove_asides(self.folder, _ASIDES)
        remove_asides(self.folder / MODELS, r"[0-9a-f]{12}-.+")
        remove_left_report(self.folder)

    def part(self, name: str, columns: Mapping[str, Any], first_round: int, last_round: int) -> None:
        """One part of a table; columns that are masked arrays become null where masked."""
        schema = part_schema(name, first_round, last_round)
        table = pa.table([arrow_array(columns[field.name], field.type) for field in schema], schema=schema)
        texts = [field.name for field in schema if pa.types.is_dictionary(field.type)] or False  # numbers seldom repeat
        options: dict[str, Any] = {"row_group_size": 1 << 20, "use_dictionary": texts, "write_page_checksum": True}
        path = own_folder(self.folder / name) / f"part-{last_round:06d}.parquet"
        write_whole(path, lambda handle: pq.write_table(table, handle, **options))
        self._sums.wrote(path)


def arrow_array(values: Any, kind: pa.DataType) -> pa.Array:
    """A column of numbers, booleans, texts or lists of numbers; null where a masked array is masked."""
    if pa.types.is_dictionary(kind):
        return _texts(values).dictionary_encode()
    if pa.types.is_string(kind):
        return _texts(values)
    if pa.types.is_list(kind):
        lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
        flat = np.array(list(chain.from_iterable(values)))
        return pa.ListArray.from_arrays(_offsets(lengths), arrow_array(flat, kind.value_type), type=kind)
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    plain = np.ma.getdata(values)
    data = _bits(plain) if pa.types.is_boolean(kind) else pa.py_buffer(_as_numbers(plain, kind))
    nulls = 0 if mask is None else int(mask.sum())
    valid = _bits(~mask) if mask is not None and nulls else None
    return pa.Array.from_buffers(kind, len(plain), [valid, data], null_count=nulls)


def _as_numbers(values: NDArray[Any], kind: pa.DataType) -> NDArray[Any]:
    """In the column's type. Numbers that it cannot hold are a bug of ours, as are other things than numbers."""
    target = _NUMBERS[kind]
    if not len(values):
        return np.empty(0, dtype=target)
    if target is not np.float64:
        limits = np.iinfo(target)
        if values.dtype.kind not in "iu" or values.min() < limits.min or values.max() > limits.max:
            raise ValueError(f"{values.dtype} from {values.min()} to {values.max()} does not fit into {kind}")
    return np.ascontiguousarray(values.astype(target, casting="same_kind", copy=False))


def _bits(values: NDArray[Any]) -> pa.Buffer:
    if len(values) and values.dtype != np.bool_:
        raise ValueError(f"{values.dtype} is not boolean")
    return pa.py_buffer(np.packbits(values.astype(bool), bitorder="little"))


def _texts(values: Sequence[str]) -> pa.Array:
    encoded = [value.encode() for value in values]
    offsets = _offsets(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
    return pa.StringArray.from_buffers(len(encoded), offsets.buffers()[1], pa.py_buffer(b"".join(encoded)))


def _offsets(lengths: NDArray[Any]) -> pa.Array:
    return arrow_array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), pa.int32())
