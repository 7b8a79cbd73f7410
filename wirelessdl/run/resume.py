"""Checks before a run is resumed: scenario, rounds, checkpoint, and changes since it was interrupted."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from wirelessdl.errors import ContractError, TraceError, quote
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.scenario.objects import UserPart, unnumbered
from wirelessdl.scenario.overrides import Overrides
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.checkpoint import Checkpoint, checkpoint_round, load_checkpoint
from wirelessdl.trace.files import RunLock, leaves, plain
from wirelessdl.trace.run import Run, open_run
from wirelessdl.trace.schema import SNAPSHOTS, TABLES
from wirelessdl.trace.sink import CHECKSUMS, Checksums, RunWriter, changed_documents

_NOT_FROM_IT = "; the run cannot go on from it"
_MAY_CHANGE = ("scenario.rounds",)
# what only touches tracing, or the last bits: may pass with force
_ONLY_TRACED = ("scenario.description", "trace.", "learning.eval_every", "learning.eval_samples")
_HARMLESS = (*_ONLY_TRACED, "device", "threads", "packages.", "wirelessdl")


@dataclass(frozen=True)
class Resumption:
    """A run to go on with: `stored` as it was, `scenario` as it will be, `home` where its files were found."""

    run: Run
    stored: Scenario
    scenario: Scenario
    home: Path
    done: int

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        rested = self.run.summary.get("stopped") and self.scenario.scenario.rounds == self.stored.scenario.rounds
        return bool(self.run.summary) and bool(rested or self.done >= self.scenario.scenario.rounds)


def resumption(
    path: str | Path,
    *,
    scenario: Scenario | None = None,
    overrides: Overrides = (),
    rounds: int | None = None,
    parts: Mapping[str, Any] | None = None,
    objects: Mapping[str, UserPart] | None = None,
) -> Resumption:
    """Look at a run; raises one clear line where it cannot go on. Rounds: as asked for, else the most named.

    parts: objects that the run was started with, by what a part is called; objects: by the names in its scenario.
    """
    from wirelessdl.trace.soundness import document_problems  # loads pyarrow.compute, which a new run can do without

    run = open_run(path)
    for problem in document_problems(run):
        raise TraceError(f"{quote(run.path)}: {problem}{_NOT_FROM_IT}")
    home = Path(run.provenance.get("folder", "") or run.path)
    origin = f"{run.path}/scenario.toml"
    stored = parse_scenario(run.scenario, origin=origin, folder=str(home), objects=objects)
    wanted = (scenario or stored).replace(overrides, **(parts or {}))
    if rounds is None and not any(str(one).partition("=")[0].strip() == "scenario.rounds" for one in overrides):
        rounds = max(wanted.scenario.rounds, stored.scenario.rounds)
    if rounds is not None:
        wanted = wanted.replace({"scenario.rounds": rounds})
    done = checkpoint_round(run.path)
    least = max(stored.scenario.rounds, done)
    if wanted.scenario.rounds < least:
        raise TraceError(
            f"{quote(run.path)}: rounds is {wanted.scenario.rounds}; must be at least {least}, as many as the run was "
            "started with: its privacy total counts them all, even where it stops early; leave --rounds out to go on"
        )
    return Resumption(run, stored, wanted, home, done)


def require_writable(folder: Path) -> None:
    """Raise where something in a run directory belongs to somebody else: before anything in it is changed."""
    places = [folder, *(path for path in sorted(folder.iterdir()) if path.is_dir())]
    for path in [*places, folder / CHECKSUMS]:
        mode = os.W_OK | os.R_OK | (os.X_OK if path in places else 0)
        if path.exists() and not os.access(path, mode):
            raise TraceError(
                f"{quote(path)}: cannot be written: permission denied; it belongs to another user, or its mode forbids "
                "it: the run goes on where its owner resumes it, or in a copy of your own"
            )


def sound_checkpoint(
    folder: Path, candidates: Sequence[Checkpoint], unsound: Callable[[Mapping[str, Any]], str | None]
) -> Checkpoint | None:
    """The newest checkpoint that an engine, which says what is unsound, can go on from; None where there never was."""
    problem = ""
    for kept in candidates:
        found = unsound(kept.arrays)
        if found is None:
            return kept
        problem = problem or found
    if problem:
        raise TraceError(
            f"{quote(folder)}: no checkpoint fits its scenario: {problem}; remove the folder checkpoint to start the "
            "run over from round 1"
        )
    return None


def require_as_it_was(
    run: Run,
    kept: Checkpoint | None,
    resolved: Scenario,
    now: Mapping[str, Any],
    clients: Mapping[str, Any],
    *,
    spans_run: bool,
    force: bool,
) -> None:
    """Raise unless tables, checkpoint and documents agree, and scenario and origin of today are the run's own.

    Changes that are harmless pass if they are forced. spans_run: the run is made for its number of rounds, so that with
    another it would have been another from the first round on.
    """
    scenario, origin = plain(run.scenario), run.provenance
    if kept is None:
        for name in TABLES.keys() - {*SNAPSHOTS}:
            run.up_to(0).table(name)  # raises where somebody put other files there
    else:
        _require_traced(run.up_to(kept.round), kept, clients)
        scenario, origin = kept.facts["scenario"], kept.facts["origin"]
    # both through JSON's eyes: infinities are texts there
    before = {**_leaves(scenario), **_circumstances(origin)}
    wanted = {**_leaves(resolved.to_table()), **_circumstances(now)}
    free = () if spans_run else _MAY_CHANGE
    changed = [key for key in sorted({*before, *wanted}) if key not in free and before.get(key) != wanted.get(key)]
    serious = [key for key in changed if not key.startswith(_HARMLESS)]
    if serious or (changed and not force):
        said = (
            f"{key} was {_format_value(before.get(key))}, is {_format_value(wanted.get(key))}"
            for key in serious or changed
        )
        remedy = "start a new run instead" if serious else "--force goes on, but not to bit-identical tables"
        raise TraceError(f"{run.path}: cannot go on as it was: {'; '.join(said)}; {remedy}")
    if kept is not None:
        require_same_values(origin, now)


def _require_traced(run: Run, kept: Checkpoint, clients: Mapping[str, Any]) -> None:
    """Raise unless the tables up to a checkpoint are whole and agree with it and with the data that is there now.

    clients: the clients table as this scenario and these data make it. Epsilon rests on the checkpoint's ledger, and on
    what is pending in it; the traces are a second witness of every release.
    """
    from wirelessdl.analysis.releases import data_split, share_problems
    from wirelessdl.analysis.verify import checkpoint_problems
    from wirelessdl.trace.soundness import require_sound

    require_sound(run, TABLES, _NOT_FROM_IT)
    for name in ("samples", "sampling_rate", "sensitivity", "epoch_rounds"):
        if not np.allclose(run.clients[name].to_numpy(), np.asarray(clients[name]), rtol=1e-9):
            raise TraceError(f"{quote(run.path)}/clients: {name} is not what data and partition give; it was changed")
    split = data_split(run)
    of_checkpoint = (f"the checkpoint of round {kept.round} {line}" for line in checkpoint_problems(kept, run, split))
    for problem in chain(share_problems(run, split), of_checkpoint):
        raise TraceError(f"{quote(run.path)}: {problem}; tables or checkpoint were changed: start the run anew")


def require_same_values(kept: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise where a part of learning that was handed in again gives other values; the replay asks all other parts."""
    before = dict(leaves(kept))
    for key, said in now.get("objects", {}).items():
        values, today = before.get(f"objects.{key}.values"), said.get("values", [])
        if isinstance(values, list) and today:
            number = min(len(values), len(today))  # more learning rates in a run that is extended
            if not np.allclose(np.array(values[:number], float), today[:number], rtol=1e-4, equal_nan=True):
                raise ContractError(
                    f"{key} gave other values than before the interruption, so the run cannot go on: hand in what the "
                    "run was started with"
                )


