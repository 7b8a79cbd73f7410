"""Files that are whole or absent: written aside, synced, renamed."""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from wirelessdl.errors import TraceError


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a hidden file beside `path`, then move it there; readers never see half of it."""
    aside = path.with_name(f".{path.name}")
    try:
        write(aside)
        with aside.open("rb+") as handle:
            os.fsync(handle.fileno())
        aside.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise TraceError(f"{path}: cannot be written: {error.strerror or error}") from error


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda aside: _dump(aside, text))


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(plain(content), indent=2, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """A value JSON can hold: infinities become the text 'inf', NaN becomes null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _dump(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of nested tables, dotted, with its value."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            yield from leaves({str(n): item for n, item in enumerate(value)}, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
