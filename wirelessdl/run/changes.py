"""Whether a run may go on: what differs from when it was interrupted, and whether that matters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wirelessdl.errors import TraceError
from wirelessdl.run.world import World
from wirelessdl.trace.files import leaves, plain

_FREE = ("scenario.rounds",)
# what only touches tracing, or the last bits: may pass with force
_HARMLESS = ("scenario.description", "trace.", "learning.eval_every", "device", "threads", "packages.", "wirelessdl")


def refuse_changes(
    folder: Path,
    scenario: Mapping[str, Any],
    origin: Mapping[str, Any],
    world: World,
    now: Mapping[str, Any],
    *,
    force: bool,
) -> None:
    """Raise with the differing keys, unless they are harmless and forced."""
    # both through JSON's eyes: infinities are texts there
    kept = {**dict(leaves(plain(dict(scenario)))), **dict(leaves(_circumstances(origin)))}
    wanted = {**dict(leaves(plain(world.resolved.to_table()))), **dict(leaves(_circumstances(now)))}
    # rates that are stretched over all rounds would have been others from the first round on
    free = () if getattr(world.schedule, "spans_run", False) else _FREE
    changed = [key for key in sorted({*kept, *wanted}) if key not in free and kept.get(key) != wanted.get(key)]
    serious = [key for key in changed if not key.startswith(_HARMLESS)]
    if not changed or (force and not serious):
        return
    shown = "; ".join(f"{key} was {_show(kept.get(key))}, is {_show(wanted.get(key))}" for key in serious or changed)
    remedy = "start a new run instead" if serious else "--force goes on, but not to bit-identical tables"
    raise TraceError(f"{folder}: cannot go on as it was: {shown}; {remedy}")


def _circumstances(origin: Mapping[str, Any]) -> dict[str, Any]:
    return {key: origin[key] for key in ("device", "threads", "packages", "wirelessdl", "user_files")}


def _show(value: Any) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."