def complete_finished(run: Run) -> None:
    """A process may be killed between its last figures and its last word, or before it listed all of them: do so.

    Raises where scenario.toml, provenance.json or summary.json was changed since it was written.
    """
    changed = changed_documents(run.path)
    if changed and not (len(changed) == 1 and _is_last_provenance(run)):
        raise TraceError(f"{quote(run.path)}: {changed[0]}; restore it, or start a new run")
    said = run.provenance.get("state") == "done"
    if not changed and said and not (os.access(run.path, os.W_OK) and Checksums(run.path).is_left_open()):
        return
    with RunLock(run.path):
        writer = RunWriter(run.path)
        Checksums(run.path).adopt(run.path / "summary.json")
        if changed or not said:
            writer.provenance({**run.provenance, "state": "done"})
        writer.finish()


def _is_last_provenance(run: Run) -> bool:
    """Whether provenance.json is unlisted as a process leaves it that is killed right after its last word.

    All but how and when it ended is then what the last checkpoint says.
    """
    kept, said = load_checkpoint(run.path), run.provenance
    if kept is None or said.get("state") != "done":
        return False
    last = {key: said[key] for key in ("state", "finished", "wall_s") if key in said}
    return said == {**plain(kept.facts["origin"]), **last} and "provenance.json" in changed_documents(run.path)[0]


def _leaves(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Values by key; an object that was handed in again is judged by what it gives, not by its number."""
    found = dict(leaves(plain(scenario)))
    return {key: unnumbered(value) if isinstance(value, str) else value for key, value in found.items()}


def _circumstances(origin: Mapping[str, Any]) -> dict[str, Any]:
    """What a run was made with, by key."""
    return dict(leaves({key: origin.get(key) for key in ("device", "threads", "packages", "wirelessdl", "user_files")}))


def _format_value(value: Any) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."


def extensions(run: Run, kept: Checkpoint | None, rounds: int) -> list[int]:
    """Numbers of rounds that a run had been declared with before it was extended to so many.

    By its documents and by its checkpoint: a process may be killed when it has written only one of them anew.
    """
    declared = [run.scenario["scenario"]["rounds"], *run.provenance.get("extended", [])]
    if kept is not None:
        declared += [kept.facts["scenario"]["scenario"]["rounds"], *kept.facts["origin"].get("extended", [])]
    return sorted({number for number in declared if 0 < number < rounds})  # a run is never cut short


def extension_warning(before: list[int], rounds: int) -> str:
    """What an extension does to the total."""
    steps = " to ".join(str(number) for number in [*before, rounds])
    return (
        f"the run was extended from {steps} rounds, when results could be seen: its total is that of {rounds} rounds, "
        "and a guarantee only if it was never going to be extended further"
    )
