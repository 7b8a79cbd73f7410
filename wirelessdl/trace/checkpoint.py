"""Checkpoints: the state that a run needs to continue exactly as if it had not been interrupted.

One npz file each, plain arrays and one JSON text, no pickle; written aside, synced, renamed. The newest
and the one before are kept, so that a file damaged later still leaves one to go on from.
"""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.errors import TraceError
from wirelessdl.trace.files import plain, write_whole

VERSION = 2
_FOLDER, _KEPT, _FACTS = "checkpoint", 2, "facts"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """State after a round: arrays, and facts that JSON can hold."""

    round: int
    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]


def save_checkpoint(run: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, and remove all but the newest two."""
    folder = run / _FOLDER
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise TraceError(f"{folder}: cannot be written: {error.strerror}") from error
    text = json.dumps(plain({"schema": VERSION, "round": checkpoint.round, **checkpoint.facts}))
    facts = np.frombuffer(text.encode(), dtype=np.uint8)
    write_whole(folder / f"round-{checkpoint.round:06d}.npz", lambda aside: _dump(aside, checkpoint.arrays, facts))
    for old in _files(run)[:-_KEPT]:
        old.unlink(missing_ok=True)


def load_checkpoint(run: Path) -> Checkpoint | None:
    """The newest checkpoint that can be read; None where there never was one."""
    for path in reversed(_files(run)):
        try:
            with np.load(path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            facts = json.loads(arrays.pop(_FACTS).tobytes().decode())
        except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError):
            continue
        if facts["schema"] != VERSION:
            raise TraceError(
                f"{path}: checkpoint of schema {facts['schema']}, this version reads {VERSION}; start the run anew"
            )
        return Checkpoint(facts["round"], arrays, facts)
    if _files(run):
        raise TraceError(
            f"{run / _FOLDER}: no checkpoint in it can be read; remove the folder to start the run over from round 1"
        )
    return None


def checkpoint_round(run: Path) -> int:
    """Round of the newest checkpoint by its name, 0 where there is none."""
    files = _files(run)
    return int(files[-1].stem.removeprefix("round-")) if files else 0


def discard_checkpoints(run: Path) -> None:
    """Remove all checkpoints."""
    for path in _files(run):
        path.unlink(missing_ok=True)


def _files(run: Path) -> list[Path]:
    found = (run / _FOLDER).glob("round-*.npz")
    return sorted(path for path in found if path.stem.removeprefix("round-").isdecimal())


def _dump(path: Path, arrays: Mapping[str, NDArray[Any]], facts: NDArray[np.uint8]) -> None:
    with path.open("wb") as handle:
        np.savez(handle, **dict(arrays), **{_FACTS: facts})  # type: ignore[arg-type]
