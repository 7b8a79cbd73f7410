"""Checkpoints: the state that a run needs to continue exactly as if it had not been interrupted.

One npz file each, plain arrays and one JSON text, no pickle; written aside, synced, renamed. The newest and the one
before are kept, so that a file damaged later still leaves one to go on from. The text lists dtype, shape and SHA-256 of
every array, and its own digest stands beside it: a checkpoint whose content is not what was written is passed over.
What the arrays must be (names, shapes, finite numbers) is checked by the engine that takes them.
"""

import hashlib
import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.errors import TraceError, shown
from wirelessdl.trace.checksums import Checksums
from wirelessdl.trace.files import open_regular, own_folder, plain, remove_asides, write_whole

VERSION = 2
_FOLDER, _KEPT, _FACTS, _DIGEST = "checkpoint", 2, "facts", "facts_sha256"
RELEASED = "released"  # what each node holds of what was sent, [K, m]: no state, but what a run may show
_LARGEST = 1 << 36  # bytes of one array: more is a header that lies


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """State after a round: arrays, and facts that JSON can hold."""

    round: int
    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]

    def state(self) -> "Checkpoint":
        """What a run goes on from."""
        return replace(self, arrays={name: values for name, values in self.arrays.items() if name != RELEASED})

    @property
    def released(self) -> NDArray[Any] | None:
        """What each node held after the round, before its own step, `[K, m]`; None where nothing is ever sent."""
        if self.facts.get("layout") is None:
            return None
        return self.arrays.get(RELEASED, self.arrays.get("mixed"))


def save_checkpoint(run: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, and let go of all but the newest two."""
    folder = own_folder(run / _FOLDER)
    content = {name: _description(values) for name, values in checkpoint.arrays.items()}
    text = json.dumps(plain({"schema": VERSION, "round": checkpoint.round, "arrays": content, **checkpoint.facts}))
    facts = np.frombuffer(text.encode(), dtype=np.uint8)
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.uint8)
    path = folder / f"round-{checkpoint.round:06d}.npz"
    write_whole(path, lambda handle: _dump(handle, {**checkpoint.arrays, _FACTS: facts, _DIGEST: digest}))
    sums = Checksums(run)
    sums.wrote(path)
    for old in _files(run)[:-_KEPT]:
        old.unlink(missing_ok=True)
        sums.removed(old)


def load_checkpoints(run: Path) -> Iterator[Checkpoint]:
    """Whole checkpoints, the newest first. Raises where there are some and none of them is whole."""
    files, found = _files(run), False
    for path in reversed(files):
        checkpoint = _load(path)
        if checkpoint is not None:
            found = True
            yield checkpoint
    if files and not found:
        raise TraceError(
            f"{shown(run / _FOLDER)}: no checkpoint in it is whole; remove the folder to start the run over from "
            "round 1"
        )


def whole_checkpoints(run: Path) -> list[tuple[Path, bool]]:
    """Every checkpoint file, and whether its content is what was written."""
    return [(path, _load(path) is not None) for path in _files(run)]


def load_checkpoint(run: Path) -> Checkpoint | None:
    """The newest whole checkpoint; None where there never was one."""
    return next(load_checkpoints(run), None)


def _load(path: Path) -> Checkpoint | None:
    """None where its content is not what was written."""
    try:
        with open_regular(path) as handle:
            if _declared_bytes(handle) > _LARGEST:
                return None
            with np.load(handle, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        text = arrays.pop(_FACTS).tobytes()
        if arrays.pop(_DIGEST).tobytes() != hashlib.sha256(text).digest():
            return None
        facts = json.loads(text.decode())
        schema, round = facts["schema"], facts["round"]
        if schema == VERSION and not _is_complete(facts):
            return None
    except (OSError, ValueError, EOFError, KeyError, TypeError, MemoryError, zipfile.BadZipFile, NotImplementedError):
        _refuse_older(path)
        return None
    if schema != VERSION:
        raise TraceError(
            f"{shown(path)}: checkpoint of schema {schema}, this version reads {VERSION}; start the run anew"
        )
    if {name: _description(values) for name, values in arrays.items()} != facts.get("arrays"):
        return None
    if not isinstance(round, int) or f"round-{round:06d}" != path.stem:
        return None
    return Checkpoint(round, arrays, facts)


def _refuse_older(path: Path) -> None:
    """Schema 1 had no digests: say so instead of calling it damaged."""
    try:
        with open_regular(path) as handle, np.load(handle, allow_pickle=False) as stored:
            old = _DIGEST not in stored.files and json.loads(stored[_FACTS].tobytes().decode())["schema"] == 1
    except Exception:  # whatever is wrong with it, it is not an old one
        return
    if old:
        raise TraceError(f"{shown(path)}: checkpoint of schema 1, this version reads {VERSION}; start the run anew")


def _is_complete(facts: Any) -> bool:
    """Whether the facts are there that a session keeps beside the arrays."""
    if not all(
        isinstance(facts.get(name), dict) and facts[name] for name in ("scenario", "origin", "checksums", "arrays")
    ):
        return False
    wall_s = facts.get("wall_s")
    return isinstance(wall_s, int | float) and 0 <= wall_s < math.inf


def _declared_bytes(handle: IO[bytes]) -> int:
    """What the members of an archive say they unpack to."""
    with zipfile.ZipFile(handle) as archive:
        total = sum(member.file_size for member in archive.infolist())
    handle.seek(0)
    return total


def _description(values: NDArray[Any]) -> list[Any]:
    """dtype, shape and digest, as JSON gives them back."""
    contiguous = np.ascontiguousarray(values)
    return [contiguous.dtype.str, list(values.shape), hashlib.sha256(contiguous.tobytes()).hexdigest()]


def checkpoint_round(run: Path) -> int:
    """Round of the newest checkpoint by its name, 0 where there is none."""
    files = _files(run)
    return int(files[-1].stem.removeprefix("round-")) if files else 0


def discard_checkpoints(run: Path, *, after: int = 0) -> None:
    """Forget checkpoints of rounds after this one and half-written ones, and list the others that are whole."""
    remove_asides(run / _FOLDER, r"round-\d+\.npz")
    gone = [path for path in _files(run) if int(path.stem.removeprefix("round-")) > after]
    for path in gone:
        path.unlink(missing_ok=True)
    sums = Checksums(run)
    sums.removed(*gone)
    sums.adopt(*(path for path, whole in whole_checkpoints(run) if whole))


def _files(run: Path) -> list[Path]:
    found = (run / _FOLDER).glob("round-*.npz")
    return sorted(path for path in found if path.stem.removeprefix("round-").isdecimal() and path.is_file())


def _dump(handle: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    np.savez(handle, **dict(arrays))  # type: ignore[arg-type]
