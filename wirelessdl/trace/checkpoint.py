"""Checkpoints: the state that a run needs to continue exactly as if it had not been interrupted.

One npz file each, plain arrays and one JSON text, no pickle; written aside, synced, renamed. The newest and the one
before are kept, so that a file damaged later still leaves one to go on from. The text lists dtype, shape and SHA-256 of
every array, and its own digest stands beside it: a checkpoint whose content is not what was written is passed over.
`array_problem` compares the arrays with those of an engine: names, shapes, finite numbers.

A checkpoint may come from an untrusted source. Before it is opened its checksum is compared with checksums.txt; before
anything is unpacked, all members must be stored as they are, in no more bytes than the file has; before an array is
read, the text must describe models of nodes x parameters.
"""

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.errors import TraceError, quote
from wirelessdl.trace.files import open_regular, own_folder, plain, remove_asides, sha256_of, write_whole
from wirelessdl.trace.sink import Checksums, read_checksums
from wirelessdl.trace.soundness import is_count

VERSION = 3
_FOLDER, _MAX_CHECKPOINTS, _FACTS, _DIGEST = "checkpoint", 2, "facts", "facts_sha256"
# arrays that grow with what was met, may be negative, or are sums without bound
_GROWING = (
    *("ledger_own_counts", "ledger_coalition_counts", "ledger_link_number", "ledger_link_counts"),
    "multiplier_weights",
)
_SIGNED = ("gradient", "mixed", "remembered", "gram_heard", "attack_first")
_MAY_BE_INFINITE = ("ledger_own_total", "ledger_coalition_total", "multiplier_sum")
RELEASED = "released"  # what each node holds of what was sent, [K, m]: no state, but what a run may show


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
        return self.arrays.get(RELEASED, self.arrays.get("update_point", self.arrays.get("mixed")))


def save_checkpoint(run: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, and let go of all but the newest two."""
    folder = own_folder(run / _FOLDER)
    content = {name: _description(values) for name, values in checkpoint.arrays.items()}
    text = json.dumps(plain({"schema": VERSION, "round": checkpoint.round, "arrays": content, **checkpoint.facts}))
    facts = np.frombuffer(text.encode(), dtype=np.uint8)
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.uint8)
    path, sums = folder / f"round-{checkpoint.round:06d}.npz", Checksums(run)
    if path.exists():  # what replaces it is not what is listed: a process may be killed before it lists that
        sums.removed(path)
    stored: dict[str, Any] = {**checkpoint.arrays, _FACTS: facts, _DIGEST: digest}
    write_whole(path, lambda handle: np.savez(handle, **stored))
    sums.wrote(path)
    for old in _files(run)[:-_MAX_CHECKPOINTS]:
        old.unlink(missing_ok=True)
        sums.removed(old)


def load_checkpoints(run: Path) -> Iterator[Checkpoint]:
    """Whole checkpoints, the newest first. Raises where there are some and none of them is whole."""
    files = whole = 0
    for _, checkpoint in stored_checkpoints(run):
        files += 1
        if checkpoint is not None:
            whole += 1
            yield checkpoint
    if files and not whole:
        raise TraceError(
            f"{quote(run / _FOLDER)}: no checkpoint in it is whole; remove the folder to start the run over from "
            "round 1"
        )


def stored_checkpoints(run: Path) -> Iterator[tuple[Path, Checkpoint | None]]:
    """Every checkpoint file, the newest first, and what it holds; None where that is not what was written."""
    listed, _ = read_checksums(run)  # a killed process may have left the newest one out
    for path in reversed(_files(run)):
        yield path, _load(path, listed.get(f"{_FOLDER}/{path.name}"))


def load_checkpoint(run: Path) -> Checkpoint | None:
    """The newest whole checkpoint; None where there never was one."""
    return next(load_checkpoints(run), None)


def _load(path: Path, listed: str | None) -> Checkpoint | None:
    """None where its content is not what was written. listed: its digest, where there is one."""
    try:
        if listed is not None and sha256_of(path) != listed:
            return None
        with open_regular(path) as handle:
            if not _is_stored(handle):
                return None
            with np.load(handle, allow_pickle=False) as stored:
                text = stored[_FACTS].tobytes()
                facts = json.loads(text.decode())
                schema, round = facts["schema"], facts["round"]
                signed = _DIGEST in stored.files and stored[_DIGEST].tobytes() == hashlib.sha256(text).digest()
                if schema == VERSION and not (signed and _is_complete(facts)):
                    return None
                names = () if schema != VERSION else facts["arrays"]
                arrays = {name: stored[name] for name in names}
                known = {*arrays, _FACTS, _DIGEST} == {*stored.files}
    except (OSError, ValueError, EOFError, KeyError, TypeError, MemoryError, zipfile.BadZipFile, RuntimeError):
        return None
    if schema != VERSION and signed:
        raise TraceError(
            f"{quote(path)}: checkpoint of schema {schema}, this version reads {VERSION}; start the run anew"
        )
    if not known or {name: _description(values) for name, values in arrays.items()} != facts["arrays"]:
        return None
    if not isinstance(round, int) or f"round-{round:06d}" != path.stem:
        return None
    return Checkpoint(round, arrays, facts)


def _is_complete(facts: Any) -> bool:
    """Whether the facts are there that a session keeps beside the arrays, and models are nodes x parameters.

    Anything may stand in them: raises ValueError, TypeError or KeyError where they are something else altogether.
    """
    if not all(
        isinstance(facts.get(name), dict) and facts[name] for name in ("scenario", "origin", "checksums", "arrays")
    ):
        return False
    wall_s, layout = facts.get("wall_s"), facts.get("layout")
    if not all(map(is_count, [facts["scenario"]["scenario"]["rounds"], *facts["origin"].get("extended", [])])):
        return False
    if layout is not None:  # of a run in which something is sent
        nodes = facts["scenario"]["network"]["nodes"]
        shape = [nodes, sum(math.prod(int(size) for size in shape) for _, shape, _ in layout)]
        if any(
            facts["arrays"][name][1] != shape for name in ("mixed", "update_point", RELEASED) if name in facts["arrays"]
        ):
            return False
    return isinstance(wall_s, int | float) and 0 <= wall_s < math.inf


def _is_stored(handle: IO[bytes]) -> bool:
    """Whether an archive is as `save_checkpoint` writes it, not compressed: it unpacks to no more than its size."""
    with zipfile.ZipFile(handle) as archive:
        members = archive.infolist()
    handle.seek(0)
    size = os.fstat(handle.fileno()).st_size
    as_it_is = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    return as_it_is and sum(member.file_size for member in members) <= size


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
    sums.adopt(*(path for path, kept in stored_checkpoints(run) if kept is not None))


def _files(run: Path) -> list[Path]:
    found = (run / _FOLDER).glob("round-*.npz")
    return sorted(path for path in found if path.stem.removeprefix("round-").isdecimal() and path.is_file())


def array_problem(fresh: Mapping[str, NDArray[Any]], arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """What is wrong with kept arrays, in words; None where they are as those of a fresh engine."""
    for name in sorted({*fresh, *arrays}):
        if name not in arrays or name not in fresh:
            return f"{quote(name, 40)} is {'missing' if name in fresh else 'unknown'}"
        here, kept = fresh[name], arrays[name]
        shape = (*here.shape[:-1], *kept.shape[-1:]) if name in _GROWING else here.shape
        if kept.dtype != here.dtype or kept.shape != shape:
            return f"{name} is {kept.dtype} of shape {kept.shape}, expected {here.dtype} of shape {here.shape}"
        if kept.dtype.kind == "f" and np.isnan(kept).any():
            return f"{name} holds NaN"
        if kept.dtype.kind == "f" and name not in _MAY_BE_INFINITE and not np.isfinite(kept).all():
            return f"{name} holds infinities"
        if name not in _SIGNED and not name.startswith("update_") and (kept < 0).any():
            return f"{name} holds negative numbers"
    return None


def arrays_of(arrays: Mapping[str, NDArray[Any]], stage: str) -> dict[str, NDArray[Any]]:
    """The arrays of one stage, such as the ledger, by their names there."""
    return {name.removeprefix(f"{stage}_"): a for name, a in arrays.items() if name.startswith(f"{stage}_")}
